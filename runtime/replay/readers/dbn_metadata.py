"""The head of a DBN file: which records follow, and which instrument each of their numbers stands for on which days."""

import struct
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from runtime.records import frozen
from runtime.replay.bad_rows import BadSource
from runtime.replay.batches import DataSource
from runtime.replay.grids import I64

SCHEMAS = (
    "mbo", "mbp-1", "mbp-10", "tbbo", "trades", "ohlcv-1s", "ohlcv-1m", "ohlcv-1h", "ohlcv-1d", "definition", "statistics", "status",
    "imbalance", "ohlcv-eod", "cmbp-1", "cbbo-1s", "cbbo-1m", "tcbbo", "bbo-1s", "bbo-1m",
)  # fmt: skip
_NEWEST = 3
_FIXED = 100
_OLD_NAME = 22


@frozen
class Metadata:
    """`size`: its bytes; `intervals`: (number, first ns, first ns after it, place of the instrument in the program)."""

    size: int
    version: int
    schema: str
    intervals: tuple[tuple[int, int, int, int], ...]

    def instruments(self, numbers: npt.NDArray[np.uint32], ts: I64) -> I64:
        """Places of instruments in the program, -1 for those that nobody wants."""
        found = np.full(numbers.size, -1, np.int64)
        for number, begin, end, place in self.intervals:
            found[(numbers == number) & (ts >= begin) & (ts < end)] = place
        return found


def read_metadata(data: bytes, source: DataSource) -> Metadata | None:
    """What the file says of itself; None while more bytes are needed. Raises BadSource."""
    if data[:3] != b"DBN"[: len(data)]:
        raise BadSource(f"{source.path}: this is no DBN file")
    if len(data) < 8:
        return None
    version, length = data[3], struct.unpack_from("<I", data, 4)[0]
    if not 1 <= version <= _NEWEST:
        raise BadSource(f"{source.path}: DBN of version {version} is not supported yet", f"versions 1 to {_NEWEST} are")
    if len(data) < 8 + length:
        return None
    body = data[8 : 8 + length]
    try:
        schema = struct.unpack_from("<H", body, 16)[0]
        name = _OLD_NAME if version == 1 else struct.unpack_from("<H", body, 45)[0]
        symbols = _symbols(body, name)
    except (struct.error, IndexError, ValueError):
        raise BadSource(f"{source.path}: the head of the file is damaged") from None
    called = SCHEMAS[schema] if schema < len(SCHEMAS) else str(schema)
    return Metadata(8 + length, version, called, _chosen(symbols, source))


def _symbols(body: bytes, name: int) -> dict[str, list[tuple[int, int, int]]]:
    """Numbers and times by symbol."""
    at = _FIXED + 4 + struct.unpack_from("<I", body, _FIXED)[0]

    def number() -> int:
        nonlocal at
        at += 4
        return int(struct.unpack_from("<I", body, at - 4)[0])

    def text() -> str:
        nonlocal at
        at += name
        if at > len(body):
            raise IndexError
        return body[at - name : at].split(b"\0", 1)[0].decode("utf-8")

    def several(least: int) -> range:
        """A count of things of at least so many bytes, which must have room."""
        count = number()
        if name == 0 or count * least > len(body) - at:
            raise IndexError
        return range(count)

    for _ in range(3):
        for _ in several(name):
            text()
    found: dict[str, list[tuple[int, int, int]]] = {}
    for _ in several(name + 4):
        symbol = text()
        for _ in several(name + 8):
            begin, end, stands_for = _day(number()), _day(number()), text()
            if stands_for.isdecimal():
                found.setdefault(symbol, []).append((int(stands_for), begin, end))
            elif symbol.isdecimal() and stands_for:
                found.setdefault(stands_for, []).append((int(symbol), begin, end))
    return found


def _day(digits: int) -> int:
    """20240808 as ns since 1970."""
    day = datetime(digits // 10000, digits // 100 % 100, digits % 100, tzinfo=UTC)
    return int(day.timestamp()) * 10**9


def _chosen(symbols: dict[str, list[tuple[int, int, int]]], source: DataSource) -> tuple[tuple[int, int, int, int], ...]:
    """The intervals of the program's instruments. Raises BadSource where the file holds none of them."""
    said = source.mapped.get("instrument_id")
    if said is not None:
        if not said.isdecimal():
            raise BadSource(f"{source.path}: `{said}` is no number of an instrument", "--map instrument_id=5482")
        return ((int(said), -(2**63), 2**63 - 1, source.only),)
    names = {one.name: place for place, one in enumerate(source.listings)}
    if source.symbol is not None:
        place = source.index(source.symbol)
        wanted = source.mapped.get("symbol", source.symbol)
        names = {wanted: place}
        if wanted not in symbols and "symbol" not in source.mapped and len(symbols) == 1:
            names = dict.fromkeys(symbols, place)
    chosen = tuple((*interval, place) for name, place in names.items() for interval in symbols.get(name, ()))
    if not chosen:
        held = ", ".join(sorted(symbols)[:10]) or "no symbols"
        one = source.symbol or source.listings[0].name
        symbol = min(symbols, default=None)
        hint = f"--data {one}={source.path} --map symbol={symbol}" if symbol else "--map instrument_id=NUMBER says which records"
        raise BadSource(f"{source.path}: none of the program's instruments is in the file, which holds {held}", hint)
    return chosen
