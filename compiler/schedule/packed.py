"""Large products on the CPU, and what has their form: distances, windows with several filters, any reduction of what two operands give
together. One that reads its operands in place is slow once they outgrow the nearest cache: rows lie far apart, and rows of some lengths
share few cache sets. So operands are copied to panels first, each as tall or as wide as the tile of results that the registers hold, and
each read from its beginning to its end:

    for each part of the columns, for each block of the terms
        copy the panels of rows, and those of columns             (threads share the panels)
        for each block of rows and of columns                     (threads share the blocks)
            for each panel of columns, for each panel of rows: a tile of sums

The sums of a tile are in registers from the first term of a block to the last. Behind the last block of terms they go to what the stores
want of them, behind others they wait. The order of a sum depends on extents alone. Rows end in some tiles of two rows fewer, which reach
over the last row by one at most.

Terms along several axes, as those of a window, lie one behind the other in a panel. Products that count only where a condition holds have
zeros in their panels elsewhere. A zero times a number that isn't finite is none, so such numbers are looked for first.

Where columns are few, copies of the rows cost more than they save: rows are read in place, by the tiles of the table or, where columns lie
along the sum, each for all columns at once. Where vectors along so few columns would be mostly empty, they lie along the sum, if rows lie
along it, too.

Small products keep the tiles of their table, and so do larger ones whose vectors read an operand in place as well as from panels, while the
second cache holds it: both are in the function, and sizes decide as it runs."""

from collections.abc import Mapping, Sequence

from compiler.analysis.recognise import instructions_below
from compiler.hir.affine import Affine
from compiler.hir.core import Cast, Contract, Reduce, Scan, dtype_of
from compiler.hir.instruction import Value
from compiler.hir.memory import Alloc, Load, Store
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.machines.cpu import CpuMachine
from compiler.machines.units.dots import DotUnit
from compiler.passes.joined_axes import inside
from compiler.schedule.combination import PairReduction, combination
from compiler.schedule.field import contiguity
from compiler.schedule.padded import PaddedSource, dense_axes, padded_source
from compiler.schedule.pieces import lower, single
from compiler.schedule.table import SIMD, AxisPlan, Table, Unheeded
from compiler.schedule.tile_sizes import named, tile_of, untiled
from runtime.records import evolve, frozen

PANEL_BYTES = 2560
"""Bytes of a row of a panel along the summed axis: most of a panel of columns stays in the nearest cache, and sums wait seldom."""

BLOCK_ROWS, BLOCK_COLUMNS = 128, 128
"""Rows and columns of a block of results: the panels of its rows stay in the second cache, and threads have blocks enough to share."""

FEW_ROWS = 4
"""Rows of a tile where registers are few and terms aren't products: they need some before they are added."""

MOST_THIN, THIN_ROWS = 6, 8
"""Columns up to which vectors lie along the sum instead, and the rows that such a loop takes together."""

FEW_COLUMNS = {1: 8, 2: 6, 3: 4}
"""Of products of few columns, whose rows are read in place: vectors that hold all columns, and rows that are taken together."""

HALF = 128
"""Between a byte without a sign and one with it."""

PANEL, TURNED, GROUP, THIN, FEW = "p", "t", "h", "v", "f"
"""Digits of axes: inside a panel, of squares that are turned, of an instruction's terms, and of rows where columns are very few, or few."""


@frozen(eq=False)
class DotPanels:
    """What panels hold of terms that an instruction takes several at a time: the dtypes of `rows` and `columns`; `shift`: what is added to
    rows that have another sign."""

    unit: DotUnit
    rows: str
    columns: str
    shift: int = 0

    @property
    def memory(self) -> str:
        """The dtype of the memory of both."""
        return self.unit.factors[0]


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
    low: AxisPlan
    """Cuts it in smaller tiles at its end, which are read from panels of the same size."""


@frozen(eq=False)
class Packing:
    """How the reduction of a field is packed."""

    product: PairReduction
    rows: Side
    columns: Side
    depth: int
    """Terms of a block of the sum, at most."""
    lanes: int
    few: tuple[tuple[int, Table], ...]
    """Tables for few columns, each with the most columns that it serves, in order."""
    in_place: bool = False
    """Whether vectors read small operands in place as well as from panels: rows along the sum, columns across it."""
    padded: PaddedSource | None = None
    """What windows read in place, where rows are windows."""
    dense: tuple[str, ...] = ()
    """Axes of the terms of windows in the order in which they lie one inside the other in the memory of filters, if they do."""
    joined: tuple[str, ...] = ()
    """The last axes of columns, where they lie one inside the other in all memories: panels go on from one line to the next."""
    block: tuple[int, int] = (BLOCK_ROWS, BLOCK_COLUMNS)
    """Rows and columns of a block of results."""
    dots: DotPanels | None = None
    """How several terms at a time are multiplied and added, if they are."""

    @property
    def held(self) -> str:
        """The dtype of what panels hold."""
        return self.dots.memory if self.dots else self.product.dtype

    @property
    def summed(self) -> str:
        """The axis along which terms are neighbours in the memory of columns, where they are."""
        return (self.dense or self.product.k[:1])[-1]

    @property
    def block_panels(self) -> tuple[int, int]:
        """The most panels of rows and of columns of a block of results."""
        return self.block[0] // self.rows.plan.tile, self.block[1] // self.columns.plan.tile

    @property
    def tile(self) -> int:
        """Sums of a tile."""
        return self.rows.plan.tile * self.columns.plan.tile

    @property
    def filters(self) -> Side:
        """The side whose operand no condition guards."""
        return self.rows if self.rows.operand is self.product.b else self.columns

    def __str__(self) -> str:
        rows, columns = (f"{side.plan.tile} along {side.plan.axis}" for side in (self.rows, self.columns))
        columns += f" and {self.joined[0]}" if self.joined else ""
        summed = " and ".join(self.product.k)
        summed += f", {self.dots.unit.terms} at a time" if self.dots else ""
        results = "" if self.block == (BLOCK_ROWS, BLOCK_COLUMNS) else f", of results {self.block[0]} by {self.block[1]}"
        few = ""
        for most, table in self.few:
            along = next(plan.axis for plan in table.plans if plan.lanes > 1)
            few += f"\n  few: at most {most} along {self.columns.plan.axis} take vectors along {along}"
        panels = f"panels of {rows} and of {columns}" if self.padded is None else f"panels of {columns}, windows by {rows} in place"
        return f"  large: {panels}, blocks of {self.depth} along {summed}{results}{few}"


Kept = tuple[Value, Sequence[Affine]]
"""The memory and the index of a tile's sums of the blocks of terms before."""

Bounds = Mapping[Side, Value]
"""The panels of each side at which a block of results begins, or ends."""


@frozen(eq=False)
class TermBlock:
    """Terms of a sum from `start` on; whether they are the `first`, and the `last`."""

    start: Value
    count: Value
    first: Value
    last: Value


@frozen(eq=False)
class ResultBlock:
    """The panels of a block of results, from `low` to `high` of each side. Between blocks of terms their sums are in the memory `sums`,
    behind the indices `leading`: by panels, rows and columns, those of the panels `first` to begin with."""

    low: Bounds
    high: Bounds
    sums: Value
    leading: tuple[Affine, ...]
    first: Mapping[Side, Affine]


def packing_for(field: HirFunction, table: Table, machine: CpuMachine) -> Packing | None:
    """How a field is packed that computes one such reduction and stores what depends on it; None for others."""
    sums = [op for op in field.body.body if isinstance(op, Contract | Reduce | Scan)]
    stores = [op for op in field.body.body if isinstance(op, Store)]
    product = combination(sums[0]) if len(sums) == 1 and not isinstance(sums[0], Scan) else None
    if product is None or any(w.serial or w.unroll is not None or w.vectorize is not None for w in field.loops):
        return None
    outer = {*product.batch, *product.m, *product.n}
    if any({name for name, _ in field.scope().axes_of(*store.index)} != outer for store in stores):
        return None
    if any(isinstance(op, Alloc) for op in field.body.body):
        return None
    width = machine.lanes(product.dtype)
    alike = all(plan.lanes in (1, width) for plan in table.plans)
    if width < 2 or (product.sums and not alike):
        return None
    written = contiguity(field, [*stores])
    ours = [(product.a, product.m), (product.b, product.n)]
    in_place = [padded_source(product, *each, across=False) if product.sums else None for each in ours]
    padded = in_place[0] or in_place[1]
    if padded is in_place[1] if padded else max(written[axis] for axis in product.m) > max(written[axis] for axis in product.n):
        ours.reverse()
    product = product if padded is None else evolve(product, k=padded.terms(product.k))
    dense = () if padded is None else dense_axes(ours[1][0], product.k, field.axes)
    summed = next(iter(dense[-1:] or product.k[: len(product.k) == 1]), None)

    dots = dot_panels(product, ours[0][0], ours[1][0], machine) if padded is None else None

    def side(operand: Value, axes: Sequence[str], registers: int, lanes: int) -> Side:
        last = max(axes, key=lambda axis: ((lanes > 1 or padded is not None) and written[axis] > 0, axes.index(axis)))
        others = tuple(axis for axis in axes if axis != last)
        votes = contiguity(field, [op for op in instructions_below(operand) if isinstance(op, Load)])
        lies_along = summed is not None and votes[summed] > 0
        wished = tile_of(field).get(last, registers * lanes)
        registers = next((number for number in range(registers, 0, -1) if wished % (number * lanes) == 0), registers)
        # small operands are computed by the table, whose vectors may have other lanes
        plan = AxisPlan(last, "time", registers, lanes, digit=PANEL, simd=SIMD if alike else f"{SIMD}_{PANEL}")
        turns = (1, 1) if not lies_along else (1, width) if lanes == 1 else (width, 1)
        turns = (dots.unit.terms, 1) if dots and turns != (1, width) else turns
        if lanes > 1:
            low = single(plan)
        else:
            low = plan if padded else lower(plan)
        return Side(operand, (*others, last), plan, lies_along and lanes == 1, turns, low)

    rows, vectors = machine.register_tile
    rows = rows if product.sums or machine.vector_registers >= 32 else min(rows, FEW_ROWS)
    down, across = side(*ours[0], rows, 1), side(*ours[1], vectors, width)
    # beside a panel, the nearest cache has what windows read in place
    depth = PANEL_BYTES // (1 if padded is None else 2) // bytes_of(dots.memory if dots else product.dtype) // width * width
    joined = across.axes[-2:] if padded is None and len(across.axes) > 1 and inside(field, *across.axes[-2:]) else ()
    few = _tables_of_few(product, table, down, across, width) if padded is None else ()
    reads = [op for op in instructions_below(across.operand) if isinstance(op, Load)]
    beside = contiguity(field, [*reads])[across.plan.axis] > 0
    near = beside and down.along and dtype_of(down.operand) == dtype_of(across.operand) == product.dtype
    return Packing(product, down, across, depth, width, few, near, padded, dense, joined, dots=dots)


def _tables_of_few(product: PairReduction, table: Table, rows: Side, columns: Side, width: int) -> tuple[tuple[int, Table], ...]:
    """Several rows at a time: each with a vector along the sum, for one column after the other, or for vectors of all columns."""
    if not product.sums or len(product.k) != 1:
        return ()
    column, (summed,) = columns.plan.axis, product.k
    few: list[tuple[int, Table]] = []
    if rows.along and product.guard is None:
        few.append((MOST_THIN, _in_place(table, {summed: (1, width), rows.plan.axis: (THIN_ROWS, 1)}, (column, summed), THIN)))
    as_computed = dtype_of(columns.operand) == product.dtype
    # those that lie across already are read in place by the tiles of the table, which may end in half a vector
    if as_computed and (columns.turns != (1, 1) or not table.halves) and not product.batch and len(columns.axes) == 1:
        for vectors, high in FEW_COLUMNS.items():
            shapes = {column: (vectors, width), rows.plan.axis: (high, 1)}
            few.append((vectors * width, _in_place(table, shapes, (column, summed), f"{FEW}{vectors}_")))
    return tuple(few)


def _in_place(table: Table, shapes: dict[str, tuple[int, int]], last: tuple[str, ...], digit: str) -> Table:
    plans = [AxisPlan(p.axis, p.place if p.axis not in last else "time", *shapes.get(p.axis, (1, 1)), digit=digit) for p in table.plans]
    return Table(sorted(plans, key=lambda plan: last.index(plan.axis) if plan.axis in last else -1))


def in_blocks(field: HirFunction, packing: Packing) -> tuple[Packing, tuple[Unheeded, ...]]:
    """The packing with blocks as `@tile` says, and what of that can't be."""
    sizes, left = tile_of(field), dict[str, str]()

    def size(axis: str, usual: int, unit: int) -> int:
        if axis in sizes and sizes[axis] % unit:
            left[axis] = f"blocks have multiples of {unit} along it"
        return usual if axis in left else sizes.get(axis, usual)

    *_, summed = packing.product.k
    high, wide = (
        size(side.plan.axis, usual, side.plan.tile) for side, usual in ((packing.rows, BLOCK_ROWS), (packing.columns, BLOCK_COLUMNS))
    )
    packing = evolve(packing, depth=size(summed, packing.depth, packing.lanes), block=(high, wide))
    why = [Unheeded("tile", named(field, axis), why) for axis, why in left.items()]
    return packing, (*why, *untiled(field, {packing.rows.plan.axis, packing.columns.plan.axis, summed}, "matrices follow one another"))


def dot_panels(product: PairReduction, rows: Value, columns: Value, machine: CpuMachine) -> DotPanels | None:
    """How panels are multiplied by an instruction of the machine; None where it has none for these operands."""
    if not product.sums or product.guard is not None or len(product.k) != 1:
        return None
    factors = [dtype_of(each.source.value if isinstance(each.source, Cast) else each) for each in (rows, columns)]
    bytes_, words = {"i8", "u8"}, {"i8", "u8", "i16"}
    for unit in machine.dots:
        if product.dtype in unit.sums and unit.factors == ("u8", "i8") and bytes_.issuperset(factors):
            if factors[0] != factors[1]:
                return DotPanels(unit, factors[0], factors[1])
            other, shift = ("u8", HALF) if factors[0] == "i8" else ("i8", -HALF)
            return DotPanels(unit, other, factors[1], shift)
        fits = words.issuperset(factors) if unit.factors == ("i16", "i16") else unit.factors == tuple(factors)
        if product.dtype in unit.sums and fits and unit.factors != ("u8", "i8"):
            return DotPanels(unit, *unit.factors)
    return None
