"""Databento Binary Encoding, versions 1 to 3: trades, mbp-1, tbbo, mbp-10, mbo. Records of one schema have one layout, so that a block
of them is an array; the layouts follow Databento's published reference."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from runtime.replay.bad_rows import BadSource, Why
from runtime.replay.batches import Batch, DataSource, refuse
from runtime.replay.binary import Pieces, broken_off
from runtime.replay.content import Content
from runtime.replay.decoders import Decoders
from runtime.replay.events import EventKind, Events, Flag, MarketSide, empty
from runtime.replay.grids import I64
from runtime.replay.readers.dbn_books import Books
from runtime.replay.readers.dbn_metadata import Metadata, read_metadata
from runtime.replay.tables import flag_crossed

_HEADER = [("length", "u1"), ("rtype", "u1"), ("publisher_id", "<u2"), ("instrument_id", "<u4"), ("ts_event", "<u8")]
_TRADE = [
    *_HEADER, ("price", "<i8"), ("size", "<u4"), ("action", "u1"), ("side", "u1"), ("flags", "u1"), ("depth", "u1"), ("ts_recv", "<u8"),
    ("ts_in_delta", "<i4"), ("sequence", "<u4"),
]  # fmt: skip
_LEVEL = [("bid_px", "<i8"), ("ask_px", "<i8"), ("bid_sz", "<u4"), ("ask_sz", "<u4"), ("bid_ct", "<u4"), ("ask_ct", "<u4")]
LAYOUTS = {
    0x00: np.dtype(_TRADE),
    0x01: np.dtype([*_TRADE, ("levels", _LEVEL, (1,))]),
    0x0A: np.dtype([*_TRADE, ("levels", _LEVEL, (10,))]),
    0xA0: np.dtype(
        [
            *_HEADER, ("order_id", "<u8"), ("price", "<i8"), ("size", "<u4"), ("flags", "u1"), ("channel_id", "u1"), ("action", "u1"),
            ("side", "u1"), ("ts_recv", "<u8"), ("ts_in_delta", "<i4"), ("sequence", "<u4"),
        ]
    ),
}  # fmt: skip
"""Records by their type."""

_TYPES = {"mbo": 0xA0, "mbp-1": 0x01, "tbbo": 0x01, "mbp-10": 0x0A, "trades": 0x00}
_SHORTEST = np.dtype(_HEADER).itemsize
_PLACES = 9
_NO_PRICE, _NO_TIME = 2**63 - 1, 2**64 - 1
_LAST, _SNAPSHOT, _MAYBE_BAD = 0x80, 0x20, 0x04
_ORDERS = {"A": EventKind.ADD, "C": EventKind.CANCEL, "M": EventKind.REPLACE, "R": EventKind.BOOK_CLEAR, "T": EventKind.TRADE}
"""What becomes of an order's record. A fill (`F`) leaves the book to the cancel that follows it."""
_LETTERS = {"action": np.frombuffer(b"ACMRTFN", np.uint8), "side": np.frombuffer(b"ABN", np.uint8)}
"""All that stand in such fields."""


def read(content: Content, source: DataSource, decoders: Decoders) -> Iterator[Batch]:
    """Records about instruments of the program, by the time of receipt or, with `--map ts=ts_event`, of the event. Raises BadSource."""
    pieces = Pieces(content)
    reader: _Records | None = None
    for piece in pieces:
        if reader is None:
            metadata = read_metadata(piece, source)
            if metadata is None:
                continue
            pieces.take(metadata.size)
            reader = _Records(source, metadata)
        data = pieces.rest
        starts, done = _starts(data)
        if starts.size:
            yield reader.batch(data, starts, pieces.offset)
        pieces.take(done)
        if pieces.rest and pieces.rest[0] * 4 < _SHORTEST:
            yield broken_off(source, pieces, f"a record of {pieces.rest[0] * 4} bytes")
            return
    if reader is None:
        raise BadSource(f"{source.path}: this is no DBN file")
    if pieces.broken:
        yield broken_off(source, pieces, pieces.broken)


def _starts(data: bytes) -> tuple[I64, int]:
    """Where whole records start, and where the last of them ends."""
    if len(data) < _SHORTEST:
        return np.empty(0, np.int64), 0
    letters = np.frombuffer(data, np.uint8)
    length = data[0] * 4
    if length >= _SHORTEST:
        starts = np.arange(0, len(data) - length + 1, length)
        other = np.flatnonzero(letters[starts] != data[0])
        if not other.size:
            return starts, int(starts.size * length)
    # records of several lengths
    offsets, at = [], 0
    while at < len(data):
        length = data[at] * 4
        if length < _SHORTEST or at + length > len(data):
            break
        offsets.append(at)
        at += length
    return np.array(offsets, np.int64), at


class _Records:
    """Records of one file as events."""

    def __init__(self, source: DataSource, metadata: Metadata) -> None:
        self.source, self.metadata = source, metadata
        self.time = source.mapped.get("ts", "ts_recv")
        if self.time not in ("ts_recv", "ts_event"):
            raise BadSource(f"{source.path}: `{self.time}` is no time of this format", "it has ts_recv and ts_event")
        if metadata.schema not in _TYPES:
            raise BadSource(f"{source.path}: records of schema {metadata.schema} are not supported yet", f"{', '.join(_TYPES)} are")
        self.type = _TYPES[metadata.schema]
        self.books = Books()

    def batch(self, data: bytes, starts: I64, offset: int) -> Batch:
        letters = np.frombuffer(data, np.uint8)
        ours = starts[letters[starts + 1] == self.type]
        layout = LAYOUTS[self.type]
        fits = ours[letters[ours].astype(np.int64) * 4 >= layout.itemsize]
        records = _gathered(letters, fits, layout)
        rows = fits + offset
        known = records[self.time] < _NO_TIME
        ts = np.where(known, records[self.time], records["ts_event"]).astype(np.int64)
        instruments = self.metadata.instruments(records["instrument_id"], ts)
        wanted = instruments >= 0
        book = self.type != _TYPES["trades"]
        short = np.setdiff1d(ours, fits, assume_unique=True)
        left_out = int(starts.size - short.size - wanted.sum())
        batch = Batch(empty(0), starts.size, left_out=left_out, binary=True, time=self.time, book=book)
        for at in short.tolist():
            detail = f"a record of {letters[at] * 4} bytes, where this type has {layout.itemsize}"
            batch.bad.append(self.source.bad(at + offset, "", "", Why.DAMAGED, detail, binary=True))
        records, rows, ts, instruments, known = records[wanted], rows[wanted], ts[wanted], instruments[wanted], known[wanted]
        form = self._orders if self.type == 0xA0 else self._prices
        for row in rows[~known].tolist():
            batch.bad.append(self.source.bad(row, self.time, "", Why.EMPTY, binary=True))
        beyond = known & (records[self.time] >= 2**63)
        for row, stamp in zip(rows[beyond].tolist(), records[self.time][beyond].tolist(), strict=True):
            batch.bad.append(self.source.bad(row, self.time, str(stamp), Why.OUT_OF_RANGE, binary=True))
        known &= ~beyond
        for column, legal in _LETTERS.items():
            wrong = known & ~np.isin(records[column], legal)
            for row, letter in zip(rows[wrong].tolist(), records[column][wrong].tolist(), strict=True):
                batch.bad.append(self.source.bad(row, column, chr(letter), Why.UNREADABLE, binary=True))
            known &= ~wrong
        form(batch, records[known], rows[known], ts[known], instruments[known])
        return batch

    def _start(self, rows: I64, ts: I64, instruments: I64) -> Events:
        events = empty(rows.size)
        events["ts"], events["stream"], events["instrument"], events["row"] = ts, self.source.stream, instruments, rows
        return events

    def _orders(self, batch: Batch, records: Events, rows: I64, ts: I64, instruments: I64) -> None:
        events = self._start(rows, ts, instruments)
        for action, kind in _ORDERS.items():
            events["kind"][records["action"] == ord(action)] = kind
        events["side"] = _sides(records["side"])
        for theirs, ours in ((_LAST, Flag.LAST), (_SNAPSHOT, Flag.SNAPSHOT), (_MAYBE_BAD, Flag.SUSPECT)):
            events["flags"] |= np.where(records["flags"] & theirs, int(ours), 0).astype(np.uint16)
        named = np.isin(events["kind"], [int(kind) for kind in (EventKind.ADD, EventKind.CANCEL, EventKind.REPLACE)])
        events["id"] = np.where(named, records["order_id"], 0)
        events["id2"] = np.where(events["kind"] == EventKind.REPLACE, records["order_id"], 0)
        priced = np.isin(events["kind"], [int(kind) for kind in (EventKind.ADD, EventKind.REPLACE, EventKind.TRADE)])
        batch.events = events
        self._numbers(batch, "price", records["price"], priced, "price", _PLACES)
        sizes = records["size"][np.isin(rows, batch.events["row"])]
        kinds = batch.events["kind"]
        self._numbers(batch, "qty", sizes.astype(np.int64), (kinds != 0) & (kinds != EventKind.BOOK_CLEAR), "size", 0)
        batch.events = batch.events[batch.events["kind"] != 0]

    def _prices(self, batch: Batch, records: Events, rows: I64, ts: I64, instruments: I64) -> None:
        """A trade where the record is one, and behind it the book that the record shows."""
        events = self._start(rows, ts, instruments)
        trades = records["action"] == ord("T")
        events["kind"], events["side"] = EventKind.TRADE, _sides(records["side"])
        suspect = records["flags"] & _MAYBE_BAD
        events["flags"] = np.where(suspect, Flag.LAST | Flag.SUSPECT, int(Flag.LAST))
        batch.events = events
        self._numbers(batch, "price", records["price"], trades, "price", _PLACES)
        some = np.isin(rows, batch.events["row"])
        self._numbers(batch, "qty", records["size"][some].astype(np.int64), trades[some], "size", 0)
        if "levels" not in (records.dtype.names or ()):
            batch.left_out += int((~trades).sum())
            batch.events = batch.events[trades[np.isin(rows, batch.events["row"])]]
            return
        some = np.isin(rows, batch.events["row"])
        events, records, trades = batch.events, records[some], trades[some]
        levels = records["levels"]
        sides, fine, below = [], np.ones(events.size, np.bool_), np.zeros(events.size, np.bool_)
        for side in ("bid", "ask"):
            prices, sizes = levels[f"{side}_px"], levels[f"{side}_sz"].astype(np.int64)
            there = (prices != _NO_PRICE) & (sizes > 0)
            below |= (there & (prices < 0)).any(axis=1) & (not self.source.signed)
            ticks, lots = np.zeros(prices.shape, np.int64), np.zeros(prices.shape, np.int64)
            for instrument in np.unique(events["instrument"]).tolist():
                here = events["instrument"] == instrument
                listing = self.source.listings[instrument]
                ticks[here], good_price = listing.tick.of_integers(np.where(there[here], prices[here], 0), _PLACES)
                lots[here], good_size = listing.lot.of_integers(np.where(there[here], sizes[here], 0), 0)
                fine[here] &= (good_price & good_size).all(axis=1)
            sides.append((ticks, lots))

        def text(place: int) -> str:
            return " ".join(map(str, levels[["bid_px", "ask_px"]][place].tolist()))

        refuse(batch, below, self.source, "levels", text, Why.NEGATIVE)
        kept = np.flatnonzero(~below)
        refuse(batch, ~fine[kept], self.source, "levels", lambda place: text(int(kept[place])), Why.OFF_GRID, "tick")
        fine &= ~below
        (bids, bid_lots), (asks, ask_lots) = ((ticks[fine], lots[fine]) for ticks, lots in sides)
        events, trades = events[fine], trades[fine]
        if levels.shape[1] == 1:
            batch.events = _quotes(events, trades, bids[:, 0], bid_lots[:, 0], asks[:, 0], ask_lots[:, 0])
        else:
            batch.events = self.books.differences(events, trades, (bids, bid_lots), (asks, ask_lots))

    def _numbers(self, batch: Batch, field: str, values: I64, which: npt.NDArray[np.bool_], column: str, power: int) -> None:
        """Puts numbers of a grid into the marked events; rows of those that aren't on it are refused."""
        events = batch.events
        off = np.zeros(events.size, np.bool_)
        for instrument in np.unique(events["instrument"]).tolist():
            here = which & (events["instrument"] == instrument)
            listing = self.source.listings[instrument]
            steps, good = (listing.lot if field == "qty" else listing.tick).of_integers(values[here], power)
            events[field][here] = steps
            off[here] = ~good
        none = which & (values == _NO_PRICE) if field == "price" else np.zeros_like(off)
        if field == "qty":
            wrong = which & (values == 0) & (events["kind"] == EventKind.TRADE)
        else:
            wrong = which & (values < 0) if not self.source.signed else np.zeros_like(off)
        grid = "lot" if field == "qty" else "tick"
        faults = (
            (none, Why.EMPTY, ""),
            (wrong & ~none, Why.ZERO if field == "qty" else Why.NEGATIVE, ""),
            (off & ~none & ~wrong, Why.OFF_GRID, grid),
        )
        places = np.arange(events.size)
        for marks, why, of_grid in faults:
            if marks.any():
                left = places

                def text(place: int, left: I64 = left, why: Why = why) -> str:
                    return "" if why is Why.EMPTY else _decimal(int(values[left[place]]), power)

                refuse(batch, marks[left], self.source, column, text, why, of_grid)
                places = left[~marks[left]]


def _gathered(letters: npt.NDArray[np.uint8], starts: I64, layout: np.dtype[np.void]) -> Events:
    """The records at these places."""
    if starts.size == 0:
        return np.empty(0, layout)
    stride = int(starts[1] - starts[0]) if starts.size > 1 else layout.itemsize
    if (np.diff(starts) == stride).all():
        return np.ndarray(starts.shape, layout, letters.data, int(starts[0]), (stride,))
    events: Events = letters[starts[:, None] + np.arange(layout.itemsize)].copy().view(layout)[:, 0]
    return events


def _quotes(events: Events, trades: npt.NDArray[np.bool_], bid: I64, bid_lots: I64, ask: I64, ask_lots: I64) -> Events:
    """The best of both sides, behind the trade where there was one."""
    quotes = events.copy()
    quotes["kind"], quotes["side"] = EventKind.QUOTE, MarketSide.NONE
    quotes["price"], quotes["qty"], quotes["price2"], quotes["qty2"] = bid, bid_lots, ask, ask_lots
    flag_crossed(quotes)
    both = np.empty(2 * events.size, events.dtype)
    both[0::2], both[1::2] = events, quotes
    both["flags"][0::2] &= 0xFFFF ^ int(Flag.LAST)
    wanted = np.ones(both.size, np.bool_)
    wanted[0::2] = trades
    return both[wanted]


def _sides(letters: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.where(
        letters == ord("B"), int(MarketSide.BUY), np.where(letters == ord("A"), int(MarketSide.SELL), int(MarketSide.NONE))
    ).astype(np.uint8)


def _decimal(value: int, power: int) -> str:
    from decimal import Decimal

    return f"{Decimal(value).scaleb(-power):f}"
