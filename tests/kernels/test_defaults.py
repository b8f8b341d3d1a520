"""`e ?? d` in kernels: of optionals and results, with defaults that are computed only where they are needed."""

from typing import Any

import numpy as np
import pytest

import zynml

SOURCE = """
def inverse(x: f64): f64? { if x == 0.0 { None } else { Some(1.0 / x) } }
def root(x: f64): Result<f64, int> { if x < 0.0 { Err(1) } else { Ok(sqrt(x)) } }
def inverses(x: tensor[N, f64], y: tensor[N, f64]): tensor { compute(x, y) { for i in 0..N: out[i] = inverse(x[i]) ?? y[i] } }
def roots(x: tensor[N, f64]): tensor { compute(x) { for i in 0..N: out[i] = (root(x[i]) ?? -1) * 2.0 } }
def several(x: tensor[N, f64]): tensor { compute(x) { for i in 0..N: out[i] = inverse(x[i]) ?? (root(x[i] - 1.0) ?? 7.0) } }
def guarded(x: tensor[N, f64], k: tensor[N, i32]): tensor { compute(x, k) { for i in 0..N: out[i] = inverse(x[i]) ?? x[k[i]] } }
"""
NUMBERS = [np.zeros(0), np.array([0.0]), np.array([2.0, 0.0, -4.0, np.inf, -0.0, np.nan, 0.25]), np.arange(-16.0, 17.0)]


@pytest.fixture(scope="module", params=["cpu", "emulator"])
def program(request: pytest.FixtureRequest) -> Any:
    return zynml.compile(SOURCE, device=request.param)


@pytest.mark.parametrize("x", NUMBERS, ids=len)
def test_a_default_stands_for_what_is_missing(program: Any, x: np.ndarray) -> None:
    y = np.arange(len(x)) + 0.5
    with np.errstate(divide="ignore", invalid="ignore"):
        np.testing.assert_array_equal(program.inverses(x, y), np.where(x == 0, y, 1 / x))
        np.testing.assert_array_equal(program.roots(x), np.where(x < 0, -2, 2 * np.sqrt(x)))
        np.testing.assert_array_equal(program.several(x), np.where(x == 0, 7, 1 / x))


def test_an_element_outside_is_read_only_where_it_is_the_default(program: Any) -> None:
    x, k = np.array([2.0, 0.0, 4.0]), np.array([99, 2, -1], np.int32)
    np.testing.assert_array_equal(program.guarded(x, k), [0.5, 4.0, 0.25])
    with pytest.raises(zynml.ZynMLError, match="ZYN0801"):
        program.guarded(x, np.array([0, 3, 0], np.int32))


def test_what_is_always_there_has_no_default() -> None:
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile("let x = arange(0, 3)\nlet y = compute(x) { for i in 0..N: out[i] = x[i] ?? 1.0 }")
    assert caught.value.codes == ("ZYN0203",)
