"""Memory for results, kept for the next result of the same size. A fresh mapping of 40 MB costs more in page faults than the kernel
that fills it; programs allocate the same few sizes again and again."""

import ctypes
from collections import deque
from typing import Any

from runtime import forks
from runtime.lazy_numpy import Array, np

ALIGNMENT = 64
SMALL = 1 << 20
"""Bytes below which the ordinary allocator is as good."""

MOST_KEPT = 1 << 29
"""Bytes that may lie idle, over all sizes."""


class _Lease:
    """Lends a block to an array and all its views; the block comes back when the last of them is gone."""

    __slots__ = ("__array_interface__", "_block")

    def __init__(self, block: Array) -> None:
        self._block = block
        start = block.__array_interface__["data"][0]
        aligned = start + -start % ALIGNMENT
        self.__array_interface__ = {"version": 3, "shape": (block.nbytes - ALIGNMENT,), "typestr": "|u1", "data": (aligned, False)}

    def __del__(self) -> None:
        _POOL.give(self._block)


class _Pool:
    def __init__(self) -> None:
        self._lock = forks.lock()
        self._idle: dict[int, list[Array]] = {}
        self._returned: deque[Array] = deque()
        """Blocks that came back and aren't sorted by size yet."""
        self.idle_bytes = 0

    def take(self, size: int) -> Array:
        with self._lock:
            self._sort()
            blocks = self._idle.get(size)
            if blocks:
                self.idle_bytes -= size
                return blocks.pop()
        try:
            return np.empty(size + ALIGNMENT, np.uint8)
        except MemoryError:
            self.trim()
            return np.empty(size + ALIGNMENT, np.uint8)

    def give(self, block: Array) -> None:
        """Called by the garbage collector at any time, also in a thread that holds the lock: so it never waits for the lock."""
        self._returned.append(block)
        if self._lock.acquire(blocking=False):
            try:
                self._sort()
            finally:
                self._lock.release()

    def _sort(self) -> None:
        """Keeps the blocks that came back, up to the limit. Wants the lock."""
        while self._returned:
            block = self._returned.popleft()
            size = block.nbytes - ALIGNMENT
            if self.idle_bytes + size <= MOST_KEPT:
                self._idle.setdefault(size, []).append(block)
                self.idle_bytes += size

    def trim(self) -> None:
        with self._lock:
            self._returned.clear()
            self._idle.clear()
            self.idle_bytes = 0


_POOL = _Pool()


def empty(shape: tuple[int, ...], dtype: "np.dtype[Any]") -> Array:
    """A contiguous array, undefined until written, aligned to 64 bytes when it is large. Raises MemoryError."""
    count = 1
    for extent in shape:
        count *= extent
    size = count * dtype.itemsize
    if size < SMALL:
        return np.empty(shape, dtype)
    return np.asarray(_Lease(_POOL.take(size))).view(dtype).reshape(shape)


def zeros(shape: tuple[int, ...], dtype: "np.dtype[Any]") -> Array:
    """The same, filled with zeros: on kept memory that is much quicker than on a fresh mapping. Raises MemoryError."""
    array = empty(shape, dtype)
    array.fill(0)
    return array


def is_lent_once(base: Any) -> bool:
    """Whether an array whose `base` is this has memory of its own: NumPy's, or a block that was lent to it."""
    return base is None or base.__class__ is _Lease


_Byte = ctypes.c_char


def address(array: Array) -> int:
    """Where the array's first element lies. NumPy's own ways to say so cost five times as much."""
    try:
        return ctypes.addressof(_Byte.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        # read-only, empty, with gaps, or of a type that the buffer protocol doesn't know
        return int(array.__array_interface__["data"][0])


def idle_bytes() -> int:
    """Bytes that are kept for later."""
    return _POOL.idle_bytes


def trim() -> None:
    """Gives all kept memory back."""
    _POOL.trim()
