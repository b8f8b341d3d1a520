"""What the code of a strategy needs of the engine, and the keys of the memory that they share."""

from compiler.hir.native_types import struct
from compiler.hir.types import Struct
from compiler.lowering.native.names import LentVariable
from compiler.source import Source
from compiler.typed_ast.types import I64, ArrayType, Size, Type
from quantdsl import types as qt
from quantdsl.engine.layout import ENGINE_STATE
from quantdsl.engine.risk import RiskRules, risk_memory
from quantdsl.metadata import LogSite
from runtime.records import Factory, define

MEMORY, HEAD, STATE = "engine", "head", "state"
"""Keys of what handlers borrow: the engine's state, and the part of the program's state in front that risk rules remember in; a state's key
is (STATE, name)."""
REJECTS = LentVariable(("rejects",), ArrayType(I64, Size(len(qt.RULES))))


def position_of(type: Type) -> LentVariable:
    return LentVariable(MEMORY, type, ENGINE_STATE, ("position",))


@define(eq=False)
class EngineNeeds:
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
