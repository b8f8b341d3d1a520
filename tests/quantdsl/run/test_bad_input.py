"""Each row of QuantDSL's table of bad input, with a real file made bad, through the command: what stops, what is skipped, what is told."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

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


def test_a_trade_that_comes_again_is_refused_and_the_first_one_stands(zyntax: Zyntax, tmp_path: Path) -> None:
    data = changed(tmp_path, 50, "trade_id", TRADES[40].split(",")[1])
    done = zyntax("run", program(tmp_path), "--data", data, "--out", "out")
    assert (done.code, summary(tmp_path)["rows_bad"]) == (0, 1)
    assert [(row["row"], row["why"]) for row in rows(tmp_path, "bad_rows")] == [(50, "was there before")]


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
    done = zyntax("run", buys, "--data", data, "--out", "out", "--on-cross", "trim")
    found = summary(tmp_path)
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
    import gzip

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


def test_overflow_in_a_handler_halts_the_strategy_and_says_where(zyntax: Zyntax, tmp_path: Path) -> None:
    overflow = "if seen == 1000 { let huge = 9_223_372_036_854_775_807 - 999 + seen; log_ring(huge) }"
    data = small(tmp_path)
    done = zyntax("run", program(tmp_path, overflow), "--data", data, "--out", "out")
    assert done.code == 1
    assert done.err.startswith("error[ZYN0806]: 9223372036854774808 + 1000 doesn't fit i64\n --> watch.qdsl:9:")
    assert f"in `on trade`, at {data}: row 1001, " in done.err
    assert "note: `state seen` is 1000" in done.err
    found = summary(tmp_path)
    assert (found["complete"], found["rows_used"], found["trading"]) == (True, 2000, "killed")
    assert found["halted"] == "9223372036854774808 + 1000 doesn't fit i64"
    assert (tmp_path / "out" / "report.html").is_file()


@pytest.mark.parametrize("text", ["", "price,qty\n1,1\n", "\0\1\2"])
def test_a_file_that_is_no_market_data(text: str, zyntax: Zyntax, tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    data.write_text(text)
    done = zyntax("run", program(tmp_path), "--data", data)
    assert done.code == 3 and done.err.startswith(f"error[ZYN0807]: {data}: ") and "Traceback" not in done.err
