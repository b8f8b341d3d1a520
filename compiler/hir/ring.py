"""Rings: bounded queues of shared tiles that join a copying role with a computing role. The meaning stays sequential: what is got
is what was put, in order. Forms B and R.

Roles run beside each other and wait for each other at rings alone. So what they compute doesn't depend on who is ahead."""

from collections.abc import Iterator

from compiler.hir.instruction import (
    Effect,
    Instruction,
    InstructionFamily,
    Region,
    Value,
    ValueScope,
    attribute,
    instruction,
    operand,
    operands,
    region,
)
from compiler.hir.types import HirType, Ring


def ring_of(value: Value) -> Ring:
    """The ring type of an operand that must be one."""
    assert isinstance(value.type, Ring), f"{value} is no ring: {value.type}"
    return value.type


@instruction("ring.make", InstructionFamily.RING, Effect.WRITE)
class RingMake(Instruction):
    """`%r = ring.make : ring<4 x (tile<i:128, k:64, bf16>)>`: an empty ring."""

    type: HirType = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.type]

    def check(self, scope: ValueScope) -> Iterator[str]:
        if not isinstance(self.type, Ring):
            yield f"{self.type} is no ring"


@instruction("ring.put", InstructionFamily.RING, Effect.WRITE | Effect.SYNC)
class RingPut(Instruction):
    """`ring.put %r, %a, %b`: one entry, when there is room."""

    ring: Value = operand()
    values: tuple[Value, ...] = operands()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        want = [(t.dtype, frozenset(t.axes)) for t in ring_of(self.ring).elements]
        have = [(getattr(v.type, "dtype", ""), frozenset(getattr(v.type, "axes", ()))) for v in self.values]
        if want != have:
            yield f"{', '.join(str(v.type) for v in self.values)} put into {self.ring.type}"


@instruction("ring.get", InstructionFamily.RING, Effect.READ | Effect.SYNC)
class RingGet(Instruction):
    """`%a, %b = ring.get %r : ...`: the oldest entry, when there is one. It stays readable until `ring.free`."""

    ring: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return list(ring_of(self.ring).elements)


@instruction("ring.free", InstructionFamily.RING, Effect.WRITE | Effect.SYNC)
class RingFree(Instruction):
    """`ring.free %r`: the oldest entry that was got makes room."""

    ring: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []


@instruction("role", InstructionFamily.RING, Effect.CONTROL)
class RunRole(Instruction):
    """`role copy { ... }`: what one of several roles does, beside those that stand next to it. It waits where a ring is full, or empty."""

    role: str = attribute()
    body: Region = region()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []
