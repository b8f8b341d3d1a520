"""Hyperliquid's streams: whole books of some levels a side, and trades."""

from typing import Any

from runtime.replay.bad_rows import Why
from runtime.replay.batches import DataSource
from runtime.replay.collecting import Collector, Level, RowFault
from runtime.replay.events import EventKind, Flag, MarketSide
from runtime.replay.readers.json_fields import Symbols, integer_of, moment_of, text_of


class Hyperliquid:
    def __init__(self, source: DataSource) -> None:
        self.symbols = Symbols(source)

    def take(self, message: dict[str, Any], row: int, received: int | None, into: Collector) -> bool:
        """One message; False when nobody asked for it. Raises RowFault."""
        channel, data = message.get("channel"), message.get("data")
        if channel == "l2Book":
            if not isinstance(data, dict):
                raise RowFault("data", "", Why.UNREADABLE)
            return self._book(data, row, received, into)
        if channel == "trades":
            if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
                raise RowFault("data", "", Why.UNREADABLE)
            return sum(self._trade(item, row, received, into) for item in data) > 0
        return False

    def _book(self, data: dict[str, Any], row: int, received: int | None, into: Collector) -> bool:
        instrument = self.symbols.find(text_of(data, "coin"))
        if instrument is None:
            return False
        ts = moment_of(data, ("time",), received)
        sides = data.get("levels")
        if not isinstance(sides, list) or len(sides) != 2 or not all(isinstance(item, list) for item in sides):
            raise RowFault("levels", "", Why.UNREADABLE)
        levels: list[Level] = []
        for side, some in zip((MarketSide.BUY, MarketSide.SELL), sides, strict=True):
            for item in some:
                if not isinstance(item, dict):
                    raise RowFault("levels", str(item), Why.UNREADABLE)
                levels.append((int(side), text_of(item, "px"), text_of(item, "sz")))
        into.add(row, ts, instrument, int(EventKind.BOOK_CLEAR), flags=int(Flag.SNAPSHOT if levels else Flag.SNAPSHOT | Flag.LAST))
        into.levels(row, ts, instrument, levels, flags=int(Flag.SNAPSHOT))
        return True

    def _trade(self, data: dict[str, Any], row: int, received: int | None, into: Collector) -> bool:
        instrument = self.symbols.find(text_of(data, "coin"))
        if instrument is None:
            return False
        side = {"B": MarketSide.BUY, "A": MarketSide.SELL}.get(text_of(data, "side"))
        if side is None:
            raise RowFault("side", str(data["side"]), Why.UNREADABLE)
        ts = moment_of(data, ("time",), received)
        price, qty = text_of(data, "px"), text_of(data, "sz")
        into.add(row, ts, instrument, int(EventKind.TRADE), side=int(side), id=integer_of(data, "tid"), price=price, qty=qty)
        return True
