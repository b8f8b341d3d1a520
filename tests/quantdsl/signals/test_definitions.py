"""The built-in signals against their definitions in NumPy, on random walks, constants, short inputs and NaN."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.quantdsl.signals import definitions as d
from tests.quantdsl.signals.probing import Probe

LENGTH = 120
WINDOWED = {
    "sum(x, N)": d.total,
    "sma(x, N)": d.sma,
    "wma(x, N)": d.wma,
    "stdev(x, N)": d.stdev,
    "zscore(x, N)": d.zscore,
    "realised_vol(x, N)": d.realised_vol,
    "highest(x, N)": d.highest,
    "lowest(x, N)": d.lowest,
}
LASTING = {"some(ema(x, N))": d.ema, "rsi(x, N)": d.rsi, "atr(x + 1.5, x - 0.5, x, N)": lambda x, n: d.atr(x + 1.5, x - 0.5, x, n)}


def walk(seed: int, length: int = LENGTH) -> Any:
    return 100.0 + np.cumsum(np.random.default_rng(seed).normal(size=length))


def close(found: Any, expected: Any, rel: float = 1e-11) -> None:
    np.testing.assert_allclose(found, expected, rtol=rel, atol=1e-11)


def probe(expression: str, n: int, result: str = "f64?") -> Probe:
    return Probe(f"fn probe(x: f64) -> {result} {{ {expression.replace('N', str(n))} }}", "realised_vol" in expression)


@pytest.mark.parametrize("n", [2, 3, 31])
@pytest.mark.parametrize(("expression", "definition"), [*WINDOWED.items(), *LASTING.items()])
def test_random_walk(expression: str, definition: Callable[[Any, int], Any], n: int) -> None:
    x = walk(n)
    close(probe(expression, n).all(x), definition(x, n))


@pytest.mark.parametrize("expression", ["sum(x, N)", "sma(x, N)", "wma(x, N)", "ema(x, N)", "highest(x, N)", "lowest(x, N)"])
def test_window_of_one_is_the_value(expression: str) -> None:
    x = walk(1, 9)
    close(probe(expression, 1).all(x), x)


@pytest.mark.parametrize(("expression", "definition"), WINDOWED.items())
def test_longer_than_the_data(expression: str, definition: Callable[[Any, int], Any]) -> None:
    assert np.isnan(probe(expression, 40).all(walk(2, 39))).all()


@pytest.mark.parametrize(("expression", "definition"), WINDOWED.items())
@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_a_window_recovers_from_a_value_that_is_none(expression: str, definition: Callable[[Any, int], Any], odd: float) -> None:
    n = 4
    x = walk(3, 30)
    x[10] = odd
    found = probe(expression, n).all(x)
    with np.errstate(invalid="ignore"):
        expected = definition(x, n)
    after = 10 + n + ("realised" in expression)
    close(found[after:], expected[after:])
    close(found[:10], expected[:10])
    if np.isnan(odd):
        assert np.isnan(found[10:after]).all()


@pytest.mark.parametrize("expression", [*LASTING, "kalman1d(x, 1.0, 2.0)"])
def test_a_recursion_keeps_nan(expression: str) -> None:
    x = walk(4, 30)
    x[12] = np.nan
    assert np.isnan(probe(expression, 3, "f64" if expression[0] == "k" else "f64?").all(x)[12:]).all()


@pytest.mark.parametrize("value", [0.1, 100.3, -1e9 / 3])
def test_constant_values(value: float) -> None:
    x = np.full(50, value)
    assert (probe("ema(x, N)", 7, "f64").all(x) == value).all()
    mean = probe("sma(x, N)", 7).all(x)[6:]
    assert (mean == mean[0]).all() and mean[0] == pytest.approx(value, rel=1e-15)
    assert (probe("highest(x, N)", 7).all(x)[6:] == value).all()
    assert (probe("stdev(x, N)", 7).all(x)[6:] == 0).all()
    assert np.isnan(probe("zscore(x, N)", 7).all(x)).all()
    assert (probe("rsi(x, N)", 7).all(x)[7:] == 50).all()
    assert (probe("realised_vol(abs(x), N)", 7).all(x)[7:] == 0).all()


def test_sums_depend_on_the_window_only() -> None:
    """Whatever came before, equal windows have equal sums: of values from 1e-3 to 1e12, each window is seen twice."""
    rng = np.random.default_rng(5)
    n = 6
    x = rng.normal(size=60) * 10.0 ** rng.integers(-3, 13, size=60)
    window = rng.normal(size=n)
    values = np.concatenate([window, x, window, x[::-1], window])
    found = probe("sum(x, N)", n).all(values)
    ends = [n - 1, n + 60 + n - 1, len(values) - 1]
    assert len({found[end] for end in ends}) == 1
    close(found[n - 1 :], d.total(values, n)[n - 1 :], 1e-15)


def test_huge_values_leave_no_trace_after_two_windows() -> None:
    n = 5
    x = np.concatenate([np.full(8, 1e300), np.arange(1.0, 41.0)])
    close(probe("sum(x, N)", n).all(x)[8 + 2 * n :], d.total(x, n)[8 + 2 * n :], 1e-15)


def test_macd() -> None:
    x = walk(6)
    close(probe("macd(x)", 0, "(f64, f64, f64)?").all(x, width=3), d.macd(x))
    close(probe("macd(x, 3, slow = 5, signal = 4)", 0, "(f64, f64, f64)?").all(x, width=3), d.macd(x, 3, 5, 4))


@pytest.mark.parametrize("n", [2, 20])
def test_bands_and_lines(n: int) -> None:
    x = walk(7)
    close(probe("bollinger(x, N)", n, "(f64, f64, f64)?").all(x, width=3), d.bollinger(x, n))
    close(probe("bollinger(x, N, width = 1.25)", n, "(f64, f64, f64)?").all(x, width=3), d.bollinger(x, n, 1.25))
    close(probe("regression(x, N)", n, "(f64, f64)?").all(x, width=2), d.regression(x, n), 1e-9)


def test_corr() -> None:
    x, y = walk(8), walk(9)
    found = Probe("fn probe(x: f64, y: f64) -> f64? { corr(x, y, 9) }").all(x, y)
    close(found, d.corr(x, y, 9), 1e-10)
    assert np.isnan(Probe("fn probe(x: f64, y: f64) -> f64? { corr(x, y, 3) }").all(x[:9], np.ones(9))).all()
    straight = Probe("fn probe(x: f64, y: f64) -> f64? { corr(x, y, 5) }").all(x, 3 - 2 * x)[4:]
    assert (straight >= -1).all() and straight == pytest.approx(-1, rel=1e-12)


def test_far_from_zero() -> None:
    """Two passes keep what sums of squares would lose."""
    x = 1e9 + np.random.default_rng(10).normal(size=60)
    close(probe("stdev(x, N)", 10).all(x), d.stdev(x, 10), 1e-7)


def test_kalman1d() -> None:
    x = walk(11)
    close(probe("kalman1d(x, 0.5, 2.0)", 0, "f64").all(x), d.kalman1d(x, 0.5, 2.0))


def test_delay_of_any_type() -> None:
    delayed = Probe("fn probe(x: int) -> int? { delay(x, 3) }")
    assert [delayed(k) for k in range(6)] == [None, None, None, 0, 1, 2]
    sides = Probe("fn probe(s: Side) -> Side? { delay(s, 1) }")
    assert [sides(s) for s in (1, 0, 0)] == [None, 1, 0]


def test_crossings() -> None:
    """On a touch the line before counts as on either side; NaN never crosses."""
    a = [1.0, 2.0, 2.0, 3.0, 1.0, np.nan, 5.0, 1.0, 5.0]
    b = [2.0] * len(a)
    up = Probe("fn probe(a: f64, b: f64) -> bool { cross_up(a, b) }")
    down = Probe("fn probe(a: f64, b: f64) -> bool { cross_down(a, b) }")
    assert [up(*row) for row in zip(a, b, strict=True)] == [False, False, False, True, False, False, False, False, True]
    assert [down(*row) for row in zip(a, b, strict=True)] == [False, False, False, False, True, False, False, True, False]


def test_count_since() -> None:
    counted = Probe("fn probe(c: bool) -> int? { count_since(c) }")
    assert [counted(c) for c in (False, True, False, False, True, False)] == [None, 0, 1, 2, 0, 1]


@pytest.mark.parametrize("order", ["rising", "falling", "random", "equal"])
def test_extremes_of_whole_numbers(order: str) -> None:
    n = 5
    x = {"rising": np.arange(40), "falling": -np.arange(40), "equal": np.full(40, 3)}.get(
        order, np.random.default_rng(12).integers(0, 9, 40)
    )
    highest = Probe("fn probe(x: int) -> int? { highest(x, 5) }")
    lowest = Probe("fn probe(x: int) -> int? { lowest(x, 5) }")
    assert [highest(int(v)) for v in x[:]] == [None] * (n - 1) + [int(x[i - n + 1 : i + 1].max()) for i in range(n - 1, 40)]
    assert [lowest(int(v)) for v in x[:]] == [None] * (n - 1) + [int(x[i - n + 1 : i + 1].min()) for i in range(n - 1, 40)]
