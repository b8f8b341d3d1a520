"""Orders that wait for a price, and orders that show only a part, against fills worked out by hand."""

import pytest

from tests.quantdsl.reference.market import Event, Halt, Level, Quote, Side, Trade
from tests.quantdsl.reference.orders import State, Tif
from tests.quantdsl.reference.test_engine import BOOK, fills, replay, states

BUY, SELL = Side.BUY, Side.SELL


def test_a_stop_at_the_market_acts_after_the_trade_that_reaches_it() -> None:
    events: list[Event] = [*BOOK, Trade(2, 100, 1, BUY), Trade(3, 102, 1, BUY), Trade(4, 103, 9, BUY)]
    engine, script = replay(events, {2: lambda e: e.order(BUY, 5, stop=102)})
    assert fills(engine) == [(3, 101, 3), (3, 102, 2)]
    assert script.calls.index(("ack", 2, 1)) < script.calls.index(("fill", 3, 101, 3, False))


@pytest.mark.parametrize(("side", "stop", "reached"), [(BUY, 101, False), (BUY, 100, True), (SELL, 99, False), (SELL, 100, True)])
def test_a_stop_is_reached_from_its_own_side(side: Side, stop: int, reached: bool) -> None:
    """The last trade, at 100, counts when the order arrives."""
    engine, _ = replay([*BOOK, Trade(2, 100, 1, BUY), Level(3, BUY, 97, 1)], {2: lambda e: e.order(side, 1, stop=stop)})
    assert states(engine) == [State.FILLED if reached else State.LIVE]


def test_a_stop_with_a_limit_rests_there() -> None:
    events: list[Event] = [*BOOK, Trade(2, 100, 1), Trade(3, 98, 1, SELL), Trade(4, 100, 7, BUY)]
    engine, _ = replay(events, {2: lambda e: e.order(SELL, 4, 100, stop=98)})
    assert [(f.ts, f.price, f.qty, f.maker) for f in engine.fills] == [(4, 100, 4, True)]


def test_without_trades_a_stop_looks_at_the_best_price_of_the_other_side() -> None:
    events: list[Event] = [Quote(1, 99, 5, 101, 5), Quote(2, 101, 5, 103, 5), Quote(3, 102, 5, 104, 5)]
    engine, _ = replay(events, {1: lambda e: e.order(BUY, 2, stop=103)})
    assert fills(engine) == [(2, 103, 2)]


def test_a_suspect_book_reaches_no_stop() -> None:
    events: list[Event] = [Quote(1, 99, 5, 101, 5), Quote(2, 101, 5, 104, 5, suspect=True), Quote(3, 99, 5, 101, 5)]
    engine, _ = replay(events, {1: lambda e: e.order(BUY, 2, stop=103)})
    assert states(engine) == [State.LIVE]


def test_in_next_a_stop_fills_at_the_trade_after_the_one_that_reaches_it() -> None:
    events: list[Event] = [Trade(t, p, 1) for t, p in ((1, 100), (2, 103), (3, 105))]
    engine, _ = replay(events, {1: lambda e: e.order(BUY, 6, stop=102)}, fills="next")
    assert fills(engine) == [(3, 105, 6)]


def test_what_waits_can_be_cancelled_replaced_and_expire() -> None:
    events: list[Event] = [*BOOK, Trade(2, 100, 1), Trade(3, 100, 1), Trade(4, 102, 1)]
    cancelled, _ = replay(events, {2: lambda e: e.order(BUY, 1, stop=102), 3: lambda e: e.cancel(1)})
    assert states(cancelled) == [State.CANCELLED]
    replaced, _ = replay(events, {2: lambda e: e.order(BUY, 1, stop=102), 3: lambda e: e.replace(1, 4, 101)})
    assert fills(replaced) == [(4, 101, 3)]
    late, _ = replay([*BOOK, Trade(2, 100, 1), Trade(86_400 * 10**9, 102, 1)], {2: lambda e: e.order(BUY, 1, tif=Tif.DAY, stop=102)})
    assert states(late) == [State.EXPIRED]


def test_post_only_is_judged_when_the_stop_is_reached() -> None:
    events: list[Event] = [*BOOK, Trade(2, 100, 1), Trade(3, 102, 1), Trade(4, 102, 1)]
    engine, _ = replay(
        events,
        {2: lambda e: [e.order(BUY, 1, 101, post_only=True, stop=102), e.order(BUY, 1, 100, post_only=True, stop=102)]},
    )
    assert states(engine) == [State.CANCELLED, State.LIVE]


def test_a_halt_rejects_a_stop_too() -> None:
    engine, _ = replay([*BOOK, Trade(2, 100, 1), Halt(3), Trade(4, 101, 1)], {2: lambda e: e.order(BUY, 1, stop=102)}, out=2)
    assert states(engine) == [State.REJECTED]


def test_a_halt_holds_what_waits() -> None:
    events: list[Event] = [Quote(1, 99, 5, 101, 5), Halt(2), Quote(3, 101, 5, 103, 5), Halt(4, False), Quote(5, 102, 5, 104, 5)]
    engine, _ = replay(events, {1: lambda e: e.order(BUY, 2, stop=103)})
    assert fills(engine) == [(5, 104, 2)]


@pytest.mark.parametrize("fills_", ["touch", "queue"])
def test_an_iceberg_fills_what_it_shows_of_one_trade_and_then_stands_behind(fills_: str) -> None:
    """Two orders of ours at 100: the iceberg, first, shows 2 of 6; the other one has 3. Nothing of others is displayed there."""
    events: list[Event] = [*BOOK, Trade(2, 99, 1, BUY), *(Trade(t, 100, 4, SELL) for t in (3, 4, 5))]
    engine, _ = replay(events, {2: lambda e: [e.order(BUY, 6, 100, show=2), e.order(BUY, 3, 100)]}, fills=fills_)
    assert [(f.ts, f.order, f.qty) for f in engine.fills] == [(3, 1, 2), (3, 2, 2), (4, 2, 1), (4, 1, 2), (5, 1, 2)]


def test_each_part_of_an_iceberg_queues_behind_what_is_displayed() -> None:
    """5 are displayed at 99 before the order: a trade of 7 fills 2 of it, the next one of 7 fills 2 again, behind another 5."""
    events: list[Event] = [*BOOK, Trade(2, 99, 1, BUY), Trade(3, 99, 7, SELL), Trade(4, 99, 5, SELL), Trade(5, 99, 9, SELL)]
    engine, _ = replay(events, {2: lambda e: e.order(BUY, 6, 99, show=2)}, fills="queue")
    assert [(f.ts, f.qty) for f in engine.fills] == [(3, 2), (5, 2)]


def test_a_trade_through_the_limit_meets_what_an_iceberg_hides() -> None:
    events: list[Event] = [*BOOK, Trade(2, 99, 1, BUY), Trade(3, 98, 5, SELL)]
    for mode, filled in (("touch", 5), ("queue", 6)):
        engine, _ = replay(events, {2: lambda e: e.order(BUY, 6, 99, show=2)}, fills=mode)
        assert [(f.ts, f.qty) for f in engine.fills] == [(3, filled)]


def test_an_iceberg_takes_with_all_it_has() -> None:
    engine, _ = replay([*BOOK, Trade(2, 100, 1), Trade(3, 100, 1)], {2: lambda e: e.order(BUY, 7, 102, show=1)})
    assert fills(engine) == [(2, 101, 3), (2, 102, 4)]


def test_bad_stops_and_parts_are_refused() -> None:
    engine, _ = replay([Trade(1, 100, 1)], {1: lambda e: [e.order(BUY, 1, stop=0), e.order(BUY, 1, 100, show=-1)]}, fills="next")
    assert len(engine.rejects) == 2
