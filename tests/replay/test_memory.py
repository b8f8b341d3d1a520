"""Tables that are in memory already, against the same rows from a file."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from feeds import BTC, DATA, read, stopped

from quantdsl.readers.decoders import NativeDecoders
from runtime.replay.bad_rows import BadData, BadSource, Why
from runtime.replay.batches import NOBODY, DataSource
from runtime.replay.events import EVENT, EventKind, Events, Flag
from runtime.replay.feed import Feed
from runtime.replay.grids import Listing
from runtime.replay.rules import Rules

X = Listing("X", "0.01", "1")
COLUMNS = {"ts_ns": np.array([1, 2, 3]), "price": np.array([1.25, 2.0, 0.01]), "qty": np.array([1, 2, 3], np.int32)}


def rows(table: object, *listings: Listing) -> Events:
    feed = Feed([DataSource(Path("data"), 0, listings or (X,), table=table)], NativeDecoders())
    return np.concatenate([np.empty(0, EVENT), *feed.events()])


@pytest.mark.parametrize(
    "table",
    [
        COLUMNS,
        {**COLUMNS, "ts_ns": np.array([1, 2, 3], "M8[ns]")},
        {name: column[::-1].copy()[::-1] for name, column in COLUMNS.items()},
        pa.table(COLUMNS),
        pa.table(COLUMNS).to_batches()[0],
        np.rec.fromarrays(list(COLUMNS.values()), names=list(COLUMNS)),
        {"ts_ns": [1, 2, 3], "price": ["1.25", "2", "0.010"], "qty": [1, 2, 3]},
    ],
    ids=["arrays", "times", "strided", "arrow", "batch", "structured", "lists"],
)
def test_tables(table: object) -> None:
    assert rows(table)[["ts", "price", "qty", "row"]].tolist() == [(1, 125, 1, 1), (2, 200, 2, 2), (3, 1, 3, 3)]


def test_events_of_a_file_come_back() -> None:
    events, _, _ = read(DATA / "btcusdt_spot_20240808_trades.csv", BTC)
    again = rows(events, BTC)
    assert again["row"].tolist() == list(range(1, 9758))
    names = [name for name in EVENT.names or () if name != "row"]
    assert np.array_equal(again[names], events[names])
    assert rows(events[:0], BTC).size == 0


def event(**fields: int) -> Events:
    """A good quote of X between two good trades, with some of its fields another."""
    made = np.zeros(3, EVENT)
    made["ts"], made["kind"], made["price"], made["qty"], made["flags"], made["id"] = (
        [1, 2, 3],
        EventKind.TRADE,
        125,
        3,
        Flag.LAST,
        [7, 0, 8],
    )
    made["kind"][1], made["price2"][1], made["qty2"][1] = EventKind.QUOTE, 126, 4
    for name, value in fields.items():
        made[name][1] = value
    return made


WRONG = [
    ({"kind": 77}, "column `kind`: `77` can't be read", Why.UNREADABLE),
    ({"kind": 0}, "column `kind`: `0` can't be read", Why.UNREADABLE),
    ({"side": 3}, "column `side`: `3` can't be read", Why.UNREADABLE),
    ({"kind": EventKind.ADD}, "column `side`: `0` can't be read", Why.UNREADABLE),
    ({"flags": 1 << 14}, "column `flags`: `16384` can't be read", Why.UNREADABLE),
    ({"kind": EventKind.TRADE, "qty": -5}, "column `qty`: `-5` is negative", Why.NEGATIVE),
    ({"kind": EventKind.TRADE, "qty": 0}, "column `qty`: `0` is zero", Why.ZERO),
    ({"kind": EventKind.EXECUTE, "qty": 0}, "column `qty`: `0` is zero", Why.ZERO),
    ({"kind": EventKind.TRADE, "price": -5}, "column `price`: `-0.05` is negative", Why.NEGATIVE),
    ({"kind": EventKind.EXECUTE, "flags": Flag.LAST | Flag.OWN_PRICE, "price": -5}, "column `price`: `-0.05` is negative", Why.NEGATIVE),
    ({"qty2": -1}, "column `qty2`: `-1` is negative", Why.NEGATIVE),
    ({"price2": -1}, "column `price2`: `-0.01` is negative", Why.NEGATIVE),
    ({"price2": 2**62}, "column `price2`: `46116860184273879.04` is out of range", Why.OUT_OF_RANGE),
    ({"kind": EventKind.TRADE, "price": 2**62}, "column `price`: `46116860184273879.04` is out of range", Why.OUT_OF_RANGE),
    ({"ts": 0}, "column `ts`: `0` is earlier than the row before", Why.EARLIER),
    ({"kind": EventKind.TRADE, "id": 7}, "column `id`: `7` was there before", Why.REPEATED_TRADE),
    ({"instrument": NOBODY}, "column `instrument`: `4294967295` is out of range", Why.OUT_OF_RANGE),
]


@pytest.mark.parametrize(("fields", "says", "why"), WRONG)
def test_events_are_checked_as_files_are(fields: dict[str, int], says: str, why: Why) -> None:
    source = DataSource(Path("data"), 0, (X,), table=event(**fields))
    before, stop, _ = stopped(source)
    assert str(stop) == f"data: row 2, {says}" and before["row"].tolist() == [1]
    feed = Feed([source], NativeDecoders(), Rules(skip=True))
    left = np.concatenate(list(feed.events()))
    assert left[left["kind"] != EventKind.GAP]["row"].tolist() == [1, 3]
    assert (feed.tallies[0].rows, feed.tallies[0].used, feed.tallies[0].reasons) == (3, 2, {why: 1})


GOOD = [{}, {"qty": 0}, {"qty": 0, "price": -1}, {"qty2": 0, "price2": -1}, {"kind": EventKind.BOOK_LEVEL, "side": 1, "qty": 0}]


@pytest.mark.parametrize(
    "fields", [*GOOD, {"kind": EventKind.GAP, "instrument": NOBODY}, {"kind": EventKind.BOOK_CLEAR}, {"kind": EventKind.DELETE}]
)
def test_events_that_are_good(fields: dict[str, int]) -> None:
    assert rows(event(**fields))["row"].tolist() == [1, 2, 3]


def test_prices_below_zero_are_for_those_who_say_so(tmp_path: Path) -> None:
    table = {"ts_ns": [1, 2], "price": ["1", "-0.05"], "qty": [1, 1]}
    path = tmp_path / "t.csv"
    path.write_text("ts_ns,price,qty\n1,1,1\n2,-0.05,1\n")
    with pytest.raises(BadData, match=r"data: row 2, column `price`: `-0\.05` is negative"):
        rows(table)
    with pytest.raises(BadData, match=r"t\.csv: row 3, column `price`: `-0\.05` is negative"):
        read(path, X)
    assert read(path, X, prices="signed")[0]["price"].tolist() == [100, -5]
    for given in (table, event(kind=EventKind.TRADE, price=-5)):
        feed = Feed([DataSource(Path("data"), 0, (X,), None, {"prices": "signed"}, given)], NativeDecoders())
        assert np.concatenate(list(feed.events()))["price"][1] == -5


def test_a_crossed_quote_says_so() -> None:
    assert int(rows(event(price=126))["flags"][1]) == Flag.LAST | Flag.CROSSED


def test_what_is_no_table() -> None:
    with pytest.raises(BadSource, match="int is no table"):
        rows(3)
    with pytest.raises(BadSource, match="the columns are no table"):
        rows({"ts_ns": [1, 2], "price": [1], "qty": [1]})
    with pytest.raises(BadData, match=r"data: row 2, column `price`: `1\.005` is off the instrument's grid"):
        rows({"ts_ns": [1, 2], "price": [1.0, 1.005], "qty": [1, 1]})
    far = np.zeros(1, EVENT)
    far["instrument"] = 1
    with pytest.raises(BadSource, match="events of instrument 1, of 1"):
        rows(far)
