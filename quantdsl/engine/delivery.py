"""What is due: requests reach the market, reports come back, timers and bars end, each in the order of time.

What is due at one moment goes by kind: requests first, then reports, bars, timers. Requests, and reports, all travel equally long, so their
queues are in the order of time."""

from collections.abc import Callable
from functools import partial

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, Record, any_of, maximum, minimum, select
from compiler.hir.native_types import I1, I64, U8
from quantdsl.engine import layout, queues
from quantdsl.engine.clock import NEVER
from quantdsl.engine.exchange_orders import order_at
from quantdsl.engine.handlers import handled, notify
from quantdsl.engine.inside import Inner, declare
from quantdsl.engine.layout import SLAB
from quantdsl.engine.market import good_mark
from quantdsl.engine.outputs import begin_event, collect, side_of_record
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


def anything_due(engine: Record, ts: Expr) -> Expr:
    """Whether it is worth to call `until`."""
    waiting = [~queues.is_empty(engine[queue]) for queue in ("requests", "reports")]
    return any_of(*waiting, engine.soonest <= ts)


def _until(b: FunctionCode) -> None:
    engine, state, ts = b.parameters
    with b.repeat():
        request_due, report_due = (_first_due(engine[queue]) for queue in ("requests", "reports"))
        due = minimum(minimum(request_due, report_due), engine.soonest)
        with b.when(due > ts):
            b.break_()
        with b.when(begin_event(engine)):
            b.ret(True)
        _time_goes_on(b, engine, due)
        with b.when(request_due == due):
            b.call("arrive", engine)
            b.continue_()
        with b.when(report_due == due):
            b.call("deliver", engine, state)
            b.continue_()
        b.call("clock", engine, state)
    b.ret(False)


def _first_due(queue: Record) -> Expr:
    """When the first of a queue of requests or reports is due."""
    due = queues.first(queue).due
    return select(queues.is_empty(queue), NEVER, due)


def _time_goes_on(b: FunctionCode, engine: Record, due: Expr) -> None:
    now = engine.now
    count = select(due > now, 0, engine.instant.wrapping_add(1))
    engine.instant = count
    engine.now = maximum(now, due)
    hint = "handlers answer their own reports without end: give the replay a latency, or the risk block a `rate`"
    b.require(count < AT_ONE_MOMENT, engine.now, code="0812", message="time stands still at {0} ns", hint=hint)


def _there(b: FunctionCode, engine: Record, slot: Expr, id: Expr) -> Expr:
    """Whether the order that a request or report speaks of is still there."""
    return SLAB.holds(b, engine.slots, slot) & (order_at(engine, slot).id == id)


def _arrive(b: FunctionCode) -> None:
    (engine,) = b.parameters
    queue = engine.requests
    request = queues.first(queue)
    kind, slot, id, qty, limit, at_market = (request[name] for name in ("kind", "slot", "id", "qty", "limit", "at_market"))
    queues.drop(queue)
    with b.when(_there(b, engine, slot, id)):
        match(
            b,
            kind,
            {
                layout.NEW: _calling(b, "exchange.arrive", engine, slot),
                layout.CANCEL: _calling(b, "exchange.cancel", engine, slot),
                layout.REPLACE: _calling(b, "exchange.replace", engine, slot, qty, limit, at_market),
            },
        )


def _calling(b: FunctionCode, name: str, *arguments: Expr) -> Callable[[], None]:
    """What writes a call of a function that gives nothing."""

    def write() -> None:
        b.call(name, *arguments)

    return write


def _deliver(b: FunctionCode) -> None:
    engine, state = b.parameters
    queue = engine.reports
    report = queues.first(queue)
    fields = {name: report[name] for name in ("kind", "slot", "id", "price", "qty", "maker", "state", "at_market")}
    queues.drop(queue)
    slot = fields["slot"]
    with b.when(~_there(b, engine, slot, fields["id"])):
        _illegal(engine)
        b.ret()
    order = order_at(engine, slot)
    known, end = order.state, fields["state"]
    live = (known == OrderState.LIVE) | (known == OrderState.PART_FILLED)
    pending = known == OrderState.PENDING

    def if_legal(legal: Expr, then: Callable[[], None]) -> None:
        with b.when(legal):
            then()
        with b.otherwise():
            _illegal(engine)

    fill = [fields[name] for name in ("price", "qty", "maker")]
    ended = live & (end != OrderState.REJECTED)
    early = (end == OrderState.REJECTED) | (end == OrderState.CANCELLED)
    match(
        b,
        fields["kind"],
        {
            layout.ACKED: lambda: if_legal(pending, partial(_acknowledged, b, engine, state, order)),
            layout.TRADED: lambda: if_legal(live, _calling(b, "deliver.fill", engine, state, slot, *fill)),
            layout.ENDED: lambda: if_legal(ended | (pending & early), _calling(b, "deliver.end", engine, state, slot, end)),
            layout.CHANGED: lambda: _replaced(b, engine, state, order, fields),
        },
    )


def _illegal(engine: Record) -> None:
    """A report that the order's state doesn't allow is counted and ignored."""
    engine.illegal = engine.illegal.wrapping_add(1)


def _acknowledged(b: FunctionCode, engine: Record, state: Record, order: Record) -> None:
    order.state = int(OrderState.LIVE)
    notify(b, engine, state, "ack", ts=engine.now, id=order.id)


def _replaced(b: FunctionCode, engine: Record, state: Record, order: Record, fields: dict[str, Record]) -> None:
    b.call("orders.replaced", engine, state, *(fields[name] for name in ("slot", "qty", "price", "at_market")))
    notify(b, engine, state, "ack", ts=engine.now, id=order.id)


def _end(b: FunctionCode) -> None:
    engine, state, slot, end = b.parameters
    order = order_at(engine, slot)
    id, side, tag, linked = (order[name] for name in ("id", "side", "tag", "linked"))
    left = order.qty - order.filled
    b.call("orders.end", engine, state, slot, end)
    _cancel_linked(b, engine, state, linked)
    now = engine.now
    with b.when(end == OrderState.REJECTED):
        notify(b, engine, state, "reject", ts=now, why=b.const(0, "u32"), side=side, qty=left, tag=tag)
    with b.otherwise():
        notify(b, engine, state, "cancelled", ts=now, id=id, qty=left)


def _cancel_linked(b: FunctionCode, engine: Record, state: Record, linked: Expr) -> None:
    with b.when(linked != 0):
        b.call("orders.unlink", engine, state, linked)


def _fill(b: FunctionCode) -> None:
    engine, state, slot, price, qty, maker = b.parameters
    order, p = order_at(engine, slot), engine.position
    id, side, tag, linked = (order[name] for name in ("id", "side", "tag", "linked"))
    b.call("orders.filled", engine, state, slot, qty)
    (fee,) = b.call("account.fill", engine, side, price, qty, maker)
    now, instrument = engine.now, engine.settings.instrument
    after = {"realized": p.realized, "position": p.qty}
    numbers = {"ts": now, "order": id, "price": price, "qty": qty, "fee": fee, "instrument": instrument, **after}
    collect(b, engine, "fills", side=side_of_record(side), maker=maker.cast("u8"), unused=0, **numbers)
    b.call("account.mark", engine, *good_mark(b, engine).parts)
    b.call("account.revalue", engine)
    b.call("account.record", engine)
    look_at_losses(b, engine, state)
    _cancel_linked(b, engine, state, linked)
    with b.when(handled(engine, "fill")):
        notify(b, engine, state, "fill", ts=now, id=id, side=side, price=price, qty=qty, fee=fee, maker=maker, tag=tag)


def look_at_losses(b: FunctionCode, engine: Record, state: Record) -> None:
    """Where the risk block limits them, and they, or the session, may have changed."""
    settings, account = engine.settings, engine.account
    limited = settings.max_loss.present | settings.max_drawdown.present
    other = engine.position.net != account.watched
    with b.when(limited & (other | (engine.now >= account.session_until))):
        (killed,) = b.call("account.watch", engine)
        with b.when(killed):
            b.call("engine.kill", engine, state, LOSS)
