"""Each row of QuantDSL's table of bad input, with a real file made bad, through the command: what stops, what is skipped, what is told."""

import gzip
import json
import random
import struct
import zlib
from collections import Counter
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.quantdsl.golden.programs import DATA
from tests.quantdsl.run.conftest import Zyntax

TRADES = (DATA / "btcusdt_spot_20240808_trades.csv").read_text().splitlines()[:2001]
WATCH = """
currency USDT { scale 8 }
instrument BTCUSDT : USDT { tick 0.01  lot 0.00001 }
risk Desk for BTCUSDT { max_position 10_000lots  MORE }
strategy Watch on BTCUSDT {
  risk Desk
  state seen = 0
  state gaps = 0
  on trade(t) { seen += 1; ON_TRADE }
  on book(b) { ON_BOOK }
  on gap(g) { gaps += 1; log_ring(gaps) }
  on stop { log_ring(seen) }
}
"""


def program(folder: Path, on_trade: str = "", on_book: str = "", risk: str = "") -> Path:
    path = folder / "watch.qdsl"
    path.write_text(WATCH.replace("ON_TRADE", on_trade).replace("ON_BOOK", on_book).replace("MORE", risk))
    return path


def small(folder: Path) -> Path:
    """The trades as they are."""
    path = folder / "trades.csv"
    path.write_text("\n".join(TRADES) + "\n")
    return path


def changed(folder: Path, row: int, column: str, text: str) -> Path:
    """The trades with one row's field another."""
    lines = list(TRADES)
    fields = lines[row - 1].split(",")
    fields[lines[0].split(",").index(column)] = text
    lines[row - 1] = ",".join(fields)
    path = folder / "trades.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / "summary.json").read_text(), parse_float=Decimal)
    return found


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    table = parquet.read_table(folder / "out" / f"{name}.parquet")
    return table.drop_columns(["ts"] if "ts" in table.column_names else []).to_pylist()


BAD = {
    "empty": ("price", "", "the field is empty"),
    "unreadable": ("price", "61,8", None),
    "text": ("qty", "lots", "`lots` can't be read"),
    "nan": ("price", "nan", "`nan` is not finite"),
    "infinite": ("qty", "-inf", "`-inf` is not finite"),
    "negative": ("qty", "-0.5", "`-0.5` is negative"),
    "off the tick": ("price", "61837.635", "`61837.635` is off the instrument's grid (the tick of BTCUSDT is 0.01)"),
    "off the lot": ("qty", "0.000001", "`0.000001` is off the instrument's grid (the lot of BTCUSDT is 0.00001)"),
    "out of range": ("price", "1e30", "`1e30` is out of range"),
    "no time": ("ts_ns", "yesterday", "`yesterday` can't be read"),
    "earlier": ("ts_ns", "1723161250000000000", "`1723161250000000000` is earlier than the row before"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_field_stops_with_its_place_or_is_skipped_and_listed(name: str, zyntax: Zyntax, tmp_path: Path) -> None:
    column, text, words = BAD[name]
    data = changed(tmp_path, 1234, column, text)
    done = zyntax("run", program(tmp_path), "--data", data, "--out", "out")
    assert (done.code, done.out) == (3, "")
    expected = f"column `{column}`: {words}" if words else "has another number of fields than the header"
    assert done.err.startswith(f"error[ZYN0807]: {data}: row 1234") and expected in done.err and "--on-bad skip" in done.err
    assert summary(tmp_path)["complete"] is False

    done = zyntax("run", program(tmp_path), "--data", data, "--out", "out", "--on-bad", "skip")
    assert (done.code, done.err) == (0, "")
    found = summary(tmp_path)
    assert (found["complete"], found["rows_in"], found["rows_used"], found["rows_bad"]) == (True, 2000, 1999, 1)
    (bad,) = rows(tmp_path, "bad_rows")
    assert (bad["file"], bad["row"]) == (str(data), 1234)
    assert rows(tmp_path, "log")[-1]["text"] == "1999"


def test_rows_in_another_order_are_sorted_only_when_asked(zyntax: Zyntax, tmp_path: Path) -> None:
    lines = list(TRADES)
    assert lines[100].split(",")[0] < lines[101].split(",")[0]
    lines[100], lines[101] = lines[101], lines[100]
    data = tmp_path / "trades.csv"
    data.write_text("\n".join(lines) + "\n")
    assert zyntax("run", program(tmp_path), "--data", data).code == 3
    sorted_run = zyntax("run", program(tmp_path), "--data", data, "--reorder", "5s", "--out", "out")
    assert (sorted_run.code, summary(tmp_path)["rows_used"]) == (0, 2000)


def stops_or_counts(zyntax: Zyntax, folder: Path, message: str, reason: str, *data: Path, on_trade: str = "") -> dict[str, Any]:
    """The data stops the run, whose outputs so far are partial, and is counted once where that is skipped: the summary then."""
    watch = program(folder, on_trade)
    done = zyntax("run", watch, "--data", *data, "--out", "out")
    hint = "hint: `--on-bad skip` goes on without such rows and lists them in bad_rows.parquet\n"
    if reason in ("truncated", "repeated_file"):
        hint = "hint: `--on-bad skip` uses what is whole, each file once, and counts the rest in summary.json\n"
    assert (done.code, done.out, done.err) == (3, "", f"error[ZYN0807]: {message}\n{hint}")
    partial = summary(folder)
    assert (partial["complete"], partial["partial"], partial["rows"]["bad_rows"]) == (False, message, 1)
    before = rows(folder, "fills")
    (stop,) = rows(folder, "bad_rows")
    assert parquet.read_table(folder / "out" / "fills.parquet").schema.metadata[b"partial"] == b"true"
    done = zyntax("run", watch, "--data", *data, "--out", "out", "--on-bad", "skip")
    assert (done.code, done.err) == (0, "")
    found = summary(folder)
    assert found["complete"] is True and found["rows_bad_by_reason"] == {reason: found["rows_bad"]}
    assert found["rows_in"] == found["rows_used"] + found["rows_bad"] and rows(folder, "bad_rows")[0] == stop
    assert rows(folder, "fills")[: len(before)] == before
    return found


BUY_ONCE = "if seen == 3 { _ = buy(1lots) }"


def test_a_trade_that_comes_again_stops_and_the_first_one_stands(zyntax: Zyntax, tmp_path: Path) -> None:
    again = TRADES[40].split(",")[1]
    data = changed(tmp_path, 50, "trade_id", again)
    message = f"{data}: row 50, column `trade_id`: `{again}` was there before"
    assert stops_or_counts(zyntax, tmp_path, message, "repeated_trade", data, on_trade=BUY_ONCE)["rows_used"] == 1999
    assert [(row["row"], row["why"]) for row in rows(tmp_path, "bad_rows")] == [(50, "was there before")]
    assert len(rows(tmp_path, "fills")) == 1, "what came before the stop is replayed"


def test_a_file_that_is_given_twice_counts_once(zyntax: Zyntax, tmp_path: Path) -> None:
    data, other = small(tmp_path), tmp_path / "other.csv"
    message = f"{data}: the file was given before"
    assert stops_or_counts(zyntax, tmp_path, message, "repeated_file", data, data)["rows_used"] == 2000
    other.write_bytes(data.read_bytes())
    message = f"{other}: the file was given before (as {data})"
    assert stops_or_counts(zyntax, tmp_path, message, "repeated_file", data, other)["rows_used"] == 2000


def test_trades_that_two_files_have_count_once(zyntax: Zyntax, tmp_path: Path) -> None:
    data, other = small(tmp_path), tmp_path / "other.csv"
    other.write_text("\n".join([TRADES[0], *TRADES[1500:]]) + "\n")
    message = f"{other}: row 2, column `trade_id`: `{TRADES[1500].split(',')[1]}` was there before (in {data})"
    found = stops_or_counts(zyntax, tmp_path, message, "repeated_trade", data, other)
    assert (found["rows_used"], found["rows_bad"]) == (2000, 501)


def zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, codec="zstd", asbytes=True))


TORN = {
    "text": ("torn.csv", lambda text: text[:-9], None),
    "gzip": ("torn.csv.gz", lambda text: gzip.compress(text, mtime=0)[:-40], "the gzip data ends too early"),
    "zstd": ("torn.csv.zst", lambda text: zstd(text)[:-40], "the zstd data ends too early"),
}


@pytest.mark.parametrize("name", TORN)
def test_a_file_that_breaks_off_stops_behind_what_is_whole(name: str, zyntax: Zyntax, tmp_path: Path) -> None:
    text = (DATA / "btcusdt_spot_20240808_trades.csv").read_bytes()
    file, torn, why = TORN[name]
    data = tmp_path / file
    data.write_bytes(torn(text))
    whole, _, left = unpacked(data).rpartition(b"\n")
    where = f"the file ends at byte {len(whole) + 1 + len(left)}"
    if left:
        message = f"{data}: row {whole.count(10) + 2}: `{left.decode()}` breaks off ({where})"
    else:
        message = f"{data}: byte {len(whole) + 1}: the file breaks off ({why})"
    found = stops_or_counts(zyntax, tmp_path, message, "truncated", data, on_trade=BUY_ONCE)
    assert (found["rows_used"], found["rows_bad"], found["gaps"]) == (whole.count(10), 1, {"truncated": 1})
    assert len(rows(tmp_path, "fills")) == 1, "what came before the stop is replayed"


def unpacked(path: Path) -> bytes:
    """What a plain reader gets out of a file that breaks off."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        return zlib.decompressobj(wbits=31).decompress(data)
    if path.suffix != ".zst":
        return data
    found, stream = b"", pa.CompressedInputStream(pa.BufferReader(data), "zstd")
    with suppress(OSError):
        while block := stream.read(1):
            found += block
    return found


@pytest.mark.parametrize("name", ["noise.itch50", "noise.csv.gz", "noise.csv.zst", "noise.csv", "noise.jsonl", "noise.dbn", "noise.parquet"])
def test_noise_stops(name: str, zyntax: Zyntax, tmp_path: Path) -> None:
    data = tmp_path / f"20240808_{name}"
    for seed in range(5):
        data.write_bytes(random.Random(seed).randbytes(5000))
        done = zyntax("run", program(tmp_path), "--data", data)
        assert done.code == 3 and done.out == "" and done.err.startswith(f"error[ZYN0807]: {data}: ")


def test_an_empty_file_breaks_off(zyntax: Zyntax, tmp_path: Path) -> None:
    data = tmp_path / "empty.jsonl"
    data.write_bytes(b"")
    found = stops_or_counts(zyntax, tmp_path, f"{data}: byte 0: the file breaks off (it is empty)", "truncated", data)
    assert (found["rows_in"], found["rows_used"]) == (1, 0)


def test_packed_data_that_is_none(zyntax: Zyntax, tmp_path: Path) -> None:
    data = tmp_path / "trades.csv.gz"
    data.write_text("\n".join(TRADES))
    done = zyntax("run", program(tmp_path), "--data", data)
    assert (done.code, done.err) == (3, f"error[ZYN0807]: {data}: this is no gzip data\n")


def test_an_order_whose_id_came_before_is_rejected(zyntax: Zyntax, tmp_path: Path) -> None:
    again = "if seen < 4 { _ = buy(1lots, client_id = 7) }"
    data = small(tmp_path)
    done = zyntax("run", program(tmp_path, again, risk="duplicate_id reject"), "--data", data, "--out", "out")
    assert done.code == 0
    found = summary(tmp_path)
    assert (found["submitted"], found["filled"], found["rejects_by_rule"]) == (3, 1, {"duplicate_id": 2})


LEVELS = """ts_ns,bid,bid_qty,ask,ask_qty
1723161254000000000,100.00,1,100.02,1
1723161255000000000,100.03,1,100.02,1
1723161256000000000,100.01,1,100.03,1
"""


def test_a_book_that_crosses_is_refused_and_counted(zyntax: Zyntax, tmp_path: Path) -> None:
    data = tmp_path / "quotes.csv"
    data.write_text(LEVELS)
    buys = program(tmp_path, on_book="_ = buy(1lots, limit = b.bid(0)?, tif = GTC)")
    done = zyntax("run", buys, "--data", data, "--out", "out")
    found = summary(tmp_path)
    assert (done.code, found["books_refused"], found["submitted"]) == (0, 1, 2)
    assert (found["rows_in"], found["rows_used"], found["rows_bad_by_reason"]) == (3, 2, {"crossed": 1})
    (bad,) = rows(tmp_path, "bad_rows")
    assert (bad["file"], bad["row"], bad["why"]) == (str(data), 3, "makes bids meet asks")
    done = zyntax("run", buys, "--data", data, "--out", "out", "--on-cross", "trim")
    found = summary(tmp_path)
    assert (found["rows_bad_by_reason"], rows(tmp_path, "bad_rows")) == ({}, [])
    assert (done.code, found["books_refused"], found["submitted"]) == (0, 1, 2)
    assert [row["limit"] for row in rows(tmp_path, "orders")] == [Decimal("100.00"), Decimal("100.01")]


def test_a_file_that_breaks_off_is_used_as_far_as_it_is_whole(zyntax: Zyntax, tmp_path: Path) -> None:
    packed = (DATA / "btcusdt_spot_20240808.jsonl.gz").read_bytes()
    data = tmp_path / "torn.jsonl.gz"
    data.write_bytes(packed[:60_000])
    done = zyntax("run", program(tmp_path), "--data", data, "--on-bad", "skip", "--out", "out")
    assert done.code == 0
    found = summary(tmp_path)
    assert found["complete"] is True and found["rows_used"] > 500
    notes = rows(tmp_path, "log")
    assert int(notes[-2]["text"]) >= 1, "on gap ran"


def test_a_gap_in_a_sequence_makes_the_book_suspect(zyntax: Zyntax, tmp_path: Path) -> None:
    lines = gzip.decompress((DATA / "btcusdt_spot_20240808.jsonl.gz").read_bytes()).decode().splitlines()[:3000]
    updates = [number for number, line in enumerate(lines) if '"depthUpdate"' in line]
    whole, torn = tmp_path / "whole.jsonl", tmp_path / "torn.jsonl"
    whole.write_text("\n".join(lines) + "\n")
    del lines[updates[len(updates) // 2]]
    torn.write_text("\n".join(lines) + "\n")
    gaps = []
    for data in (whole, torn):
        assert zyntax("run", program(tmp_path), "--data", data, "--on-bad", "skip", "--out", "out").code == 0
        gaps.append(len(rows(tmp_path, "log")) - 1)
    assert gaps[1] == gaps[0] + 1


def test_unknown_orders_of_a_book_are_gaps(zyntax: Zyntax, tmp_path: Path) -> None:
    path = tmp_path / "alc.qdsl"
    path.write_text(
        "currency USD { scale 4 }\ninstrument ALC : USD { tick 0.0001 lot 1 }\nstrategy S on ALC { state gaps = 0\n"
        "on gap(g) { gaps += 1 }\non stop { log_ring(gaps) } }\n"
    )
    done = zyntax("run", path, "--data", DATA / "sim_20101224.itch50.gz", "--out", "out")
    assert done.code == 0
    assert int(rows(tmp_path, "log")[-1]["text"]) > 0


def plain_counts(symbol: bytes) -> tuple[int, dict[str, int]]:
    """Printed executions of known orders and other trades, and events of unknown orders by kind, by a reader of its own."""
    data, at = gzip.decompress((DATA / "sim_20101224.itch50.gz").read_bytes()), 0
    locate, orders, trades, unknown = -1, dict[int, int](), 0, Counter[str]()
    kinds = {"E": "execute", "X": "cancel", "D": "delete", "U": "replace"}
    while at < len(data):
        (length,) = struct.unpack_from(">H", data, at)
        message = data[at + 2 : at + 2 + length]
        at += 2 + length
        letter, (of,) = chr(message[0]), struct.unpack_from(">H", message, 1)
        if letter == "R" and message[11:19].strip() == symbol:
            locate = of
        if of != locate:
            continue
        if letter in "AF":
            orders[struct.unpack_from(">Q", message, 11)[0]] = struct.unpack_from(">I", message, 20)[0]
        elif letter in kinds:
            id = struct.unpack_from(">Q", message, 11)[0]
            if id not in orders:
                unknown[kinds[letter]] += 1
                continue
            trades += letter == "E"
            lost = struct.unpack_from(">I", message, 19)[0] if letter in "EX" else orders[id]
            orders[id] -= lost
            if letter == "U":
                new, qty = struct.unpack_from(">QI", message, 19)
                orders[new] = qty
            if orders[id] <= 0:
                del orders[id]
        elif letter == "P":
            trades += 1
    return trades, dict(unknown)


@pytest.mark.parametrize("symbol", ["ALC", "BOB", "CHAR"])
def test_trades_of_orders_that_were_refused_are_told(symbol: str, zyntax: Zyntax, tmp_path: Path) -> None:
    """The simulated day crosses its book again and again."""
    path = tmp_path / "s.qdsl"
    path.write_text(
        f"currency USD {{ scale 4 }}\ninstrument {symbol} : USD {{ tick 0.0001 lot 1 }}\nstrategy S on {symbol} {{ state seen = 0\n"
        "on trade(t) { seen += 1 }\non stop { log_ring(seen) } }\n"
    )
    done = zyntax("run", path, "--data", DATA / "sim_20101224.itch50.gz", "--out", "out")
    assert done.code == 0
    trades, unknown = plain_counts(symbol.encode())
    assert int(rows(tmp_path, "log")[-1]["text"]) == trades
    found = summary(tmp_path)
    assert found["unknown_orders"] == unknown and found["adds_refused"] == {"crossed": found["books_refused"]}
    assert found["rows_bad_by_reason"] == {"crossed": found["books_refused"]} and found["books_refused"] > 400
    listed = rows(tmp_path, "bad_rows")
    assert len(listed) == found["rows_bad"] and {(row["row"], row["why"]) for row in listed} == {(None, "makes bids meet asks")}
    assert "lost " in done.out and f"{sum(unknown.values())} unknown orders" in done.out


def test_overflow_in_a_handler_halts_the_strategy_and_says_where(zyntax: Zyntax, tmp_path: Path) -> None:
    overflow = "if seen == 1000 { let huge = 9_223_372_036_854_775_807 - 999 + seen; log_ring(huge) }"
    data = small(tmp_path)
    done = zyntax("run", program(tmp_path, overflow), "--data", data, "--out", "out")
    assert done.code == 1
    assert done.err.startswith("error[ZYN0806]: 9223372036854774808 + 1000 does not fit in i64\n --> watch.qdsl:9:")
    assert f"in `on trade`, at {data}: row 1001, " in done.err
    assert "note: `state seen` is 1000" in done.err
    found = summary(tmp_path)
    assert (found["complete"], found["rows_used"], found["trading"]) == (True, 2000, "killed")
    assert found["halted"] == "9223372036854774808 + 1000 does not fit in i64"
    assert (tmp_path / "out" / "report.html").is_file()


@pytest.mark.parametrize("text", ["", "price,qty\n1,1\n", "\0\1\2"])
def test_a_file_that_is_no_market_data(text: str, zyntax: Zyntax, tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    data.write_text(text)
    done = zyntax("run", program(tmp_path), "--data", data)
    assert done.code == 3 and done.err.startswith(f"error[ZYN0807]: {data}: ") and "Traceback" not in done.err
