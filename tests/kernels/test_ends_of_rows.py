"""What the tiles of a row leave over: whole vectors, then a masked one, or single elements where vectors of their type have no masks."""

import numpy as np
import pytest

import zynml
from compiler.hir.affine import Affine
from compiler.schedule.pieces import pieces_of, single
from compiler.schedule.table import AxisPlan
from tests.kernels.checks import numbers

EXTENTS = [0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 131]

TEXT = """
fn choice(x: tensor[A, B, {dtype}], y: tensor[A, B, {dtype}]) {{
    return compute(x, y) {{ for i in 0..A, j in 0..B: out[i, j] = x[i, j] if x[i, j] > y[i, j] else y[i, j] + 2 }}
}}
fn largest(x: tensor[A, B, {dtype}]) {{
    return compute(x) {{ for i in 0..A {{
        var m = {lowest}
        for j in 0..B: m = max(m, x[i, j])
        out[i] = m }} }}
}}
fn shares(x: tensor[A, B, {dtype}], y: tensor[A, B, {dtype}]) {{
    return compute(x, y) {{ for i in 0..A {{
        var s = {zero}
        for j in 0..B: s += x[i, j] * y[i, j]
        for j in 0..B: out[i, j] = y[i, j] + s }} }}
}}
"""


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i8", "u8", "i16", "i64"])
def test_rows_of_every_length(dtype: str) -> None:
    floats = dtype.startswith("f")
    lowest = "-inf" if floats else "0" if dtype == "u8" else str(np.iinfo({"i8": "int8", "i16": "int16", "i64": "int32"}[dtype]).min)
    program = zynml.compile(TEXT.format(dtype=dtype, lowest=lowest, zero="0.0" if floats else "0"))
    tolerance = {"f32": 1e-5, "f64": 1e-13, "f16": 1e-2}.get(dtype, 0.0)
    for extent in EXTENTS:
        x, y = (numbers(dtype, (3, extent), seed, small=True) for seed in (1, 2))
        a, b = (each.astype(np.float64 if floats else np.int64) for each in (x, y))
        assert np.allclose(program.choice(x, y), np.where(a > b, a, b + 2), rtol=tolerance, atol=tolerance), extent
        s = (a * b).sum(1)[:, None]
        assert np.allclose(program.shares(x, y), b + s, rtol=10 * tolerance, atol=10 * tolerance), extent
        if extent:
            assert np.array_equal(np.asarray(program.largest(x)).astype(a.dtype), a.max(1)), extent


@pytest.mark.parametrize("position", [0, 8, 40, 65, 66])
def test_nan_behind_the_last_whole_vector_is_seen(position: int) -> None:
    program = zynml.compile(TEXT.format(dtype="f16", lowest="-inf", zero="0.0"))
    x = np.zeros((2, 67), np.float16)
    x[1, position] = np.nan
    assert np.array_equal(program.largest(x), [0, np.nan], equal_nan=True)


def test_pieces_cover_an_axis_once() -> None:
    plan = AxisPlan("j", registers=4, lanes=8)
    element = AxisPlan("j")
    for ends in [], [single(plan)], [single(plan), element]:
        for extent in EXTENTS:
            covered: list[int] = []
            for piece in pieces_of(plan, ends, Affine.of(extent)):
                tile, start, count = piece.plan.tile, piece.start.value, piece.count.value
                assert start is not None and count is not None
                behind = (start + count) * tile
                assert behind <= extent or piece.masked
                covered += range(start * tile, min(behind, extent))
            assert covered == list(range(extent))
