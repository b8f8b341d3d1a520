"""Checked calls that nobody waits for. Each has records of its own on the device, which stay zero while nothing fails; all records of a
stream are fetched at once, when the host looks at the device (see `runtime.unread`)."""

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from compiler.launch.cuda.loaded import RECORD_WORDS
from runtime import forks
from runtime.cuda.array import DeviceArray
from runtime.cuda.copies import download, fill
from runtime.cuda.gpu import Gpu
from runtime.cuda.memory import DeviceBuffer
from runtime.cuda.stream import Stream
from runtime.records import Factory, define
from runtime.unread import UNREAD, make_void

RECORDS = 256
"""Of one stream. When all are taken the host waits once."""

HELD = 16
"""Calls keep their arguments until they are read, which say what failed: at most such a part of the device's memory."""


LaunchAt = Callable[[tuple[int, ...]], None]
"""Makes the launches, with the addresses of their records."""


@define(eq=False)
class UnreadCall:
    """A call. `error` makes the error of its records, once, and keeps its arguments until then: `held` bytes."""

    error: Callable[[Any], BaseException] | None
    held: int
    words: Any = None
    known: BaseException | None = None

    def fault(self) -> BaseException:
        """The error of a call that failed."""
        if (make := self.error) is not None:
            self.known = self.known or make(self.words)
            self.error = None
        assert self.known is not None
        return self.known


@define(eq=False)
class StreamChecks:
    """The calls on a stream that nobody has waited for."""

    gpu: Gpu
    stream: Stream
    _calls: list[tuple[UnreadCall, int, tuple["ref[Any]", ...]]] = Factory(list)
    """Each with the number of its last record, plus one, and the memory of its results."""
    _held: int = 0
    _buffer: DeviceBuffer | None = None
    _lock: Any = Factory(forks.lock)

    def launch(self, call: UnreadCall, count: int, results: Sequence[DeviceArray | None], launch: LaunchAt) -> None:
        """Does what `launch` does with the addresses of `count` records. Raises the fault of an earlier call where it has to wait."""
        while not self._launched(call, count, results, launch):
            self.read()

    def _launched(self, call: UnreadCall, count: int, results: Sequence[DeviceArray | None], launch: LaunchAt) -> bool:
        """False where there is no room for it."""
        with self._lock:
            first = self._calls[-1][1] if self._calls else 0
            if self._calls and (first + count > RECORDS or self._held + call.held > self.gpu.device.properties.memory // HELD):
                return False
            begin = self._records(count).pointer + 8 * RECORD_WORDS * first
            # before the launches: where the driver refuses one of several, the others may have written to their records
            self._calls.append((call, first + count, tuple(ref(each.owner) for each in results if each is not None)))
            self._held += call.held
            UNREAD[self] = None
            launch(tuple(range(begin, begin + 8 * RECORD_WORDS * count, 8 * RECORD_WORDS)))
            return True

    def _records(self, count: int) -> DeviceBuffer:
        size = 8 * RECORD_WORDS * max(count, RECORDS)
        if self._buffer is None or self._buffer.size < size:
            self._buffer = self.gpu.allocate(size, self.stream)
            fill(self._buffer, 0, self.stream, 4)
        return self._buffer

    def read(self) -> None:
        """Waits for the calls, forgets them, and raises the fault of the first that failed."""
        with self._lock:
            try:
                failed = self._failed()
            except Exception:  # the device is lost; an interruption changes nothing
                self._forget()
                raise
            self._forget()
        # outside of the lock, as each is a call of the program
        for fault in [call.fault() for call in failed][:1]:
            raise fault

    def _failed(self) -> list[UnreadCall]:
        """The calls that failed, when all are done. What they made is void before anybody else may read it."""
        words = self._fetched(self._calls[-1][1]) if self._calls else np.zeros((0, 2))
        if not words[:, 1].any():
            return []
        failed, first = list[UnreadCall](), 0
        for call, end, results in self._calls:
            if words[first:end, 1].any():
                call.words = words[first:end]
                failed.append(call)
                for memory in filter(None, (result() for result in results)):
                    make_void(memory, call.fault)
            first = end
        assert self._buffer is not None
        fill(self._buffer, 0, self.stream, 4)
        return failed

    def _forget(self) -> None:
        self._calls, self._held = [], 0
        UNREAD.pop(self, None)

    def _fetched(self, count: int) -> Any:
        """The first records, when everything on the stream is done."""
        assert self._buffer is not None
        words = self.gpu.pinned.empty((RECORDS, RECORD_WORDS) if count <= RECORDS else (count, RECORD_WORDS), np.int64)[:count]
        download(words, self._buffer, self.stream)
        self.stream.synchronize()
        return words


def checks_of(gpu: Gpu, stream: Stream) -> StreamChecks:
    """Of a stream that lasts."""
    checks: StreamChecks | None = gpu.unread.get(stream)
    if checks is None:
        checks = gpu.unread.setdefault(stream, StreamChecks(gpu, stream))
    return checks
