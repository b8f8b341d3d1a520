"""Random numbers in compiled functions: those of kernels."""

import math

import pytest

from tests.quantdsl.elaborate.running import Functions
from tests.randoms import known

PROGRAM = """
fn draw_uniform(seed: u64, i: int, j: int) -> f64 { uniform(seed, i, j) }
fn draw_normal(seed: u64, i: int, j: int) -> f64 { normal(seed, i, j) }
fn first(seed: u64, i: int) -> f64 { normal(seed, i) }
"""


@pytest.fixture(scope="module")
def functions() -> Functions:
    return Functions(PROGRAM)


@pytest.mark.parametrize("seed", (0, 7, (1 << 64) - 1))
@pytest.mark.parametrize("i", (0, 12, -1, 1 << 40))
@pytest.mark.parametrize("j", (0, 3, -5))
def test_numbers_of_their_counters(functions: Functions, seed: int, i: int, j: int) -> None:
    assert functions.draw_uniform(seed, i, j) == known.uniform(seed, i, j)
    # In the tails the interpreter's logarithm may end in another bit.
    for native in functions.both.native:
        assert native["fn.draw_normal"].run([seed, i, j]).results[0] == pytest.approx(float(known.normal(seed, i, j)), rel=1e-14)
        assert native["fn.first"].run([seed, i]).results[0] == pytest.approx(float(known.normal(seed, i)), rel=1e-14)


def test_option_prices() -> None:
    """`std.pricing` in compiled code: what the same functions give on the host."""
    text = """
fn price(call: bool, s: f64, k: f64, vol: f64) -> f64 { bs_price(call, s, k, 0.03, vol, 0.5) }
fn implied(price: f64, s: f64, k: f64) -> f64 { implied_vol(true, price, s, k, 0.03, 0.5) }
fn quantile(p: f64) -> f64 { normal_quantile(p) }
"""
    found = Functions(text)
    s, k, vol = 100.0, 104.0, 0.3
    d1 = (math.log(s / k) + (0.03 + vol * vol / 2) * 0.5) / (vol * math.sqrt(0.5))
    d2 = d1 - vol * math.sqrt(0.5)
    expected = (s * math.erfc(-d1 / math.sqrt(2)) - k * math.exp(-0.015) * math.erfc(-d2 / math.sqrt(2))) / 2
    assert found.price(True, s, k, vol) == pytest.approx(expected, rel=1e-13)
    assert found.implied(expected, s, k) == pytest.approx(vol, rel=1e-12)
    assert math.isnan(found.implied(-1.0, s, k))
    assert found.quantile(0.975) == pytest.approx(1.959963984540054, rel=1e-15)
