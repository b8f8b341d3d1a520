"""Launches large enough for threads to share the work: scans, sorts, searches, reductions, products."""

import numpy as np
import pytest

from tests.kernels.checks import exactly, generator, holds, launched, numbers

LENGTHS = (100_003, 300_007)


def along(kind: str, operand: str = "x[i]") -> str:
    return f"def f(x) {{\n    compute(x) @kernel({kind}) {{ for i in 0..N: yield {operand} }}\n}}\n"


def over(kind: str) -> str:
    return f"def f(x) {{\n    compute(x) @kernel({kind}) {{ for i in 0..M, j in 0..N: yield x[i, j] }}\n}}\n"


@pytest.mark.parametrize("option", ("", ", exclusive=true", ", reverse=true"))
@pytest.mark.parametrize("size", LENGTHS)
def test_running_sums_and_extremes(size: int, option: str) -> None:
    x = generator(size).integers(-5, 6, size).astype(np.int8)
    for operator, function, least in (("+", np.add, 0), ("max", np.maximum, -128)):
        got = launched(along(f"scan, {operator}{option}"), x)
        wide = x.astype(got.dtype)
        want = function.accumulate(wide[::-1], dtype=wide.dtype)[::-1] if "reverse" in option else function.accumulate(wide, dtype=wide.dtype)
        if "exclusive" in option:
            want = np.concatenate([np.array([least], wide.dtype), want[:-1]])
        exactly(got, want)
    z = numbers("f32", size)
    if not option:
        holds(launched(along("scan, +"), z), np.cumsum(z.astype(float)), np.cumsum(np.abs(z).astype(float)), size)


@pytest.mark.parametrize("size", LENGTHS)
def test_sorts_and_searches(size: int) -> None:
    x = numbers("f32", size)
    x[::1000] = np.nan
    keys, places = launched(along("sort", "(x[i], i)"), x)
    want = np.argsort(x, kind="stable")
    exactly(keys, x[want])
    np.testing.assert_array_equal(places, want)
    value, index = launched(along("reduce, argmin", "(x[i], i)"), x)
    assert np.isnan(value)
    assert index == 0
    ties = np.round(numbers("f32", size, 1) * 3)
    assert launched(along("reduce, argmax", "(x[i], i)"), ties) == (ties.max(), ties.argmax())


@pytest.mark.parametrize("axis", (0, 1))
def test_rows_and_columns(axis: int) -> None:
    m = numbers("f32", (1009, 257))
    for view in (m, m.T.copy().T, m[::-1, ::-1]):
        w = view.astype(float)
        holds(launched(over(f"reduce, +, axis={axis}"), view), w.sum(axis), np.abs(w).sum(axis), view.shape[axis])
        exactly(launched(over(f"reduce, max, axis={axis}"), view), view.max(axis))
        holds(launched(over(f"scan, +, axis={axis}"), view), np.cumsum(w, axis), np.cumsum(np.abs(w), axis), view.shape[axis])
        exactly(launched(over(f"sort, axis={axis}, descending=true"), view), -np.sort(-view, axis))


def test_a_product_with_the_sum_outermost() -> None:
    text = "def f(A, B) {\n    compute(A, B) { for k in 0..K, i in 0..M, j in 0..N: out[i, j] += A[i, k] * B[k, j] }\n}\n"
    a, b = numbers("f32", (257, 333), 1), numbers("f32", (333, 251), 2)
    w, v = a.astype(float), b.astype(float)
    holds(launched(text, a, b), w @ v, np.abs(w) @ np.abs(v), 333)
