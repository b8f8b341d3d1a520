"""What is given twice: files under one name or several, tables, trades by their ids; and what only looks so."""

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from feeds import BTC, DATA, read, stopped
from hypothesis import given, settings
from hypothesis import strategies as st

from quantdsl.readers.decoders import NativeDecoders
from runtime.replay.bad_rows import Why
from runtime.replay.batches import Batch, DataSource
from runtime.replay.events import EVENT, EventKind, Events
from runtime.replay.feed import Feed
from runtime.replay.grids import Listing
from runtime.replay.rules import Rules
from runtime.replay.trade_ids import QUARTER, Runs, Trades

TRADES = DATA / "btcusdt_spot_20240808_trades.csv"
SKIP = Rules(skip=True)
HOUR = 3600 * 10**9


def sources(*paths: Path) -> list[DataSource]:
    return [DataSource(path, stream, (BTC,)) for stream, path in enumerate(paths)]


def link(folder: Path, how: str) -> Path:
    path = folder / "again.csv"
    match how:
        case "name":
            return TRADES
        case "path":
            return TRADES.parent / ".." / TRADES.parent.name / TRADES.name
        case "symbolic link":
            path.symlink_to(TRADES)
        case "hard link":
            shutil.copy(TRADES, folder / "first.csv")
            os.link(folder / "first.csv", path)
        case "copy":
            shutil.copy(TRADES, path)
    return path


@pytest.mark.parametrize("how", ["name", "path", "symbolic link", "hard link", "copy"])
def test_a_file_that_is_given_twice(tmp_path: Path, how: str) -> None:
    again = link(tmp_path, how)
    first = tmp_path / "first.csv" if how == "hard link" else TRADES
    events, stop, _ = stopped(*sources(first, again))
    as_what = f" (as {first})" if how != "name" else ""
    assert str(stop) == f"{again}: the file was given before{as_what}" and events.size == 0
    feed = Feed(sources(first, again), NativeDecoders(), SKIP)
    events = np.concatenate(list(feed.events()))
    assert events.size == 9757 and set(events["stream"].tolist()) == {0}
    assert [(tally.rows, tally.used, dict(tally.reasons)) for tally in feed.tallies] == [
        (9757, 9757, {}),
        (1, 0, {Why.REPEATED_FILE: 1}),
    ]
    assert feed.found_bad() == [stop.row]


def test_tables_that_are_given_twice() -> None:
    events = read(TRADES)[0]
    columns = {"ts": events["ts"], "price": events["price"] / 100, "qty": events["qty"] / 100_000}
    for one, two in ((events, events), (events, events.copy()), (columns, columns), (pa.table(columns), pa.table(columns))):
        _, stop, _ = stopped(*(DataSource(Path("data"), stream, (BTC,), table=table) for stream, table in enumerate((one, two))))
        assert stop.row.why is Why.REPEATED_FILE


def test_files_that_differ_in_a_byte_are_two(tmp_path: Path) -> None:
    text = "ts_ns,price,qty\n1,1,1\n2,1,1\n"
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "b.csv").write_text(text.replace("2,1,1", "3,1,1"))
    feed = Feed(sources(tmp_path / "a.csv", tmp_path / "b.csv"), NativeDecoders())
    assert np.concatenate(list(feed.events()))["ts"].tolist() == [1, 1, 2, 3]


def write(path: Path, rows: list[tuple[int, int]]) -> Path:
    path.write_text("ts_ns,id,price,qty\n" + "".join(f"{ts},{id},1,1\n" for ts, id in rows))
    return path


def test_a_trade_that_two_files_have(tmp_path: Path) -> None:
    a = write(tmp_path / "a.csv", [(n, 100 + n) for n in range(50)])
    b = write(tmp_path / "b.csv", [(n, 100 + n) for n in range(40, 90)])
    _, stop, _ = stopped(*sources(a, b))
    assert str(stop) == f"{b}: row 2, column `id`: `140` was there before (in {a})"
    feed = Feed(sources(a, b), NativeDecoders(), SKIP)
    events = np.concatenate(list(feed.events()))
    assert events["id"].tolist() == list(range(100, 190))
    assert feed.tallies[1].reasons == {Why.REPEATED_TRADE: 10}


def test_days_on_which_a_venue_counts_anew(tmp_path: Path) -> None:
    rows = [(day * 24 * HOUR + 14 * HOUR + n * 10**9, n + 1) for day in range(5) for n in range(500)]
    events, tally, _ = read(write(tmp_path / "week.csv", rows))
    assert (events.size, tally.bad) == (2500, 0)
    files = [write(tmp_path / f"{day}.csv", rows[500 * day : 500 * day + 500]) for day in range(5)]
    assert sum(events.size for events in Feed(sources(*files), NativeDecoders()).events()) == 2500
    assert read(write(tmp_path / "twice.csv", [*rows, (rows[-1][0] + HOUR, 1)]), rules=SKIP)[1].reasons == {Why.REPEATED_TRADE: 1}


@pytest.mark.parametrize("kind", ["trade", "aggTrade"])
def test_trades_and_sums_over_many_blocks(tmp_path: Path, kind: str) -> None:
    """Ids, rows and what was there before go on from block to block; the last row repeats the first one."""
    key, count = {"trade": "t", "aggTrade": "a"}[kind], 30_000
    line = '{"e":"%s","E":%d,"s":"BTCUSDT","%s":%d,"p":"61837.63","q":"0.02","T":%d,"m":true}\n'
    path = tmp_path / "t.jsonl"
    with path.open("w") as file:
        file.writelines(line % (kind, 1_723_161_254_000 + n, key, 7 * n + 1, 1_723_161_254_000 + n) for n in range(count))
        file.write(line % (kind, 1_723_161_254_000 + count, key, 1, 1_723_161_254_000 + count))
    assert path.stat().st_size > 2 << 20
    before, stop, _ = stopped(DataSource(path, 0, (BTC,)))
    assert str(stop) == f"{path}: row {count + 1}, column `id`: `1` was there before"
    assert np.array_equal(before["row"], np.arange(1, count + 1)) and np.array_equal(before["id"], 7 * np.arange(count, dtype=np.uint64) + 1)
    events, tally, _ = read(path, BTC, rules=SKIP)
    assert np.array_equal(events, before) and (tally.rows, tally.used) == (count + 1, count)


@pytest.mark.parametrize("step", [1, 3])
def test_a_csv_over_many_blocks(tmp_path: Path, step: int) -> None:
    count, lost = 100_000, (30_000, 60_001)
    lines = [f"{10**18 + n},{n * step + 1},61837.63,0.02,B\n" for n in range(count)]
    for n in lost:
        lines[n] = lines[7 * n // 10]
    lines[lost[1]] = f"{10**18 + lost[1]},{lost[0] * step + 1},x,1,B\n"
    path = tmp_path / "t.csv"
    path.write_text("ts_ns,trade_id,price,qty,side\n" + "".join(lines))
    assert path.stat().st_size > 3 << 20
    events, tally, bad = read(path, BTC, rules=SKIP)
    assert [(one.row, one.why) for one in bad] == [(lost[0] + 2, Why.REPEATED_TRADE), (lost[1] + 2, Why.UNREADABLE)]
    assert np.array_equal(events["row"], np.delete(np.arange(2, count + 2), lost))
    assert np.array_equal(events["id"], np.delete(np.arange(count, dtype=np.uint64) * np.uint64(step) + np.uint64(1), lost))
    assert tally.used == count - 2


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 5)), max_size=8), max_size=6))
def test_against_a_plain_model(parts: list[list[tuple[int, int]]]) -> None:
    """An id is a repeat where it came before in its quarter of a day or a neighbouring one; times don't go back."""
    came: list[tuple[int, int]] = []
    quarter, want, got = 0, [], []
    source, trades = DataSource(Path("t.csv"), 0, (BTC,)), Trades()
    for part in parts:
        events: Events = np.zeros(len(part), EVENT)
        for place, (id, later) in enumerate(part):
            quarter += later == 5
            events[place]["ts"], events[place]["id"], events[place]["kind"] = quarter * QUARTER + 1, id, EventKind.TRADE
            want.append(any(id == other and abs(quarter - when) <= 1 for other, when in came))
            came.append((id, quarter))
        events["row"] = np.arange(1, len(part) + 1)
        batch = Batch(events, len(part))
        trades.check(batch, source)
        gone = {bad.row for bad in batch.bad}
        got += [row in gone for row in range(1, len(part) + 1)]
    assert got == want


@settings(max_examples=200, deadline=None)
@given(st.sets(st.tuples(st.integers(0, 20), st.integers(0, 3))), st.lists(st.tuples(st.integers(0, 20), st.integers(-1, 4)), min_size=1))
def test_runs_hold_what_they_were_made_of(held: set[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    if not held:
        return
    ids, quarters = (np.array(column) for column in zip(*sorted(held, key=hash), strict=True))
    runs = Runs.of(ids.astype(np.uint64), quarters)
    wanted, when = (np.array(column) for column in zip(*asked, strict=True))
    assert runs.hold(wanted.astype(np.uint64), when).tolist() == [one in held for one in asked]


def test_trades_of_two_instruments_may_share_ids() -> None:
    events = np.zeros(2, EVENT)
    events["kind"], events["id"], events["qty"], events["instrument"], events["flags"] = EventKind.TRADE, 5, 1, [0, 1], 1
    both = (Listing("A", "1", "1"), Listing("B", "1", "1"))
    assert sum(part.size for part in Feed([DataSource(Path("data"), 0, both, table=events)], NativeDecoders()).events()) == 2
