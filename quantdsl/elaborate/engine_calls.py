"""Calls of the engine by the code of a strategy."""

from compiler.hir.native_expressions import Expr, Record
from compiler.hir.native_expressions import Number as NativeNumber
from compiler.lowering.native.context import FunctionContext
from quantdsl.elaborate.engine_needs import HEAD, MEMORY, EngineNeeds
from quantdsl.elaborate.own import own
from quantdsl.engine.interface import OF_ENGINE, OF_PROGRAM
from quantdsl.engine.layout import ENGINE_STATE
from quantdsl.engine.orders import declare_own


def engine_needs(c: FunctionContext) -> EngineNeeds:
    """Raises ZyntaxError outside of strategies."""
    needs = own(c).engine
    if needs is None:
        raise c.refuse("0109", "this needs a market, and outside of a strategy's handlers there is none", "pass its value as an argument")
    return needs


def memory(c: FunctionContext) -> Record:
    """The address of the state of the engine."""
    engine_needs(c)
    return c.borrow(MEMORY, ENGINE_STATE, shared=True)


def ask(c: FunctionContext, name: str, *given: NativeNumber) -> list[Expr]:
    """Calls a function of the engine, or of the program's own part of it."""
    needs, program = engine_needs(c), c.elaboration.program
    if name in OF_PROGRAM:
        needs.used.add(name)
    if not program.has(name):
        if name in OF_PROGRAM:
            declare_own(program, name, needs.head)
        else:
            program.imported(name, OF_ENGINE[name].whole(needs.head), OF_ENGINE[name].results)
    return c.b.call(name, memory(c), c.borrow(HEAD, needs.head, shared=True), *given)
