"""`std.risk` against NumPy, `statistics` and the formulas of `test_pricing`."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from tests.quantdsl.host.running import functions
from tests.quantdsl.host.test_pricing import black_scholes
from tests.randoms import known
from zynml.compiled import CompiledProgram, ZynMLError

PROGRAM = """
use std.risk
fn var_at(p: tensor[N, f64], level: f64) -> f64 { var_historical(p, level) }
fn es_at(p: tensor[N, f64], level: f64) -> f64 { es_historical(p, level) }
fn normal_at(mean: f64, deviation: f64, level: f64) -> (f64, f64) { (var_normal(mean, deviation, level), es_normal(mean, deviation, level)) }
fn linear(returns: tensor[D, A, f64], e: tensor[A, f64]) -> tensor { linear_profits(returns, e) }
fn deviation(e: tensor[A, f64], c: tensor[A, A, f64]) -> f64 { portfolio_deviation(e, c) }
fn greeks(t: tensor[P, 5, f64], s: tensor[A, f64], v: tensor[A, f64], r: f64) -> (f64, f64, f64, f64, f64, f64) { portfolio_greeks(t, s, v, r) }
fn profits(t: tensor[P, 5, f64], s: tensor[A, f64], v: tensor[A, f64], c: tensor[A, A, f64], r: f64, h: f64, n: int) -> tensor {
    simulated_profits(t, s, v, c, r, h, n, 9)
}
"""
TABLE = np.array([[10.0, 0, 105, 0.5, 1], [-5.0, 1, 80, 1.0, 0], [2.0, 0, 90, 0.02, 0], [-1.0, 2, 55, 2.0, 1]])
SPOTS, VOLS = np.array([100.0, 90.0, 50.0]), np.array([0.2, 0.3, 0.4])
CORRELATION = np.array([[1.0, 0.5, -0.2], [0.5, 1.0, 0.1], [-0.2, 0.1, 1.0]])

@pytest.fixture(scope="module")
def program() -> CompiledProgram:
    return functions(PROGRAM)


@pytest.mark.parametrize("n", (1, 2, 10, 100, 1009))
@pytest.mark.parametrize("level", (0.05, 0.5, 0.9, 0.95, 0.99, 0.999))
def test_cases(n: int, level: float, program: CompiledProgram) -> None:
    """VaR is the inverted empirical distribution. ES is its mean over the tail: the integral of VaR over levels, which is a step function."""
    profits = np.random.default_rng(n).standard_t(3, n)
    losses = np.sort(-profits)
    assert program.var_at(profits, level) == np.quantile(-profits, level, method="inverted_cdf")
    ends = np.arange(1, n + 1) / n
    widths = np.clip(ends - np.maximum(ends - 1 / n, level), 0, None)
    assert program.es_at(profits, level) == pytest.approx((losses * widths).sum() / (1 - level), rel=1e-11)


def test_cases_that_are_equal_or_bad(program: CompiledProgram) -> None:
    assert program.var_at(np.full(10, -2.0), 0.9) == 2
    assert program.es_at(np.full(10, -2.0), 0.93) == pytest.approx(2, rel=1e-12)
    for profits, level, words in (
        (np.zeros(0), 0.9, "at least one case"),
        (np.zeros(3), 1.0, "between 0 and 1"),
        (np.zeros(3), math.nan, "between"),
    ):
        with pytest.raises(ZynMLError, match=words):
            program.var_at(profits, level)


@pytest.mark.parametrize("level", (0.9, 0.95, 0.99, 0.999))
def test_normal_profits(level: float, program: CompiledProgram) -> None:
    value, shortfall = program.normal_at(0.3, 2.0, level)
    z = NormalDist().inv_cdf(level)
    assert value == pytest.approx(2 * z - 0.3, rel=1e-13)
    assert shortfall == pytest.approx(2 * NormalDist().pdf(z) / (1 - level) - 0.3, rel=1e-13)


def test_linear_positions(program: CompiledProgram) -> None:
    rng = np.random.default_rng(1)
    for days, assets in ((0, 2), (1, 1), (33, 3), (250, 7)):
        returns, exposures = rng.standard_normal((days, assets)) / 100, rng.standard_normal(assets) * 1e6
        np.testing.assert_allclose(program.linear(returns, exposures), returns @ exposures, rtol=1e-11, atol=1e-9)
        a = rng.standard_normal((assets, assets))
        assert program.deviation(exposures, a @ a.T) == pytest.approx(math.sqrt(exposures @ a @ a.T @ exposures), rel=1e-12)


def value(spots: np.ndarray, gone: float = 0.0, vols: np.ndarray = VOLS, r: float = 0.03) -> float:
    """Of the table, at these prices."""
    total = 0.0
    for quantity, asset, k, t, call in TABLE:
        left = t - gone
        s, vol = float(spots[int(asset)]), float(vols[int(asset)])
        total += quantity * (black_scholes(bool(call), s, k, r, vol, left) if left > 0 else max((1 if call else -1) * (s - k), 0.0))
    return total


def test_greeks_of_a_table(program: CompiledProgram) -> None:
    worth, delta, gamma, vega, theta, rho = program.greeks(TABLE, SPOTS, VOLS, 0.03)
    assert worth == pytest.approx(value(SPOTS), rel=1e-12)
    # All prices, all volatilities move together.
    assert delta == pytest.approx((value(SPOTS + 1e-4) - value(SPOTS - 1e-4)) / 2e-4, rel=1e-6)
    assert gamma == pytest.approx((value(SPOTS + 0.01) - 2 * value(SPOTS) + value(SPOTS - 0.01)) / 1e-4, rel=1e-4)
    assert vega == pytest.approx((value(SPOTS, vols=VOLS + 1e-5) - value(SPOTS, vols=VOLS - 1e-5)) / 2e-5, rel=1e-6)
    assert theta == pytest.approx((value(SPOTS, 1e-6) - value(SPOTS, -1e-6)) / 2e-6, rel=1e-5)
    assert rho == pytest.approx((value(SPOTS, r=0.03 + 1e-6) - value(SPOTS, r=0.03 - 1e-6)) / 2e-6, rel=1e-6)


def test_simulated_profits_of_a_table(program: CompiledProgram) -> None:
    """One position expires before the horizon."""
    horizon, cases = 10 / 252, 300
    z = known.normal(9, np.arange(cases)[:, None], np.arange(3)[None, :]) @ np.linalg.cholesky(CORRELATION).T
    moved = SPOTS * np.exp(VOLS * math.sqrt(horizon) * z - VOLS**2 / 2 * horizon)
    expected = np.array([value(spots, horizon) for spots in moved]) - value(SPOTS)
    found = program.profits(TABLE, SPOTS, VOLS, CORRELATION, 0.03, horizon, cases)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)
