"""Rows of a ragged axis with loops inside: lanes share out the elements of all entries of a row. Against sums in float64, or exact ones."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import zynml

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(11)
DEVICE = "emulator:sm_90a"

BLOCKS = """def f(start: tensor[P, i32], column: tensor[K, i32], v: tensor[K, B, B, {dtype}], x: tensor[M, {dtype}]) {{
    compute(start, column, v, x) -> tensor[(P - 1) * B, {dtype}] {{
        for r in 0..P - 1, a in 0..B:
            var s: {dtype} = 0
            for k in start[r]..start[r + 1]:
                for c in 0..B: s += v[k, a, c] * x[column[k] * B + c]
            out[r * B + a] = s
    }}
}}"""


def starts(lengths: Array) -> Array:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def words_of(text: str, like: str) -> str:
    return "; ".join(zynml.compile(text)._session.launches_like([like], DEVICE)[0].threads.launches.words)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
@pytest.mark.parametrize("b", [1, 2, 3, 8, 31])
@pytest.mark.parametrize("device", [DEVICE, "emulator:sm_75"])
def test_sparse_rows_of_dense_blocks(device: str, b: int, dtype: str) -> None:
    numpy = {"f32": np.float32, "f64": np.float64, "i32": np.int32}[dtype]
    start = starts(np.array([3, 0, 1, 17, 0, 64, 2, 5]))
    column, v, x = RANDOM.integers(0, 9, start[-1]), RANDOM.integers(-9, 9, (start[-1], b, b)), RANDOM.integers(-9, 9, 9 * b)
    got = zynml.compile(BLOCKS.format(dtype=dtype), device=device, sanitize=b == 3).f(start, column.astype(np.int32), v.astype(numpy), x.astype(numpy))
    terms = np.einsum("kac,kc->ka", v, x.reshape(9, b)[column])
    np.testing.assert_array_equal(got.reshape(-1, b), [terms[low:high].sum(axis=0) for low, high in pairwise(start)])


def test_lanes_share_the_elements_of_all_entries() -> None:
    words = words_of(BLOCKS.format(dtype="f32"), "start=65537, column=524288, v=524288x8x8, x=524288")
    assert "8 lanes an iteration" in words
    assert "a block an iteration" not in words


def test_a_row_that_is_far_longer_than_others() -> None:
    """Blocks share it, in the same order in every run."""
    start = starts(np.array([3, 9000, 0, 2]))
    column, v, x = RANDOM.integers(0, 9, start[-1]).astype(np.int32), RANDOM.standard_normal((start[-1], 4, 4)), RANDOM.standard_normal(36)
    program = zynml.compile(BLOCKS.format(dtype="f32"), device=DEVICE)
    given = start, column, v.astype(np.float32), x.astype(np.float32)
    got = program.f(*given)
    terms = np.einsum("kac,kc->ka", given[2].astype(float), given[3].astype(float).reshape(9, 4)[column])
    expected = [terms[low:high].sum(axis=0) for low, high in pairwise(start)]
    np.testing.assert_allclose(got.reshape(-1, 4), expected, rtol=1e-5, atol=1e-4)
    assert np.array_equal(program.f(*given), got)


@pytest.mark.parametrize("wrong", [-1, 9])
def test_an_entry_outside_is_told_of(wrong: int) -> None:
    start, column = starts(np.array([3, 40, 2])), np.zeros(45, np.int32)
    column[21] = wrong
    with pytest.raises(zynml.ZynMLError, match=f"index {2 * wrong} is out of range: axis 0 of `x` has 18 elements"):
        zynml.compile(BLOCKS.format(dtype="f32"), device=DEVICE).f(start, column, np.ones((45, 2, 2), np.float32), np.ones(18, np.float32))


@pytest.mark.parametrize(("c", "d"), [(0, 3), (1, 1), (5, 7), (16, 2)])
def test_two_loops_inside_and_a_maximum(c: int, d: int) -> None:
    """Loops from elsewhere than 0, with values between them, whose extents no constant says."""
    text = """def f(start: tensor[P, i32], v: tensor[K, C, D, i32], w: tensor[K, i32]) {
        compute(start, v, w) {
            for r in 0..P - 1:
                var s = -100
                for k in start[r]..start[r + 1]:
                    for i in 1..C:
                        for j in 0..D: s = max(s, v[k, i, j] - w[k] * i)
                out[r] = s
        }
    }"""
    start = starts(np.array([2, 0, 30, 1, 200, 7]))
    v, w = RANDOM.integers(-99, 99, (start[-1], c, d)).astype(np.int32), RANDOM.integers(-3, 3, start[-1]).astype(np.int32)
    got = zynml.compile(text, device=DEVICE).f(start, v, w)
    terms = v - w[:, None, None] * np.arange(c)[None, :, None]
    np.testing.assert_array_equal(got, [terms[low:high, 1:].max(initial=-100) for low, high in pairwise(start)])
