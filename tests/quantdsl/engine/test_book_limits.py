"""Where a book is full, a message too long, a number too large: nothing goes wrong in silence."""

import numpy as np
import pytest

from quantdsl.engine.layout import BOOK_ORDERS, JOURNAL, LEVELS
from runtime.replay.events import EVENT, EventKind, Events, Flag
from tests.quantdsl.engine.book_stand import NativeBook, reference_state, reference_take
from tests.quantdsl.reference.book import Book

BUY, SELL = 1, 2


def events(count: int, kind: EventKind, **fields: object) -> Events:
    made = np.zeros(count, EVENT)
    made["kind"], made["flags"] = kind, Flag.LAST
    for name, value in fields.items():
        made[name] = value
    return made


def message(*parts: Events) -> Events:
    """One message of them all."""
    made = np.concatenate(parts)
    made["flags"] = 0
    made["flags"][-1] = Flag.LAST
    return made


def test_many_levels_in_any_order() -> None:
    rng = np.random.default_rng(1)
    prices = rng.permutation(1500)
    adds = events(1500, EventKind.BOOK_LEVEL, side=BUY, price=prices, qty=rng.integers(1, 9, 1500))
    changes = events(2500, EventKind.BOOK_LEVEL, side=BUY, price=rng.integers(0, 1500, 2500), qty=rng.integers(0, 3, 2500))
    native, book = NativeBook(), Book()
    for data in (adds, changes):
        native.take(data)
        reference_take(book, data)
        assert native.state() == reference_state(book)


@pytest.mark.parametrize("scale", [1, 4096, 1 << 44, 0x9E3779B97F4A7C15], ids=str)
def test_a_table_that_grows_keeps_every_order(scale: int) -> None:
    rng, count = np.random.default_rng(2), 20_000
    ids = np.arange(count, dtype=np.uint64) * np.uint64(scale)
    data = events(count, EventKind.ADD, side=BUY, price=rng.integers(1, 50, count), qty=rng.integers(1, 9, count), id=ids)
    native = NativeBook()
    native.take(data)
    assert (int(native.at["order_count"]), int(native.at["grown"])) == (count, 4)
    gone = rng.permutation(count)[: count // 2]
    native.take(events(len(gone), EventKind.DELETE, id=ids[gone]))
    left = np.setdiff1d(np.arange(count), gone)
    sums = {price: int(data["qty"][left][data["price"][left] == price].sum()) for price in set(data["price"][left].tolist())}
    assert native.state()["BUY"] == [(price, sums[price], 0) for price in sorted(sums, reverse=True)]
    assert native.take(events(len(gone), EventKind.DELETE, id=ids[gone]))[1] == len(gone), "all of them unknown now"
    assert native.take(events(len(left), EventKind.DELETE, id=ids[left]))[1] == 0
    assert native.state()["BUY"] == [] and native.at["order_count"] == 0


def test_more_orders_than_there_is_room_for() -> None:
    native = NativeBook()
    native.take(events(BOOK_ORDERS, EventKind.ADD, side=BUY, price=10, qty=1, id=np.arange(BOOK_ORDERS)))
    assert native.state()["BUY"] == [(10, BOOK_ORDERS, 0)] and not native.at["suspect"]
    native.take(events(2, EventKind.ADD, side=BUY, price=11, qty=1, id=BOOK_ORDERS + np.arange(2)))
    native.take(events(1, EventKind.DELETE, id=5))
    assert native.state()["BUY"] == [(10, BOOK_ORDERS - 1, 0)]
    assert (bool(native.at["suspect"]), int(native.at["left_out"])) == (True, 2)
    native.take(message(events(1, EventKind.BOOK_CLEAR), events(1, EventKind.ADD, side=BUY, price=7, qty=1)))
    assert (bool(native.at["suspect"]), native.state()["BUY"]) == (False, [(7, 1, 0)])


@pytest.mark.parametrize(("side", "sign"), [(BUY, 1), (SELL, -1)], ids=["bids", "asks"])
def test_the_worst_of_too_many_levels_is_dropped(side: int, sign: int) -> None:
    """The book is good as long as its best level is better than all that was dropped."""
    rng, name, extra = np.random.default_rng(3), "BUY" if side == BUY else "SELL", 10
    steps = rng.permutation(LEVELS + extra)
    native = NativeBook()
    native.take(events(LEVELS + extra, EventKind.BOOK_LEVEL, side=side, price=10_000 + sign * steps, qty=1 + steps))
    kept = [(10_000 + sign * step, 1 + step, 0) for step in range(LEVELS + extra - 1, extra - 1, -1)]
    assert native.state()[name] == kept and not native.at["suspect"]
    native.take(events(LEVELS - 1, EventKind.BOOK_LEVEL, side=side, price=[price for price, _, _ in kept[:-1]]))
    assert native.state()[name] == kept[-1:] and not native.at["suspect"]
    native.take(events(1, EventKind.BOOK_LEVEL, side=side, price=kept[-1][0]))
    assert native.at["suspect"]
    native.take(events(1, EventKind.BOOK_LEVEL, side=side, price=10_000 + sign * (extra - 1), qty=1))
    assert native.at["suspect"], "one stands where others were dropped"
    native.take(events(1, EventKind.BOOK_LEVEL, side=side, price=10_000 + sign * extra, qty=1))
    assert not native.at["suspect"]


def test_a_refused_message_brings_back_levels_that_it_pushed_out() -> None:
    native = NativeBook()
    native.take(events(LEVELS, EventKind.BOOK_LEVEL, side=BUY, price=np.arange(LEVELS) + 1, qty=1))
    before = native.state()
    above = events(3, EventKind.BOOK_LEVEL, side=BUY, price=LEVELS + 1 + np.arange(3), qty=1)
    below = events(1, EventKind.BOOK_LEVEL, side=BUY, price=0, qty=1)
    native.take(message(above, below, events(1, EventKind.BOOK_LEVEL, side=SELL, price=5, qty=1)))
    assert native.state() == before | {"suspect": 1, "crossed": 1}
    assert not native.at["sides"]["lost"].any()


def test_a_message_too_long_to_be_taken_back_empties_the_book() -> None:
    native = NativeBook()
    native.take(events(1, EventKind.BOOK_LEVEL, side=BUY, price=9, qty=1))
    flips = events(JOURNAL, EventKind.BOOK_LEVEL, side=BUY, price=10, qty=np.arange(JOURNAL) % 2 + 1)
    native.take(message(flips, events(1, EventKind.BOOK_LEVEL, side=SELL, price=10, qty=1)))
    assert native.state() == {"suspect": 1, "crossed": 1, "order_count": 0, "updated": 0, "BUY": [], "SELL": []}
    native.take(events(1, EventKind.BOOK_LEVEL, side=BUY, price=9, qty=1))
    assert native.at["suspect"], "it isn't all there"
    native.take(message(events(1, EventKind.BOOK_CLEAR), events(1, EventKind.BOOK_LEVEL, side=BUY, price=9, qty=1)))
    assert not native.at["suspect"] and native.at["left_out"] == 1


def test_a_message_as_long_as_the_journal_is_taken_back() -> None:
    native = NativeBook()
    native.take(events(1, EventKind.BOOK_LEVEL, side=BUY, price=10, qty=7))
    flips = events(JOURNAL - 1, EventKind.BOOK_LEVEL, side=BUY, price=10, qty=np.arange(JOURNAL - 1) % 2 + 1)
    native.take(message(flips, events(1, EventKind.BOOK_LEVEL, side=SELL, price=10, qty=1)))
    assert native.state() == {"suspect": 1, "crossed": 1, "order_count": 0, "updated": 0, "BUY": [(10, 7, 0)], "SELL": []}


def test_quantities_that_64_bits_cant_add_make_the_book_suspect() -> None:
    native = NativeBook()
    native.take(events(2, EventKind.ADD, side=BUY, price=10, qty=(1 << 62) + 1, id=[1, 2]))
    assert native.state()["BUY"] == [(10, (1 << 63) - 1, 0)]
    assert (bool(native.at["suspect"]), int(native.at["left_out"])) == (True, 1)


@pytest.mark.parametrize("prices", [(-(1 << 63), (1 << 63) - 1), (-5, -3)], ids=["extreme", "negative"])
def test_any_price_has_its_place(prices: tuple[int, int]) -> None:
    bid, ask = prices
    data = message(
        events(1, EventKind.BOOK_LEVEL, side=BUY, price=bid, qty=1), events(1, EventKind.BOOK_LEVEL, side=SELL, price=ask, qty=2)
    )
    native = NativeBook()
    native.take(data)
    state = native.state()
    assert (state["BUY"], state["SELL"], state["suspect"]) == ([(bid, 1, 0)], [(ask, 2, 0)], 0)


def test_records_with_sides_and_kinds_that_dont_exist_harm_nothing() -> None:
    native = NativeBook()
    native.take(events(256, EventKind.BOOK_LEVEL, side=np.arange(256, dtype=np.uint8), price=np.arange(256), qty=1))
    before = native.state()
    strange = events(246, EventKind.BOOK_LEVEL, side=255, price=5, qty=5)
    strange["kind"] = np.arange(10, 256)
    strange["kind"][0] = 13
    native.take(strange)
    after = native.state()
    assert (after["BUY"], after["SELL"]) == (before["BUY"], before["SELL"])


@pytest.mark.parametrize("trim", [False, True], ids=["refuse", "trim"])
def test_records_of_random_bytes_leave_a_book_in_order(trim: bool) -> None:
    rng, count = np.random.default_rng(12), 5000
    for width in (1 << 63, 50):
        data = np.frombuffer(rng.bytes(count * EVENT.itemsize), EVENT).copy()
        data["kind"] = rng.integers(0, 14, count)
        data["flags"] |= np.where(rng.random(count) < 0.5, 1, 0).astype("u2")
        for name in ("id", "id2"):
            data[name] %= 50
        for name in ("price", "price2", "qty", "qty2"):
            data[name] = rng.integers(-width, width, count)
        native = NativeBook(trim)
        for part in np.array_split(data, 100):
            native.take(part)
            sides = [[price for price, _, _ in native.state()[name]] for name in ("BUY", "SELL")]
            assert sides == [sorted(set(sides[0]), reverse=True), sorted(set(sides[1]))]
            assert all(qty > 0 for name in ("BUY", "SELL") for _, qty, _ in native.state()[name])
            met = bool(sides[0] and sides[1] and sides[0][0] >= sides[1][0])
            assert not met or native.at["suspect"] or native.at["within"]
