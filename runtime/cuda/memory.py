"""Memory on a device. A pool over the driver's stream-ordered allocator keeps freed blocks for the stream that freed them, because
a block from the driver costs microseconds and one kept here a fraction of one. Sizes are rounded by an eighth at most. Who drops a
buffer frees it, from whatever thread; the pool takes it back when it next has its lock."""

import threading
from collections import deque
from functools import lru_cache
from typing import Any

from attrs import frozen

from runtime.cuda.device import CudaDevice
from runtime.cuda.errors import DEINITIALIZED, OUT_OF_MEMORY, CudaError, CudaOutOfMemory, readable
from runtime.cuda.stream import Stream

GRAIN = 512
LARGE_GRAIN = 2 << 20
"""The driver maps memory in pieces of this size, so that finer classes above sixteen of them save nothing."""


@lru_cache(4096)
def block_size(size: int) -> int:
    """The size class of a request: multiples of 512 bytes, eight classes an octave, from 16 MiB on multiples of 2 MiB."""
    if size >= 8 * LARGE_GRAIN:
        grain = LARGE_GRAIN
    else:
        grain = max(GRAIN, 1 << max(0, (size - 1).bit_length() - 4))
    return max(GRAIN, -(-size // grain) * grain)


@frozen
class PoolStatistics:
    """Bytes and blocks of a pool. `driver_used` and `driver_reserved` count everybody who shares the device's own pool."""

    in_use: int
    blocks_in_use: int
    most_in_use: int
    idle: int
    idle_blocks: int
    limit: int | None
    requests: int
    hits: int
    driver_used: int
    driver_reserved: int


class DeviceBuffer:
    """Bytes on a device, freed when dropped; `int(buffer)` is their address. Work on other streams than `stream` is waited for
    before the bytes are given to anybody else, if those streams were named by `used_on`."""

    __slots__ = ("__weakref__", "_block", "exported", "pointer", "pool", "size", "stream", "users")

    def __init__(self, pool: "Pool", pointer: int, size: int, block: int, stream: Stream) -> None:
        self.pool, self.pointer, self.size, self._block, self.stream = pool, pointer, size, block, stream
        self.users: tuple[Stream, ...] = ()
        self.exported = False

    def __del__(self) -> None:
        if self._block:
            self.pool.give((self.pointer, self._block, self.stream, self.users, self.exported))

    def __index__(self) -> int:
        return self.pointer

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"DeviceBuffer(cuda:{self.device.ordinal}, {self.pointer:#x}, {readable(self.size)})"

    @property
    def device(self) -> CudaDevice:
        return self.pool.device

    def used_on(self, stream: Stream) -> None:
        """Say that work on `stream` uses these bytes."""
        if stream is not self.stream and stream not in self.users:
            self.users = (*self.users, stream)

    def export(self) -> None:
        """Say that others may use these bytes on streams not known here: all work on the device is waited for in the end."""
        self.exported = True


_Returned = tuple[int, int, Stream, tuple[Stream, ...], bool]


class Pool:
    """The memory of one device. `limit` bounds the bytes taken from the driver, `keep` those that lie idle."""

    def __init__(self, device: CudaDevice, limit: int | None = None, keep: int | None = None) -> None:
        self.device, self.limit = device, limit
        self.keep = device.properties.memory // 8 if keep is None else keep
        self.requests = self.hits = 0
        self._lock = threading.Lock()
        self._returned: deque[_Returned] = deque()
        self._idle: dict[tuple[int, int], list[int]] = {}
        self._idle_bytes = self._idle_blocks = 0
        self._in_use = self._blocks = self._most = 0
        self._ordered = device.properties.memory_pools

    def allocate(self, size: int, stream: Stream) -> DeviceBuffer:
        """`size` bytes, undefined, for work on `stream` from here on. CudaOutOfMemory when there is no room."""
        if stream.recording is not None:
            raise ValueError("memory can't be allocated on a stream that is being recorded into a graph: allocate before")
        if size <= 0:
            return DeviceBuffer(self, 0, 0, 0, stream)
        block = block_size(size)
        with self._lock:
            self.requests += 1
            if self._returned:
                self._collect()
            kept = self._idle.get((stream.number, block))
            if kept:
                pointer = kept.pop()
                self._idle_bytes -= block
                self._idle_blocks -= 1
                self.hits += 1
            else:
                pointer = self._take(size, block, stream)
            self._in_use += block
            self._blocks += 1
            if self._in_use > self._most:
                self._most = self._in_use
        return DeviceBuffer(self, pointer, size, block, stream)

    def give(self, returned: _Returned) -> None:
        """Take a dropped buffer's bytes back. Called by garbage collection, at any moment, so it waits for nothing: while the
        lock is held the block stays in the queue, and the next call here collects it."""
        self._returned.append(returned)
        if self._lock.acquire(blocking=False):
            try:
                self._collect()
            finally:
                self._lock.release()

    def statistics(self) -> PoolStatistics:
        with self._lock:
            self._collect()
            used, reserved = self._driver_statistics()
            return PoolStatistics(
                in_use=self._in_use,
                blocks_in_use=self._blocks,
                most_in_use=self._most,
                idle=self._idle_bytes,
                idle_blocks=self._idle_blocks,
                limit=self.limit,
                requests=self.requests,
                hits=self.hits,
                driver_used=used,
                driver_reserved=reserved,
            )

    def trim(self, keep: int = 0) -> None:
        """Give idle memory beyond `keep` bytes back to the driver, and what the driver then holds unused to the system."""
        with self._lock:
            self._collect()
            self._release(keep)
            self.device.call("cuCtxSynchronize")
            if self._ordered:
                self.device.call("cuMemPoolTrimTo", self._driver_pool(), keep)

    def _take(self, size: int, block: int, stream: Stream) -> int:
        if self.limit is not None and self._in_use + self._idle_bytes + block > self.limit:
            self._release(max(0, self.limit - self._in_use - block))
            if self._in_use + self._idle_bytes + block > self.limit:
                raise CudaOutOfMemory("Pool.allocate", OUT_OF_MEMORY, "limit of the pool", size, self._state())
        try:
            return self._from_driver(block, stream)
        except CudaError as error:
            if error.code != OUT_OF_MEMORY:
                raise
        try:
            # frees are ordered too: memory comes back to the system when the work before them is done
            self._release(0)
            self.device.call("cuCtxSynchronize")
            if self._ordered:
                self.device.call("cuMemPoolTrimTo", self._driver_pool(), 0)
            return self._from_driver(block, stream)
        except CudaError as error:
            if error.code != OUT_OF_MEMORY:
                raise
            raise CudaOutOfMemory(error.call, error.code, error.name, size, self._state()) from None

    def _from_driver(self, block: int, stream: Stream) -> int:
        if self._ordered:
            return int(self.device.call("cuMemAllocAsync", block, stream.handle))
        return int(self.device.call("cuMemAlloc", block))

    def _state(self) -> str:
        blocks = "1 block" if self._blocks == 1 else f"{self._blocks} blocks"
        used = f"{readable(self._in_use)} in use in {blocks}, {readable(self._idle_bytes)} kept"
        limit = "" if self.limit is None else f", limit {readable(self.limit)}"
        free, total = self.device.memory()
        return f"the pool has {used}{limit}; cuda:{self.device.ordinal} has {readable(free)} free of {readable(total)}"

    def _collect(self) -> None:
        """Sort the returned blocks in, behind the work that still uses them."""
        if self.device.captures:
            # nothing may be freed or waited for while a stream is being recorded
            return
        for _ in range(len(self._returned)):
            try:
                returned = self._returned.popleft()
            except IndexError:
                break
            pointer, block, stream, users, exported = returned
            if self.device.lost is None:
                try:
                    self._settle(stream, users, exported)
                except CudaError as error:
                    if self.device.lost is None and error.code != DEINITIALIZED:
                        # it could not be ordered behind its users: try again later
                        self._returned.append(returned)
                        continue
            self._in_use -= block
            self._blocks -= 1
            if self.device.lost is None:
                self._idle.setdefault((stream.number, block), []).append(pointer)
                self._idle_bytes += block
                self._idle_blocks += 1
        if self.device.lost is not None:
            self._idle.clear()
            self._idle_bytes = self._idle_blocks = 0
        elif self._idle_bytes > self.keep:
            self._release(self.keep)

    def _settle(self, stream: Stream, users: tuple[Stream, ...], exported: bool) -> None:
        if exported:
            self.device.call("cuCtxSynchronize")
            return
        for user in users:
            stream.wait(user)

    def _release(self, keep: int) -> None:
        """Free idle blocks, the largest first, until `keep` bytes are left. What the driver refuses to free stays idle."""
        for (number, block), kept in sorted(self._idle.items(), key=lambda item: -item[0][1]):
            while kept and self._idle_bytes > keep:
                try:
                    if self._ordered:
                        self.device.call("cuMemFreeAsync", kept[-1], number)
                    else:
                        self.device.call("cuMemFree", kept[-1])
                except CudaError:
                    break
                kept.pop()
                self._idle_bytes -= block
                self._idle_blocks -= 1
            if not kept:
                del self._idle[number, block]

    def _driver_pool(self) -> Any:
        return self.device.call("cuDeviceGetMemPool", self.device.handle)

    def _driver_statistics(self) -> tuple[int, int]:
        if not self._ordered or self.device.lost is not None:
            return 0, 0
        attributes = self.device.api.CUmemPool_attribute
        pool = self._driver_pool()
        used = self.device.call("cuMemPoolGetAttribute", pool, attributes.CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
        reserved = self.device.call("cuMemPoolGetAttribute", pool, attributes.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
        return int(used), int(reserved)
