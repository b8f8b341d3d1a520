"""The records that readers write and the engine reads, declared once. Prices and quantities are integers on the instrument's grid; the
layout is that of a C struct on a little-endian machine, without padding."""

from enum import IntEnum, IntFlag
from typing import Any

import numpy as np
import numpy.typing as npt

EVENT = np.dtype(
    [
        ("ts", "<i8"),  # ns since 1970 UTC
        ("stream", "<u4"),  # place of its file on the command line
        ("instrument", "<u4"),  # place of its instrument in the program
        ("kind", "u1"),
        ("side", "u1"),
        ("flags", "<u2"),
        ("level", "<u4"),  # HALT and STATUS: the venue's letter
        ("price", "<i8"),  # ticks; QUOTE: best bid
        ("qty", "<i8"),  # lots; QUOTE: at the best bid
        ("id", "<u8"),  # of the trade, order or update; GAP: the first number that is missing
        ("id2", "<u8"),  # REPLACE: the new order; EXECUTE: the match; GAP: the first number after it
        ("price2", "<i8"),  # QUOTE: best ask
        ("qty2", "<i8"),  # QUOTE: at the best ask
        ("row", "<u8"),  # text: line in its file, from 1; binary: offset of the message in the unpacked bytes
    ]
)
"""One event: 80 bytes."""

Events = npt.NDArray[Any]
"""An array of EVENT."""


class EventKind(IntEnum):
    """What happened."""

    TRADE = 1
    QUOTE = 2
    """The best of both sides; quantity 0 says that there is none."""
    BOOK_LEVEL = 3
    """The quantity now shown at a price; 0 takes the level away."""
    BOOK_CLEAR = 4
    """The levels and orders of a side are gone, or of both where the side is NONE."""
    ADD = 5
    """An order enters the book."""
    EXECUTE = 6
    """An order of the book trades `qty`, at its own price unless OWN_PRICE is set."""
    CANCEL = 7
    """An order of the book loses `qty`, and leaves it with its last lot."""
    DELETE = 8
    REPLACE = 9
    """Order `id` leaves the book and `id2` enters it on the same side, behind all others. The same id keeps its number."""
    GAP = 10
    """Something is missing before this moment. With SUSPECT the book can't be trusted until it is whole again."""
    HALT = 11
    STATUS = 12
    """Trading goes on."""


OF_BOOK = np.zeros(256, np.bool_)
OF_BOOK[EventKind.QUOTE : EventKind.REPLACE + 1] = True
"""By kind: whether an event says something of a book."""


class MarketSide(IntEnum):
    """BUY is the bid side of a book, and the aggressor of a trade that bought."""

    NONE = 0
    BUY = 1
    SELL = 2


class Flag(IntFlag):
    """What else there is to know."""

    LAST = 1
    """The last record of its row: only here has the book a state to look at."""
    SNAPSHOT = 2
    """Part of a whole book."""
    SUSPECT = 4
    """The book can't be trusted from here on."""
    CROSSED = 8
    """Within this row the best bid isn't below the best ask."""
    OWN_PRICE = 16
    """An execution at the price that it carries."""
    HIDDEN = 32
    """A trade against no order of the book."""
    AUCTION = 64
    NOT_PRINTED = 128
    """An execution that some other message reports as a trade."""
    WARM_UP = 256
    """Before the first moment asked for: it builds the book, and no handler sees it."""
    DAMAGED = 512
    """A gap of rows that couldn't be used."""
    TRUNCATED = 1024
    """A gap at the end of a file that broke off; `id` is the offset."""


def empty(count: int) -> Events:
    """So many records, all zero."""
    return np.zeros(count, EVENT)
