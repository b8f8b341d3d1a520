"""Loops whose number of turns data decide."""

from collections.abc import Callable

from compiler.hir.control import For
from compiler.hir.instruction import Instruction
from compiler.hir.memory import Load


def ends_by_data(op: For, source_of: Callable[[str], Instruction | None]) -> bool:
    """Whether a bound of the loop is computed from elements of a memory. `source_of`: the instruction that makes a value, by its name; None
    for a parameter."""
    waiting, seen = [*op.low.names, *op.high.names], set[str]()
    while waiting:
        source = source_of(name := waiting.pop())
        if isinstance(source, Load):
            return True
        if source is not None and name not in seen:
            seen.add(name)
            waiting += [*(value.name for value in source.operand_values), *source.symbols]
    return False
