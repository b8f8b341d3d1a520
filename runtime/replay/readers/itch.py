"""NASDAQ TotalView-ITCH 5.0: all orders of a day. Times count from midnight in New York, the day stands in the file's name."""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from fractions import Fraction
from zoneinfo import ZoneInfo

import numpy as np

from runtime.replay.bad_rows import BadSource, Why
from runtime.replay.batches import Batch, Source
from runtime.replay.content import Content
from runtime.replay.events import Flag, Kind, empty
from runtime.replay.grids import I64
from runtime.replay.native import itch as native

_ZONE = "America/New_York"
_DAY = re.compile(r"(?<!\d)\d{8}(?!\d)")
_LETTERS = 8


def read(content: Content, source: Source) -> Iterator[Batch]:
    """All messages about instruments of the program. Raises BadSource."""
    midnight = midnight_of(source, _ZONE)
    locates = np.full(1 << 16, native.UNKNOWN, np.int32)
    symbols, grids = _wanted(source)
    rest, offset, latest = b"", 0, midnight
    for block in content.blocks():
        data = np.frombuffer(rest + block, np.uint8)
        done = 0
        while done < data.size:
            found = native.decode(data[done:], offset + done, midnight, source.stream, locates, symbols, grids)
            if not found.consumed:
                break
            done += found.consumed
            batch = Batch(found.events, found.messages, left_out=found.left_out, binary=True, book=True)
            batch.bad = [_bad(source, *row) for row in found.bad.tolist()]
            if found.events.size:
                latest = int(found.events["ts"][-1])
            yield batch
        rest, offset = data[done:].tobytes(), offset + done
    if rest or content.broken:
        yield broken_off(source, offset, latest, content.broken or f"the last message lacks bytes, {len(rest)} of it are there", bool(rest))


def broken_off(source: Source, offset: int, ts: int, detail: str, row: bool) -> Batch:
    """The end of a binary file that breaks off: a gap, and a bad row where part of one is there."""
    gap = empty(1)
    gap["ts"], gap["stream"], gap["kind"], gap["id"], gap["row"] = ts, source.stream, Kind.GAP, offset, offset
    gap["instrument"] = 0xFFFFFFFF
    gap["flags"] = Flag.LAST | Flag.SUSPECT | Flag.TRUNCATED
    bad = [source.bad(offset, "", "", Why.TRUNCATED, detail, binary=True)] if row else []
    return Batch(gap, len(bad), bad, binary=True)


def _bad(source: Source, offset: int, column: int, number: int):  # type: ignore[no-untyped-def]
    name = native.COLUMNS[column]
    if not name:
        return source.bad(offset, "", "", Why.DAMAGED, f"length or type {number} of no message", binary=True)
    if name == "side":
        return source.bad(offset, name, chr(number), Why.UNREADABLE, binary=True)
    text = f"{number / 10**native.PRICE_PLACES:.4f}" if name == "price" else str(number)
    return source.bad(offset, name, text, Why.OFF_GRID, binary=True)


def _wanted(source: Source) -> tuple[np.ndarray, I64]:  # type: ignore[type-arg]
    """Symbols and grids of the program's instruments, or of the one that stands in front of the path."""
    names = [one.name for one in source.listings]
    if source.symbol is not None:
        place = source.index(source.symbol)
        names = [source.mapped.get("symbol", name) if at == place else "" for at, name in enumerate(names)]
    symbols = np.array([int.from_bytes(name.encode().ljust(_LETTERS)[:_LETTERS], "little") for name in names], np.uint64)
    grids = np.ones((len(names), native.GRID), np.int64)
    for place, one in enumerate(source.listings):
        price = Fraction(1, 10**native.PRICE_PLACES) / one.tick.size
        shares = Fraction(1) / one.lot.size
        grids[place] = [price.numerator, price.denominator, shares.numerator, shares.denominator]
        if max(price.numerator, shares.numerator) >= 2**31:
            raise BadSource(f"{source.path}: the grid of {one.name} is too fine: prices of this format have {native.PRICE_PLACES} places")
    return symbols, grids


def midnight_of(source: Source, zone: str) -> int:
    """The start of the file's day in ns since 1970 UTC. Raises BadSource where no day is known."""
    day = _day(source)
    if day is None:
        hint = "--map date=2024-08-08 says it"
        raise BadSource(f"{source.path}: times in this format count from midnight, and the file's name doesn't say of which day", hint)
    start = datetime.combine(day, time(), ZoneInfo(zone)).astimezone(UTC)
    return int(start.timestamp()) * 10**9


def _day(source: Source) -> date | None:
    said = source.mapped.get("date")
    if said is not None:
        try:
            return date.fromisoformat(said)
        except ValueError:
            raise BadSource(f"{source.path}: `{said}` is no date", "--map date=2024-08-08") from None
    for digits in _DAY.findall(source.path.name):
        for form in ("%Y%m%d", "%m%d%Y"):
            try:
                found = datetime.strptime(digits, form).date()
            except ValueError:
                continue
            if 1970 < found.year < 2262:
                return found
    return None
