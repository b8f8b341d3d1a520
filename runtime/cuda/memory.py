"""Memory on a device. A pool over the driver's stream-ordered allocator keeps freed blocks for the stream that freed them, because
a block from the driver costs microseconds and one kept here a fraction of one. Sizes are rounded by an eighth at most. Who drops a
buffer frees it, from whatever thread."""

from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from runtime import forks
from runtime.cuda.device import CudaDevice
from runtime.cuda.errors import DEINITIALIZED, OUT_OF_MEMORY, CudaError, CudaOutOfMemory, readable
from runtime.cuda.stream import Stream
from runtime.records import frozen

GRAIN = 512
LARGE_GRAIN = 2 << 20
"""The driver maps memory in pieces of this size, so that finer classes above sixteen of them save nothing."""

TURN = 256
"""Blocks that are sorted in until the pool looks anew which of them nobody wants."""

SIZES_REMEMBERED = 4096


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
    """Bytes and blocks of a pool; `from_driver` counts the requests that it could not meet itself. `driver_used` and
    `driver_reserved` count everybody who shares the device's own pool."""

    in_use: int
    blocks_in_use: int
    idle: int
    idle_blocks: int
    most: int
    limit: int | None
    from_driver: int
    driver_used: int
    driver_reserved: int


class Shelf:
    """The blocks of one size for one stream: how many there are, those that lie idle, and how many of these were idle all the time, as far
    as the pool saw. Taking and returning an idle block is one atomic step, without a lock."""

    __slots__ = ("block", "count", "idle", "number", "pool", "spare")

    def __init__(self, pool: "Pool", number: int, block: int) -> None:
        self.pool, self.number, self.block = pool, number, block
        self.idle: list[int] = []
        self.count = self.spare = 0


class DeviceBuffer:
    """Bytes on a device, freed when dropped; `int(buffer)` is their address. Work on other streams than `stream` is waited for
    before the bytes are given to anybody else, if those streams were named by `used_on`."""

    __slots__ = ("__weakref__", "_shelf", "pointer", "size", "stream", "users")

    def __init__(self, shelf: Shelf | None, pointer: int, size: int, stream: Stream) -> None:
        self._shelf, self.pointer, self.size, self.stream = shelf, pointer, size, stream
        self.users: tuple[Stream | None, ...] = ()

    def __del__(self) -> None:
        shelf = self._shelf
        if shelf is None:
            return
        pool = shelf.pool
        if self.users or pool.taken > pool.keep:
            pool.give((shelf, self.pointer, self.stream, self.users))
        else:
            shelf.idle.append(self.pointer)

    def __index__(self) -> int:
        return self.pointer

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"DeviceBuffer(cuda:{self.device.ordinal}, {self.pointer:#x}, {readable(self.size)})"

    @property
    def device(self) -> CudaDevice:
        return self.stream.device

    def used_on(self, stream: Stream) -> None:
        """Say that work on `stream` uses these bytes."""
        if stream is not self.stream and stream not in self.users:
            self.users = (*self.users, stream)

    def export(self) -> None:
        """Say that others may use these bytes on streams not known here: all work on the device is waited for in the end."""
        if None not in self.users:
            self.users = (*self.users, None)


_Returned = tuple[Shelf, int, Stream, tuple[Stream | None, ...]]


class Pool:
    """The memory of one device. `limit` bounds the bytes taken from the driver (`taken`), `keep` those that lie idle. Where memory is short
    `spare` drops what nobody needs, if there is anything."""

    def __init__(
        self, device: CudaDevice, limit: int | None = None, keep: int | None = None, spare: Callable[[], bool] = lambda: False
    ) -> None:
        self.device, self.limit, self._spare = device, limit, spare
        self.keep = device.properties.memory // 4 if keep is None else keep
        self._lock = forks.lock()
        self._returned: deque[_Returned] = deque()
        self._shelves: dict[tuple[int, int], Shelf] = {}
        self._by_size: dict[tuple[int, int], Shelf] = {}
        self.taken = self._most = self._from_driver_count = self._sorted = 0
        self._ordered = device.properties.memory_pools

    def allocate(self, size: int, stream: Stream) -> DeviceBuffer:
        """`size` bytes, undefined, for work on `stream` from here on. CudaOutOfMemory when there is no room."""
        if stream.recording is not None:
            raise ValueError("memory can't be allocated on a stream that is being recorded into a graph: allocate before")
        shelf = self._by_size.get((stream.number, size))
        if shelf is None:
            if size <= 0:
                return DeviceBuffer(None, 0, 0, stream)
            shelf = self.shelf_for(size, stream)
        try:
            pointer = shelf.idle.pop()
        except IndexError:
            pointer = self.fetch(shelf, size, stream)
        return DeviceBuffer(shelf, pointer, size, stream)

    def shelf_for(self, size: int, stream: Stream) -> Shelf:
        """Where blocks of this size lie that are idle for work on a stream: it stays the same."""
        if stream.device.ordinal != self.device.ordinal:
            raise ValueError(f"memory of cuda:{self.device.ordinal} is allocated for its own streams, not cuda:{stream.device.ordinal}'s")
        block = block_size(size)
        with self._lock:
            shelf = self._shelves.get((stream.number, block))
            if shelf is None:
                shelf = self._shelves[stream.number, block] = Shelf(self, stream.number, block)
            if len(self._by_size) >= SIZES_REMEMBERED:
                self._by_size.clear()
            self._by_size[stream.number, size] = shelf
            return shelf

    def fetch(self, shelf: Shelf, size: int, stream: Stream) -> int:
        """A block for a shelf without idle ones: one that had to wait, or the driver's. CudaOutOfMemory when there is no room."""
        with self._lock:
            self._collect()
            try:
                return shelf.idle.pop()
            except IndexError:
                shelf.spare = 0
                pointer = self._take_or_spare(size, shelf.block, stream)
            shelf.count += 1
            self.taken += shelf.block
            self._from_driver_count += 1
            self._most = max(self._most, self.taken)
            return pointer

    def give(self, returned: _Returned) -> None:
        """Take back a dropped buffer's bytes when others use them or the pool may keep too many. Called by garbage collection, at
        any moment, so it waits for nothing: while the lock is held the block stays in the queue, and the next call collects it."""
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
            idle, idle_blocks = self._idle(), sum(len(shelf.idle) for shelf in self._shelves.values())
            return PoolStatistics(
                in_use=self.taken - idle,
                blocks_in_use=sum(shelf.count for shelf in self._shelves.values()) - idle_blocks,
                idle=idle,
                idle_blocks=idle_blocks,
                most=self._most,
                limit=self.limit,
                from_driver=self._from_driver_count,
                driver_used=used,
                driver_reserved=reserved,
            )

    def _idle(self) -> int:
        return sum(shelf.block * len(shelf.idle) for shelf in self._shelves.values())

    def trim(self, keep: int = 0) -> None:
        """Give idle memory beyond `keep` bytes back to the driver, and what the driver then holds unused to the system."""
        with self._lock:
            self._collect()
            self._release(keep)
            self.device.call("cuCtxSynchronize")
            if self._ordered:
                self.device.call("cuMemPoolTrimTo", self._driver_pool(), keep)

    def _take_or_spare(self, size: int, block: int, stream: Stream) -> int:
        try:
            return self._take(size, block, stream)
        except CudaOutOfMemory:
            if not self._spare():
                raise
        self._collect()
        return self._take(size, block, stream)

    def _take(self, size: int, block: int, stream: Stream) -> int:
        if self.limit is not None and self.taken + block > self.limit:
            self._release(max(0, self._idle() - (self.taken + block - self.limit)))
            if self.taken + block > self.limit:
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
        idle = self._idle()
        count = sum(shelf.count - len(shelf.idle) for shelf in self._shelves.values())
        blocks = "1 block" if count == 1 else f"{count} blocks"
        used = f"{readable(self.taken - idle)} in use in {blocks}, {readable(idle)} kept"
        limit = "" if self.limit is None else f", limit {readable(self.limit)}"
        free, total = self.device.memory()
        return f"the pool has {used}{limit}; cuda:{self.device.ordinal} has {readable(free)} free of {readable(total)}"

    def _collect(self) -> None:
        """Sort the returned blocks in, behind the work that still uses them."""
        if self.device.captures:
            # nothing may be freed or waited for while a stream is being recorded
            return
        for _ in range(len(self._returned)):
            shelf, pointer, stream, users = returned = self._returned.popleft()
            if self.device.lost is None:
                try:
                    self._settle(stream, users)
                except CudaError as error:
                    if self.device.lost is None and error.code != DEINITIALIZED:
                        # it could not be ordered behind its users: try again later
                        self._returned.append(returned)
                        continue
            self._sort_in(shelf, pointer)
        if self.device.lost is not None:
            self._forget_idle()
        elif self._idle() > self.keep:
            self._release(self.keep)

    def _sort_in(self, shelf: Shelf, pointer: int) -> None:
        """A shelf has the fewest idle blocks when those of a turn of a program's loop begin to come back."""
        if self._sorted % TURN == 0:
            for each in self._shelves.values():
                each.spare = len(each.idle)
        self._sorted += 1
        shelf.spare = min(shelf.spare, len(shelf.idle))
        shelf.idle.append(pointer)

    def _settle(self, stream: Stream, users: tuple[Stream | None, ...]) -> None:
        if None in users:
            self.device.call("cuCtxSynchronize")
            return
        for user in users:
            if user is not None:
                stream.wait(user)

    def _forget_idle(self) -> None:
        """What lay in a lost context is gone."""
        for shelf in self._shelves.values():
            while shelf.idle:
                shelf.idle.pop()
                shelf.count -= 1
                self.taken -= shelf.block

    def _release(self, keep: int) -> None:
        """Free idle blocks until `keep` bytes are left: first those that nobody wanted, so that a loop has its own again; the largest
        first. What the driver refuses to free stays idle."""
        idle = self._idle()
        largest = sorted(self._shelves.values(), key=lambda each: -each.block)
        for shelf in largest:
            idle = self._freed(shelf, shelf.spare, idle, keep)
        for shelf in largest:
            idle = self._freed(shelf, len(shelf.idle), idle, keep)

    def _freed(self, shelf: Shelf, most: int, idle: int, keep: int) -> int:
        """Free so many blocks of a shelf at most, while more than `keep` bytes are idle; what is idle then."""
        while idle > keep and most > 0:
            try:
                pointer = shelf.idle.pop(0)
            except IndexError:
                break
            try:
                if self._ordered:
                    self.device.call("cuMemFreeAsync", pointer, shelf.number)
                else:
                    self.device.call("cuMemFree", pointer)
            except CudaError:
                shelf.idle.append(pointer)
                break
            most -= 1
            shelf.spare = max(0, shelf.spare - 1)
            shelf.count -= 1
            idle -= shelf.block
            self.taken -= shelf.block
        return idle

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
