"""Pieces of axes: whatever the extents, every element lies in exactly one tile, and only tiles that are masked reach past an end."""

from collections import Counter

import pytest

from compiler.hir.affine import Affine
from compiler.schedule.pieces import Piece, combinations_of
from compiler.schedule.table import AxisPlan

ROWS, COLUMNS = AxisPlan("i", "thread", 4, 1), AxisPlan("j", "thread", 2, 8)


def elements(piece: Piece, extent: int) -> list[int]:
    start, count, tile = piece.start.value, piece.count.value, piece.plan.tile
    assert start is not None and count is not None
    elements = list(range(start * tile, (start + count) * tile))
    assert piece.masked or not elements or elements[-1] < extent
    return [element for element in elements if element < extent]


@pytest.mark.parametrize(("rows", "lanes"), [(None, 0), (None, 2), (None, 8), ("i", 8)])
@pytest.mark.parametrize("height", [0, 1, 3, 4, 5, 31, 32])
@pytest.mark.parametrize("width", [0, 1, 7, 8, 15, 16, 17, 63, 64, 65, 100])
def test_pieces_cover_every_element_once(rows: str | None, lanes: int, height: int, width: int) -> None:
    extents = {"i": Affine.of(height), "j": Affine.of(width)}
    covered: Counter[tuple[int, int]] = Counter()
    for row, column in combinations_of([ROWS, COLUMNS], extents, rows, lanes):
        covered.update((i, j) for i in elements(row, height) for j in elements(column, width))
    assert covered == Counter((i, j) for i in range(height) for j in range(width))


@pytest.mark.parametrize(("lanes", "tiles"), [(8, [4, 1]), (2, [4, 2, 1])])
def test_rows_that_vectors_run_across_end_without_a_mask(lanes: int, tiles: list[int]) -> None:
    rows = [row for (row,) in combinations_of([ROWS], {"i": Affine.of("M")}, None, lanes)]
    assert [row.plan.tile for row in rows] == tiles
    assert not any(row.masked for row in rows)


def test_a_row_by_itself_has_the_registers_of_a_block() -> None:
    extents = {"i": Affine.of("M"), "j": Affine.of("N")}
    single = [pieces for pieces in combinations_of([ROWS, COLUMNS], extents, "i", 8) if pieces[0].plan.tile == 1]
    assert [column.plan.tile for _, column in single] == [64, 16]
    assert not any(row.masked for row, _ in single)
