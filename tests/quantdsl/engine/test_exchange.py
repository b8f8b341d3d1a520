"""The compiled market's side of orders is the reference's, request by request and record by record."""

import numpy as np
import pytest

from compiler.hir.module import OptimizationLevel
from quantdsl.engine.layout import OPEN
from runtime.replay.events import EventKind
from tests.quantdsl.engine.exchange_stand import MODES, TIFS, Market, interpreted, native, records
from tests.quantdsl.engine.random_events import ALL, LEVELS, ORDERS, QUOTES, TRADED, random_events
from tests.quantdsl.reference.market import Instrument, Side

DATA = {
    "trades": TRADED,
    "quotes": {**QUOTES, **TRADED},
    "levels": {**LEVELS, **TRADED},
    "orders": {**ORDERS, **TRADED},
    "all": {**ALL, **TRADED},
}


def play(rng: np.random.Generator, market: Market, kinds: str, steps: int) -> None:
    """Random data, and requests about orders that may long be gone."""
    data = random_events(rng, DATA[kinds], steps, width=6, ids=12)
    for number in range(steps):
        for _ in range(int(rng.integers(0, 3))):
            request(rng, market)
        if data["kind"][number] in (11, 12):
            market.halt(data["kind"][number] == 11)
        else:
            market.take(data[number : number + 1])


def request(rng: np.random.Generator, market: Market) -> None:
    if rng.random() < 0.5 and market.count < OPEN:
        market.order(
            Side.BUY if rng.random() < 0.5 else Side.SELL,
            int(rng.integers(1, 9)),
            None if (at_market := rng.random() < 0.2) else int(100 + rng.integers(-5, 6)),
            TIFS[int(rng.integers(4))],
            post_only=not at_market and rng.random() < 0.2,
            stop=int(100 + rng.integers(-4, 5)) if rng.random() < 0.25 else None,
            show=int(rng.integers(1, 4)) if rng.random() < 0.3 else 0,
        )
    elif market.count:
        id = int(rng.integers(max(1, market.count - 8), market.count + 1))
        if rng.random() < 0.4:
            market.cancel(id)
        else:
            market.replace(id, int(rng.integers(1, 9)), None if rng.random() < 0.1 else int(100 + rng.integers(-5, 6)))


def instrument(rng: np.random.Generator) -> Instrument:
    """With none, with a session, or with one over midnight, all short enough for the times of the data."""
    return Instrument(session=((0, 30), (20, 5), None)[int(rng.integers(3))])


@pytest.mark.parametrize("fills", MODES)
@pytest.mark.parametrize("kinds", DATA)
def test_random_requests(kinds: str, fills: str) -> None:
    rng = np.random.default_rng(len(kinds) * 10 + len(fills))
    for case in range(15):
        market = Market(fills, instrument(rng), native(), trim=case % 5 == 4)
        play(rng, market, kinds, int(rng.integers(1, 60)))


@pytest.mark.parametrize("fills", MODES)
def test_interpreted_and_without_optimisation(fills: str) -> None:
    for run in (interpreted, native(OptimizationLevel.O0)):
        rng = np.random.default_rng(3)
        play(rng, Market(fills, instrument(rng), run), "all", 50)


@pytest.mark.parametrize("fills", MODES)
def test_as_many_orders_as_may_be_open(fills: str) -> None:
    """In any order of prices, until one trade fills all of a side."""
    rng, market = np.random.default_rng(4), Market(fills, Instrument(), native())
    market.looks = False
    for price in rng.integers(50, 150, OPEN).tolist():
        market.order(Side.BUY if price < 100 else Side.SELL, 2, price, show=int(rng.integers(0, 2)))
    market.looks = True
    market.compare()
    trades = [{"kind": EventKind.TRADE, "ts": 1, "price": price, "qty": 10_000, "side": side} for price, side in ((49, 2), (150, 1))]
    market.take(records(*trades))
    assert not market.plain.resting
