"""Orders from hand to fill, in each way of filling, against sums done by hand."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.quantdsl.reference.engine import Engine, Strategy
from tests.quantdsl.reference.market import DAY, Add, Event, Execute, Fee, Gap, Halt, Instrument, Level, Quote, Side, Trade
from tests.quantdsl.reference.numbers import CheckedFailure
from tests.quantdsl.reference.orders import LEGAL, Order, State, Tif
from tests.quantdsl.reference.risk import Limits, Loss, Mask, Trading

BUY, SELL, NONE = Side.BUY, Side.SELL, Side.NONE


class Script(Strategy):
    """Does what a table says at the first handler of data at a time, and notes every call."""

    def __init__(self, acts: dict[int, Callable[[Engine], Any]], timers: tuple[int, ...] = ()) -> None:
        self.acts, self.timers = dict(acts), timers
        self.calls: list[tuple[Any, ...]] = []
        self.answers: list[Any] = []

    def act(self, engine: Engine) -> None:
        if engine.now in self.acts:
            self.answers.append(self.acts.pop(engine.now)(engine))

    def on_trade(self, engine: Engine, trade: Trade) -> None:
        self.calls.append(("trade", engine.now, engine.position.qty))
        self.act(engine)

    def on_book(self, engine: Engine, book: Any) -> None:
        self.calls.append(("book", engine.now, engine.position.qty))
        self.act(engine)

    def on_timer(self, engine: Engine, period: int) -> None:
        self.calls.append(("timer", engine.now, period))

    def on_ack(self, engine: Engine, order: Order) -> None:
        self.calls.append(("ack", engine.now, order.id))

    def on_fill(self, engine: Engine, fill: Any) -> None:
        self.calls.append(("fill", engine.now, fill.price, fill.qty, fill.maker))

    def on_cancelled(self, engine: Engine, order: Order) -> None:
        self.calls.append(("cancelled", engine.now, order.id))

    def on_reject(self, engine: Engine, order: Order) -> None:
        self.calls.append(("reject", engine.now, order.id))

    def on_gap(self, engine: Engine, gap: Event) -> None:
        self.calls.append(("gap", engine.now))


def replay(
    events: list[Event],
    acts: dict[int, Callable[[Engine], Any]],
    limits: Limits | None = None,
    instrument: Instrument | None = None,
    **options: Any,
) -> tuple[Engine, Script]:
    script = Script(acts, options.pop("timers", ()))
    return Engine(script, limits, instrument, **options).run(events), script


def fills(engine: Engine) -> list[tuple[int, int, int]]:
    return [(f.ts, f.price, f.qty * f.side) for f in engine.fills]


def states(engine: Engine) -> list[State]:
    return [o.state for o in engine.orders.values()]


# Data without a book.


def test_next_fills_whole_at_the_next_trade_before_its_handlers() -> None:
    events: list[Event] = [Trade(10, 100, 1), Trade(20, 103, 1), Trade(30, 101, 1)]
    engine, script = replay(events, {10: lambda e: e.order(BUY, 7)}, fills="next")
    assert fills(engine) == [(20, 103, 7)]
    assert script.calls == [("trade", 10, 0), ("ack", 10, 1), ("fill", 20, 103, 7, False), ("trade", 20, 7), ("trade", 30, 7)]
    assert engine.position.net == 7 * (101 - 103)


def test_next_holds_a_limit_until_a_price_satisfies_it() -> None:
    events: list[Event] = [Trade(t, p, 1) for t, p in ((10, 100), (20, 101), (30, 99), (40, 98))]
    engine, _ = replay(events, {10: lambda e: e.order(BUY, 2, 100), 30: lambda e: e.order(SELL, 2, 97)}, fills="next")
    assert fills(engine) == [(30, 99, 2), (40, 98, -2)]


@pytest.mark.parametrize("tif", [Tif.IOC, Tif.FOK])
def test_next_cancels_what_the_next_trade_doesnt_satisfy(tif: Tif) -> None:
    events: list[Event] = [Trade(t, p, 1) for t, p in ((10, 100), (20, 101), (30, 99))]
    engine, script = replay(events, {10: lambda e: e.order(BUY, 2, 100, tif)}, fills="next")
    assert (fills(engine), states(engine)) == ([], [State.CANCELLED])
    assert ("cancelled", 20, 1) in script.calls


def test_rows_of_one_time_are_still_one_after_the_other() -> None:
    engine, _ = replay([Trade(10, 100, 1), Trade(10, 102, 1)], {10: lambda e: e.order(BUY, 1)}, fills="next")
    assert fills(engine) == [(10, 102, 1)]


def test_an_order_after_the_last_row_stays_open() -> None:
    engine, _ = replay([Trade(10, 100, 1)], {10: lambda e: e.order(BUY, 1)}, fills="next")
    assert engine.counts() == {"submitted": 1, "filled": 0, "cancelled": 0, "rejected": 0, "open": 1}


# Taking what is displayed.

BOOK: list[Event] = [
    Level(1, BUY, 99, 5, more=True),
    Level(1, BUY, 98, 5, more=True),
    Level(1, SELL, 101, 3, more=True),
    Level(1, SELL, 102, 4),
]
LATER = Trade(9, 1, 1, BUY)  # reaches no order of ours


def test_a_market_order_walks_the_levels_and_the_rest_is_cancelled() -> None:
    engine, _ = replay([*BOOK, LATER], {1: lambda e: e.order(BUY, 9)})
    assert (fills(engine), states(engine)) == ([(1, 101, 3), (1, 102, 4)], [State.CANCELLED])


def test_a_limit_takes_up_to_its_price_and_rests() -> None:
    engine, _ = replay([*BOOK, LATER], {1: lambda e: e.order(BUY, 5, 101)})
    assert (fills(engine), states(engine)) == ([(1, 101, 3)], [State.PART_FILLED])


def test_ioc_cancels_the_rest_and_fok_takes_all_or_nothing() -> None:
    engine, _ = replay(
        [*BOOK, LATER], {1: lambda e: (e.order(SELL, 7, 99, Tif.IOC), e.order(BUY, 8, 102, Tif.FOK), e.order(BUY, 7, 102, Tif.FOK))}
    )
    assert fills(engine) == [(1, 99, -5), (1, 101, 3), (1, 102, 4)]
    assert states(engine) == [State.CANCELLED, State.CANCELLED, State.FILLED]


def test_two_orders_never_take_the_same_quantity() -> None:
    engine, _ = replay([*BOOK, LATER], {1: lambda e: (e.order(BUY, 2, 101, Tif.IOC), e.order(BUY, 2, 101, Tif.IOC))})
    assert fills(engine) == [(1, 101, 2), (1, 101, 1)]


def test_post_only_is_rejected_where_it_would_take() -> None:
    engine, script = replay([*BOOK, LATER], {1: lambda e: (e.order(BUY, 1, 101, post_only=True), e.order(BUY, 1, 100, post_only=True))})
    assert states(engine) == [State.REJECTED, State.LIVE]
    assert ("reject", 1, 1) in script.calls
    assert engine.counts() == {"submitted": 2, "filled": 0, "cancelled": 0, "rejected": 1, "open": 1}


# Resting.


@pytest.mark.parametrize(
    ("trade", "filled"),
    [
        (Trade(5, 100, 9, SELL), 4),
        (Trade(5, 100, 3, SELL), 3),
        (Trade(5, 98, 3, SELL), 3),
        (Trade(5, 101, 9, SELL), 0),
        (Trade(5, 100, 9, BUY), 0),
        (Trade(5, 100, 9, NONE), 0),
        (Trade(5, 99, 9, NONE), 4),
    ],
)
def test_touch_fills_when_the_other_side_trades_there_up_to_what_it_trades(trade: Trade, filled: int) -> None:
    engine, _ = replay([*BOOK, trade], {1: lambda e: e.order(BUY, 4, 100)})
    assert fills(engine) == ([(5, 100, filled)] if filled else [])


def test_own_orders_share_a_trade_better_price_first_then_older() -> None:
    acts = {1: lambda e: (e.order(BUY, 2, 99), e.order(BUY, 2, 100), e.order(BUY, 2, 99))}
    engine, _ = replay([*BOOK, Trade(5, 99, 5, SELL)], acts)
    assert [(f.order, f.price, f.qty) for f in engine.fills] == [(2, 100, 2), (1, 99, 2), (3, 99, 1)]


def test_queue_waits_for_what_stood_before() -> None:
    events: list[Event] = [*BOOK, Trade(2, 99, 3, SELL), Trade(3, 99, 3, SELL), Trade(4, 99, 9, SELL)]
    engine, _ = replay(events, {1: lambda e: e.order(BUY, 4, 99)}, fills="queue")
    assert fills(engine) == [(3, 99, 1), (4, 99, 3)]  # 5 before it: 3 go, then 2 and one of ours


def test_queue_is_never_longer_than_what_is_displayed() -> None:
    events: list[Event] = [*BOOK, Level(2, BUY, 99, 1), Level(3, BUY, 99, 8), Trade(4, 99, 3, SELL)]
    engine, _ = replay(events, {1: lambda e: e.order(BUY, 4, 99)}, fills="queue")
    assert fills(engine) == [(4, 99, 2)]


def test_queue_is_filled_whole_by_a_trade_through() -> None:
    engine, _ = replay([*BOOK, Trade(2, 98, 1, SELL)], {1: lambda e: e.order(BUY, 4, 99)}, fills="queue")
    assert fills(engine) == [(2, 99, 4)]


def test_a_second_own_order_stands_behind_the_first() -> None:
    acts = {1: lambda e: (e.order(BUY, 2, 99), e.order(BUY, 2, 99))}
    engine, _ = replay([*BOOK, Trade(2, 99, 8, SELL)], acts, fills="queue")
    assert [(f.order, f.qty) for f in engine.fills] == [(1, 2), (2, 1)]


def test_executions_of_single_orders_are_trades() -> None:
    events: list[Event] = [Add(1, 1, BUY, 99, 5), Add(2, 2, SELL, 101, 5), Execute(3, 1, 5)]
    engine, script = replay(events, {2: lambda e: e.order(BUY, 4, 99)}, fills="touch")
    assert fills(engine) == [(3, 99, 4)]
    assert ("trade", 3, 4) in script.calls


# Latency and time.


def test_an_order_acts_on_the_book_at_its_arrival_and_reports_take_their_time() -> None:
    events: list[Event] = [Quote(100, 99, 5, 101, 5), Quote(140, 102, 5, 104, 5), Quote(200, 110, 5, 111, 5)]
    engine, script = replay(events, {100: lambda e: e.order(BUY, 5)}, out=50, back=30)
    assert fills(engine) == [(180, 104, 5)]
    assert script.calls == [("book", 100, 0), ("book", 140, 0), ("ack", 180, 1), ("fill", 180, 104, 5, False), ("book", 200, 5)]


def test_what_is_due_at_a_rows_time_happens_before_it() -> None:
    engine, _ = replay([Quote(100, 99, 5, 101, 5), Quote(150, 102, 5, 104, 5)], {100: lambda e: e.order(BUY, 5)}, out=50)
    assert fills(engine) == [(150, 101, 5)]


def test_a_cancel_on_its_way_can_be_too_late() -> None:
    events: list[Event] = [*BOOK, Trade(30, 100, 1, BUY), Trade(35, 99, 9, SELL), Trade(60, 1, 1, BUY)]
    acts = {1: lambda e: e.order(BUY, 2, 99), 30: lambda e: e.cancel(1)}
    engine, _ = replay(events, acts, out=10)
    assert (fills(engine), states(engine), engine.illegal) == ([(35, 99, 2)], [State.FILLED], [])
    early, _ = replay(events, acts, out=5)
    assert states(early) == [State.CANCELLED]


def test_fills_without_their_report_at_the_end_are_accounted_but_not_handled() -> None:
    engine, script = replay([Quote(100, 99, 5, 101, 5)], {100: lambda e: e.order(BUY, 5)}, back=30)
    assert (engine.position.qty, script.calls, engine.counts()["filled"]) == (5, [("book", 100, 0)], 1)


def test_timers_fire_at_their_time_between_rows() -> None:
    _, script = replay([Trade(0, 1, 1), Trade(25, 1, 1), Trade(30, 1, 1)], {}, timers=(10,))
    assert script.calls == [("trade", 0, 0), ("timer", 10, 10), ("timer", 20, 10), ("trade", 25, 0), ("timer", 30, 10), ("trade", 30, 0)]


def test_orders_for_the_day_expire_with_their_session() -> None:
    engine, _ = replay([*BOOK, Trade(DAY - 1, 100, 1), Trade(DAY, 98, 9, SELL)], {1: lambda e: e.order(BUY, 2, 99, Tif.DAY)})
    assert (fills(engine), states(engine), engine.counts()["cancelled"]) == ([], [State.EXPIRED], 1)


# Replacing.


def test_less_quantity_keeps_the_place_and_a_new_limit_loses_it() -> None:
    events: list[Event] = [*BOOK, Level(2, BUY, 99, 9), Trade(3, 99, 6, SELL)]
    kept, _ = replay(events, {1: lambda e: e.order(BUY, 4, 99), 2: lambda e: e.replace(1, 2, 99)}, fills="queue")
    assert (fills(kept), states(kept)) == ([(3, 99, 1)], [State.PART_FILLED])
    lost, _ = replay(events, {1: lambda e: e.order(BUY, 4, 99), 2: lambda e: e.replace(1, 5, 99)}, fills="queue")
    assert fills(lost) == []


def test_a_replace_may_cross() -> None:
    engine, _ = replay([*BOOK, Trade(2, 1, 1, BUY), LATER], {1: lambda e: e.order(BUY, 2, 99), 2: lambda e: e.replace(1, 4, 101)})
    assert (fills(engine), states(engine)) == ([(2, 101, 3)], [State.PART_FILLED])


def test_a_replace_down_to_what_is_filled_is_refused_or_ends_the_order() -> None:
    acts = {1: lambda e: e.order(BUY, 5, 101), 2: lambda e: e.replace(1, 3, 101)}
    engine, script = replay([*BOOK, Trade(2, 1, 1, BUY), LATER], acts)
    assert (script.answers[1], states(engine)) == (Mask.MAX_ORDER_QTY, [State.PART_FILLED])
    late, _ = replay([*BOOK, Trade(2, 1, 1, BUY), LATER], acts, back=5)  # the strategy doesn't know yet that 3 are filled
    assert (fills(late), states(late)) == ([(6, 101, 3)], [State.CANCELLED])


def test_a_replace_passes_the_rules_and_counts_at_its_worst_while_on_its_way() -> None:
    limits = Limits(max_position=10)
    acts = {1: lambda e: (e.order(BUY, 4, 90), e.replace(1, 11, 90), e.replace(1, 7, 90), e.order(BUY, 4, 90), e.order(BUY, 3, 90))}
    _, script = replay([*BOOK, LATER], acts, limits, out=100)
    assert script.answers == [(1, Mask.MAX_POSITION, 1, Mask.MAX_POSITION, 3)]


# Risk in the loop.


def test_a_loss_kills_cancels_what_is_open_and_refuses_the_rest() -> None:
    events: list[Event] = [Quote(1, 99, 5, 101, 5), Quote(2, 79, 5, 81, 5), Quote(3, 99, 5, 101, 5)]
    acts = {1: lambda e: (e.order(BUY, 1, 101), e.order(BUY, 1, 50)), 3: lambda e: e.order(BUY, 1, 101)}
    engine, script = replay(events, acts, Limits(max_loss=Loss(20)))
    assert states(engine) == [State.FILLED, State.CANCELLED]
    assert (script.answers[1], engine.risk.trading) == (Mask.KILL, Trading.KILLED)
    assert engine.counts() == {"submitted": 3, "filled": 1, "cancelled": 1, "rejected": 1, "open": 0}


def test_a_checked_failure_drops_what_its_handler_staged_and_halts() -> None:
    def fails(e: Engine) -> None:
        e.order(BUY, 1, 101)
        e.order(BUY, 0, 101)
        raise CheckedFailure("1 / 0")

    events: list[Event] = [Quote(1, 99, 5, 101, 5), Quote(2, 99, 6, 101, 5), Quote(3, 109, 5, 111, 5)]
    engine, script = replay(events, {1: lambda e: (e.order(BUY, 2, 101), e.order(BUY, 1, 98)), 2: fails}, Limits(rate=(2, 10)))
    assert (engine.halted, engine.why, engine.submitted) == (True, "1 / 0", 2)
    assert states(engine) == [State.FILLED, State.CANCELLED]
    assert (engine.position.qty, engine.position.net) == (2, 2 * 110 - 2 * 101)  # still marked after the halt
    assert engine.rejects == [] and script.calls[-1] == ("book", 2, 2)


@pytest.mark.parametrize(
    ("policy", "answer", "after"),
    [
        ("reject", Mask.SELF_TRADE, [State.LIVE]),
        ("cancel_resting", 2, [State.CANCELLED, State.LIVE]),
        ("cancel_both", Mask.SELF_TRADE, [State.CANCELLED]),
    ],
)
def test_what_becomes_of_an_order_that_would_meet_our_own(policy: str, answer: Any, after: list[State]) -> None:
    acts = {1: lambda e: e.order(SELL, 1, 100), 2: lambda e: e.order(BUY, 1, 100)}
    engine, script = replay([*BOOK, Trade(2, 1, 1, BUY), LATER], acts, Limits(self_trade=policy))
    assert (script.answers, states(engine)) == ([1, answer], after)


def test_gaps_are_told_and_make_orders_wait() -> None:
    _, script = replay([*BOOK, Gap(2), Trade(3, 100, 1)], {3: lambda e: e.order(BUY, 1, 100)})
    assert (script.answers, ("gap", 2) in script.calls) == ([Mask.STALE_DATA], True)


def test_a_halted_market_refuses_orders_on_their_way() -> None:
    engine, _ = replay([*BOOK, Halt(5), Trade(20, 100, 1)], {1: lambda e: e.order(BUY, 1, 100)}, out=10)
    assert states(engine) == [State.REJECTED]


def test_an_order_never_leaves_its_end() -> None:
    for end in (State.FILLED, State.CANCELLED, State.REJECTED, State.EXPIRED):
        assert end not in LEGAL
        order = Order(1, BUY, 1, state=end)
        assert not any(order.become(state, 0) for state in State) and order.state is end


def test_a_round_trip_with_fees() -> None:
    instrument = Instrument(point=100, maker=Fee("-0.5"), taker=Fee(2))
    events: list[Event] = [*BOOK, Trade(5, 103, 9, BUY)]
    engine, _ = replay(events, {1: lambda e: (e.order(BUY, 3, 101), e.order(SELL, 3, 103))}, instrument=instrument)
    # bought 3 * 101 * 100 = 30300, fee 6.06 up to 7; sold 30900, rebate 1.545 down to 1
    assert (engine.position.realized, engine.position.fees, engine.position.net) == (600, 6, 594)
    assert [f.fee for f in engine.fills] == [7, -1]
