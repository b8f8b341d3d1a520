"""Loops over rows whose bounds data hold, and that store their elements, against NumPy in float64."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zynml
from compiler.schedule.gpu.ragged import ragged_parts

Array = np.ndarray[Any, Any]
DEVICES = ("cpu", "emulator:sm_90a")
_RANDOM = np.random.default_rng(29)

SOFTMAX = """
def f(x: tensor[N, TYPE], ptr: tensor[P, i32]): tensor {
    compute(x, ptr) -> tensor[N, TYPE] {
        for r in 0..P - 1:
            var most = -inf
            for k in ptr[r]..ptr[r + 1]: most = max(most, x[k] as f32)
            var total: f32 = 0.0
            for k in ptr[r]..ptr[r + 1]: total += exp(x[k] as f32 - most)
            for k in ptr[r]..ptr[r + 1]: out[k] = exp(x[k] as f32 - most) / total
    }
}
"""
SCALED = """
def f(x: tensor[N], first: tensor[R, i32], count: tensor[R, i32], w: tensor[R]): tensor {
    compute(x, first, count, w) -> tensor[N] {
        for r in 0..R:
            for k in first[r]..first[r] + count[r]: out[k] = x[k] * w[r]
    }
}
"""

LENGTHS = {
    "no rows": np.zeros(0, int),
    "empty rows": np.zeros(37, int),
    "one element a row": np.ones(131, int),
    "seven a row": np.full(41, 7),
    "sixty-four a row": np.full(9, 64),
    "any length": _RANDOM.integers(0, 129, 23),
    "a block a row": np.array([900, 1000, 1]),
    "a giant among short ones": np.where(np.arange(90) == 31, 3001, 3),
}


def starts(lengths: Array) -> Array:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def floats(*shape: int, dtype: Any = np.float32) -> Array:
    return _RANDOM.standard_normal(shape).astype(dtype)


def by_rows(x: Array, ptr: Array, of: Callable[[Array], Array]) -> Array:
    """What rows become, one after the other as the loops are written, in float64; 0 where there is none."""
    out = np.zeros(x.shape)
    for a, b in pairwise(ptr):
        if a < b:
            out[a:b] = of(x[a:b].astype(np.float64))
    return out


def softmax(row: Array) -> Array:
    powers = np.exp(row - row.max(axis=0))
    return powers / powers.sum(axis=0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", LENGTHS)
def test_softmax_of_rows(kind: str, device: str) -> None:
    ptr = starts(LENGTHS[kind])
    x = floats(ptr[-1] + 5)  # the last five are in no row
    got = zynml.compile(SOFTMAX.replace("TYPE", "f32"), device=device).f(x, ptr)
    np.testing.assert_allclose(got, by_rows(x, ptr, softmax), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "dtype", "error"), [("bf16", ml_dtypes.bfloat16, 2**-8), ("f16", np.float16, 2**-10), ("f64", np.float64, 1e-6)])
def test_softmax_of_rows_of_other_types(name: str, dtype: Any, error: float, device: str) -> None:
    ptr = starts(LENGTHS["any length"])
    x = floats(ptr[-1], dtype=dtype)
    got = zynml.compile(SOFTMAX.replace("TYPE", name), device=device).f(x, ptr)
    np.testing.assert_allclose(np.asarray(got).astype(np.float64), by_rows(x, ptr, softmax), rtol=error, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_rows_that_overlap_keep_the_written_order(device: str) -> None:
    ptr = np.array([2, 9, 4, 12, 12, 6, 8], np.int32)
    x = floats(15)
    got = zynml.compile(SOFTMAX.replace("TYPE", "f32"), device=device).f(x, ptr)
    np.testing.assert_allclose(got, by_rows(x, ptr, softmax), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("ptr", [[0, 5, 20], [-1, 4, 9], [0, 4, -3, 7, 16]])
def test_a_row_outside_is_an_error(ptr: list[int], device: str) -> None:
    with pytest.raises(zynml.ZynMLError, match="ZYN0801"):
        zynml.compile(SOFTMAX.replace("TYPE", "f32"), device=device).f(floats(15), np.array(ptr, np.int32))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("overlapping", [False, True])
def test_spans_of_a_first_element_and_a_count(overlapping: bool, device: str) -> None:
    count = _RANDOM.integers(0, 9, 50)
    first = starts(count + 1)[:-1]
    if overlapping:
        first[20:] -= 7
    x, w = floats(int(first[-1] + count[-1]) + 3), floats(50)
    expected = np.zeros(len(x))
    for a, n, factor in zip(first, count, w, strict=True):
        expected[a : a + n] = x[a : a + n].astype(np.float64) * factor
    got = zynml.compile(SCALED, device=device).f(x, first, count.astype(np.int32), w)
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_gathers_and_several_results(device: str) -> None:
    text = """
    def f(x: tensor[N], ptr: tensor[P, i64], column: tensor[N, i32], y: tensor[M]) {
        return compute(x, ptr, column, y) -> (part: tensor[N], row: tensor[N, i32]) {
            for r in 0..P - 1:
                var total = 0.0
                for k in ptr[r]..ptr[r + 1]: total += abs(x[k]) * y[column[k]]
                for k in ptr[r]..ptr[r + 1]:
                    part[k] = x[k] * y[column[k]] / total
                    row[k] = r as i32
        }
    }
    """
    lengths = _RANDOM.integers(1, 40, 31)
    ptr = starts(lengths).astype(np.int64)
    x, y = floats(ptr[-1]), np.abs(floats(23)) + 0.5
    column = _RANDOM.integers(0, 23, ptr[-1]).astype(np.int32)
    part, row = zynml.compile(text, device=device).f(x, ptr, column, y)
    terms = x.astype(np.float64) * y[column]
    np.testing.assert_allclose(part, by_rows(terms, ptr, lambda own: own / np.abs(own).sum()), rtol=1e-5)
    np.testing.assert_array_equal(row, np.repeat(np.arange(31), lengths))
    column[-3] = 23
    with pytest.raises(zynml.ZynMLError, match="index 23 is out of range"):
        zynml.compile(text, device=device).f(x, ptr, column, y)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("inside", [True, False])
def test_columns_of_rows(inside: bool, device: str) -> None:
    loops = "for c in 0..C:" if inside else "if true:"
    text = f"""
    def f(x: tensor[N, C], ptr: tensor[P, i32]): tensor {{
        compute(x, ptr) -> tensor[N, C] {{
            for r in 0..P - 1{"" if inside else ", c in 0..C"}:
                {loops}
                    var most = -inf
                    for k in ptr[r]..ptr[r + 1]: most = max(most, x[k, c])
                    for k in ptr[r]..ptr[r + 1]: out[k, c] = x[k, c] - most
        }}
    }}
    """
    ptr = starts(_RANDOM.integers(0, 20, 17))
    x = floats(ptr[-1], 12)
    np.testing.assert_allclose(zynml.compile(text, device=device).f(x, ptr), by_rows(x, ptr, lambda row: row - row.max(axis=0)), rtol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_lengths_of_rows_of_a_matrix(device: str) -> None:
    text = """
    def f(x: tensor[B, T, i32], length: tensor[B, i32]): tensor {
        compute(x, length) -> tensor[B, T, i32] {
            for b in 0..B, t in 0..length[b]: out[b, t] = x[b, t] + b as i32
        }
    }
    """
    x, length = _RANDOM.integers(-99, 99, (9, 70)).astype(np.int32), _RANDOM.integers(0, 71, 9).astype(np.int32)
    expected = np.where(np.arange(70) < length[:, None], x + np.arange(9)[:, None], 0)
    np.testing.assert_array_equal(zynml.compile(text, device=device).f(x, length), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_what_follows_a_long_row_is_not_done_without_it(device: str) -> None:
    text = """
    def f(x: tensor[N, i32], ptr: tensor[P, i32]): tensor {
        compute(x, ptr) -> tensor[N, i32] {
            for r in 0..P - 1:
                var count: i32 = 0
                for k in ptr[r]..ptr[r + 1]: count += x[k]
                let part: i32 = 1000 / count
                for k in ptr[r]..ptr[r + 1]: out[k] = x[k] * part
        }
    }
    """
    lengths = LENGTHS["a giant among short ones"]
    got = zynml.compile(text, device=device).f(np.ones(lengths.sum(), np.int32), starts(lengths))
    np.testing.assert_array_equal(got, np.repeat(1000 // lengths, lengths))


RUNNING = """
def f(x: tensor[N], ptr: tensor[P, i32]) {
    return compute(x, ptr) -> (before: tensor[N], most: tensor[N], total: tensor[P - 1]) {
        for r in 0..P - 1:
            var sum = 1.0
            var high = -inf
            for k in ptr[r]..ptr[r + 1]:
                before[k] = sum
                sum += x[k]
                high = max(high, x[k])
                most[k] = high
            total[r] = sum
    }
}
"""
READ_AGAIN = """
def f(x: tensor[N], ptr: tensor[P, i32]): tensor {
    compute(x, ptr) -> tensor[N] {
        for r in 0..P - 1:
            var total = 0.0
            for k in ptr[r]..ptr[r + 1]:
                out[k] = exp(x[k])
                total += out[k]
            for k in ptr[r]..ptr[r + 1]: out[k] = out[k] / total
    }
}
"""


def few_elements_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of some dozens of elements are shared by blocks."""
    monkeypatch.setattr(ragged_parts, "EACH", 2)
    monkeypatch.setattr(ragged_parts, "FEWEST", 0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["empty rows", "any length", "a block a row", "a giant among short ones"])
def test_running_values_along_rows(kind: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few_elements_are_many(monkeypatch)
    ptr = starts(LENGTHS[kind])
    x = floats(ptr[-1])
    before, most, total = zynml.compile(RUNNING, device=device).f(x, ptr)
    np.testing.assert_allclose(before, by_rows(x, ptr, lambda row: 1 + np.cumsum(row) - row), rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(most, by_rows(x, ptr, np.maximum.accumulate))
    np.testing.assert_allclose(total, [1 + x[a:b].astype(np.float64).sum() for a, b in pairwise(ptr)], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("program", [SOFTMAX.replace("TYPE", "f32"), READ_AGAIN])
def test_blocks_share_giant_rows_loop_by_loop(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few_elements_are_many(monkeypatch)
    run = zynml.compile(program, device="emulator:sm_90a", sanitize=True).f
    for lengths in (LENGTHS["a giant among short ones"], np.where(np.arange(70) % 30 == 5, 700, 2)):
        ptr = starts(lengths)
        x = floats(ptr[-1])
        np.testing.assert_allclose(run(x, ptr), by_rows(x, ptr, softmax), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["empty rows", "any length", "a block a row"])
def test_rows_that_are_read_again(kind: str, device: str) -> None:
    ptr = starts(LENGTHS[kind])
    x = floats(ptr[-1])
    np.testing.assert_allclose(zynml.compile(READ_AGAIN, device=device).f(x, ptr), by_rows(x, ptr, softmax), rtol=1e-5, atol=1e-7)
