"""Whether arrays share memory: exactly, by the addresses of their elements alone. Nothing is read, so that memory of a device can be
asked about as well."""

from collections.abc import Sequence

from runtime.lazy_numpy import Array, np

MOST_WORK = 10_000
"""Candidates for a common address that are looked at: some milliseconds. Slices and transposed slices take a handful; strides for
which these aren't enough count as overlapping."""


class _At:
    """Elements at an address that nobody reads, as NumPy's array interface tells of them."""

    __slots__ = ("__array_interface__",)

    def __init__(self, pointer: int, shape: Sequence[int], strides: Sequence[int], itemsize: int) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (pointer, True),
            "shape": tuple(shape),
            "strides": tuple(strides),
            "typestr": f"|V{itemsize}",
        }


def elements_at(pointer: int, shape: Sequence[int], strides: Sequence[int], itemsize: int) -> Array:
    """An array over elements at this address, `strides` in bytes, to compare addresses with: its elements may not be read."""
    return np.asarray(_At(pointer, shape, strides, itemsize))


def share_memory(first: Array, second: Array) -> bool:
    """Whether a byte of one is a byte of the other."""
    if not np.may_share_memory(first, second):
        return False
    try:
        return bool(np.shares_memory(first, second, max_work=MOST_WORK))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether several elements may share memory, as in a broadcast array; `strides` in elements."""
    room = 1
    for stride, extent in sorted((abs(stride), extent) for extent, stride in zip(shape, strides, strict=True)):
        if extent > 1:
            if stride < room:
                return True
            room += (extent - 1) * stride
    return False
