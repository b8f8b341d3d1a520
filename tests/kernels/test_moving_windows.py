"""Windows that move by one or more elements: vectors lie along the results, and few constant terms are written out."""

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import zynml
from tests.kernels.checks import numbers

POOL = """
fn f(x: tensor[N, H, W, {dtype}], R: int, T: int) {{
    return compute(x, R, T) {{
        for n in 0..N, h in 0..(H - R) / T + 1, v in 0..(W - R) / T + 1 {{
            var m = {lowest}
            for r in 0..R, q in 0..R: m = max(m, x[n, T * h + r, T * v + q])
            out[n, h, v] = m
        }}
    }}
}}
"""

CONSTANT = """
fn f(x: tensor[N, H, W, {dtype}]) {{
    return compute(x) {{
        for n in 0..N, h in 0..(H - {r}) / {t} + 1, v in 0..(W - {r}) / {t} + 1 {{
            var s = {zero}
            for r in 0..{r}, q in 0..{r}: s += x[n, {t} * h + r, {t} * v + q]
            out[n, h, v] = s
        }}
    }}
}}
"""


def windows(x: np.ndarray, r: int, t: int) -> np.ndarray:
    return sliding_window_view(x, (r, r), (1, 2))[:, ::t, ::t]


@pytest.mark.parametrize(("dtype", "lowest"), [("f64", "-inf"), ("f32", "-inf"), ("i16", "-32768")])
def test_largest_elements_of_windows_known_at_the_call(dtype: str, lowest: str) -> None:
    f = zynml.compile(POOL.format(dtype=dtype, lowest=lowest)).f
    for r, t, width in (1, 1, 1), (3, 2, 7), (3, 1, 33), (2, 2, 100), (5, 3, 31), (7, 6, 40):
        x = numbers(dtype, (3, r + 4, max(width, r)), (r, t))
        assert np.array_equal(np.asarray(f(x, r, t)), windows(x, r, t).max((-1, -2))), (r, t, width)


@pytest.mark.parametrize(("r", "t"), [(1, 1), (3, 1), (3, 2), (5, 1), (7, 3)])
@pytest.mark.parametrize("dtype", ["f32", "i8"])
def test_sums_of_constant_windows(dtype: str, r: int, t: int) -> None:
    f = zynml.compile(CONSTANT.format(dtype=dtype, r=r, t=t, zero="0.0" if dtype == "f32" else "0")).f
    for width in 7, 16, 23, 67:
        x = numbers(dtype, (2, 11, width), (r, t), small=True)
        assert np.allclose(f(x), windows(x.astype(np.float64), r, t).sum((-1, -2)), atol=1e-4), width


@pytest.mark.parametrize("dtype", ["f32", "f16", "i16"])
@pytest.mark.parametrize("taps", ["3", "R"])
def test_windows_over_channels_that_lie_last(taps: str, dtype: str) -> None:
    text = f"""
    fn f(x: tensor[N, H, W, C, {dtype}], w: tensor[{taps}, {taps}, C, {dtype}]) {{ return compute(x, w) {{
        for n in 0..N, h in 0..H - {taps} + 1, v in 0..W - {taps} + 1, c in 0..C {{
            var s = {"0" if dtype == "i16" else "0.0"}
            for r in 0..{taps}, q in 0..{taps}: s += x[n, h + r, v + q, c] * w[r, q, c]
            out[n, h, v, c] = s
        }}
    }} }}
    """
    f, rng = zynml.compile(text).f, np.random.default_rng(5)
    kind = {"f32": np.float32, "f16": np.float16, "i16": np.int16}[dtype]
    for n, h, v, c in (1, 3, 3, 1), (2, 4, 9, 7), (1, 5, 8, 33), (2, 3, 6, 64), (0, 4, 4, 5), (1, 3, 7, 0):
        x = rng.integers(-8, 9, (n, h, v, c)).astype(kind)
        w = rng.integers(-4, 5, (3, 3, c)).astype(kind)
        wanted = sum(
            x[:, r : r + h - 2, q : q + v - 2].astype(np.float64) * w[r, q].astype(np.float64) for r in range(3) for q in range(3)
        )
        assert np.array_equal(np.asarray(f(x, w)).astype(np.float64), wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64])
@pytest.mark.parametrize("shape", [(5, 13, 14), (3, 29, 27), (2, 35, 8)])
def test_pools_of_few_results_in_any_layout(shape: tuple[int, int, int], dtype: Any) -> None:
    pictures, high, wide = shape
    rows, columns = (high - 3) // 2 + 1, (wide - 3) // 2 + 1
    name = {np.float32: "f32", np.int8: "i8", np.float64: "f64"}[dtype]
    text = f"""
def f(x: tensor[{pictures}, {high}, {wide}, {name}]) {{
    compute(x) {{
        for n in 0..{pictures}, h in 0..{rows}, v in 0..{columns}:
            var m = -100
            for r in 0..3, q in 0..3: m = max(m, x[n, 2 * h + r, 2 * v + q])
            out[n, h, v] = m
    }}
}}
"""
    text = text if dtype is np.int8 else text.replace("-100", "-inf")
    x: Any = np.random.default_rng(high).integers(-99, 99, shape).astype(dtype)
    expected = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))[:, ::2, ::2].max((-2, -1))
    for order in (0, 1, 2), (0, 2, 1), (2, 1, 0):
        view = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
        np.testing.assert_array_equal(np.asarray(zynml.compile(text).f(view)), expected)
