"""Functions of the engine that its parts call of each other, all internal to its module: names, parameters behind the engine's state,
results.

The market's side (`book.py`, `exchange.py`) writes `MARKET` beside the book; the loop and what handlers call use these."""

from collections.abc import Mapping

from compiler.hir.native_build import ModuleBuilder
from compiler.hir.native_types import I1, I64, U8
from compiler.hir.types import HirType, Pointer
from quantdsl.engine.interface import OPAQUE
from quantdsl.engine.layout import ENGINE_STATE
from runtime.records import frozen


@frozen
class Inner:
    """Parameters behind the engine's state, and results. `stateful`: the program's state comes second. `out_of_line`: seldom called,
    or long."""

    parameters: Mapping[str, HirType]
    results: tuple[HirType, ...] = ()
    stateful: bool = False
    out_of_line: bool = True


MARKET = {
    "exchange.trade": Inner({"price": I64, "qty": I64, "side": U8}),
    "exchange.book_changed": Inner({}),
    "exchange.expire": Inner({}),
    "exchange.arrive": Inner({"slot": I64}, out_of_line=False),
    "exchange.cancel": Inner({"slot": I64}),
    "exchange.replace": Inner({"slot": I64, "qty": I64, "limit": I64, "at_market": I1}),
}
"""`exchange.trade`: one of the data, with its aggressor's side as events count them. The last three are requests as they arrive, of an
order whose `limit`, `qty` ... are in its slot; `replace` gives the whole quantity and limit asked for. The loop calls the first three only
where orders are open, `expire` at each event before it."""


def declare(program: ModuleBuilder, functions: Mapping[str, Inner]) -> None:
    """So that they can be called before they are written."""
    for name, inner in functions.items():
        if program.has(name):
            continue
        parameters: dict[str, HirType] = {"engine": Pointer(ENGINE_STATE)}
        if inner.stateful:
            parameters["state"] = Pointer(OPAQUE)
        attributes = ("noalias", "noinline") if inner.out_of_line else ("noalias",)
        program.declare(name, {**parameters, **inner.parameters}, inner.results, internal=True, attributes=attributes)
