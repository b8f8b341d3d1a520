"""How axes that threads share are cut: whole tiles, and smaller ones for what is left at the ends."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from compiler.hir.affine import Affine
from compiler.schedule.table import AxisPlan
from runtime.records import evolve, frozen

WIDE = 4
"""Times as many vectors in flight for a row by itself as there are for each row of a block: the registers of its rows are free."""


@frozen
class Piece:
    """`count` tiles of `plan` along an axis, from the one with the number `start`. `masked`: the last may reach past the extent."""

    plan: AxisPlan
    start: Affine
    count: Affine
    masked: bool

    @property
    def is_empty(self) -> bool:
        return self.count.value == 0


def combinations_of(
    plans: Sequence[AxisPlan], extents: Mapping[str, Affine], rows_of: str | None, lanes: int
) -> Iterator[tuple[Piece, ...]]:
    """Pieces of all axes that cover every element once. `rows_of`: the axis whose registers are rows of a product's block. `lanes`: of
    vectors along whatever axis; 0: rows in registers end under a mask."""
    rows = next((plan for plan in plans if plan.axis == rows_of), None)
    column = next((plan for plan in plans if plan.lanes > 1), None)
    if rows is None or column is None:
        cuts = [_whole_and_end(plan, plan.narrowed(), extents[plan.axis]) for plan in plans]
        ends = [rows_left_over(plan, lanes) for plan in plans]
        yield from _all_of([list(pieces_of(p, e, extents[p.axis])) if e else cut for p, e, cut in zip(plans, ends, cuts, strict=True)])
        return
    cut = {plan.axis: _whole_and_end(plan, plan.narrowed(), extents[plan.axis]) for plan in plans}
    block, rest = _whole_and_end(rows, single(rows), extents[rows.axis], exact=True)
    for piece, columns in (block, _whole_and_end(column, narrow(column), extents[column.axis])), (
        rest,
        _whole_and_end(wide(column), column, extents[column.axis]),
    ):
        own = {**cut, rows.axis: (piece,), column.axis: columns}
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


def _whole_and_end(plan: AxisPlan, end: AxisPlan, extent: Affine, exact: bool = False) -> tuple[Piece, Piece]:
    """Whole tiles of `plan`, then tiles of `end`, whose size divides that of `plan`; `exact`: which leave nothing over."""
    whole = extent.floordiv(plan.tile)
    start = whole * (plan.tile // end.tile)
    return Piece(plan, Affine(), whole, False), Piece(end, start, extent.ceildiv(end.tile) - start, not exact)
