"""How axes that threads share are cut: whole tiles, and smaller ones for what is left at the ends."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.schedule.table import AxisPlan
from runtime.records import evolve, frozen

WIDE = 4
"""Times as many vectors in flight for a row by itself as there are for each row of a block: the registers of its rows are free."""

LEAST_SQUARE = 4
"""Elements of the smallest square that is turned."""

FEWER, LEAST_HIGH = 2, 6
"""Rows that low blocks have less than others of so many rows or more."""


@frozen
class Piece:
    """`count` tiles of `plan` along an axis, from the one with the number `start` behind the element `offset`. `masked`: the last may reach
    past the extent. `reaches`: the last reaches back over the one before it, whose results are computed twice."""

    plan: AxisPlan
    start: Affine
    count: Affine
    masked: bool
    offset: Affine = Affine()
    reaches: bool = False
    spans: bool = False
    """Whether a tile is a span of elements, in which vectors go on by themselves."""

    @property
    def is_empty(self) -> bool:
        return self.count.value == 0


def combinations_of(
    plans: Sequence[AxisPlan], extents: Mapping[str, Affine], rows: Sequence[Piece], lanes: int, halves: bool = False
) -> Iterator[tuple[Piece, ...]]:
    """Pieces of all axes that cover every element once. `rows`: those of the axis whose registers are rows of a product's block. `lanes`:
    of vectors along whatever axis; 0: rows in registers end under a mask. `halves`: columns of a block end in half a vector."""
    column = next((plan for plan in plans if plan.lanes > 1), None)
    if not rows or column is None:
        cuts = [_cut(extents[plan.axis], plan, plan.narrowed()) for plan in plans]
        ends = [rows_left_over(plan, lanes) for plan in plans]
        yield from _all_of([list(pieces_of(p, e, extents[p.axis])) if e else cut for p, e, cut in zip(plans, ends, cuts, strict=True)])
        return
    cut = {plan.axis: _cut(extents[plan.axis], plan, plan.narrowed()) for plan in plans}
    for piece in rows:
        widths = (wide(column), column) if piece.plan.registers == 1 else (column, narrow(column))
        columns = _cut(extents[column.axis], *widths)
        if halves and piece.plan.registers > 1:
            columns = (*columns[:-1], *_ends_in_half(columns[-1], extents[column.axis]))
        own = {**cut, piece.plan.axis: (piece,), column.axis: columns}
        yield from _all_of([own[plan.axis] for plan in plans])


def pieces_of(plan: AxisPlan, ends: Sequence[AxisPlan], extent: Affine) -> Iterator[Piece]:
    """Whole tiles of `plan`, then whole ones of each of `ends` in turn, whose sizes divide the size before; the last are masked if that
    leaves something over."""
    start, last = Affine(), plan
    for each in (plan, *ends):
        start, whole = start * (last.tile // each.tile), extent.floordiv(each.tile)
        if whole != start:
            yield Piece(each, start, whole - start, False)
        start, last = whole, each
    rest = extent.ceildiv(last.tile)
    if rest != start:
        yield Piece(last, start, rest - start, True)


def reaching(plan: AxisPlan, extent: Affine) -> Piece:
    """All of an axis of at least one tile, in whole tiles."""
    reaches = plan.tile > 1 and (extent.value is None or extent.value % plan.tile != 0)
    return Piece(plan, Affine(), extent.ceildiv(plan.tile), False, reaches=reaches)


def squares_of(plans: Sequence[AxisPlan]) -> list[list[AxisPlan]]:
    """The plans, and where they turn squares of vectors, those of smaller ones, for axes that no whole one fits into."""
    lanes = max((plan.lanes for plan in plans), default=1)
    turned = lanes > 1 and any(plan.lanes == 1 and plan.registers % lanes == 0 for plan in plans)
    sizes = [lanes >> halves for halves in range(lanes.bit_length())] if turned else []
    smaller = [[square(plan, size) for plan in plans] for size in sizes if size >= LEAST_SQUARE]
    return [list(plans), *(each for each in smaller if [plan.tile for plan in each] != [plan.tile for plan in plans])]


def square(plan: AxisPlan, size: int) -> AxisPlan:
    """Cuts its axis in squares of so many elements each way."""
    if plan.lanes > 1:
        return evolve(plan, registers=1, lanes=size, simd=f"{plan.simd}_{size}")
    return evolve(plan, registers=size, digit=f"q{size}") if plan.registers > 1 else plan


def _all_of(cuts: Sequence[Sequence[Piece]]) -> list[tuple[Piece, ...]]:
    """Every choice of a piece for each axis: whole ones first, then those with one end, and so on."""
    return sorted(product(*cuts), key=lambda pieces: sum(piece is cut[-1] for piece, cut in zip(pieces, cuts, strict=True) if len(cut) > 1))


def rows_left_over(plan: AxisPlan, lanes: int) -> list[AxisPlan]:
    """The plans for rows that whole tiles leave over: as many as a vector has lanes, which may be turned together, then one."""
    if not lanes or plan.place != "thread" or plan.lanes > 1 or plan.registers == 1:
        return []
    return [evolve(plan, registers=lanes, digit="n"), single(plan)] if plan.registers > lanes > 1 else [single(plan)]


def single(plan: AxisPlan) -> AxisPlan:
    """Rows of a block, or vectors, one at a time."""
    return evolve(plan, registers=1)


def wide(column: AxisPlan) -> AxisPlan:
    """The columns of a single row."""
    return evolve(column, registers=column.registers * WIDE, digit="a")


def narrow(column: AxisPlan) -> AxisPlan:
    """The last columns of a block of rows."""
    return evolve(column, registers=1)


def half(column: AxisPlan) -> AxisPlan:
    """What is left of them."""
    return evolve(column, registers=1, lanes=column.lanes // 2, simd=f"{column.simd}_half")


def lower(rows: AxisPlan) -> AxisPlan:
    """Blocks of two rows fewer: with some of both, no more than one row is left over, and all have sums enough in flight."""
    return evolve(rows, registers=rows.registers - FEWER, digit="l") if rows.registers >= LEAST_HIGH else rows


def blocks_of_rows(rows: AxisPlan, extent: Affine, b: Builder) -> tuple[Piece, ...]:
    """Blocks, lower ones, and rows by themselves."""
    low, tile, whole = lower(rows), rows.tile, extent.floordiv(rows.tile)
    if low is rows:
        return Piece(rows, Affine(), whole, False), Piece(single(rows), whole * tile, extent - whole * tile, False)
    blocks = extent.ceildiv(tile)
    spare = (blocks * tile - extent).ceildiv(tile - low.tile)
    fits = b.op("le", b.index(spare), b.index(blocks))
    high = Affine.of(b.select(fits, b.index(blocks - spare), b.index(whole)).name)
    lows = Affine.of(b.select(fits, b.index(spare), b.const(0, "index")).name)
    behind = high * tile + lows * low.tile
    return (
        Piece(rows, Affine(), high, False),
        Piece(low, Affine(), lows, False, high * tile),
        Piece(single(rows), Affine(), extent - behind, False, behind),
    )


def _ends_in_half(end: Piece, extent: Affine) -> tuple[Piece, Piece]:
    """The vectors at the end, without the last where half of it holds all that is left; and that half."""
    last = half(end.plan)
    halves = extent.ceildiv(last.tile)
    whole = halves.floordiv(end.plan.tile // last.tile)
    return Piece(end.plan, end.start, whole - end.start, True), Piece(last, whole * 2, halves - whole * 2, True)


def _cut(extent: Affine, *plans: AxisPlan) -> tuple[Piece, ...]:
    """Whole tiles of each plan in turn, whose sizes divide the size before; the last ends under a mask."""
    pieces, start, last = list[Piece](), Affine(), plans[0]
    for plan in plans:
        start, whole = start * (last.tile // plan.tile), extent.floordiv(plan.tile)
        pieces.append(Piece(plan, start, whole - start, False))
        start, last = whole, plan
    pieces[-1] = Piece(last, pieces[-1].start, extent.ceildiv(last.tile) - pieces[-1].start, True)
    return (*pieces,)
