"""DBN against Databento's own library, on real records and on files made for the purpose."""

import struct
from decimal import Decimal
from pathlib import Path

import databento_dbn
import numpy as np
import pytest
from feeds import DATA, read, stopped

from runtime.replay.bad_rows import BadData, BadSource, Why
from runtime.replay.batches import DataSource
from runtime.replay.events import EVENT, EventKind, Flag, MarketSide
from runtime.replay.grids import Listing
from runtime.replay.rules import Rules

ES = Listing("ESH1", "0.25", "1")
SKIP = Rules(skip=True)
NO_PRICE, NO_TIME = 2**63 - 1, 2**64 - 1


def theirs(path: Path) -> list[object]:
    decoder = databento_dbn.DBNDecoder()
    raw = path.read_bytes()
    if path.suffix == ".zst":
        import pyarrow

        with pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), "zstd") as file:
            raw = file.read()
    decoder.write(raw)
    return [one for one in decoder.decode() if not isinstance(one, databento_dbn.Metadata)]


def ticks(price: int) -> int:
    return int(Decimal(price) / 250_000_000)


def test_trades() -> None:
    path = DATA / "sample.trades.v3.dbn.zst"
    events, tally, _ = read(path, ES)
    want = [(one.ts_recv, EventKind.TRADE, {"B": 1, "A": 2, "N": 0}[str(one.side)], ticks(one.price), one.size) for one in theirs(path)]
    assert events[["ts", "kind", "side", "price", "qty"]].tolist() == want
    assert tally.used == 2


def test_best_quotes() -> None:
    path = DATA / "sample.mbp-1.v3.dbn.zst"
    levels = [(one.ts_recv, one.levels[0]) for one in theirs(path)]
    want = [(ts, EventKind.QUOTE, ticks(one.bid_px), one.bid_sz, ticks(one.ask_px), one.ask_sz) for ts, one in levels]
    assert read(path, ES)[0][["ts", "kind", "price", "qty", "price2", "qty2"]].tolist() == want


def books(events: np.ndarray) -> dict[int, tuple[dict[int, int], dict[int, int]]]:  # type: ignore[type-arg]
    """The book after each row."""
    found, sides = {}, {MarketSide.BUY: {}, MarketSide.SELL: {}}
    for row, kind, side, price, qty in events[["row", "kind", "side", "price", "qty"]].tolist():
        if kind == EventKind.BOOK_CLEAR:
            sides = {MarketSide.BUY: {}, MarketSide.SELL: {}}
        elif kind == EventKind.BOOK_LEVEL:
            sides[side].pop(price, None)
            if qty:
                sides[side][price] = qty
        found[row] = (dict(sides[MarketSide.BUY]), dict(sides[MarketSide.SELL]))
    return found


def test_ten_levels() -> None:
    path = DATA / "sample.mbp-10.v3.dbn.zst"
    events, _, _ = read(path, ES)
    want = [
        ({ticks(one.bid_px): one.bid_sz for one in record.levels}, {ticks(one.ask_px): one.ask_sz for one in record.levels})
        for record in theirs(path)
    ]
    assert list(books(events).values()) == want


@pytest.mark.parametrize("name", ["sample.mbo.v3.dbn", "sample.mbo.v3.dbn.zst"])
def test_orders(name: str) -> None:
    want = [(one.ts_recv, EventKind.CANCEL, {"B": 1, "A": 2}[str(one.side)], one.size, one.order_id) for one in theirs(DATA / name)]
    assert read(DATA / name, ES)[0][["ts", "kind", "side", "qty", "id"]].tolist() == want
    by_event = read(DATA / name, ES, ts="ts_event", rules=SKIP)[0]["ts"].tolist()
    assert by_event[0] == theirs(DATA / name)[0].ts_event


def metadata(schema: int, mappings: dict[str, int], version: int = 3) -> bytes:
    size = 22 if version == 1 else 71

    def text(value: str) -> bytes:
        return value.encode().ljust(size, b"\0")

    fixed = b"TEST".ljust(16, b"\0") + struct.pack("<HQQQ", schema, 0, NO_TIME, 0)
    fixed += struct.pack("<Q", 0) + bytes(3 + 47) if version == 1 else bytes(3) + struct.pack("<H", size) + bytes(53)
    body = fixed + struct.pack("<I", 0) + struct.pack("<III", 0, 0, 0) + struct.pack("<I", len(mappings))
    for symbol, number in mappings.items():
        body += text(symbol) + struct.pack("<III", 1, 20240101, 20250101) + text(str(number))
    return b"DBN" + bytes([version]) + struct.pack("<I", len(body)) + body


START = 1_720_000_000 * 10**9


def order(action: str, n: int, *, side: str = "B", price: int = 10**9, size: int = 1, id: int = 5, number: int = 9, flags: int = 128) -> bytes:
    common = struct.pack("<BBHIQ", 14, 0xA0, 0, number, START)
    return common + struct.pack("<QqIBBccQiI", id, price, size, flags, 0, action.encode(), side.encode(), START + n, 0, 0)


def trade(n: int, price: int = 10**9, size: int = 1, side: str = "A", ts: int | None = None) -> bytes:
    common = struct.pack("<BBHIQ", 12, 0, 0, 9, START)
    return common + struct.pack("<qIccBBQiI", price, size, b"T", side.encode(), 0, 0, START + n if ts is None else ts, 0, 0)


def made(folder: Path, *parts: bytes) -> Path:
    path = folder / "x.dbn"
    path.write_bytes(b"".join(parts))
    return path


ONE = Listing("ONE", "0.5", "1")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_all_actions_in_all_versions(tmp_path: Path, version: int) -> None:
    path = made(
        tmp_path, metadata(0, {"ONE": 9, "TWO": 8}, version),
        order("R", 0, side="N", price=NO_PRICE, size=0, id=0), order("A", 1, flags=0x20), order("M", 2, price=2 * 10**9, size=4),
        order("T", 3, side="A", price=2 * 10**9), order("F", 3, price=2 * 10**9), order("C", 3, size=1), order("A", 4, number=8),
    )  # fmt: skip
    events, tally, _ = read(path, ONE)
    assert events[["kind", "side", "flags", "price", "qty", "id", "id2"]].tolist() == [
        (EventKind.BOOK_CLEAR, MarketSide.NONE, Flag.LAST, 0, 0, 0, 0),
        (EventKind.ADD, MarketSide.BUY, Flag.SNAPSHOT, 2, 1, 5, 0),
        (EventKind.REPLACE, MarketSide.BUY, Flag.LAST, 4, 4, 5, 5),
        (EventKind.TRADE, MarketSide.SELL, Flag.LAST, 4, 1, 0, 0),
        (EventKind.CANCEL, MarketSide.BUY, Flag.LAST, 0, 1, 5, 0),
    ]
    assert (tally.rows, tally.used, tally.left_out) == (7, 6, 1)


def level(*pairs: tuple[int, int, int, int]) -> bytes:
    found = b"".join(struct.pack("<qqIIII", bid, ask, bids, asks, 1, 1) for bid, bids, ask, asks in pairs)
    return found + struct.pack("<qqIIII", NO_PRICE, NO_PRICE, 0, 0, 0, 0) * (10 - len(pairs))


def book(n: int, *pairs: tuple[int, int, int, int], action: str = "A") -> bytes:
    common = struct.pack("<BBHIQ", 92, 10, 0, 9, START)
    return common + struct.pack("<qIccBBQiI", 10**9, 3, action.encode(), b"A", 0, 0, START + n, 0, 0) + level(*pairs)


def test_books_are_told_as_what_changed(tmp_path: Path) -> None:
    g = 10**9
    path = made(
        tmp_path, metadata(2, {"ONE": 9}),
        book(0, (5 * g, 1, 6 * g, 2), (4 * g, 3, 7 * g, 4)),
        book(1, (5 * g, 1, 6 * g, 2), (4 * g, 3, 7 * g, 4)),
        book(2, (4 * g, 3, 6 * g, 9), action="T"),
    )  # fmt: skip
    events, tally, _ = read(path, ONE)
    assert tally.used == 3
    assert events[["row", "kind", "side", "price", "qty"]].tolist()[-4:] == [
        (events["row"][-1], EventKind.TRADE, MarketSide.SELL, 2, 3),
        (events["row"][-1], EventKind.BOOK_LEVEL, MarketSide.BUY, 10, 0),
        (events["row"][-1], EventKind.BOOK_LEVEL, MarketSide.SELL, 14, 0),
        (events["row"][-1], EventKind.BOOK_LEVEL, MarketSide.SELL, 12, 9),
    ]
    assert events["flags"].tolist()[-4:] == [0, 0, 0, Flag.LAST]
    # the row without change gives nothing
    assert len(books(events)) == 2


def test_random_books_come_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    rows, want = [], []
    for n in range(300):
        depth = int(rng.integers(0, 11))
        bids = {int(one): int(rng.integers(1, 4)) for one in sorted(rng.choice(20, depth, replace=False), reverse=True)}
        asks = {int(one) + 20: int(rng.integers(1, 4)) for one in sorted(rng.choice(20, depth, replace=False))}
        sides = zip(bids.items(), asks.items(), strict=True)
        rows.append(book(n, *[(bid * 10**9, bid_qty, ask * 10**9, ask_qty) for (bid, bid_qty), (ask, ask_qty) in sides]))
        want.append(({2 * one: qty for one, qty in bids.items()}, {2 * one: qty for one, qty in asks.items()}))
    path = made(tmp_path, metadata(2, {"ONE": 9}), *rows)
    events, _, _ = read(path, ONE)
    found = books(events)
    now: tuple[dict[int, int], dict[int, int]] = ({}, {})
    start = path.stat().st_size - sum(map(len, rows))
    for n, book_wanted in enumerate(want):
        now = found.get(start + n * len(rows[0]), now)
        assert now == book_wanted


@pytest.mark.parametrize(
    ("record", "column", "why"),
    [
        (trade(1, 10**9 + 1), "price", Why.OFF_GRID),
        (trade(1, NO_PRICE), "price", Why.EMPTY),
        (trade(0, ts=NO_TIME), "ts_recv", Why.EMPTY),
        (trade(-1), "ts_recv", Why.EARLIER),
        (trade(1, size=7), "size", Why.OFF_GRID),
    ],
    ids=["off the tick", "no price", "no time", "earlier", "off the lot"],
)
def test_bad_records(tmp_path: Path, record: bytes, column: str, why: Why) -> None:
    head = metadata(4, {"ONE": 9})
    path = made(tmp_path, head, trade(0, size=2), record, trade(2, size=2))
    even = Listing("ONE", "0.5", "2") if column == "size" else ONE
    if column != "size":
        path = made(tmp_path, head, trade(0), record, trade(2))
    with pytest.raises(BadData, match=f"byte {len(head) + 48}"):
        read(path, even)
    events, tally, bad = read(path, even, rules=SKIP)
    assert [(one.row, one.column, one.why) for one in bad] == [(len(head) + 48, column, why)]
    assert (tally.rows, tally.used, events.size) == (3, 2, 2)


def test_files_that_break_off(tmp_path: Path) -> None:
    head = metadata(4, {"ONE": 9})
    torn = made(tmp_path, head, trade(0), trade(1)[:30])
    before, stop, _ = stopped(DataSource(torn, 0, (ONE,)))
    assert before["kind"].tolist() == [EventKind.TRADE]
    assert str(stop) == f"{torn}: byte {len(head) + 48}: the file breaks off (of the last message only 30 bytes are there)"
    events, tally, bad = read(torn, ONE, rules=SKIP)
    assert [(one.row, one.why) for one in bad] == [(len(head) + 48, Why.TRUNCATED)]
    assert events["kind"].tolist() == [EventKind.TRADE, EventKind.GAP] and tally.used == 1
    events, tally, bad = read(made(tmp_path, head, trade(0), bytes(48), trade(1)), ONE, rules=SKIP)
    assert [one.why for one in bad] == [Why.TRUNCATED] and tally.used == 1
    with pytest.raises(BadSource, match="no DBN file"):
        read(made(tmp_path, head[:50]), ONE)


def test_records_of_other_lengths_between(tmp_path: Path) -> None:
    other = struct.pack("<BBHIQ", 10, 0x17, 0, 9, START) + bytes(24)
    events, tally, _ = read(made(tmp_path, metadata(4, {"ONE": 9}), trade(0), other, trade(1), trade(2)), ONE)
    assert (events["ts"] - START).tolist() == [0, 1, 2] and tally.left_out == 1


def test_which_symbols(tmp_path: Path) -> None:
    path = made(tmp_path, metadata(4, {"ONE": 9, "TWO": 8}), trade(0))
    with pytest.raises(BadSource, match="holds ONE, TWO"):
        read(path, Listing("THREE", "1", "1"))
    assert read(path, Listing("THREE", "1", "1"), bound="THREE", symbol="ONE")[0].size == 1
    assert read(path, Listing("THREE", "1", "1"), instrument_id="9")[0].size == 1
    path = made(tmp_path, metadata(4, {"ONE": 9}), trade(0))
    assert read(path, Listing("THREE", "1", "1"), bound="THREE")[0].dtype == EVENT
    with pytest.raises(BadSource, match="schema definition are not supported yet"):
        read(made(tmp_path, metadata(9, {"ONE": 9})), ONE)
    with pytest.raises(BadSource, match="DBN of version 4"):
        read(made(tmp_path, b"DBN\x04\0\0\0\0"), ONE)
