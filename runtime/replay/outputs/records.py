"""The records that an engine hands over, declared once. Prices are ticks, quantities lots, money whole units at its currency's scale, times
ns since 1970 UTC; the layout is that of a C struct on a little-endian machine, without padding."""

from collections.abc import Sequence
from enum import IntEnum, IntFlag
from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.records import frozen
from runtime.replay.grids import GridStep

Records = npt.NDArray[Any]
"""An array of one of the layouts below."""
I64 = npt.NDArray[np.int64]


class OrderState(IntEnum):
    """Of an order. The first four are open."""

    NEW = 0
    PENDING = 1
    LIVE = 2
    PART_FILLED = 3
    FILLED = 4
    CANCELLED = 5
    REJECTED = 6
    """By the market; what the own risk block refuses is a REJECT and no order."""
    EXPIRED = 7


class Tif(IntEnum):
    GTC = 0
    DAY = 1
    IOC = 2
    FOK = 3


class OrderOption(IntFlag):
    MARKET = 1
    """The limit says nothing."""
    POST_ONLY = 2
    REDUCE_ONLY = 4


class RiskRule(IntFlag):
    """The rules of a risk block, as bits of the mask of those that an order breaks."""

    KILL = 1
    MAX_ORDER_QTY = 2
    MAX_NOTIONAL = 4
    PRICE_COLLAR = 8
    MAX_POSITION = 16
    RATE = 32
    DUPLICATE_ID = 64
    SELF_TRADE = 128
    STALE_DATA = 256
    MAX_OPEN_ORDERS = 512
    MAX_LOSS = 1024
    BAD_INPUT = 2048


def mask_text(mask: int) -> str:
    """The rules of a mask, by name."""
    return ", ".join(rule_name(rule) for rule in RiskRule if mask & rule)


def rule_name(rule: RiskRule) -> str:
    return str(rule.name).lower()


ORDER = np.dtype(
    [
        ("id", "<u8"),
        ("ts", "<i8"),  # sent
        ("done", "<i8"),  # its last report; open orders: nothing
        ("qty", "<i8"),
        ("limit", "<i8"),
        ("filled", "<i8"),
        ("instrument", "<u4"),
        ("side", "u1"),
        ("tif", "u1"),
        ("state", "u1"),
        ("options", "u1"),
    ]
)
"""An order, once it has ended or at the end of the run."""

FILL = np.dtype(
    [
        ("ts", "<i8"),
        ("order", "<u8"),
        ("price", "<i8"),
        ("qty", "<i8"),
        ("fee", "<i8"),
        ("realized", "<i8"),  # so far, after this fill
        ("position", "<i8"),  # after this fill
        ("instrument", "<u4"),
        ("side", "u1"),
        ("maker", "u1"),
        ("unused", "<u2"),
    ]
)

REJECT = np.dtype(
    [
        ("ts", "<i8"),
        ("order", "<u8"),
        ("qty", "<i8"),
        ("limit", "<i8"),
        ("instrument", "<u4"),
        ("mask", "<u2"),
        ("side", "u1"),
        ("options", "u1"),
    ]
)

PNL = np.dtype(
    [
        ("ts", "<i8"),
        ("position", "<i8"),
        ("mark2", "<i8"),  # in half ticks: the mid may stand between two ticks
        ("realized", "<i8"),
        ("unrealized", "<i8"),
        ("fees", "<i8"),
        ("net", "<i8"),
        ("instrument", "<u4"),
        ("marked", "<u4"),  # 1: `mark2` is one, 0: there was no price yet
    ]
)
"""Profit and loss of an instrument at a moment."""

LATENCY = np.dtype([("ts", "<i8"), ("row", "<u8"), ("ns", "<f8"), ("handler", "<u4"), ("calls", "<u4")])
"""`calls` were timed together and took `ns` each on average."""

LAYOUTS = {"orders": ORDER, "fills": FILL, "rejects": REJECT, "pnl": PNL, "latency": LATENCY}
"""The tables of records; `bad_rows` has text in it and stands beside them."""


@frozen
class LogRow:
    """What a program noted at a moment: the row of data at hand, the line of the program, the text."""

    ts: int
    row: int
    line: int
    text: str


@frozen
class TradedInstrument:
    """An instrument: its grid, and the currency that it earns in, with the digits that money has there."""

    name: str
    tick: GridStep
    lot: GridStep
    currency: str
    scale: int


@frozen
class RunDescription:
    """What the outputs say about their run beside the numbers. `handlers`: names of those that latencies are of, by number.
    `target_ns`: what the critical path promised. `remark`: stands first in the report."""

    program: str
    instruments: Sequence[TradedInstrument]
    data: Sequence[str] = ()
    handlers: Sequence[str] = ()
    target_ns: float | None = None
    remark: str = ""
    logs: bool = False
    """The program writes a log."""

    @property
    def currencies(self) -> dict[str, int]:
        """Scales by name, in the order of the instruments."""
        return {instrument.currency: instrument.scale for instrument in self.instruments}
