"""The four functions of `native.cpp` written with the builder, every operation checked."""

from compiler.hir.module import HirModule
from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, Record, all_of, assign, maximum, minimum, muldiv, select
from compiler.hir.native_types import F64, I64, struct
from compiler.hir.types import Array, Pointer

LEVELS, WINDOW, IDS, SLOTS = 10, 64, 1024, 256

ORDER = struct("order", price=I64, qty=I64, side=I64, time=I64, id=I64, spare=Array(I64, 3))
RISK = struct(
    "risk",
    **dict.fromkeys(
        ("killed", "max_qty", "max_notional", "collar", "reference", "position", "max_position", "window", "head"),
        I64,
    ),
    times=Array(I64, WINDOW),
    ids=Array(I64, IDS),
)
POSITION = struct("position", **dict.fromkeys(("qty", "cost", "realized", "volume", "fees", "last", "unrealized", "peak", "drawdown"), I64))
BOOK = struct("book", **dict.fromkeys(("bid", "bid_qty", "ask", "ask_qty"), Array(I64, LEVELS)))
SIGNAL = struct("signal", **dict.fromkeys(("fast", "slow", "a_fast", "a_slow", "difference", "threshold"), F64))
ORDERS = struct("orders", next_id=I64, count=I64, clip=I64, rejected=I64, slots=Array(ORDER, SLOTS))


def hot_functions() -> HirModule:
    """`risk`, `fill`, `signal` and `tick`."""
    program = ModuleBuilder("hot")
    with program.function("risk", {"s": Pointer(RISK), "o": Pointer(ORDER)}, [I64]) as b:
        _risk(b, *b.parameters)
    with program.function("fill", {"p": Pointer(POSITION), "o": Pointer(ORDER)}, [I64]) as b:
        _fill(b, *b.parameters)
    with program.function("signal", {"s": Pointer(SIGNAL), "k": Pointer(BOOK)}, [I64]) as b:
        _signal(b, *b.parameters)
    parts = {"r": Pointer(RISK), "p": Pointer(POSITION), "s": Pointer(SIGNAL), "q": Pointer(ORDERS), "k": Pointer(BOOK), "time": I64}
    with program.function("tick", parts, [I64]) as b:
        _tick(b, *b.parameters)
    return program.module


def _risk(b: FunctionCode, s: Record, o: Record) -> None:
    price, qty, side, time, own = (o[name] for name in ("price", "qty", "side", "time", "id"))
    notional = price.cast("i128").wrapping_mul(qty.cast("i128"))
    head, place = s.head, own & (IDS - 1)
    worst = abs(s.position + side * qty)
    rules = [
        s.killed != 0,
        (qty < 1) | (qty > s.max_qty),
        notional > s.max_notional.cast("i128"),
        abs(price - s.reference) > s.collar,
        worst > s.max_position,
        time - s.times[head] < s.window,
        s.ids[place] == own,
    ]
    mask = b.const(0, "i64")
    for number, broken in enumerate(rules):
        mask = mask | select(broken, b.const(1 << number, "i64"), 0)
    with b.when(mask == 0):
        s.times[head] = time
        s.head = (head + 1) & (WINDOW - 1)
        s.ids[place] = own
    b.ret(mask)


def _fill(b: FunctionCode, p: Record, o: Record) -> None:
    price, bought, side = (o[name] for name in ("price", "qty", "side"))
    change = side * bought
    qty, cost = b.variable(p.qty), b.variable(p.cost)
    held = qty.value
    grows = (held == 0) | ((held > 0) == (change > 0))
    with b.when(grows):
        cost.value += price * change
        qty.value = held + change
    with b.otherwise():
        size, sign = abs(held), select(held < 0, b.const(-1, "i64"), 1)
        closed = minimum(bought, size)
        part = muldiv(cost.value, closed, size, "nearest_even")
        p.realized += sign * closed * price - part
        cost.value -= part
        qty.value = held - sign * closed
        rest = bought - closed
        with b.when(rest > 0):
            opened = side * rest
            qty.value = opened
            cost.value = price * opened
    p.volume += bought
    fees = p.fees + price * bought * 2 / 10000
    p.fees = fees
    p.last = price
    unrealized = qty.value * price - cost.value
    p.unrealized = unrealized
    net = p.realized + unrealized - fees
    peak = maximum(net, p.peak)
    p.peak = peak
    p.drawdown = maximum(peak - net, p.drawdown)
    p.qty = qty.value
    p.cost = cost.value
    b.ret(qty.value)


def _signal(b: FunctionCode, s: Record, k: Record) -> None:
    bid, ask, bid_qty, ask_qty = (k[side][0].cast("f64") for side in ("bid", "ask", "bid_qty", "ask_qty"))
    mid = (bid + ask) * 0.5
    for name in ("fast", "slow"):
        held = s[name]
        s[name] = held + s[f"a_{name}"] * (mid - held)
    difference = s.fast - s.slow
    s.difference = difference
    bids, asks = b.variable(0), b.variable(0)
    with b.loop(0, LEVELS) as i:
        bids.value += k.bid_qty[i]
        asks.value += k.ask_qty[i]
    total, more = bids.value + asks.value, bids.value - asks.value
    imbalance = more.cast("f64") / total.cast("f64")
    micro = (bid * ask_qty + ask * bid_qty) / (bid_qty + ask_qty)
    threshold = s.threshold
    up = all_of(difference > 0.0, imbalance > threshold, micro > mid)
    down = all_of(difference < 0.0, imbalance < -threshold, micro < mid)
    b.ret(select(down, b.const(-1, "i64"), select(up, b.const(1, "i64"), 0)))


def _tick(b: FunctionCode, r: Record, p: Record, s: Record, q: Record, k: Record, time: Expr) -> None:
    (side,) = b.call("signal", s, k)
    with b.when(side == 0):
        b.ret(0)
    bid, ask = k.bid[0], k.ask[0]
    count, own = q.count, q.next_id + 1
    q.next_id = own
    o = q.slots[count & (SLOTS - 1)]
    price = select(side > 0, ask, bid)
    assign(o, price=price, qty=q.clip, side=side, time=time, id=own)
    r.reference = (bid + ask) >> 1
    r.position = p.qty
    (mask,) = b.call("risk", r, o)
    with b.when(mask != 0):
        q.rejected += 1
        b.ret(mask | 256)
    q.count = count + 1
    b.call("fill", p, o)
    b.ret(side)
