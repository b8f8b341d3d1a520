"""Scans along each axis, forward and back, inclusive and exclusive; stable sorts with and without payload."""

from typing import Any

import numpy as np
import pytest

from tests.kernels.checks import (
    DTYPES,
    FLOATS,
    LAYOUTS,
    NUMBERS,
    SIZES,
    Array,
    exactly,
    generator,
    holds,
    laid_out,
    launched,
    numbers,
    spread,
)


def scanning(operator: str, rank: int = 1, options: str = "") -> str:
    names = "ijk"[:rank]
    loops = ", ".join(f"{name} in 0..S{name}" for name in names)
    return f"def f(x) {{\n    compute(x) @kernel(scan, {operator}{options}) {{ for {loops}: yield x[{', '.join(names)}] }}\n}}\n"


IDENTITY: dict[str, Any] = {"+": 0, "*": 1, "min": np.inf, "max": -np.inf, "and": True, "or": False}
FUNCTIONS: dict[str, Any] = {"+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.logical_and, "or": np.logical_or}


def scanned(operator: str, x: Array, axis: int = -1, exclusive: bool = False, reverse: bool = False) -> Array:
    """The scan in x's own type."""
    if reverse:
        x = np.flip(x, axis)
    made = FUNCTIONS[operator].accumulate(x, axis=axis, dtype=x.dtype)
    if exclusive:
        first = list(x.shape)
        first[axis] = min(1, first[axis])
        identity = IDENTITY[operator]
        if operator in ("min", "max") and x.dtype.kind in "iu":
            identity = np.iinfo(x.dtype).max if operator == "min" else np.iinfo(x.dtype).min
        made = np.concatenate([np.full(first, identity, x.dtype), np.delete(made, -1, axis) if x.shape[axis] else made], axis)
    return np.flip(made, axis) if reverse else made


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("operator", ("+", "*", "min", "max"))
def test_scans_of_every_dtype_and_size(operator: str, dtype: str) -> None:
    text = scanning(operator)
    for size, layout in spread(SIZES, LAYOUTS):
        x = numbers(dtype, size, operator, small=True)
        if operator == "*" and dtype in FLOATS:
            x = (1 + x.astype(float) / 1000).astype(DTYPES[dtype])
        got = launched(text, laid_out(x, layout))
        if dtype in FLOATS:
            w = x.astype(np.float64)
            magnitude = np.cumsum(np.abs(w)) if operator == "+" else np.abs(scanned(operator, w)) * size
            holds(got, scanned(operator, w), magnitude, size)
        else:
            kept = np.cumsum(x).dtype if operator in ("+", "*") else x.dtype
            assert got.dtype == kept
            exactly(got, scanned(operator, x.astype(kept)))


@pytest.mark.parametrize("exclusive", (False, True))
@pytest.mark.parametrize("reverse", (False, True))
@pytest.mark.parametrize("axis", (0, 1, 2, -1))
@pytest.mark.parametrize("operator", ("+", "max"))
def test_scans_along_axes(operator: str, axis: int, reverse: bool, exclusive: bool) -> None:
    options = f", axis={axis}" + (", exclusive=true" if exclusive else "") + (", reverse=true" if reverse else "")
    text = scanning(operator, 3, options)
    for shape, layout in spread(((2, 3, 5), (1, 33, 3), (31, 2, 33), (3, 257, 1), (33, 1, 31), (0, 2, 3), (2, 0, 3)), LAYOUTS):
        x = numbers("i32", shape, operator, small=True)
        want = x.astype(np.int64) if operator == "+" else x
        exactly(launched(text, laid_out(x, layout)), scanned(operator, want, axis, exclusive, reverse))
        y = numbers("f32", shape, operator)
        w = y.astype(np.float64)
        holds(launched(text, laid_out(y, layout)), scanned(operator, w, axis, exclusive, reverse), np.abs(w).sum(axis, keepdims=True), shape[axis])


@pytest.mark.parametrize("operator", ("and", "or"))
def test_scans_of_truth(operator: str) -> None:
    for size in SIZES:
        x = generator(size).random(size) < (0.98 if operator == "and" else 0.02)
        exactly(launched(scanning(operator), x), scanned(operator, x))


def test_nan_stays_in_running_extremes() -> None:
    x = numbers("f32", 100)
    x[40] = np.nan
    exactly(launched(scanning("max"), x), np.maximum.accumulate(x))
    exactly(launched(scanning("min", options=", reverse=true"), x), np.minimum.accumulate(x[::-1])[::-1])


def test_a_scan_of_an_expression() -> None:
    text = "def f(x, y) {\n    compute(x, y) @kernel(scan, +, axis=1) { for i in 0..M, j in 0..N: yield x[i, j] * y[j] }\n}\n"
    x, y = numbers("f64", (33, 257), 1), numbers("f64", 257, 2)
    holds(launched(text, x, y), np.cumsum(x * y, 1), np.cumsum(np.abs(x * y), 1), 257)


# ---- sort ------------------------------------------------------------------------------------------------------------


def sorting(rank: int = 1, options: str = "", payload: str = "") -> str:
    names = "ij"[:rank]
    loops = ", ".join(f"{name} in 0..S{name}" for name in names)
    key = f"x[{', '.join(names)}]"
    return f"def f(x) {{\n    compute(x) @kernel(sort{options}) {{ for {loops}: yield {f'({key}, {payload})' if payload else key} }}\n}}\n"


def order(x: Array, axis: int = -1, descending: bool = False) -> Array:
    """Stable order of float keys with NaN last in both directions."""
    keys = x.astype(np.float64) if x.dtype.kind not in "iub" else x
    if not descending:
        return np.argsort(keys, axis, kind="stable")
    if keys.dtype.kind in "iub":
        ranks = np.unique(keys, return_inverse=True)[1].reshape(keys.shape)
        return np.argsort(-ranks, axis, kind="stable")
    return np.argsort(np.where(np.isnan(keys), np.nan, -keys), axis, kind="stable")


@pytest.mark.parametrize("descending", (False, True))
@pytest.mark.parametrize("dtype", (*NUMBERS, "bool"))
def test_sorts_of_every_dtype_and_size(dtype: str, descending: bool) -> None:
    options = ", descending=true" if descending else ""
    for size, layout in spread(SIZES, LAYOUTS):
        for small in (False, True):
            x = numbers(dtype, size, "sort", small)
            if dtype in FLOATS:
                x = np.round(x * 8) if small else x
                x[size // 3 : size // 3 + 2] = np.nan
            want = order(x, descending=descending)
            exactly(launched(sorting(options=options), laid_out(x, layout)), x[want])
            keys, places = launched(sorting(options=options, payload="i"), laid_out(x, layout))
            exactly(keys, x[want])
            np.testing.assert_array_equal(places, want)


@pytest.mark.parametrize("descending", (False, True))
@pytest.mark.parametrize("axis", (0, 1, -1))
def test_sorts_along_axes(axis: int, descending: bool) -> None:
    options = f", axis={axis}" + (", descending=true" if descending else "")
    text = sorting(2, options, "ij"[axis])
    for shape, layout in spread(((3, 5), (33, 257), (257, 3), (1, 31), (31, 1), (0, 4), (4, 0)), LAYOUTS):
        x = np.round(numbers("f32", shape) * 3)
        want = order(x, axis, descending)
        keys, places = launched(text, laid_out(x, layout))
        exactly(keys, np.take_along_axis(x, want, axis))
        np.testing.assert_array_equal(places, want)


def test_infinities_zeros_and_nan_sort_in_order() -> None:
    x = np.array([0.0, np.nan, -0.0, np.inf, -np.inf, 1.0, -1.0, np.nan, 0.0], np.float32)
    keys, places = launched(sorting(payload="i"), x)
    np.testing.assert_array_equal(keys, [-np.inf, -1, 0, 0, 0, 1, np.inf, np.nan, np.nan])
    np.testing.assert_array_equal(places, [4, 6, 0, 2, 8, 5, 3, 1, 7])


def test_the_payload_may_be_data_of_another_type() -> None:
    text = "def f(x, y) {\n    compute(x, y) @kernel(sort) { for i in 0..N: yield (x[i], y[i] * 2.0) }\n}\n"
    for size in (0, 1, 33, 1000):
        x, y = numbers("i32", size, small=True), numbers("f64", size)
        keys, payload = launched(text, x, y)
        exactly(keys, np.sort(x))
        exactly(payload, y[np.argsort(x, kind="stable")] * 2)


def test_keys_are_expressions() -> None:
    text = "def f(x) {\n    compute(x) @kernel(sort) { for i in 0..N: yield (abs(x[i]), i) }\n}\n"
    x = numbers("f32", 257)
    keys, places = launched(text, x)
    exactly(keys, np.sort(np.abs(x)))
    np.testing.assert_array_equal(places, np.argsort(np.abs(x), kind="stable"))
