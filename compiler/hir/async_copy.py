"""Copies from global to shared memory that go on beside the computation, committed in groups and waited for by count. Form C,
sm_80 and later."""

from collections.abc import Iterator

from compiler.hir.affine import Affine
from compiler.hir.gpu import one_of
from compiler.hir.instruction import (
    Effect,
    Instruction,
    InstructionFamily,
    Value,
    ValueScope,
    attribute,
    instruction,
    operand,
    optional_operand,
)
from compiler.hir.memory import mem_of
from compiler.hir.types import HirType, Space, bytes_of

CACHE_HINTS = ("default", "l1", "l2", "streaming")
"""Where a copy is kept on its way: as the hardware likes, in L1 too, in L2 only, nowhere for long."""


def _forms(forms: tuple[Affine, ...]) -> tuple[Affine, ...]:
    return tuple(Affine.of(form) for form in forms)


@instruction("async_copy", InstructionFamily.ASYNC, Effect.READ | Effect.WRITE)
class AsyncCopy(Instruction):
    """`async_copy %s[t], %A[i] bytes=16 hint=l2 where=%p`: contiguous elements from global to shared memory; they arrive at the
    latest at the `async_wait` for their group. Where `where` is false the bytes become 0."""

    destination: Value = operand()
    destination_index: tuple[Affine, ...] = attribute(converter=_forms)
    source: Value = operand()
    source_index: tuple[Affine, ...] = attribute(converter=_forms)
    bytes: int = attribute(16)
    hint: str = attribute("default")
    where: Value | None = optional_operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        to, source = mem_of(self.destination), mem_of(self.source)
        yield from one_of(self.hint, CACHE_HINTS, "cache hint")
        if self.bytes not in (4, 8, 16):
            yield f"{self.bytes} bytes: 4, 8 or 16"
        elif self.bytes % bytes_of(source.dtype):
            yield f"{self.bytes} bytes are no whole number of {source.dtype}"
        if to.space is not Space.SHARED or source.space not in (Space.GLOBAL, Space.GENERIC):
            yield "copies go from global to shared memory"
        if to.dtype != source.dtype:
            yield f"from {source.dtype} to {to.dtype}"
        if len(self.destination_index) != to.rank or len(self.source_index) != source.rank:
            yield "as many indices as dims are wanted"


@instruction("async_commit", InstructionFamily.ASYNC, Effect.SYNC)
class AsyncCommit(Instruction):
    """`async_commit group=0`: the copies since the last commit become one group; the number is a label for readers."""

    group: int = attribute(0)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []


@instruction("async_wait", InstructionFamily.ASYNC, Effect.SYNC)
class AsyncWait(Instruction):
    """`async_wait count=1`: until at most `count` of the thread's groups are on their way."""

    count: int = attribute(0)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        if self.count < 0:
            yield "a count below 0"
