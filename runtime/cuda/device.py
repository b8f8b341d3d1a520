"""One CUDA device and its primary context, which PyTorch and CuPy use too. Calls are made in that context and leave the calling
thread's own choice of context as it was. Memory, streams and kernels are the files' beside this one."""

import os
import threading
from collections import deque
from functools import cached_property
from typing import Any
from weakref import WeakSet

from runtime import forks
from runtime.cuda.driver import Driver
from runtime.cuda.errors import DEINITIALIZED, INVALID_CONTEXT, CudaContextLost, CudaError, CudaForked, CudaUnavailable
from runtime.cuda.properties import Properties, read_properties

RELEASE_TRIES = 3


class _Thread(threading.local):
    context = 0
    """The context that this thread last made current here."""


CURRENT = _Thread()


class CudaDevice:
    """A device. Streams and events that are no longer used are kept here for the next that asks (`idle_streams`, `idle_events`)."""

    def __init__(self, driver: Driver, ordinal: int = 0) -> None:
        if not 0 <= ordinal < driver.device_count:
            present = "1 device" if driver.device_count == 1 else f"{driver.device_count} devices"
            raise CudaUnavailable(f"there is no device cuda:{ordinal}; this machine has {present}")
        self.driver = driver
        self.api = driver.api
        self.ordinal = ordinal
        self.handle = driver.call("cuDeviceGet", ordinal)
        self.lost: CudaContextLost | None = None
        self.captures = 0
        self.streams_made = self.events_made = 0
        self.idle_streams: dict[int, deque[Any]] = {}
        self.idle_events: tuple[deque[Any], deque[Any]] = (deque(), deque())
        self.streams: WeakSet[Any] = WeakSet()
        self.lasting_streams: dict[int, Any] = {}
        self.cooling: deque[tuple[Any, tuple[Any, ...]]] = deque()
        self.doomed: deque[tuple[str, Any, int]] = deque()
        self._alone = driver.device_count == 1
        self._lock = forks.lock()
        self._context: Any = None
        self._number = 0
        self.only = -1
        """The context's number where no other device has one: then what this thread made current last is current still."""
        _DEVICES.add(self)

    @cached_property
    def properties(self) -> Properties:
        return read_properties(self.driver, self.ordinal, self.handle)

    @property
    def context(self) -> Any:
        """The primary context, retained until `close`."""
        if self._context is None:
            with self._lock:
                if self._context is None:
                    context = self.driver.call("cuDevicePrimaryCtxRetain", self.handle, context=f"cuda:{self.ordinal}")
                    self._number = int(context)
                    self.only = self._number if self._alone else -1
                    self._context = context
        return self._context

    def enter(self) -> bool:
        """Make this device's context the thread's; whether another was pushed aside, which `leave` then puts back."""
        if CURRENT.context == self.only:
            return False
        context = self.context
        current = int(self.driver.call("cuCtxGetCurrent"))
        if current not in (0, self._number):
            self.driver.call("cuCtxPushCurrent", context)
            return True
        if current == 0:
            self.driver.call("cuCtxSetCurrent", context)
        CURRENT.context = self._number
        return False

    def leave(self) -> None:
        self.driver.call("cuCtxPopCurrent")

    def call(self, name: str, *arguments: Any, context: str = "") -> Any:
        """A driver call in this device's context."""
        if self.lost is not None:
            raise self.lost
        pushed = self.enter()
        try:
            result = getattr(self.api, name)(*arguments)
            if result[0] == INVALID_CONTEXT and self.regain():
                result = getattr(self.api, name)(*arguments)
            if result[0]:
                raise self.error(name, result[0], context)
            return result[1] if len(result) == 2 else result[1:] or None
        finally:
            if pushed:
                self.leave()

    def release(self, name: str, handle: Any) -> None:
        """Destroy something when its owner is collected. There is nobody to tell of a failure: it is tried again later."""
        self.doomed.append((name, handle, RELEASE_TRIES))
        self._release()

    def _release(self) -> None:
        if self.lost is not None:
            # after a fault all is gone anyway
            self.doomed.clear()
        for _ in range(len(self.doomed)):
            try:
                name, handle, tries = self.doomed.popleft()
            except IndexError:
                return
            try:
                self.call(name, handle)
            except CudaError as error:
                if tries > 1 and error.code != DEINITIALIZED:
                    self.doomed.append((name, handle, tries - 1))

    def regain(self) -> bool:
        """Make our context current again where another library took it away; whether that was so."""
        CURRENT.context = 0
        current = int(self.driver.call("cuCtxGetCurrent"))
        if current == self._number:
            return False
        self.driver.call("cuCtxSetCurrent", self.context)
        return True

    def error(self, name: str, code: Any, context: str = "") -> CudaError:
        """The exception for a failed call. A fault marks the device as lost and names the kernels that may have caused it."""
        failure = self.driver.failure(code)
        if not failure.loses_context:
            return CudaError(name, failure.code, failure.name, failure.message, context)
        if self.lost is None:
            kernels = tuple(site for stream in list(self.streams) for site in stream.pending_kernels())
            self.lost = CudaContextLost(name, failure.code, failure.name, failure.message, kernels)
        return self.lost

    def memory(self) -> tuple[int, int]:
        """Free bytes and bytes in all, as the driver counts them."""
        free, total = self.call("cuMemGetInfo")
        return int(free), int(total)

    def synchronize(self) -> None:
        """Wait for all work on the device, of other libraries too."""
        self.call("cuCtxSynchronize")
        for stream in list(self.streams):
            stream.forget_kernels()

    def cool(self, owner: Any, streams: tuple[Any, ...]) -> None:
        """Keep another library's object until the work on these streams, which uses its memory, is done."""
        self.cooling.append((owner, streams))

    def reap(self) -> None:
        """Let go of what `cool` kept and no work uses any more, and of what could not be destroyed at first."""
        if self.captures:
            return
        self._release()
        for _ in range(len(self.cooling)):
            try:
                owner, streams = self.cooling.popleft()
            except IndexError:
                return
            if self.lost is None and not all(stream.done() for stream in streams):
                self.cooling.append((owner, streams))

    def close(self) -> None:
        """Give idle streams, events and the context back. Nothing of this device may be used afterwards."""
        if self._context is None:
            return
        if self.lost is None:
            for streams in self.idle_streams.values():
                while streams:
                    self.call("cuStreamDestroy", streams.popleft())
                    self.streams_made -= 1
            for events in self.idle_events:
                while events:
                    self.call("cuEventDestroy", events.popleft())
                    self.events_made -= 1
            self.driver.call("cuDevicePrimaryCtxRelease", self.handle)
        CURRENT.context = 0
        self._context, self._number, self.only = None, 0, -1


_DEVICES: "WeakSet[CudaDevice]" = WeakSet()


def _in_a_forked_process() -> None:
    """The driver doesn't work in a copy of the process: nothing may be asked of it there, not even to let go of something."""
    for device in _DEVICES:
        device.lost, device._context = CudaForked(), None
        device.doomed.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_a_forked_process)
