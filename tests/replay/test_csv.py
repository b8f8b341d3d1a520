"""CSV: real trades against the `csv` and `decimal` modules, headers of all kinds, and lines cut as `csv` cuts them."""

import csv
import gzip
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from feeds import BTC, DATA, read
from hypothesis import given, settings
from hypothesis import strategies as st

from quantdsl.readers.decoders import NativeDecoders
from runtime.replay.bad_rows import BadSource, Why
from runtime.replay.events import EventKind, Flag, MarketSide
from runtime.replay.grids import Listing

TRADES = DATA / "btcusdt_spot_20240808_trades.csv"
PLAIN = Listing("X", "0.01", "1")


def write(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def test_real_trades() -> None:
    events, tally, bad = read(TRADES, BTC)
    with TRADES.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert (tally.rows, tally.used, bad) == (9757, 9757, [])
    assert events["ts"].tolist() == [int(row["ts_ns"]) for row in rows]
    assert events["id"].tolist() == [int(row["trade_id"]) for row in rows]
    assert events["price"].tolist() == [int(Decimal(row["price"]) / Decimal("0.01")) for row in rows]
    assert events["qty"].tolist() == [int(Decimal(row["qty"]) / Decimal("0.00001")) for row in rows]
    assert events["side"].tolist() == [{"B": MarketSide.BUY, "S": MarketSide.SELL}[row["side"]] for row in rows]
    assert events["row"].tolist() == list(range(2, 9759))
    assert set(events["kind"].tolist()) == {EventKind.TRADE} and set(events["flags"].tolist()) == {Flag.LAST}


@pytest.mark.parametrize("packed", ["gz", "zst"])
def test_packed_files_give_the_same(tmp_path: Path, packed: str) -> None:
    raw = TRADES.read_bytes()
    path = tmp_path / f"t.csv.{packed}"
    if packed == "gz":
        # two members, as tools that append write them
        path.write_bytes(gzip.compress(raw[:100_001]) + gzip.compress(raw[100_001:]))
    else:
        import pyarrow

        path.write_bytes(pyarrow.compress(raw, codec="zstd", asbytes=True))
    events, other = read(path, BTC)[0], read(TRADES, BTC)[0]
    assert events.tobytes() == other.tobytes()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.lists(st.one_of(st.text("ab1.+- ", max_size=5), st.text('ab",\n\r', max_size=4)), min_size=1, max_size=4), max_size=6
    ),
    st.sampled_from(("\n", "\r\n")),
    st.booleans(),
)
def test_lines_are_cut_as_the_csv_module_cuts_them(rows: list[list[str]], end: str, last_end: bool) -> None:
    import io

    out = io.StringIO()
    csv.writer(out, lineterminator=end).writerows(rows)
    text = out.getvalue() if last_end else out.getvalue().removesuffix(end)
    if "\r" in text.replace("\r\n", ""):
        return  # a lone return is a line end for the csv module only
    want = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    raw = text.encode()
    found = NativeDecoders().cut(np.frombuffer(raw, np.uint8), ",", np.arange(3, dtype=np.int32), 3)
    assert found.right.tolist() == [len(row) == 3 for row in want]
    for row in np.flatnonzero(found.right):
        spans = [(int(found.starts[slot, row]), int(found.lengths[slot, row])) for slot in range(3)]
        fields = [found.text[start : start + length].tobytes().decode().replace('""', '"') for start, length in spans]
        assert fields == want[row]


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("ts_ns,price,qty", "1700000000000000000,1.25,3"),
        ("ts_us,price,size", "1700000000000000,1.25,3"),
        ("ts_ms,price,quantity", "1700000000000,1.25,3"),
        ("ts_s,price,qty", "1700000000,1.25,3"),
        ("timestamp,price,qty", "1700000000,1.25,3"),
        ("timestamp,price,qty", "1700000000000,1.25,3"),
        ("ts,price,qty", "1700000000000000,1.25,3"),
        ("ts,price,qty", "1700000000000000000,1.25,3"),
        ("TS_NS , Price,QTY", " 1700000000000000000 , 1.25 ,3"),
        ("extra;qty;price;ts_ns", "x;3;1.25;1700000000000000000"),
        ('"ts_ns","price","qty"', '"1700000000000000000","1.25","3"'),
        ("\ufefftimestamp,price,qty", "2023-11-14T22:13:20Z,1.25,3"),
        ("timestamp,price,qty", "2023-11-14 22:13:20.000000000,1.25,3"),
        ("timestamp,price,qty", "2023-11-14T23:13:20+01:00,1.25,3"),
    ],
)
def test_headers_and_times(tmp_path: Path, header: str, line: str) -> None:
    events, _, _ = read(write(tmp_path, f"{header}\n{line}\n"), PLAIN)
    assert events[["ts", "price", "qty", "side"]].tolist() == [(1_700_000_000_000_000_000, 125, 3, 0)]


def test_seconds_with_a_fraction_are_exact(tmp_path: Path) -> None:
    assert read(write(tmp_path, "ts_s,price,qty\n1723161254.087896568,1,1\n"), PLAIN)[0]["ts"].tolist() == [1723161254087896568]


def test_quotes(tmp_path: Path) -> None:
    text = "ts_ns,bid,bid_qty,ask,ask_qty\n1,1.00,5,1.01,6\n2,1.01,5,1.01,6\n3,1.02,0,1.01,6\n"
    events, _, _ = read(write(tmp_path, text), PLAIN)
    assert events[["kind", "price", "qty", "price2", "qty2"]].tolist() == [(2, 100, 5, 101, 6), (2, 101, 5, 101, 6), (2, 102, 0, 101, 6)]
    assert events["flags"].tolist() == [Flag.LAST, Flag.LAST | Flag.CROSSED, Flag.LAST]


@pytest.mark.parametrize(
    ("word", "side"), [("B", 1), ("buy", 1), ("BID", 1), ("s", 2), ("Sell", 2), ("ask", 2), ("A", 2), ("", 0)]
)
def test_sides(tmp_path: Path, word: str, side: int) -> None:
    assert read(write(tmp_path, f"ts_ns,price,qty,side\n1,1,1,{word}\n"), PLAIN)[0]["side"].tolist() == [side]


def test_mapped_names(tmp_path: Path) -> None:
    path = write(tmp_path, "when,px,sz,price\n1700000000000,2,3,9\n")
    events, _, _ = read(path, PLAIN, ts_ms="when", price="px", qty="sz")
    assert events[["ts", "price", "qty"]].tolist() == [(1_700_000_000_000_000_000, 200, 3)]


def test_no_rows(tmp_path: Path) -> None:
    events, tally, _ = read(write(tmp_path, "ts_ns,price,qty\n\n\n"), PLAIN)
    assert (events.size, tally.rows) == (0, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("1,2,3\n4,5,6\n", "no column is called `ts_ns`"),
        ("ts_ns,price,Price,qty\n1,2,3,4\n", "several columns are called `price`"),
        ("ts_ns,price\n1,2\n", "no column is called `qty`, `size`, `quantity`"),
        ("ts_ns,price,qty\r1,1,1\r", "its lines end in CR alone, and are read where they end in LF or CR LF"),
        ("ts_ns,price\r,qty\n1,1,1\n", "its lines end in CR alone, and are read where they end in LF or CR LF"),
        ("ts_ns,price,qty," + "a" * 200_000 + "\n1,1,1,1\n", "the first line is no header: field larger than field limit"),
        ("ts,price,qty\n17,1,1\n", "the unit of column `ts` can't be told from 17"),
    ],
)
def test_files_that_can_not_be_used(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadSource, match=message):
        read(write(tmp_path, text), PLAIN)


def test_files_of_several_instruments_must_say_which(tmp_path: Path) -> None:
    path, other = write(tmp_path, "ts_ns,price,qty\n1,1,1\n"), Listing("Y", "0.5", "1")
    with pytest.raises(BadSource, match="doesn't say which of X, Y"):
        read(path, PLAIN, other)
    assert read(path, PLAIN, other, bound="Y")[0][["instrument", "price"]].tolist() == [(1, 2)]
    with pytest.raises(BadSource, match="no instrument `Z`"):
        read(path, PLAIN, other, bound="Z")


def test_rows_are_numbered_as_an_editor_does(tmp_path: Path) -> None:
    path = write(tmp_path, 'ts_ns,note,price,qty\n\n1,"two\nlines",1,1\n2,,1,1\n')
    assert read(path, PLAIN)[0]["row"].tolist() == [3, 5]


def test_the_reason_of_a_row_is_its_first_bad_field(tmp_path: Path) -> None:
    from runtime.replay.rules import Rules

    path = write(tmp_path, "ts_ns,price,qty\n1,x,-1\n")
    _, _, bad = read(path, PLAIN, rules=Rules(skip=True))
    assert [(one.row, one.column, one.text, one.why) for one in bad] == [(2, "price", "x", Why.UNREADABLE)]
