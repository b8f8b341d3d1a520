"""Large products on the CPU. A product that reads its operands in place is slow once they outgrow the nearest cache: rows lie far apart,
and rows of some lengths share few cache sets. So operands are copied to panels first, each as tall or as wide as the tile of results that
the registers hold, and each read from its beginning to its end:

    for each block of the summed axis
        copy the panels of both operands                          (threads share the panels)
        for each block of rows and of columns                     (threads share the blocks)
            for each panel of columns, for each panel of rows: a tile of results

Sums of a tile wait in a buffer for the next block of the summed axis; the last block computes what the stores want of them. The order of a
sum depends on extents alone.

Where columns are few, vectors along them would be mostly empty: then they lie along the sum, if rows lie along it, too.

Small products keep the tiles of their table: both are in the function, and sizes decide as it runs."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from attrs import evolve

from compiler.analysis.recognise import ProductSum, instructions_below, product_sum
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Contract, Reduce, Scan
from compiler.hir.instruction import Value
from compiler.hir.memory import Alloc, Load, Store
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Tile, bytes_of, is_float
from compiler.machines.cpu import CpuMachine
from compiler.schedule.field import contiguity
from compiler.schedule.place import Placing
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import AxisPlan, Table, Unheeded
from compiler.schedule.tile_sizes import named, tile_of, untiled
from runtime.records import frozen

VECTORS = 2
"""Vectors of a panel of columns."""

MOST_ROWS = 8
"""Rows of a tile: enough multiplications in flight to hide their latency; more only make the ends of matrices dearer."""

PANEL_BYTES = 1024
"""Bytes of a row of a panel along the summed axis: a panel of rows and one of columns then stay in the nearest cache."""

GROUP = 4
"""Panels of columns that are copied together, so that a row is read in longer stretches."""

BLOCK_ROWS, BLOCK_COLUMNS = 128, 128
"""Rows and columns of a block of results: the panels of its rows stay in the second cache, and threads have blocks enough to share."""

LEAST_DEPTH, LEAST_ROWS = 32, 16
"""Terms of a sum and rows from which a product is packed: below, copying takes longer than it saves."""

LEAST_WHOLE, LEAST_RAGGED = 10 << 10, 1 << 10
"""So are elements of the operand of its columns: many where these are whole panels, few where their end would be masked term by term."""

MOST_THIN, THIN_ROWS = 6, 8
"""Columns up to which vectors lie along the sum instead, and the rows that such a loop takes together."""

PANEL, WIDE, TURNED, TOGETHER, THIN = "p", "w", "t", "u", "v"
"""Digits of axes: inside a panel, inside a group of panels, of squares that are turned, of terms that are added in one iteration, and of
rows where columns are few."""


@frozen(eq=False)
class Side:
    """One operand. `axes` are those that it gives the result; `plan` cuts the last of them in panels. `along`: its memory is contiguous
    along the sum, and its panels hold a vector along the sum for each row in turn. `turns` are the registers and lanes along the sum in
    which it is copied."""

    operand: Value
    axes: tuple[str, ...]
    plan: AxisPlan
    along: bool
    turns: tuple[int, int]
    group: int = 1
    """Panels that are copied together."""

    @property
    def copies(self) -> AxisPlan:
        return self.plan if self.group == 1 else evolve(self.plan, registers=self.plan.registers * self.group, digit=WIDE)


@frozen(eq=False)
class Packing:
    """How the product of a field is packed."""

    product: ProductSum
    op: Contract
    rows: Side
    columns: Side
    depth: int
    """Terms of a block of the sum, at most."""
    lanes: int
    thin: Table | None
    """For few columns: vectors along the sum, as the rows lie."""
    block: tuple[int, int] = (BLOCK_ROWS, BLOCK_COLUMNS)
    """Rows and columns of a block of results."""

    def __str__(self) -> str:
        rows, columns = (f"{side.plan.tile} along {side.plan.axis}" for side in (self.rows, self.columns))
        summed = self.product.k[0]
        results = "" if self.block == (BLOCK_ROWS, BLOCK_COLUMNS) else f", of results {self.block[0]} by {self.block[1]}"
        few = "" if self.thin is None else f"\n  few: at most {MOST_THIN} along {self.columns.plan.axis} take vectors along {summed}"
        return f"  large: panels of {rows} and of {columns}, blocks of {self.depth} along {summed}{results}{few}"


def packing_for(field: HirFunction, table: Table, machine: CpuMachine) -> Packing | None:
    """How a field is packed that computes one product and stores what depends on it; None for others."""
    sums = [op for op in field.body.body if isinstance(op, Contract | Reduce | Scan)]
    stores = [op for op in field.body.body if isinstance(op, Store)]
    product = product_sum(sums[0]) if len(sums) == 1 else None
    if product is None or not isinstance(product.op, Contract) or not (product.m and product.n) or len(product.k) != 1:
        return None
    if "reassoc" not in product.op.flags or any(w.serial or w.unroll is not None or w.vectorize is not None for w in field.loops):
        return None
    outer = {*product.batch, *product.m, *product.n}
    if any({name for name, _ in field.scope().axes_of(*store.index)} != outer for store in stores):
        return None
    if any(isinstance(op, Alloc) for op in field.body.body):
        return None
    width = machine.lanes(product.op.to)
    if width < 2 or any(plan.lanes not in (1, width) for plan in table.plans):
        return None
    written = contiguity(field, [*stores])
    (summed,) = product.k

    def side(operand: Value, axes: Sequence[str], registers: int, lanes: int) -> Side:
        last = max(axes, key=lambda axis: (lanes > 1 and written[axis] > 0, axes.index(axis)))
        others = tuple(axis for axis in axes if axis != last)
        votes = contiguity(field, [op for op in instructions_below(operand) if isinstance(op, Load)])
        lies_along = votes[summed] > 0
        wished = tile_of(field).get(last, registers * lanes)
        registers = next((number for number in range(registers, 0, -1) if wished % (number * lanes) == 0), registers)
        plan = AxisPlan(last, "time", registers, lanes, digit=PANEL)
        turns = (1, 1) if not lies_along else (1, width) if lanes == 1 else (width, 1)
        group = GROUP if lanes > 1 and not (others or lies_along) else 1
        return Side(operand, (*others, last), plan, lies_along and lanes == 1, turns, group)

    ours = [(product.a, product.m), (product.b, product.n)]
    if max(written[axis] for axis in product.m) > max(written[axis] for axis in product.n):
        ours.reverse()
    rows = min(MOST_ROWS, (machine.vector_registers - 1 - VECTORS) // VECTORS)
    depth = PANEL_BYTES // bytes_of(product.op.to) // width * width
    down, across = side(*ours[0], rows, 1), side(*ours[1], VECTORS, width)
    return Packing(product, product.op, down, across, depth, width, _thin(table, down, across, summed, width) if down.along else None)


def _thin(table: Table, rows: Side, columns: Side, summed: str, width: int) -> Table:
    """Several rows at a time, each with a vector along the sum, for one column after the other."""
    lanes = {summed: (1, width), rows.plan.axis: (THIN_ROWS, 1)}
    last = (columns.plan.axis, summed)
    plans = [AxisPlan(p.axis, p.place if p.axis not in last else "time", *lanes.get(p.axis, (1, 1)), digit=THIN) for p in table.plans]
    return Table(sorted(plans, key=lambda plan: last.index(plan.axis) if plan.axis in last else -1))


def in_blocks(field: HirFunction, packing: Packing) -> tuple[Packing, tuple[Unheeded, ...]]:
    """The packing with blocks as `@tile` says, and what of that can't be."""
    sizes, left = tile_of(field), dict[str, str]()

    def size(axis: str, usual: int, unit: int) -> int:
        if axis in sizes and sizes[axis] % unit:
            left[axis] = f"blocks have multiples of {unit} along it"
        return usual if axis in left else sizes.get(axis, usual)

    (summed,) = packing.product.k
    high, wide = (
        size(side.plan.axis, usual, side.plan.tile)
        for side, usual in ((packing.rows, BLOCK_ROWS), (packing.columns, BLOCK_COLUMNS))
    )
    packing = evolve(packing, depth=size(summed, packing.depth, packing.lanes), block=(high, wide))
    why = [Unheeded("tile", named(field, axis), why) for axis, why in left.items()]
    return packing, (*why, *untiled(field, {packing.rows.plan.axis, packing.columns.plan.axis, summed}, "matrices follow one another"))


class PlacingPacked(Placing):
    """Places a field twice: packed, and by its table for sizes that packing doesn't serve."""

    def __init__(self, field: HirFunction, table: Table, packing: Packing) -> None:
        super().__init__(field, table)
        self.packing = packing
        self.begins: dict[Side, Affine] = {}
        """Where the panels of a side begin in the memory of all."""
        (self.summed,) = packing.product.k
        for side in (packing.rows, packing.columns):
            for plan in (side.plan, side.copies, AxisPlan(self.summed, "time", *side.turns, digit=TURNED)):
                self.declare(plan)
        for plan in packing.thin.plans if packing.thin is not None else ():
            self.declare(plan)
        self.declare(AxisPlan(self.summed, "time", packing.lanes, digit=TOGETHER))

    def begin(self, stores: Sequence[Target], root: TileRegion) -> None:
        thin = self.packing.thin
        if thin is None:
            self.packed_or_not(stores, root)
            return
        with root.builder.branch(self.is_thin(root.builder)) as (then, otherwise, _):
            table, self.table = self.table, thin
            self.produce(stores, TileRegion(then, made=dict(root.made)), {})
            self.table = table
            self.packed_or_not(stores, TileRegion(otherwise, made=dict(root.made)))

    def packed_or_not(self, stores: Sequence[Target], root: TileRegion) -> None:
        with root.builder.branch(self.is_large(root.builder)) as (then, otherwise, _):
            self.packed(stores, TileRegion(then, made=dict(root.made)))
            self.produce(stores, TileRegion(otherwise, made=dict(root.made)), {})

    def is_thin(self, b: Builder) -> Value:
        """Whether there are too few columns to make vectors of."""
        extents = self.field.axes
        result = b.op("le", b.index(extents[self.packing.columns.plan.axis]), b.const(MOST_THIN, "index"))
        for axis, least in (self.summed, LEAST_DEPTH), (self.packing.rows.plan.axis, THIN_ROWS):
            result = b.both(result, b.op("ge", b.index(extents[axis]), b.const(least, "index")))
        return result

    def is_large(self, b: Builder) -> Value:
        """Whether packing gains more than it takes."""
        rows, columns = self.field.axes[self.packing.rows.plan.axis], self.packing.columns
        width, tile = self.field.axes[columns.plan.axis], columns.plan.tile
        depth = b.count(self.field.axes[self.summed])
        ragged = b.op("lt", b.index(width.floordiv(tile) * tile), b.index(width))
        least = b.select(ragged, b.const(LEAST_RAGGED, "index"), b.const(LEAST_WHOLE, "index"))
        result = b.op("ge", b.mul(depth, b.count(width)), least)
        for number, least_of in (depth, LEAST_DEPTH), (b.count(rows), LEAST_ROWS):
            result = b.both(result, b.op("ge", number, b.const(least_of, "index")))
        return result

    def packed(self, stores: Sequence[Target], region: TileRegion) -> None:
        """Buffers, and in loops over the batch and the blocks of the sum: panels, then the products."""
        b, packing = region.builder, self.packing
        one = b.const(1, "index")
        extent = b.index(self.field.axes[self.summed])
        blocks = b.index(self.field.axes[self.summed].ceildiv(packing.depth))
        depth = b.index(Affine.of(self.quotient(b, extent, blocks).name).ceildiv(packing.lanes) * packing.lanes)
        sides = {side: b.product(self.counts(side, b)) for side in (packing.rows, packing.columns)}
        # one memory for all: the C library keeps a single block of it from call to call, where it returns several to the system
        size = Affine()
        for side, panels in sides.items():
            self.begins[side] = size
            size = size + (Affine.of(panels.name) + side.group - 1) * (packing.depth * side.plan.tile)
        self.sums = size
        kept = b.mul(b.product(list(sides.values())), b.op("min", b.sub(blocks, one), one))
        size = size + Affine.of(kept.name) * (packing.rows.plan.tile * packing.columns.plan.tile)
        self.work = b.alloc(Mem(packing.op.to, (b.named(size),), align=64), "work")
        with ExitStack() as loops:
            for axis in packing.product.batch:
                body, loop = loops.enter_context(region.builder.loop(f"{axis}0", 0, self.field.axes[axis]))
                region = region.inside(body, (axis,))
                region.forms[axis] = Affine.of(loop.variable.name)
            body, loop = loops.enter_context(region.builder.loop("block", 0, Affine.of(blocks.name)))
            region = region.inside(body, ())
            start = body.mul(loop.variable, depth)
            count = body.sub(body.op("min", body.add(start, depth), extent), start)
            for side, number in sides.items():
                self.pack(side, number, region, start, count)
            first = body.op("eq", loop.variable, body.const(0, "index"))
            last = body.op("eq", loop.variable, body.sub(blocks, one))
            self.multiply(stores, sides, region, count, first, last)

    def quotient(self, b: Builder, number: Value, divisor: Value) -> Value:
        """Rounded up."""
        return b.op("div", b.sub(b.add(number, divisor), b.const(1, "index")), divisor)

    # ---- panels ----

    def counts(self, side: Side, b: Builder) -> list[Value]:
        """Of each axis of a side: its elements, of the last one its panels."""
        *others, last = (self.field.axes[axis] for axis in side.axes)
        return [b.count(extent) for extent in (*others, last.ceildiv(side.plan.tile))]

    def element(self, side: Side, plan: AxisPlan, number: Value, block: Affine, within: Affine) -> list[Affine]:
        """The place of a panel's elements, or of those of a group of panels, at a place along the sum: `within` a `block` of one vector."""
        panel, across = Affine.of(number.name), plan.within()
        if side.group > 1 and plan.digit == WIDE:
            inner = Affine.of(plan.digits()[0][0]).floordiv(side.plan.registers)
            panel, across = panel * side.group + inner, across - inner * side.plan.tile
        lanes, tile = self.packing.lanes, side.plan.tile
        place = block * (tile * lanes) + (across * lanes + within if side.along else within * tile + across)
        return [self.begins[side] + panel * (tile * self.packing.depth) + place]

    def at_panels(self, panels: dict[Side, Value], region: TileRegion, axes: Sequence[str]) -> Iterator[tuple[TileRegion, bool]]:
        """The bodies of a branch at these panels, one for each side: where all are whole, and where the ends of axes are masked."""
        b = region.builder
        inner = region.inside(b, axes)
        whole: Value | None = None
        for side, panel in panels.items():
            *others, last = zip(side.axes, b.digits(panel, self.counts(side, b)[1:]), strict=True)
            inner.forms.update({axis: Affine.of(number.name) for axis, number in others})
            axis, number = last
            inner.forms[axis], inner.narrow[axis] = side.plan.form(number.name), side.plan
            behind = b.index((Affine.of(number.name) + 1) * side.plan.tile)
            whole = b.both(whole, b.op("le", behind, b.index(self.field.axes[axis])))
        assert whole is not None
        with b.branch(whole) as (then, otherwise, _):
            yield inner.inside(then, axes), False
            edge = inner.inside(otherwise, axes)
            edge.masks.update({side.axes[-1]: self.field.axes[side.axes[-1]] for side in panels})
            yield edge, True

    def pack(self, side: Side, panels: Value, region: TileRegion, start: Value, count: Value) -> None:
        """Copies a block of an operand to its panels."""
        plan, group = AxisPlan(self.summed, "time", *side.turns, digit=TURNED), evolve(side, plan=side.copies)
        terms = Affine.of(count.name)
        with region.builder.loop("panel", 0, Affine.of(panels.name).ceildiv(side.group), place="thread") as (body, loop):
            for inner, masked in self.at_panels({group: loop.variable}, region.inside(body, ()), side.axes):
                whole, every = terms.floordiv(plan.tile), terms.ceildiv(plan.tile)
                for low, high in [(Affine(), every)] if masked or plan.tile == 1 else [(Affine(), whole), (whole, every)]:
                    with inner.builder.loop(self.summed, low, high) as (copying, term):
                        place = inner.inside(copying, (self.summed,))
                        along = plan.form(term.variable.name)
                        place.forms[self.summed], place.narrow[self.summed] = along + start.name, plan
                        if high is every and plan.tile > 1:
                            place.masks[self.summed] = self.field.axes[self.summed]
                        value = copying.cast(self.value(side.operand, place), self.packing.op.to)
                        parts = (Affine.of(term.variable.name), plan.within()) if side.along else (Affine(), along)
                        copying.store(self.work, value, self.element(side, side.copies, loop.variable, *parts))

    # ---- products ----

    def multiply(
        self, stores: Sequence[Target], panels: dict[Side, Value], region: TileRegion, terms: Value, first: Value, last: Value
    ) -> None:
        """All tiles of results, in blocks of equal height and width that threads share."""
        b, rows, columns = region.builder, self.packing.rows, self.packing.columns
        sizes = dict(zip((rows, columns), self.packing.block, strict=True))
        blocks = {side: b.index(Affine.of(count.name).ceildiv(sizes[side] // side.plan.tile)) for side, count in panels.items()}
        each = {side: self.quotient(b, panels[side], blocks[side]) for side in panels}
        with b.loop("task", 0, Affine.of(b.product(list(blocks.values())).name), place="thread") as (body, task):
            numbers = dict(zip(panels, body.digits(task.variable, [blocks[columns]]), strict=True))
            low = {side: body.mul(number, each[side]) for side, number in numbers.items()}
            high = {side: body.op("min", body.add(low[side], each[side]), panels[side]) for side in panels}
            with (
                body.loop("column", low[columns].name, high[columns].name) as (wide, column),
                wide.loop("row", low[rows].name, high[rows].name) as (b, row),
            ):
                stand = {rows: row.variable, columns: column.variable}
                kept = self.kept(row.variable, column.variable, panels[columns], b)
                total = self.tile(stand, kept, terms, first, b)
                with b.branch(last) as (then, otherwise, _):
                    otherwise.store(self.work, total, kept)
                    for place, _ in self.at_panels(stand, region.inside(then, ()), (*rows.axes, *columns.axes)):
                        place.made[self.packing.product.result] = total
                        for store in stores:
                            self.finish_target(store, place, {}, begun=False)

    def kept(self, row: Value, column: Value, columns: Value, b: Builder) -> list[Affine]:
        """The place of a tile's sums between two blocks."""
        across, down = self.packing.columns.plan, self.packing.rows.plan
        number = Affine.of(b.add(b.mul(row, columns), column).name)
        return [self.sums + number * (down.tile * across.tile) + down.within() * across.tile + across.within()]

    def tile(self, stand: dict[Side, Value], kept: list[Affine], count: Value, first: Value, b: Builder) -> Value:
        """The sums of a tile behind this block."""
        op = self.packing.op
        type = Tile(op.to, tuple((name, Affine.of(extent)) for side in stand for name, extent, _ in side.plan.digits()))
        zero = b.const(0.0 if is_float(op.to) else 0, type)
        lanes, together = self.packing.lanes, f"{self.summed}_{TOGETHER}"
        whole = Affine.of(count.name).floordiv(lanes)
        sums = zero
        for low, high, over in (Affine(), whole, (together,)), (whole * lanes, Affine.of(count.name), ()):
            with b.loop(self.summed, low, high, carried=[sums]) as (body, term):
                block = Affine.of(term.variable.name) if over else Affine.of(term.variable.name).floordiv(lanes)
                within = Affine.of(together) if over else Affine.of(term.variable.name) - block * lanes
                left, right = [body.load(self.work, self.element(side, side.plan, panel, block, within)) for side, panel in stand.items()]
                product = Contract(a=left, b=right, accumulator=term.carried[0], over=over, to=op.to, flags=op.flags)
                body.yield_(body.emit(product).result)
            sums = term.results[0]
        with b.branch(first, [type]) as (then, otherwise, chosen):
            then.yield_(sums)
            flags = ("reassoc",) if is_float(op.to) else ()
            otherwise.yield_(otherwise.op("add", otherwise.load(self.work, kept), sums, flags=flags))
        return chosen.results[0]
