"""Loops along memory, in pieces of 16 bytes: a thread reads neighbours at once, which begin at a multiple of 16 bytes."""

from compiler.hir.affine import Affine
from compiler.hir.control import For
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.types import Mem
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.stages import Start
from runtime.records import evolve


def loads_in_pieces(loop: For, facts: Facts) -> tuple[Load, ...]:
    """Loads that read neighbours in iterations side by side, of memory that begins at a multiple of 16 bytes."""
    loads = [op for op in loop.body.body if isinstance(op, Load) and op.where is None and op.index == (Affine.of(loop.variable.name),)]
    return tuple(op for op in loads if mem_of(op.mem).readonly and mem_of(op.mem).strides is None and op.mem.name in facts.aligned)


def is_along(op: Load | Store, variable: str, facts: Facts) -> bool:
    """Whether an access goes along rows without gaps, of a memory that begins at a multiple of 16 bytes, with a loop's variable."""
    mem = mem_of(op.mem)
    whole = op.where is None and mem.strides is None and op.mem.name in facts.aligned and (isinstance(op, Store) or mem.readonly)
    return whole and op.index[-1:] == (Affine.of(variable),) and not any(variable in form.names for form in op.index[:-1])


def align(start: Start, facts: Facts) -> None:
    """Has the launch know which memories begin at multiples of 16 bytes."""
    for parameter, value in start.values.items():
        if parameter.name in facts.aligned and isinstance(value.type, Mem):
            value.type = start.out.scope.types[value.name] = evolve(value.type, align=max(value.type.align, ALIGNMENT))
