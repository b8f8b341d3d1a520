"""Maps whose results lie in another order than what they read, with rows and columns that fill no square and no line of the cache, against NumPy."""

import numpy as np
import pytest

import zynml

SOURCE = """
def crossed(x: tensor[A, B, C, D, T]): tensor[C, B, A, D, T] { compute(x) { for i in 0..A, j in 0..B, k in 0..C, l in 0..D: out[k, j, i, l] = x[i, j, k, l] } }
def turned(x: tensor[A, B, C, D, T], y: tensor[D, T]): tensor[A, B, C, D, T] {
    compute(x, y) { for i in 0..A, j in 0..B, k in 0..C, l in 0..D: out[i, j, k, l] = max(x[i, j, k, l], y[l]) }
}
"""


@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "f64"])
@pytest.mark.parametrize("shape", [(3, 5, 7, 33), (2, 2, 10, 19), (70, 2, 17, 9), (1, 4, 1, 8), (3, 0, 2, 5), (2, 1, 67, 131), (1, 2, 24, 32), (2, 1, 5, 70), (1, 1, 8, 8), (1, 2, 19, 1100), (2, 1, 1537, 21)])
def test_crossed(shape: tuple[int, ...], dtype: str) -> None:
    kind = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "f64": np.float64}[dtype]
    rng = np.random.default_rng(sum(shape))
    x = rng.integers(-100, 100, (*shape[:2], shape[3], shape[2])).astype(kind).swapaxes(2, 3)
    y = rng.integers(-100, 100, shape[3]).astype(kind)
    program = zynml.compile(SOURCE.replace(", T]", f", {dtype}]"))
    np.testing.assert_array_equal(np.asarray(program.crossed(x)), x.transpose(2, 1, 0, 3))
    np.testing.assert_array_equal(np.asarray(program.turned(x, y)), np.maximum(x, y))


CONDITIONS = """
def neighbours(x: tensor[A, B, T]): tensor[A, B, T] {
    compute(x) {
        for i in 0..A, j in 0..B:
            var s = x[i, j]
            if i > 0: s += x[i - 1, j]
            if i < A - 1: s += x[i + 1, j]
            if j > 0: s += x[i, j - 1]
            out[i, j] = s
    }
}
def below(x: tensor[A, B, T]): tensor[A, B, T] { compute(x) { for i in 0..A, j in 0..B: out[i, j] = x[i, j] if j <= i else 0 } }
"""


@pytest.mark.parametrize("dtype", ["u8", "i16", "i32"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 31), (33, 8), (83, 70), (97, 100), (16, 0)])
def test_conditions_on_views_of_another_order(shape: tuple[int, int], dtype: str) -> None:
    kind = {"u8": np.uint8, "i16": np.int16, "i32": np.int32}[dtype]
    x = np.random.default_rng(sum(shape)).integers(0, 60, shape[::-1]).astype(kind).T
    program = zynml.compile(CONDITIONS.replace(", T]", f", {dtype}]"))
    sums = x.copy()
    sums[1:] += x[:-1]
    sums[:-1] += x[1:]
    sums[:, 1:] += x[:, :-1]
    np.testing.assert_array_equal(np.asarray(program.neighbours(x)), sums)
    np.testing.assert_array_equal(np.asarray(program.below(x)), np.tril(x))
