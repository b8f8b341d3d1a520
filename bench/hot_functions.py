"""What `hot.py` times of `hot.qdsl`: the functions that a replay runs, each behind one of one shape, and memory to run them on.

Nothing of them is written again here. The rules are `risk.judge` and `risk.accept` of the compiled program; a fill is accounted by the
engine's `account.fill` and `account.revalue`; a tick calls the program's `on.book` as the engine calls it, and what the order then does is
the engine's `until`. The tick itself is four numbers of the book, written in place."""

from functools import cache
from typing import Any

from compiler.backends.native.compile import HostModule, compile_module
from compiler.backends.native.link import Linked, link_modules
from compiler.hir.module import HirModule, OptimizationLevel
from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Record
from compiler.hir.native_types import I64, struct
from compiler.hir.types import Pointer, Struct
from compiler.source import Source, Sources
from quantdsl.engine.book_ladder import ladder_of, level_at, price_key
from quantdsl.engine.build import engine_module
from quantdsl.engine.delivery import anything_due
from quantdsl.engine.handlers import call_handler
from quantdsl.engine.interface import OPAQUE
from quantdsl.engine.layout import BUY, ENGINE_STATE, IOC, SELL
from quantdsl.metadata import StrategyMetadata
from quantdsl.run.open import CompileRequest, elaborated

ASKED = struct("asked", **dict.fromkeys(("side", "qty", "limit", "step", "back", "held"), I64))
TRADED = struct("traded", **dict.fromkeys(("side", "price", "qty", "maker", "mark2"), I64))
TICK = struct("tick", **dict.fromkeys(("step", "bid", "ask", "bid_at", "bid_qty", "ask_at", "ask_qty"), I64))


def program_of(source: Source, sources: Sources, **settings: str) -> tuple[HirModule, StrategyMetadata]:
    return elaborated(source, CompileRequest(settings), sources, lambda warning: None, lambda activity: None)


def state_of(module: HirModule) -> Struct:
    """The layout of a program's state."""
    pointer = module.functions["on.book"].parameters[1].type
    assert isinstance(pointer, Pointer) and isinstance(pointer.pointee, Struct)
    return pointer.pointee


def linked(program: HirModule, level: OptimizationLevel) -> Linked:
    """Both modules with the functions that are timed: in the engine's `measure.fill`, `.signal`, `.settle` and `.tick`."""
    return link_modules([_engine(level), compile_module(program, level)])


@cache
def _engine(level: OptimizationLevel) -> HostModule:
    return compile_module(with_engines(), level)


def with_engines() -> HirModule:
    module = engine_module()
    program = ModuleBuilder(module.name)
    program.module = module
    for name, input, write in (
        ("fill", TRADED, _fill),
        ("signal", TICK, _signal),
        ("settle", TICK, _settle),
        ("tick", TICK, _tick),
    ):
        parameters = {"desk": Pointer(ENGINE_STATE), "state": Pointer(OPAQUE), "input": Pointer(input)}
        with program.function(f"measure.{name}", parameters, [I64]) as b:
            write(b, *b.parameters)
    return module


def with_own(module: HirModule) -> HirModule:
    """Adds `measure.risk` and `measure.send` to a program of its own."""
    program = ModuleBuilder(module.name)
    program.module = module
    parameters = {"desk": Pointer(ENGINE_STATE), "state": Pointer(_head(module)), "input": Pointer(ASKED)}
    for name, write in (("risk", _risk), ("send", _send)):
        with program.function(f"measure.{name}", parameters, [I64]) as b:
            write(b, *b.parameters)
    return module


def _head(module: HirModule) -> Struct:
    pointer = module.functions["risk.judge"].parameters[1].type
    assert isinstance(pointer, Pointer) and isinstance(pointer.pointee, Struct)
    return pointer.pointee


def _risk(b: FunctionCode, desk: Record, state: Record, asked: Record) -> None:
    side, qty, limit, back = (asked[name] for name in ("side", "qty", "limit", "back"))
    number = desk.submitted.wrapping_add(1)
    desk.submitted = number
    own = b.const(True, "i1"), number.wrapping_sub(back.cast("u64"))
    desk.now += asked.step
    desk.position.qty = asked.held
    mask, _ = b.call("risk.judge", desk, state, side.cast("u8"), qty, b.const(True, "i1"), limit, b.const(False, "i1"), *own, -1)
    with b.when(mask == 0):
        b.call("risk.accept", desk, state, *own)
    b.ret(mask.cast("i64"))


def _send(b: FunctionCode, desk: Record, state: Record, asked: Record) -> None:
    side, qty, limit = (asked[name] for name in ("side", "qty", "limit"))
    desk.now += asked.step
    desk.instant = 0
    yes, no = b.const(True, "i1"), b.const(False, "i1")
    own = yes, desk.submitted.wrapping_add(1)
    _, _, mask = b.call("engine.order", desk, state, side.cast("u8"), qty, yes, limit, b.const(IOC, "u8"), no, no, 0, *own, no, 0, no, 0)
    b.ret(mask.cast("i64"))


def _fill(b: FunctionCode, desk: Record, state: Record, traded: Record) -> None:
    side, price, qty, maker, mark2 = (traded[name] for name in ("side", "price", "qty", "maker", "mark2"))
    (fee,) = b.call("account.fill", desk, side.cast("u8"), price, qty, maker != 0)
    b.call("account.mark", desk, True, mark2)
    b.call("account.revalue", desk)
    b.ret(fee)


def _show(b: FunctionCode, desk: Record, tick: Record) -> None:
    """The best prices, and the quantity of one level of each side."""
    desk.now += tick.step
    desk.instant = 0
    for side, own in ((BUY, "bid"), (SELL, "ask")):
        of_side = b.const(side, "u8")
        ladder = ladder_of(desk.book, of_side)
        ladder.blocks[0].keys[0] = price_key(of_side, tick[own])
        level_at(ladder, b.const(0, "i64")).taken = 0
        level_at(ladder, tick[f"{own}_at"]).qty = tick[f"{own}_qty"]


def _signal(b: FunctionCode, desk: Record, state: Record, tick: Record) -> None:
    _show(b, desk, tick)
    call_handler(b, desk, state, "book")
    b.ret(desk.submitted.cast("i64"))


def _settle(b: FunctionCode, desk: Record, state: Record, tick: Record) -> None:
    now = desk.now
    with b.when(anything_due(desk, now)):
        b.call("until", desk, state, now)
    b.ret(desk.position.qty)


def _tick(b: FunctionCode, desk: Record, state: Record, tick: Record) -> None:
    _show(b, desk, tick)
    call_handler(b, desk, state, "book")
    _settle(b, desk, state, tick)


def seen(desk: Any, state: Any) -> dict[str, float]:
    """What is compared with C++, by the names there."""
    p, found = desk["position"], {}
    for name in ("qty", "cost", "realized", "unrealized", "fees", "net", "max_drawdown", "volume", "open_buys", "open_sells"):
        found[name] = int(p[name])
    found["average"] = int(p["avg_price"]["value"]) if p["avg_price"]["present"] else 0
    found |= {"cash": int(desk["account"]["cash"]), "peak": int(desk["account"]["peak"])}
    found |= {"submitted": int(desk["submitted"]), "open_count": int(desk["open_count"])}
    found["want"] = int(state["state.want"]["value"]) + 1 if state["state.want"]["present"] else 0
    found |= {name: float(state[field]["value"]) for name, field in (("fast", "memory0"), ("slow", "memory1"))}
    return found
