"""A compute block loaded on a GPU: its launches, and the memory in which they report failed checks."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from compiler.backends.nvptx.compile import KernelEntry
from compiler.diagnostics import Diagnostic
from compiler.launch.cache import RECORDS, Cache
from compiler.launch.faults import diagnosed
from compiler.launch.thread_kernels import ThreadKernel
from compiler.typed_ast import nodes
from runtime.cuda.copies import download, fill
from runtime.cuda.gpu import Gpu
from runtime.cuda.launch import CheckedLaunch
from runtime.cuda.memory import DeviceBuffer
from runtime.cuda.module import CudaKernel
from runtime.cuda.stream import Stream, StreamEvent
from runtime.records import Factory, define, field, frozen

RECORD_WORDS = 8
"""Of 64 bits each: where a launch says which of its checks failed (see `backends.nvptx.faults`)."""


@frozen
class RecordedFault:
    """A failed check as a record has it."""

    code: str
    site: int
    values: tuple[Any, ...]


@frozen
class LoadedLaunch:
    """A launch of a block, loaded: its kernel, how its arguments are packed, and what the launch must know besides."""

    entry: KernelEntry
    kernel: CudaKernel
    signature: tuple[str, ...]
    where: str

    def plan(self, grid: Sequence[int], shared: int = 0) -> CheckedLaunch:
        """A launch of this grid; `shared`: bytes of dynamic shared memory besides those that the kernel fixes."""
        block = self.entry.block or (1, 1, 1)
        dynamic = self.entry.dynamic_bytes + shared
        cooperative, early = self.entry.cooperative, self.entry.early
        return CheckedLaunch(
            self.kernel, self.signature, grid, block, shared=dynamic, cooperative=cooperative, early=early, where=self.where
        )


@frozen(eq=False)
class LaunchRecords:
    """The records of one run's launches: zeros on the device, and where the host reads them."""

    buffer: DeviceBuffer
    words: Any

    @classmethod
    def of(cls, count: int, gpu: Gpu, stream: Stream) -> "LaunchRecords":
        buffer = gpu.allocate(8 * RECORD_WORDS * count, stream)
        fill(buffer, 0, stream, 4)
        return cls(buffer, gpu.pinned.empty((count, RECORD_WORDS), np.int64))

    @property
    def addresses(self) -> tuple[int, ...]:
        """Of each launch's record."""
        begin = self.buffer.pointer
        return tuple(range(begin, begin + self.buffer.size, 8 * RECORD_WORDS))

    def fetch(self, stream: Stream) -> StreamEvent:
        """Brings them to the host; they are there when the event is done."""
        download(self.words, self.buffer, stream)
        return stream.record()


@define(eq=False)
class LoadedKernel:
    """A block for one signature, loaded on a GPU, and the memory in which its launches report failed checks (and count blocks that
    wait for the whole grid)."""

    kernel: ThreadKernel
    launches: Sequence[LoadedLaunch]
    gpu: Gpu
    checked: bool = field(init=False)
    recording: bool = field(init=False)
    _records: Cache[Stream, list[LaunchRecords]] = Factory(partial(Cache, RECORDS))

    def __attrs_post_init__(self) -> None:
        self.checked = any(launch.entry.checks for launch in self.launches)
        self.recording = self.checked or any(launch.entry.cooperative for launch in self.launches)

    def records(self, stream: Stream) -> LaunchRecords:
        """For one run. Those of streams that last come back by `keep` and stay zero while nothing fails."""
        with suppress(KeyError, IndexError):
            return self._records[stream].pop()
        return LaunchRecords.of(len(self.launches), self.gpu, stream)

    def keep(self, records: LaunchRecords) -> None:
        """The records of a run without a fault, for the next run: several threads may have some each."""
        stream = records.buffer.stream
        if stream is self.gpu.stream or stream.number in self.gpu.device.lasting_streams:
            self._records.of(stream, list).append(records)

    def diagnose(self, words: Any, compute: nodes.Compute) -> Diagnostic:
        """What the first launch with a failed check says of it; there is one."""
        for launch, record in zip(self.launches, words, strict=True):
            if record[1]:
                check = launch.entry.checks[int(record[2])]
                values = tuple(_number(word, dtype) for word, dtype in zip(record[3:], check.dtypes, strict=False))
                return diagnosed(RecordedFault(check.code, check.site, values), self.kernel.built.lowered.function.sites, compute.span)
        raise AssertionError("no check failed")


def _number(word: Any, dtype: str) -> Any:
    return float(np.int64(word).view(np.float64)) if dtype[0] in "fb" else int(word)
