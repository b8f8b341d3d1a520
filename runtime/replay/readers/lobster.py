"""LOBSTER message files: the orders of a NASDAQ symbol, six fields a line, no header; times count from midnight in New York, the day stands
in the file's name. The layout is that of the publisher's description."""

from collections.abc import Iterator

import numpy as np

from runtime.replay.bad_rows import Why
from runtime.replay.batches import Batch, DataSource
from runtime.replay.columns import settled, whole
from runtime.replay.content import Content, WholeLines, line_blocks
from runtime.replay.days import NEW_YORK, midnight_of
from runtime.replay.decoders import Decoders
from runtime.replay.events import EventKind, Flag, MarketSide, empty
from runtime.replay.grids import GridStep
from runtime.replay.readers.fields import fields

_FIELDS = ("time", "type", "order id", "size", "price", "direction")
_NEW, _CANCEL, _DELETE, _EXECUTE, _HIDDEN, _CROSS, _HALT = range(1, 8)
_KINDS = {
    _NEW: EventKind.ADD, _CANCEL: EventKind.CANCEL, _DELETE: EventKind.DELETE, _EXECUTE: EventKind.EXECUTE, _HIDDEN: EventKind.TRADE,
    _CROSS: EventKind.TRADE, _HALT: EventKind.HALT,
}  # fmt: skip
_PLACES = 4
_HALTED, _QUOTING, _TRADING = -1, 0, 1
_LETTERS = {_HALTED: ord("H"), _QUOTING: ord("Q"), _TRADING: ord("T")}
"""What the price of a halt says; the letters are those of the exchange."""


def read(content: Content, source: DataSource, decoders: Decoders) -> Iterator[Batch]:
    """Orders, and trades against hidden ones. Raises BadSource."""
    instrument, midnight = source.only, midnight_of(source, NEW_YORK)
    for lines in line_blocks(content):
        yield _batch(lines, source, instrument, midnight, decoders)


def _batch(lines: WholeLines, source: DataSource, instrument: int, midnight: int, decoders: Decoders) -> Batch:
    cut = fields(lines, source, ",", np.arange(len(_FIELDS), dtype=np.int32), len(_FIELDS), decoders)
    rows, columns = cut.rows, dict(zip(_FIELDS, cut.columns, strict=True))
    listing = source.listings[instrument]
    events = empty(rows.size)
    wrong: dict[int, tuple[str, Why]] = {}

    def mark(name: str, places: list[int], why: Why) -> None:
        for row in places:
            wrong.setdefault(row, (name, why))

    columns_ = {}
    for name, step in zip(_FIELDS, (GridStep(9, 1), *[GridStep(0, 1)] * 5), strict=True):
        columns_[name], faults = settled(columns[name], step) if name == "time" else whole(columns[name])
        for row, why in faults.items():
            wrong.setdefault(row, (name, why))
    kinds = columns_["type"]
    mark("type", np.flatnonzero((kinds < _NEW) | (kinds > _HALT)).tolist(), Why.UNREADABLE)
    halts = kinds == _HALT
    mark("direction", np.flatnonzero(~halts & (np.abs(columns_["direction"]) != 1)).tolist(), Why.UNREADABLE)
    mark("size", np.flatnonzero(columns_["size"] < 0).tolist(), Why.NEGATIVE)
    ticks, on_tick = listing.tick.of_integers(np.where(halts, 0, columns_["price"]), _PLACES)
    lots, on_lot = listing.lot.of_integers(np.where(halts, 0, columns_["size"]), 0)
    idle = (kinds == _CROSS) & (columns_["size"] == 0)
    mark("size", np.flatnonzero((columns_["size"] == 0) & ((kinds == _EXECUTE) | (kinds == _HIDDEN))).tolist(), Why.ZERO)
    if not source.signed:
        mark("price", np.flatnonzero(~halts & (columns_["price"] < 0)).tolist(), Why.NEGATIVE)
    mark("price", np.flatnonzero(~on_tick).tolist(), Why.OFF_GRID)
    mark("size", np.flatnonzero(~on_lot).tolist(), Why.OFF_GRID)

    events["ts"], events["stream"], events["instrument"] = columns_["time"] + midnight, source.stream, instrument
    events["row"], events["price"], events["qty"], events["flags"] = rows, ticks, lots, Flag.LAST
    for number, kind in _KINDS.items():
        events["kind"][kinds == number] = kind
    buys = columns_["direction"] == 1
    resting = np.where(buys, int(MarketSide.BUY), int(MarketSide.SELL))
    trades = (kinds == _HIDDEN) | (kinds == _CROSS)
    events["side"] = np.select(
        [kinds == _NEW, kinds == _HIDDEN], [resting, MarketSide.BUY + MarketSide.SELL - resting], int(MarketSide.NONE)
    )
    events["id"] = np.where(trades | halts, 0, columns_["order id"])
    events["flags"][kinds == _HIDDEN] |= int(Flag.HIDDEN)
    events["flags"][kinds == _CROSS] |= int(Flag.AUCTION)
    events["kind"][halts & (columns_["price"] == _TRADING)] = EventKind.STATUS
    for price, letter in _LETTERS.items():
        events["level"][halts & (columns_["price"] == price)] = letter
    mark("price", np.flatnonzero(halts & (events["level"] == 0)).tolist(), Why.UNREADABLE)

    batch = Batch(events, rows.size + len(cut.misshapen), time="time", book=True, instrument=instrument)
    for row in sorted(wrong):
        name, why = wrong[row]
        detail = source.grid(instrument, "tick" if name == "price" else "lot") if why is Why.OFF_GRID else ""
        batch.bad.append(source.bad(int(rows[row]), name, columns[name].text(row), why, detail))
    idle[list(wrong)] = False
    # an auction without a match trades nothing
    batch.left_out = int(idle.sum())
    idle[list(wrong)] = True
    batch.events = events[~idle]
    batch.bad += cut.misshapen
    return batch
