"""The messages of NASDAQ TotalView-ITCH 5.0, as the exchange's specification has them. Each stands behind its length in 2 bytes."""

from runtime.records import Factory, frozen
from runtime.replay.events import EventKind, Flag

UNKNOWN, FOREIGN = -2, -1
"""What a locate code stands for before its symbol was seen, and when nobody wants its symbol."""


@frozen
class Message:
    """One type: its length, the record that it becomes, if any, and where fields of the record, and the symbol, stand: (offset, bytes)."""

    length: int
    kind: EventKind | None = None
    fields: dict[str, tuple[int, int]] = Factory(dict)
    symbol: int | None = None
    flags: Flag = Flag.LAST


MESSAGES: dict[str, Message] = {
    "S": Message(12),
    "R": Message(39, symbol=11),
    "H": Message(25, EventKind.HALT, {"level": (19, 1)}, symbol=11),
    "Y": Message(20),
    "L": Message(26),
    "V": Message(35),
    "W": Message(12),
    "K": Message(28),
    "J": Message(35),
    "h": Message(21),
    "A": Message(36, EventKind.ADD, {"id": (11, 8), "side": (19, 1), "qty": (20, 4), "price": (32, 4)}, symbol=24),
    "F": Message(40, EventKind.ADD, {"id": (11, 8), "side": (19, 1), "qty": (20, 4), "price": (32, 4)}, symbol=24),
    "E": Message(31, EventKind.EXECUTE, {"id": (11, 8), "qty": (19, 4), "id2": (23, 8)}),
    "C": Message(
        36,
        EventKind.EXECUTE,
        {"id": (11, 8), "qty": (19, 4), "id2": (23, 8), "printed": (31, 1), "price": (32, 4)},
        flags=Flag.LAST | Flag.OWN_PRICE,
    ),
    "X": Message(23, EventKind.CANCEL, {"id": (11, 8), "qty": (19, 4)}),
    "D": Message(19, EventKind.DELETE, {"id": (11, 8)}),
    "U": Message(35, EventKind.REPLACE, {"id": (11, 8), "id2": (19, 8), "qty": (27, 4), "price": (31, 4)}),
    # the side of a trade against a hidden order says nothing since 2014
    "P": Message(44, EventKind.TRADE, {"qty": (20, 4), "price": (32, 4), "id": (36, 8)}, symbol=24, flags=Flag.LAST | Flag.HIDDEN),
    "Q": Message(40, EventKind.TRADE, {"qty": (11, 8), "price": (27, 4), "id": (31, 8)}, symbol=19, flags=Flag.LAST | Flag.AUCTION),
    "B": Message(19),
    "I": Message(50),
    "N": Message(20),
    "O": Message(48),
}

PRICE_PLACES = 4
"""Prices are in 10^-4 of the currency."""

GRID = 4
"""Numbers of a grid: units of a message are multiplied by the first and divided by the second for ticks, third and fourth for lots."""

COLUMNS = ("", "side", "qty", "price")
"""What can be wrong with a message; the first is the message itself. A quantity of 0 is none, in whatever message."""

BAD = 4
"""Numbers of a bad message: its offset, the place in COLUMNS, the number that stands there, the instrument."""

LETTERS, LOCATES = 1 << 8, 1 << 16
"""Types of messages, and codes of symbols, that can be told apart."""

LOCATE, TIME = 1, 5
"""Where every message has the code of its symbol (2 bytes) and its time (6)."""
