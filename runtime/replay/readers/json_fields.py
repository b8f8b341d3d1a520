"""Fields of JSON messages: decimals as text, whole numbers, times, levels, and which instrument a symbol is."""

import json
from typing import Any

from runtime.replay.bad_rows import BadSource, Why
from runtime.replay.batches import DataSource
from runtime.replay.collecting import Level, RowFault


class Symbols:
    """Which instrument a message's symbol is. A file of one symbol may be bound to an instrument of another name: `ES=file`."""

    def __init__(self, source: DataSource) -> None:
        self.source, self.bound = source, source.mapped.get("symbol")
        self._known: dict[str, int | None] = {}

    def find(self, symbol: str) -> int | None:
        """None for a symbol that nobody wants. Raises BadSource where a second one would have to be told apart."""
        if symbol not in self._known:
            self._known[symbol] = self._look(symbol)
        return self._known[symbol]

    @property
    def only(self) -> int | None:
        """The instrument of a message that names none: the one that the file has been about."""
        found = {one for one in self._known.values() if one is not None}
        if not found and len(self.source.listings) == 1:
            return 0
        return found.pop() if len(found) == 1 else None

    @property
    def strangers(self) -> tuple[str, ...]:
        """The symbols so far, where nobody wants one of them."""
        return () if any(place is not None for place in self._known.values()) else tuple(self._known)

    def _look(self, symbol: str) -> int | None:
        source = self.source
        if source.symbol is not None:
            place = source.index(source.symbol)
            if self.bound is None and any(one is not None for one in self._known.values()):
                first = next(name for name, one in self._known.items() if one is not None)
                raise BadSource(f"{source.path}: the file is about `{first}` and `{symbol}`", f"--map symbol={first}")
            return place if self.bound is None or symbol.upper() == self.bound.upper() else None
        for place, one in enumerate(source.listings):
            if one.name.upper() == (symbol if self.bound is None else self.bound).upper():
                return place if self.bound is None or symbol.upper() == self.bound.upper() else None
        return None


def text_of(message: dict[str, Any], key: str) -> str:
    """A decimal as it stands. Raises RowFault."""
    value = message.get(key)
    if value is None or value == "":
        raise RowFault(key, "", Why.EMPTY)
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise RowFault(key, json.dumps(value), Why.UNREADABLE)


def integer_of(message: dict[str, Any], key: str) -> int:
    """A whole number. Raises RowFault."""
    value = message.get(key)
    if value is None:
        raise RowFault(key, "", Why.EMPTY)
    if isinstance(value, bool) or not isinstance(value, int):
        raise RowFault(key, json.dumps(value), Why.UNREADABLE)
    return value


def moment_of(message: dict[str, Any], keys: tuple[str, ...], received: int | None) -> int:
    """The time of receipt, or the first of these fields that is there, in ms. Raises RowFault."""
    if received is not None:
        return received
    key = next((key for key in keys if key in message), keys[0])
    ns = integer_of(message, key) * 10**6
    if not 0 <= ns < 2**63:
        raise RowFault(key, str(message[key]), Why.OUT_OF_RANGE)
    return ns


def levels_of(message: dict[str, Any], key: str, side: int) -> list[Level]:
    """Pairs of price and quantity. Raises RowFault."""
    pairs = message.get(key)
    if pairs is None:
        raise RowFault(key, "", Why.EMPTY)
    try:
        return [(side, price + "", qty + "") for price, qty, *_ in pairs]
    except (TypeError, ValueError):
        raise RowFault(key, json.dumps(pairs), Why.UNREADABLE) from None
