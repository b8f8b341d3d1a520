"""Calls of the program's handlers. One that fails leaves nothing behind of what it asked for, and no handler runs after it."""

from compiler.hir.instruction import Value
from quantdsl.engine import requests
from quantdsl.engine.inside import Inner, declare
from quantdsl.engine.interface import EVENTS, HANDLERS
from quantdsl.engine.open_orders import order_at, weigh
from quantdsl.engine.outputs import collect
from quantdsl.native.build import FunctionCode, ModuleBuilder
from quantdsl.native.types import I64, U8, U32, U64

FAILURE = -2
"""Of `killed_by`: a checked failure."""

BITS = {event: 1 << number for number, event in enumerate(EVENTS)}

_BEFORE = {"submitted": U64, "next_request": I64, "rejects": I64, "lost_rejects": I64, "trading": U8, "killed_by": I64}
"""What is noted before a handler runs, by the names of the parameters of `handler.failed`."""

FAILED = {"handler.failed": Inner({"event": U32, **_BEFORE}, stateful=True)}


def declare_handlers(program: ModuleBuilder) -> None:
    """The program's functions that the engine calls."""
    for name, signature in HANDLERS.items():
        if not program.has(name):
            program.imported(name, signature.whole(), signature.results)


def define_handlers(program: ModuleBuilder) -> None:
    declare(program, FAILED)
    with program.define("handler.failed") as b:
        _failed(b)


def handled(b: FunctionCode, desk: Value, event: str) -> Value:
    """Whether the program has a handler of the event, and none failed so far."""
    return b.ne(b.wrapping("and", b.get(desk, "settings", "handles"), BITS[event]), 0)


def call_handler(b: FunctionCode, desk: Value, state: Value, event: str, *arguments: Value) -> None:
    """Where the event is `handled`."""
    noted = [
        b.get(desk, "submitted"),
        b.get(desk, "requests", "next"),
        b.get(desk, "out", "rejects", "count"),
        b.get(desk, "out", "rejects", "lost"),
        b.get(desk, "trading"),
        b.get(desk, "killed_by"),
    ]
    with b.when(b.attempt(f"on.{event}", desk, state, *arguments)):
        b.call("handler.failed", desk, state, EVENTS.index(event), *noted)


def tell(b: FunctionCode, desk: Value, state: Value, event: str, **record: Value) -> None:
    """Fill the event's record, and call its handler, if there is one."""
    with b.when(handled(b, desk, event)):
        place = b.at(desk, event)
        for name, value in record.items():
            b.put(place, name, value)
        call_handler(b, desk, state, event)


def call_timed(b: FunctionCode, desk: Value, state: Value, event: str, *arguments: Value) -> None:
    """Where the event is `handled`, and comes from data: one in `settings.sample` is timed."""
    left = b.wrapping("sub", b.get(desk, "unsampled"), 1)
    b.put(desk, "unsampled", left)
    timed = b.le(left, 0)
    begun = b.variable(b.const(0, "i64"))
    with b.when(timed):
        b.set(begun, b.cycles())
    call_handler(b, desk, state, event, *arguments)
    with b.when(timed):
        taken = b.cast(b.wrapping("sub", b.cycles(), b.now(begun)), "f64")
        b.put(desk, "unsampled", b.get(desk, "settings", "sample"))
        collect(b, desk, "latency", ts=b.get(desk, "now"), row=b.get(desk, "row"), ns=taken, handler=EVENTS.index(event), calls=1)


def _failed(b: FunctionCode) -> None:
    desk, state, event, *noted = b.parameters
    before = dict(zip(_BEFORE, noted, strict=True))
    for name, value in (("row", b.get(desk, "row")), ("ts", b.get(desk, "now")), ("stream", b.get(desk, "stream")), ("handler", event)):
        b.put(desk, "failed", name, value)
    _drop_requests(b, desk, before["next_request"])
    _drop_orders(b, desk, before["submitted"])
    _drop_rejects(b, desk, before["rejects"])
    b.put(desk, "out", "rejects", "lost", before["lost_rejects"])
    for name in ("submitted", "trading", "killed_by"):
        b.put(desk, name, before[name])
    b.put(desk, "halted", True)
    b.put(desk, "settings", "handles", 0)
    b.call("desk.kill", desk, state, FAILURE)


def _drop_requests(b: FunctionCode, desk: Value, first: Value) -> None:
    """The newest first, so that each replace finds again what it changed."""
    queue = b.at(desk, "requests")
    with b.loop(0, b.wrapping("sub", b.get(queue, "next"), first)) as age:
        request = requests.QUEUE.at(b, queue, b.wrapping("sub", b.wrapping("sub", b.get(queue, "next"), 1), age))
        with b.when(b.eq(b.get(request, "kind"), requests.REPLACE)):
            order = order_at(b, desk, b.get(request, "slot"))
            weigh(b, desk, order, "sub")
            b.put(order, "asked", b.get(request, "before"))
            weigh(b, desk, order, "add")
    b.put(queue, "next", first)


def _drop_orders(b: FunctionCode, desk: Value, submitted: Value) -> None:
    """Those made since; they stand last among the open ones."""
    with b.repeat():
        count = b.get(desk, "open_count")
        with b.when(b.eq(count, 0)):
            b.leave()
        slot = b.get(desk, "open", b.wrapping("sub", count, 1))
        order = order_at(b, desk, slot)
        with b.when(b.le(b.get(order, "id"), submitted)):
            b.leave()
        weigh(b, desk, order, "sub")
        b.call("orders.forget", desk, slot)


def _drop_rejects(b: FunctionCode, desk: Value, first: Value) -> None:
    rejects = b.at(desk, "out", "rejects")
    with b.loop(first, b.get(rejects, "count")) as number:
        mask = b.cast(b.get(rejects, "records", number, "mask"), "i64")
        with b.loop(0, 12) as rule:
            broken = b.wrapping("and", b.wrapping("shr", mask, rule), 1)
            b.put(desk, "reject_counts", rule, b.wrapping("sub", b.get(desk, "reject_counts", rule), broken))
    b.put(rejects, "count", first)
