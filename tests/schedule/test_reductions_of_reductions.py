"""Reductions of what reductions of two operands give, as the distance to the nearest of some centres: compared with NumPy in float64, with
operands turned where many rows share them, and at sizes that end in every direction."""

from typing import Any

import numpy as np
import pytest

import zynml

SOURCE = """
def nearest(x: tensor[N, K, T], y: tensor[C, K, T]): tensor {
    compute(x, y) {
        for i in 0..N:
            var best: T = inf
            for j in 0..C:
                var s: T = 0.0
                for k in 0..K:
                    let d = x[i, k] - y[j, k]
                    s += d * d
                best = min(best, s)
            out[i] = best
    }
}
def kernel_sums(x: tensor[N, K, T], y: tensor[C, K, T], w: tensor[C, T]): tensor {
    compute(x, y, w) {
        for i in 0..N:
            var total: T = 0.0
            for j in 0..C:
                var s: T = 0.0
                for k in 0..K: s += abs(x[i, k] - y[j, k])
                total += w[j] / (1.0 + s)
            out[i] = total
    }
}
def largest(x: tensor[N, K, T], y: tensor[C, K, T]): tensor {
    compute(x, y) {
        for i in 0..N:
            var best: T = -inf
            for j in 0..C:
                var s: T = 0.0
                for k in 0..K: s += x[i, k] * y[j, k]
                best = max(best, s)
            out[i] = best
    }
}
"""
SHAPES = [(1, 1, 1), (5, 3, 31), (64, 33, 5), (67, 131, 4), (33, 48, 96), (100, 16, 1), (9, 64, 17), (0, 40, 3), (35, 0, 3), (35, 40, 0)]
SHAPES += [(70, 5, 3), (67, 12, 5), (70, 9, 65), (70, 31, 8)]  # few centres, whose results fill a part of a vector


def distances(x: Any, y: Any) -> Any:
    return x.astype(np.float64)[:, None] - y.astype(np.float64)[None]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_reductions_of_reductions(dtype: str, threads: int) -> None:
    kind, tolerance = {"f32": (np.float32, 1e-5), "f64": (np.float64, 1e-13)}[dtype]
    program = zynml.compile(SOURCE.replace(", T]", f", {dtype}]").replace(": T ", f": {dtype} "), threads=threads)
    random = np.random.default_rng(5)
    for n, c, k in SHAPES:
        x, y, w = (random.standard_normal(shape).astype(kind) for shape in ((n, k), (c, k), (c,)))
        squares = (distances(x, y) ** 2).sum(2)
        np.testing.assert_allclose(program.nearest(x, y), squares.min(1, initial=np.inf), rtol=tolerance)
        sums = (w.astype(np.float64) / (1 + np.abs(distances(x, y)).sum(2))).sum(1)
        # terms of both signs: the error is one of the largest of them
        np.testing.assert_allclose(program.kernel_sums(x, y, w), sums, rtol=tolerance, atol=20 * tolerance)
        products = (x.astype(np.float64) @ y.astype(np.float64).T).max(1, initial=-np.inf)
        np.testing.assert_allclose(program.largest(x, y), products, rtol=tolerance, atol=20 * tolerance)


def test_numbers_that_are_not_finite_count() -> None:
    program = zynml.compile(SOURCE.replace(", T]", ", f32]").replace(": T ", ": f32 "))
    random = np.random.default_rng(6)
    for centres in 37, 12:
        x, y = random.standard_normal((70, 9)).astype(np.float32), random.standard_normal((centres, 9)).astype(np.float32)
        x[3, 2], x[11, 8], y[-1, 0] = np.nan, np.inf, -np.inf
        squares = (distances(x, y) ** 2).sum(2)
        np.testing.assert_allclose(program.nearest(x, y), squares.min(1), rtol=1e-5)


def test_what_rows_share_is_turned() -> None:
    source = SOURCE.replace(", T]", ", f32]").replace(": T ", ": f32 ")
    assert zynml.compile(source).emit("schedule").count("copies of y along j") == 3
