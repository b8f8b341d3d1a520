"""Scans and sorts at the sizes that need look-back through all its levels; the same bits in every run."""

from typing import Any

import numpy as np
import pytest

import zynml
from tests.schedule.test_gpu_sorting import keys, order

SCANS = """
def total(x) { compute(x) @kernel(scan, +) { for i in 0..N: yield x[i] } }
def before(x) { compute(x) @kernel(scan, +, exclusive=true) { for i in 0..N: yield x[i] } }
def behind(x) { compute(x) @kernel(scan, +, reverse=true) { for i in 0..N: yield x[i] } }
def highest(x) { compute(x) @kernel(scan, max) { for i in 0..N: yield x[i] } }
def rows(x) { compute(x) @kernel(scan, +, axis=1) { for i in 0..M, j in 0..N: yield x[i, j] } }
def columns(x) { compute(x) @kernel(scan, +, axis=0) { for i in 0..M, j in 0..N: yield x[i, j] } }
"""
SORTS = """
def up(x) { compute(x) @kernel(sort) { for i in 0..N: yield (x[i], i) } }
def down(x) { compute(x) @kernel(sort, descending=true) { for i in 0..N: yield (x[i], i) } }
def lines(x) { compute(x) @kernel(sort, axis=1) { for i in 0..M, j in 0..N: yield x[i, j] } }
def columns(x) { compute(x) @kernel(sort, axis=0) { for i in 0..M, j in 0..N: yield x[i, j] } }
"""


@pytest.fixture(scope="module")
def scans() -> Any:
    return zynml.compile(SCANS, device="cuda:0")


@pytest.fixture(scope="module")
def sorts() -> Any:
    return zynml.compile(SORTS, device="cuda:0")


@pytest.mark.parametrize("count", [0, 1, 33, 10_000, 16_384, 16_385, 400_001, 20_000_003])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_scans_of_ints_are_exact(scans: Any, count: int, dtype: Any) -> None:
    x = np.random.default_rng(count).integers(-50, 50, count).astype(dtype)
    sums = np.cumsum(x)
    np.testing.assert_array_equal(scans.total(x), sums)
    np.testing.assert_array_equal(scans.before(x), sums - x)
    np.testing.assert_array_equal(scans.behind(x), np.cumsum(x[::-1])[::-1])
    np.testing.assert_array_equal(scans.highest(x), np.maximum.accumulate(x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scans_of_floats_have_the_same_bits_in_every_run(scans: Any, dtype: Any) -> None:
    x = np.random.default_rng(1).standard_normal(20_000_003).astype(dtype)
    first = scans.total(x)
    wide = np.cumsum(x.astype(np.longdouble))
    assert (np.abs(first - wide) <= 8 * np.finfo(dtype).eps * np.sqrt(np.arange(1, len(x) + 1)) * 40).all()
    for _ in range(20):
        np.testing.assert_array_equal(scans.total(x), first)


@pytest.mark.parametrize("shape", [(3, 1_000_003), (1_000_003, 3), (5000, 4097), (100_000, 33), (7, 100), (300_000, 9), (20_001, 1024)])
def test_scans_along_axes(scans: Any, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(2).integers(-50, 50, shape).astype(np.int32)
    np.testing.assert_array_equal(scans.rows(x), np.cumsum(x, 1))
    np.testing.assert_array_equal(scans.columns(x), np.cumsum(x, 0))


@pytest.mark.parametrize("dtype", ["i1", "i8", "u8", "i16", "f16", "u32", "i32", "f32", "i64", "u64", "f64"])
@pytest.mark.parametrize("count", [5, 17, 100, 4096, 4097, 7681, 1_000_003])
def test_sorts_of_every_dtype(sorts: Any, dtype: str, count: int) -> None:
    x = keys(dtype, count)
    for sort, descending in ((sorts.up, False), (sorts.down, True)):
        want = order(x, descending)
        for _ in range(4):
            got, places = sort(x)
            np.testing.assert_array_equal(places, want)
            np.testing.assert_array_equal(got, x[want])


@pytest.mark.parametrize("shape", [(3, 100_003), (100_003, 3), (1000, 2049), (300, 4097), (50_000, 33)])
def test_sorts_along_axes(sorts: Any, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(3).integers(-(10**9), 10**9, shape).astype(np.int32)
    np.testing.assert_array_equal(sorts.lines(x), np.sort(x, 1))
    np.testing.assert_array_equal(sorts.columns(x), np.sort(x, 0))
