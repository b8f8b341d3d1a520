"""Positions and what they earned, in whole money units: fills, marks, losses.

`realized + unrealized == cash + value` holds because cost moves between the open part and what is realized to the last unit; it is looked
at after every fill all the same."""

from compiler.hir.instruction import Value
from quantdsl.engine.inside import Inner, declare
from quantdsl.engine.layout import ACTIVE, BUY, FIFO, KILLED, LOT, LOTS, REDUCING
from quantdsl.engine.outputs import collect
from quantdsl.engine.queues import Queue
from quantdsl.native.build import FunctionCode, ModuleBuilder
from quantdsl.native.types import I1, I64, U8
from quantdsl.native.values import Optional, some, write_optional

DAY = 86_400_000_000_000
OPEN_LOTS = Queue(LOT, LOTS, "open fills that `fifo` tells apart")

ACCOUNT = {
    "account.fill": Inner({"side": U8, "price": I64, "qty": I64, "maker": I1}, (I64,), out_of_line=False),
    "account.close": Inner({"closing": I64}, (I64,), out_of_line=False),
    "account.revalue": Inner({}, out_of_line=False),
    "account.watch": Inner({}, (I1,)),
    "account.record": Inner({}, out_of_line=False),
}
"""`fill` accounts one and gives its fee; `close` gives the cost of so much of the position, and takes it out of the lots; `revalue` follows
a change of mark or position; `watch` looks at the losses and gives whether that killed; `record` writes profit and loss down."""


def define_account(program: ModuleBuilder) -> None:
    declare(program, ACCOUNT)
    with program.define("account.fill") as b:
        _fill(b)
    with program.define("account.close") as b:
        _close(b)
    with program.define("account.revalue") as b:
        _revalue(b, b.parameters[0])
    with program.define("account.watch") as b:
        _watch(b, b.parameters[0])
    with program.define("account.record") as b:
        _record(b, b.parameters[0])


def signed(b: FunctionCode, side: Value, amount: Value) -> Value:
    """A quantity as a change of position: what is sold is below zero."""
    return b.select(b.eq(side, BUY), amount, b.sub(0, amount))


def _fill(b: FunctionCode) -> None:
    """Closes, then opens the rest on the other side."""
    desk, side, price, qty, maker = b.parameters
    p, point = b.at(desk, "position"), b.get(desk, "settings", "point")
    before = b.get(p, "qty")
    change = signed(b, side, qty)
    against = b.both(b.ne(before, 0), b.ne(b.lt(before, 0), b.lt(change, 0)))
    closing = b.select(against, b.smaller(qty, b.magnitude(before)), 0)
    value = b.mul(b.mul(price, qty), point)
    with b.when(b.gt(closing, 0)):
        (part,) = b.call("account.close", desk, closing)
        got = signed(b, side, b.mul(b.mul(price, closing), point))
        earned = b.sub(b.neg(got), part)
        b.put(p, "realized", b.add(b.get(p, "realized"), earned))
        b.put(p, "cost", b.sub(b.get(p, "cost"), part))
    opening = b.sub(qty, closing)
    with b.when(b.gt(opening, 0)):
        b.put(p, "cost", b.add(b.get(p, "cost"), signed(b, side, b.mul(b.mul(price, opening), point))))
        with b.when(b.eq(b.get(desk, "settings", "accounting"), FIFO)):
            _add_lot(b, desk, signed(b, side, opening), price)
    b.put(p, "qty", b.add(before, change))
    account = b.at(desk, "account")
    b.put(account, "cash", b.sub(b.get(account, "cash"), signed(b, side, value)))
    b.put(p, "volume", b.add(b.get(p, "volume"), qty))
    fee = _fee(b, desk, value, qty, maker)
    b.put(p, "fees", b.add(b.get(p, "fees"), fee))
    _average(b, p, point)
    require_balance(b, desk)
    b.give(fee)


def require_balance(b: FunctionCode, desk: Value) -> None:
    """`realized + unrealized == cash + value`, where unrealized is value - cost."""
    p = b.at(desk, "position")
    realized, cost, cash = b.get(p, "realized"), b.get(p, "cost"), b.get(desk, "account", "cash")
    flat = b.either(b.ne(b.get(p, "qty"), 0), b.eq(cost, 0))
    message = "the books don't balance: realized {0}, cost of the open part {1}, cash {2}"
    b.require(b.both(b.eq(b.sub(realized, cost), cash), flat), realized, cost, cash, code="0901", message=message)


def _fee(b: FunctionCode, desk: Value, value: Value, qty: Value, maker: Value) -> Value:
    """Rounded against the trader: a fee up, a rebate down."""
    makers, takers = b.at(desk, "settings", "maker"), b.at(desk, "settings", "taker")
    numerator, denominator, per_lot = (
        b.select(maker, b.get(makers, part), b.get(takers, part)) for part in ("numerator", "denominator", "per_lot")
    )
    return b.add(b.muldiv(value, numerator, denominator, "ceil"), b.mul(per_lot, qty))


def _average(b: FunctionCode, p: Value, point: Value) -> None:
    """The mean price of the open part, to the nearest tick."""
    qty = b.get(p, "qty")
    with b.choice(b.eq(qty, 0)) as flat:
        with flat.then():
            b.clear(b.at(p, "avg_price"))
        with flat.otherwise():
            write_optional(b, p, "avg_price", value=some(b, b.quotient(b.get(p, "cost"), b.mul(qty, point), "nearest_even")))


def _add_lot(b: FunctionCode, desk: Value, qty: Value, price: Value) -> None:
    """Fills at the price of the newest lot are part of it: nothing tells them apart."""
    lots = b.at(desk, "account", "lots")
    newest = OPEN_LOTS.at(b, lots, b.wrapping("sub", b.get(lots, "next"), 1))
    same = b.both(b.negate(OPEN_LOTS.is_empty(b, lots)), b.eq(b.get(newest, "price"), price))
    with b.choice(same) as known:
        with known.then():
            b.put(newest, "qty", b.add(b.get(newest, "qty"), qty))
        with known.otherwise():
            lot = OPEN_LOTS.push(b, lots)
            b.put(lot, "qty", qty)
            b.put(lot, "price", price)


def _close(b: FunctionCode) -> None:
    desk, closing = b.parameters
    p = b.at(desk, "position")
    with b.when(b.ne(b.get(desk, "settings", "accounting"), FIFO)):
        b.give(b.muldiv(b.get(p, "cost"), closing, b.magnitude(b.get(p, "qty")), "nearest_even"))
    lots, point = b.at(desk, "account", "lots"), b.get(desk, "settings", "point")
    left, part = b.variable(closing), b.variable(b.const(0, "i64"))
    with b.repeat():
        with b.when(b.either(b.eq(b.now(left), 0), OPEN_LOTS.is_empty(b, lots))):
            b.leave()
        oldest = OPEN_LOTS.first(b, lots)
        held = b.get(oldest, "qty")
        taken = b.smaller(b.now(left), b.magnitude(held))
        change = b.select(b.gt(held, 0), taken, b.neg(taken))
        b.set(part, b.add(b.now(part), b.mul(b.mul(change, b.get(oldest, "price")), point)))
        b.put(oldest, "qty", b.sub(held, change))
        b.set(left, b.sub(b.now(left), taken))
        with b.when(b.eq(held, change)):
            OPEN_LOTS.drop(b, lots)
    b.give(b.now(part))


def _revalue(b: FunctionCode, desk: Value) -> None:
    """The value at the mark, which may stand on half a tick: half a unit is rounded to the even one. Notes the deepest fall of `net`."""
    p, account = b.at(desk, "position"), b.at(desk, "account")
    with b.when(b.get(account, "mark2", "present")):
        mark2 = b.get(account, "mark2", "value")
        worth = b.mul(b.get(p, "qty"), b.get(desk, "settings", "point"))
        whole = b.add(b.mul(worth, b.wrapping("shr", mark2, 1)), _half(b, worth, mark2))
        odd = b.wrapping("and", b.wrapping("and", worth, mark2), 1)
        value = b.add(whole, b.wrapping("and", whole, odd))
        b.put(p, "unrealized", b.sub(value, b.get(p, "cost")))
    net = b.sub(b.add(b.get(p, "realized"), b.get(p, "unrealized")), b.get(p, "fees"))
    with b.when(b.ne(net, b.get(p, "net"))):
        b.put(account, "pnl_changed", True)
    b.put(p, "net", net)
    peak = b.larger(b.get(account, "peak"), net)
    b.put(account, "peak", peak)
    b.put(p, "max_drawdown", b.larger(b.get(p, "max_drawdown"), b.sub(peak, net)))


def _half(b: FunctionCode, worth: Value, mark2: Value) -> Value:
    """The part of the half tick, rounded down."""
    return b.select(b.eq(b.wrapping("and", mark2, 1), 0), 0, b.wrapping("shr", worth, 1))


def mark(b: FunctionCode, desk: Value, found: Optional) -> None:
    """A new mark in half ticks, if there is one."""
    account = b.at(desk, "account")
    before = Optional(b.get(account, "mark2", "present"), b.get(account, "mark2", "value"))
    new = b.both(found.present, b.either(b.negate(before.present), b.ne(before.value, found.value)))
    with b.when(new):
        write_optional(b, account, "mark2", value=found)
        with b.when(b.ne(b.get(desk, "position", "qty"), 0)):
            b.call("account.revalue", desk)


def _watch(b: FunctionCode, desk: Value) -> None:
    p, account, settings = b.at(desk, "position"), b.at(desk, "account"), b.at(desk, "settings")
    net, now = b.get(p, "net"), b.get(desk, "now")
    b.put(account, "watched", net)
    with b.when(b.ge(now, b.get(account, "session_until"))):
        begin = b.select(b.get(settings, "has_session"), b.get(settings, "session_begin"), 0)
        session = b.quotient(b.sub(now, begin), DAY, "floor")
        write_optional(b, account, "session", value=some(b, session))
        b.put(account, "session_until", b.add(b.mul(b.add(session, 1), DAY), begin))
        b.put(account, "session_net", net)
        b.put(account, "session_peak", net)
    session_peak = b.larger(b.get(account, "session_peak"), net)
    run_peak = b.larger(b.get(account, "run_peak"), net)
    b.put(account, "session_peak", session_peak)
    b.put(account, "run_peak", run_peak)
    reached = b.variable(b.const(ACTIVE, "u8"))
    loss_from = b.select(b.get(settings, "max_loss_session"), b.get(account, "session_net"), 0)
    fall_from = b.select(b.get(settings, "max_drawdown_session"), session_peak, run_peak)
    for rule, top in (("max_loss", loss_from), ("max_drawdown", fall_from)):
        with b.when(b.both(b.get(settings, rule, "present"), b.ge(b.saturating("sub", top, net), b.get(settings, rule, "value")))):
            then = b.select(b.get(settings, f"{rule}_kills"), b.const(KILLED, "u8"), b.const(REDUCING, "u8"))
            b.set(reached, b.larger(b.now(reached), then))
    before = b.get(desk, "trading")
    b.put(desk, "trading", b.larger(before, b.now(reached)))
    b.give(b.both(b.eq(b.now(reached), KILLED), b.ne(before, KILLED)))


def _record(b: FunctionCode, desk: Value) -> None:
    p, account = b.at(desk, "position"), b.at(desk, "account")
    own = {name: b.get(p, name) for name in ("realized", "unrealized", "fees", "net")}
    marked = b.get(account, "mark2", "present")
    own |= {"mark2": b.select(marked, b.get(account, "mark2", "value"), 0), "marked": b.cast(marked, "u32")}
    instrument = b.get(desk, "settings", "instrument")
    collect(b, desk, "pnl", ts=b.get(desk, "now"), position=b.get(p, "qty"), instrument=instrument, **own)
    b.put(account, "pnl_changed", False)
    b.put(account, "pnl_due", b.saturating("add", b.get(desk, "now"), b.get(desk, "settings", "pnl_every")))
