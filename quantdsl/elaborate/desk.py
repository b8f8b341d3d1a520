"""What the code of a strategy needs of the engine, and the keys of the memory that they share."""

from attrs import Factory

from compiler.hir.types import Struct
from compiler.source import Source
from compiler.typed_ast.types import I64
from quantdsl import types as qt
from quantdsl.elaborate.names import LentVariable
from quantdsl.engine.layout import DESK
from quantdsl.engine.risk import RiskRules, risk_memory
from quantdsl.facts import LogSite
from quantdsl.native.types import struct
from runtime.records import define

MEMORY, HEAD, STATE = "desk", "head", "state"
"""Keys of what handlers borrow: the desk, and the part of the program's state in front that risk rules remember in; a state's key is
(STATE, name)."""
POSITION = LentVariable(MEMORY, qt.StructType("Position"), DESK, ("position",))
REJECTS = LentVariable(("rejects",), qt.Container("array", (I64,), qt.Size(len(qt.RULES))))


@define(eq=False)
class DeskNeeds:
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
