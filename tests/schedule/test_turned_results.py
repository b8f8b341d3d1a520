"""Windows over views whose elements lie along another axis than results: against NumPy."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import zynml

POOL = """
def f(x: tensor[N, H, W, {dtype}]) {{
    compute(x) {{
        for n in 0..N, h in 0..(H - {size}) / {step} + 1, v in 0..(W - {size}) / {step} + 1:
            var m = x[n, {step} * h, {step} * v]
            for r in 0..{size}, q in 0..{size}:
                m = max(m, x[n, {step} * h + r, {step} * v + q])
            out[n, h, v] = m
    }}
}}
"""

FILTER = """
def f(x: tensor[N, H, W, {dtype}], w: tensor[3, 2, {dtype}]) {{
    compute(x, w) {{
        for n in 0..N, h in 0..H - 2, v in 0..W - 1:
            var s = 0 * w[0, 0]
            for r in 0..3, q in 0..2:
                s += x[n, h + r, v + q] * w[r, q]
            out[n, h, v] = s
    }}
}}
"""

KINDS = {"f64": "float64", "f32": "float32", "f16": "float16", "i8": "int8", "u8": "uint8", "i32": "int32"}


def transposed(shape: tuple[int, int, int], dtype: str) -> np.ndarray:
    n, h, w = shape
    return np.random.default_rng(h).integers(0, 9, (n, w, h)).astype(KINDS[dtype]).transpose(0, 2, 1)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("size", "step"), [(2, 2), (3, 1), (3, 2), (3, 3)])
def test_pools_over_transposed_views(dtype: str, size: int, step: int) -> None:
    program = zynml.compile(POOL.format(dtype=dtype, size=size, step=step), threads=2)
    for shape in ((0, 4, 5), (1, 3, 3), (2, 3, 40), (1, 40, 3), (3, 31, 33), (2, 67, 70)):
        x = transposed(shape, dtype)
        if dtype[0] == "f" and x.size:
            x[0, 1, 2], x[-1, 2, 0] = np.nan, np.inf
        wanted = sliding_window_view(x, (size, size), (1, 2))[:, ::step, ::step].max((3, 4))
        for view in (x, np.ascontiguousarray(x)):
            np.testing.assert_array_equal(program.f(view), wanted, f"{shape}")


@pytest.mark.parametrize("dtype", ["f64", "f32", "i32"])
def test_filters_over_transposed_views(dtype: str) -> None:
    program = zynml.compile(FILTER.format(dtype=dtype), threads=1)
    w = np.arange(6).reshape(3, 2).astype(KINDS[dtype])
    for shape in ((1, 3, 2), (2, 33, 31), (1, 70, 67)):
        x = transposed(shape, dtype)
        np.testing.assert_array_equal(program.f(x, w), np.einsum("nhvrq,rq->nhv", sliding_window_view(x, (3, 2), (1, 2)), w))
