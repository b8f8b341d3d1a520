"""ITCH 5.0 against a plain reader written with `struct`, on the simulated day and on messages made for the purpose."""

import gzip
import struct
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from feeds import DATA, read

from runtime.replay.bad_rows import BadData, BadSource, Why
from runtime.replay.events import EventKind, Flag, MarketSide
from runtime.replay.grids import Listing
from runtime.replay.rules import Rules

DAY = DATA / "sim_20101224.itch50.gz"
NAMES = ("ALC", "BOB", "CHAR")
LISTINGS = [Listing(name, "0.0001", "1") for name in NAMES]
# New York is five hours behind in winter
MIDNIGHT = int(datetime(2010, 12, 24, 5, tzinfo=UTC).timestamp()) * 10**9


def plain(data: bytes) -> list[tuple[object, ...]]:
    """(ts, instrument, kind, side, price, qty, id, id2) of every message that becomes a record."""
    found, at, locates = [], 0, {}
    while at < len(data):
        (length,) = struct.unpack_from(">H", data, at)
        message = data[at + 2 : at + 2 + length]
        at += 2 + length
        letter, locate = chr(message[0]), struct.unpack_from(">H", message, 1)[0]
        ts = MIDNIGHT + int.from_bytes(message[5:11], "big")
        if letter == "R":
            locates[locate] = NAMES.index(message[11:19].decode().strip())
            continue
        if letter == "S":
            continue
        who = locates[locate]
        if letter in "AF":
            ref, side, qty, _, price = struct.unpack_from(">QcI8sI", message, 11)
            found.append((ts, who, EventKind.ADD, {b"B": 1, b"S": 2}[side], price, qty, ref, 0))
        elif letter == "E":
            ref, qty, match = struct.unpack_from(">QIQ", message, 11)
            found.append((ts, who, EventKind.EXECUTE, 0, 0, qty, ref, match))
        elif letter == "X":
            ref, qty = struct.unpack_from(">QI", message, 11)
            found.append((ts, who, EventKind.CANCEL, 0, 0, qty, ref, 0))
        elif letter == "D":
            found.append((ts, who, EventKind.DELETE, 0, 0, 0, *struct.unpack_from(">Q", message, 11), 0))
        elif letter == "U":
            ref, new, qty, price = struct.unpack_from(">QQII", message, 11)
            found.append((ts, who, EventKind.REPLACE, 0, price, qty, ref, new))
        elif letter == "P":
            qty, price, match = (*struct.unpack_from(">I", message, 20), *struct.unpack_from(">IQ", message, 32))
            found.append((ts, who, EventKind.TRADE, 0, price, qty, match, 0))
        elif letter == "H":
            found.append((ts, who, EventKind.STATUS if message[19:20] == b"T" else EventKind.HALT, 0, 0, 0, 0, 0))
        else:
            raise AssertionError(letter)
    return found


FIELDS = ["ts", "instrument", "kind", "side", "price", "qty", "id", "id2"]


def test_the_simulated_day() -> None:
    events, tally, bad = read(DAY, *LISTINGS)
    assert [tuple(one) for one in events[FIELDS].tolist()] == plain(gzip.decompress(DAY.read_bytes()))
    assert (tally.rows, tally.left_out, bad) == (12_012, 9, [])
    assert (events["flags"][events["kind"] == EventKind.TRADE] == Flag.LAST | Flag.HIDDEN).all()


def test_one_symbol_of_many() -> None:
    everything, _, _ = read(DAY, *LISTINGS)
    events, tally, _ = read(DAY, LISTINGS[1])
    wanted = everything[everything["instrument"] == 1]
    assert events[FIELDS[2:]].tolist() == wanted[FIELDS[2:]].tolist()
    assert tally.left_out == 12_012 - wanted.size
    bound, _, _ = read(DAY, Listing("X", "1", "1"), Listing("Y", "0.0001", "1"), bound="Y", symbol="BOB")
    assert bound[FIELDS[2:]].tolist() == wanted[FIELDS[2:]].tolist() and set(bound["instrument"].tolist()) == {1}


def test_prices_off_the_tick(tmp_path: Path) -> None:
    cents = [Listing(name, "0.01", "1") for name in NAMES]
    with pytest.raises(BadData, match=r"column `price`: `\d+\.\d{4}` is off the instrument's grid \(the tick of ALC|BOB|CHAR is 0.01\)"):
        read(DAY, *cents)
    events, tally, bad = read(DAY, *cents, rules=Rules(skip=True))
    everything = plain(gzip.decompress(DAY.read_bytes()))
    priced = (EventKind.ADD, EventKind.REPLACE, EventKind.TRADE)
    assert tally.bad == sum(one[2] in priced and one[4] % 100 != 0 for one in everything)
    left = events[(events["kind"] != EventKind.GAP) & (events["kind"] == EventKind.ADD)]
    assert left["price"].tolist() == [one[4] // 100 for one in everything if one[2] is EventKind.ADD and one[4] % 100 == 0]
    assert {one.why for one in bad} == {Why.OFF_GRID} and all(one.binary for one in bad)


def framed(*messages: bytes) -> bytes:
    return b"".join(struct.pack(">H", len(message)) + message for message in messages)


def head(letter: str, locate: int = 1, ts: int = 7) -> bytes:
    return struct.pack(">cHH", letter.encode(), locate, 0) + ts.to_bytes(6, "big")


DIRECTORY = head("R") + b"ALC     " + bytes(20)


def made(folder: Path, data: bytes) -> Path:
    path = folder / "12242010.itch50"
    path.write_bytes(data)
    return path


def test_messages_that_the_day_lacks(tmp_path: Path) -> None:
    data = framed(
        DIRECTORY,
        head("C") + struct.pack(">QIQcI", 5, 10, 77, b"N", 20_000),
        head("C") + struct.pack(">QIQcI", 5, 10, 78, b"Y", 30_000),
        head("Q") + struct.pack(">Q8sIQc", 2**33, b"ALC     ", 40_000, 79, b"O"),
        head("Q") + struct.pack(">Q8sIQc", 0, b"ALC     ", 0, 80, b"O"),
        head("H") + b"ALC     H " + b"    ",
        head("B") + bytes(8),
    )
    events, tally, _ = read(made(tmp_path, data), Listing("ALC", "0.5", "2"))
    assert events[["kind", "flags", "price", "qty", "id", "id2", "level"]].tolist() == [
        (EventKind.EXECUTE, Flag.LAST | Flag.OWN_PRICE | Flag.NOT_PRINTED, 4, 5, 5, 77, 0),
        (EventKind.EXECUTE, Flag.LAST | Flag.OWN_PRICE, 6, 5, 5, 78, 0),
        (EventKind.TRADE, Flag.LAST | Flag.AUCTION, 8, 2**32, 79, 0, 0),
        (EventKind.HALT, Flag.LAST, 0, 0, 0, 0, ord("H")),
    ]
    assert events["ts"].tolist() == [MIDNIGHT + 7] * 4
    assert (tally.rows, tally.left_out) == (7, 3)


def test_a_symbol_is_known_from_its_first_order_too(tmp_path: Path) -> None:
    add = head("A", 9) + struct.pack(">QcI8sI", 1, b"S", 3, b"ALC     ", 10_000)
    delete = head("D", 9) + struct.pack(">Q", 1)
    events, tally, _ = read(made(tmp_path, framed(delete, add, delete)), Listing("ALC", "1", "1"))
    assert events[["kind", "side"]].tolist() == [(EventKind.ADD, MarketSide.SELL), (EventKind.DELETE, MarketSide.NONE)]
    assert tally.left_out == 1


@pytest.mark.parametrize(
    ("message", "column", "why"),
    [
        (head("D") + bytes(7), "", Why.DAMAGED),
        (b"", "", Why.DAMAGED),
        (head("~") + bytes(9), "", Why.DAMAGED),
        (head("A") + struct.pack(">QcI8sI", 1, b"Q", 3, b"ALC     ", 10_000), "side", Why.UNREADABLE),
        (head("A") + struct.pack(">QcI8sI", 1, b"B", 3, b"ALC     ", 10_001), "price", Why.OFF_GRID),
    ],
)
def test_damaged_messages(tmp_path: Path, message: bytes, column: str, why: Why) -> None:
    delete = head("D") + struct.pack(">Q", 1)
    first = framed(DIRECTORY, delete)
    path = made(tmp_path, first + framed(message, delete))
    with pytest.raises(BadData, match=f"byte {len(first)}"):
        read(path, Listing("ALC", "1", "1"))
    events, tally, bad = read(path, Listing("ALC", "1", "1"), rules=Rules(skip=True))
    assert [(one.row, one.column, one.why) for one in bad] == [(len(first), column, why)]
    assert events["kind"].tolist() == [EventKind.DELETE, EventKind.GAP, EventKind.DELETE]
    # the directory is a message that nobody asked for
    assert (tally.rows, tally.used, tally.left_out) == (4, 2, 1)


def test_the_day_must_be_known(tmp_path: Path) -> None:
    path = tmp_path / "day.itch50"
    path.write_bytes(framed(DIRECTORY))
    with pytest.raises(BadSource, match="doesn't say of which day"):
        read(path, LISTINGS[0])
    assert read(path, LISTINGS[0], date="2024-08-08")[1].rows == 1
    with pytest.raises(BadSource, match="is no date"):
        read(path, LISTINGS[0], date="soon")


def test_summer_is_four_hours_behind(tmp_path: Path) -> None:
    path = tmp_path / "S20240808.itch50"
    path.write_bytes(framed(head("A", 1, 0) + struct.pack(">QcI8sI", 1, b"B", 3, b"ALC     ", 10_000)))
    assert read(path, LISTINGS[0])[0]["ts"].tolist() == [int(datetime(2024, 8, 8, 4, tzinfo=UTC).timestamp()) * 10**9]


def test_messages_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from runtime.replay import content

    whole, _, _ = read(DAY, *LISTINGS)
    blocks = content.Content.blocks
    monkeypatch.setattr(content.Content, "blocks", lambda self, size=5000: blocks(self, 5000))
    assert np.array_equal(read(DAY, *LISTINGS)[0], whole)
