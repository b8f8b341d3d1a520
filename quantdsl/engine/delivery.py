"""What is due: requests reach the market, reports come back, timers and bars end, each in the order of time.

What is due at one moment goes by kind: requests first, then reports, bars, timers. Requests, and reports, all travel equally long, so their
queues are in the order of time."""

from collections.abc import Callable
from functools import partial

from compiler.hir.instruction import Value
from quantdsl.engine import reports, requests
from quantdsl.engine.account import mark
from quantdsl.engine.clock import NEVER
from quantdsl.engine.handlers import handled, tell
from quantdsl.engine.inside import Inner, declare
from quantdsl.engine.layout import MARKET, REQUESTS
from quantdsl.engine.market import good_mark
from quantdsl.engine.open_orders import SLAB, order_at, weigh
from quantdsl.engine.outputs import begin_event, collect, side_of_record
from quantdsl.native.build import FunctionCode, ModuleBuilder
from quantdsl.native.types import I1, I64, U8
from quantdsl.native.values import match
from runtime.replay.outputs.records import OrderState

AT_ONE_MOMENT = 1 << 20
"""So much may happen without time going on."""
LOSS = -1
"""Of `killed_by`: a loss."""

DELIVERY = {
    "until": Inner({"ts": I64}, (I1,), stateful=True),
    "arrive": Inner({}, out_of_line=False),
    "deliver": Inner({}, stateful=True, out_of_line=False),
    "deliver.fill": Inner({"slot": I64, "price": I64, "qty": I64, "maker": I1}, stateful=True, out_of_line=False),
    "deliver.end": Inner({"slot": I64, "end": U8}, stateful=True, out_of_line=False),
}
"""`until` does what is due by then, and gives whether it stopped before, for outputs that are to be collected. `arrive` takes the first
request, `deliver` the first report."""


def define_delivery(program: ModuleBuilder) -> None:
    declare(program, DELIVERY)
    for name, write in (
        ("until", _until),
        ("arrive", _arrive),
        ("deliver", _deliver),
        ("deliver.fill", _fill),
        ("deliver.end", _end),
    ):
        with program.define(name) as b:
            write(b)


def anything_due(b: FunctionCode, desk: Value, ts: Value) -> Value:
    """Whether it is worth to call `until`."""
    waiting = [b.negate(reports.QUEUE.is_empty(b, b.at(desk, queue))) for queue in ("requests", "reports")]
    return b.either(*waiting, b.le(b.get(desk, "soonest"), ts))


def _until(b: FunctionCode) -> None:
    desk, state, ts = b.parameters
    with b.repeat():
        asked, told = (_first_due(b, b.at(desk, queue)) for queue in ("requests", "reports"))
        due = b.smaller(b.smaller(asked, told), b.get(desk, "soonest"))
        with b.when(b.gt(due, ts)):
            b.leave()
        with b.when(begin_event(b, desk)):
            b.give(True)
        _time_goes_on(b, desk, due)
        with b.when(b.eq(asked, due)):
            b.call("arrive", desk)
            b.again()
        with b.when(b.eq(told, due)):
            b.call("deliver", desk, state)
            b.again()
        b.call("clock", desk, state)
    b.give(False)


def _first_due(b: FunctionCode, queue: Value) -> Value:
    """When the first of a queue of requests or reports is due."""
    first = b.at(queue, "items", b.wrapping("and", b.get(queue, "first"), REQUESTS - 1), proved=True)
    return b.select(reports.QUEUE.is_empty(b, queue), NEVER, b.get(first, "due"))


def _time_goes_on(b: FunctionCode, desk: Value, due: Value) -> None:
    now = b.get(desk, "now")
    count = b.select(b.gt(due, now), 0, b.wrapping("add", b.get(desk, "instant"), 1))
    b.put(desk, "instant", count)
    b.put(desk, "now", b.larger(now, due))
    hint = "handlers answer their own reports without end: give the replay a latency, or the risk block a `rate`"
    b.require(b.lt(count, AT_ONE_MOMENT), b.get(desk, "now"), code="0812", message="time stands still at {0} ns", hint=hint)


def _there(b: FunctionCode, desk: Value, slot: Value, id: Value) -> Value:
    """Whether the order that a request or report speaks of is still there."""
    return b.both(SLAB.holds(b, b.at(desk, "slots"), slot), b.eq(b.get(order_at(b, desk, slot), "id"), id))


def _arrive(b: FunctionCode) -> None:
    (desk,) = b.parameters
    queue = b.at(desk, "requests")
    request = requests.QUEUE.first(b, queue)
    kind, slot, id, qty, limit, at_market = (b.get(request, name) for name in ("kind", "slot", "id", "qty", "limit", "at_market"))
    requests.QUEUE.drop(b, queue)
    with b.when(_there(b, desk, slot, id)):
        match(
            b,
            kind,
            {
                requests.NEW: _calling(b, "exchange.arrive", desk, slot),
                requests.CANCEL: _calling(b, "exchange.cancel", desk, slot),
                requests.REPLACE: _calling(b, "exchange.replace", desk, slot, qty, limit, at_market),
            },
        )


def _calling(b: FunctionCode, name: str, *arguments: Value) -> Callable[[], None]:
    """What writes a call of a function that gives nothing."""

    def write() -> None:
        b.call(name, *arguments)

    return write


def _deliver(b: FunctionCode) -> None:
    desk, state = b.parameters
    queue = b.at(desk, "reports")
    report = reports.QUEUE.first(b, queue)
    told = {name: b.get(report, name) for name in ("kind", "slot", "id", "price", "qty", "maker", "state", "at_market")}
    reports.QUEUE.drop(b, queue)
    slot = told["slot"]
    with b.when(b.negate(_there(b, desk, slot, told["id"]))):
        _illegal(b, desk)
        b.give()
    order = order_at(b, desk, slot)
    known, end = b.get(order, "state"), told["state"]
    live = b.either(b.eq(known, OrderState.LIVE), b.eq(known, OrderState.PART_FILLED))
    pending = b.eq(known, OrderState.PENDING)

    def where(legal: Value, then: Callable[[], None]) -> None:
        with b.choice(legal) as choice:
            with choice.then():
                then()
            with choice.otherwise():
                _illegal(b, desk)

    fill = [told[name] for name in ("price", "qty", "maker")]
    ended = b.both(live, b.ne(end, OrderState.REJECTED))
    early = b.either(b.eq(end, OrderState.REJECTED), b.eq(end, OrderState.CANCELLED))
    match(
        b,
        told["kind"],
        {
            reports.ACK: lambda: where(pending, partial(_acknowledged, b, desk, state, order)),
            reports.FILLED: lambda: where(live, _calling(b, "deliver.fill", desk, state, slot, *fill)),
            reports.ENDED: lambda: where(b.either(ended, b.both(pending, early)), _calling(b, "deliver.end", desk, state, slot, end)),
            reports.REPLACED: lambda: _replaced(b, desk, state, order, told),
        },
    )


def _illegal(b: FunctionCode, desk: Value) -> None:
    """A report that the order's state doesn't allow is counted and ignored."""
    b.put(desk, "illegal", b.wrapping("add", b.get(desk, "illegal"), 1))


def _acknowledged(b: FunctionCode, desk: Value, state: Value, order: Value) -> None:
    b.put(order, "state", int(OrderState.LIVE))
    tell(b, desk, state, "ack", ts=b.get(desk, "now"), id=b.get(order, "id"))


def _replaced(b: FunctionCode, desk: Value, state: Value, order: Value, told: dict[str, Value]) -> None:
    weigh(b, desk, order, "sub")
    b.put(order, "qty", told["qty"])
    b.put(order, "limit", told["price"])
    b.put(order, "asked", 0)
    b.put(order, "held_at", b.select(told["at_market"], b.get(order, "held_at"), told["price"]))
    others = b.wrapping("and", b.get(order, "options"), 0xFF - MARKET)
    b.put(order, "options", b.wrapping("or", others, b.select(told["at_market"], b.const(MARKET, "u8"), b.const(0, "u8"))))
    weigh(b, desk, order, "add")
    tell(b, desk, state, "ack", ts=b.get(desk, "now"), id=b.get(order, "id"))


def _end(b: FunctionCode) -> None:
    desk, state, slot, end = b.parameters
    order = order_at(b, desk, slot)
    id, side, tag, linked = (b.get(order, name) for name in ("id", "side", "tag", "linked"))
    left = b.sub(b.get(order, "qty"), b.get(order, "filled"))
    weigh(b, desk, order, "sub")
    b.call("orders.leave", desk, slot, end)
    _cancel_linked(b, desk, state, linked)
    now = b.get(desk, "now")
    with b.choice(b.eq(end, OrderState.REJECTED)) as rejected:
        with rejected.then():
            tell(b, desk, state, "reject", ts=now, why=b.const(0, "u32"), side=side, qty=left, tag=tag)
        with rejected.otherwise():
            tell(b, desk, state, "cancelled", ts=now, id=id, qty=left)


def _cancel_linked(b: FunctionCode, desk: Value, state: Value, linked: Value) -> None:
    with b.when(b.ne(linked, 0)):
        b.call("orders.unlink", desk, state, linked)


def _fill(b: FunctionCode) -> None:
    desk, state, slot, price, qty, maker = b.parameters
    order, p = order_at(b, desk, slot), b.at(desk, "position")
    id, side, tag, linked = (b.get(order, name) for name in ("id", "side", "tag", "linked"))
    weigh(b, desk, order, "sub")
    filled = b.add(b.get(order, "filled"), qty)
    b.put(order, "filled", filled)
    b.put(order, "linked", 0)
    with b.choice(b.eq(filled, b.get(order, "qty"))) as whole:
        with whole.then():
            b.call("orders.leave", desk, slot, int(OrderState.FILLED))
        with whole.otherwise():
            b.put(order, "state", int(OrderState.PART_FILLED))
            weigh(b, desk, order, "add")
    (fee,) = b.call("account.fill", desk, side, price, qty, maker)
    now, instrument = b.get(desk, "now"), b.get(desk, "settings", "instrument")
    after = {"realized": b.get(p, "realized"), "position": b.get(p, "qty")}
    numbers = {"ts": now, "order": id, "price": price, "qty": qty, "fee": fee, "instrument": instrument, **after}
    collect(b, desk, "fills", side=side_of_record(b, side), maker=b.cast(maker, "u8"), unused=0, **numbers)
    mark(b, desk, good_mark(b, desk))
    b.call("account.revalue", desk)
    b.call("account.record", desk)
    look_at_losses(b, desk, state)
    _cancel_linked(b, desk, state, linked)
    with b.when(handled(b, desk, "fill")):
        tell(b, desk, state, "fill", ts=now, id=id, side=side, price=price, qty=qty, fee=fee, maker=maker, tag=tag)


def look_at_losses(b: FunctionCode, desk: Value, state: Value) -> None:
    """Where the risk block limits them, and they, or the session, may have changed."""
    settings, account = b.at(desk, "settings"), b.at(desk, "account")
    limited = b.either(b.get(settings, "max_loss", "present"), b.get(settings, "max_drawdown", "present"))
    other = b.ne(b.get(desk, "position", "net"), b.get(account, "watched"))
    with b.when(b.both(limited, b.either(other, b.ge(b.get(desk, "now"), b.get(account, "session_until"))))):
        (killed,) = b.call("account.watch", desk)
        with b.when(killed):
            b.call("desk.kill", desk, state, LOSS)
