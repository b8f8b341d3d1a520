"""Loops along memory, in pieces of 16 bytes: a thread reads neighbours at once, which begin at a multiple of 16 bytes."""

from collections.abc import Sequence

from attrs import evolve

from compiler.hir.affine import Affine
from compiler.hir.control import For
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.types import Mem
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.stages import Start


def loads_in_pieces(loop: For, facts: Facts) -> tuple[Load, ...]:
    """Loads that read neighbours in iterations side by side, of memory that begins at a multiple of 16 bytes."""
    loads = [op for op in loop.body.body if isinstance(op, Load) and op.where is None and op.index == (Affine.of(loop.variable.name),)]
    return tuple(op for op in loads if mem_of(op.mem).readonly and mem_of(op.mem).strides is None and op.mem.name in facts.aligned)


def align(start: Start, facts: Facts) -> None:
    """Has the launch know which memories begin at multiples of 16 bytes."""
    for parameter, value in start.values.items():
        if parameter.name in facts.aligned and isinstance(value.type, Mem):
            value.type = start.out.scope.types[value.name] = evolve(value.type, align=max(value.type.align, ALIGNMENT))


def following(ops: Sequence[Instruction], cells: Sequence[Value]) -> set[Instruction]:
    """The instructions whose results depend on cells."""
    names, found = {cell.name for cell in cells}, set[Instruction]()
    for op in ops:
        if names.intersection((*(value.name for value in op.operand_values), *op.symbols)):
            found.add(op)
            names.update(result.name for result in op.results)
    return found
