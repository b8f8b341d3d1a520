"""Tables that are in memory already, against the same rows from a file."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from feeds import BTC, DATA, read

from runtime.replay.bad_rows import BadData, BadSource
from runtime.replay.batches import Source
from runtime.replay.events import EVENT, Events
from runtime.replay.feed import Feed
from runtime.replay.grids import Listing

X = Listing("X", "0.01", "1")
COLUMNS = {"ts_ns": np.array([1, 2, 3]), "price": np.array([1.25, 2.0, 0.01]), "qty": np.array([1, 2, 3], np.int32)}


def rows(table: object, *listings: Listing) -> Events:
    feed = Feed([Source(Path("data"), 0, listings or (X,), table=table)])
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
