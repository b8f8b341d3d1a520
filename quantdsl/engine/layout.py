"""The memory of a replay, declared once: what the engine keeps and what a program's handlers read. Prices are ticks, quantities lots, money
units of the currency's scale, times ns since 1970 UTC.

One `DESK` is one strategy on one instrument. The engine (compiled once for a machine) and the program (compiled for each) share it; what
only the program knows the size of, the states of the strategy, its signals and its risk rules, lies in the program's own `state`."""

from compiler.hir.types import Array, HirType, Struct
from quantdsl.native.types import F64, I1, I64, I128, U8, U16, U32, U64, optional, struct

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
LOTS = 1 << 13
"""Open fills that `fifo` tells apart."""
TIMERS = BARS = 8
RECORDS = 1 << 15
"""Records of each output that are kept until they are collected."""
ENOUGH = RECORDS // 2
"""So many records of one table stop the loop. One event and what follows from it at the same moment has the other half."""

BUY, SELL = 0, 1
"""A side, as the language's enum counts its cases; records of data and of outputs count from 1 (`runtime.replay.events.MarketSide`)."""
IOC, FOK, GTC, DAY = range(4)
"""As the enum `Tif` counts them."""
NEXT, TOUCH, QUEUE = range(3)
"""How resting orders fill."""
AVERAGE, FIFO = range(2)
ACTIVE, REDUCING, KILLED = range(3)
MARKET, POST_ONLY, REDUCE_ONLY = 1, 2, 4
"""Options of an order, the bits of `outputs.records.Option`."""


def _record(name: str, **fields: HirType) -> Struct:
    return struct(name, **fields)


# ---- what comes in ------------------------------------------------------------------------------------------------------------

EVENT = _record(
    "event",
    ts=I64,
    stream=U32,
    instrument=U32,
    kind=U8,
    side=U8,
    flags=U16,
    level=U32,
    price=I64,
    qty=I64,
    id=U64,
    id2=U64,
    price2=I64,
    qty2=I64,
    row=U64,
)
"""`runtime.replay.events.EVENT`."""

# ---- what handlers see: the structs of the prelude ----------------------------------------------------------------------------

TRADE = _record("Trade", ts=I64, price=I64, qty=I64, side=optional(U8), id=U64)
QUOTE = _record("Quote", ts=I64, bid=I64, ask=I64, bid_qty=I64, ask_qty=I64)
BAR = _record("Bar", ts=I64, open=I64, high=I64, low=I64, close=I64, volume=I64, trades=I64)
ACK = _record("Ack", ts=I64, id=U64)
FILL = _record("Fill", ts=I64, id=U64, side=U8, price=I64, qty=I64, fee=I64, maker=I1, tag=I64)
CANCELLED = _record("Cancelled", ts=I64, id=U64, qty=I64)
REJECT = _record("Reject", ts=I64, why=U32, side=U8, qty=I64, tag=I64)
GAP = _record("Gap", ts=I64, expected=U64, found=U64)
HALT = _record("Halt", ts=I64, halted=I1)
POSITION = _record(
    "Position",
    qty=I64,
    avg_price=optional(I64),
    cost=I64,
    realized=I64,
    unrealized=I64,
    fees=I64,
    net=I64,
    max_drawdown=I64,
    volume=I64,
    open_buys=I64,
    open_sells=I64,
)
"""`open_buys`, `open_sells`: the most that open orders may still fill."""
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

LEVEL = struct("level", qty=I64, taken=I64, number=I64)
"""`taken`: what our own orders took of it since the data last changed it; `number`: which update set it last."""
WIDTH = 32
"""Levels of a block of a ladder; those behind `WIDTH` are never any, so that as many can be moved at once from anywhere."""
BLOCKS = LEVELS // 4
SHIFTED = {name: struct("shifted", items=Array(element, WIDTH)) for name, element in (("keys", U64), ("places", U16))}
BLOCK = struct("block", size=I64, after=I64, keys=Array(U64, 2 * WIDTH + 1), places=Array(U16, 2 * WIDTH + 1))
LADDER = struct(
    "ladder",
    count=I64,
    more=I64,
    last=I64,
    lost=I1,
    lost_from=I64,
    order=Array(U16, BLOCKS + 1),
    begins=Array(U64, BLOCKS),
    blocks=Array(BLOCK, BLOCKS),
    levels=Array(LEVEL, LEVELS),
    free=Array(U16, LEVELS),
)
"""One side, the best level first, in blocks; `book_ladder.py` says how. There are `more` blocks than the first one, numbered 0; `order` has
them by rank, `begins` the best worth that each but the first may hold, and `last` is the rank that was found last. A block's `keys` are the
worths of its prices, `places` where the rest of each is among `levels`, `after` is the next block. `free`: places that no level has.
`lost`: a level was dropped, the best of those dropped stood at `lost_from`."""
BOOK_ORDER = struct("book_order", id=U64, price=I64, qty=I64, side=U8, used=U8, hidden=U8)
"""`used` is 1; 2 while the table grows, of those that haven't found their new slot. `hidden` is 1 where the message that brought the order
was refused: no level shows it, and what becomes of it is followed all the same, so that its trades are told."""
CHANGE = struct("change", what=U8, side=U8, price=I64, qty=I64, taken=I64, number=I64, id=U64)
"""How to take back one change: `what` is 0 for a level, 1 for an order (`number` -1: there was none), 2 for
`lost` and `lost_from` (in `qty` and `price`), 3 for `incomplete` (in `qty`)."""
BOOK = struct(
    "book",
    sides=Array(LADDER, 2),
    updated=optional(I64),
    suspect=I1,
    known=I1,
    deep=I1,
    within=I1,
    unseen=I1,
    crossed=I64,
    adds_refused=Array(I64, 3),
    unknown=Array(I64, 4),
    incomplete=I1,
    left_out=I64,
    number=I64,
    changes=I64,
    journal=Array(CHANGE, JOURNAL),
    order_count=I64,
    grown=I64,
    orders=Array(BOOK_ORDER, 2 * BOOK_ORDERS),
)
"""`sides`: bids, then asks, as `BUY` and `SELL` count them. `updated`: the time of the last good update. `known`: no update of the message
so far spoke of an unknown order. `deep`: levels or orders came since both sides were cleared, so a quote isn't all there
is. `within`: a message has begun and not ended. `changes`: of the last message, its length in the journal,
more than `JOURNAL` where it was too long to be taken back; 0 once own orders have looked at it. `unseen`: something changed that the
journal doesn't tell and own orders haven't looked at. `crossed`: messages refused or trimmed. `adds_refused`: orders of
refused messages, those whose number was taken, those without room; `unknown`: events of orders that aren't there, by kind from `EXECUTE`
on. `incomplete`: something didn't fit, and the book is suspect until both sides are cleared; `left_out` counts how often. `grown`: how
often the table of orders has doubled."""

# ---- orders ---------------------------------------------------------------------------------------------------------------------

ORDER = struct(
    "order",
    id=U64,
    ts=I64,
    done=I64,
    qty=I64,
    limit=I64,
    filled=I64,
    asked=I64,
    held_at=I64,
    tag=I64,
    stop=I64,
    shown=I64,
    state=U8,
    side=U8,
    tif=U8,
    options=U8,
    has_stop=I1,
    resting=I1,
    waiting=I1,
    place=I64,
    at_limit=I64,
    at_qty=I64,
    left=I64,
    display=I64,
    ahead=I64,
    session=I64,
    arrival=I64,
    at_market=I1,
    linked=U64,
)
"""An open order. To `held_at` as the strategy knows it: `asked` is the quantity of a replace on its way (0: none), `held_at` the price that
it counts with in open notional, `state` one of `outputs.records.State`, `place` its index among `open`. From `at_limit` on as the market
holds it: `left` of `at_qty`, `ahead` of it in the queue, `display` of an iceberg still shown, `at_market` without a limit; `resting` in the
market, `waiting` for its stop; one for the day ends at `session`. `linked`: the id of the order that is cancelled when this one fills (0:
none)."""

QUEUED = struct("queued", count=I64, slots=Array(I64, OPEN))
"""Orders in the market, by their slots."""
REQUEST = struct("request", due=I64, kind=U8, slot=I64, id=U64, qty=I64, limit=I64, at_market=I1, before=I64)
"""`kind`: 0 a new order, 1 a cancel, 2 a replace. `slot` is the order's place in the slab; it may have gone meanwhile, then `id` differs.
`before`: what the order's `asked` was before a replace."""
REPORT = struct("report", due=I64, kind=U8, slot=I64, id=U64, price=I64, qty=I64, maker=I1, state=U8, at_market=I1)
"""`kind`: 0 an ack, 1 a fill, 2 an end (`state`), 3 replaced (`qty`, `price` and `at_market` as they are now)."""


def queue(element: Struct, capacity: int) -> Struct:
    """First in, first out; `first` and `next` count on and on, places are these modulo the capacity (a power of two)."""
    return struct("queue", first=I64, next=I64, items=Array(element, capacity))


TIMER = struct("timer", due=I64, period=I64, number=I64)
BAR_BUILDER = struct("bar_builder", kind=U8, size=I64, end=I64, started=I1, bar=BAR)
"""`kind`: 0 of a duration (`size` ns, `end` when it closes), 1 of so many trades, 2 of a volume."""
FEES = struct("fees", numerator=I64, denominator=I64, per_lot=I64)
"""Of a fill: value * numerator / denominator, away from the trader's favour, and money for each lot."""
SETTINGS = struct(
    "settings",
    instrument=U32,
    fills=U8,
    accounting=U8,
    trim=I1,
    out=I64,
    back=I64,
    point=I64,
    tick_divisor=F64,
    tick_power=F64,
    lot_divisor=F64,
    lot_power=F64,
    point_value=F64,
    maker=FEES,
    taker=FEES,
    has_session=I1,
    session_begin=I64,
    session_end=I64,
    handles=U32,
    max_loss=optional(I64),
    max_loss_session=I1,
    max_loss_kills=I1,
    max_drawdown=optional(I64),
    max_drawdown_session=I1,
    max_drawdown_kills=I1,
    rate_all=I1,
    sample=I64,
    pnl_every=I64,
    timers=I64,
    bars=I64,
)
"""Written before the run. `point`: money of one lot and one tick; a price of p ticks is p * tick_divisor / tick_power, a quantity likewise.
`handles`: bit n is set where the program handles event n of `EVENTS` in `interface.py`. `sample`: one event in so many is timed (0: none).
`pnl_every`: ns between records of profit and loss beside those at fills."""

LOT = struct("lot", qty=I64, price=I64)
ACCOUNT = struct(
    "account",
    cash=I64,
    mark2=optional(I64),
    peak=I64,
    session=optional(I64),
    session_net=I64,
    session_peak=I64,
    run_peak=I64,
    session_until=I64,
    watched=I64,
    pnl_due=I64,
    pnl_changed=I1,
    lots=queue(LOT, LOTS),
)
"""What the position's numbers come from: `mark2` in half ticks; the others as the losses are measured from. `session_until`: when the next
session begins. `watched`: the net that was last looked at. `pnl_due`: when the next record of profit and loss is due, if anything
`pnl_changed` since the last."""

# ---- what is collected ------------------------------------------------------------------------------------------------------------

OUT_ORDER = struct(
    "out_order", id=U64, ts=I64, done=I64, qty=I64, limit=I64, filled=I64, instrument=U32, side=U8, tif=U8, state=U8, options=U8
)
OUT_FILL = struct(
    "out_fill",
    **{"ts": I64, "order": U64, **dict.fromkeys(("price", "qty", "fee", "realized", "position"), I64)},
    instrument=U32,
    side=U8,
    maker=U8,
    unused=U16,
)
OUT_REJECT = struct("out_reject", ts=I64, order=U64, qty=I64, limit=I64, instrument=U32, mask=U16, side=U8, options=U8)
OUT_PNL = struct(
    "out_pnl", **dict.fromkeys(("ts", "position", "mark2", "realized", "unrealized", "fees", "net"), I64), instrument=U32, marked=U32
)
OUT_LATENCY = struct("out_latency", ts=I64, row=U64, ns=F64, handler=U32, calls=U32)
"""`ns` holds cycles of the processor until it is collected."""
OUT_LOG = struct("out_log", ts=I64, row=U64, site=U32, count=U32, words=Array(I64, 12))
"""`log_ring(x)`: the numbers of x one after the other; `site` says where and of what type."""
OUT_CROSSED = struct("out_crossed", row=U64, stream=U32, unused=U32)
"""The row that ends a refused message."""
COLLECTED = {
    "orders": OUT_ORDER,
    "fills": OUT_FILL,
    "rejects": OUT_REJECT,
    "pnl": OUT_PNL,
    "latency": OUT_LATENCY,
    "log": OUT_LOG,
    "crossed": OUT_CROSSED,
}
"""The layouts of `runtime.replay.outputs.records`, the log, and rows that were refused."""


def collected(element: Struct) -> Struct:
    return struct("collected", count=I64, lost=I64, records=Array(element, RECORDS))


OUT = struct("out", full=I1, begun=I64, **{name: collected(element) for name, element in COLLECTED.items()})
"""`full`: some table is half full, and the loop stops after the event. `begun`: how many records the log had when the event at
hand began. It keeps the last `ENOUGH` of those that one event makes: each further one takes the place of the oldest, and `lost` counts."""

# ---- the whole ---------------------------------------------------------------------------------------------------------------------

DESK = struct(
    "desk",
    now=I64,
    row=U64,
    stream=U32,
    failed=struct("failed", row=U64, ts=I64, stream=U32, handler=U32),
    position=POSITION,
    last=optional(I64),
    last_ts=optional(I64),
    trading=U8,
    halted=I1,
    market_halted=I1,
    bad_input=I1,
    killed_by=I64,
    reject_counts=Array(I64, 12),
    submitted=U64,
    events=I64,
    illegal=I64,
    phase=U8,
    started=I1,
    pending=U32,
    soonest=I64,
    unsampled=I64,
    instant=I64,
    open_count=I64,
    open=Array(I64, OPEN),
    resting=Array(QUEUED, 2),
    waiting=QUEUED,
    arrivals=I64,
    day_orders=I64,
    day_end=I64,
    slots=struct("slab", count=I64, fresh=I64, free=I64, following=Array(I64, OPEN), used=Array(I1, OPEN), items=Array(ORDER, OPEN)),
    open_notional=I128,
    settings=SETTINGS,
    account=ACCOUNT,
    trade=TRADE,
    quote=QUOTE,
    bar=BAR,
    ack=ACK,
    fill=FILL,
    cancelled=CANCELLED,
    reject=REJECT,
    gap=GAP,
    halt=HALT,
    timers=Array(TIMER, TIMERS),
    bars=Array(BAR_BUILDER, BARS),
    scheduled=I64,
    requests=queue(REQUEST, REQUESTS),
    reports=queue(REPORT, REPORTS),
    out=OUT,
    book=BOOK,
)
"""`bad_input` is set while an order is judged whose numbers came from a NaN or a none. `killed_by`: number of the text that `kill` was
given, from 1, 0 for none, -1 a loss, -2 a checked failure. `open` lists the slots of open orders, oldest first; `resting` those in the
market by side, price and arrival, the best first (in `next` all by arrival, in the first list); `waiting` those that wait for their stop.
`day_orders`: how many of both are for the day, the first of them ends at `day_end`. `open_notional`: sum of exposed quantity * held_at over
open orders, in ticks * lots. `phase`: where in the loop a run stopped (`loop.py`). `row` and `stream` are those of the event of data at
hand; `failed`: what they and the time were, and the number of the handler (in `EVENTS`), when a checked failure halted the strategy."""
