"""NASDAQ TotalView-ITCH 5.0: all orders of a day. Times count from midnight in New York, the day stands in the file's name."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from runtime.replay.bad_rows import BadRow, BadSource, Why
from runtime.replay.batches import Batch, DataSource
from runtime.replay.binary import Pieces, broken_off
from runtime.replay.content import Content
from runtime.replay.days import NEW_YORK, midnight_of
from runtime.replay.decoders import Decoders
from runtime.replay.grids import I64
from runtime.replay.itch_messages import COLUMNS, GRID, MESSAGES, PRICE_PLACES, UNKNOWN

_LETTERS = 8
_LISTED = 1000
"""So many messages in front of a file are looked through for the symbols that it has."""


def read(content: Content, source: DataSource, decoders: Decoders) -> Iterator[Batch]:
    """All messages about instruments of the program. Raises BadSource."""
    midnight = midnight_of(source, NEW_YORK)
    locates = np.full(1 << 16, UNKNOWN, np.int32)
    symbols, grids = _wanted(source)
    pieces = Pieces(content)
    strangers: tuple[str, ...] | None = None
    for piece in pieces:
        strangers = strangers if strangers is not None else _directory(piece, symbols)
        data, done, full = np.frombuffer(piece, np.uint8), 0, True
        while full:
            found = decoders.itch(data[done:], pieces.offset + done, midnight, source.stream, locates, symbols, grids)
            full = found.full
            if not found.consumed:
                break
            done += found.consumed
            strangers = strangers if not found.events.size else ()
            batch = Batch(found.events, found.messages, left_out=found.left_out, binary=True, book=True, strangers=strangers)
            batch.bad = [_bad(source, *row) for row in found.bad.tolist()]
            yield batch
        pieces.take(done)
    if pieces.broken:
        yield broken_off(source, pieces, pieces.broken)


def _directory(piece: bytes, wanted: npt.NDArray[np.uint64]) -> tuple[str, ...]:
    """Symbols of nobody, as the directory in front of a file lists them."""
    symbol = MESSAGES["R"].symbol
    assert symbol is not None
    found: list[str] = []
    at = 0
    for _ in range(_LISTED):
        length = int.from_bytes(piece[at : at + 2])
        if length == 0 or at + 2 + length > len(piece):
            break
        name = piece[at + 2 + symbol : at + 2 + symbol + _LETTERS]
        if piece[at + 2 : at + 3] == b"R" and int.from_bytes(name, "little") not in wanted:
            found.append(name.decode("ascii", "replace").strip())
        at += 2 + length
    return tuple(found)


def _bad(source: DataSource, offset: int, column: int, number: int, instrument: int) -> BadRow:
    name = COLUMNS[column]
    if not name:
        return source.bad(offset, "", "", Why.DAMAGED, f"no message has this type and {number} bytes", binary=True)
    if name == "side":
        return source.bad(offset, name, chr(number), Why.UNREADABLE, binary=True)
    if name == "qty" and not number:
        return source.bad(offset, name, "0", Why.ZERO, binary=True)
    text = f"{number / 10**PRICE_PLACES:.4f}" if name == "price" else str(number)
    detail = source.grid(instrument, "tick" if name == "price" else "lot")
    return source.bad(offset, name, text, Why.OFF_GRID, detail, binary=True)


def _wanted(source: DataSource) -> tuple[npt.NDArray[np.uint64], I64]:
    """Symbols and grids of the program's instruments, or of the one that stands in front of the path."""
    names = [one.name for one in source.listings]
    if source.symbol is not None:
        place = source.index(source.symbol)
        names = [source.mapped.get("symbol", name) if at == place else "" for at, name in enumerate(names)]
    symbols = np.array([int.from_bytes(name.encode().ljust(_LETTERS)[:_LETTERS], "little") for name in names], np.uint64)
    grids = np.ones((len(names), GRID), np.int64)
    for place, one in enumerate(source.listings):
        price = Fraction(1, 10**PRICE_PLACES) / one.tick.size
        shares = Fraction(1) / one.lot.size
        grids[place] = [price.numerator, price.denominator, shares.numerator, shares.denominator]
        if max(price.numerator, shares.numerator) >= 2**31:
            raise BadSource(f"{source.path}: the grid of {one.name} is too fine: prices of this format have {PRICE_PLACES} places")
    return symbols, grids
