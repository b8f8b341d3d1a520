"""Host memory that the device copies from and to directly: pinned (made here, pooled) and registered (another's, pinned in place)."""

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from runtime import forks
from runtime.cuda.device import CudaDevice
from runtime.cuda.errors import OUT_OF_MEMORY, CudaError, CudaOutOfMemory, readable
from runtime.cuda.stream import Stream, StreamEvent

PORTABLE = 1
PAGE = 4096

Array = npt.NDArray[Any]


class HostMemory:
    """Page-locked bytes that copies in flight may still use."""

    __slots__ = ("__array_interface__", "_uses", "device", "pointer", "size")

    def __init__(self, device: CudaDevice, pointer: int, size: int) -> None:
        self.device, self.pointer, self.size = device, pointer, size
        self._uses: dict[int, StreamEvent] = {}
        # an array over these bytes keeps this object as its base
        self.__array_interface__ = {"version": 3, "shape": (size,), "typestr": "|u1", "data": (pointer, False)}

    def used_on(self, stream: Stream) -> None:
        """Say that what is on `stream` now uses these bytes."""
        event = self._uses.get(stream.number)
        if event is None:
            event = self._uses[stream.number] = StreamEvent(self.device)
        event.record(stream)

    @property
    def uses(self) -> tuple[StreamEvent, ...]:
        """Points after the last use on each stream."""
        return tuple(self._uses.values())


class PinnedBlock(HostMemory):
    """Bytes of a pinned pool, given back when the last array over them is gone."""

    __slots__ = ("pool",)

    def __init__(self, pool: "PinnedPool", pointer: int, size: int) -> None:
        super().__init__(pool.device, pointer, size)
        self.pool = pool

    def __del__(self) -> None:
        self.pool.give(self.pointer, self.size, self.uses)


def host_memory(array: Array) -> HostMemory | None:
    """The page-locked memory that an array lies in; None for ordinary memory."""
    base: Any = array
    while base is not None:
        if isinstance(base, HostMemory):
            return base
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return None


class PinnedPool:
    """Pinned memory, kept for the next request of its size once no copy uses it."""

    def __init__(self, device: CudaDevice, keep: int = 1 << 30) -> None:
        self.device, self.keep = device, keep
        self.blocks_in_use = self.idle_bytes = 0
        self._lock = forks.lock()
        self._returned: deque[tuple[int, int, tuple[StreamEvent, ...]]] = deque()
        self._cooling: list[tuple[int, int, tuple[StreamEvent, ...]]] = []
        self._idle: dict[int, list[int]] = {}

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        """A contiguous array in pinned memory, undefined until written."""
        kind = np.dtype(dtype)
        count = 1
        for extent in shape:
            count *= extent
        size = count * kind.itemsize
        if size == 0:
            return np.empty(shape, kind)
        return np.asarray(self._block(-(-size // PAGE) * PAGE))[:size].view(kind).reshape(shape)

    def _block(self, size: int) -> PinnedBlock:
        with self._lock:
            self._collect()
            idle = self._idle.get(size)
            if idle:
                pointer = idle.pop()
                self.idle_bytes -= size
            else:
                pointer = self._fresh(size)
            self.blocks_in_use += 1
            return PinnedBlock(self, pointer, size)

    def _fresh(self, size: int) -> int:
        try:
            return int(self.device.call("cuMemHostAlloc", size, PORTABLE))
        except CudaError as error:
            if error.code != OUT_OF_MEMORY:
                raise
        idle = self.idle_bytes
        self._release(0)
        try:
            return int(self.device.call("cuMemHostAlloc", size, PORTABLE))
        except CudaError as error:
            if error.code != OUT_OF_MEMORY:
                raise
            blocks = "1 block" if self.blocks_in_use == 1 else f"{self.blocks_in_use} blocks"
            state = f"the pinned pool has {blocks} in use, and {readable(idle)} that it gave back"
            raise CudaOutOfMemory(error.call, error.code, error.name, size, state) from None

    def give(self, pointer: int, size: int, uses: tuple[StreamEvent, ...]) -> None:
        self._returned.append((pointer, size, uses))

    def trim(self) -> None:
        """Free what no array and no copy uses."""
        with self._lock:
            self._collect()
            self._release(0)

    def collect(self) -> None:
        with self._lock:
            self._collect()

    def _collect(self) -> None:
        for _ in range(len(self._returned)):
            self._cooling.append(self._returned.popleft())
            self.blocks_in_use -= 1
        if self.device.captures:
            # nothing may be asked or freed while a stream is being recorded
            return
        still = []
        for pointer, size, uses in self._cooling:
            if self.device.lost is not None or all(use.done() for use in uses):
                self._idle.setdefault(size, []).append(pointer)
                self.idle_bytes += size
            else:
                still.append((pointer, size, uses))
        self._cooling = still
        if self.idle_bytes > self.keep:
            self._release(self.keep)

    def _release(self, keep: int) -> None:
        for size, idle in sorted(self._idle.items(), reverse=True):
            while idle and self.idle_bytes > keep and self.device.lost is None:
                self.device.call("cuMemFreeHost", idle[-1])
                idle.pop()
                self.idle_bytes -= size


class Registered(HostMemory):
    """An array's own memory, pinned in place until `close` (or until this and `view` are dropped). Copy through `view`: it is the
    same array, known to be pinned."""

    __slots__ = ("__weakref__", "_array")

    def __init__(self, device: CudaDevice, array: Array) -> None:
        self._array: Array | None = None
        start, end = extent(array)
        if start == end:
            raise ValueError("an empty array can't be registered")
        super().__init__(device, start, end - start)
        device.call("cuMemHostRegister", start, end - start, PORTABLE, context=f"{end - start} bytes of host memory")
        self._array = array

    @property
    def view(self) -> Array:
        array = self._array
        if array is None:
            raise ValueError("this memory is registered no longer")
        offset = int(array.__array_interface__["data"][0]) - self.pointer
        return np.ndarray(array.shape, array.dtype, np.asarray(self), offset, array.strides)

    def close(self) -> None:
        """Wait for the copies in flight and let the memory be ordinary again."""
        if self._array is None:
            return
        self._array = None
        if self.device.lost is None:
            for use in self.uses:
                use.synchronize()
            self.device.call("cuMemHostUnregister", self.pointer)

    def __enter__(self) -> "Registered":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except CudaError:
            # the pages stay locked until the process ends; there is nobody to tell
            self._array = None


def extent(array: Array) -> tuple[int, int]:
    """First address of an array's elements, and the one after the last."""
    start = end = int(array.__array_interface__["data"][0])
    if array.size == 0:
        return start, start
    for size, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            start += (size - 1) * stride
        else:
            end += (size - 1) * stride
    return start, end + array.itemsize
