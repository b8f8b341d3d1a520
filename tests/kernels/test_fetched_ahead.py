"""Short rows whose bounds data hold and that lie one behind the other, and rows that are read beside each other: what they hold is fetched ahead."""

from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zynml


@pytest.mark.parametrize(
    ("term", "dtype", "in_lanes"), [("v[k]", "f16", False), ("v[k] * v[w[k]]", "f32", False), ("v[k] * v[w[k]]", "f16", True)]
)
def test_only_rows_in_lanes_one_behind_the_other_are_fetched_ahead(term: str, dtype: str, in_lanes: bool) -> None:
    text = f"""def f(a: tensor[R, i32], b: tensor[R, i32], v: tensor[K, {dtype}], w: tensor[K, i32]) {{
        compute(a, b, v, w) -> tensor[R - 1, {dtype}] {{ for r in 0..R - 1 {{ var s = 0.0
            for k in START..END {{ s += {term} }}
            out[r] = s }} }}
    }}"""
    rng = np.random.default_rng(5)
    start = np.concatenate([[0], np.cumsum(rng.integers(0, 70, 40))]).astype(np.int32)
    v, w = (
        rng.integers(-2, 3, start[-1]).astype(np.float16 if dtype == "f16" else np.float32),
        rng.integers(0, start[-1], start[-1]).astype(np.int32),
    )
    terms = v * v[w] if "w" in term else v
    for last, is_fetched in (("a[r + 1]", in_lanes), ("b[r]", False)):
        program = zynml.compile(text.replace("START", "a[r]").replace("END", last))
        assert ("ahead=" in str(program.emit("hir-after=place"))) is is_fetched
        got = program.f(start, np.roll(start, -1), v, w)
        assert list(got) == [terms[begin:end].sum() for begin, end in pairwise(start)]


@pytest.mark.parametrize(("dtype", "sizes"), [(np.float32, (1301, 1303)), (np.float64, (5, 7)), (np.float32, (3, 40))])
def test_the_row_that_goes_before_others_is_fetched_ahead(dtype: Any, sizes: tuple[int, int]) -> None:
    text = f"""
def stencil(x: tensor[M, N, {"f32" if dtype is np.float32 else "f64"}]): tensor {{
    compute(x) {{
        for i in 0..M - 2, j in 0..N - 2: out[i, j] = x[i, j + 1] + x[i + 2, j + 1] - x[i + 1, j] * x[i + 1, j + 2]
    }}
}}
"""
    x = (np.arange(sizes[0] * sizes[1]) % 13).reshape(sizes).astype(dtype)
    program = zynml.compile(text, threads=1)
    np.testing.assert_array_equal(program.stencil(x), x[:-2, 1:-1] + x[2:, 1:-1] - x[1:-1, :-2] * x[1:-1, 2:])
    assert "@llvm.prefetch" in str(program.emit("llvm"))


def test_two_rows_are_followed_by_the_processor() -> None:
    text = "def two(x: tensor[M, N]): tensor { compute(x) { for i in 0..M - 1, j in 0..N: out[i, j] = x[i, j] + x[i + 1, j] } }"
    assert "@llvm.prefetch" not in str(zynml.compile(text, threads=1).emit("llvm"))


@pytest.mark.parametrize(("dtype", "sizes"), [("f32", (1301, 1303)), ("bf16", (1999, 1601)), ("f64", (5, 7)), ("f16", (33, 64))])
def test_rows_that_take_their_steps_at_once_are_fetched_ahead(dtype: str, sizes: tuple[int, int]) -> None:
    text = f"""def lines(x: tensor[I, T, {dtype}]) {{ compute(x) {{ for i in 0..I {{ var h = 0.0
        for t in 0..T {{ h = 0.5 * h + x[i, t]
            out[i, t] = h }} }} }} }}"""
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bf16" else f"f{int(dtype[1:]) // 8}")
    program = zynml.compile(text, threads=1)
    x = (np.arange(sizes[0] * sizes[1]) % 13 - 6).reshape(sizes)
    want, h = np.empty(sizes), np.zeros(sizes[0])
    for t in range(sizes[1]):
        h = 0.5 * h + x[:, t]
        want[:, t] = h
    got = np.asarray(program.lines(x.astype(kind)))
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=0, atol={"bf16": 0.2, "f16": 0.02}.get(dtype, 1e-5))
    assert "@llvm.prefetch" in str(program.emit("llvm"))
