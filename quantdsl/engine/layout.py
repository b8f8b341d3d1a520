"""The memory of a replay, declared once: what the engine keeps and what a program's handlers read. Prices are ticks, quantities lots, money
units of the currency's scale, times ns since 1970 UTC.

One `ENGINE_STATE` is one strategy on one instrument. The engine (compiled once for a machine) and the program (compiled for each) share it;
what only the program knows the size of, the states of the strategy, its signals and its risk rules, lies in the program's own `state`."""

from typing import Any

from compiler.hir.native_types import F64, I1, I64, I128, U8, U16, U32, U64, optional, struct
from compiler.hir.types import Array, Struct
from quantdsl.native.slab import Slab
from runtime.replay import events
from runtime.replay.events import MarketSide
from runtime.replay.outputs import records
from runtime.replay.outputs.records import OrderOption, OrderState, Tif

OPEN = 1024
"""Orders that may be open at once; one more is refused with the bit of `max_open_orders`."""
LEVELS = 4096
"""Price levels that a side of the book holds; the worst one beyond that is dropped, and the side marked `lost`."""
BOOK_ORDERS = 1 << 20
"""Resting orders of the data that the book knows by their number."""
JOURNAL = 1 << 13
"""Changes of one message that can be taken back."""
REQUESTS = REPORTS = 1 << 13
"""Requests and reports that may be on their way at once."""
RESERVED = 2 * OPEN
"""Places among the requests that are kept for the cancels of a `kill`."""
LOTS = 1 << 13
"""Open fills that `fifo` tells apart."""
TIMERS = BARS = 8
RECORDS = 1 << 15
"""Records of each output that are kept until they are collected."""
ENOUGH = RECORDS // 2
"""So many records of one table stop the loop. One event and what follows from it at the same moment has the other half."""
NS_OF_DAY = 86_400_000_000_000

BUY, SELL = (int(side) - 1 for side in (MarketSide.BUY, MarketSide.SELL))
"""A side, as the language's enum counts its cases, and an index; a side of records less 1, for they have none as well."""
GTC, DAY, IOC, FOK = (int(tif) for tif in (Tif.GTC, Tif.DAY, Tif.IOC, Tif.FOK))
"""Of records, and the order of the language's enum `Tif`."""
NEXT, TOUCH, QUEUE = range(3)
"""How resting orders fill."""
AVERAGE, FIFO = range(2)
"""How the position is accounted."""
ACTIVE, REDUCING, KILLED = range(3)
"""Trading: `trading` never falls."""
MARKET, POST_ONLY, REDUCE_ONLY = (int(option) for option in (OrderOption.MARKET, OrderOption.POST_ONLY, OrderOption.REDUCE_ONLY))
"""Options of an order."""
NEW, CANCEL, REPLACE = range(3)
"""Kinds of requests."""
ACKED, TRADED, ENDED, CHANGED = range(4)
"""Kinds of reports."""
PENDING, PART_FILLED, FILLED = (int(state) for state in (OrderState.PENDING, OrderState.PART_FILLED, OrderState.FILLED))

_NUMBERS = {"<i8": I64, "<u8": U64, "<u4": U32, "<u2": U16, "|u1": U8, "<f8": F64}


def _of_dtype(name: str, dtype: Any) -> Struct:
    """A struct that lies in memory as a record of NumPy without padding does."""
    return struct(name, **{field: _NUMBERS[of.str] for field, (of, *_) in dtype.fields.items()})


# ---- what comes in ------------------------------------------------------------------------------------------------------------

EVENT = _of_dtype("event", events.EVENT)

# ---- what handlers see: the structs of the prelude ----------------------------------------------------------------------------

TRADE = struct(
    "Trade",
    ts=I64,
    price=I64,
    qty=I64,
    side=optional(U8),  # the aggressor's
    id=U64,
)
QUOTE = struct("Quote", ts=I64, bid=I64, ask=I64, bid_qty=I64, ask_qty=I64)
BAR = struct("Bar", ts=I64, open=I64, high=I64, low=I64, close=I64, volume=I64, trades=I64)
ACK = struct("Ack", ts=I64, id=U64)
FILL = struct("Fill", ts=I64, id=U64, side=U8, price=I64, qty=I64, fee=I64, maker=I1, tag=I64)
CANCELLED = struct("Cancelled", ts=I64, id=U64, qty=I64)
REJECT = struct("Reject", ts=I64, why=U32, side=U8, qty=I64, tag=I64)
GAP = struct("Gap", ts=I64, expected=U64, found=U64)
HALT = struct("Halt", ts=I64, halted=I1)
POSITION = struct(
    "Position",
    qty=I64,  # below zero: short
    avg_price=optional(I64),  # the mean of the open part, to the nearest tick
    cost=I64,  # of the open part
    realized=I64,
    unrealized=I64,  # value at the mark less cost
    fees=I64,
    net=I64,  # realized + unrealized - fees
    max_drawdown=I64,  # the deepest fall of `net`
    volume=I64,  # lots traded
    open_buys=I64,  # the most that open orders may still buy
    open_sells=I64,
)
RECORDS_OF_EVENTS = {
    "trade": TRADE,
    "quote": QUOTE,
    "bar": BAR,
    "ack": ACK,
    "fill": FILL,
    "cancelled": CANCELLED,
    "reject": REJECT,
    "gap": GAP,
    "halt": HALT,
}

# ---- the market -----------------------------------------------------------------------------------------------------------------

LEVEL = struct(
    "level",
    qty=I64,  # displayed
    taken=I64,  # by own orders, since the data last changed the level
    number=I64,  # of the update that set it last
)
WIDTH = 32
"""Levels of a block of a ladder; those behind `WIDTH` are never any, so that as many can be moved at once from anywhere."""
BLOCKS = LEVELS // 4
SHIFTED = {name: struct("shifted", items=Array(element, WIDTH)) for name, element in (("keys", U64), ("places", U16))}
BLOCK = struct(
    "block",
    size=I64,  # 0 to WIDTH
    after=I64,  # the next block
    keys=Array(U64, 2 * WIDTH + 1),  # of prices (`book_ladder.price_key`), the largest first
    places=Array(U16, 2 * WIDTH + 1),  # where the rest of each level is among `levels`
)
LADDER = struct(
    "ladder",
    count=I64,  # of levels
    more=I64,  # blocks beside the first one, which is number 0
    last=I64,  # the rank that was found last
    lost=I1,  # a level was dropped for want of room
    lost_from=I64,  # the best price of those dropped
    order=Array(U16, BLOCKS + 1),  # numbers of blocks by rank
    begins=Array(U64, BLOCKS),  # the best key that each block but the first may hold
    blocks=Array(BLOCK, BLOCKS),
    levels=Array(LEVEL, LEVELS),
    free=Array(U16, LEVELS),  # places that no level has, from number `count` on
)
"""One side, the best level first, in blocks; `book_ladder.py` says how."""
BOOK_ORDER = struct(
    "book_order",
    id=U64,
    price=I64,
    qty=I64,
    side=U8,
    used=U8,  # 1; 2 while the table grows, of those that haven't found their new slot
    hidden=U8,  # 1: the message that brought the order was refused
)
"""A hidden order is shown by no level; what becomes of it is followed all the same, so that its trades are reported."""
CHANGE = struct(
    "change",
    what=U8,  # 0 a level, 1 an order, 2 `lost` and `lost_from` (in `qty` and `price`), 3 `incomplete` (in `qty`)
    side=U8,
    price=I64,
    qty=I64,
    taken=I64,
    number=I64,  # -1: there was no order
    id=U64,
)
"""How to take back one change."""
BOOK = struct(
    "book",
    sides=Array(LADDER, 2),  # bids, then asks, as `BUY` and `SELL` count them
    updated=optional(I64),  # the time of the last good update
    suspect=I1,  # not to be trusted until the next good update
    known=I1,  # no update of the message so far spoke of an unknown order
    deep=I1,  # levels or orders came since both sides were cleared, so a quote isn't all there is
    within=I1,  # a message has begun and not ended
    unseen=I1,  # something changed that the journal doesn't have and own orders haven't looked at
    crossed=I64,  # messages refused or trimmed
    adds_refused=Array(I64, 3),  # orders of refused messages, those whose number was taken, those without room
    unknown=Array(I64, 4),  # events of orders that aren't there, by kind from `EXECUTE` on
    incomplete=I1,  # something didn't fit, and the book is suspect until both sides are cleared
    left_out=I64,  # how often
    number=I64,  # of updates
    changes=I64,  # of the last message, in the journal; above JOURNAL: too many; 0 once own orders have looked at it
    journal=Array(CHANGE, JOURNAL),
    order_count=I64,
    grown=I64,  # how often the table of orders has doubled
    orders=Array(BOOK_ORDER, 2 * BOOK_ORDERS),
)

# ---- orders ---------------------------------------------------------------------------------------------------------------------

EXCHANGE_ORDER = struct(
    "exchange_order",
    limit=I64,
    qty=I64,
    left=I64,  # of `qty`
    display=I64,  # of an iceberg, still shown
    ahead=I64,  # in the queue at its limit
    session=I64,  # when one for the day ends
    arrival=I64,  # counts places taken
    at_market=I1,  # without a limit
    resting=I1,
    waiting=I1,  # for its stop
)
"""An order as the market holds it."""
ORDER = struct(
    "order",
    id=U64,
    ts=I64,  # sent
    done=I64,  # its last report
    qty=I64,
    limit=I64,
    filled=I64,
    asked=I64,  # the quantity of a replace on its way, 0 for none
    held_at=I64,  # the price that it counts with in open notional
    tag=I64,
    stop=I64,
    shown=I64,  # of an iceberg, 0 for all
    state=U8,  # `outputs.records.OrderState`
    side=U8,
    tif=U8,
    options=U8,
    has_stop=I1,
    place=I64,  # its index among `open`
    linked=U64,  # the order that is cancelled when this one fills, 0 for none
    exchange=EXCHANGE_ORDER,
)
"""An open order as the strategy knows it, and as the market does."""
SLAB = Slab(ORDER, OPEN)

QUEUED = struct("queued", count=I64, slots=Array(I64, OPEN))
"""Orders in the market, by their slots."""
REQUEST = struct(
    "request",
    due=I64,
    kind=U8,
    slot=I64,  # the order's; the order may have gone meanwhile, then `id` differs
    id=U64,
    qty=I64,
    limit=I64,
    at_market=I1,
    before=I64,  # the order's `asked` before a replace
)
REPORT = struct(
    "report",
    due=I64,
    kind=U8,  # TRADED: `price`, `qty`, `maker`; ENDED: `state`; CHANGED: `qty`, `price`, `at_market` as they are now
    slot=I64,
    id=U64,
    price=I64,
    qty=I64,
    maker=I1,
    state=U8,
    at_market=I1,
)


def queue(element: Struct, capacity: int) -> Struct:
    """First in, first out; `first` and `next` count on and on, places are these modulo the capacity (a power of two)."""
    return struct("queue", first=I64, next=I64, items=Array(element, capacity))


TIMER = struct("timer", due=I64, period=I64, number=I64)
BAR_BUILDER = struct(
    "bar_builder",
    kind=U8,  # 0 of a duration, 1 of so many trades, 2 of a volume
    size=I64,  # ns, trades or lots
    end=I64,  # when one of a duration closes
    started=I1,
    bar=BAR,
)
FEES = struct(
    "fees",
    numerator=I64,  # value * numerator / denominator, away from the trader's favour
    denominator=I64,
    per_lot=I64,  # money
)
SETTINGS = struct(
    "settings",
    instrument=U32,
    fills=U8,  # NEXT, TOUCH, QUEUE
    accounting=U8,  # AVERAGE, FIFO
    trim=I1,  # crossed messages are trimmed, not refused
    out=I64,  # ns from a request to the market
    back=I64,  # ns from the market to a report
    tick_value=I64,  # money of one lot and one tick
    tick_divisor=F64,  # a price of p ticks is p * tick_divisor / tick_power
    tick_power=F64,
    lot_divisor=F64,  # a quantity likewise
    lot_power=F64,
    maker=FEES,
    taker=FEES,
    has_session=I1,
    session_begin=I64,  # ns since midnight UTC
    session_end=I64,
    handles=U32,  # bit n: the program handles event n of `interface.EVENTS`
    max_loss=optional(I64),
    max_loss_session=I1,  # since the session began, else since the run did
    max_loss_kills=I1,  # else it reduces
    max_drawdown=optional(I64),
    max_drawdown_session=I1,
    max_drawdown_kills=I1,
    rate_all=I1,  # cancels and replaces count for `rate`
    sample=I64,  # one event in so many is timed, 0: none
    pnl_every=I64,  # ns between records of profit and loss beside those at fills
    timers=I64,  # how many there are
    bars=I64,
)
"""Written before the run."""

LOT = struct("lot", qty=I64, price=I64)
ACCOUNT = struct(
    "account",
    cash=I64,
    mark2=optional(I64),  # half ticks
    peak=I64,  # of `net`
    session=optional(I64),  # its number since 1970
    session_net=I64,  # as it began
    session_peak=I64,
    run_peak=I64,  # where losses are looked at
    session_until=I64,  # when the next session begins
    watched=I64,  # the `net` that was last looked at
    pnl_due=I64,  # when the next record of profit and loss is, if anything changed
    pnl_changed=I1,  # since the last record
    lots=queue(LOT, LOTS),
)
"""What the position's numbers come from."""

# ---- what is collected ------------------------------------------------------------------------------------------------------------

OUT_LOG = struct(
    "out_log",
    ts=I64,
    row=U64,
    site=U32,  # where, and of what type
    count=U32,  # of words
    words=Array(I64, 12),
)
"""`log_ring(x)`: the numbers of x one after the other."""
OUT_CROSSED = struct("out_crossed", row=U64, stream=U32, unused=U32)
"""The row that ends a refused message."""
COLLECTED = {
    **{name: _of_dtype(f"out_{name.removesuffix('s')}", dtype) for name, dtype in records.LAYOUTS.items()},
    "log": OUT_LOG,
    "crossed": OUT_CROSSED,
}
"""Tables of records. `ns` of latencies holds cycles of the processor until it is collected."""


def collected(element: Struct) -> Struct:
    return struct("collected", count=I64, lost=I64, records=Array(element, RECORDS))


OUT = struct(
    "out",
    full=I1,  # some table is half full, and the loop stops after the event
    begun=I64,  # records that the log had when the event at hand began
    **{name: collected(element) for name, element in COLLECTED.items()},
)
"""The log keeps the last `ENOUGH` records of those that one event makes: each further one takes the place of the oldest, and `lost`
counts."""

# ---- the whole ---------------------------------------------------------------------------------------------------------------------

ENGINE_STATE = struct(
    "engine_state",
    now=I64,
    row=U64,  # of the event of data at hand
    stream=U32,
    failed=struct("failed", row=U64, ts=I64, stream=U32, handler=U32),  # when a checked failure halted the strategy; number in EVENTS
    position=POSITION,
    last=optional(I64),  # the price of the last trade
    last_ts=optional(I64),
    trading=U8,  # ACTIVE, REDUCING, KILLED
    halted=I1,
    market_halted=I1,
    bad_input=I1,  # while an order is judged whose numbers came from a NaN or a none
    killed_by=I64,  # number of the text that `kill` was given, from 1; 0 none, -1 a loss, -2 a checked failure
    reject_counts=Array(I64, 12),  # by rule
    submitted=U64,  # the last order's id
    events=I64,
    illegal=I64,  # reports that an order's state doesn't allow
    phase=U8,  # where in the loop a run stopped (`loop.py`)
    started=I1,
    pending=U32,  # events that handlers are still to be called for, as bits
    soonest=I64,  # when the next timer or bar is due
    unsampled=I64,  # events until the next one that is timed
    instant=I64,  # what happened without time going on
    open_count=I64,
    open=Array(I64, OPEN),  # slots of open orders, the oldest first
    resting=Array(QUEUED, 2),  # by side, price and arrival, the best first; in `next` all in the first list, by arrival
    waiting=QUEUED,  # for their stop
    arrivals=I64,
    day_orders=I64,  # of those in the market, how many are for the day
    day_end=I64,  # when the first of them ends
    slots=SLAB.type,
    open_notional=I128,  # sum of exposed quantity * held_at over open orders, ticks * lots
    settings=SETTINGS,
    account=ACCOUNT,
    **RECORDS_OF_EVENTS,
    timers=Array(TIMER, TIMERS),
    bars=Array(BAR_BUILDER, BARS),
    scheduled=I64,
    requests=queue(REQUEST, REQUESTS),
    reports=queue(REPORT, REPORTS),
    out=OUT,
    book=BOOK,
)
