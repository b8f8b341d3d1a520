"""What values of a field are computed from."""

from collections.abc import Container, Sequence

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
