"""Rows that are reduced side by side, and those that are left over, which go one by one."""

from typing import Any

import numpy as np
import pytest

import zynml

ROWS = """
def times(a: tensor[M, K], x: tensor[K]): tensor {
    compute(a, x) {
        for i in 0..M:
            var s = 0.0
            for k in 0..K: s += a[i, k] * x[k]
            out[i] = s
    }
}
def greatest(a: tensor[M, K]): tensor {
    compute(a) {
        for i in 0..M:
            var s = -inf
            for k in 0..K: s = max(s, a[i, k])
            out[i] = s
    }
}
"""

PRODUCTS = """
def products(a: tensor[B, C, M, K], b: tensor[B, C, K, N]): tensor {
    compute(a, b) {
        for n in 0..B, c in 0..C, i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += a[n, c, i, k] * b[n, c, k, j]
            out[n, c, i, j] = s
    }
}
"""

_RANDOM = np.random.default_rng(3)


def floats(*dims: int) -> Any:
    return _RANDOM.standard_normal(dims).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_of_any_number_and_length(threads: int) -> None:
    program = zynml.compile(ROWS, threads=threads)
    for m, k in (1, 1), (3, 31), (4, 16), (5, 1000), (7, 97), (33, 65), (0, 4), (6, 0):
        for a in floats(m, k), floats(m, 2 * k)[:, ::2], floats(k, m).T:
            x, wide = floats(k), a.astype(np.float64)
            error = k * np.finfo(np.float32).eps * (abs(wide) @ abs(x.astype(np.float64)))
            assert np.all(abs(program.times(a, x) - wide @ x) <= error)
            assert np.array_equal(program.greatest(a), a.max(1, initial=-np.inf))
    a = floats(7, 97)
    a[2, 5], a[6, 96] = np.nan, np.inf
    assert np.array_equal(np.isnan(program.times(a, np.ones(97, np.float32))), np.arange(7) == 2)
    assert program.times(a, np.ones(97, np.float32))[6] == np.inf


def test_rows_of_products_under_two_batches() -> None:
    """Columns aren't shared out to threads there."""
    products = zynml.compile(PRODUCTS).products
    for m, k, n in (1, 5, 3), (3, 7, 33), (9, 4, 17), (6, 3, 70), (5, 0, 9):
        a, b = floats(2, 3, m, k), floats(2, 3, k, n)
        wide = [x.astype(np.float64) for x in (a, b)]
        error = max(1, k) * np.finfo(np.float32).eps * (abs(wide[0]) @ abs(wide[1]))
        assert np.all(abs(products(a, b) - wide[0] @ wide[1]) <= error)
