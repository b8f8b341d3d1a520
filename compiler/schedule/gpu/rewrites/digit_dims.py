"""Dims of memories that an index runs through digit by digit: `x[n, g * 8 + c]` with c in 0..8 is a memory of groups of 8 channels, as if
the program said `x[n, g, c]`. Then each dim has an axis of its own, as operands of products want it."""

from collections.abc import Sequence
from functools import partial

from compiler.hir.affine import Affine
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem
from runtime.records import evolve, frozen

MOST_DIMS = 5
"""That bulk copies know."""


@frozen
class _Digits:
    """The axes of the high digit and of the low one, which is so long."""

    axes: tuple[str, str]
    step: int


def with_dims_of_digits(field: HirFunction) -> HirFunction:
    """The field (form F) with such dims of its parameters as two; itself where it has none."""
    split = {parameter: dims for parameter in field.parameters if any(dims := _split(field, parameter))}
    if not split:
        return field
    copy = FieldCopy.whole(field, {parameter: _divided(mem_of(parameter), dims) for parameter, dims in split.items()})

    def digits(memory: Value, index: tuple[Affine, ...]) -> list[Affine]:
        every = [(form, _digits(field, form, extent)) for form, extent in zip(index, mem_of(memory).dims, strict=True)]
        parts = [digits.axes if digits and step else (form,) for (form, digits), step in zip(every, split[memory], strict=True)]
        return [Affine.of(part) for some in parts for part in some]

    return copy.viewed({memory: partial(digits, memory) for memory in split})


def _split(field: HirFunction, memory: Value) -> list[int | None]:
    """For each dim how long its low digit is, if it has the same in all accesses."""
    accesses = [op for op in field.body.body if isinstance(op, Load | Store) and op.mem is memory]
    every = [[_digits(field, form, extent) for form, extent in zip(op.index, mem_of(memory).dims, strict=True)] for op in accesses]
    steps = [{None if digits is None else digits.step for digits in dim} for dim in zip(*every, strict=True)]
    one = [step if not others else None for step, *others in steps]
    return one if len(one) + len([step for step in one if step]) <= MOST_DIMS else [None] * len(one)


def _digits(field: HirFunction, form: Affine, extent: Affine) -> _Digits | None:
    """The digits that an index is, of a dim that has them all."""
    terms = sorted((number, axis) for axis, number in form.terms if isinstance(axis, str) and axis in field.axes)
    if len(terms) != 2 or len(form.terms) != 2 or form.constant or terms[0][0] != 1:
        return None
    (_, low), (step, high) = terms
    whole = step > 1 and field.axes[low].value == step and extent == field.axes[high] * step
    return _Digits((high, low), step) if whole else None


def _divided(mem: Mem, steps: Sequence[int | None]) -> Mem:
    sizes: list[Affine] = []
    strides: list[Affine] = []
    for dim, (extent, step) in enumerate(zip(mem.dims, steps, strict=True)):
        sizes += [extent] if step is None else [extent.floordiv(step), Affine.of(step)]
        if mem.strides is not None:
            strides += [mem.strides[dim]] if step is None else [mem.strides[dim] * step, mem.strides[dim]]
    return evolve(mem, dims=tuple(sizes), strides=None if mem.strides is None else tuple(strides))
