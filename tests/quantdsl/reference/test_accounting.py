"""Positions against sums done by hand, and identities over random fills."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.quantdsl.reference.accounting import Position
from tests.quantdsl.reference.market import Fee, Instrument, Side
from tests.quantdsl.reference.numbers import CheckedFailure, half_even, up

BUY, SELL = Side.BUY, Side.SELL


def state(p: Position) -> tuple[int, int, int]:
    return p.qty, p.cost, p.realized


@pytest.mark.parametrize(
    ("n", "d", "expected"), [(5, 2, 2), (7, 2, 4), (-5, 2, -2), (-7, 2, -4), (1, 3, 0), (2, 3, 1), (-2, 3, -1), (6, 3, 2)]
)
def test_halves_go_to_the_even_neighbour(n: int, d: int, expected: int) -> None:
    assert half_even(n, d) == expected


def test_average_cost_closes_at_the_average() -> None:
    p = Position(Instrument(point=10))
    p.fill(BUY, 100, 3, maker=True)
    p.fill(BUY, 103, 1, maker=True)
    assert state(p) == (4, 4030, 0)
    p.fill(SELL, 105, 2, maker=True)  # cost part 4030 * 2 / 4 = 2015, proceeds 2100
    assert state(p) == (2, 2015, 85)
    p.mark(2 * 101)
    assert (p.value, p.unrealized, p.net) == (2020, 5, 90)


def test_a_cost_part_is_rounded_half_even_and_the_rest_stays() -> None:
    p = Position(Instrument())
    p.fill(BUY, 1, 1, maker=True)
    p.fill(BUY, 2, 1, maker=True)  # cost 3 for 2: half is 1.5
    p.fill(SELL, 5, 1, maker=True)
    assert state(p) == (1, 1, 3)
    p.fill(SELL, 5, 1, maker=True)
    assert state(p) == (0, 0, 7)


def test_fifo_closes_the_oldest_first() -> None:
    p = Position(Instrument(point=10), "fifo")
    p.fill(BUY, 100, 3, maker=True)
    p.fill(BUY, 110, 2, maker=True)
    p.fill(SELL, 105, 4, maker=True)  # three at 100, one at 110
    assert state(p) == (1, 1100, 10 * (3 * 5 - 5))


@pytest.mark.parametrize("method", ["average", "fifo"])
def test_a_fill_beyond_flat_opens_the_other_side_at_its_price(method: str) -> None:
    p = Position(Instrument(point=2), method)
    p.fill(BUY, 50, 3, maker=True)
    p.fill(SELL, 60, 5, maker=True)
    assert state(p) == (-2, -2 * 60 * 2, 3 * 10 * 2)
    p.fill(BUY, 55, 2, maker=True)
    assert state(p) == (0, 0, 60 + 2 * 5 * 2)


def test_fees_are_rounded_against_the_trader() -> None:
    i = Instrument(maker=Fee("-0.5"), taker=Fee(2, per_lot=3))
    p = Position(i)
    assert p.fill(BUY, 12345, 1, maker=False) == 3 + 3  # 2.469 up, and 3 for the lot
    assert p.fill(SELL, 50_001, 1, maker=True) == -2  # -2.50005: a rebate of 2
    assert p.fees == 4


def test_a_mark_of_half_a_tick_is_rounded_half_even() -> None:
    p = Position(Instrument())
    p.fill(BUY, 10, 1, maker=True)
    p.mark(21)
    assert (p.value, p.unrealized) == (10, 0)
    p.mark(23)
    assert (p.value, p.unrealized) == (12, 2)


def test_drawdown_is_the_deepest_fall_from_a_peak() -> None:
    p = Position(Instrument())
    p.fill(BUY, 100, 1, maker=True)
    for mark in (100, 107, 103, 110, 101, 120):
        p.mark(2 * mark)
    assert (p.peak, p.max_drawdown) == (20, 9)


def test_money_beyond_64_bits_is_a_checked_failure() -> None:
    p = Position(Instrument(point=10**9))
    with pytest.raises(CheckedFailure):
        p.fill(BUY, 10**6, 10**6, maker=True)


FILLS = st.lists(st.tuples(st.sampled_from((BUY, SELL)), st.integers(1, 10**6), st.integers(1, 500), st.booleans()), max_size=40)
INSTRUMENTS = st.builds(
    Instrument,
    point=st.integers(1, 10**4),
    maker=st.builds(Fee, st.fractions(-5, 5, max_denominator=100)),
    taker=st.builds(Fee, st.fractions(0, 20, max_denominator=100), st.integers(0, 50)),
)


@given(INSTRUMENTS, FILLS, st.sampled_from(("average", "fifo")), st.integers(1, 2 * 10**6))
def test_the_identity_holds_after_every_fill(
    instrument: Instrument, fills: list[tuple[Side, int, int, bool]], method: str, mark2: int
) -> None:
    p = Position(instrument, method)
    cash = held = 0
    for side, price, qty, maker in fills:
        p.fill(side, price, qty, maker=maker)
        cash -= side * price * qty * instrument.point
        held += side * qty
        p.mark(mark2)
        p.assert_identity()
        assert (p.cash, p.qty) == (cash, held)
        assert p.realized + p.unrealized == cash + half_even(held * mark2 * instrument.point, 2)


@given(INSTRUMENTS, FILLS)
def test_both_methods_realize_the_same_once_flat(instrument: Instrument, fills: list[tuple[Side, int, int, bool]]) -> None:
    average, fifo = Position(instrument, "average"), Position(instrument, "fifo")
    for side, price, qty, maker in fills:
        for p in (average, fifo):
            p.fill(side, price, qty, maker=maker)
        if average.qty == 0:
            assert average.realized == fifo.realized == average.cash
    assert (average.qty, average.fees, average.volume) == (fifo.qty, fifo.fees, fifo.volume)


@given(st.fractions(-1000, 1000))
def test_up_is_the_least_int_not_below(value: Fraction) -> None:
    assert up(value) - 1 < value <= up(value)
