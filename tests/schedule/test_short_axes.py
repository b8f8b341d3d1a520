"""Rows of fewer elements than a vector: stored under a mask where memory goes on along them, and what costs much is computed once for all
that reads it. Compared with NumPy in float64, in rows that lie apart, so that they aren't one long row."""

from typing import Any

import numpy as np
import pytest

import zynml

SOURCE = """
def sums(x: tensor[A, B, T], y: tensor[A, B, T]) { compute(x, y) { for i in 0..A, j in 0..B: out[i, j] = x[i, j] + y[i, j] } }
def quotients(x: tensor[A, B, T], y: tensor[B, T]) {
    compute(x, y) { for i in 0..A, j in 0..B: out[i, j] = x[i, j] / y[j] if y[j] != 0 else x[i, j] }
}
def differences(x: tensor[A, B, T]) { compute(x) { for i in 0..A, j in 0..B: out[i, j] = x[i, j] - x[i, j - 1] if j > 0 else x[i, j] } }
"""
FUNCTIONS = """
def powers(x: tensor[A, B, T]): tensor[A, B, T] { compute(x) { for i in 0..A, j in 0..B: out[i, j] = exp(x[i, j]) * 2.0 } }
def shares(x: tensor[A, B, T]): tensor[A, B, T] {
    compute(x) {
        for i in 0..A:
            var top = -inf
            for j in 0..B: top = max(top, x[i, j])
            var total = 0.0
            for j in 0..B: total += exp(x[i, j] - top)
            for j in 0..B: out[i, j] = exp(x[i, j] - top) / total
    }
}
"""
KINDS = {"u8": np.uint8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64}
COLUMNS = [0, 1, 2, 3, 5, 7, 8, 9, 12, 15, 16, 17, 31, 33]


def apart(random: np.random.Generator, rows: int, columns: int, kind: Any) -> Any:
    return random.integers(0, 60, (rows, columns + 3)).astype(kind)[:, 1 : columns + 1]


@pytest.mark.parametrize("dtype", KINDS)
def test_rows_of_every_length(dtype: str) -> None:
    program = zynml.compile(SOURCE.replace(", T]", f", {dtype}]"))
    random = np.random.default_rng(3)
    for columns in COLUMNS:
        x, y = (apart(random, 9, columns, KINDS[dtype]) for _ in range(2))
        np.testing.assert_array_equal(program.sums(x, y), x + y)
        divisors = random.integers(0, 4, columns).astype(KINDS[dtype])
        wide, safe = x.astype(np.float64), np.where(divisors == 0, 1, divisors)
        quotients = wide / safe if dtype.startswith("f") else wide // safe
        np.testing.assert_allclose(program.quotients(x, divisors), quotients, rtol=1e-6)
        differences = x.copy()
        differences[:, 1:] -= x[:, :-1]
        np.testing.assert_array_equal(program.differences(x), differences)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_functions_and_shares_of_rows_of_every_length(dtype: str) -> None:
    program = zynml.compile(FUNCTIONS.replace(", T]", f", {dtype}]"))
    random = np.random.default_rng(4)
    tolerance = 1e-6 if dtype == "f32" else 1e-13
    for columns in COLUMNS:
        x = random.standard_normal((9, columns + 3)).astype(KINDS[dtype])[:, 1 : columns + 1]
        powers = np.exp(x.astype(np.float64))
        np.testing.assert_allclose(program.powers(x), 2 * powers, rtol=tolerance)
        if columns:
            # a few roundings each of the exponential, the sum and the quotient
            np.testing.assert_allclose(program.shares(x), powers / powers.sum(1, keepdims=True), rtol=5 * tolerance)


def test_an_exponential_is_computed_once_for_the_sum_and_the_quotient() -> None:
    text = zynml.compile(FUNCTIONS.replace(", T]", ", f32]")).emit("hir-after=place")
    shares = text[text.index("@shares") :]
    assert "kept = alloc" in shares
