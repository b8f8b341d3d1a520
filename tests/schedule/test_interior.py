"""Windows with a condition at the edges of a picture: the same in its interior, at its edges, and where it is all edge."""

from typing import Any

import numpy as np
import pytest

import zynml

SOURCE = """
def blurred(x: tensor[H, W], w: tensor[5, 5]): tensor {
    compute(x, w) {
        for i in 0..H, j in 0..W:
            var s = 0.0
            for r in 0..5, q in 0..5:
                let v = i + r - 2
                let u = j + q - 2
                if v >= 0 and v < H and u >= 0 and u < W: s += x[v, u] * w[r, q]
            out[i, j] = s
    }
}
def turned(x: tensor[H, W], w: tensor[R, S]): tensor {
    compute(x, w) {
        for i in 0..H, j in 0..W:
            var s = 0.0
            for r in 0..R, q in 0..S:
                if i >= r and j >= q: s += x[i - r, j - q] * w[r, q]
            out[i, j] = s
    }
}
def highest(x: tensor[C, H, W]): tensor {
    compute(x) {
        for c in 0..C, i in 0..H, j in 0..W:
            var m = -inf
            for r in 0..3, q in 0..3:
                if i + r > 0 and i + r - 1 < H and j + q > 0 and W >= j + q: m = max(m, x[c, i + r - 1, j + q - 1])
            out[c, i, j] = m
    }
}
def stepping(x: tensor[H, W], w: tensor[3, 3]): tensor {
    compute(x, w) {
        for i in 0..H/2, j in 0..W/2:
            var s = 0.0
            for r in 0..3, q in 0..3:
                if 2 * i + r >= 1 and 2 * j + q >= 1: s += x[2 * i + r - 1, 2 * j + q - 1] * w[r, q]
            out[i, j] = s
    }
}
def diagonal(x: tensor[H, W], w: tensor[3, 3]): tensor {
    compute(x, w) {
        for i in 0..H - 2, j in 0..W - 2:
            var s = 0.0
            for r in 0..3, q in 0..3:
                if i + r <= j + q: s += x[i + r, j + q] * w[r, q]
            out[i, j] = s
    }
}
"""

SHAPES = [(1, 1), (2, 3), (1, 40), (31, 1), (7, 16), (33, 31), (64, 65), (40, 257)]


@pytest.fixture(scope="module", params=[1, 2])
def program(request: pytest.FixtureRequest) -> Any:
    return zynml.compile(SOURCE, threads=request.param)


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def view(x: Any, size: tuple[int, int], before: int, after: int, outside: float = 0) -> Any:
    """Each window of the padded picture."""
    padded = np.pad(x.astype(float), [(0, 0)] * (x.ndim - 2) + [(before, after)] * 2, constant_values=outside)
    return np.lib.stride_tricks.sliding_window_view(padded, size, axis=(-2, -1))


@pytest.mark.parametrize("shape", SHAPES)
def test_sums_of_products(program: Any, shape: tuple[int, int]) -> None:
    x, w = normal(*shape), normal(5, 5)
    np.testing.assert_allclose(program.blurred(x, w), np.einsum("ijrq,rq->ij", view(x, (5, 5), 2, 2), w), atol=1e-4)
    for size in ((5, 5), (1, 1), (2, 7)):
        w = normal(*size)
        padded = np.pad(x.astype(float), ((size[0] - 1, 0), (size[1] - 1, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, size)
        np.testing.assert_allclose(program.turned(x, w), np.einsum("ijrq,rq->ij", windows, w[::-1, ::-1]), atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_maxima(program: Any, shape: tuple[int, int]) -> None:
    x = normal(2, *shape)
    np.testing.assert_array_equal(program.highest(x), view(x, (3, 3), 1, 1, -np.inf).max((3, 4)))
    np.testing.assert_array_equal(program.highest(x[:, ::-1, ::-1]), view(x[:, ::-1, ::-1], (3, 3), 1, 1, -np.inf).max((3, 4)))


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if min(shape) > 1])
def test_windows_that_step(program: Any, shape: tuple[int, int]) -> None:
    x, w = normal(*shape), normal(3, 3)
    h, v = shape[0] // 2, shape[1] // 2
    expected = np.einsum("ijrq,rq->ij", view(x, (3, 3), 1, 1)[::2, ::2][:h, :v], w)
    np.testing.assert_allclose(program.stepping(x, w), expected, atol=1e-4)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if min(shape) > 2])
def test_a_condition_along_a_diagonal(program: Any, shape: tuple[int, int]) -> None:
    x, w = normal(*shape), normal(3, 3)
    upper = np.where(np.arange(shape[0])[:, None] <= np.arange(shape[1]), x, 0)
    np.testing.assert_allclose(program.diagonal(x, w), np.einsum("ijrq,rq->ij", view(upper, (3, 3), 0, 0), w), atol=1e-4)


def test_numbers_that_are_not_finite_stay_where_they_count(program: Any) -> None:
    x, w = np.abs(normal(40, 80)) + 1, np.abs(normal(5, 5))
    w[0, 0] = np.inf
    result = program.blurred(x, w)
    assert np.isinf(result[2:, 2:]).all() and np.isfinite(result[:2]).all() and np.isfinite(result[:, :2]).all()
    x[20, 50], w[0, 0] = np.nan, 1
    missing = np.zeros((40, 80), bool)
    missing[18:23, 48:53] = True
    np.testing.assert_array_equal(np.isnan(program.blurred(x, w)), missing)
