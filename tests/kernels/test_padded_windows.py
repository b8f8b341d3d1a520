"""Windows that reach over the edges of small pictures, many enough to be copied with zeros around them, and others, by one program."""

from typing import Any

import numpy as np
import pytest

import zynml

WINDOW = """
def f(x: tensor[B, C, H, W, {dtype}], w: tensor[C, {rows}, {columns}, {dtype}]): tensor {{
    compute(x, w) {{
        for n in 0..B, c in 0..C, y in 0..(H - 1) / {stride} + 1, z in 0..(W - 1) / {stride} + 1:
            var s: {dtype} = 0
            for r in 0..{rows}, q in 0..{columns}:
                let v = {stride} * y + {apart} * r - 3
                let u = {stride} * z + q - 2
                if v >= 0 and v < H and u >= 0 and u < W:
                    s += x[n, c, v, u] * w[c, r, q]
            out[n, c, y, z] = s
    }}
}}
"""


def windows(x: Any, w: Any, stride: int, apart: int) -> Any:
    """The sums in float64 or i64, term by term."""
    high, wide = x.shape[2:]
    tops, lefts = np.arange(0, high, stride), np.arange(0, wide, stride)
    out = np.zeros((*x.shape[:2], len(tops), len(lefts)), np.int64 if x.dtype.kind == "i" else np.float64)
    for r in range(w.shape[1]):
        for q in range(w.shape[2]):
            v, u = tops + apart * r - 3, lefts + q - 2
            inside = np.ix_((v >= 0) & (v < high), (u >= 0) & (u < wide))
            part = x[:, :, v[(v >= 0) & (v < high)][:, None], u[(u >= 0) & (u < wide)]]
            with np.errstate(invalid="ignore"):
                out[(slice(None), slice(None), *inside)] += part.astype(out.dtype) * w[None, :, r, q, None, None]
    return out


@pytest.mark.parametrize(
    ("dtype", "rows", "columns", "stride", "apart"),
    [("f32", 7, 5, 1, 1), ("f64", 3, 3, 2, 1), ("f32", 5, 1, 1, 3), ("i32", 2, 11, 3, 2)],
)
def test_windows(dtype: str, rows: int, columns: int, stride: int, apart: int) -> None:
    f = zynml.compile(WINDOW.format(dtype=dtype, rows=rows, columns=columns, stride=stride, apart=apart)).f
    random = np.random.default_rng(1)
    kind: Any = {"f32": np.float32, "f64": np.float64, "i32": np.int32}[dtype]

    def numbers(*dims: int) -> Any:
        return (random.standard_normal(dims) * (50 if dtype == "i32" else 1)).astype(kind)

    for shape in (3, 7, 33, 31), (17, 1, 1, 9), (1, 1, 5, 40), (0, 3, 4, 4):
        x, w = numbers(*shape), numbers(shape[1], rows, columns)
        pictures = [(x, w), (numbers(*shape[:3], 2 * shape[3])[..., ::2], numbers(rows, columns, shape[1]).transpose(2, 0, 1))]
        if dtype != "i32" and x.size:
            special, filters = x.copy(), w.copy()
            special[..., -1, 0], filters[0, 0, 0] = np.nan, np.inf
            pictures += [(special, w), (x, filters)]
        for x, w in pictures:
            exact = windows(x, w, stride, apart)
            error = rows * columns * (0 if dtype == "i32" else np.finfo(kind).eps) * windows(abs(x), abs(w), stride, apart)
            got = np.asarray(f(x, w)).astype(exact.dtype)
            finite = np.isfinite(exact)
            assert got.shape == exact.shape and np.array_equal(got[~finite], exact[~finite], equal_nan=True)
            assert np.all(abs(got[finite] - exact[finite]) <= error[finite])


def test_few_filters_of_a_group_read_copies() -> None:
    """Three filters a group are too few for panels."""
    text = """
def f(x: tensor[B, G, C, H, W], w: tensor[G, F, C, 3, 3]): tensor {
    compute(x, w) {
        for n in 0..B, g in 0..G, f in 0..F, y in 0..H, z in 0..W:
            var s = 0.0
            for c in 0..C, r in 0..3, q in 0..3:
                if y + r >= 1 and y + r <= H and z + q >= 1 and z + q <= W: s += x[n, g, c, y + r - 1, z + q - 1] * w[g, f, c, r, q]
            out[n, g, f, y, z] = s
    }
}
"""
    random = np.random.default_rng(2)
    x, w = random.standard_normal((5, 4, 2, 9, 21)).astype(np.float32), random.standard_normal((4, 3, 2, 3, 3)).astype(np.float32)
    near = np.lib.stride_tricks.sliding_window_view(np.pad(x.astype(float), ((0, 0),) * 3 + ((1, 1),) * 2), (3, 3), axis=(3, 4))
    wanted = np.einsum("ngcyzrq,gfcrq->ngfyz", near, w)
    assert np.allclose(zynml.compile(text).f(x, w), wanted, rtol=0, atol=18 * np.finfo(np.float32).eps * abs(wanted).max())
