"""Contiguous elements as the bytes that they are, in registers of four bytes: what passes through registers on its way to shared memory
keeps its bits, and may begin anywhere. Form C."""

from collections.abc import Iterator

from compiler.hir.affine import Affine
from compiler.hir.instruction import (
    Effect,
    Instruction,
    InstructionFamily,
    Value,
    ValueScope,
    attribute,
    instruction,
    operand,
    operands,
    optional_operand,
)
from compiler.hir.memory import mem_of
from compiler.hir.types import INDEX, U32, HirType, Space, bytes_of

WORD = 4
"""Bytes of a register."""

FRACTION_BITS = {"bf16": 7, "f16": 10}
"""Of floats that two of lie in a register."""


def _forms(forms: tuple[Affine, ...]) -> tuple[Affine, ...]:
    return tuple(Affine.of(form) for form in forms)


@instruction("load_words", InstructionFamily.ASYNC, Effect.READ)
class LoadWords(Instruction):
    """`%w0, %w1, %w2, %w3 = load_words %A[i, k] valid=%n count=4 : u32, u32, u32, u32`: 4 * count bytes from an element on, which may lie
    anywhere. With `valid` so many elements at most are read, and the bytes behind them are 0."""

    mem: Value = operand()
    index: tuple[Affine, ...] = attribute(converter=_forms)
    valid: Value | None = optional_operand()
    count: int = attribute(4)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [U32] * self.count

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _fault(self.mem, self.index, self.count)
        if self.valid is not None and self.valid.type != INDEX:
            yield f"`valid` of type {self.valid.type}: index is wanted"


@instruction("store_words", InstructionFamily.ASYNC, Effect.WRITE)
class StoreWords(Instruction):
    """`store_words %s[t], %w0, %w1, %w2, %w3`: the bytes to shared memory, at a multiple of as many."""

    mem: Value = operand()
    index: tuple[Affine, ...] = attribute(converter=_forms)
    values: tuple[Value, ...] = operands()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _fault(self.mem, self.index, len(self.values))
        if mem_of(self.mem).space is not Space.SHARED:
            yield f"{self.mem} is not in shared memory"
        yield from (f"{value} is {value.type}, not u32" for value in self.values if value.type != U32)


@instruction("permute_bytes", InstructionFamily.ASYNC)
class PermuteBytes(Instruction):
    """`%r = permute_bytes %a, %b order=[0, 4, 2, 6] : u32`: four of the eight bytes of two registers, of which `%a` has 0 to 3; the first
    is the lowest byte of the result."""

    a: Value = operand()
    b: Value = operand()
    order: tuple[int, ...] = attribute(converter=tuple)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [U32]

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from (f"{value} is {value.type}, not u32" for value in (self.a, self.b) if value.type != U32)
        if len(self.order) != WORD or not all(0 <= number < 2 * WORD for number in self.order):
            yield f"order {[*self.order]}: four numbers from 0 to 7 are wanted"


@instruction("float_pair", InstructionFamily.ASYNC)
class FloatPair(Instruction):
    """`%r = float_pair %a bits=4 least=-8 dtype=bf16 : u32`: the first bits of the low and high half of a register, with `least` added, as
    two floats of 16 bits. They are no more bits than the fraction of the type has, and the sums are exact in it."""

    value: Value = operand()
    bits: int = attribute()
    least: int = attribute()
    dtype: str = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [U32]

    def check(self, scope: ValueScope) -> Iterator[str]:
        if self.value.type != U32:
            yield f"{self.value} is {self.value.type}, not u32"
        if self.dtype not in FRACTION_BITS:
            yield f"dtype {self.dtype}: {' or '.join(FRACTION_BITS)}"
        elif not 0 < self.bits <= FRACTION_BITS[self.dtype]:
            yield f"{self.bits} bits: the fraction of {self.dtype} has {FRACTION_BITS[self.dtype]}"


def _fault(mem: Value, index: tuple[Affine, ...], count: int) -> Iterator[str]:
    if len(index) != mem_of(mem).rank:
        yield f"{len(index)} indices for {mem} of rank {mem_of(mem).rank}"
    if count not in (1, 2, 4):
        yield f"{count} words: 1, 2 or 4"
    elif WORD * count % bytes_of(mem_of(mem).dtype):
        yield f"{count} words are no whole number of {mem_of(mem).dtype}"
