"""Records put together one by one, for formats whose rows are taken apart in Python: numbers stay text until a block is full, then they
go onto their grids together."""

from collections.abc import Sequence

import numpy as np

from runtime.records import define, field
from runtime.replay.bad_rows import Why
from runtime.replay.batches import Batch, DataSource
from runtime.replay.columns import TextColumn, prices, settled
from runtime.replay.decoders import Decoders
from runtime.replay.events import EventKind, Flag, MarketSide, empty
from runtime.replay.tables import flag_crossed

_PLAIN = ("ts", "row", "instrument", "kind", "side", "flags", "id", "id2")
_DECIMAL = {"price": "tick", "qty": "lot", "price2": "tick", "qty2": "lot"}
_CALLED = {"price2": "price", "qty2": "qty"}
# an enumeration's members are slower than the numbers that they are
_LEVEL, _LAST, _NONE = int(EventKind.BOOK_LEVEL), int(Flag.LAST), int(MarketSide.NONE)

Level = tuple[int, str, str]
"""Side, price and quantity of a level."""


class RowFault(Exception):
    """A row that can't be used: the field, its text, and why."""

    def __init__(self, column: str, text: str, why: Why) -> None:
        super().__init__(column, text, why)
        self.column, self.text, self.why = column, text, why


@define
class Collector:
    """The records of a block."""

    source: DataSource
    decoders: Decoders
    rows: int = 0
    left_out: int = 0
    faults: list[tuple[int, RowFault]] = field(factory=list)
    _plain: list[tuple[int, ...]] = field(factory=list)
    _texts: list[tuple[str, str, str, str]] = field(factory=list)

    def add(
        self,
        row: int,
        ts: int,
        instrument: int,
        kind: int,
        *,
        side: int = _NONE,
        flags: int = _LAST,
        id: int = 0,
        id2: int = 0,
        price: str = "0",
        qty: str = "0",
        price2: str = "0",
        qty2: str = "0",
    ) -> None:
        """One record. Raises RowFault for a number that no field holds."""
        _check(id)
        _check(id2)
        self._plain.append((ts, row, instrument, kind, side, flags, id, id2))
        self._texts.append((price, qty, price2, qty2))

    def levels(self, row: int, ts: int, instrument: int, levels: Sequence[Level], *, id: int = 0, flags: int = 0) -> None:
        """Levels of one update, of which the last says so. Raises RowFault."""
        _check(id)
        if levels:
            self._plain += [(ts, row, instrument, _LEVEL, side, flags, id, 0) for side, _, _ in levels]
            self._plain[-1] = (ts, row, instrument, _LEVEL, levels[-1][0], flags | _LAST, id, 0)
            self._texts += [(price, qty, "0", "0") for _, price, qty in levels]

    def marked(self) -> tuple[int, int]:
        """A place to come back to when a row turns out bad."""
        return len(self._plain), self.left_out

    def back(self, mark: tuple[int, int]) -> None:
        self._plain, self._texts, self.left_out = self._plain[: mark[0]], self._texts[: mark[0]], mark[1]

    def batch(self) -> Batch:
        """Everything so far."""
        events = empty(len(self._plain))
        batch = Batch(events, self.rows, left_out=self.left_out, book=True)
        batch.bad = [self.source.bad(row, fault.column, fault.text, fault.why) for row, fault in self.faults]
        if not self._plain:
            return batch
        events["stream"] = self.source.stream
        for name, numbers in zip(_PLAIN, zip(*self._plain, strict=True), strict=True):
            events[name] = numbers
        wrong: dict[int, tuple[str, str, Why, str]] = {}
        for (name, grid), texts in zip(_DECIMAL.items(), zip(*self._texts, strict=True), strict=True):
            column = _column(texts, self.decoders)
            for instrument in np.unique(events["instrument"]).tolist():
                rows = np.flatnonzero(events["instrument"] == instrument)
                part = TextColumn(column.bytes, column.starts[rows], column.lengths[rows], self.decoders)
                listing = self.source.listings[instrument]
                values, faults = prices(part, listing.tick) if grid == "tick" else settled(part, listing.lot)
                events[name][rows] = values
                if grid == "lot" or not self.source.signed:
                    faults |= dict.fromkeys(np.flatnonzero(values < 0).tolist(), Why.NEGATIVE)
                if name == "qty":
                    none = np.flatnonzero((values == 0) & (events["kind"][rows] == EventKind.TRADE))
                    faults = {**dict.fromkeys(none.tolist(), Why.ZERO), **faults}
                for position, why in faults.items():
                    detail = self.source.grid(instrument, grid) if why is Why.OFF_GRID else ""
                    wrong.setdefault(int(rows[position]), (_CALLED.get(name, name), texts[rows[position]], why, detail))
        quotes = events["kind"] == EventKind.QUOTE
        if quotes.any():
            some = events[quotes]
            flag_crossed(some)
            events[quotes] = some
        if wrong:
            first: dict[int, int] = {}
            for position in sorted(wrong):
                first.setdefault(int(events["row"][position]), position)
            batch.bad += [self.source.bad(row, *wrong[position]) for row, position in first.items()]
            batch.events = events[~np.isin(events["row"], list(first))]
        return batch


def _column(texts: tuple[str, ...], decoders: Decoders) -> TextColumn:
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    joined = "".join(texts).encode("ascii", "replace")
    return TextColumn(np.frombuffer(joined, np.uint8), np.cumsum(lengths) - lengths, lengths, decoders)


def _check(number: int) -> None:
    """Ids are 64 bits without a sign."""
    if not 0 <= number < 2**64:
        raise RowFault("id", str(number), Why.NEGATIVE if number < 0 else Why.OUT_OF_RANGE)
