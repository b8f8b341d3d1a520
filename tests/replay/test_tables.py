"""Parquet in all types that a column may have, and LOBSTER's messages."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from feeds import BTC, DATA, read

from runtime.replay.bad_rows import BadData, BadSource, Why
from runtime.replay.events import EventKind, Flag, MarketSide
from runtime.replay.grids import Listing
from runtime.replay.rules import Rules

SKIP = Rules(skip=True)
X = Listing("X", "0.01", "0.001")
TS = [10**18 + n for n in range(4)]
PRICES = [Decimal("1.25"), Decimal("-0.01"), Decimal("0"), Decimal("123456789.01")]
QTYS = ["0.001", "1", "2.5", "1000000.125"]


def parquet(folder: Path, **columns: object) -> Path:
    path = folder / "t.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=3)
    return path


@pytest.mark.parametrize(
    "price",
    [
        pa.array(PRICES, pa.decimal128(38, 2)),
        pa.array(PRICES, pa.decimal128(20, 7)),
        pa.array([str(one) for one in PRICES]),
        pa.array([str(one) for one in PRICES], pa.large_string()),
        pa.array([str(one) for one in PRICES]).dictionary_encode(),
        pa.array([float(one) for one in PRICES]),
    ],
    ids=["decimal", "long decimal", "text", "large text", "dictionary", "double"],
)
@pytest.mark.parametrize(
    "ts",
    [
        pa.array(TS, pa.int64()),
        pa.array(TS, pa.uint64()),
        pa.array(TS, pa.timestamp("ns")),
        pa.array(TS, pa.timestamp("ns", "America/New_York")),
        pa.array([str(one) for one in TS]),
    ],
    ids=["int", "unsigned", "time", "zoned time", "text"],
)
def test_columns_of_all_types(tmp_path: Path, price: pa.Array, ts: pa.Array) -> None:
    path = parquet(tmp_path, timestamp=ts, price=price, size=QTYS, side=["B", "sell", "", None], trade_id=[1, 2, 3, 4])
    events, tally, _ = read(path, X, prices="signed")
    assert events["ts"].tolist() == TS
    assert events["price"].tolist() == [125, -1, 0, 12_345_678_901]
    assert events["qty"].tolist() == [1, 1000, 2500, 1_000_000_125]
    assert events["side"].tolist() == [MarketSide.BUY, MarketSide.SELL, MarketSide.NONE, MarketSide.NONE]
    assert (events["row"].tolist(), tally.used) == ([1, 2, 3, 4], 4)


@pytest.mark.parametrize(("unit", "factor"), [("s", 10**9), ("ms", 10**6), ("us", 10**3)])
def test_times_of_other_units(tmp_path: Path, unit: str, factor: int) -> None:
    path = parquet(tmp_path, ts=pa.array([5, 2**62 // factor], pa.timestamp(unit)), price=[1, 2], qty=[1, 2])
    assert read(path, X)[0]["ts"].tolist() == [5 * factor, 2**62 // factor * factor]


@pytest.mark.parametrize(
    ("price", "why"),
    [
        (pa.array([1.0, None]), Why.EMPTY),
        (pa.array([1.0, float("nan")]), Why.NOT_FINITE),
        (pa.array([1.0, float("inf")]), Why.NOT_FINITE),
        (pa.array([1.0, 0.1 + 0.2]), Why.OFF_GRID),
        (pa.array([1.0, 1e30]), Why.OUT_OF_RANGE),
        (pa.array([Decimal("1.000"), Decimal("0.005")]), Why.OFF_GRID),
        (pa.array([Decimal("1"), Decimal(10) ** 30], pa.decimal128(38, 2)), Why.OUT_OF_RANGE),
        (pa.array(["1", "x"]), Why.UNREADABLE),
        (pa.array(["1", None]), Why.EMPTY),
        (pa.array([1, 2**64 - 1], pa.uint64()), Why.OUT_OF_RANGE),
    ],
)
def test_bad_values(tmp_path: Path, price: pa.Array, why: Why) -> None:
    path = parquet(tmp_path, ts_ns=[1, 2], price=price, qty=[1, 1])
    with pytest.raises(BadData, match="row 2, column `price`"):
        read(path, X)
    _, tally, bad = read(path, X, rules=SKIP)
    assert [(one.row, one.column, one.why) for one in bad] == [(2, "price", why)]
    assert tally.used == 1


def test_no_rows_and_no_file(tmp_path: Path) -> None:
    none = pa.array([], pa.int64())
    assert read(parquet(tmp_path, ts_ns=none, price=none, qty=none), X)[1].rows == 0
    path = parquet(tmp_path, ts_ns=[1], price=[1], qty=[1])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(BadSource, match="the file can't be read"):
        read(path, X)


def test_real_trades_as_parquet(tmp_path: Path) -> None:
    import pyarrow.csv

    source = DATA / "btcusdt_spot_20240808_trades.csv"
    kinds = {"price": pa.string(), "qty": pa.float64()}
    table = pyarrow.csv.read_csv(source, convert_options=pyarrow.csv.ConvertOptions(column_types=kinds))
    pq.write_table(table, tmp_path / "t.parquet")
    events, want = read(tmp_path / "t.parquet", BTC)[0], read(source, BTC)[0]
    names = [name for name in events.dtype.names or () if name != "row"]
    assert np.array_equal(events[names], want[names])


LOBSTER = """\
34200.004241176,1,16113575,18,5853300,1
34200.025551909,4,16113575,8,5853300,1
34200.2,2,16113575,4,5853300,1
34200.3,3,16113575,6,5853300,1
34200.4,5,0,100,5853400,-1
34201,6,-1,500,5850000,-1
34202,7,0,0,-1,-1
34203,7,0,0,0,-1
34204,7,0,0,1,-1
"""


def test_lobster(tmp_path: Path) -> None:
    path = tmp_path / "AAPL_2012-06-21_34200000_57600000_message_10.csv"
    path.write_text(LOBSTER)
    events, tally, _ = read(path, Listing("AAPL", "0.01", "1"))
    midnight = int(datetime(2012, 6, 21, 4, tzinfo=UTC).timestamp()) * 10**9
    assert (events["ts"] - midnight).tolist()[:3] == [34200004241176, 34200025551909, 34200200000000]
    last, order = Flag.LAST, 16113575
    assert events[["kind", "side", "flags", "level", "price", "qty", "id"]].tolist() == [
        (EventKind.ADD, MarketSide.BUY, last, 0, 58533, 18, order),
        (EventKind.EXECUTE, MarketSide.NONE, last, 0, 58533, 8, order),
        (EventKind.CANCEL, MarketSide.NONE, last, 0, 58533, 4, order),
        (EventKind.DELETE, MarketSide.NONE, last, 0, 58533, 6, order),
        (EventKind.TRADE, MarketSide.BUY, last | Flag.HIDDEN, 0, 58534, 100, 0),
        (EventKind.TRADE, MarketSide.NONE, last | Flag.AUCTION, 0, 58500, 500, 0),
        (EventKind.HALT, MarketSide.NONE, last, ord("H"), 0, 0, 0),
        (EventKind.HALT, MarketSide.NONE, last, ord("Q"), 0, 0, 0),
        (EventKind.STATUS, MarketSide.NONE, last, ord("T"), 0, 0, 0),
    ]
    assert tally.used == 9


@pytest.mark.parametrize(
    ("line", "column", "why"),
    [
        ("34200,8,1,1,100,1", "type", Why.UNREADABLE),
        ("34200,1,1,1,100,0", "direction", Why.UNREADABLE),
        ("34200,1,1,-1,100,1", "size", Why.NEGATIVE),
        ("34200,1,1,1,101,1", "price", Why.OFF_GRID),
        ("34200,1,1,1,x,1", "price", Why.UNREADABLE),
        ("34200,7,0,0,5,-1", "price", Why.UNREADABLE),
        ("34200,1,1,1,100", "", Why.FIELDS),
    ],
)
def test_bad_lobster_messages(tmp_path: Path, line: str, column: str, why: Why) -> None:
    path = tmp_path / "AAPL_2012-06-21_34200000_57600000_message_10.csv"
    path.write_text(f"{line}\n34201,3,1,1,100,1\n")
    events, tally, bad = read(path, Listing("AAPL", "0.01", "1"), rules=SKIP)
    assert [(one.row, one.column, one.why) for one in bad] == [(1, column, why)]
    assert sorted(events["kind"].tolist()) == [EventKind.DELETE, EventKind.GAP] and tally.used == 1
