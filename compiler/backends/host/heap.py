"""What a native function leaves on the heap of its run: the blocks of its result, which are freed with the last array in them, and after a
failure all that it had made."""

import ctypes
import time
from collections.abc import Callable
from typing import Any

from runtime.buffers import address
from runtime.free_memory import available_memory
from runtime.lazy_numpy import np
from runtime.tensor import Tensor

_free: Callable[[int], None] = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(("free", ctypes.CDLL(None)))
_SECOND = 1_000_000_000
_limit = [0, 0]
"""Bytes that were free, and when that was asked for."""


def heap_limit() -> int:
    """Bytes that a run may take, not older than a second."""
    now = time.monotonic_ns()
    if now - _limit[1] > _SECOND:
        _limit[:] = available_memory(), now
    return _limit[0]


def free_blocks(newest: int, free: Callable[[int], None] = _free, word: Any = ctypes.c_int64) -> None:
    """Frees a block and all older ones."""
    while newest:
        older = word.from_address(newest).value
        free(newest)
        newest = older


class HeapBlocks:
    """Blocks that are freed when nobody knows them any more."""

    __slots__ = ("newest",)

    def __init__(self, newest: int) -> None:
        self.newest = newest

    def __del__(self, free: Callable[[int], None] = free_blocks) -> None:
        free(self.newest)


class ArrayMemory:
    """Memory as NumPy asks for it, with what keeps it alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, interface: dict[str, Any], owner: object) -> None:
        self.__array_interface__, self.owner = interface, owner


def heap_owner(heap: Any) -> HeapBlocks | None:
    """Who frees what a run has left; None where it left nothing."""
    newest = heap[0]
    heap[0] = 0
    return HeapBlocks(newest) if newest else None


def tensor_at(
    dtype: Any, at: int, counts: tuple[int, ...], steps: tuple[int, ...], blocks: HeapBlocks | None, given: tuple[Tensor, ...]
) -> Tensor:
    """The tensor that a native function gave: one that it was `given`, or what lies in the memory of one, or in `blocks`. `steps` are
    distances in elements."""
    distances, sealed = tuple(step * dtype.itemsize for step in steps), False
    arrays = []
    for tensor in given:
        array = tensor.host
        assert array is not None, "native functions take what lies on the CPU"
        if address(array) == at and array.shape == counts and array.strides == distances:
            return tensor
        sealed = sealed or not array.flags.writeable
        low, high = np.lib.array_utils.byte_bounds(array)
        if low <= at < high:
            arrays.append(tensor.array)  # its memory has another owner from now on, who may write to it
    interface = {"shape": counts, "typestr": dtype.str, "data": (at, sealed), "strides": distances, "version": 3}
    return Tensor(np.asarray(ArrayMemory(interface, (blocks, arrays))))
