"""Memory of nests and fields: loads and stores with affine indices, slots, local arrays, and the run-time checks that guard them."""

from collections.abc import Iterator

from compiler.hir.affine import Affine
from compiler.hir.core import dtype_of, plain_number, union_axes
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
from compiler.hir.types import HirType, Mem, Slot, Tile


def _forms(forms: tuple[Affine, ...]) -> tuple[Affine, ...]:
    return tuple(Affine.of(form) for form in forms)


def mem_of(value: Value) -> Mem:
    """The memory type of an operand that must be one."""
    assert isinstance(value.type, Mem), f"{value} is no memory: {value.type}"
    return value.type


def _rank_fault(mem: Value, index: tuple[Affine, ...]) -> Iterator[str]:
    if len(index) != mem_of(mem).rank:
        yield f"{len(index)} indices for {mem} of rank {mem_of(mem).rank}"


@instruction("load", InstructionFamily.MEMORY, Effect.READ)
class Load(Instruction):
    """`%x = load %A[i, k+1] where=%p pad=0.0 : f32`: the element at affine indices. A name in an index may be an axis (the result
    varies along it), a loop variable, a size, or any `index` value (a gather). Where `where` is false, or, with `pad` given,
    outside the memory's bounds, the result is `pad` (0 when not given) and memory isn't touched. Otherwise an index outside is
    undefined: lowering puts a `check` before a load it can't prove. `align`: what the address of a vector is a multiple of, in bytes,
    where indices don't show it; such a vector may have elements outside beside those that it is for."""

    mem: Value = operand()
    index: tuple[Affine, ...] = attribute(converter=_forms)
    where: Value | None = optional_operand()
    pad: float | int | bool | None = attribute(None, plain_number)
    align: int | None = attribute(None)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        axes = dict(scope.axes_of(*self.index))
        if self.where is not None:
            axes.update(dict(union_axes(self.where)))
        return [Tile(mem_of(self.mem).dtype, tuple(axes.items()))]

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _rank_fault(self.mem, self.index)


@instruction("store", InstructionFamily.MEMORY, Effect.WRITE)
class Store(Instruction):
    """`store %C[i, j], %v where=%p`. The index names every axis of the value. `align`: as of `load`, of a vector all of which is inside."""

    mem: Value = operand()
    value: Value = operand()
    index: tuple[Affine, ...] = attribute(converter=_forms)
    where: Value | None = optional_operand()
    align: int | None = attribute(None)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _rank_fault(self.mem, self.index)
        have = {name for name, _ in scope.axes_of(*self.index)}
        yield from (f"axis {name} of {self.value} isn't in the index" for name, _ in union_axes(self.value) if name not in have)
        if dtype_of(self.value) != mem_of(self.mem).dtype:
            yield f"a {dtype_of(self.value)} stored to {mem_of(self.mem)}"


@instruction("slot", InstructionFamily.MEMORY, Effect.WRITE)
class MakeSlot(Instruction):
    """`%s = slot %initial : slot<f32>`: a new mutable cell. Form A only."""

    initial: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Slot(dtype_of(self.initial))]


@instruction("get", InstructionFamily.MEMORY, Effect.READ)
class GetSlot(Instruction):
    """`%v = get %s : f32`: what the cell holds now."""

    slot: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        assert isinstance(self.slot.type, Slot)
        return [Tile(self.slot.type.dtype)]


@instruction("set", InstructionFamily.MEMORY, Effect.WRITE)
class SetSlot(Instruction):
    """`set %s, %v`: from here on the cell holds the value."""

    slot: Value = operand()
    value: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        if self.slot.type != Slot(dtype_of(self.value)):
            yield f"a {dtype_of(self.value)} set to {self.slot.type}"


@instruction("alloc", InstructionFamily.MEMORY, Effect.WRITE)
class Alloc(Instruction):
    """`%t = alloc : mem<NxKxf32, local>`: scratch memory for the rest of the function, undefined until written; extents are sizes. With
    `zeros=true` it is zeros at first, and whoever uses it leaves it so. With `array=true` it is an array of the program, whose
    elements may become slots."""

    type: Mem = attribute()
    zeros: bool = attribute(False)
    array: bool = attribute(False)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.type]


@instruction("global", InstructionFamily.MEMORY)
class GlobalRef(Instruction):
    """`%t = global table : mem<256xf32, constant, readonly>`: a constant array of the module, by its name."""

    name_: str = attribute()
    type: Mem = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.type]


@instruction("check", InstructionFamily.MEMORY, Effect.FAULT)
class Check(Instruction):
    """`check %ok, %index, %extent code=0801 site=3`: when `condition` is false the kernel faults with that code, `site` (an index
    into the function's `sites`: the span and words for the message) and the values. The first fault in the order of the nest is
    the one reported; results are then void."""

    condition: Value = operand()
    values: tuple[Value, ...] = operands()
    code: str = attribute("0801")
    site: int = attribute(0)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []
