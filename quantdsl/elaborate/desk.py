"""What the code of a strategy has to do with the engine: the desk's memory, and the functions that it calls."""

from attrs import Factory, define

from compiler.hir import instruction as hir
from compiler.hir.types import Struct
from compiler.source import Source
from compiler.typed_ast.types import I64
from quantdsl import types as qt
from quantdsl.elaborate.context import Context, Lent
from quantdsl.engine.interface import OF_ENGINE, OF_PROGRAM
from quantdsl.engine.layout import DESK
from quantdsl.engine.orders import declare_own
from quantdsl.engine.risk import RiskRules, risk_memory
from quantdsl.facts import LogSite
from quantdsl.native.build import Number as NativeNumber
from quantdsl.native.types import struct

MEMORY, HEAD, STATE = "desk", "head", "state"
"""Keys of what handlers borrow: the desk, and the part of the program's state in front that risk rules remember in; a state's key is
(STATE, name)."""
POSITION = Lent(MEMORY, qt.StructType("Position"), DESK, ("position",))
REJECTS = Lent(("rejects",), qt.Container("array", (I64,), qt.Size(len(qt.RULES))))


@define(eq=False)
class Desk:
    """Of one strategy. What its code turns out to need is noted while that is written: `used` are functions of `OF_PROGRAM`, `kill_texts`
    what `kill` is given, `logs` the places of `log_ring`."""

    rules: RiskRules
    source: Source | None = None
    used: set[str] = Factory(set)
    kill_texts: list[str] = Factory(list)
    logs: list[LogSite] = Factory(list)

    @property
    def head(self) -> Struct:
        return struct("state", risk=risk_memory(self.rules))


def desk_of(c: Context) -> Desk:
    """Raises ZyntaxError outside of strategies."""
    if c.elaboration.desk is None:
        raise c.refuse("0109", "this needs a market, and outside of a strategy's handlers there is none", "pass its value as an argument")
    return c.elaboration.desk


def memory(c: Context) -> hir.Value:
    """The address of the desk."""
    desk_of(c)
    return c.borrow(MEMORY, DESK, shared=True)


def ask(c: Context, name: str, *given: NativeNumber) -> list[hir.Value]:
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
