"""A market maker on real books, read by the readers: whatever the data does, orders and money add up."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from quantdsl.readers.decoders import NativeDecoders
from runtime.replay.batches import DataSource
from runtime.replay.feed import Feed
from runtime.replay.grids import Listing
from runtime.replay.rules import Rules
from tests.quantdsl.reference.book import Book
from tests.quantdsl.reference.engine import Engine, Strategy
from tests.quantdsl.reference.from_events import from_events
from tests.quantdsl.reference.market import Event, Fee, Instrument, Side
from tests.quantdsl.reference.orders import State
from tests.quantdsl.reference.risk import Limits

DATA = Path(__file__).parents[3] / "programs" / "data"
FILES = {
    "binance": ("btcusdt_spot_20240808.jsonl.gz", Listing("BTCUSDT", "0.01", "0.00001"), 20_000),
    "itch": ("sim_20101224.itch50.gz", Listing("ALC", "0.0001", "1"), 20_000),
    "hyperliquid": ("btc_hyperliquid_l2book_20250126.jsonl.gz", Listing("BTC", "1", "0.00001"), 5000),
}


def events(name: str) -> list[Event]:
    file, listing, most = FILES[name]
    feed = Feed([DataSource(DATA / file, 0, (listing,), listing.name)], NativeDecoders(), Rules(skip=True))
    return list(islice((event for block in feed.events() for event in from_events(block)), most))


class Maker(Strategy):
    """Keeps an order at the best price of each side, and moves it there."""

    size = 10

    def on_book(self, engine: Engine, book: Book) -> None:
        for side in (Side.BUY, Side.SELL):
            best = book.best(side)
            mine = [order for order in engine.open if order.side is side]
            for order in mine:
                if order.limit != best:
                    engine.cancel(order.id)
            if best is not None and not mine:
                engine.order(side, self.size, best, post_only=True)

    def on_gap(self, engine: Engine, gap: Any) -> None:
        engine.cancel_all()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("fills", ["touch", "queue"])
def test_a_market_maker(name: str, fills: str) -> None:
    limits = Limits(max_position=40, max_open_orders=6, self_trade="reject")
    instrument = Instrument(10, maker=Fee("-0.5"), taker=Fee(2))
    engine = Engine(Maker(), limits, instrument, fills=fills, out=50_000, back=50_000).run(events(name))
    counts = engine.counts()
    assert counts["submitted"] == sum(counts.values()) - counts["submitted"] > 5
    assert engine.fills
    assert engine.illegal == []
    assert all(abs(fill.position) <= 40 for fill in engine.fills)
    assert all(fill.maker for fill in engine.fills)
    assert engine.position.qty == sum(fill.qty * fill.side for fill in engine.fills)
    assert engine.position.cash == sum(-fill.qty * fill.side * fill.price for fill in engine.fills) * 10
    for order in engine.orders.values():
        assert order.filled == sum(fill.qty for fill in engine.fills if fill.order == order.id)
        assert (order.state is State.FILLED) == (order.filled == order.qty)
