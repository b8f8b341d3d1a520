"""What handlers ask about the market, computed again from the levels."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from compiler.hir.layout import new_memory
from compiler.hir.module import OptimizationLevel
from quantdsl.engine.interface import OPAQUE
from runtime.replay.events import EventKind
from tests.quantdsl.engine.exchange_stand import Market, interpreted, native, records
from tests.quantdsl.engine.random_events import LEVELS, random_events
from tests.quantdsl.reference.market import Instrument, Side

STATE = new_memory(OPAQUE)
RUNS = [native(), native(OptimizationLevel.O0), interpreted]


def test_of_random_books() -> None:
    rng, seen = np.random.default_rng(8), 0
    for case in range(40):
        market = Market("touch", Instrument(), RUNS[case % len(RUNS)])
        market.take(random_events(rng, LEVELS, case, width=8))
        seen += market.book.both
        check(market)
    assert 10 < seen < 40


def check(market: Market) -> None:
    bids, asks = ([(price, level.qty) for price, level in market.book.ladder(side)] for side in (Side.BUY, Side.SELL))
    assert ask(market, "touch", 0) == (bool(asks), asks[0][0] if asks else 0)
    assert ask(market, "touch", 1) == (bool(bids), bids[0][0] if bids else 0)
    both = bool(bids and asks)
    assert ask(market, "mid") == (both, (bids[0][0] + asks[0][0]) // 2 if both else 0)
    assert ask(market, "spread") == (both, asks[0][0] - bids[0][0] if both else 0)
    there, micro = ask(market, "microprice")
    assert there == both
    if both:
        (bid, bid_qty), (offer, ask_qty) = bids[0], asks[0]
        assert micro == pytest.approx(float(Fraction(bid * ask_qty + offer * bid_qty, bid_qty + ask_qty)), rel=1e-15)
    for levels in (-1, 0, 1, 3, 100):
        more, less = (sum(qty for _, qty in side[: max(levels, 0)]) for side in (bids, asks))
        assert ask(market, "imbalance", levels) == ((more - less) / (more + less) if more + less else 0.0,)
    for number in (-1, 0, 1, len(bids) - 1, len(bids), 1 << 40):
        inside = 0 <= number < len(bids)
        assert ask(market, "level", 0, number) == (inside, *(bids[number] if inside else (0, 0)))
        inside = 0 <= number < len(asks)
        assert ask(market, "level", 1, number) == (inside, *(asks[number] if inside else (0, 0)))
    for price in range(85, 115):
        expected = sum(qty for at, qty in bids if at >= price) + sum(qty for at, qty in asks if at <= price)
        assert ask(market, "depth_to", price) == (expected,)


def ask(market: Market, what: str, *arguments: int) -> tuple[Any, ...]:
    return market.run(f"engine.{what}", market.raw, STATE, *arguments)


def test_a_mid_between_two_ticks_is_rounded_down_and_doesnt_overflow() -> None:
    for bid, offer, mid in ((99, 102, 100), (-4, -1, -3), ((1 << 63) - 4, (1 << 63) - 1, (1 << 63) - 3)):
        market = Market("touch", Instrument(), native())
        market.take(records({"kind": EventKind.QUOTE, "flags": 1, "price": bid, "qty": 1, "price2": offer, "qty2": 1}))
        assert ask(market, "mid") == (True, mid)


def test_quantities_near_the_end_of_64_bits() -> None:
    most = (1 << 63) - 1
    levels = [
        {"kind": EventKind.BOOK_LEVEL, "flags": 1, "side": side, "price": price, "qty": most} for side, price in ((1, 9), (1, 8), (2, 11))
    ]
    market = Market("touch", Instrument(), native())
    market.take(records(*levels))
    assert ask(market, "imbalance", 2) == (0.0,)
    assert ask(market, "depth_to", 8) == (most,)
    assert ask(market, "microprice") == (True, 10.0)
