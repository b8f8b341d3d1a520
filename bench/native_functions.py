"""The four functions of `native.cpp` written with the builder, every operation checked."""

from compiler.hir.instruction import Value
from compiler.hir.module import HirModule
from compiler.hir.types import Array, Pointer
from quantdsl.native.build import FunctionCode, ModuleBuilder
from quantdsl.native.types import F64, I64, struct

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


def _risk(b: FunctionCode, s: Value, o: Value) -> None:
    price, qty, side, time, own = (b.get(o, name) for name in ("price", "qty", "side", "time", "id"))
    notional = b.wrapping("mul", b.cast(price, "i128"), b.cast(qty, "i128"))
    head, place = b.get(s, "head"), b.wrapping("and", own, IDS - 1)
    worst = b.magnitude(b.add(b.get(s, "position"), b.mul(side, qty)))
    rules = [
        b.ne(b.get(s, "killed"), 0),
        b.either(b.lt(qty, 1), b.gt(qty, b.get(s, "max_qty"))),
        b.gt(notional, b.cast(b.get(s, "max_notional"), "i128")),
        b.gt(b.magnitude(b.sub(price, b.get(s, "reference"))), b.get(s, "collar")),
        b.gt(worst, b.get(s, "max_position")),
        b.lt(b.sub(time, b.get(s, "times", head)), b.get(s, "window")),
        b.eq(b.get(s, "ids", place), own),
    ]
    mask = b.const(0, "i64")
    for number, broken in enumerate(rules):
        mask = b.wrapping("or", mask, b.select(broken, b.const(1 << number, "i64"), 0))
    with b.when(b.eq(mask, 0)):
        b.put(s, "times", head, time)
        b.put(s, "head", b.wrapping("and", b.add(head, 1), WINDOW - 1))
        b.put(s, "ids", place, own)
    b.give(mask)


def _fill(b: FunctionCode, p: Value, o: Value) -> None:
    price, bought, side = (b.get(o, name) for name in ("price", "qty", "side"))
    change = b.mul(side, bought)
    qty, cost = b.variable(b.get(p, "qty")), b.variable(b.get(p, "cost"))
    held = b.now(qty)
    grows = b.either(b.eq(held, 0), b.eq(b.gt(held, 0), b.gt(change, 0)))
    with b.choice(grows) as c:
        with c.then():
            b.set(cost, b.add(b.now(cost), b.mul(price, change)))
            b.set(qty, b.add(held, change))
        with c.otherwise():
            size, sign = b.magnitude(held), b.select(b.lt(held, 0), b.const(-1, "i64"), 1)
            closed = b.smaller(bought, size)
            part = b.muldiv(b.now(cost), closed, size, "nearest_even")
            b.put(p, "realized", b.add(b.get(p, "realized"), b.sub(b.mul(b.mul(sign, closed), price), part)))
            b.set(cost, b.sub(b.now(cost), part))
            b.set(qty, b.sub(held, b.mul(sign, closed)))
            rest = b.sub(bought, closed)
            with b.when(b.gt(rest, 0)):
                opened = b.mul(side, rest)
                b.set(qty, opened)
                b.set(cost, b.mul(price, opened))
    b.put(p, "volume", b.add(b.get(p, "volume"), bought))
    fees = b.add(b.get(p, "fees"), b.div(b.mul(b.mul(price, bought), 2), 10000))
    b.put(p, "fees", fees)
    b.put(p, "last", price)
    unrealized = b.sub(b.mul(b.now(qty), price), b.now(cost))
    b.put(p, "unrealized", unrealized)
    net = b.sub(b.add(b.get(p, "realized"), unrealized), fees)
    peak = b.larger(net, b.get(p, "peak"))
    b.put(p, "peak", peak)
    b.put(p, "drawdown", b.larger(b.sub(peak, net), b.get(p, "drawdown")))
    b.put(p, "qty", b.now(qty))
    b.put(p, "cost", b.now(cost))
    b.give(b.now(qty))


def _signal(b: FunctionCode, s: Value, k: Value) -> None:
    bid, ask, bid_qty, ask_qty = (b.cast(b.get(k, side, 0), "f64") for side in ("bid", "ask", "bid_qty", "ask_qty"))
    mid = b.mul(b.add(bid, ask), 0.5)
    for name in ("fast", "slow"):
        held = b.get(s, name)
        b.put(s, name, b.add(held, b.mul(b.get(s, f"a_{name}"), b.sub(mid, held))))
    difference = b.sub(b.get(s, "fast"), b.get(s, "slow"))
    b.put(s, "difference", difference)
    bids, asks = b.variable(b.const(0, "i64")), b.variable(b.const(0, "i64"))
    with b.loop(0, LEVELS) as i:
        b.set(bids, b.add(b.now(bids), b.get(k, "bid_qty", i)))
        b.set(asks, b.add(b.now(asks), b.get(k, "ask_qty", i)))
    total, more = b.add(b.now(bids), b.now(asks)), b.sub(b.now(bids), b.now(asks))
    imbalance = b.div(b.cast(more, "f64"), b.cast(total, "f64"))
    micro = b.div(b.add(b.mul(bid, ask_qty), b.mul(ask, bid_qty)), b.add(bid_qty, ask_qty))
    threshold = b.get(s, "threshold")
    up = b.both(b.gt(difference, 0.0), b.gt(imbalance, threshold), b.gt(micro, mid))
    down = b.both(b.lt(difference, 0.0), b.lt(imbalance, b.neg(threshold)), b.lt(micro, mid))
    b.give(b.select(down, b.const(-1, "i64"), b.select(up, b.const(1, "i64"), 0)))


def _tick(b: FunctionCode, r: Value, p: Value, s: Value, q: Value, k: Value, time: Value) -> None:
    (side,) = b.call("signal", s, k)
    with b.when(b.eq(side, 0)):
        b.give(0)
    bid, ask = b.get(k, "bid", 0), b.get(k, "ask", 0)
    count, own = b.get(q, "count"), b.add(b.get(q, "next_id"), 1)
    b.put(q, "next_id", own)
    o = b.at(q, "slots", b.wrapping("and", count, SLOTS - 1))
    price = b.select(b.gt(side, 0), ask, bid)
    for name, value in (("price", price), ("qty", b.get(q, "clip")), ("side", side), ("time", time), ("id", own)):
        b.put(o, name, value)
    b.put(r, "reference", b.wrapping("shr", b.add(bid, ask), 1))
    b.put(r, "position", b.get(p, "qty"))
    (mask,) = b.call("risk", r, o)
    with b.when(b.ne(mask, 0)):
        b.put(q, "rejected", b.add(b.get(q, "rejected"), 1))
        b.give(b.wrapping("or", mask, 256))
    b.put(q, "count", b.add(count, 1))
    b.call("fill", p, o)
    b.give(side)
