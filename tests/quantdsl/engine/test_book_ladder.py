"""Ladders of many levels: in whatever order levels come and go, they are those that a sorted table has. `book_stand.ladder` looks at the
blocks each time."""

import numpy as np
import numpy.typing as npt
import pytest

from quantdsl.engine.layout import LEVELS
from runtime.replay.events import EventKind, Events
from runtime.replay.events import MarketSide as RecordSide
from tests.quantdsl.engine.book_stand import NativeBook, reference_state, reference_take
from tests.quantdsl.engine.test_book_limits import BUY, SELL, events, message
from tests.quantdsl.reference.book import Book

Numbers = npt.NDArray[np.int64]


def orders_of(count: int) -> dict[str, Numbers]:
    up = np.arange(count)
    return {
        "up": up,
        "down": up[::-1],
        "from both ends": np.stack([up, up[::-1]], axis=1).reshape(-1)[:count],
        "from the middle": np.argsort(np.abs(up - count // 2), kind="stable"),
        "every 37th": up * 37 % count,
        "any": np.random.default_rng(7).permutation(count),
    }


def levels(side: int, prices: Numbers, qty: object) -> Events:
    return events(len(prices), EventKind.BOOK_LEVEL, side=side, price=prices, qty=qty)


@pytest.mark.parametrize("side", [BUY, SELL], ids=["bids", "asks"])
@pytest.mark.parametrize("goes", orders_of(3))
@pytest.mark.parametrize("comes", orders_of(3))
def test_a_full_ladder_comes_and_goes(comes: str, goes: str, side: int) -> None:
    native, there, name = NativeBook(), dict[int, int](), RecordSide(side).name
    orders = orders_of(LEVELS + 1)  # 17 * 241 of them, so steps of 37 meet each
    for order, given in ((comes, True), (goes, False)):
        prices = orders[order][orders[order] < LEVELS] * 3 - 5000
        for part in np.array_split(prices, 9):
            native.take(levels(side, part, part + 5001 if given else 0))
            there = there | {price: price + 5001 for price in part.tolist()} if given else {p: q for p, q in there.items() if p not in part}
            assert native.state()[name] == [(price, there[price], 0) for price in sorted(there, reverse=side == BUY)]
    assert there == {}


@pytest.mark.parametrize("trim", [False, True], ids=["refuse", "trim"])
def test_deep_books_are_those_of_the_reference(trim: bool) -> None:
    """Messages anywhere in depth; one in ten meets the other side."""
    rng, native, book = np.random.default_rng(8), NativeBook(trim), Book("trim" if trim else "refuse")
    for turn in range(60):
        count = int(rng.integers(1, 120))
        sides = rng.integers(1, 3, count)
        away = rng.integers(1, 1200, count) - 60 * int(rng.random() < 0.1)
        changed = events(count, EventKind.BOOK_LEVEL, side=sides, price=np.where(sides == BUY, -away, away), ts=turn)
        changed["qty"] = np.where(rng.random(count) < 0.5 * turn / 60, 0, rng.integers(1, 5, count))
        data = message(changed)
        assert native.take(data)[0] == reference_take(book, data), turn
        assert native.state() == reference_state(book), turn
