"""The loops of what is packed: panels, and tiles of results from them, as the docstring of `packed` shows. For sizes that packing doesn't
serve the tiles of the table stand beside them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Contract, dtype_of
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Store
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Tile, is_float
from compiler.schedule.interior import all_hold, bounds_of, least_of
from compiler.schedule.packed import THIN_ROWS, TOGETHER, TURNED, WIDE, Packing, Side
from compiler.schedule.padded_windows import PlacingWindows, padded_windows
from compiler.schedule.pieces import single
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import AxisPlan, Table
from runtime.records import evolve, frozen

STRETCH = 128
"""Panels of columns that are copied before they are used: they stay in the last cache."""

LEAST_DEPTH, LEAST_ROWS = 32, 16
"""Terms of a sum and rows from which a product is packed: below, copying takes longer than it saves."""

LEAST_OTHERS = 8
"""Rows and columns from which other reductions are packed, whose operands can't be read in place as well as those of a product."""

Bounds = Mapping[Side, Value]
"""The panels of each side at which a block of results begins, or ends."""

LEAST_WHOLE, LEAST_RAGGED = 10 << 10, 1 << 10
"""So are elements of the operand of its columns: many where these are whole panels, few where their end would be masked term by term."""


@frozen(eq=False)
class TermBlock:
    """Terms of a sum from `start` on; whether they are the `first`, and the `last`."""

    start: Value
    count: Value
    first: Value
    last: Value


class PlacingPacked(PlacingWindows):
    """Places a field twice: packed, and by its table for sizes that packing doesn't serve."""

    def __init__(self, field: HirFunction, table: Table, packing: Packing) -> None:
        super().__init__(field, table, padded_windows(field, table))
        self.packing, self.product = packing, packing.product
        self.begins: dict[Side, Affine] = {}
        """Where the panels of a side begin in the memory of all."""
        self.before: dict[Side, Affine] = {packing.rows: Affine()}
        """Panels of a side before the first that is in that memory."""
        self.summed = self.product.k[0]
        self.extents = dict(field.axes)
        self.widths: dict[Side, AxisPlan] = {}
        """Plans of tiles that are narrower than their panels."""
        self.copied: Value | None = None
        """Where few columns are."""
        for side in (packing.rows, packing.columns):
            for plan in (side.plan, side.copies, AxisPlan(self.summed, "time", *side.turns, digit=TURNED)):
                self.declare(plan)
        for plan in (plan for _, few in packing.few for plan in few.plans):
            self.declare(plan)
        self.declare(AxisPlan(self.summed, "time", packing.lanes, digit=TOGETHER))

    def begin(self, stores: Sequence[Target], root: TileRegion) -> None:
        table = self.table
        with ExitStack() as branches:
            for most, few in self.packing.few:
                then, otherwise, _ = branches.enter_context(root.builder.branch(self.has_few(most, root.builder)))
                self.table, region = few, TileRegion(then, made=dict(root.made))
                self.copied = self.copy_columns(most, region)
                column = few[self.packing.columns.plan.axis]
                if column.lanes > 1:
                    # one tile is all columns
                    region.axes = frozenset({column.axis})
                    region.forms[column.axis], region.masks[column.axis] = column.within(), self.field.axes[column.axis]
                self.produce(stores, region, {})
                self.table, self.copied, root = table, None, TileRegion(otherwise, made=dict(root.made))
            self.packed_or_not(stores, root)

    def copy_columns(self, most: int, region: TileRegion) -> Value | None:
        """All columns, of which there are at most so many, as their vectors lie: along the sum, or across with zeros behind the last, so
        that none is masked term by term. None where they are others in each iteration of a loop around them."""
        b, columns = region.builder, self.packing.columns
        if self.product.batch or len(columns.axes) > 1 or dtype_of(columns.operand) != self.product.dtype:
            return None
        axis, plan = columns.plan.axis, self.table[columns.plan.axis]
        terms, extent = self.field.axes[self.summed], self.field.axes[axis]
        across = plan.lanes > 1
        copied = b.alloc(Mem(self.product.dtype, (terms, Affine.of(most)) if across else (Affine.of(most), terms), align=64), "columns")
        with ExitStack() as loops:
            inner = region.inside(b, (self.summed, axis))
            for name, high in [(self.summed, terms)] if across else [(axis, extent), (self.summed, terms)]:
                body, loop = loops.enter_context(inner.builder.loop(f"{name}0", 0, high))
                inner.builder, inner.forms[name], inner.narrow[name] = body, Affine.of(loop.variable.name), AxisPlan(name)
            if across:
                inner.forms[axis], inner.masks[axis] = plan.within(), extent
            place = [inner.forms[self.summed], inner.forms[axis]]
            inner.builder.store(copied, self.value(columns.operand, inner), place if across else place[::-1])
        return copied

    def make(self, op: Instruction, value: Value, region: TileRegion) -> Value:
        columns = self.packing.columns
        if self.copied is None or value is not columns.operand:
            return super().make(op, value, region)
        axis = columns.plan.axis
        if self.table[axis].lanes > 1:
            return region.builder.load(self.copied, [region.forms[self.summed], self.table[axis].within()])
        where = self.mask(region, [self.summed], None)
        return region.builder.load(self.copied, [region.forms[axis], region.forms[self.summed]], where)

    def packed_or_not(self, stores: Sequence[Target], root: TileRegion) -> None:
        guarded = self.packing.filters.operand if self.product.guard is not None else None
        with root.builder.branch(self.is_large(root.builder)) as (then, otherwise, _):
            self.where_finite(guarded, stores, TileRegion(then, made=dict(root.made)), lambda region: self.packed(stores, region))
            super().begin(stores, TileRegion(otherwise, made=dict(root.made)))

    def has_few(self, most: int, b: Builder) -> Value:
        """Whether there are at most so many columns, and rows and terms enough to take several at a time."""
        extents = self.field.axes
        result = b.op("le", b.index(extents[self.packing.columns.plan.axis]), b.const(most, "index"))
        for axis, least in (self.summed, LEAST_DEPTH), (self.packing.rows.plan.axis, THIN_ROWS):
            result = b.both(result, b.op("ge", b.index(extents[axis]), b.const(least, "index")))
        return result

    def is_large(self, b: Builder) -> Value:
        """Whether packing gains more than it takes."""
        terms, rows, columns = (
            b.product([b.count(self.field.axes[axis]) for axis in axes])
            for axes in (self.product.k, self.packing.rows.axes, self.packing.columns.axes)
        )
        if not self.product.sums:
            least = b.const(LEAST_OTHERS, "index")
            return b.op("and", b.op("ge", b.op("min", rows, columns), least), b.op("ge", terms, b.const(1, "index")))
        width, tile = self.field.axes[self.packing.columns.plan.axis], self.packing.columns.plan.tile
        ragged = b.op("lt", b.index(width.floordiv(tile) * tile), b.index(width))
        least = b.select(ragged, b.const(LEAST_RAGGED, "index"), b.const(LEAST_WHOLE, "index"))
        result = b.op("ge", b.mul(terms, columns), least)
        for number, enough in (terms, LEAST_DEPTH), (rows, LEAST_ROWS):
            result = b.both(result, b.op("ge", number, b.const(enough, "index")))
        return result

    def packed(self, stores: Sequence[Target], region: TileRegion) -> None:
        """Buffers, and in loops over the batch, the blocks of the sum and stretches of columns: panels, then the products."""
        b, packing = region.builder, self.packing
        rows, columns = packing.rows, packing.columns
        one = b.const(1, "index")
        if packing.joined:
            together = b.product([b.count(self.field.axes[axis]) for axis in packing.joined])
            self.extents |= dict(zip(packing.joined, (Affine.of(1), Affine.of(together.name)), strict=True))
        blocks = self.blocks_of_terms(b)
        panels = {side: b.product(self.counts(side, b)) for side in (rows, columns)}
        stretch = b.op("min", panels[columns], b.const(STRETCH, "index"))
        # one memory for all: the C library keeps a single block of it from call to call, where it returns several to the system
        size = Affine()
        for side, number in (rows, panels[rows]), (columns, stretch):
            self.begins[side] = size
            size = size + (Affine.of(number.name) + side.group - 1) * (packing.depth * side.plan.tile)
        sums = size
        kept = b.mul(b.product(list(panels.values())), b.op("min", b.sub(blocks, one), one))
        size = size + Affine.of(kept.name) * (rows.plan.tile * columns.plan.tile)
        self.work = b.alloc(Mem(self.product.dtype, (b.named(size),), align=64), "work")
        with ExitStack() as loops:
            region = self.inside_batch(loops, region)
            body, loop = loops.enter_context(region.builder.loop("block", 0, Affine.of(blocks.name)))
            region = region.inside(body, ())
            terms = self.terms_of_block(loop.variable, body)
            self.pack(rows, panels[rows], region, terms)
            stretches = Affine.of(panels[columns].name).ceildiv(STRETCH)
            body, loop = loops.enter_context(region.builder.loop("stretch", 0, stretches))
            region = region.inside(body, ())
            before = body.mul(loop.variable, body.const(STRETCH, "index"))
            self.before[columns] = Affine.of(before.name)
            behind = body.op("min", body.add(before, body.const(STRETCH, "index")), panels[columns])
            self.pack(columns, behind, region, terms)
            bounds = {rows: (body.const(0, "index"), panels[rows]), columns: (before, behind)}
            with self.tasks(bounds, region) as (inner, low, high):
                self.multiply(stores, low, high, sums, panels[columns], terms, inner)

    def blocks_of_terms(self, b: Builder) -> Value:
        """How many blocks the terms are cut in, which are equal and whole vectors."""
        self.terms = b.product([b.count(self.field.axes[axis]) for axis in self.product.k])
        self.blocks = b.index(Affine.of(self.terms.name).ceildiv(self.packing.depth))
        self.depth = b.index(Affine.of(self.quotient(b, self.terms, self.blocks).name).ceildiv(self.packing.lanes) * self.packing.lanes)
        return self.blocks

    def terms_of_block(self, number: Value, b: Builder) -> TermBlock:
        start = b.mul(number, self.depth)
        count = b.sub(b.op("min", b.add(start, self.depth), self.terms), start)
        first = b.op("eq", number, b.const(0, "index"))
        return TermBlock(start, count, first, b.op("eq", number, b.sub(self.blocks, b.const(1, "index"))))

    def inside_batch(self, loops: ExitStack, region: TileRegion) -> TileRegion:
        """The body of the loops over the batch."""
        for axis in self.product.batch:
            body, loop = loops.enter_context(region.builder.loop(f"{axis}0", 0, self.field.axes[axis]))
            region = region.inside(body, (axis,))
            region.forms[axis] = Affine.of(loop.variable.name)
        return region

    def quotient(self, b: Builder, number: Value, divisor: Value) -> Value:
        """Rounded up."""
        return b.op("div", b.sub(b.add(number, divisor), b.const(1, "index")), divisor)

    # ---- panels ----

    def counts(self, side: Side, b: Builder) -> list[Value]:
        """Of each axis of a side: its elements, of the last one its panels."""
        *others, last = (self.extents[axis] for axis in side.axes)
        return [b.count(extent) for extent in (*others, last.ceildiv(side.plan.tile))]

    def element(self, side: Side, plan: AxisPlan, number: Value, block: Affine, within: Affine) -> list[Affine]:
        """The place of a panel's elements, or of those of a group of panels, at a place along the sum: `within` a `block` of one vector."""
        panel, across = Affine.of(number.name), plan.within()
        if side.group > 1 and plan.digit == WIDE:
            inner = Affine.of(plan.digits()[0][0]).floordiv(side.plan.registers)
            panel, across = panel * side.group + inner, across - inner * side.plan.tile
        lanes, tile = self.packing.lanes, side.plan.tile
        place = block * (tile * lanes) + (across * lanes + within if side.along else within * tile + across)
        return [self.begins[side] + (panel - self.before[side]) * (tile * self.packing.depth) + place]

    def at_panels(self, panels: dict[Side, Value], region: TileRegion, axes: Sequence[str]) -> Iterator[tuple[TileRegion, bool]]:
        """The bodies of a branch at these panels, one for each side: where all are whole, and where the ends of axes are masked."""
        b = region.builder
        inner = self.inside_panels(panels, region, axes)
        whole: Value | None = None
        for side in panels:
            axis = side.axes[-1]
            behind = b.index(inner.starts[axis] + self.width(side).tile)
            whole = b.both(whole, b.op("le", behind, b.index(self.extents[axis])))
        assert whole is not None
        with b.branch(whole) as (then, otherwise, _):
            yield inner.inside(then, axes), False
            edge = inner.inside(otherwise, axes)
            edge.masks.update({side.axes[-1]: self.extents[side.axes[-1]] for side in panels})
            yield edge, True

    def inside_panels(self, panels: dict[Side, Value], region: TileRegion, axes: Sequence[str]) -> TileRegion:
        """The region with the axes of the sides at these panels."""
        b = region.builder
        inner = region.inside(b, axes)
        for side, panel in panels.items():
            *others, (axis, number) = zip(side.axes, b.digits(panel, self.counts(side, b)[1:]), strict=True)
            inner.forms.update({other: Affine.of(digit.name) for other, digit in others})
            inner.starts[axis] = Affine.of(number.name) * side.plan.tile
            inner.forms[axis], inner.narrow[axis] = inner.starts[axis] + self.width(side).within(), self.width(side)
        return inner

    def is_stored(self, stores: Sequence[Target], region: TileRegion) -> Value | None:
        """Whether a tile has elements that are stored, as far as bounds of indices say; None where all tiles may have some."""
        extents = {name: extent for plan in self.table.plans for name, extent in self.variables_of(plan, region)}
        result: Value | None = None
        for store in stores:
            bounds = bounds_of(store.where) if isinstance(store, Store) and store.where is not None else None
            least = [least_of(-self.form(form, region), extents) for form in bounds or ()]
            if not least or None in least:
                return None
            reached = all_hold([-form for form in least if form is not None], region.builder)
            result = reached if result is None else region.builder.op("or", result, reached)
        return result

    def pack(self, side: Side, behind: Value, region: TileRegion, block: TermBlock) -> None:
        """Copies a block of an operand to its panels, up to that with the number `behind`."""
        plan, group = AxisPlan(self.summed, "time", *side.turns, digit=TURNED), evolve(side, plan=side.copies)
        low, high = (panels.ceildiv(side.group) for panels in (self.before[side], Affine.of(behind.name)))
        terms, start = Affine.of(block.count.name), block.start
        extents = [region.builder.count(self.field.axes[axis]) for axis in self.product.k]
        places = region.builder.digits(start, extents[1:])
        with region.builder.loop("panel", low, high, place="thread") as (body, loop):
            for inner, masked in self.at_panels({group: loop.variable}, region.inside(body, ()), side.axes):
                for place in self.by_guard(side, inner):
                    whole, every = terms.floordiv(plan.tile), terms.ceildiv(plan.tile)
                    for low, high in [(Affine(), every)] if masked or plan.tile == 1 else [(Affine(), whole), (whole, every)]:
                        carried = places if len(places) > 1 else []
                        with place.builder.loop(self.summed, low, high, carried=carried) as (copying, term):
                            at_term = place.inside(copying, self.product.k)
                            along = plan.form(term.variable.name)
                            forms = [Affine.of(digit.name) for digit in term.carried] if carried else [along + start.name]
                            at_term.forms.update(zip(self.product.k, forms, strict=True))
                            at_term.narrow.update({axis: plan if axis == self.summed else AxisPlan(axis) for axis in self.product.k})
                            if high is every and plan.tile > 1:
                                at_term.masks[self.summed] = self.field.axes[self.summed]
                            value = copying.cast(self.operand(side, at_term), self.product.dtype)
                            parts = (Affine.of(term.variable.name), plan.within()) if side.along else (Affine(), along)
                            copying.store(self.work, value, self.element(side, side.copies, loop.variable, *parts))
                            if carried:
                                copying.yield_(*self.next_digits(term.carried, extents, copying))

    def by_guard(self, side: Side, region: TileRegion) -> Iterator[TileRegion]:
        """The bodies of a branch: where all products of a panel are terms, and where some aren't; the region itself if all always are."""
        guard = self.product.guard
        if guard is None or side.operand is self.packing.filters.operand or bounds_of(guard) is None:
            yield region
            return
        with region.builder.branch(self.holds([guard], region)) as (then, otherwise, _):
            whole = region.inside(then, ())
            whole.certain |= {guard}
            yield whole
            yield region.inside(otherwise, ())

    def operand(self, side: Side, region: TileRegion) -> Value:
        """What a side brings: zeros where no term is."""
        value = self.value(side.operand, region)
        if self.product.guard is None or self.product.guard in region.certain or side.operand is self.packing.filters.operand:
            return value
        condition = self.value(self.product.guard, region)
        return region.builder.select(condition, value, region.builder.const(0.0 if is_float(dtype_of(value)) else 0, dtype_of(value)))

    def next_digits(self, digits: Sequence[Value], extents: Sequence[Value], b: Builder) -> list[Value]:
        """The digits of the next number in the mixed radix of these extents."""
        result: list[Value] = []
        one, zero = b.const(1, "index"), b.const(0, "index")
        turned: Value | None = None
        for digit, extent in zip(reversed(digits), reversed(extents), strict=True):
            after = b.add(digit, one) if turned is None else b.select(turned, b.add(digit, one), digit)
            turned = b.op("eq", after, extent) if turned is None else b.op("and", turned, b.op("eq", after, extent))
            # nothing is left of the first: the loop ends with it
            result.insert(0, after if digit is digits[0] else b.select(turned, zero, after))
        return result

    # ---- products ----

    @contextmanager
    def tasks(
        self, bounds: Mapping[Side, tuple[Value, Value]], region: TileRegion
    ) -> Iterator[tuple[TileRegion, Bounds, Bounds]]:
        """The body of a loop that threads share, over blocks of equal height and width of the panels between these; where a block begins
        and ends."""
        b, columns = region.builder, self.packing.columns
        sizes = dict(zip((self.packing.rows, columns), self.packing.block, strict=True))
        lengths = {side: b.sub(behind, before) for side, (before, behind) in bounds.items()}
        blocks = {side: b.index(Affine.of(count.name).ceildiv(sizes[side] // side.plan.tile)) for side, count in lengths.items()}
        each = {side: self.quotient(b, lengths[side], blocks[side]) for side in bounds}
        with b.loop("task", 0, Affine.of(b.product(list(blocks.values())).name), place="thread") as (body, task):
            numbers = dict(zip(bounds, body.digits(task.variable, [blocks[columns]]), strict=True))
            low = {side: body.add(bounds[side][0], body.mul(number, each[side])) for side, number in numbers.items()}
            high = {side: body.op("min", body.add(low[side], each[side]), bounds[side][1]) for side in bounds}
            yield region.inside(body, ()), low, high

    def multiply(
        self, stores: Sequence[Target], low: Bounds, high: Bounds, sums: Affine, wide: Value, terms: TermBlock, region: TileRegion
    ) -> None:
        """All tiles of a block of results, whose sums wait behind `sums`, where `wide` panels of columns have theirs."""
        rows, columns = self.packing.rows, self.packing.columns
        with (
            region.builder.loop("column", low[columns].name, high[columns].name) as (body, column),
            body.loop("row", low[rows].name, high[rows].name) as (b, row),
            ExitStack() as row_body,
        ):
            stand = {rows: row.variable, columns: column.variable}
            stored = self.is_stored(stores, self.inside_panels(stand, region.inside(b, ()), (*rows.axes, *columns.axes)))
            if stored is not None:
                b, _, _ = row_body.enter_context(b.branch(stored))
            for body in self.by_width(stand, region.inside(b, ())):
                kept = self.kept(sums, row.variable, column.variable, wide, body)
                total = self.tile(stand, (self.work, kept), terms, region.inside(body, ()))
                with body.branch(terms.last) as (then, otherwise, _):
                    otherwise.store(self.work, total, kept)
                    for place, _ in self.at_panels(stand, region.inside(then, ()), (*rows.axes, *columns.axes)):
                        place.made[self.product.result] = total
                        for store in stores:
                            self.finish_target(store, place, {}, begun=False)

    def width(self, side: Side) -> AxisPlan:
        """The plan of a tile along a side: its panel's, or less of that at the end."""
        return self.widths.get(side, side.plan)

    def by_width(self, stand: dict[Side, Value], region: TileRegion) -> Iterator[Builder]:
        """The bodies of a branch: where one vector holds what is left of the columns, and where it takes all of a panel's."""
        b, columns = region.builder, self.packing.columns
        *_, axis = columns.axes
        one = single(columns.plan)
        left = self.extents[axis] - self.inside_panels({columns: stand[columns]}, region, columns.axes).starts[axis]
        with b.branch(b.op("le", b.index(left), b.const(one.tile, "index"))) as (then, otherwise, _):
            self.widths[columns] = one
            yield then
            del self.widths[columns]
            yield otherwise

    def kept(self, sums: Affine, row: Value, column: Value, columns: Value, b: Builder) -> list[Affine]:
        """The place of a tile's sums between two blocks."""
        across, down = self.packing.columns.plan, self.packing.rows.plan
        number = Affine.of(b.add(b.mul(row, columns), column).name)
        place = down.within() * across.tile + self.width(self.packing.columns).within()
        return [sums + number * (down.tile * across.tile) + place]

    def turns(self, parts: int) -> int:
        """Terms that are written out one after the other, of so many sums."""
        return self.packing.lanes

    def tile(self, stand: dict[Side, Value], kept: tuple[Value, Sequence[Affine]], block: TermBlock, region: TileRegion) -> Value:
        """The sums of a tile behind this block, of which those before it are `kept`."""
        b, product, lanes = region.builder, self.product, self.packing.lanes
        type = Tile(product.dtype, tuple((name, Affine.of(extent)) for side in stand for name, extent, _ in self.width(side).digits()))
        (nothing,) = identity_of(product.monoid, [product.dtype])
        none = b.const(nothing, type)
        together = f"{self.summed}_{TOGETHER}"
        terms, start = Affine.of(block.count.name), block.start
        # a tile of one vector has two sums by turns: its few additions would wait for one another
        parts = 2 if product.sums and self.widths else 1
        sums, per = [none] * parts, self.turns(parts)
        whole = terms.floordiv(per)
        for low, high, turns in ((Affine(), whole, per), (whole * per, terms, 1)) if per > 1 else ((Affine(), terms, 1),):
            with b.loop(self.summed, low, high, carried=sums) as (body, loop):
                number, after, inner = Affine.of(loop.variable.name), list(loop.carried), region.inside(body, ())
                if turns == lanes and parts == 1 and product.sums:
                    after = [self.joined(stand, after[0], start, number, Affine.of(together), inner, (together,))]
                elif turns == lanes and parts == 1:
                    with body.loop(f"{self.summed}1", 0, lanes, carried=after) as (each, within):
                        place = inner.inside(each, ())
                        each.yield_(self.joined(stand, within.carried[0], start, number, Affine.of(within.variable.name), place))
                    after = within.results
                else:
                    for turn in range(turns):
                        term = number * turns + turn
                        vector = number if turns == lanes else term.floordiv(lanes)
                        after[turn % parts] = self.joined(stand, after[turn % parts], start, vector, term - vector * lanes, inner)
                body.yield_(*after)
            sums = loop.results
        flags = tuple(flag for flag in product.flags if flag == "reassoc") if is_float(product.dtype) else ()
        total = sums[0] if parts == 1 else b.op(product.monoid, *sums, flags=flags)
        with b.branch(block.first, [type]) as (then, otherwise, chosen):
            then.yield_(total)
            otherwise.yield_(otherwise.op(product.monoid, otherwise.load(*kept), total, flags=flags))
        return chosen.results[0]

    def joined(
        self,
        stand: dict[Side, Value],
        sums: Value,
        start: Value,
        block: Affine,
        within: Affine,
        region: TileRegion,
        over: Sequence[str] = (),
    ) -> Value:
        """The sums and one term more, or those along `over`."""
        b, product = region.builder, self.product
        sides = {side: self.element(side, self.width(side), panel, block, within) for side, panel in stand.items() if side in self.begins}
        parts = {side: b.load(self.work, place) for side, place in sides.items()}
        if product.term is None:
            left, right = parts.values()
            return b.emit(Contract(a=left, b=right, accumulator=sums, over=tuple(over), to=product.dtype, flags=product.flags)).result
        place = region.inside(b, (*product.m, *product.n, *product.k))
        for axis in product.k if len(product.k) == 1 else ():
            place.forms[axis], place.narrow[axis] = block * self.packing.lanes + within + start.name, AxisPlan(axis)
        place.made.update({side.operand: value for side, value in parts.items()})
        flags = product.flags if is_float(product.dtype) else ()
        return b.op(product.monoid, sums, self.value(product.term, place), flags=flags)
