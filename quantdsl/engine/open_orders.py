"""The open orders as the strategy knows them: entered, found, cancelled, closed. What they may still fill is summed up as they change."""

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, Record, all_of, any_of, maximum, select
from compiler.hir.native_types import I64, U8, U64
from quantdsl.engine import requests
from quantdsl.engine.inside import Inner, declare
from quantdsl.engine.interface import OF_ENGINE, EngineSignature
from quantdsl.engine.layout import BUY, KILLED, MARKET, OPEN, ORDER, REQUESTS
from quantdsl.engine.outputs import collect, side_of_record
from quantdsl.engine.requests import push_request
from quantdsl.native.slab import Slab
from runtime.replay.outputs.records import OrderState

SLAB = Slab(ORDER, OPEN)

INNER = {
    "orders.leave": Inner({"slot": I64, "state": U8}, out_of_line=False),
    "orders.forget": Inner({"slot": I64}, out_of_line=False),
    "orders.record": Inner({"slot": I64}, out_of_line=False),
    "orders.unlink": Inner({"id": U64}, stateful=True),
}
"""`leave`: one ends in a state, and is written down. `forget`: one goes without a trace.
`record` writes one down as it stands. `unlink`: an order that was linked to another which filled or ended is cancelled."""

ACTS = ("engine.cancel", "engine.cancel_all", "engine.kill", "engine.link", *(name for name in OF_ENGINE if name.startswith("orders.")))

SHARED = ("orders.find", "engine.cancel_all", "engine.kill")
"""Those that the engine calls, too; the others are part of their entries."""


def order_at(engine: Record, slot: Expr) -> Record:
    return engine.slots.items.unchecked[slot]


def exposed(order: Record) -> Expr:
    """The most that an order may still fill."""
    return maximum(order.qty, order.asked) - order.filled


def adjust_exposure(b: FunctionCode, engine: Record, order: Record, operation: str) -> None:
    """`add` an order to what open orders may fill, or take it away again (`sub`)."""
    _add_exposure(b, engine, operation, order.side, exposed(order), order.held_at)


def _add_exposure(b: FunctionCode, engine: Record, operation: str, side: Expr, amount: Expr, held_at: Expr) -> None:
    p, buys = engine.position, side == BUY
    p.open_buys = b.arithmetic(operation, p.open_buys, select(buys, amount, 0))
    p.open_sells = b.arithmetic(operation, p.open_sells, select(buys, 0, amount))
    worth = amount.cast("i128").wrapping_mul(held_at.cast("i128"))
    engine.open_notional = b.wrapping(operation, engine.open_notional, worth)


def define_open_orders(program: ModuleBuilder) -> None:
    """All of them, in the engine's module."""
    declare(program, INNER)
    for name in ACTS:
        signature: EngineSignature = OF_ENGINE[name]
        attributes = ("noalias", "noinline") if name in SHARED else ("noalias",)
        program.declare(name, signature.whole(), signature.results, attributes=attributes)
    for name, write in (
        ("orders.find", _find),
        ("orders.leave", _leave),
        ("orders.forget", _forget),
        ("orders.record", _record),
        ("orders.unlink", _unlink),
        ("orders.enter", _enter),
        ("orders.refuse", _refuse),
        ("orders.meets", _meets),
        ("orders.cancel_met", _cancel_met),
        ("orders.ask_to_replace", _ask_to_replace),
        ("engine.cancel", _cancel),
        ("engine.cancel_all", _cancel_all),
        ("engine.kill", _kill),
        ("engine.link", _link),
    ):
        with program.define(name) as b:
            write(b)


# ---- coming and going ---------------------------------------------------------------------------------------------------


def _find(b: FunctionCode) -> None:
    """By halves: `open` is in the order of the ids."""
    engine, _, id = b.parameters
    low, high = b.variable(0), b.variable(engine.open_count)
    with b.repeat():
        with b.when(low.value >= high.value):
            b.break_()
        middle = low.value.wrapping_add(high.value) >> 1
        slot = engine.open.unchecked[middle]
        middle_id = order_at(engine, slot).id
        with b.when(middle_id == id):
            b.ret(slot)
        with b.when(middle_id < id):
            low.value = middle.wrapping_add(1)
        with b.otherwise():
            high.value = middle
    b.ret(-1)


def _enter(b: FunctionCode) -> None:
    engine, _, *rest = b.parameters
    given = dict(zip(list(OF_ENGINE["orders.enter"].parameters), rest, strict=True))
    slot = SLAB.take(b, engine.slots)
    b.require(slot >= 0, b.const(OPEN, "i64"), code="0812", message="more than {0} orders are open at once")
    order, count, id = order_at(engine, slot), engine.open_count, engine.submitted
    order.id = id
    order.ts = engine.now
    for name in ("side", "qty", "limit", "tif", "options", "tag", "held_at"):
        order[name] = given[name]
    order.has_stop = given["stop.present"]
    order.stop = given["stop"]
    order.shown = select(given["show.present"], given["show"], 0)
    order.state = int(OrderState.PENDING)
    order.place = count
    engine.open[count] = slot
    engine.open_count = count.wrapping_add(1)
    _add_exposure(b, engine, "add", *(given[name] for name in ("side", "qty", "held_at")))
    push_request(b, engine, requests.NEW, slot, id)


def _leave(b: FunctionCode) -> None:
    engine, slot, state = b.parameters
    order = order_at(engine, slot)
    order.state = state
    order.done = engine.now
    b.call("orders.record", engine, slot)
    b.call("orders.forget", engine, slot)


def _forget(b: FunctionCode) -> None:
    """It must have been weighed off."""
    engine, slot = b.parameters
    count = engine.open_count.wrapping_sub(1)
    with b.loop(order_at(engine, slot).place, count) as i:
        behind = engine.open.unchecked[i.wrapping_add(1)]
        engine.open.unchecked[i] = behind
        order_at(engine, behind).place = i
    engine.open_count = count
    SLAB.give_back(b, engine.slots, slot)


def _record(b: FunctionCode) -> None:
    engine, slot = b.parameters
    order = order_at(engine, slot)
    own = {name: order[name] for name in ("id", "ts", "done", "qty", "filled", "tif", "state", "options")}
    limit = select(_at_market(order), 0, order.limit)
    side = side_of_record(order.side)
    collect(b, engine, "orders", **own, limit=limit, side=side, instrument=engine.settings.instrument)


def _refuse(b: FunctionCode) -> None:
    """An order that its own risk block refused: counted by rule, and written down."""
    engine, _, side, qty, limited, limit, options, mask = b.parameters
    with b.loop(0, 12) as rule:
        broken = (mask.cast("i64") >> rule) & 1
        engine.reject_counts.unchecked[rule] = engine.reject_counts.unchecked[rule].wrapping_add(broken)
    common = {"ts": engine.now, "order": engine.submitted, "instrument": engine.settings.instrument}
    price = select(limited, limit, 0)
    collect(b, engine, "rejects", **common, qty=qty, limit=price, mask=mask.cast("u16"), side=side_of_record(side), options=options)


# ---- acts -----------------------------------------------------------------------------------------------------------------


def _ask_to_cancel(b: FunctionCode, engine: Record, state: Record, slot: Expr) -> None:
    """Counts for a `rate all`."""
    with b.when(engine.settings.rate_all):
        b.call("risk.asked", engine, state)
    push_request(b, engine, requests.CANCEL, slot, order_at(engine, slot).id)


def _cancel(b: FunctionCode) -> None:
    """An order that isn't open stays as it is."""
    engine, state, id = b.parameters
    (slot,) = b.call("orders.find", engine, state, id)
    with b.when(slot >= 0):
        room, places = requests.has_room(engine), b.const(REQUESTS - requests.RESERVED, "i64")
        b.require(room, places, code="0812", message="more than {0} requests are on their way at once")
        _ask_to_cancel(b, engine, state, slot)
    b.ret(True, id, 0)


def _ask_to_replace(b: FunctionCode) -> None:
    """From now on it counts with the larger of its quantities."""
    engine, state, slot, qty, limit, at_market = b.parameters
    with b.when(engine.settings.rate_all):
        b.call("risk.asked", engine, state)
    order = order_at(engine, slot)
    push_request(
        b, engine, requests.REPLACE, slot, order.id, qty=qty, limit=limit, at_market=at_market, before=order.asked
    )
    adjust_exposure(b, engine, order, "sub")
    order.asked = qty
    adjust_exposure(b, engine, order, "add")


def _cancel_all(b: FunctionCode) -> None:
    engine, state = b.parameters
    with b.loop(0, engine.open_count) as i:
        _ask_to_cancel(b, engine, state, engine.open[i])


def _kill(b: FunctionCode) -> None:
    """No more orders; what is open is cancelled. The first reason stays."""
    engine, state, why = b.parameters
    engine.trading = KILLED
    engine.killed_by = select(engine.killed_by == 0, why, engine.killed_by)
    b.call("engine.cancel_all", engine, state)


def _link(b: FunctionCode) -> None:
    """Only two orders that are both open."""
    engine, state, first, second = b.parameters
    slots = [b.call("orders.find", engine, state, id)[0] for id in (first, second)]
    open_both = all_of(slots[0] >= 0, slots[1] >= 0, first != second)
    with b.when(open_both):
        order_at(engine, slots[0]).linked = second
        order_at(engine, slots[1]).linked = first
    b.ret(open_both)


def _unlink(b: FunctionCode) -> None:
    """The two aren't linked any more then, so that the end of the one doesn't cancel what is left of the other."""
    engine, state, id = b.parameters
    (slot,) = b.call("orders.find", engine, state, id)
    with b.when(slot >= 0):
        order_at(engine, slot).linked = 0
        _ask_to_cancel(b, engine, state, slot)


# ---- own orders that meet ------------------------------------------------------------------------------------------------


def _at_market(order: Record) -> Expr:
    return (order.options & MARKET) != 0


def _meeting(order: Record, side: Expr, limited: Expr, limit: Expr) -> Expr:
    """Whether an open order and a new one would trade with each other; one at the market meets every one."""
    other = order.side != side
    own = order.limit
    priced = select(side == BUY, limit >= own, limit <= own)
    return other & any_of(_at_market(order), ~limited, priced)


def _meets(b: FunctionCode) -> None:
    engine, _, side, limited, limit, instead_of = b.parameters
    p = engine.position
    with b.when(select(side == BUY, p.open_sells, p.open_buys) == 0):
        b.ret(False)
    with b.loop(0, engine.open_count) as i:
        slot = engine.open[i]
        with b.when((slot != instead_of) & _meeting(order_at(engine, slot), side, limited, limit)):
            b.ret(True)
    b.ret(False)


def _cancel_met(b: FunctionCode) -> None:
    engine, state, side, limited, limit = b.parameters
    with b.loop(0, engine.open_count) as i:
        slot = engine.open[i]
        with b.when(_meeting(order_at(engine, slot), side, limited, limit)):
            _ask_to_cancel(b, engine, state, slot)
