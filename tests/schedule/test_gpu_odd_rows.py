"""Rows of narrow elements that begin at any address: read in vectors all the same, by sums, along columns, in squares that are turned, and
as rows of a table that are one long row. Expected values from NumPy."""

import re
from typing import Any

import numpy as np
import pytest

import zynml
from compiler.emit import launched_program
from compiler.targets.registry import target_named

DEVICE = "emulator:sm_90a"
TEXT = """
def sums(x: tensor[M, N, TYPE]): tensor[M, f32] {
    compute(x) -> tensor[M, f32] {
        for i in 0..M:
            var s = 0.0f32
            for j in 0..N: s += x[i, j] as f32
            out[i] = s
    }
}
def highest(x: tensor[M, N, TYPE]): tensor[N, TYPE] {
    compute(x) -> tensor[N, TYPE] {
        for j in 0..N:
            var s = x[0, j]
            for i in 0..M: s = max(s, x[i, j])
            out[j] = s
    }
}
def turned(x: tensor[M, N, TYPE]): tensor[N, M, TYPE] { compute(x) -> tensor[N, M, TYPE] { for i in 0..N, j in 0..M: out[i, j] = x[j, i] } }
def rows(t: tensor[V, C, TYPE], x: tensor[N, i32]): tensor[N, C, TYPE] {
    compute(t, x) -> tensor[N, C, TYPE] { for i in 0..N, c in 0..C: out[i, c] = t[x[i], c] }
}
def added(x: tensor[A, M, N, TYPE], y: tensor[A, M, N, TYPE]): tensor[A, M, N, TYPE] {
    compute(x, y) -> tensor[A, M, N, TYPE] { for a in 0..A, i in 0..M, j in 0..N: out[a, i, j] = max(x[a, i, j], y[a, i, j]) }
}
"""


def array(shape: tuple[int, ...], dtype: str, offset: int = 0, gap: int = 0) -> Any:
    """Small whole numbers, so many elements behind a multiple of 16 bytes, with a gap behind each row."""
    rows = (*shape[:-1], shape[-1] + gap)
    kind = np.dtype({"u8": "u1", "f16": "f2"}[dtype])
    bytes = np.zeros(int(np.prod(rows)) * kind.itemsize + 64, np.uint8)
    begin = -bytes.ctypes.data % 16 + offset * kind.itemsize
    values = bytes[begin : begin + int(np.prod(rows)) * kind.itemsize].view(kind).reshape(rows)
    values[...] = np.random.default_rng(3).integers(0, 9, rows)
    return values[..., : shape[-1]]


@pytest.mark.parametrize("dtype", ["u8", "f16"])
@pytest.mark.parametrize(("m", "n", "offset", "gap"), [(37, 65, 0, 0), (70, 131, 1, 0), (3, 259, 0, 8), (40, 17, 3, 1)])
def test_odd_rows(dtype: str, m: int, n: int, offset: int, gap: int) -> None:
    p = zynml.compile(TEXT.replace("TYPE", dtype), device=DEVICE)
    x = array((m, n), dtype, offset, gap)
    np.testing.assert_array_equal(p.sums(x), x.sum(1, dtype=np.float64))
    np.testing.assert_array_equal(p.highest(x), x.max(0))
    np.testing.assert_array_equal(p.turned(x), x.T)
    which = np.array([0, m - 1, 1, 1, m // 2, 0, m - 1], np.int32)
    np.testing.assert_array_equal(p.rows(x, which), x[which])
    y, z = array((3, m, n), dtype, offset, gap), array((3, n, m), dtype, offset).swapaxes(1, 2)
    np.testing.assert_array_equal(p.added(y, y), y)
    np.testing.assert_array_equal(p.added(y, z), np.maximum(y, z))


def test_rows_of_nothing() -> None:
    p = zynml.compile(TEXT.replace("TYPE", "u8"), device=DEVICE)
    np.testing.assert_array_equal(p.sums(array((5, 0), "u8")), np.zeros(5))
    assert p.turned(array((0, 17), "u8")).shape == (17, 0)
    assert p.rows(array((5, 17), "u8"), np.zeros(0, np.int32)).shape == (0, 17)


@pytest.mark.parametrize("m", [5, 9])
def test_few_short_rows_beside_many_long_ones(m: int) -> None:
    """A square is no longer than a block has threads."""
    p = zynml.compile(TEXT.replace("TYPE", "u8"), device=DEVICE)
    y, z = array((3, m, 779), "u8", 0, 3), array((3, 779, m), "u8").swapaxes(1, 2)
    np.testing.assert_array_equal(p.added(y, z), np.maximum(y, z))


WIDTHS = [
    ("u8", "sums(x=301x779:u8)", "b32"), ("u8", "rows(t=90x131:u8, x=70)", "v4.b32"),
    ("f16", "sums(x=301x779:f16)", "v4.b32"), ("f16", "sums(x=301x784:f16@2)", "v4.b32"), ("f16", "highest(x=301x779:f16)", "v2.b32"),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "call", "width"), WIDTHS)
def test_loads_are_of_several_elements(dtype: str, call: str, width: str) -> None:
    session = zynml.compile(TEXT.replace("TYPE", dtype))._session
    kernel = session.launches_like([call], DEVICE)[-1]
    text = str(target_named("sm_90a").emitter(launched_program(session, kernel), "ptx"))
    loads = set(re.findall(r"ld\.global\.nc\.\S+", text))
    assert f"ld.global.nc.{width}" in loads and not loads & {"ld.global.nc.b8", "ld.global.nc.b16"}
