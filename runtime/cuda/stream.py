"""Streams (work in order) and events (points in that order). Waiting polls, so that Ctrl-C and time limits work."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol, Union

from runtime.cuda.device import CudaDevice
from runtime.cuda.errors import NOT_READY, CudaTimeout

NON_BLOCKING = 1
DISABLE_TIMING = 2
LEGACY, PER_THREAD = 1, 2
"""The two default streams, as handles that mean the same to every library."""

SPIN_SECONDS = 300e-6
SHORTEST_SLEEP, LONGEST_SLEEP = 20e-6, 1e-3
SHARE_SLEPT = 1 / 200
"""Of the time waited so far, at most: so little is waited too long."""

KERNELS_REMEMBERED = 16


class Recorder(Protocol):
    """Takes down what happens on a stream that is being recorded."""

    def launched(self, plan: Any, values: tuple[Any, ...]) -> None:
        """Called after each launch of a plan with these arguments."""

    def keep(self, memory: Any) -> None:
        """Keeps memory alive that the recorded work uses."""


class Stream:
    """A queue of work on a device. Handles are reused: a dropped stream's goes to the next stream made."""

    __slots__ = ("__weakref__", "_owned", "_priority", "device", "handle", "launched", "number", "recording")

    def __init__(self, device: CudaDevice, priority: int = 0) -> None:
        self._owned = False
        self.device = device
        self._priority = priority
        try:
            self.handle = device.idle_streams.setdefault(priority, deque()).popleft()
        except IndexError:
            self.handle = device.call("cuStreamCreateWithPriority", NON_BLOCKING, priority)
            device.streams_made += 1
        self._owned = True
        self._prepare()

    @classmethod
    def external(cls, device: CudaDevice, number: int) -> "Stream":
        """A stream of another library, by its handle (LEGACY and PER_THREAD too). It is used, never
        destroyed, and outlives the memory allocated for it."""
        stream = cls.__new__(cls)
        stream._owned = False
        stream._priority = 0
        stream.device = device
        stream.handle = device.api.CUstream(number)
        stream._prepare()
        return stream

    def _prepare(self) -> None:
        self.number = int(self.handle)
        self.launched: deque[str] = deque(maxlen=KERNELS_REMEMBERED)
        self.recording: Recorder | None = None
        self.device.streams.add(self)

    def __del__(self) -> None:
        if self._owned:
            self.device.idle_streams[self._priority].append(self.handle)

    def __repr__(self) -> str:
        return f"Stream(cuda:{self.device.ordinal}, {self.number:#x})"

    def pending_kernels(self) -> tuple[str, ...]:
        """The latest kernels launched here and not yet waited for."""
        return tuple(self.launched)

    def forget_kernels(self) -> None:
        self.launched.clear()

    def done(self) -> bool:
        """Whether all work so far is complete."""
        return query(self.device, "cuStreamQuery", self.handle)

    def synchronize(self, timeout: float | None = None) -> None:
        """Wait for all work so far. CudaTimeout after `timeout` seconds; the work goes on then."""
        poll(self.done, timeout, "the stream's work")
        self.launched.clear()
        if self.device.cooling:
            self.device.reap()

    def record(self, timing: bool = False) -> "StreamEvent":
        """An event at this point."""
        event = StreamEvent(self.device, timing)
        event.record(self)
        return event

    def wait(self, other: Union["StreamEvent", "Stream"]) -> None:
        """What comes later on this stream starts after the event, or after all that is on the other stream now."""
        event = other.record() if isinstance(other, Stream) else other
        self.device.call("cuStreamWaitEvent", self.handle, event.handle, 0)

    def follow(self, other: "Stream") -> None:
        """The same, without events where nothing is left to wait for."""
        if other is not self and not other.done():
            self.wait(other)

    def follow_all(self, others: Iterable["Stream | None"]) -> None:
        """Each of them that is known."""
        for other in others:
            if other is not None:
                self.follow(other)


class StreamEvent:
    """A point in a stream's work; with `timing`, one whose distance to another can be read."""

    __slots__ = ("__weakref__", "_owned", "device", "handle", "timing")

    def __init__(self, device: CudaDevice, timing: bool = False) -> None:
        self._owned = False
        self.device, self.timing = device, timing
        try:
            self.handle = device.idle_events[timing].popleft()
        except IndexError:
            self.handle = device.call("cuEventCreate", 0 if timing else DISABLE_TIMING)
            device.events_made += 1
        self._owned = True

    def __del__(self) -> None:
        if self._owned:
            self.device.idle_events[self.timing].append(self.handle)

    def record(self, stream: Stream) -> None:
        self.device.call("cuEventRecord", self.handle, stream.handle)

    def done(self) -> bool:
        return query(self.device, "cuEventQuery", self.handle)

    def synchronize(self, timeout: float | None = None) -> None:
        poll(self.done, timeout, "the event")

    def milliseconds_since(self, earlier: "StreamEvent") -> float:
        """Time on the device between two events with timing that have both come to pass."""
        return float(self.device.call("cuEventElapsedTime", earlier.handle, self.handle))


def foreign_stream(device: CudaDevice, number: int) -> Stream:
    """Another library's stream, by its handle; those that last as long as the process are the same object each time."""
    stream: Stream | None = device.lasting_streams.get(number)
    if stream is None:
        stream = Stream.external(device, number)
        if number in (LEGACY, PER_THREAD):
            device.lasting_streams[number] = stream
    return stream


def query(device: CudaDevice, name: str, handle: Any) -> bool:
    """Ask whether something is complete: not being so is an answer and no failure."""
    if device.lost is not None:
        raise device.lost
    pushed = device.enter()
    try:
        code = getattr(device.api, name)(handle)[0]
        if not code:
            return True
        if code == NOT_READY:
            return False
        raise device.error(name, code)
    finally:
        if pushed:
            device.leave()


def poll(ready: Callable[[], bool], timeout: float | None, operation: str) -> None:
    """Wait until `ready()`: spinning first, since most waits are short, then with sleeps that grow with the wait, to a millisecond."""
    if ready():
        return
    start = time.monotonic()
    while not ready():
        waited = time.monotonic() - start
        if timeout is not None and waited >= timeout:
            raise CudaTimeout(f"{operation} did not end within {timeout:g} s")
        if waited > SPIN_SECONDS:
            time.sleep(min(max(SHORTEST_SLEEP, waited * SHARE_SLEPT), LONGEST_SLEEP))
