"""What an address is known to be a multiple of: from where its memory begins, and from what divides strides and indices whatever the
sizes are."""

from collections.abc import Sequence
from math import gcd

from compiler.hir.affine import Affine
from compiler.hir.types import Mem, bytes_of


def alignment(mem: Mem, index: Sequence[Affine]) -> int:
    """Bytes that the address of this element is a multiple of."""
    size = bytes_of(mem.dtype)
    known = mem.align or size
    for form, stride in zip(index, stride_divisors(mem), strict=True):
        known = gcd(known, size * form.divisor * stride)
    return known


def stride_divisors(mem: Mem) -> list[int]:
    """What divides the elements between neighbours along each dimension."""
    if mem.strides is not None:
        return [stride.divisor for stride in mem.strides]
    divisors = [1]
    for dim in reversed(mem.dims[1:]):
        divisors.insert(0, divisors[0] * dim.divisor)
    return divisors[: mem.rank]


def steps_by_one(mem: Mem, index: Sequence[Affine], axis: str) -> bool:
    """Whether a step along the axis is a step to the next element of memory."""
    if not index or index[-1].coefficient(axis) != 1 or any(axis in form.names for form in (index[-1].without(axis), *index[:-1])):
        return False
    return mem.strides is None or mem.strides[-1].value == 1
