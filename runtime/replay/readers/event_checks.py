"""What events that are given as such must keep to: the rules that readers of files apply to theirs."""

import numpy as np
import numpy.typing as npt

from runtime.replay.bad_rows import Why
from runtime.replay.batches import NOBODY, Batch, DataSource
from runtime.replay.events import EventKind, Events, Flag, MarketSide
from runtime.replay.grids import beyond
from runtime.replay.tables import flag_crossed

Marks = npt.NDArray[np.bool_]

_FLAGS = sum(Flag)


def _of(*kinds: EventKind) -> Marks:
    """A table of all numbers of kinds: which are these."""
    marks = np.zeros(256, np.bool_)
    marks[[int(kind) for kind in kinds]] = True
    return marks


_KNOWN = _of(*EventKind)
_ANY_INSTRUMENT = _of(EventKind.GAP)
_ON_A_SIDE = _of(EventKind.BOOK_LEVEL, EventKind.ADD)
_PRICED = _of(EventKind.TRADE, EventKind.QUOTE, EventKind.BOOK_LEVEL, EventKind.ADD, EventKind.REPLACE)
_COUNTED = _of(
    EventKind.TRADE, EventKind.QUOTE, EventKind.BOOK_LEVEL, EventKind.ADD, EventKind.EXECUTE, EventKind.CANCEL, EventKind.REPLACE
)
_NOT_OF_NOTHING = _of(EventKind.TRADE, EventKind.ADD, EventKind.EXECUTE, EventKind.CANCEL, EventKind.REPLACE)


def check_events(batch: Batch, source: DataSource) -> None:
    """Refuses events of no kind, side or flag that there is, with quantities below 0, trades and orders of nothing, and prices below 0."""
    events = batch.events
    kinds = events["kind"]
    quotes, own_price = kinds == EventKind.QUOTE, (kinds == EventKind.EXECUTE) & ((events["flags"] & Flag.OWN_PRICE) != 0)
    no_side = (events["side"] > max(MarketSide)) | (_ON_A_SIDE[kinds] & (events["side"] == MarketSide.NONE))
    faults: list[tuple[str, Marks, Why]] = [
        ("kind", ~_KNOWN[kinds], Why.UNREADABLE),
        ("instrument", (events["instrument"] == NOBODY) & ~_ANY_INSTRUMENT[kinds], Why.OUT_OF_RANGE),
        ("side", no_side, Why.UNREADABLE),
        ("flags", (events["flags"] & (0xFFFF ^ _FLAGS)) != 0, Why.UNREADABLE),
        ("qty", _COUNTED[kinds] & (events["qty"] < 0), Why.NEGATIVE),
        ("qty2", quotes & (events["qty2"] < 0), Why.NEGATIVE),
        ("qty", _NOT_OF_NOTHING[kinds] & (events["qty"] == 0), Why.ZERO),
        ("price", (_PRICED[kinds] | own_price) & beyond(events["price"]), Why.OUT_OF_RANGE),
        ("price2", quotes & beyond(events["price2"]), Why.OUT_OF_RANGE),
    ]
    if not source.signed:
        there = _PRICED[kinds] & ~(quotes & (events["qty"] == 0))
        faults += [
            ("price", (there | own_price) & (events["price"] < 0), Why.NEGATIVE),
            ("price2", quotes & (events["qty2"] > 0) & (events["price2"] < 0), Why.NEGATIVE),
        ]
    wrong = np.zeros(events.size, np.bool_)
    for column, marks, why in faults:
        fresh = marks & ~wrong
        if fresh.any():
            wrong |= fresh
            batch.bad += [
                source.bad(row, column, _text(source, column, event), why)
                for row, event in zip(events["row"][fresh].tolist(), events[fresh], strict=True)
            ]
    if wrong.any():
        batch.events = events[~wrong]
    some = batch.events[batch.events["kind"] == EventKind.QUOTE]
    if some.size:
        flag_crossed(some)
        batch.events[batch.events["kind"] == EventKind.QUOTE] = some


def _text(source: DataSource, column: str, event: Events) -> str:
    """A number as a file would have it."""
    number, instrument = int(event[column]), int(event["instrument"])
    if instrument >= len(source.listings) or column not in ("price", "price2", "qty", "qty2"):
        return str(number)
    listing = source.listings[instrument]
    return (listing.tick if column.startswith("price") else listing.lot).text(number)
