"""Calls of the program's handlers. One that fails leaves nothing behind of what it asked for, and no handler runs after it."""

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, Record, assign
from compiler.hir.native_types import I64, U8, U32, U64
from quantdsl.engine import queues
from quantdsl.engine.exchange_orders import order_at
from quantdsl.engine.inside import Inner, declare
from quantdsl.engine.interface import EVENTS, HANDLERS
from quantdsl.engine.layout import REPLACE
from quantdsl.engine.outputs import collect

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


def handled(engine: Record, event: str) -> Expr:
    """Whether the program has a handler of the event, and none failed so far."""
    return (engine.settings.handles & BITS[event]) != 0


def call_handler(b: FunctionCode, engine: Record, state: Record, event: str, *arguments: Expr) -> None:
    """Where the event is `handled`."""
    noted = [
        engine.submitted,
        engine.requests.next,
        engine.out.rejects.count,
        engine.out.rejects.lost,
        engine.trading,
        engine.killed_by,
    ]
    with b.when(b.attempt(f"on.{event}", engine, state, *arguments)):
        b.call("handler.failed", engine, state, EVENTS.index(event), *noted)


def notify(b: FunctionCode, engine: Record, state: Record, event: str, **record: Expr) -> None:
    """Fill the event's record, and call its handler, if there is one."""
    with b.when(handled(engine, event)):
        assign(engine[event], **record)
        call_handler(b, engine, state, event)


def call_timed(b: FunctionCode, engine: Record, state: Record, event: str, *arguments: Expr) -> None:
    """Where the event is `handled`, and comes from data: one in `settings.sample` is timed."""
    left = engine.unsampled.wrapping_sub(1)
    engine.unsampled = left
    timed = left <= 0
    begun = b.variable(0)
    with b.when(timed):
        begun.value = b.cycles()
    call_handler(b, engine, state, event, *arguments)
    with b.when(timed):
        taken = b.cycles().wrapping_sub(begun.value).cast("f64")
        engine.unsampled = engine.settings.sample
        collect(b, engine, "latency", ts=engine.now, row=engine.row, ns=taken, handler=EVENTS.index(event), calls=1)


def _failed(b: FunctionCode) -> None:
    engine, state, event, *noted = b.parameters
    before = dict(zip(_BEFORE, noted, strict=True))
    row, now, stream = engine.row, engine.now, engine.stream
    assign(engine.failed, row=row, ts=now, stream=stream, handler=event)
    _drop_requests(b, engine, state, before["next_request"])
    _drop_orders(b, engine, state, before["submitted"])
    _drop_rejects(b, engine, before["rejects"])
    engine.out.rejects.lost = before["lost_rejects"]
    for name in ("submitted", "trading", "killed_by"):
        engine[name] = before[name]
    engine.halted = True
    engine.settings.handles = 0
    b.call("engine.kill", engine, state, FAILURE)


def _drop_requests(b: FunctionCode, engine: Record, state: Record, first: Expr) -> None:
    """The newest first, so that each replace finds again what it changed."""
    queue = engine.requests
    with b.loop(0, queue.next.wrapping_sub(first)) as age:
        request = queues.at(queue, queue.next.wrapping_sub(1).wrapping_sub(age))
        with b.when(request.kind == REPLACE):
            b.call("orders.set_asked", engine, state, request.slot, request.before)
    queue.next = first


def _drop_orders(b: FunctionCode, engine: Record, state: Record, submitted: Expr) -> None:
    """Those made since; they stand last among the open ones."""
    with b.repeat():
        count = engine.open_count
        with b.when(count == 0):
            b.break_()
        slot = engine.open[count.wrapping_sub(1)]
        with b.when(order_at(engine, slot).id <= submitted):
            b.break_()
        b.call("orders.drop", engine, state, slot)


def _drop_rejects(b: FunctionCode, engine: Record, first: Expr) -> None:
    rejects = engine.out.rejects
    with b.loop(first, rejects.count) as number:
        mask = rejects.records[number].mask.cast("i64")
        with b.loop(0, 12) as rule:
            broken = (mask >> rule) & 1
            engine.reject_counts[rule] = engine.reject_counts[rule].wrapping_sub(broken)
    rejects.count = first
