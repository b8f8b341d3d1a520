"""Binance's market streams: trades, best quotes, and books as a snapshot with numbered differences behind it."""

from collections import deque
from typing import Any

from runtime.records import define, field
from runtime.replay.bad_rows import Why
from runtime.replay.batches import DataSource
from runtime.replay.collecting import Collector, Level, RowFault
from runtime.replay.events import EventKind, Flag, MarketSide
from runtime.replay.readers.json_fields import Symbols, integer_of, levels_of, moment_of, text_of

KEPT = 256
"""Differences that are kept for a snapshot that comes later than they do."""

_TRADE, _QUOTE, _GAP, _CLEAR = (int(kind) for kind in (EventKind.TRADE, EventKind.QUOTE, EventKind.GAP, EventKind.BOOK_CLEAR))
_BUY, _SELL = int(MarketSide.BUY), int(MarketSide.SELL)
_LAST, _SNAPSHOT, _LOST = int(Flag.LAST), int(Flag.SNAPSHOT), int(Flag.LAST | Flag.SUSPECT)
_KINDS = frozenset(("trade", "aggTrade", "bookTicker", "depthUpdate"))


@define
class Chain:
    """The numbered differences of one book. `last`: the number that the book is at; None before the first."""

    last: int | None = None
    recent: deque[tuple[int, int, list[Level]]] = field(factory=lambda: deque(maxlen=KEPT))


class Binance:
    """`--map snapshot=none` says that the book is empty when the file begins; without it a book isn't whole before its first snapshot."""

    def __init__(self, source: DataSource) -> None:
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
        # spot quotes don't say what they are
        kind = data.get("e", "bookTicker" if "B" in data and "A" in data else None)
        if kind not in _KINDS:
            return False
        instrument = self.symbols.find(text_of(data, "s"))
        if instrument is None:
            return False
        ts = moment_of(data, ("E", "T"), received)
        if kind == "bookTicker":
            into.add(
                row, ts, instrument, _QUOTE, id=integer_of(data, "u"),
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
            row, ts, instrument, _TRADE, side=_SELL if maker else _BUY,
            id=integer_of(data, "t" if kind == "trade" else "a"), price=text_of(data, "p"), qty=text_of(data, "q"),
        )  # fmt: skip
        return True

    def _difference(self, data: dict[str, Any], row: int, ts: int, instrument: int, into: Collector) -> bool:
        first, last = integer_of(data, "U"), integer_of(data, "u")
        levels = [*levels_of(data, "b", _BUY), *levels_of(data, "a", _SELL)]
        chain = self.chains.setdefault(instrument, Chain())
        if chain.last is None and not self.whole:
            into.add(row, ts, instrument, _GAP, id2=first, flags=_LOST)
        elif chain.last is not None:
            if last <= chain.last:
                return False
            # futures name the difference before; spot counts on
            follows = integer_of(data, "pu") == chain.last if "pu" in data else first <= chain.last + 1
            if not follows:
                into.add(row, ts, instrument, _GAP, id=chain.last + 1, id2=first, flags=_LOST)
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
        levels = [*levels_of(data, "bids", _BUY), *levels_of(data, "asks", _SELL)]
        chain = self.chains.setdefault(instrument, Chain())
        newer = [update for update in chain.recent if update[1] > number]
        into.add(row, ts, instrument, _CLEAR, id=number, flags=_SNAPSHOT if levels else _SNAPSHOT | _LAST)
        into.levels(row, ts, instrument, levels, id=number, flags=_SNAPSHOT)
        at = number
        for first, last, some in newer:
            if first > at + 1:
                into.add(row, ts, instrument, _GAP, id=at + 1, id2=first, flags=_LOST)
            into.levels(row, ts, instrument, some, id=last)
            at = last
        chain.last = at
        return True
