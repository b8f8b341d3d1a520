"""Each rule at its edge: what just passes, what just doesn't."""

from typing import Any

import pytest

from tests.quantdsl.reference.accounting import Position
from tests.quantdsl.reference.market import DAY, Instrument, Side
from tests.quantdsl.reference.orders import Order, State
from tests.quantdsl.reference.risk import Collar, Limits, Loss, Mask, Risk, Trading, View

BUY, SELL = Side.BUY, Side.SELL
SECOND = 10**9


def view(**changes: Any) -> View:
    return View(
        **{
            "now": 100 * SECOND,
            "bid": 999,
            "ask": 1001,
            "last": 1000,
            "book_updated": 100 * SECOND,
            "last_updated": 99 * SECOND,
            "has_book": True,
            **changes,
        }
    )


def position(qty: int = 0, price: int = 1000, instrument: Instrument | None = None) -> Position:
    p = Position(instrument or Instrument())
    if qty:
        p.fill(BUY if qty > 0 else SELL, price, abs(qty), maker=True)
    return p


def resting(side: Side, qty: int, limit: int | None, filled: int = 0) -> Order:
    order = Order(99, side, qty, limit, filled=filled, state=State.LIVE)
    order.held_at = limit or 1000
    return order


def mask(
    limits: Limits,
    side: Side = BUY,
    qty: int = 1,
    limit: int | None = 1000,
    held: int = 0,
    open: tuple[Order, ...] = (),
    seen: View | None = None,
    **options: Any,
) -> Mask:
    instrument = options.pop("instrument", Instrument())
    return Risk(limits, instrument).evaluate(
        Order(1, side, qty, limit, **options), position(held, instrument=instrument), list(open), seen or view()
    )


@pytest.mark.parametrize(
    ("qty", "expected"), [(-1, Mask.MAX_ORDER_QTY), (0, Mask.MAX_ORDER_QTY), (1, 0), (10, 0), (11, Mask.MAX_ORDER_QTY)]
)
def test_order_quantity(qty: int, expected: Mask) -> None:
    assert mask(Limits(max_order_qty=10), qty=qty) == expected


def test_a_quantity_of_zero_never_leaves_even_without_rules() -> None:
    assert mask(Limits(), qty=0) == Mask.MAX_ORDER_QTY


def test_notional_is_of_the_limit_or_of_the_far_touch() -> None:
    i = Instrument(point=3)
    assert mask(Limits(max_notional=3000), instrument=i) == 0
    assert mask(Limits(max_notional=2999), instrument=i) == Mask.MAX_NOTIONAL
    assert mask(Limits(max_notional=3003), limit=None, instrument=i) == 0
    assert mask(Limits(max_notional=3002), limit=None, instrument=i) == Mask.MAX_NOTIONAL
    assert mask(Limits(max_notional=2997), SELL, limit=None, instrument=i) == 0


def test_notional_beyond_64_bits_is_refused_not_wrapped() -> None:
    assert mask(Limits(max_notional=2**62), qty=2**60, limit=2**60) == Mask.MAX_NOTIONAL


def test_a_market_order_without_a_far_touch_cannot_be_judged() -> None:
    assert mask(Limits(max_notional=10**9), limit=None, seen=view(ask=None)) == Mask.STALE_DATA
    assert mask(Limits(max_notional=10**9), limit=None, seen=view(ask=None, bid=None, has_book=False)) == 0


@pytest.mark.parametrize(("limit", "passes"), [(994, False), (995, True), (1005, True), (1006, False)])
def test_a_collar_in_bps_lets_its_edge_pass(limit: int, passes: bool) -> None:
    assert (mask(Limits(price_collar=Collar(bps=50)), limit=limit) == 0) is passes


def test_a_collar_around_half_a_tick() -> None:
    seen = view(bid=999, ask=1000)  # mid 999.5
    assert mask(Limits(price_collar=Collar(ticks=2)), limit=1001, seen=seen) == 0
    assert mask(Limits(price_collar=Collar(ticks=2)), limit=1002, seen=seen) == Mask.PRICE_COLLAR
    assert mask(Limits(price_collar=Collar(ticks=2)), limit=997, seen=seen) == Mask.PRICE_COLLAR


def test_collars_of_the_last_trade_and_of_a_price() -> None:
    assert mask(Limits(price_collar=Collar(ticks=1, of="last")), limit=1001, seen=view(bid=1, ask=2)) == 0
    assert mask(Limits(price_collar=Collar(ticks=1, of="last")), seen=view(last=None)) == Mask.STALE_DATA
    assert mask(Limits(price_collar=Collar(ticks=1, of=998)), limit=1000) == Mask.PRICE_COLLAR


@pytest.mark.parametrize(
    ("side", "qty", "held", "open", "passes"),
    [
        (BUY, 5, 5, (), True),
        (BUY, 6, 5, (), False),
        (SELL, 15, 5, (), True),
        (SELL, 16, 5, (), False),
        (BUY, 3, 5, (resting(BUY, 4, 1, filled=2),), True),
        (BUY, 4, 5, (resting(BUY, 4, 1, filled=2),), False),
        (BUY, 5, 5, (resting(SELL, 9, 2000),), True),
    ],
)
def test_position_in_the_worst_case(side: Side, qty: int, held: int, open: tuple[Order, ...], passes: bool) -> None:
    assert (mask(Limits(max_position=10), side, qty, held=held, open=open) == 0) is passes


def test_reduce_only_never_opens() -> None:
    assert mask(Limits(), SELL, 3, held=3, reduce_only=True) == 0
    assert mask(Limits(), SELL, 4, held=3, reduce_only=True) == Mask.MAX_POSITION
    assert mask(Limits(), SELL, 2, held=3, open=(resting(SELL, 2, 2000),), reduce_only=True) == Mask.MAX_POSITION
    assert mask(Limits(), BUY, 1, held=3, reduce_only=True) == Mask.MAX_POSITION


def test_the_rate_counts_accepted_orders_of_a_half_open_window() -> None:
    risk = Risk(Limits(rate=(2, SECOND)), Instrument())
    order = Order(1, BUY, 1, 1000)

    def at(ns: int) -> Mask:
        return risk.evaluate(order, position(), [], view(now=ns))

    assert at(0) == 0
    risk.accept(order, 0)
    risk.accept(order, 1)
    assert at(SECOND - 1) == Mask.RATE
    assert at(SECOND - 1) == Mask.RATE  # what is refused doesn't count
    assert at(SECOND) == 0  # the first has left (t - 1 s, t]
    risk.count_request(SECOND)
    assert at(SECOND) == 0


def test_requests_count_for_the_rate_where_it_says_all() -> None:
    risk = Risk(Limits(rate=(1, SECOND), rate_all=True), Instrument())
    risk.count_request(5)
    assert risk.evaluate(Order(1, BUY, 1, 1000), position(), [], view(now=6)) == Mask.RATE


def test_ids_repeat_only_outside_of_the_window() -> None:
    risk = Risk(Limits(duplicate_id=2), Instrument())
    seen: list[Mask] = []
    for client in (7, 7, 8, 9, 7, 9):
        order = Order(1, BUY, 1, 1000, client_id=client)
        found = risk.evaluate(order, position(), [], view())
        seen.append(found)
        if not found:
            risk.accept(order, 0)
    assert seen == [0, Mask.DUPLICATE_ID, 0, 0, 0, Mask.DUPLICATE_ID]


def test_self_trade_needs_prices_that_meet() -> None:
    limits = Limits(self_trade="reject")
    own = (resting(SELL, 1, 1005),)
    assert mask(limits, limit=1004, open=own) == 0
    assert mask(limits, limit=1005, open=own) == Mask.SELF_TRADE
    assert mask(limits, limit=None, open=own) == Mask.SELF_TRADE
    assert mask(limits, SELL, limit=1, open=own) == 0
    assert mask(limits, limit=1, open=(resting(SELL, 1, None),)) == Mask.SELF_TRADE
    assert mask(Limits(self_trade="cancel_resting"), limit=1005, open=own) == 0


def test_stale_data_is_older_than_its_limit() -> None:
    limits = Limits(stale_data=SECOND)
    now = 100 * SECOND
    assert mask(limits, seen=view(book_updated=now - SECOND, last_updated=None)) == 0
    assert mask(limits, seen=view(book_updated=now - SECOND - 1, last_updated=None)) == Mask.STALE_DATA
    assert mask(limits, seen=view(book_updated=None, last_updated=now)) == 0
    assert mask(limits, seen=view(book_updated=None, last_updated=None)) == Mask.STALE_DATA


def test_the_age_is_that_of_what_the_collar_refers_to() -> None:
    limits = Limits(stale_data=SECOND // 2, price_collar=Collar(bps=50, of="last"))
    assert mask(limits) == Mask.STALE_DATA  # the last trade is a second old, the book is fresh


def test_a_suspect_book_refuses_even_without_the_rule() -> None:
    assert mask(Limits(), seen=view(suspect=True)) == Mask.STALE_DATA


def test_open_orders_by_number_and_notional() -> None:
    own = (resting(BUY, 2, 900), resting(SELL, 3, 1100, filled=1))
    assert mask(Limits(max_open_orders=3), open=own) == 0
    assert mask(Limits(max_open_orders=2), open=own) == Mask.MAX_OPEN_ORDERS
    assert mask(Limits(max_open_notional=1800 + 2200 + 1000), open=own) == 0
    assert mask(Limits(max_open_notional=1800 + 2200 + 999), open=own) == Mask.MAX_OPEN_ORDERS


@pytest.mark.parametrize(("mark", "killed"), [(991, False), (990, True)])
def test_a_loss_that_reaches_its_limit_kills(mark: int, killed: bool) -> None:
    risk, p = Risk(Limits(max_loss=Loss(10)), Instrument()), position(1)
    p.mark(2 * mark)
    assert risk.watch(0, p) is killed
    found = risk.evaluate(Order(1, BUY, 1, 1000), p, [], view())
    assert found == (Mask.KILL | Mask.MAX_LOSS if killed else 0)
    p.mark(2 * 1000)
    assert risk.watch(1, p) is False
    assert risk.evaluate(Order(1, BUY, 1, 1000), p, [], view()) == (Mask.KILL if killed else 0)


def test_reducing_lets_out_only_what_reduces() -> None:
    risk, p = Risk(Limits(max_loss=Loss(10, then="reducing")), Instrument()), position(2)
    p.mark(2 * 900)
    assert risk.watch(0, p) is False
    assert risk.trading is Trading.REDUCING
    assert risk.evaluate(Order(1, BUY, 1, 1000), p, [], view()) == Mask.MAX_LOSS
    assert risk.evaluate(Order(1, SELL, 3, 1000), p, [], view()) == Mask.MAX_LOSS
    assert risk.evaluate(Order(1, SELL, 2, 1000), p, [], view()) == 0
    p.mark(2 * 1000)
    assert risk.evaluate(Order(1, BUY, 1, 1000), p, [], view()) == Mask.MAX_LOSS  # only a person goes back up


def test_losses_of_a_session_begin_anew_with_it() -> None:
    risk, p = Risk(Limits(max_loss=Loss(10, per="session")), Instrument()), position(1)
    for ts, mark, killed in ((0, 1000, False), (1, 991, False), (DAY, 991, False), (DAY + 1, 982, False), (DAY + 2, 981, True)):
        p.mark(2 * mark)
        assert risk.watch(ts, p) is killed


def test_drawdown_counts_from_the_peak() -> None:
    risk, p = Risk(Limits(max_drawdown=Loss(10)), Instrument()), position(1)
    for mark, killed in ((1020, False), (1011, False), (1010, True)):
        p.mark(2 * mark)
        assert risk.watch(0, p) is killed


def test_bad_input() -> None:
    hours = Instrument(session=(50 * SECOND, 100 * SECOND))
    assert mask(Limits(), limit=0) == mask(Limits(), limit=-5) == Mask.BAD_INPUT
    assert mask(Limits(), seen=view(bad=True)) == mask(Limits(), seen=view(halted=True)) == Mask.BAD_INPUT
    assert mask(Limits(), seen=view(now=100 * SECOND - 1), instrument=hours) == 0
    assert mask(Limits(), seen=view(now=100 * SECOND), instrument=hours) == Mask.BAD_INPUT


def test_all_reasons_come_as_one_mask() -> None:
    limits = Limits(
        max_order_qty=1,
        max_notional=1,
        price_collar=Collar(ticks=1),
        max_position=1,
        rate=(0, 1),
        duplicate_id=4,
        self_trade="reject",
        stale_data=1,
        max_open_orders=0,
        max_loss=Loss(0),
    )
    risk = Risk(limits, Instrument())
    risk.trading = Trading.KILLED
    risk.ids.append(5)
    order = Order(1, BUY, 2, 2000, client_id=5)
    found = risk.evaluate(order, position(), [resting(SELL, 1, 1100)], view(halted=True, book_updated=0))
    assert found == 4095


def test_a_session_over_midnight() -> None:
    night = Instrument(session=(23 * 3600 * SECOND, 3600 * SECOND))
    assert [night.in_session(h * 3600 * SECOND) for h in (22, 23, 24, 25)] == [False, True, True, False]
    assert night.session_of(23 * 3600 * SECOND) == night.session_of(24 * 3600 * SECOND) != night.session_of(22 * 3600 * SECOND)
