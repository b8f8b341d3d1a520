"""The open orders as the strategy knows them: entered, found, cancelled, closed. What they may still fill is summed up as they change."""

from compiler.hir.instruction import Value
from quantdsl.engine import requests
from quantdsl.engine.inside import Inner, declare
from quantdsl.engine.interface import OF_ENGINE, EngineSignature
from quantdsl.engine.layout import BUY, KILLED, MARKET, OPEN, ORDER, REQUESTS
from quantdsl.engine.outputs import collect, side_of_record
from quantdsl.engine.requests import push_request
from quantdsl.native.build import FunctionCode, ModuleBuilder
from quantdsl.native.slab import Slab
from quantdsl.native.types import I64, U8, U64
from runtime.replay.outputs.records import OrderState
from runtime.replay.outputs.records import Tif as RecordTif

SLAB = Slab(ORDER, OPEN)
TIFS = (RecordTif.IOC, RecordTif.FOK, RecordTif.GTC, RecordTif.DAY)
"""Of records, in the order of the language's enum."""

INNER = {
    "orders.leave": Inner({"slot": I64, "state": U8}, out_of_line=False),
    "orders.forget": Inner({"slot": I64}, out_of_line=False),
    "orders.record": Inner({"slot": I64}, out_of_line=False),
    "orders.unlink": Inner({"id": U64}, stateful=True),
}
"""`leave`: one ends in a state, and is written down. `forget`: one goes without a trace.
`record` writes one down as it stands. `unlink`: an order that was linked to another which filled or ended is cancelled."""

ACTS = ("desk.cancel", "desk.cancel_all", "desk.kill", "desk.link", *(name for name in OF_ENGINE if name.startswith("orders.")))

SHARED = ("orders.find", "desk.cancel_all", "desk.kill")
"""Those that the engine calls, too; the others are part of their entries."""


def order_at(b: FunctionCode, desk: Value, slot: Value) -> Value:
    return b.at(desk, "slots", "items", slot, proved=True)


def exposed(b: FunctionCode, order: Value) -> Value:
    """The most that an order may still fill."""
    return b.sub(b.larger(b.get(order, "qty"), b.get(order, "asked")), b.get(order, "filled"))


def weigh(b: FunctionCode, desk: Value, order: Value, operation: str) -> None:
    """`add` an order to what open orders may fill, or take it away again (`sub`)."""
    _weigh(b, desk, operation, b.get(order, "side"), exposed(b, order), b.get(order, "held_at"))


def _weigh(b: FunctionCode, desk: Value, operation: str, side: Value, amount: Value, held_at: Value) -> None:
    p, buys = b.at(desk, "position"), b.eq(side, BUY)
    b.put(p, "open_buys", b.arithmetic(operation, b.get(p, "open_buys"), b.select(buys, amount, 0)))
    b.put(p, "open_sells", b.arithmetic(operation, b.get(p, "open_sells"), b.select(buys, 0, amount)))
    worth = b.wrapping("mul", b.cast(amount, "i128"), b.cast(held_at, "i128"))
    b.put(desk, "open_notional", b.wrapping(operation, b.get(desk, "open_notional"), worth))


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
        ("desk.cancel", _cancel),
        ("desk.cancel_all", _cancel_all),
        ("desk.kill", _kill),
        ("desk.link", _link),
    ):
        with program.define(name) as b:
            write(b)


# ---- coming and going ---------------------------------------------------------------------------------------------------


def _find(b: FunctionCode) -> None:
    """By halves: `open` is in the order of the ids."""
    desk, _, id = b.parameters
    low, high = b.variable(b.const(0, "i64")), b.variable(b.get(desk, "open_count"))
    with b.repeat():
        with b.when(b.ge(b.now(low), b.now(high))):
            b.leave()
        middle = b.wrapping("shr", b.wrapping("add", b.now(low), b.now(high)), 1)
        slot = b.get(desk, "open", middle, proved=True)
        found = b.get(order_at(b, desk, slot), "id")
        with b.when(b.eq(found, id)):
            b.give(slot)
        with b.choice(b.lt(found, id)) as half:
            with half.then():
                b.set(low, b.wrapping("add", middle, 1))
            with half.otherwise():
                b.set(high, middle)
    b.give(-1)


def _enter(b: FunctionCode) -> None:
    desk, _, *rest = b.parameters
    given = dict(zip(list(OF_ENGINE["orders.enter"].parameters), rest, strict=True))
    slot = SLAB.take(b, b.at(desk, "slots"))
    b.require(b.ge(slot, 0), b.const(OPEN, "i64"), code="0812", message="more than {0} orders are open at once")
    order, count, id = order_at(b, desk, slot), b.get(desk, "open_count"), b.get(desk, "submitted")
    b.put(order, "id", id)
    b.put(order, "ts", b.get(desk, "now"))
    for name in ("side", "qty", "limit", "tif", "options", "tag", "held_at"):
        b.put(order, name, given[name])
    b.put(order, "has_stop", given["stop.present"])
    b.put(order, "stop", given["stop"])
    b.put(order, "shown", b.select(given["show.present"], given["show"], 0))
    b.put(order, "state", int(OrderState.PENDING))
    b.put(order, "place", count)
    b.put(desk, "open", count, slot)
    b.put(desk, "open_count", b.wrapping("add", count, 1))
    _weigh(b, desk, "add", *(given[name] for name in ("side", "qty", "held_at")))
    push_request(b, desk, requests.NEW, slot, id)


def _leave(b: FunctionCode) -> None:
    desk, slot, state = b.parameters
    order = order_at(b, desk, slot)
    b.put(order, "state", state)
    b.put(order, "done", b.get(desk, "now"))
    b.call("orders.record", desk, slot)
    b.call("orders.forget", desk, slot)


def _forget(b: FunctionCode) -> None:
    """It must have been weighed off."""
    desk, slot = b.parameters
    count = b.wrapping("sub", b.get(desk, "open_count"), 1)
    with b.loop(b.get(order_at(b, desk, slot), "place"), count) as i:
        behind = b.get(desk, "open", b.wrapping("add", i, 1), proved=True)
        b.put(desk, "open", i, behind, proved=True)
        b.put(order_at(b, desk, behind), "place", i)
    b.put(desk, "open_count", count)
    SLAB.give_back(b, b.at(desk, "slots"), slot)


def _record(b: FunctionCode) -> None:
    desk, slot = b.parameters
    order = order_at(b, desk, slot)
    tif = b.get(order, "tif")
    named: Value = b.const(int(TIFS[0]), "u8")
    for number, of_record in enumerate(TIFS[1:], 1):
        named = b.select(b.eq(tif, number), b.const(int(of_record), "u8"), named)
    own = {name: b.get(order, name) for name in ("id", "ts", "done", "qty", "filled", "state", "options")}
    limit = b.select(_at_market(b, order), 0, b.get(order, "limit"))
    side = side_of_record(b, b.get(order, "side"))
    collect(b, desk, "orders", **own, limit=limit, side=side, tif=named, instrument=b.get(desk, "settings", "instrument"))


def _refuse(b: FunctionCode) -> None:
    """An order that its own risk block refused: counted by rule, and written down."""
    desk, _, side, qty, limited, limit, options, mask = b.parameters
    with b.loop(0, 12) as rule:
        broken = b.wrapping("and", b.wrapping("shr", b.cast(mask, "i64"), rule), 1)
        b.put(desk, "reject_counts", rule, b.wrapping("add", b.get(desk, "reject_counts", rule, proved=True), broken), proved=True)
    said = {"ts": b.get(desk, "now"), "order": b.get(desk, "submitted"), "instrument": b.get(desk, "settings", "instrument")}
    limit = b.select(limited, limit, 0)
    collect(b, desk, "rejects", **said, qty=qty, limit=limit, mask=b.cast(mask, "u16"), side=side_of_record(b, side), options=options)


# ---- acts -----------------------------------------------------------------------------------------------------------------


def _ask_to_cancel(b: FunctionCode, desk: Value, state: Value, slot: Value) -> None:
    """Counts for a `rate all`."""
    with b.when(b.get(desk, "settings", "rate_all")):
        b.call("risk.asked", desk, state)
    push_request(b, desk, requests.CANCEL, slot, b.get(order_at(b, desk, slot), "id"))


def _cancel(b: FunctionCode) -> None:
    """An order that isn't open stays as it is."""
    desk, state, id = b.parameters
    (slot,) = b.call("orders.find", desk, state, id)
    with b.when(b.ge(slot, 0)):
        room, places = requests.has_room(b, desk), b.const(REQUESTS - requests.RESERVED, "i64")
        b.require(room, places, code="0812", message="more than {0} requests are on their way at once")
        _ask_to_cancel(b, desk, state, slot)
    b.give(True, id, 0)


def _ask_to_replace(b: FunctionCode) -> None:
    """From now on it counts with the larger of its quantities."""
    desk, state, slot, qty, limit, at_market = b.parameters
    with b.when(b.get(desk, "settings", "rate_all")):
        b.call("risk.asked", desk, state)
    order = order_at(b, desk, slot)
    push_request(
        b, desk, requests.REPLACE, slot, b.get(order, "id"), qty=qty, limit=limit, at_market=at_market, before=b.get(order, "asked")
    )
    weigh(b, desk, order, "sub")
    b.put(order, "asked", qty)
    weigh(b, desk, order, "add")


def _cancel_all(b: FunctionCode) -> None:
    desk, state = b.parameters
    with b.loop(0, b.get(desk, "open_count")) as i:
        _ask_to_cancel(b, desk, state, b.get(desk, "open", i))


def _kill(b: FunctionCode) -> None:
    """No more orders; what is open is cancelled. The first reason stays."""
    desk, state, why = b.parameters
    b.put(desk, "trading", KILLED)
    b.put(desk, "killed_by", b.select(b.eq(b.get(desk, "killed_by"), 0), why, b.get(desk, "killed_by")))
    b.call("desk.cancel_all", desk, state)


def _link(b: FunctionCode) -> None:
    """Only two orders that are both open."""
    desk, state, first, second = b.parameters
    slots = [b.call("orders.find", desk, state, id)[0] for id in (first, second)]
    open_both = b.both(b.ge(slots[0], 0), b.ge(slots[1], 0), b.ne(first, second))
    with b.when(open_both):
        b.put(order_at(b, desk, slots[0]), "linked", second)
        b.put(order_at(b, desk, slots[1]), "linked", first)
    b.give(open_both)


def _unlink(b: FunctionCode) -> None:
    """The two aren't linked any more then, so that the end of the one doesn't cancel what is left of the other."""
    desk, state, id = b.parameters
    (slot,) = b.call("orders.find", desk, state, id)
    with b.when(b.ge(slot, 0)):
        b.put(order_at(b, desk, slot), "linked", 0)
        _ask_to_cancel(b, desk, state, slot)


# ---- own orders that meet ------------------------------------------------------------------------------------------------


def _at_market(b: FunctionCode, order: Value) -> Value:
    return b.ne(b.wrapping("and", b.get(order, "options"), MARKET), 0)


def _meeting(b: FunctionCode, order: Value, side: Value, limited: Value, limit: Value) -> Value:
    """Whether an open order and a new one would trade with each other; one at the market meets every one."""
    other = b.ne(b.get(order, "side"), side)
    own = b.get(order, "limit")
    priced = b.select(b.eq(side, BUY), b.ge(limit, own), b.le(limit, own))
    return b.both(other, b.either(_at_market(b, order), b.negate(limited), priced))


def _meets(b: FunctionCode) -> None:
    desk, _, side, limited, limit, instead_of = b.parameters
    p = b.at(desk, "position")
    with b.when(b.eq(b.select(b.eq(side, BUY), b.get(p, "open_sells"), b.get(p, "open_buys")), 0)):
        b.give(False)
    with b.loop(0, b.get(desk, "open_count")) as i:
        slot = b.get(desk, "open", i)
        with b.when(b.both(b.ne(slot, instead_of), _meeting(b, order_at(b, desk, slot), side, limited, limit))):
            b.give(True)
    b.give(False)


def _cancel_met(b: FunctionCode) -> None:
    desk, state, side, limited, limit = b.parameters
    with b.loop(0, b.get(desk, "open_count")) as i:
        slot = b.get(desk, "open", i)
        with b.when(_meeting(b, order_at(b, desk, slot), side, limited, limit)):
            _ask_to_cancel(b, desk, state, slot)
