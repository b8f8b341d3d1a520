"""Orders and the data that they meet, for the engine and for an oracle: random books, and a recorded day.

Only what both decide by the same rules occurs (docs/fills.md): an own order is alone at its price, a book never moves through it without a
trade that does, what an order took of a level is shown anew before the next order, and orders that cross and stay find enough to fill whole."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from attrs import define, field, frozen

from quantdsl.readers.decoders import NativeDecoders
from runtime.replay.batches import DataSource
from runtime.replay.events import EventKind, Events, Flag, MarketSide, empty
from runtime.replay.feed import Feed
from runtime.replay.grids import Listing
from runtime.replay.rules import Rules

DATA = Path(__file__).parents[3] / "programs" / "data"
BEGIN = 1_700_000_000 * 10**9
COUNT = 60
"""Requests of a case."""
DEPTH = 6
"""Levels of each side of a random book."""
PERIOD = 10**6
BUY, SELL = 1, -1
REQUEST = np.dtype(
    [
        ("ts", "<i8"),
        ("cancel", "<u8"),  # the order to take back; 0: this is an order
        ("side", "<i8"),
        ("qty", "<i8"),
        ("limit", "<i8"),
        ("market", "?"),
        ("post_only", "?"),
        ("tif", "U3"),
    ]
)
"""What is asked for at a moment. Orders have numbers from 1 on, in the order of time."""
Requests = npt.NDArray[np.void]


@frozen
class OracleCase:
    """The first request is sent one `period` (ns) after the first event, the next one a period later, and so on."""

    events: Events
    requests: Requests
    period: int


@define
class RandomBook:
    """Quantities of the data are even and those of own orders odd: no part of an order is just what a trade leaves for it. The oracle fails
    on such orders."""

    rng: np.random.Generator
    bid: int = 10_000
    ask: int = 10_001
    levels: dict[tuple[int, int], int] = field(factory=dict)
    """Quantity by side and price."""
    resting: dict[int, tuple[int, int]] = field(factory=dict)
    """Side and limit of own orders that may be in the book, by number."""
    events: list[Events] = field(factory=list)
    orders: int = 0

    def even(self, most: int) -> int:
        return 2 * int(self.rng.integers(1, most // 2 + 1))

    def odd(self, most: int) -> int:
        return 2 * int(self.rng.integers(0, (most + 1) // 2)) + 1

    def best(self, side: int) -> int:
        return self.bid if side == BUY else self.ask

    def depth(self, side: int, limit: int | None = None) -> int:
        """What is displayed on a side, at the limit of an order of the other side or better."""
        return sum(qty for (of, price), qty in self.levels.items() if of == side and (limit is None or side * (price - limit) >= 0))

    def record(self, ts: int, kind: EventKind, side: int, price: int, qty: int, last: bool = True) -> None:
        event = empty(1)
        event["ts"], event["kind"], event["price"], event["qty"] = ts, kind, price, qty
        event["side"], event["flags"] = MarketSide.BUY if side == BUY else MarketSide.SELL, Flag.LAST if last else 0
        self.events.append(event)

    def trade(self, ts: int, side: int, price: int) -> None:
        """`side`: the aggressor's. Own orders of the other side whose limit is better than the price are gone."""
        self.record(ts, EventKind.TRADE, side, price, self.even(60))
        self.resting = {number: (of, limit) for number, (of, limit) in self.resting.items() if of == side or of * (limit - price) <= 0}

    def move(self, ts: int) -> None:
        """Another book: every level that stays has another quantity. Trades go through the own orders that it would move through first."""
        self.bid += int(self.rng.integers(-2, 3))
        self.ask = self.bid + int(self.rng.integers(1, 4))
        for side in (BUY, SELL):
            met = [limit for of, limit in self.resting.values() if of == side and side * (limit - self.best(-side)) >= 0]
            if met:
                self.trade(ts - 10 - side, -side, min(met) - 1 if side == BUY else max(met) + 1)
        old = self.levels
        prices = [(side, self.best(side) - side * number) for side in (BUY, SELL) for number in range(DEPTH)]
        self.levels = {level: self.even(40) for level in prices}
        self.levels = {level: qty + 2 if qty == old.get(level) else qty for level, qty in self.levels.items()}
        gone = [(level, 0) for level in old if level not in self.levels]
        changes = [*gone, *self.levels.items()]
        for number, ((side, price), qty) in enumerate(changes):
            self.record(ts, EventKind.BOOK_LEVEL, side, price, qty, last=number == len(changes) - 1)

    def request(self, ts: int) -> Requests:
        made = np.zeros(1, REQUEST)
        made["ts"], side = ts, int(self.rng.choice((BUY, SELL)))
        kind = str(self.rng.choice(("market", "IOC", "FOK", "crossing", "resting", "resting", "resting", "refused", "cancel")))
        if kind == "cancel" and self.resting:
            made["cancel"] = number = int(self.rng.choice(list(self.resting)))
            del self.resting[number]
            return made
        self.orders += 1
        far, near = self.best(-side), self.best(side)
        limit, qty, tif = far + side * int(self.rng.integers(0, 4)), self.odd(90), "GTC"
        match kind:
            case "market":
                made["market"], tif, qty = True, "IOC", self.odd(300)
            case "IOC" | "FOK":
                tif, limit = kind, limit - side * int(self.rng.integers(0, 3))
            case "crossing":
                qty = self.odd(self.depth(-side, limit))
            case "refused":
                made["post_only"] = True
            case _:
                taken = [price for of, price in self.resting.values() if of == side]
                free = [price for price in (near - side * number for number in range(4)) if price not in taken]
                limit = int(self.rng.choice(free)) if free else near - side * 50
                made["post_only"] = self.rng.random() < 0.5
                self.resting[self.orders] = (side, limit)
        made["side"], made["qty"], made["limit"], made["tif"] = side, qty, 0 if made["market"][0] else limit, tif
        return made


def random_case(seed: int) -> OracleCase:
    book = RandomBook(np.random.default_rng(seed))
    book.move(BEGIN)
    requests = []
    for number in range(1, COUNT + 1):
        ts = BEGIN + number * PERIOD
        requests.append(book.request(ts))
        for trade in range(int(book.rng.integers(0, 4))):
            side = int(book.rng.choice((BUY, SELL)))
            limits = [limit for of, limit in book.resting.values() if of == -side]
            at_own = limits and book.rng.random() < 0.6
            price = int(book.rng.choice(limits)) if at_own else book.best(-side) + side * int(book.rng.integers(0, 2))
            book.trade(ts + 100 * (trade + 1), side, price)
        book.move(ts + PERIOD // 2)
    return OracleCase(np.concatenate(book.events), np.concatenate(requests), PERIOD)


def recorded_case() -> OracleCase:
    """Trades and levels of BTCUSDT on Binance, in lots so fine that no row is off the grid. Every five seconds an IOC of up to 4 BTC, by turns
    of both sides; in its stead an FOK that nothing can fill, where it would take of a level that is as an order before it left it."""
    listing = Listing("BTCUSDT", "0.01", "0.00000001")
    feed = Feed([DataSource(DATA / "btcusdt_spot_20240808.jsonl.gz", 0, (listing,), listing.name)], NativeDecoders(), Rules())
    events = np.concatenate(list(feed.events()))
    events = events[np.isin(events["kind"], (EventKind.TRADE, EventKind.BOOK_LEVEL))]
    period = 5 * 10**9 + 1
    requests = np.zeros(COUNT, REQUEST)
    number = np.arange(COUNT)
    requests["ts"] = events["ts"][0] + period * (number + 1)
    requests["side"] = np.where(number % 2, SELL, BUY)
    requests["qty"] = np.random.default_rng(7).integers(1, 40, COUNT) * 10**7 + 1
    requests["limit"] = np.where(number % 2, 6_000_000, 6_300_000)
    requests["tif"] = "IOC"
    levels: dict[tuple[int, int], int] = {}
    taken: set[tuple[int, int]] = set()
    begin = 0
    for request, end in zip(requests, np.searchsorted(events["ts"], requests["ts"]).tolist(), strict=True):
        for event in events[begin:end][events["kind"][begin:end] == EventKind.BOOK_LEVEL]:
            level, qty = (BUY if event["side"] == MarketSide.BUY else SELL, int(event["price"])), int(event["qty"])
            if levels.get(level) != qty:
                taken.discard(level)
            levels[level] = qty
        begin, met, left = end, set(), int(request["qty"])
        for level in sorted((level for level in levels if level[0] == -request["side"]), key=lambda level: level[0] * -level[1]):
            if left > 0 and levels[level]:
                met.add(level)
                left -= levels[level]
        if met & taken:
            request["tif"], request["qty"] = "FOK", 5 * 10**10
        else:
            taken |= met
    return OracleCase(events, requests, period)


CASES: Mapping[str, Callable[[], OracleCase]] = {
    **{f"random {seed}": lambda seed=seed: random_case(seed) for seed in range(1, 13)},
    "recorded": recorded_case,
}
