"""Calls of the engine by the code of a strategy."""

from compiler.hir import instruction as hir
from quantdsl.elaborate.context import FunctionContext
from quantdsl.elaborate.desk import HEAD, MEMORY, DeskNeeds
from quantdsl.engine.interface import OF_ENGINE, OF_PROGRAM
from quantdsl.engine.layout import DESK
from quantdsl.engine.orders import declare_own
from quantdsl.native.build import Number as NativeNumber


def desk_of(c: FunctionContext) -> DeskNeeds:
    """Raises ZyntaxError outside of strategies."""
    if c.elaboration.desk is None:
        raise c.refuse("0109", "this needs a market, and outside of a strategy's handlers there is none", "pass its value as an argument")
    return c.elaboration.desk


def memory(c: FunctionContext) -> hir.Value:
    """The address of the desk."""
    desk_of(c)
    return c.borrow(MEMORY, DESK, shared=True)


def ask(c: FunctionContext, name: str, *given: NativeNumber) -> list[hir.Value]:
    """Calls a function of the engine, or of the program's own part of it."""
    desk, program = desk_of(c), c.elaboration.program
    if name in OF_PROGRAM:
        desk.used.add(name)
    if not program.has(name):
        if name in OF_PROGRAM:
            declare_own(program, name, desk.head)
        else:
            program.imported(name, OF_ENGINE[name].whole(desk.head), OF_ENGINE[name].results)
    return c.b.call(name, memory(c), c.borrow(HEAD, desk.head, shared=True), *given)
