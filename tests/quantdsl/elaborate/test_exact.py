"""Exact numbers: arithmetic of prices, quantities and money against Python's ints and fractions; floats that become exact."""

import math
import random
from fractions import Fraction

import pytest

from tests.quantdsl.elaborate.running import DAX_POINT, ES_POINT, MARKETS, Functions

PROGRAM = (
    MARKETS
    + """
fn value(p: Price<ES>, q: Qty<ES>) -> Money<USD> { p * q }
fn gain(t: Ticks<DAX>, q: Qty<DAX>) -> Money<EUR> { q * t }
fn value_sat(p: Price<ES>, q: Qty<ES>) -> Money<USD> { p *| q }
fn value_wrap(p: Price<ES>, q: Qty<ES>) -> Money<USD> { p *% q }
fn moved(p: Price<ES>, t: Ticks<ES>) -> Price<ES> { p + t }
fn apart(p: Price<ES>, q: Price<ES>) -> Ticks<ES> { p - q }
fn more(a: Qty<ES>, n: u64) -> Qty<ES> { a * n }
fn share(a: Money<USD>, n: int) -> Money<USD> { a / n }
fn rest(a: Money<USD>, n: int) -> Money<USD> { a % n }
fn times(a: Qty<DAX>, b: Qty<DAX>) -> int { a / b }
fn over(a: Qty<DAX>, b: Qty<DAX>) -> Qty<DAX> { a % b }
fn mixed(a: Money<USD>, b: Money<USD>) -> Money<USD> { a +| b -% b }
fn es(p: Price<ES>) -> f64 { p.f64 }
fn es_ticks(p: Ticks<ES>) -> f64 { p.f64 }
fn dax_qty(q: Qty<DAX>) -> f64 { q.f64 }
fn usd(m: Money<USD>) -> f64 { m.f64 }
fn eur(m: Money<EUR>) -> f64 { m.f64 }
fn counts(p: Price<ES>, q: Qty<ES>, m: Money<USD>) -> (int, int, int) { (p.ticks, q.lots, m.units) }
fn sides(s: Side) -> (int, Side) { (s.sign, s.opposite) }
fn price_nearest(x: f64) -> Price<ES>? { to_price(x, round = nearest_even) }
fn price_down(x: f64) -> Price<ES>? { to_price(x, round = down) }
fn price_up(x: f64) -> Price<ES>? { to_price(x, round = up) }
fn qty_nearest(x: f64) -> Qty<DAX>? { to_qty(x, round = nearest_even) }
fn qty_down(x: f64) -> Qty<DAX>? { to_qty(x, round = down) }
fn qty_up(x: f64) -> Qty<DAX>? { to_qty(x, round = up) }
fn money_nearest(x: f64) -> Money<USD>? { to_money(x, round = nearest_even) }
fn money_down(x: f64) -> Money<USD>? { to_money(x, round = down) }
fn money_up(x: f64) -> Money<USD>? { to_money(x, round = up) }
fn sided(x: f64, side: Side) -> (Price<ES>?, Price<ES>?) {
  (to_price(x, round = passive, side = side), to_price(x, round = aggressive, side = side))
}
fn chosen(x: f64, r: Rounding, side: Side?) -> Qty<DAX>? { to_qty(x, r, side) }
fn after(t: Timestamp, d: Duration) -> Timestamp { t + d * 3 - 500ms }
fn between(a: Timestamp, b: Timestamp) -> (Duration, int, Duration) { (a - b, (a - b) / 1s, (a - b) % 1s) }
fn ratios(r: Ratio, x: f64, n: int) -> (Ratio, f64, f64, f64, f64) { (r + 5bps - -r, r * n, x / r, x - r, r / 50pct) }
fn literals() -> (Price<ES>, Qty<DAX>, Money<USD>, Money<EUR>, Ticks<ES>, Duration) {
  let p: Price<ES> = 4500.25
  let q: Qty<DAX> = -12.3
  (p, q, 1_234.56789 USD, -0.000001 EUR, -3ticks, 1_500us)
}
"""
)


@pytest.fixture(scope="module")
def f() -> Functions:
    return Functions(PROGRAM)


def fits(value: int) -> bool:
    return -(2**63) <= value < 2**63


def saturated(value: int) -> int:
    return min(max(value, -(2**63)), 2**63 - 1)


def wrapped(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def some_ints(seed: int, count: int = 60) -> list[int]:
    made = random.Random(seed)
    edges = [0, 1, -1, 2, 2**63 - 1, -(2**63), 2**31, 7_378_697_629, 7_378_697_630]
    return [*edges, *(made.randrange(-(1 << made.randrange(1, 64)), 1 << made.randrange(1, 64)) for _ in range(count))]


def test_price_times_quantity_is_money_or_stops(f: Functions) -> None:
    for p, q in zip(some_ints(1), reversed(some_ints(2)), strict=True):
        exact = p * q * ES_POINT
        found = f.value(p, q)
        if fits(exact):
            assert found == exact, (p, q)
        else:
            assert found.code == "0806" and found.at == "p * q", (p, q, found)
        assert f.value_sat(p, q) == saturated(exact), (p, q)
        assert f.value_wrap(p, q) == wrapped(exact), (p, q)
        exact = p * q * DAX_POINT
        assert f.gain(p, q) == exact if fits(exact) else f.gain(p, q).code == "0806"


def test_words_of_overflow(f: Functions) -> None:
    assert f.value(2**62, 2) == ("0806", "4611686018427387904 ticks * 2 lots doesn't fit `Money<USD>`", "p * q")
    assert f.value(2**40, 2) == ("0806", "2199023255552 (ticks * lots) of 1250000000 units each doesn't fit `Money<USD>`", "p * q")
    assert f.moved(2**63 - 1, 1) == ("0806", "9223372036854775807 + 1 doesn't fit `Price<ES>`, in ticks", "p + t")
    assert f.share(5, 0) == ("0806", "5 / 0 has no value in `Money<USD>`, in units", "a / n")
    assert f.share(-(2**63), -1) == ("0806", "-9223372036854775808 / -1 has no value in `Money<USD>`, in units", "a / n")
    assert f.times(5, 0) == ("0806", "5 / 0 has no value in `i64`", "a / b")
    assert f.more(5, 2**63) == ("0806", "9223372036854775808 does not fit in i64", "a * n")


def test_sums_and_quotients(f: Functions) -> None:
    for a, b in zip(some_ints(3), reversed(some_ints(4)), strict=True):
        assert f.moved(a, b) == a + b if fits(a + b) else f.moved(a, b).code == "0806"
        assert f.apart(a, b) == a - b if fits(a - b) else f.apart(a, b).code == "0806"
        assert f.mixed(a, b) == wrapped(saturated(a + b) - b)
        if b and (a, b) != (-(2**63), -1):
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            assert f.share(a, b) == f.times(a, b) == quotient
            assert f.rest(a, b) == f.over(a, b) == a - b * quotient


def test_as_doubles(f: Functions) -> None:
    for n in (n for n in some_ints(5, 200) if abs(n) * 25 < 2**53):
        assert f.es(n) == f.es_ticks(n) == n / 4
        assert f.dax_qty(n) == float(Fraction(n, 10))
        assert f.usd(n) == float(Fraction(n, 10**8))
        assert f.eur(n) == float(Fraction(n, 10**6))
    assert f.counts(5, -6, 7) == (5, -6, 7)
    assert f.sides(0) == (1, 1) and f.sides(1) == (-1, 0)


GRIDS = {"price": (25, 100), "qty": (1, 10), "money": (1, 10**8)}
"""A step is the first number divided by the second."""


def rounded(x: float, divisor: int, power: int, mode: str) -> int | None:
    """A double as steps: the step that it is the nearest double to, else as the exact number that it is."""
    if not math.isfinite(x):
        return None
    size = Fraction(divisor, power)
    exact = Fraction(x) / size
    nearest = round(exact)
    if abs(nearest * divisor) <= 2**53 and float(nearest * size) == x:
        found = nearest
    elif mode == "nearest":
        low = math.floor(exact)
        half = low + Fraction(1, 2)
        small = abs(x * power) < 2**51 and float(half * size) == x
        found = (low + low % 2) if small else nearest
    else:
        found = math.floor(exact) if mode == "down" else math.ceil(exact)
    return found if fits(found) else None


@pytest.mark.parametrize("kind", GRIDS)
@pytest.mark.parametrize("mode", ["nearest", "down", "up"])
def test_floats_on_the_grid(f: Functions, kind: str, mode: str) -> None:
    divisor, power = GRIDS[kind]
    size = Fraction(divisor, power)
    made = random.Random(f"{kind}{mode}")
    values = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, 0.3, 0.1 + 0.2, 2.5, -2.5, 1e-9, 123456789.01]
    for _ in range(150):
        k = made.randrange(-(1 << made.randrange(1, 50)), 1 << made.randrange(1, 50))
        step, middle = float(k * size), float((2 * k + 1) * size / 2)
        values += [step, middle, math.nextafter(step, math.inf), math.nextafter(middle, -math.inf), made.uniform(-1e6, 1e6)]
        values.append(made.uniform(-1, 1) * 10.0 ** made.randrange(0, 20))
    edge = float(2**63 * size)
    values += [edge, -edge, math.nextafter(edge, 0), math.nextafter(-edge, -math.inf), edge / 2, edge * 1.5]
    run = getattr(f, f"{kind}_{mode}")
    for x in values:
        expected = rounded(x, divisor, power, mode)
        assert run(x) == (expected is not None, expected or 0), x


def test_a_price_as_a_float_is_that_price_again(f: Functions) -> None:
    for k in (n for n in some_ints(6, 200) if abs(n) < 2**48):
        for mode in ("nearest", "down", "up"):
            assert getattr(f, f"qty_{mode}")(f.dax_qty(k)) == (True, k)
            assert getattr(f, f"money_{mode}")(f.usd(k)) == (True, k)


def test_rounding_by_side(f: Functions) -> None:
    assert f.sided(10.1, 0) == (True, 40, True, 41)
    assert f.sided(10.1, 1) == (True, 41, True, 40)
    for rounding, expected in enumerate([2, 2, 3, 2, 3]):
        assert f.chosen(0.24, rounding, True, 0) == (True, expected)
    assert f.chosen(0.24, 3, True, 1) == (True, 3)
    assert f.chosen(0.24, 4, False, 0) == (False, 0)
    assert f.chosen(0.24, 0, False, 0) == (True, 2)


def test_times_and_ratios(f: Functions) -> None:
    assert f.after(10**18, 7) == 10**18 + 21 - 500_000_000
    assert f.between(5_250_000_000, 2_000_000_000) == (3_250_000_000, 3, 250_000_000)
    assert f.between(-(2**63), 1).code == "0806"
    assert f.ratios(0.25, 3.0, 3) == (0.25 + 5e-4 + 0.25, 0.75, 12.0, 2.75, 0.5)


def test_literals_are_exact(f: Functions) -> None:
    assert f.literals() == (18_001, -123, 123_456_789_000, -1, -3, 1_500_000)


def test_durations_count_nanoseconds() -> None:
    units = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
    lines = [f"fn d_{unit}() -> int {{ 3{unit} / 1ns }}\nfn half_{unit}() -> int {{ 1.5{unit} / 1ns }}" for unit in units if unit != "ns"]
    functions = Functions("\n".join(lines) + "\nfn d_ns() -> int { 3ns / 1ns }\n")
    for unit, length in units.items():
        assert getattr(functions, f"d_{unit}")() == 3 * length
        assert unit == "ns" or getattr(functions, f"half_{unit}")() == length * 3 // 2
