"""Pieces of axes: whatever the extents, every element lies in exactly one tile, and only tiles that are masked reach past an end."""

from collections import Counter

import numpy as np
import pytest

from compiler.emulator.interpret import interpret
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.module import Form
from compiler.hir.types import INDEX, Mem
from compiler.schedule.pieces import Piece, blocks_of_rows, combinations_of
from compiler.schedule.table import AxisPlan

ROWS, COLUMNS = AxisPlan("i", "thread", 4, 1), AxisPlan("j", "thread", 2, 8)


def elements(piece: Piece, extent: int) -> list[int]:
    start, count, tile = piece.start.value, piece.count.value, piece.plan.tile
    assert start is not None and count is not None
    elements = list(range(start * tile, (start + count) * tile))
    assert piece.masked or not elements or elements[-1] < extent
    return [element for element in elements if element < extent]


@pytest.mark.parametrize(("rows", "lanes", "halves"), [(0, 0, False), (0, 2, False), (0, 8, False), (4, 8, False), (4, 8, True)])
@pytest.mark.parametrize("height", [0, 1, 3, 4, 5, 31, 32])
@pytest.mark.parametrize("width", [0, 1, 7, 8, 15, 16, 17, 63, 64, 65, 100])
def test_pieces_cover_every_element_once(rows: int, lanes: int, halves: bool, height: int, width: int) -> None:
    blocks = blocks_of_rows(ROWS, Affine.of(height), FunctionBuilder("f").body) if rows else ()
    extents = {"i": Affine.of(height), "j": Affine.of(width)}
    covered: Counter[tuple[int, int]] = Counter()
    for row, column in combinations_of([ROWS, COLUMNS], extents, blocks, lanes, halves):
        covered.update((i, j) for i in elements(row, height) for j in elements(column, width))
    assert covered == Counter((i, j) for i in range(height) for j in range(width))


@pytest.mark.parametrize(("lanes", "tiles"), [(8, [4, 1]), (2, [4, 2, 1])])
def test_rows_that_vectors_run_across_end_without_a_mask(lanes: int, tiles: list[int]) -> None:
    rows = [row for (row,) in combinations_of([ROWS], {"i": Affine.of("M")}, (), lanes)]
    assert [row.plan.tile for row in rows] == tiles
    assert not any(row.masked for row in rows)


def test_a_row_by_itself_has_the_registers_of_a_block() -> None:
    extents = {"i": Affine.of("M"), "j": Affine.of("N")}
    blocks = blocks_of_rows(ROWS, extents["i"], FunctionBuilder("f").body)
    single = [pieces for pieces in combinations_of([ROWS, COLUMNS], extents, blocks, 8) if pieces[0].plan.tile == 1]
    assert [column.plan.tile for _, column in single] == [64, 16]
    assert not any(row.masked for row, _ in single)


@pytest.mark.parametrize("tile", [6, 8])
def test_low_blocks_leave_one_row_over_at_most(tile: int) -> None:
    """What the function says of its pieces, run: each begins where the one before ends, and the last is at the extent."""
    f = FunctionBuilder("f", Form.NEST)
    told, _ = f.parameter("told", Mem("i64", (3, 2))), f.parameter("M", INDEX)
    pieces = blocks_of_rows(AxisPlan("i", "thread", tile), Affine.of("M"), f.body)
    for number, piece in enumerate(pieces):
        for at, form in enumerate((piece.offset + piece.start * piece.plan.tile, piece.count)):
            f.body.store(told, f.body.cast(f.body.index(form), "i64"), [number, at])
    function = f.finish()
    assert [piece.plan.tile for piece in pieces] == [tile, tile - 2, 1]
    for extent in range(60):
        left = np.zeros((3, 2), np.int64)
        interpret(function, [left, extent])
        ends = left[:, 0] + left[:, 1] * [tile, tile - 2, 1]
        assert [*left[1:, 0], extent] == [*ends]
        assert (left >= 0).all()
        assert extent < 2 * tile or left[2, 1] <= 1
