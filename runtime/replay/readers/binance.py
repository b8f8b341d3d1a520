"""Binance's market streams: trades, best quotes, and books as a snapshot with numbered differences behind it."""

from collections import deque
from typing import Any

from attrs import define, field

from runtime.replay.bad_rows import Why
from runtime.replay.batches import Source
from runtime.replay.collecting import Collector, RowFault
from runtime.replay.events import Flag, Kind, Side
from runtime.replay.readers.json_fields import Symbols, integer_of, levels_of, moment_of, text_of

Level = tuple[Side, str, str]
KEPT = 256
"""Differences that are kept for a snapshot that comes later than they do."""


@define
class Chain:
    """The numbered differences of one book. `last`: the number that the book is at; None before the first."""

    last: int | None = None
    recent: deque[tuple[int, int, list[Level]]] = field(factory=lambda: deque(maxlen=KEPT))


class Binance:
    """`--map snapshot=none` says that the book is empty when the file begins; without it a book isn't whole before its first snapshot."""

    def __init__(self, source: Source) -> None:
        self.symbols = Symbols(source)
        self.whole = source.mapped.get("snapshot") == "none"
        self.chains: dict[int, Chain] = {}
        self.trades: str | None = None

    def take(self, message: dict[str, Any], row: int, received: int | None, into: Collector) -> bool:
        """One message; False when nobody asked for it. Raises RowFault."""
        data = message.get("data", message)
        if not isinstance(data, dict):
            raise RowFault("data", "", Why.UNREADABLE)
        if "lastUpdateId" in data:
            return self._snapshot(data, row, received, into)
        kind = data.get("e", "bookTicker" if {"u", "b", "B", "a", "A"} <= set(data) else None)
        if kind not in ("trade", "aggTrade", "bookTicker", "depthUpdate"):
            return False
        instrument = self.symbols.find(text_of(data, "s"))
        if instrument is None:
            return False
        ts = moment_of(data, ("E", "T"), received)
        if kind == "bookTicker":
            into.add(
                row, ts, instrument, Kind.QUOTE, id=integer_of(data, "u"),
                price=text_of(data, "b"), qty=text_of(data, "B"), price2=text_of(data, "a"), qty2=text_of(data, "A"),
            )  # fmt: skip
            return True
        if kind == "depthUpdate":
            return self._difference(data, row, ts, instrument, into)
        self.trades = self.trades or kind
        if kind != self.trades:
            # single trades and their sums tell the same twice
            return False
        maker = data.get("m")
        if not isinstance(maker, bool):
            raise RowFault("m", "" if maker is None else str(maker), Why.EMPTY if maker is None else Why.UNREADABLE)
        into.add(
            row, ts, instrument, Kind.TRADE, side=Side.SELL if maker else Side.BUY,
            id=integer_of(data, "t" if kind == "trade" else "a"), price=text_of(data, "p"), qty=text_of(data, "q"),
        )  # fmt: skip
        return True

    def _difference(self, data: dict[str, Any], row: int, ts: int, instrument: int, into: Collector) -> bool:
        first, last = integer_of(data, "U"), integer_of(data, "u")
        levels = [*levels_of(data, "b", Side.BUY), *levels_of(data, "a", Side.SELL)]
        chain = self.chains.setdefault(instrument, Chain())
        if chain.last is None and not self.whole:
            into.add(row, ts, instrument, Kind.GAP, id2=first, flags=Flag.LAST | Flag.SUSPECT)
        elif chain.last is not None:
            if last <= chain.last:
                return False
            # futures name the difference before; spot counts on
            follows = integer_of(data, "pu") == chain.last if "pu" in data else first <= chain.last + 1
            if not follows:
                into.add(row, ts, instrument, Kind.GAP, id=chain.last + 1, id2=first, flags=Flag.LAST | Flag.SUSPECT)
        chain.last = last
        chain.recent.append((first, last, levels))
        into.levels(row, ts, instrument, levels, id=last)
        return True

    def _snapshot(self, data: dict[str, Any], row: int, received: int | None, into: Collector) -> bool:
        """The whole book. It is often older than the differences around it: those that it lacks are told once more behind it."""
        instrument = self.symbols.only if "s" not in data else self.symbols.find(text_of(data, "s"))
        if instrument is None:
            raise RowFault("s", "", Why.EMPTY)
        ts = moment_of(data, ("E", "T"), received)
        number = integer_of(data, "lastUpdateId")
        levels = [*levels_of(data, "bids", Side.BUY), *levels_of(data, "asks", Side.SELL)]
        chain = self.chains.setdefault(instrument, Chain())
        newer = [one for one in chain.recent if one[1] > number]
        into.add(row, ts, instrument, Kind.BOOK_CLEAR, id=number, flags=Flag.SNAPSHOT | (0 if levels else Flag.LAST))
        into.levels(row, ts, instrument, levels, id=number, flags=Flag.SNAPSHOT)
        at = number
        for first, last, some in newer:
            if first > at + 1:
                into.add(row, ts, instrument, Kind.GAP, id=at + 1, id2=first, flags=Flag.LAST | Flag.SUSPECT)
            into.levels(row, ts, instrument, some, id=last)
            at = last
        chain.last = at
        return True
