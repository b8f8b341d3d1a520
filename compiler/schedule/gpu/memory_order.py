"""Memories whose dimensions are told in the order in which they lie: the one along which neighbours are next to each other is the last.
What is turned for the program, as a transposed view is, is then a memory like any other, read across."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.types import Mem
from runtime.records import evolve


def memory_order(strides: Sequence[Affine]) -> tuple[int, ...] | None:
    """The dimensions of a memory with these elements between neighbours, in the order in which they lie; None where they lie so already,
    or where that isn't known."""
    if any(stride.value == 1 for stride in strides[-1:]) or not any(stride.value == 1 for stride in strides):
        return None
    numbers = [stride.value for stride in strides]
    known = [number for number in numbers if number is not None]
    if len(known) == len(numbers):
        return tuple(sorted(range(len(numbers)), key=lambda dim: (known[dim] != 0, -abs(known[dim]))))
    nearest = max(dim for dim, number in enumerate(numbers) if number == 1)
    return (*(dim for dim in range(len(numbers)) if dim != nearest), nearest)


def in_order(mem: Mem, order: Sequence[int]) -> Mem:
    """The memory with its dimensions in another order."""
    return evolve(mem, dims=permuted(order, mem.dims), strides=permuted(order, mem.strides or ()))


def permuted(order: Sequence[int], index: Sequence[Affine]) -> tuple[Affine, ...]:
    """What belongs to each dimension, in another order."""
    return tuple(index[dim] for dim in order)


def without_gaps(mem: Mem) -> Mem:
    """The memory as one in rows without gaps, where its numbers say that it is one."""
    elements = 1
    for dim, stride in zip(reversed(mem.dims), reversed(mem.strides or ()), strict=False):
        if dim.value is None or (stride.value != elements and dim.value != 1):
            return mem
        elements *= dim.value
    return evolve(mem, strides=None) if elements else mem
