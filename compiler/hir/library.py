"""Whole-tensor instructions that have no nest to lift: sorting. Backends implement them with a library routine of their own."""

from compiler.hir.instruction import Effect, Instruction, InstructionFamily, Value, ValueScope, attribute, instruction, operand, operands
from compiler.hir.types import HirType


@instruction("sort", InstructionFamily.LIBRARY, Effect.READ | Effect.WRITE)
class Sort(Instruction):
    """`sort %keys, %payload axis=1 descending=false`: sorts each line along `axis` of the memory `keys` in place, stable, and
    moves the payload memories (same dims) along. NaN comes last in either direction; -0.0 and 0.0 are equal. `bits=22`: the keys are
    without sign and below 2^22."""

    keys: Value = operand()
    payload: tuple[Value, ...] = operands()
    axis: int = attribute(0)
    descending: bool = attribute(False)
    bits: int | None = attribute(None)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []
