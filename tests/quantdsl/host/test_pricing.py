"""`std.pricing` against the same formulas with Python's `math` and `statistics`, published figures, and each other."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from tests.quantdsl.host.running import functions
from zynml.compiled import CompiledProgram

PROGRAM = """
use std.pricing
fn cdf(x: tensor[N, f64]) -> tensor { compute(x) { for i in 0..N: out[i] = normal_cdf(x[i]) } }
fn quantile(x: tensor[N, f64]) -> tensor { compute(x) { for i in 0..N: out[i] = normal_quantile(x[i]) } }
fn cdf_at(x: f64) -> f64 { normal_cdf(x) }
fn quantile_at(x: f64) -> f64 { normal_quantile(x) }
fn price(call: bool, s: f64, k: f64, r: f64, vol: f64, t: f64, q: f64) -> f64 { bs_price(call, s, k, r, vol, t, q) }
fn greeks(call: bool, s: f64, k: f64, r: f64, vol: f64, t: f64, q: f64) -> (f64, f64, f64, f64, f64) {
    (bs_delta(call, s, k, r, vol, t, q), bs_gamma(s, k, r, vol, t, q), bs_vega(s, k, r, vol, t, q), bs_theta(call, s, k, r, vol, t, q),
     bs_rho(call, s, k, r, vol, t, q))
}
fn implied(call: bool, price: f64, s: f64, k: f64, r: f64, t: f64, q: f64) -> f64 { implied_vol(call, price, s, k, r, t, q) }
fn implied_all(p: tensor[N, f64], k: tensor[N, f64], s: f64, r: f64, t: f64) -> tensor {
    compute(p, k, s, r, t) { for i in 0..N: out[i] = implied_vol(true, p[i], s, k[i], r, t) }
}
"""

@pytest.fixture(scope="module")
def program() -> CompiledProgram:
    return functions(PROGRAM)


def phi(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def black_scholes(call: bool, s: float, k: float, r: float, vol: float, t: float, q: float = 0.0) -> float:
    d1 = (math.log(s / k) + (r - q + vol * vol / 2) * t) / (vol * math.sqrt(t))
    d2, side = d1 - vol * math.sqrt(t), 1 if call else -1
    return side * (s * math.exp(-q * t) * phi(side * d1) - k * math.exp(-r * t) * phi(side * d2))


def test_the_normal_distribution(program: CompiledProgram) -> None:
    x = np.concatenate([np.linspace(-37.5, 37.5, 3001), [0.0, 1e-300, -1e-300, 8.3]])
    expected = np.array([phi(v) for v in x])
    # exp(-x*x/2) has a relative error of x*x/2 roundings.
    assert np.all(np.abs(program.cdf(x) - expected) <= expected * 2.3e-16 * (4 + x * x))
    assert [program.cdf_at(v) for v in (-math.inf, math.inf, 40.0, -40.0)] == [0, 1, 1, 0]
    assert math.isnan(program.cdf_at(math.nan))


def test_quantiles(program: CompiledProgram) -> None:
    p = np.concatenate([10.0 ** -np.linspace(0.31, 300, 500), np.linspace(0.001, 0.999, 999), 1 - 10.0 ** -np.linspace(1, 15.9, 50)])
    np.testing.assert_allclose(program.quantile(p), [NormalDist().inv_cdf(v) for v in p], rtol=1e-14, atol=1e-17)
    assert (program.quantile_at(0.0), program.quantile_at(1.0)) == (-math.inf, math.inf)
    for outside in (-0.1, 1.1, math.nan):
        assert math.isnan(program.quantile_at(outside))


def test_published_prices(program: CompiledProgram) -> None:
    """E. Haug, The Complete Guide to Option Pricing Formulas, 2nd edition, 1.1.1; J. Hull, Options, Futures and Other Derivatives, 15.6."""
    assert round(program.price(True, 60.0, 65.0, 0.08, 0.30, 0.25, 0.0), 4) == 2.1334
    assert round(program.price(True, 42.0, 40.0, 0.10, 0.20, 0.5, 0.0), 2) == 4.76
    assert round(program.price(False, 42.0, 40.0, 0.10, 0.20, 0.5, 0.0), 2) == 0.81


@pytest.mark.parametrize("call", (True, False))
@pytest.mark.parametrize("q", (0.0, 0.07))
def test_prices_and_parity(call: bool, q: float, program: CompiledProgram) -> None:
    for k in (1.0, 60.0, 99.0, 100.0, 140.0, 1000.0):
        for vol, t in ((0.01, 0.01), (0.2, 1.0), (0.9, 7.0)):
            found = program.price(call, 100.0, k, 0.03, vol, t, q)
            assert found == pytest.approx(black_scholes(call, 100.0, k, 0.03, vol, t, q), rel=1e-9, abs=1e-13)
            other = program.price(not call, 100.0, k, 0.03, vol, t, q)
            forward = 100 * math.exp(-q * t) - k * math.exp(-0.03 * t)
            assert (found - other if call else other - found) == pytest.approx(forward, abs=1e-12 * (100 + k))


@pytest.mark.parametrize("call", (True, False))
def test_greeks_are_derivatives(call: bool, program: CompiledProgram) -> None:
    s, k, r, vol, t, q = 100.0, 108.0, 0.03, 0.25, 0.7, 0.02

    def value(**changed: float) -> float:
        return black_scholes(call, **{"s": s, "k": k, "r": r, "vol": vol, "t": t, "q": q, **changed})

    def slope(name: str, at: float, h: float) -> float:
        return (value(**{name: at + h}) - value(**{name: at - h})) / (2 * h)

    delta, gamma, vega, theta, rho = program.greeks(call, s, k, r, vol, t, q)
    assert delta == pytest.approx(slope("s", s, 1e-4), rel=1e-7)
    assert gamma == pytest.approx((value(s=s + 0.05) - 2 * value() + value(s=s - 0.05)) / 0.05**2, rel=1e-5)
    assert vega == pytest.approx(slope("vol", vol, 1e-5), rel=1e-7)
    assert theta == pytest.approx(-slope("t", t, 1e-5), rel=1e-7)
    assert rho == pytest.approx(slope("r", r, 1e-5), rel=1e-7)


def test_without_time_or_volatility_what_exercise_of_the_forward_is_worth(program: CompiledProgram) -> None:
    assert program.price(True, 100.0, 90.0, 0.03, 0.2, 0.0, 0.0) == 10
    assert program.price(False, 100.0, 90.0, 0.03, 0.2, 0.0, 0.0) == 0
    assert program.price(True, 100.0, 90.0, 0.03, 0.0, 2.0, 0.0) == pytest.approx(100 - 90 * math.exp(-0.06), rel=1e-15)
    assert program.price(True, 0.0, 90.0, 0.03, 0.2, 1.0, 0.0) == 0


@pytest.mark.parametrize("call", (True, False))
@pytest.mark.parametrize("vol", (1e-3, 0.05, 0.2, 1.0, 4.0))
@pytest.mark.parametrize("t", (1 / 365, 1.0, 30.0))
def test_implied_volatility_gives_back_the_price(call: bool, vol: float, t: float, program: CompiledProgram) -> None:
    r, q = 0.03, 0.01
    for k in (1.0, 50.0, 90.0, 99.9, 100.0, 103.0, 150.0, 5000.0):
        price = program.price(call, 100.0, k, r, vol, t, q)
        own = (100 * math.exp(-q * t), k * math.exp(-r * t))
        inside = min(price, price - (own[0] - own[1] if call else own[1] - own[0]))
        found = program.implied(call, price, 100.0, k, r, t, q)
        if inside < 1e-14 * sum(own) or inside > min(own) * (1 - 1e-13):
            # Nothing of the volatility is left in the price.
            assert math.isnan(found) or found >= 0
            continue
        assert abs(program.price(call, 100.0, k, r, found, t, q) - price) <= 4e-15 * sum(own)
        vega = program.greeks(call, 100.0, k, r, vol, t, q)[2]
        assert abs(found - vol) <= 1e-14 * sum(own) / vega + 1e-13 * vol


def test_implied_volatility_where_there_is_none(program: CompiledProgram) -> None:
    for price in (-1.0, 2.0, 100.0, 101.0, math.nan, math.inf):
        assert math.isnan(program.implied(True, price, 100.0, 90.0, 0.0, 1.0, 0.0)), price
    assert program.implied(True, 10.0, 100.0, 90.0, 0.0, 1.0, 0.0) == 0
    assert math.isnan(program.implied(True, 12.0, 100.0, 90.0, 0.0, 0.0, 0.0))


def test_implied_volatility_in_compute_blocks(program: CompiledProgram) -> None:
    strikes = np.linspace(70, 130, 31)
    prices = np.array([black_scholes(True, 100.0, k, 0.03, 0.1 + k / 1000, 0.5) for k in strikes])
    np.testing.assert_allclose(program.implied_all(prices, strikes, 100.0, 0.03, 0.5), 0.1 + strikes / 1000, rtol=1e-9)
