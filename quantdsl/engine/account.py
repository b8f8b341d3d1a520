"""Positions and what they earned, in whole money units: fills, marks, losses.

`realized + unrealized == cash + value` holds because cost moves between the open part and what is realized to the last unit; it is looked
at after every fill all the same."""

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, Optional, Record, maximum, minimum, muldiv, select
from compiler.hir.native_types import I1, I64, U8
from quantdsl.engine.inside import Inner, declare
from quantdsl.engine.layout import ACTIVE, BUY, FIFO, KILLED, LOT, LOTS, REDUCING
from quantdsl.engine.outputs import collect
from quantdsl.engine.queues import Queue
from quantdsl.native.values import some

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


def signed(side: Expr, amount: Expr) -> Expr:
    """A quantity as a change of position: what is sold is below zero."""
    return select(side == BUY, amount, -amount)


def _fill(b: FunctionCode) -> None:
    """Closes, then opens the rest on the other side."""
    engine, side, price, qty, maker = b.parameters
    p, tick_value = engine.position, engine.settings.tick_value
    before = p.qty
    change = signed(side, qty)
    against = (before != 0) & ((before < 0) != (change < 0))
    closing = select(against, minimum(qty, abs(before)), 0)
    value = price * qty * tick_value
    with b.when(closing > 0):
        (part,) = b.call("account.close", engine, closing)
        got = signed(side, price * closing * tick_value)
        earned = -got - part
        p.realized += earned
        p.cost -= part
    opening = qty - closing
    with b.when(opening > 0):
        p.cost += signed(side, price * opening * tick_value)
        with b.when(engine.settings.accounting == FIFO):
            _add_lot(b, engine, signed(side, opening), price)
    p.qty = before + change
    account = engine.account
    account.cash -= signed(side, value)
    p.volume += qty
    fee = _fee(engine, value, qty, maker)
    p.fees += fee
    _average(b, p, tick_value)
    require_balance(b, engine)
    b.ret(fee)


def require_balance(b: FunctionCode, engine: Record) -> None:
    """`realized + unrealized == cash + value`, where unrealized is value - cost."""
    p = engine.position
    realized, cost, cash = p.realized, p.cost, engine.account.cash
    flat = (p.qty != 0) | (cost == 0)
    message = "the books don't balance: realized {0}, cost of the open part {1}, cash {2}"
    b.require((realized - cost == cash) & flat, realized, cost, cash, code="0901", message=message)


def _fee(engine: Record, value: Expr, qty: Expr, maker: Expr) -> Expr:
    """Rounded against the trader: a fee up, a rebate down."""
    makers, takers = engine.settings.maker, engine.settings.taker
    numerator, denominator, per_lot = (
        select(maker, makers[part], takers[part]) for part in ("numerator", "denominator", "per_lot")
    )
    return muldiv(value, numerator, denominator, "ceil") + per_lot * qty


def _average(b: FunctionCode, p: Record, tick_value: Expr) -> None:
    """The mean price of the open part, to the nearest tick."""
    qty = p.qty
    with b.when(qty == 0):
        b.clear(p.avg_price)
    with b.otherwise():
        p.avg_price = some(p.cost.quotient(qty * tick_value, "nearest_even"))


def _add_lot(b: FunctionCode, engine: Record, qty: Expr, price: Expr) -> None:
    """Fills at the price of the newest lot are part of it: nothing tells them apart."""
    lots = engine.account.lots
    newest = OPEN_LOTS.at(lots, lots.next.wrapping_sub(1))
    same = ~OPEN_LOTS.is_empty(lots) & (newest.price == price)
    with b.when(same):
        newest.qty += qty
    with b.otherwise():
        lot = OPEN_LOTS.push(b, lots)
        lot.qty = qty
        lot.price = price


def _close(b: FunctionCode) -> None:
    engine, closing = b.parameters
    p = engine.position
    with b.when(engine.settings.accounting != FIFO):
        b.ret(muldiv(p.cost, closing, abs(p.qty), "nearest_even"))
    lots, tick_value = engine.account.lots, engine.settings.tick_value
    left, part = b.variable(closing), b.variable(0)
    with b.repeat():
        with b.when((left.value == 0) | OPEN_LOTS.is_empty(lots)):
            b.break_()
        oldest = OPEN_LOTS.first(lots)
        held = oldest.qty
        taken = minimum(left.value, abs(held))
        change = select(held > 0, taken, -taken)
        part.value += change * oldest.price * tick_value
        oldest.qty = held - change
        left.value -= taken
        with b.when(held == change):
            OPEN_LOTS.drop(lots)
    b.ret(part.value)


def _revalue(b: FunctionCode, engine: Record) -> None:
    """The value at the mark, which may stand on half a tick: half a unit is rounded to the even one. Notes the deepest fall of `net`."""
    p, account = engine.position, engine.account
    with b.when(account.mark2.present):
        mark2 = account.mark2.value
        worth = p.qty * engine.settings.tick_value
        whole = worth * (mark2 >> 1) + _half(worth, mark2)
        odd = worth & mark2 & 1
        value = whole + (whole & odd)
        p.unrealized = value - p.cost
    net = p.realized + p.unrealized - p.fees
    with b.when(net != p.net):
        account.pnl_changed = True
    p.net = net
    peak = maximum(account.peak, net)
    account.peak = peak
    p.max_drawdown = maximum(p.max_drawdown, peak - net)


def _half(worth: Expr, mark2: Expr) -> Expr:
    """The part of the half tick, rounded down."""
    return select((mark2 & 1) == 0, 0, worth >> 1)


def mark(b: FunctionCode, engine: Record, mid: Optional) -> None:
    """A new mark in half ticks, if there is one."""
    account = engine.account
    before = Optional(account.mark2.present, account.mark2.value)
    new = mid.present & (~before.present | (before.value != mid.value))
    with b.when(new):
        account.mark2 = mid
        with b.when(engine.position.qty != 0):
            b.call("account.revalue", engine)


def _watch(b: FunctionCode, engine: Record) -> None:
    p, account, settings = engine.position, engine.account, engine.settings
    net, now = p.net, engine.now
    account.watched = net
    with b.when(now >= account.session_until):
        begin = select(settings.has_session, settings.session_begin, 0)
        session = (now - begin).quotient(DAY, "floor")
        account.session = some(session)
        account.session_until = (session + 1) * DAY + begin
        account.session_net = net
        account.session_peak = net
    session_peak = maximum(account.session_peak, net)
    run_peak = maximum(account.run_peak, net)
    account.session_peak = session_peak
    account.run_peak = run_peak
    reached = b.variable(ACTIVE, "u8")
    loss_from = select(settings.max_loss_session, account.session_net, 0)
    fall_from = select(settings.max_drawdown_session, session_peak, run_peak)
    for rule, top in (("max_loss", loss_from), ("max_drawdown", fall_from)):
        with b.when(settings[rule].present & (top.saturating_sub(net) >= settings[rule].value)):
            then = select(settings[f"{rule}_kills"], b.const(KILLED, "u8"), b.const(REDUCING, "u8"))
            reached.value = maximum(reached.value, then)
    before = engine.trading
    engine.trading = maximum(before, reached.value)
    b.ret((reached.value == KILLED) & (before != KILLED))


def _record(b: FunctionCode, engine: Record) -> None:
    p, account = engine.position, engine.account
    own: dict[str, Expr] = {name: p[name] for name in ("realized", "unrealized", "fees", "net")}
    marked = account.mark2.present
    own |= {"mark2": select(marked, account.mark2.value, 0), "marked": marked.cast("u32")}
    instrument = engine.settings.instrument
    collect(b, engine, "pnl", ts=engine.now, position=p.qty, instrument=instrument, **own)
    account.pnl_changed = False
    account.pnl_due = engine.now.saturating_add(engine.settings.pnl_every)
