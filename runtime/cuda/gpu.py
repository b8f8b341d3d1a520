"""A GPU ready for work: its device, memory, kernels and a stream of its own, one object a device and process."""

import os
import threading
from typing import Any
from weakref import WeakSet

from runtime import forks
from runtime.cuda.copies import fill
from runtime.cuda.device import CudaDevice
from runtime.cuda.driver import Driver, driver
from runtime.cuda.host import PinnedPool
from runtime.cuda.memory import DeviceBuffer, Pool
from runtime.cuda.module import Modules
from runtime.cuda.stream import PER_THREAD, Stream
from runtime.device import cuda_name

LEAST_ZEROS = 4096
"""Bytes of zeros that are kept for a stream at least."""

_LOCK = forks.lock()
_OPEN: dict[int, "Gpu"] = {}


class Gpu:
    """Everything of one device. `stream` is the one that is used where no other is named."""

    def __init__(self, device: CudaDevice, limit: int | None = None) -> None:
        self.device = device
        self.pool = Pool(device, limit, spare=self.drop_copies)
        self.pinned = PinnedPool(device)
        self.modules = Modules(device)
        self.stream = Stream(device)
        self.name = cuda_name(device.ordinal)
        self.copies: WeakSet[Any] = WeakSet()
        """Tensors on the host that have kept a copy here."""
        self.unread: dict[Stream, Any] = {}
        """By stream, what reads the checks of calls that nobody has waited for."""
        self._zeros: dict[tuple[int, int], DeviceBuffer] = {}

    def __repr__(self) -> str:
        return f"Gpu(cuda:{self.device.ordinal}, {self.device.properties.name})"

    def new_stream(self, priority: int = 0) -> Stream:
        """Another stream, independent of `stream`."""
        return Stream(self.device, priority)

    def allocate(self, size: int, stream: Stream | None = None) -> DeviceBuffer:
        """Memory for work on a stream."""
        return self.pool.allocate(size, stream or self.stream)

    def zeros(self, size: int, stream: Stream) -> DeviceBuffer:
        """Memory of zeros for work on a stream that leaves it so: the same again and again, as that work is done in order."""
        key = (stream.number, threading.get_ident() if stream.number == PER_THREAD else 0)
        block = self._zeros.get(key)
        if block is None or block.size < size:
            block = self.allocate(max(size, LEAST_ZEROS), stream)
            fill(block, 0, stream)
            if stream.recording is None:
                self._zeros[key] = block
        return block

    def drop_copies(self) -> bool:
        """Give the memory back of copies that are only kept for later. Says whether there were any."""
        tensors = list(self.copies)
        self.copies.clear()
        for tensor in tensors:
            tensor.device_copy = None
        return bool(tensors)

    def synchronize(self) -> None:
        """Wait for all work of blocks: it is on `stream`, or on those of other libraries that last."""
        for stream in (self.stream, *self.device.lasting_streams.values()):
            stream.synchronize()

    def trim(self) -> None:
        """Give all memory back that nothing uses, on the device and pinned."""
        self._zeros.clear()
        self.drop_copies()
        self.pool.trim()
        self.pinned.trim()


def gpu(ordinal: int = 0) -> Gpu:
    """The GPU of that number. CudaUnavailable when there is none."""
    known = _OPEN.get(ordinal)
    if known is not None and known.device.driver.process == os.getpid():
        return known
    opened = driver()
    with _LOCK:
        if ordinal not in _OPEN:
            _OPEN[ordinal] = open_gpu(opened, ordinal)
        return _OPEN[ordinal]


def open_gpus() -> tuple[Gpu, ...]:
    """The GPUs that `gpu` gave so far."""
    with _LOCK:
        return tuple(_OPEN.values())


def open_gpu(driver: Driver, ordinal: int = 0, limit: int | None = None) -> Gpu:
    """A GPU of its own pools and caches, beside the one that `gpu` gives."""
    return Gpu(CudaDevice(driver, ordinal), limit)
