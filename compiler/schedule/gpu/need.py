"""What values are computed from, and what is computed from them."""

from collections.abc import Container, Iterable, Sequence

from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Store
from compiler.hir.module import HirFunction


def needed(function: HirFunction, values: Sequence[Value] | None = None, known: Container[Value] = ()) -> list[Instruction]:
    """The instructions that these values, or all results, are computed from, in their order; not those of values that are known."""
    named = {result.name: result for op in function.body.body for result in op.results}
    wanted = set(values or ())
    ops: list[Instruction] = []
    for op in reversed(function.body.body):
        if (values is None and isinstance(op, Store)) or any(result in wanted and result not in known for result in op.results):
            ops.append(op)
            wanted.update(op.operand_values)
            wanted.update(named[name] for name in op.symbols if name in named)
    return ops[::-1]


def read_names(op: Instruction) -> set[str]:
    """The names that an instruction reads, of operands and in affine forms."""
    return {*(value.name for value in op.operand_values), *op.symbols}


def depending(on: Iterable[Value], ops: Iterable[Instruction]) -> set[str]:
    """The names of these values, and of what instructions one after the other compute from them."""
    names = {value.name for value in on}
    for op in ops:
        if names & read_names(op):
            names |= {result.name for result in op.results}
    return names
