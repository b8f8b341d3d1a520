"""Figures against sums over everything at once, whatever pieces the records come in."""

import itertools
from fractions import Fraction
from math import sqrt
from statistics import mean, stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.replay.outputs import statistics
from runtime.replay.outputs.statistics import SECOND, YEAR, Counts, Envelope, Equity, Sampled, Sharpe, ratio

MONEY = st.integers(-(10**12), 10**12)


def cut(n: int, places: list[int]) -> list[slice]:
    ends = sorted({0, n, *(place % (n + 1) for place in places)})
    return [slice(a, b) for a, b in itertools.pairwise(ends)]


@given(st.lists(st.tuples(st.integers(0, 2), MONEY), min_size=1, max_size=40), st.lists(st.integers(0, 100), max_size=4))
def test_equity_is_the_sum_of_the_latest_of_all(rows: list[tuple[int, int]], places: list[int]) -> None:
    latest, expected, peak, fall = [0, 0, 0], [], 0, 0
    for one, net in rows:
        latest[one] = net
        expected.append(sum(latest))
        peak = max(peak, expected[-1])
        fall = max(fall, peak - expected[-1])
    equity, found = Equity(3), []
    who, net = np.array([one for one, _ in rows], np.uint32), np.array([net for _, net in rows], np.int64)
    for piece in cut(len(rows), places):
        values, falls = equity.add(who[piece], net[piece])
        found += values.tolist()
        assert (falls >= 0).all()
    assert (found, equity.drawdown, equity.peak) == (expected, fall, peak)


def test_equity_beyond_64_bits_is_not_wrapped() -> None:
    with pytest.raises(OverflowError):
        Equity(2).add(np.array([0, 1], np.uint32), np.array([2**62, 2**62]))


@given(st.lists(st.tuples(st.integers(0, 3 * SECOND), MONEY), min_size=2, max_size=60), st.lists(st.integers(0, 100), max_size=4))
def test_sharpe_is_mean_over_deviation_of_what_each_second_earned(rows: list[tuple[int, int]], places: list[int]) -> None:
    ts = np.cumsum([gap for gap, _ in rows])
    equity = np.array([value for _, value in rows], np.int64)
    ratio_of = Sharpe()
    for piece in cut(len(rows), places):
        ratio_of.add(ts[piece], equity[piece])
    found, interval = ratio_of.value()
    width = SECOND if ts[-1] // (60 * SECOND) - ts[0] // (60 * SECOND) + 1 < statistics.ENOUGH else 60 * SECOND
    latest = dict(zip((ts // width).tolist(), equity.tolist(), strict=True))
    levels, last = [0], 0
    for slot in range(int(ts[0] // width), int(ts[-1] // width) + 1):
        last = latest.get(slot, last)
        levels.append(last)
    earned = [b - a for a, b in itertools.pairwise(levels)]
    assert interval == ("1s" if width == SECOND else "1m")
    if len(earned) < 2 or len(set(earned)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(mean(earned) / stdev(earned) * sqrt(YEAR / width), rel=1e-9, abs=1e-9)


def test_long_runs_use_longer_intervals_and_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    ts = np.arange(4000) * 1800 * SECOND
    equity = np.cumsum(random.integers(-100, 101, 4000))
    whole = Sharpe()
    whole.add(ts, equity)
    monkeypatch.setattr(statistics, "MOST", 2000)
    bounded = Sharpe()
    for start in range(0, 4000, 7):
        bounded.add(ts[start : start + 7], equity[start : start + 7])
        assert bounded._slots.size <= 2007
    daily = equity[47::48]
    earned = np.diff(np.append(daily, equity[-1]) if 4000 % 48 else daily, prepend=0).astype(float)
    assert whole.value() == bounded.value()
    assert whole.value()[1] == "1d"
    assert whole.value()[0] == pytest.approx(earned.mean() / earned.std(ddof=1) * sqrt(365))


def test_nothing_and_one_moment_have_no_sharpe() -> None:
    assert Sharpe().value() == (None, "1s")
    one = Sharpe()
    one.add(np.array([5]), np.array([7]))
    assert one.value() == (None, "1s")


@given(st.lists(st.integers(1, 50), min_size=1, max_size=200), st.fractions(0, 1), st.lists(st.integers(0, 200), max_size=3))
def test_percentiles_are_of_nearest_rank(values: list[int], share: Fraction, places: list[int]) -> None:
    counts, array = Counts(), np.array(values, float)
    for piece in cut(len(values), places):
        counts.add(array[piece])
    found = counts.percentile(share)
    at_most = sum(v <= found for v in values)
    below = sum(v < found for v in values)
    assert found in values
    assert at_most >= share * len(values)
    assert below < max(share * len(values), 1)
    assert counts.total == len(values)
    assert counts.share_within(25) == sum(v <= 25 for v in values) / len(values)


def test_percentiles_of_nothing() -> None:
    assert Counts().percentile(Fraction(1, 2)) is None
    assert Counts().share_within(1) is None
    assert ratio(0, 0) is None and ratio(1, 3) == 1 / 3


@given(st.lists(st.tuples(st.integers(0, 1000), MONEY), min_size=1, max_size=300), st.lists(st.integers(0, 300), max_size=3))
def test_a_thinned_line_keeps_ends_and_extremes(rows: list[tuple[int, int]], places: list[int]) -> None:
    ts = np.cumsum([gap for gap, _ in rows])
    values = np.array([value for _, value in rows], np.int64)
    line = Envelope(16)
    for piece in cut(len(rows), places):
        line.add(ts[piece], values[piece])
    points = line.points()
    times, found = [t for t, _ in points], [v for _, v in points]
    assert len(points) <= 4 * 16
    assert times == sorted(times)
    assert set(found) <= set(values.tolist())
    assert (found[0], found[-1], min(found), max(found)) == (values[0], values[-1], values.min(), values.max())


def test_a_short_line_stays_as_it_is() -> None:
    line = Envelope(16)
    line.add(np.arange(10) * 3, np.arange(10) ** 2)
    assert line.points() == [(3 * n, n * n) for n in range(10)]


@given(st.integers(0, 500), st.integers(1, 97))
def test_samples_are_evenly_thinned(n: int, piece: int) -> None:
    sampled, records = Sampled(50), np.arange(n)
    for start in range(0, n, piece):
        sampled.add(records[start : start + piece])
    assert len(sampled.kept) <= 50
    assert [int(record) for record in sampled.kept] == list(range(0, n, sampled.every))
