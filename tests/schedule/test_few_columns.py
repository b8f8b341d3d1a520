"""Products of few columns, whose rows are read in place, against NumPy in float64 and exact ints."""

from typing import Any

import numpy as np
import pytest

import zynml

SOURCE = """
def product(a: tensor[M, K, DTYPE], b: tensor[K, N, DTYPE]): tensor {
    compute(a, b) {
        for i in 0..M, j in 0..N:
            var s = ZERO
            for k in 0..K: s += a[i, k] * b[k, j]
            out[i, j] = s + j
    }
}
def turned(a: tensor[K, M, DTYPE], b: tensor[N, K, DTYPE]): tensor {
    compute(a, b) {
        for i in 0..M, j in 0..N:
            var s = ZERO
            for k in 0..K: s += a[k, i] * b[j, k]
            out[i, j] = s
    }
}
"""
DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "f16": np.float16}
SIZES = [(8, 32), (9, 33), (31, 100), (64, 40)]
COLUMNS = [1, 5, 6, 7, 8, 9, 15, 16, 17, 23, 24, 25]


@pytest.fixture(scope="module", params=DTYPES)
def dtype(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def program(dtype: str) -> Any:
    return zynml.compile(SOURCE.replace("DTYPE", dtype).replace("ZERO", "0" if dtype == "i32" else "0.0"), threads=2)


def numbers(dtype: str, *shape: int) -> Any:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(DTYPES[dtype])


@pytest.mark.parametrize(("rows", "terms"), SIZES)
def test_few_columns(program: Any, dtype: str, rows: int, terms: int) -> None:
    for columns in COLUMNS:
        a, b = numbers(dtype, rows, terms), numbers(dtype, terms, columns)
        expected = a.astype(float) @ b.astype(float)
        np.testing.assert_array_equal(program.product(a, b), expected + np.arange(columns))
        np.testing.assert_array_equal(program.product(a[:, ::-1], b[::-1]), expected + np.arange(columns))
        np.testing.assert_array_equal(program.turned(np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)), expected)


def test_numbers_that_are_not_finite_stay_in_their_row_and_column(program: Any, dtype: str) -> None:
    if dtype == "i32":
        return
    for columns in (3, 7, 12, 20):
        a, b = np.ones((33, 50), DTYPES[dtype]), np.ones((50, columns), DTYPES[dtype])
        a[4, 49], b[49, columns - 1] = np.inf, np.nan
        result = np.asarray(program.product(a, b))
        assert np.isnan(result[:, -1]).all() and np.isinf(result[4, :-1]).all()
        assert np.isfinite(np.delete(result[:, :-1], 4, 0)).all()
