"""The table of bad input, row by row, on real files made bad; what no row may change: rows in = used + bad + left out."""

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
from feeds import BTC, DATA, FINE, read, stopped
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.diagnostics import ZyntaxError, render
from compiler.source import Sources
from quantdsl.data_faults import told
from runtime.replay import trade_ids
from runtime.replay.bad_rows import BadData, Why
from runtime.replay.batches import Batch, DataSource
from runtime.replay.content import Content
from runtime.replay.events import EVENT, EventKind, Flag
from runtime.replay.grids import Listing
from runtime.replay.rules import Rules, Tally, ruled
from zyntax.report import exit_code

LINES = (DATA / "btcusdt_spot_20240808_trades.csv").read_text().splitlines(keepends=True)[:1000]
SKIP = Rules(skip=True)


def spoilt(folder: Path, row: int, old: str, new: str) -> Path:
    """The real trades with something else in one of their rows."""
    lines = LINES.copy()
    lines[row - 1], count = re.subn(old, new, lines[row - 1], count=1)
    assert count == 1
    path = folder / "trades.csv"
    path.write_text("".join(lines))
    return path


# 1723161273317624560,3735683758,61852.47000000,0.00020000,B or the like stands in each row
FAULTS = [
    (r"\d+\.\d+,", "12.3x,", "price", "`12.3x` can't be read", Why.UNREADABLE),
    (r"\d+\.\d+,", ",", "price", "the field is empty", Why.EMPTY),
    (r"\d+\.\d+,", "nan,", "price", "`nan` is not finite", Why.NOT_FINITE),
    (r"\d+\.\d+,", "-inf,", "price", "`-inf` is not finite", Why.NOT_FINITE),
    (r"(\d+\.\d+),", r"61852.475,", "price", "`61852.475` is off the instrument's grid (the tick of BTCUSDT is 0.01)", Why.OFF_GRID),
    (r"(\d+\.\d+),([BS])", r"-0.5,\2", "qty", "`-0.5` is negative", Why.NEGATIVE),
    (r"(\d+\.\d+),([BS])", r"0.000001,\2", "qty", "`0.000001` is off the instrument's grid (the lot of BTCUSDT is 0.00001)", Why.OFF_GRID),
    (r"(\d+\.\d+),", "99999999999999999999,", "price", "`99999999999999999999` is out of range", Why.OUT_OF_RANGE),
    (r"(\d+\.\d+),", "46116860184273879.04,", "price", "`46116860184273879.04` is out of range", Why.OUT_OF_RANGE),  # 2^62 ticks
    (r"[BS]$", "Q", "side", "`Q` can't be read", Why.UNREADABLE),
    (r"^\d+", "2024-08-08", "ts_ns", "`2024-08-08` can't be read", Why.UNREADABLE),
]


@pytest.mark.parametrize(("old", "new", "column", "says", "why"), FAULTS)
def test_bad_fields_stop_the_run_or_are_listed(tmp_path: Path, old: str, new: str, column: str, says: str, why: Why) -> None:
    path = spoilt(tmp_path, 500, old, new)
    with pytest.raises(ZyntaxError) as refused, told():
        read(path, BTC)
    (diagnostic,) = refused.value.diagnostics
    assert diagnostic.message == f"{path}: row 500, column `{column}`: {says}"
    assert exit_code(refused.value.diagnostics) == 3
    events, tally, bad = read(path, BTC, rules=SKIP)
    assert [(one.row, one.column, one.why) for one in bad] == [(500, column, why)]
    assert (tally.rows, tally.used) == (999, 998)
    assert events["row"].tolist() == [row for row in range(2, 1001) if row != 500]


def test_the_whole_message(tmp_path: Path) -> None:
    path = spoilt(tmp_path, 7, r"\d+\.\d+,", "12.3x,")
    with pytest.raises(ZyntaxError) as refused, told():
        read(path, BTC)
    assert render(refused.value.diagnostics[0], Sources()) == (
        f"error[ZYN0807]: {path}: row 7, column `price`: `12.3x` can't be read\n"
        "hint: `--on-bad skip` goes on without such rows and lists them in bad_rows.parquet"
    )


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ZyntaxError) as refused, told():
        read(tmp_path / "none.csv", BTC)
    assert render(refused.value.diagnostics[0], Sources()) == f"error[ZYN0807]: {tmp_path}/none.csv: there is no such file"
    with pytest.raises(ZyntaxError) as refused, told():
        read(tmp_path / "x.tick", BTC)
    assert "no data format has this ending" in refused.value.diagnostics[0].message


def test_a_row_with_too_many_fields(tmp_path: Path) -> None:
    path = spoilt(tmp_path, 500, "$", ",more")
    with pytest.raises(BadData, match=r"row 500: .* has another number of fields than the header"):
        read(path, BTC)
    assert [(one.row, one.why) for one in read(path, BTC, rules=SKIP)[2]] == [(500, Why.FIELDS)]


def test_the_first_bad_row_stops(tmp_path: Path) -> None:
    lines = LINES.copy()
    lines[300] = lines[300].replace(",", ";")
    lines[200] = lines[100]  # earlier, and a trade that was there before
    lines[250] = re.sub(r"^\d+,\d+", "1723161254000000000,1", lines[250])
    path = tmp_path / "t.csv"
    path.write_text("".join(lines))
    events, stop, feed = stopped(DataSource(path, 0, (BTC,)))
    assert str(stop) == f"{path}: row 201, column `trade_id`: `{lines[100].split(',')[1]}` was there before"
    assert events["row"].tolist() == list(range(2, 201))
    assert feed.found_bad() == [stop.row] and feed.tallies[0].reasons == {Why.REPEATED_TRADE: 1}
    lines[200] = LINES[200]
    path.write_text("".join(lines))
    events, stop, _ = stopped(DataSource(path, 0, (BTC,)))
    assert str(stop) == f"{path}: row 251, column `ts_ns`: `1723161254000000000` is earlier than the row before"
    assert events["row"].tolist() == list(range(2, 251))
    lines[200] = lines[100]
    path.write_text("".join(lines))
    _, tally, bad = read(path, BTC, rules=SKIP)
    assert [(one.row, one.why) for one in bad] == [(201, Why.REPEATED_TRADE), (251, Why.EARLIER), (301, Why.FIELDS)]
    assert (tally.rows, tally.used) == (999, 996)


def test_duplicate_trades_are_refused_and_the_first_stands(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("".join(LINES[:501] + LINES[401:]))
    events, tally, bad = read(path, BTC, rules=SKIP)
    assert {one.why for one in bad} == {Why.REPEATED_TRADE} and len(bad) == 100
    assert [one.text for one in bad] == [line.split(",")[1] for line in LINES[401:501]]
    assert tally.used == 999 and len(set(events["id"].tolist())) == 999


def stream(ts: list[int], ids: list[int] | None = None, kind: EventKind = EventKind.TRADE) -> Batch:
    events = np.zeros(len(ts), EVENT)
    events["ts"], events["row"], events["kind"] = ts, np.arange(1, len(ts) + 1), kind
    if ids is not None:
        events["id"] = ids
    return Batch(events, len(ts))


def apply(batches: list[Batch], rules: Rules) -> tuple[list[tuple[int, int]], list[int], Tally]:
    """(ts, row) of what is left, rows that were refused, and the tally."""
    source, tally, left, refused = DataSource(Path("t.csv"), 0, (BTC,)), Tally(), [], []
    row = 0
    for batch in batches:
        batch.events["row"] += row
        row += batch.rows
    for batch in ruled(iter(batches), Content(Path("t.csv")), source, rules, tally):
        left += [(int(ts), int(row)) for ts, row in batch.events[["ts", "row"]].tolist()]
        refused += [bad.row for bad in batch.bad]
    return left, refused, tally


TIMES = st.lists(st.lists(st.integers(0, 30), max_size=6), max_size=5)


@settings(max_examples=200, deadline=None)
@given(TIMES, st.integers(0, 12))
def test_order_against_a_plain_model(times: list[list[int]], window: int) -> None:
    kept, late, latest = [], [], -(2**63)
    for row, ts in enumerate([one for part in times for one in part], 1):
        if ts < latest - window:
            late.append(row)
        else:
            kept.append((ts, row))
        latest = max(latest, ts)
    left, refused, tally = apply([stream(part) for part in times], Rules(reorder=window, skip=True))
    assert left == sorted(kept)
    assert refused == late
    assert tally.rows == tally.used + tally.bad


@settings(max_examples=200, deadline=None)
@given(TIMES)
def test_duplicates_against_a_set(ids: list[list[int]]) -> None:
    seen: set[int] = set()
    again = []
    for row, one in enumerate([one for part in ids for one in part], 1):
        if one and one in seen:
            again.append(row)
        seen.add(one)
    _, refused, _ = apply([stream([5] * len(part), part) for part in ids], SKIP)
    assert refused == again


def test_what_is_remembered_of_trades_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trade_ids, "REMEMBERED", 3)
    assert apply([stream([1], [n]) for n in (9, 5, 16, 27, 5)], SKIP)[1] == [5]
    assert apply([stream([1], [n]) for n in (9, 5, 16, 27, 38, 5)], SKIP)[1] == []
    # consecutive ids count once, however many
    assert apply([stream([1] * 9, list(range(9 * n, 9 * n + 9))) for n in range(3)] + [stream([1], [1])], SKIP)[1] == [28]


@settings(max_examples=100, deadline=None)
@given(TIMES, st.integers(0, 30), st.integers(0, 31), st.sampled_from((EventKind.TRADE, EventKind.QUOTE)))
def test_the_window(times: list[list[int]], begin: int, end: int, kind: EventKind) -> None:
    ordered = sorted(one for part in times for one in part)
    parts = [stream(part.tolist(), kind=kind) for part in np.array_split(ordered, 3)] if ordered else []
    left, refused, tally = apply(parts, Rules(begin=begin, end=end))
    first = begin if kind is EventKind.TRADE else 0
    assert [ts for ts, _ in left] == [ts for ts in ordered if first <= ts < end]
    assert not refused and tally.used == len(left)


def test_books_are_warmed_up_before_the_window() -> None:
    tally = Tally()
    source = DataSource(Path("t.csv"), 0, (BTC,))
    (events, _) = (
        b.events for b in ruled(iter([stream([1, 5], kind=EventKind.QUOTE)]), Content(source.path), source, Rules(begin=3), tally)
    )
    assert events["flags"].tolist() == [Flag.WARM_UP, 0]


@pytest.mark.parametrize("cut", [3, 40_000, 41_017, 41_018])
def test_plain_files_that_break_off(tmp_path: Path, cut: int) -> None:
    raw = "".join(LINES).encode()
    head = len(LINES[0])
    path = tmp_path / "t.csv"
    path.write_bytes(raw[: head + cut])
    before, stop, _ = stopped(DataSource(path, 0, (BTC,)))
    events, tally, bad = read(path, BTC, rules=SKIP)
    assert bad == [stop.row] and stop.row.message.endswith(f"breaks off (the file ends at byte {head + cut})")
    assert np.array_equal(before, events[:-1])
    whole = raw[head : head + cut].count(b"\n")
    assert [one.why for one in bad] == [Why.TRUNCATED]
    assert (tally.rows, tally.used) == (whole + 1, whole)
    gap = events[-1]
    assert (gap["kind"], gap["flags"], gap["id"]) == (EventKind.GAP, Flag.LAST | Flag.SUSPECT | Flag.TRUNCATED, head + cut)
    assert (events["kind"][:-1] == EventKind.TRADE).all() and events.size == whole + 1


@pytest.mark.parametrize("name", ["btcusdt_spot_20240808.jsonl.gz", "sim_20101224.itch50.gz"])
@pytest.mark.parametrize("part", [0.3, 0.9])
def test_packed_files_that_break_off(tmp_path: Path, name: str, part: float) -> None:
    raw = (DATA / name).read_bytes()
    path = tmp_path / name
    path.write_bytes(raw[: int(len(raw) * part)])
    names = [Listing(one, "0.0001", "1") for one in ("ALC", "BOB", "CHAR")] if "itch" in name else [FINE]
    before, stop, _ = stopped(DataSource(path, 0, tuple(names)))
    events, tally, bad = read(path, *names, rules=SKIP)
    whole, _, _ = read(DATA / name, *names)
    assert bad == [stop.row] and tally.reasons == {Why.TRUNCATED: 1} and tally.gaps["truncated"] == 1
    assert np.array_equal(before, events[:-1])
    assert (events["kind"][-1], int(events["flags"][-1]) & Flag.TRUNCATED) == (EventKind.GAP, Flag.TRUNCATED)
    assert 0.2 * part < (events.size - 1) / whole.size < 1
    assert events[:-1].tobytes() == whole[: events.size - 1].tobytes()


def test_gzip_data_that_is_damaged(tmp_path: Path) -> None:
    raw = bytearray(gzip.compress("".join(LINES).encode()))
    raw[len(raw) // 2 : len(raw) // 2 + 200] = bytes(200)
    path = tmp_path / "t.csv.gz"
    path.write_bytes(raw)
    events, tally, bad = read(path, BTC, rules=SKIP)
    assert events["kind"][-1] == EventKind.GAP and tally.used < 999 and bad


def test_a_lost_row_of_a_book_leaves_a_gap_in_its_place(tmp_path: Path) -> None:
    events, tally, bad = read(DATA / "btcusdt_spot_20240808.jsonl.gz", BTC, rules=SKIP)
    assert [(one.row, one.column, one.text) for one in bad] == [
        (1886, "qty", "25.42618900"),
        (34306, "qty", "244.56630400"),
        (38887, "qty", "93.75658700"),
    ]
    gaps = events[(events["kind"] == EventKind.GAP) & (events["flags"] & Flag.DAMAGED != 0)]
    assert gaps["row"].tolist() == [1886, 34306, 38887]
    assert (gaps["flags"] & Flag.SUSPECT != 0).all()
    assert tally.used == 41_246
