"""The loops of what is packed: panels, and tiles of results from them, as the docstring of `packed` shows. For sizes that packing doesn't
serve the tiles of the table stand beside them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Contract, dtype_of
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Value
from compiler.hir.memory import Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Tile, bytes_of, is_float
from compiler.schedule.few_columns import LEAST_DEPTH, PlacingFewColumns
from compiler.schedule.interior import all_hold, bounds_of, least_of, possible_elements
from compiler.schedule.packed import GROUP, TURNED, Bounds, Kept, Packing, ResultBlock, Side, TermBlock
from compiler.schedule.padded_windows import PlacingWindows
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import AxisPlan, Table

PART, TURNS = 4096, 4
"""Columns whose panels are used before others are copied, so that they stay in the last cache; terms that are written out in a row."""

LEAST_ROWS, LEAST_BYTES = 16, 4 << 10
"""Rows, and bytes of the operand of columns from which a product is packed: below, copying takes longer than it saves."""

ACROSS_LANES, ACROSS_DEPTH = 512, 2
"""These bytes and terms where the tiles of what isn't packed have terms in lanes: each of their sums is one across lanes."""

IN_PLACE_TILES = 512
"""So are these of columns that vectors read in place as well as from panels, in tiles of results: the second cache holds them with the
rows, and the larger a tile is, the fewer pages and lines of the cache are looked for in the time of a multiplication."""

LEAST_TASKS = 8
"""Blocks of rows at least, where rows have so many panels, so that threads have equal shares."""

LEAST_OTHERS = 8
"""Rows and columns from which other reductions are packed, whose operands can't be read in place as well as those of a product."""

LONG_SUM, CHUNKS = 8, 16
"""Blocks of terms from which threads share these where results are one block, and the most chunks of them."""


class PlacingPacked(PlacingFewColumns):
    """Places a field twice: packed, and by its table for sizes that packing doesn't serve."""

    def __init__(self, field: HirFunction, table: Table, packing: Packing) -> None:
        super().__init__(field, table, packing)
        self.of_columns = Affine()
        """Where the panels of columns begin in the memory of all."""
        self.group = AxisPlan(self.summed, "time", packing.dots.unit.terms if packing.dots else 1, digit=GROUP)
        self.before: dict[Side, Affine] = {packing.rows: Affine()}
        """Panels of a side before the first that is in that memory."""
        self.extents = dict(field.axes)
        self.widths: dict[Side, AxisPlan] = {}
        """Plans of tiles, which may be smaller than their panels."""
        self.whole: dict[Side, Value] = {}
        """Panels of a side before the first smaller tile."""
        for side in (packing.rows, packing.columns):
            for plan in (side.plan, side.low, self.square(side), self.group):
                self.declare(plan)

    def square(self, side: Side) -> AxisPlan:
        """Squares of the sum's axis, as a side turns them on the way into its panels."""
        return AxisPlan(self.summed, "time", *side.turns, digit=TURNED, simd=self.packing.columns.plan.simd)

    def of_many_columns(self, stores: Sequence[Target], root: TileRegion) -> None:
        with root.builder.branch(self.is_large(root.builder)) as (then, otherwise, _):
            region = TileRegion(then, made=dict(root.made))
            self.where_finite(self.checked_first(), stores, region, lambda region: self.packed(stores, region))
            PlacingWindows.begin(self, stores, TileRegion(otherwise, made=dict(root.made)))

    def checked_first(self) -> Value | None:
        """The operand whose elements must be finite, where a condition leaves products out: its zeros meet them."""
        return self.packing.filters.operand if self.product.guard is not None else None

    def is_large(self, b: Builder) -> Value:
        """Whether packing gains more than it takes."""
        terms, rows, columns = (
            b.product([b.count(self.field.axes[axis]) for axis in axes])
            for axes in (self.product.k, self.packing.rows.axes, self.packing.columns.axes)
        )
        if not self.product.sums:
            least = b.const(LEAST_OTHERS, "index")
            return b.op("and", b.op("ge", b.op("min", rows, columns), least), b.op("ge", terms, b.const(1, "index")))
        enough, deep = LEAST_BYTES // bytes_of(self.product.dtype), LEAST_DEPTH
        if any(plan.lanes > 1 for plan in self.table.plans if plan.axis in self.product.k):
            enough, deep = ACROSS_LANES // bytes_of(self.product.dtype), ACROSS_DEPTH
        if self.packing.in_place:
            enough = IN_PLACE_TILES * self.packing.rows.plan.tile * self.packing.columns.plan.tile
        result = b.op("ge", b.mul(terms, columns), b.const(enough, "index"))
        for number, some in (terms, deep), (rows, LEAST_ROWS):
            result = b.both(result, b.op("ge", number, b.const(some, "index")))
        return result

    def packed(self, stores: Sequence[Target], region: TileRegion) -> None:
        """Panels, then tiles of results; where results are one block, threads share chunks of a long sum instead of blocks."""
        b, sides = region.builder, (self.packing.rows, self.packing.columns)
        if self.packing.joined:
            together = b.product([b.count(self.field.axes[axis]) for axis in self.packing.joined])
            self.extents |= dict(zip(self.packing.joined, (Affine.of(1), Affine.of(together.name)), strict=True))
        self.cut(b)
        panels = {side: b.product(self.counts(side, b)) for side in sides}
        is_long = b.op("ge", self.blocks, b.const(LONG_SUM, "index"))
        for side, most in zip(sides, self.packing.block_panels, strict=True):
            is_long = b.op("and", is_long, b.op("le", panels[side], b.const(most, "index")))
        with b.branch(is_long) as (then, otherwise, _):
            self.in_chunks(stores, panels, region.inside(then, ()))
            self.in_parts(stores, panels, region.inside(otherwise, ()))

    def in_parts(self, stores: Sequence[Target], panels: Bounds, region: TileRegion) -> None:
        """In loops over the batch, parts of the columns and blocks of the sum: panels, then tiles of results, shared out in blocks."""
        b, rows, columns = region.builder, self.packing.rows, self.packing.columns
        part = b.op("min", panels[columns], b.const(PART // columns.plan.tile, "index"))
        self.allocate(panels[rows], part, b.select(b.op("gt", self.blocks, b.const(1, "index")), part, b.const(0, "index")), b)
        with ExitStack() as loops:
            region = self.inside_batch(loops, region)
            body, number = loops.enter_context(region.builder.loop("part", 0, Affine.of(self.quotient(b, panels[columns], part).name)))
            low = body.mul(number.variable, part)
            bounds = {rows: (b.const(0, "index"), panels[rows]), columns: (low, body.op("min", body.add(low, part), panels[columns]))}
            self.before[columns] = Affine.of(low.name)
            body, block = loops.enter_context(body.loop("block", 0, Affine.of(self.blocks.name)))
            region, terms = region.inside(body, ()), self.terms_of_block(block.variable, body)
            for side, (_, behind) in bounds.items():
                self.pack(side, behind, region, terms)
            with self.tasks(bounds, region, LEAST_TASKS) as (inner, task):
                self.add_up(stores, task, terms, inner)

    def in_chunks(self, stores: Sequence[Target], panels: Bounds, region: TileRegion) -> None:
        """In loops over the batch, chunks of the sum, whose number depends on extents alone; their sums are joined in order."""
        with ExitStack() as loops:
            region = self.inside_batch(loops, region)
            b, none = region.builder, region.builder.const(0, "index")
            share = self.quotient(b, self.blocks, b.const(CHUNKS, "index"))
            chunks = Affine.of(self.quotient(b, self.blocks, share).name)
            high, wide = (Affine.of(count.name) for count in panels.values())
            partial = b.alloc(Mem(self.product.dtype, (chunks, wide, high * self.packing.tile), align=64), "partial")

            def block_of(chunk: Affine) -> ResultBlock:
                return ResultBlock(dict.fromkeys(panels, none), panels, partial, (chunk,), dict.fromkeys(panels, Affine()))

            with b.loop("chunk", 0, chunks, place="thread") as (body, chunk):
                self.allocate(panels[self.packing.rows], panels[self.packing.columns], body.const(0, "index"), body)
                self.before[self.packing.columns] = Affine()
                first = body.mul(chunk.variable, share)
                with body.loop("block", first.name, body.op("min", body.add(first, share), self.blocks).name) as (inner, number):
                    one, terms = region.inside(inner, ()), self.terms_of_block(number.variable, inner, first)
                    for side, count in panels.items():
                        self.pack(side, count, one, terms)
                    self.add_up([], block_of(Affine.of(chunk.variable.name)), terms, one)
            for stand, place in self.tiles(stores, block_of(Affine()), region):
                before = place.builder.load(partial, self.place_of_sums(block_of(Affine()), stand))
                with place.builder.loop("chunk", 1, chunks, carried=[before]) as (body, chunk):
                    more = body.load(partial, self.place_of_sums(block_of(Affine.of(chunk.variable.name)), stand))
                    body.yield_(body.op(self.product.monoid, chunk.carried[0], more, flags=self.flags))
                self.give(stores, stand, chunk.results[0], place)

    def allocate(self, high: Value, wide: Value, waiting: Value, b: Builder) -> None:
        """One memory for panels of rows and columns, and behind them sums that wait of some of the latter: the C library keeps a single
        block of it from call to call, where it returns several to the system."""
        apart = [b.mul(self.depth, b.const(side.plan.tile, "index")) for side in (self.packing.rows, self.packing.columns)]
        apart.append(b.mul(high, b.const(self.packing.tile, "index")))
        ends = Affine.of(high.name), Affine.of(wide.name), Affine.of(waiting.name)
        self.behind: tuple[Affine, ...] = ends[:2]
        self.of_columns, self.before[self.packing.rows] = ends[0], Affine()
        dims = *(end + 1 for end in ends), Affine.of(b.op("max", *apart[1:]).name)
        strides = *(Affine.of(each.name) for each in apart), Affine.of(1)
        self.work = self.sums = b.alloc(Mem(self.packing.held, dims, strides, align=64), "work")

    def cut(self, b: Builder) -> None:
        """How many blocks the terms are cut in, which are equal and whole vectors; and where tiles are smaller than panels, so that they
        reach over the ends by as little as can be."""
        self.terms = b.product([b.count(self.field.axes[axis]) for axis in self.product.k])
        self.blocks = b.index(Affine.of(self.terms.name).ceildiv(self.packing.depth))
        self.depth = b.index(Affine.of(self.quotient(b, self.terms, self.blocks).name).ceildiv(self.packing.lanes) * self.packing.lanes)
        for side in (self.packing.rows, self.packing.columns):
            if side.low is not side.plan:
                extent, tile = self.extents[side.axes[-1]], side.plan.tile
                panels = extent.ceildiv(tile)
                self.whole[side] = b.count(panels - (panels * tile - extent).floordiv(tile - side.low.tile))

    def terms_of_block(self, number: Value, b: Builder, begin: Value | None = None) -> TermBlock:
        start = b.mul(number, self.depth)
        count = b.sub(b.op("min", b.add(start, self.depth), self.terms), start)
        first = b.op("eq", number, begin or b.const(0, "index"))
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

    def element(self, side: Side, number: Value, block: Affine, within: Affine, group: Affine = Affine()) -> list[Affine]:
        """The place of a panel's elements at a place along the sum: `within` a `block` of one vector, and at those of a `group`."""
        across, lanes, tile = self.width(side).within(), self.packing.lanes, side.plan.tile
        place = block * (tile * lanes)
        if side.along:
            place += across * lanes + within + group
        else:
            place += within.floordiv(self.group.tile) * (tile * self.group.tile) + across * self.group.tile + group
        panel = Affine.of(number.name) - self.before[side]
        return [panel, Affine(), Affine(), place] if side is self.packing.rows else [self.of_columns, panel, Affine(), place]

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
            if side in self.whole:
                smaller = b.op("max", b.sub(number, self.whole[side]), b.const(0, "index"))
                inner.starts[axis] -= Affine.of(smaller.name) * (side.plan.tile - side.low.tile)
            inner.forms[axis], inner.narrow[axis] = inner.starts[axis] + self.width(side).within(), self.width(side)
        return inner

    def is_stored(self, stores: Sequence[Target], stand: dict[Side, Value], region: TileRegion) -> Value | None:
        """Whether a tile has elements that are stored, as far as bounds of indices say; None where all tiles may have some."""
        region = self.inside_panels(stand, region, [axis for side in stand for axis in side.axes])
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
        plan, start = self.square(side), block.start
        extents = [region.builder.count(self.field.axes[axis]) for axis in self.product.k]
        places = region.builder.digits(start, extents[1:])
        with region.builder.loop("panel", self.before[side], behind.name, place="thread") as (body, loop):
            for inner, masked in self.at_panels({side: loop.variable}, region.inside(body, ()), side.axes):
                for place in self.by_guard(side, inner):
                    first, behind_last = self.possible_terms(side, loop.variable, block, place)
                    begin, whole, every = first.floordiv(plan.tile), behind_last.floordiv(plan.tile), behind_last.ceildiv(plan.tile)
                    for low, high in [(begin, every)] if masked or plan.tile == 1 else [(begin, whole), (whole, every)]:
                        carried = places if len(places) > 1 else []
                        with place.builder.loop(self.summed, low, high, carried=carried) as (copying, term):
                            at_term = place.inside(copying, self.product.k)
                            along = plan.form(term.variable.name)
                            forms = [Affine.of(digit.name) for digit in term.carried] if carried else [along + start.name]
                            at_term.forms.update(zip(self.product.k, forms, strict=True))
                            at_term.narrow.update({axis: plan if axis == self.summed else AxisPlan(axis) for axis in self.product.k})
                            if high is every and plan.tile > 1:
                                at_term.masks[self.summed] = self.field.axes[self.summed]
                            value = copying.cast(self.operand(side, at_term), mem_of(self.work).dtype)
                            own = plan.within() if self.packing.dots and not side.along else Affine()
                            parts = (Affine.of(term.variable.name), plan.within()) if side.along else (Affine(), along - own)
                            copying.store(self.work, value, self.element(side, loop.variable, *parts, own))
                            if carried:
                                copying.yield_(*copying.next_digits(term.carried, extents))
            self.look_through(side, loop.variable, block, body)

    def look_through(self, side: Side, panel: Value, block: TermBlock, b: Builder) -> None:
        """Notes what is to be known of a panel that was copied."""

    def possible_terms(self, side: Side, panel: Value, block: TermBlock, region: TileRegion) -> tuple[Affine, Affine]:
        """The first term of a block that a panel may have as its guard says, and the term behind the last one."""
        guard, (summed, *others) = self.product.guard, self.product.k
        if guard is None or others or side is self.packing.filters:
            return Affine(), Affine.of(block.count.name)
        inner = self.inside_panels({side: panel}, region, side.axes)
        extents = {name: extent for axis in side.axes for name, extent in self.variables_of(self.table[axis], inner)}
        forms = [self.form(form.without(summed), inner) + Affine.of(summed) * form.coefficient(summed) for form in bounds_of(guard) or ()]
        return possible_elements(forms, summed, extents, block.start, block.count, region.builder)

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
        value = self.masked(value, 0, [self.summed], region) if self.packing.dots else value
        if self.product.guard is None or self.product.guard in region.certain or side.operand is self.packing.filters.operand:
            return value
        condition = self.value(self.product.guard, region)
        return region.builder.select(condition, value, region.builder.const(0.0 if is_float(dtype_of(value)) else 0, dtype_of(value)))

    # ---- products ----

    @contextmanager
    def tasks(
        self, bounds: Mapping[Side, tuple[Value, Value]], region: TileRegion, least: int = 1
    ) -> Iterator[tuple[TileRegion, ResultBlock]]:
        """The body of a loop that threads share, over blocks of equal height and width of the panels between these, and its block. `least`:
        how many blocks there are of rows, if these have so many panels."""
        b, columns = region.builder, self.packing.columns
        lengths = {side: b.sub(behind, before) for side, (before, behind) in bounds.items()}
        most = {side: b.const(most, "index") for side, most in zip(bounds, self.packing.block_panels, strict=True)}
        if least > 1:
            (side, height), *_ = most.items()
            most[side] = b.op("min", height, b.op("max", b.op("div", lengths[side], b.const(least, "index")), b.const(1, "index")))
        blocks = {side: self.quotient(b, count, most[side]) for side, count in lengths.items()}
        with b.loop("task", 0, Affine.of(b.product(list(blocks.values())).name), place="thread") as (body, task):
            numbers = dict(zip(bounds, body.digits(task.variable, [blocks[columns]]), strict=True))

            def begin(side: Side, number: Value) -> Value:
                return body.add(bounds[side][0], body.op("div", body.mul(number, lengths[side]), blocks[side]))

            low = {side: begin(side, number) for side, number in numbers.items()}
            high = {side: begin(side, body.add(number, body.const(1, "index"))) for side, number in numbers.items()}
            yield region.inside(body, ()), self.block_of_results(low, high, body)

    def block_of_results(self, low: Bounds, high: Bounds, b: Builder) -> ResultBlock:
        return ResultBlock(low, high, self.sums, self.behind, dict(self.before))

    def add_up(self, stores: Sequence[Target], block: ResultBlock, terms: TermBlock, region: TileRegion) -> None:
        """All tiles of a block of results, with the sums of these terms."""
        for stand, place in self.tiles(stores, block, region):
            kept = block.sums, self.place_of_sums(block, stand)
            self.finish(stores, stand, kept, self.tile(stand, kept, terms, place), terms, place)

    def tiles(self, stores: Sequence[Target], block: ResultBlock, region: TileRegion) -> Iterator[tuple[dict[Side, Value], TileRegion]]:
        """The bodies of loops over the tiles of a block that have elements that are stored, and their panels."""
        rows, columns = self.packing.rows, self.packing.columns
        with (
            region.builder.loop("column", block.low[columns].name, block.high[columns].name) as (body, column),
            body.loop("row", block.low[rows].name, block.high[rows].name) as (b, row),
            ExitStack() as row_body,
        ):
            stand = {rows: row.variable, columns: column.variable}
            stored = self.is_stored(stores, stand, region.inside(b, ()))
            if stored is not None:
                b, _, _ = row_body.enter_context(b.branch(stored))
            for body in self.by_size(stand, [*stand], region.inside(b, ())):
                yield stand, region.inside(body, ())

    def place_of_sums(self, block: ResultBlock, stand: Mapping[Side, Value]) -> list[Affine]:
        """Where the sums of a tile are."""
        (rows, row), (columns, column) = ((side, Affine.of(panel.name) - block.first[side]) for side, panel in stand.items())
        return self.sums_at(block, column, row * rows.plan.tile + self.width(rows).within(), self.width(columns).within())

    def sums_at(self, block: ResultBlock, panel: Affine, row: Affine, across: Affine) -> list[Affine]:
        """Where a block has sums, by the panel of columns and the row behind its first, and the column in that panel."""
        return [*block.leading, panel, row * self.packing.columns.plan.tile + across]

    def finish(
        self, stores: Sequence[Target], stand: dict[Side, Value], kept: Kept, total: Value, terms: TermBlock, region: TileRegion
    ) -> None:
        """What depends on the sums of a tile behind the last terms; behind others they wait, and always if there is nothing."""
        if not stores:
            region.builder.store(kept[0], total, kept[1])
            return
        with region.builder.branch(terms.last) as (then, otherwise, _):
            otherwise.store(kept[0], total, kept[1])
            self.give(stores, stand, total, region.inside(then, ()))

    def give(self, stores: Sequence[Target], stand: dict[Side, Value], total: Value, region: TileRegion) -> None:
        """What depends on all sums of a tile."""
        for place, _ in self.at_panels(stand, region, [axis for side in stand for axis in side.axes]):
            place.made[self.product.result] = total
            for store in stores:
                self.finish_target(store, place, {}, begun=False)

    @property
    def flags(self) -> tuple[str, ...]:
        """Of sums that are joined."""
        return tuple(flag for flag in self.product.flags if flag == "reassoc") if is_float(self.product.dtype) else ()

    def width(self, side: Side) -> AxisPlan:
        """The plan of a tile along a side: its panel's, or less of that at the end."""
        return self.widths.get(side, side.plan)

    def by_size(self, stand: dict[Side, Value], sides: Sequence[Side], region: TileRegion) -> Iterator[Builder]:
        """The bodies of branches: where tiles along each side are as large as its panels, and where they are smaller."""
        if not sides:
            yield region.builder
        elif sides[0] not in self.whole:
            yield from self.by_size(stand, sides[1:], region)
        else:
            b, side = region.builder, sides[0]
            number = b.digits(stand[side], self.counts(side, b)[1:])[-1]
            with b.branch(b.op("ge", number, self.whole[side])) as (then, otherwise, _):
                for body, plan in (then, side.low), (otherwise, side.plan):
                    self.widths[side] = plan
                    yield from self.by_size(stand, sides[1:], region.inside(body, ()))
            del self.widths[side]

    def tile(self, stand: dict[Side, Value], kept: Kept, block: TermBlock, region: TileRegion) -> Value:
        """The sums of a tile behind this block, of which those before it are `kept`."""
        b, product = region.builder, self.product
        type = Tile(product.dtype, tuple((name, Affine.of(extent)) for side in stand for name, extent, _ in self.width(side).digits()))
        (nothing,) = identity_of(product.monoid, [product.dtype])
        # a tile of one vector has two sums by turns: its few additions would wait for one another
        parts = 2 if product.sums and self.width(self.packing.columns).registers == 1 else 1
        (terms,) = (self.possible_terms(side, panel, block, region) for side, panel in stand.items() if side is not self.packing.filters)
        sums = self.add_terms(stand, [b.const(nothing, type)] * parts, block, *terms, region)
        total = sums[0] if parts == 1 else b.op(product.monoid, *sums, flags=self.flags)
        with b.branch(block.first, [type]) as (then, otherwise, chosen):
            then.yield_(total)
            otherwise.yield_(otherwise.op(product.monoid, otherwise.load(*kept), total, flags=self.flags))
        return chosen.results[0]

    def add_terms(
        self, stand: dict[Side, Value], sums: Sequence[Value], block: TermBlock, first: Affine, behind: Affine, region: TileRegion
    ) -> list[Value]:
        """The sums, one or two that take terms by turns, and the terms of a block from the `first` on."""
        unit = self.group.tile
        count = (behind - first).ceildiv(unit)
        whole = count.floordiv(TURNS)
        for low, high, turns in (Affine(), whole, TURNS), (whole * TURNS, count, 1):
            with region.builder.loop(self.summed, low, high, carried=sums) as (body, loop):
                after = list(loop.carried)
                for turn in range(turns):
                    term, own = first + (Affine.of(loop.variable.name) * turns + turn) * unit, turn % len(sums)
                    after[own] = self.with_term(stand, after[own], block.start, term, region.inside(body, ()))
                body.yield_(*after)
            sums = loop.results
        return list(sums)

    def with_term(self, stand: dict[Side, Value], sums: Value, start: Value, term: Affine, region: TileRegion) -> Value:
        """The sums and the term with this number behind `start`."""
        b, product, block = region.builder, self.product, term.floordiv(self.packing.lanes)
        read = {side: self.read(side, stand[side], start, block, term - block * self.packing.lanes, b) for side in stand}
        if product.term is None:
            left, right = read.values()
            return self.multiplied(left, right, sums, b)
        place = region.inside(b, (*product.m, *product.n, *product.k))
        for axis in product.k if len(product.k) == 1 else ():
            place.forms[axis], place.narrow[axis] = term + start.name, AxisPlan(axis)
        place.made.update({side.operand: value for side, value in read.items()})
        return b.op(product.monoid, sums, self.value(product.term, place), flags=product.flags if is_float(product.dtype) else ())

    def multiplied(self, left: Value, right: Value, sums: Value, b: Builder) -> Value:
        return b.emit(Contract(a=left, b=right, accumulator=sums, to=self.product.dtype, flags=self.product.flags)).result

    def read(self, side: Side, panel: Value, start: Value, block: Affine, within: Affine, b: Builder) -> Value:
        """What a tile takes of a side for the term at a place along the sum: `within` a `block` of one vector."""
        return b.load(self.work, self.element(side, panel, block, within, self.group.within()))
