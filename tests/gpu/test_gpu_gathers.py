"""Gathers, and reductions along several axes, on a GPU. Expected values from NumPy, in float64 where sums are rounded."""

import numpy as np
import pytest

import zynml
from tests.schedule.test_gpu_checked import BAGS, GUARDED, LOOKUP
from tests.schedule.test_gpu_side_by_side import BATCH_VARIANCE, GROUP_NORM, IN_ONE_PLACE, OUTER_SUMS, SCALED

RNG = np.random.default_rng(21)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("rows", "columns", "taken"), [(1000, 1024, 5000), (31, 33, 1000), (7, 1, 100_000), (50257, 64, 1), (4, 0, 3), (3, 8, 0)])
def test_rows_of_a_table(rows: int, columns: int, taken: int) -> None:
    program = zynml.compile(LOOKUP, device="cuda:0")
    w, k = normal(rows, columns), RNG.integers(0, rows, taken).astype(np.int32)
    np.testing.assert_array_equal(program.f(w, k), w[k])
    if taken and columns:
        k[taken // 2] = rows
        with pytest.raises(zynml.ZynMLError, match=f"index {rows} is out of range: axis 0 of `w` has {rows} elements"):
            program.f(w, k)
        k[taken // 2] = rows - 1
        np.testing.assert_array_equal(program.f(w, k), w[k])


@pytest.mark.parametrize("shape", [(3000, 20, 256), (5, 3, 33), (2, 0, 4)])
def test_sums_of_gathered_rows(shape: tuple[int, int, int]) -> None:
    bags, each, columns = shape
    w, k = normal(999, columns), RNG.integers(0, 999, (bags, each))
    found = zynml.compile(BAGS, device="cuda:0").f(w, k)
    np.testing.assert_allclose(found, w[k].astype(np.float64).sum(1), rtol=1e-5, atol=1e-5)


def test_indices_behind_a_guard() -> None:
    x, k = normal(1000), RNG.integers(-1000, 1000, 100_003).astype(np.int32)
    np.testing.assert_array_equal(zynml.compile(GUARDED, device="cuda:0").f(x, k), np.where(k >= 0, x[np.maximum(k, 0)], np.float32(0)))


@pytest.mark.parametrize("shape", [(4, 8, 8, 56, 56), (2, 3, 2, 5, 7), (1, 2, 16, 64, 64), (3, 1, 1, 31, 33)])
def test_group_norms(shape: tuple[int, ...]) -> None:
    x, gain = normal(*shape), normal(*shape[1:3])
    wide, over = x.astype(np.float64), (2, 3, 4)
    expected = (wide - wide.mean(over, keepdims=True)) / np.sqrt(wide.var(over, keepdims=True) + 1e-5) * gain[None, :, :, None, None]
    np.testing.assert_allclose(zynml.compile(GROUP_NORM, device="cuda:0").f(x, gain), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(32, 64, 56, 56), (3, 5, 7, 9), (1, 1000, 8, 8), (200, 3, 33, 31), (2, 2, 500, 500)])
def test_variances_of_channels(shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    program = zynml.compile(BATCH_VARIANCE, device="cuda:0")
    first = np.asarray(program.f(x))
    np.testing.assert_allclose(first, x.astype(np.float64).var((0, 2, 3)), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(np.asarray(program.f(x)), first)


@pytest.mark.parametrize("shape", [(100, 30, 50), (3, 1000, 7), (5000, 3, 3)])
def test_sums_that_leave_several_axes(shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    np.testing.assert_allclose(zynml.compile(OUTER_SUMS, device="cuda:0").f(x), x.astype(np.float64).sum(0), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("shape", [(5, 7), (4096, 1024), (0, 3)])
def test_a_sum_that_no_result_varies_with(shape: tuple[int, int]) -> None:
    x, y = normal(*shape), normal(3, 1001)
    total = x.astype(np.float64).sum()
    tolerance = {"rtol": 1e-4, "atol": 1e-6 * np.abs(x).sum()}
    np.testing.assert_allclose(zynml.compile(IN_ONE_PLACE, device="cuda:0").f(x), [total], **tolerance)
    np.testing.assert_allclose(zynml.compile(SCALED, device="cuda:0").f(x, y), total * y, rtol=1e-4, atol=5e-6 * np.abs(x).sum())
