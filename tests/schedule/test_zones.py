"""Rows and maps with a condition that is a bound of an index along the last axis: zones of whole tiles in which it holds or fails, and the
tiles between them, against NumPy in float64."""

from typing import Any

import numpy as np
import pytest

import zynml
from tests.kernels.checks import numbers

SOURCE = """
def below(x: tensor[N, M]): tensor {
    compute(x) {
        for i in 0..N:
            var s = 0.0
            for j in 0..min(i + 1, M): s += x[i, j]
            out[i] = s
    }
}
def band(x: tensor[N, M]): tensor {
    compute(x) {
        for i in 0..N:
            var m = -inf
            for j in max(0, 2 * i - 5)..min(2 * i + 20, M): m = max(m, x[i, j])
            out[i] = m
    }
}
def causal(x: tensor[N, M]): tensor {
    compute(x) {
        for i in 0..N:
            var top = -inf
            for j in 0..M:
                if j <= i: top = max(top, x[i, j])
            var s = 0.0
            for j in 0..M:
                if j <= i: s += exp(x[i, j] - top)
            for j in 0..M: out[i, j] = exp(x[i, j] - top) / s if j <= i else 0.0
    }
}
def heat(x: tensor[N, M]): tensor {
    compute(x) {
        for i in 0..N, j in 0..M:
            var s = 0.5 * x[i, j]
            if i > 0: s += 0.25 * x[i - 1, j]
            if i < N - 1: s += 0.125 * x[i + 1, j]
            if j > 0: s += 2.0 * x[i, j - 1]
            if j < M - 1: s += 4.0 * x[i, j + 1]
            out[i, j] = s
    }
}
def framed(x: tensor[N, M]): tensor {
    compute(x) {
        for i in 0..N, j in 0..M:
            var s = 0.0
            if i > 0 and i < N - 1 and j > 0 and j < M - 1: s = x[i - 1, j + 1] - 2.0 * x[i + 1, j - 1]
            out[i, j] = s
    }
}
def upper(x: tensor[N, M]): tensor {
    compute(x) { for i in 0..N, j in 0..M: out[i, j] = x[i, j] if j >= 2 * i else -1.0 }
}
def turned(x: tensor[N, M]): tensor {
    compute(x) { for i in 0..N, j in 0..M: out[i, j] = x[i, M - 1 - j] if i + j < M and j > 3 else x[i, j] }
}
"""

SHAPES = [(1, 1), (3, 2), (1, 40), (31, 1), (7, 16), (33, 31), (64, 65), (40, 257), (130, 100)]


DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16}


@pytest.fixture(scope="module", params=DTYPES)
def dtype(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def program(dtype: str) -> Any:
    return zynml.compile(SOURCE.replace("[N, M]", f"[N, M, {dtype}]"), threads=2)


@pytest.mark.parametrize("shape", SHAPES)
def test_zones(program: Any, dtype: str, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(sum(shape)).standard_normal(shape).astype(DTYPES[dtype])
    w, error = x.astype(float), 2e-2 if dtype == "f16" else 1e-5
    close = {"rtol": error, "atol": error}
    i, j = np.ogrid[: shape[0], : shape[1]]
    if shape[1] >= shape[0]:
        np.testing.assert_allclose(program.below(x), np.where(j <= i, w, 0).sum(1), **close)
    np.testing.assert_array_equal(program.band(x), np.where((j >= 2 * i - 5) & (j < 2 * i + 20), w, -np.inf).max(1))
    e = np.exp(np.where(j <= i, w, -np.inf) - np.where(j <= i, w, -np.inf).max(1)[:, None])
    np.testing.assert_allclose(program.causal(x), e / e.sum(1)[:, None], **close)
    expected = 0.5 * w
    expected[1:] += 0.25 * w[:-1]
    expected[:-1] += 0.125 * w[1:]
    expected[:, 1:] += 2 * w[:, :-1]
    expected[:, :-1] += 4 * w[:, 1:]
    np.testing.assert_allclose(program.heat(x), expected, **close)
    expected = np.zeros_like(w)
    expected[1:-1, 1:-1] = w[:-2, 2:] - 2 * w[2:, :-2]
    np.testing.assert_allclose(program.framed(x), expected, **close)
    np.testing.assert_array_equal(program.upper(x), np.where(j >= 2 * i, w, -1))
    np.testing.assert_array_equal(program.turned(x), np.where((i + j < shape[1]) & (j > 3), w[:, ::-1], w))


def test_what_is_not_finite_beyond_the_diagonal_does_not_count(program: Any, dtype: str) -> None:
    x = np.ones((70, 100), DTYPES[dtype])
    x[:, 70:] = np.nan
    np.testing.assert_array_equal(program.below(x), np.arange(1, 71))
    assert not np.isnan(program.causal(x)).any()


@pytest.mark.parametrize("condition", ["j <= i", "j > i", "i + j < 20", "j >= i - 3 and j < i + 5", "j > 0 and j < M - 1"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "u8"])
def test_elements_on_both_sides_of_a_line(condition: str, dtype: str) -> None:
    text = f"def f(x: tensor[N, M, {dtype}]) {{ compute(x) {{ for i in 0..N, j in 0..M: out[i, j] = x[i, j] if {condition} else 2 * x[i, j] }} }}"
    program = zynml.compile(text)
    for rows, columns in (0, 3), (3, 0), (1, 1), (3, 31), (40, 33), (7, 101), (64, 64):
        x = numbers(dtype, (rows, columns + 1), rows, small=True)[:, 1:]
        if dtype != "u8" and x.size > 3:
            x[rows // 2, columns // 2], x[0, 0] = np.nan, np.inf
        i, j = np.indices(x.shape)
        holds = np.logical_and.reduce([eval(each, {"i": i, "j": j, "M": columns}) for each in condition.split(" and ")])
        wide = x.astype(np.float64)
        assert np.array_equal(program.f(x).astype(np.float64), np.where(holds, wide, 2 * wide), equal_nan=True), x.shape
