"""A compute block loaded on a GPU: its launches, and the memory in which they report failed checks."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from attrs import Factory

from compiler.backends.nvptx.compile import KernelEntry
from compiler.diagnostics import Diagnostic
from compiler.launch.cache import RECORDS, Cache
from compiler.launch.emulator import ThreadKernel
from compiler.launch.faults import diagnosed
from compiler.typed_ast import nodes
from runtime.cuda.copies import fill
from runtime.cuda.gpu import Gpu
from runtime.cuda.launch import CheckedLaunch
from runtime.cuda.memory import DeviceBuffer
from runtime.cuda.module import CudaKernel
from runtime.cuda.stream import Stream
from runtime.records import define, frozen

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


@define(eq=False)
class LoadedKernel:
    """A block for one signature, loaded on a GPU, and the memory in which its launches report failed checks (and count blocks that
    wait for the whole grid)."""

    kernel: ThreadKernel
    launches: Sequence[LoadedLaunch]
    gpu: Gpu
    _records: Cache[Stream, list[DeviceBuffer]] = Factory(partial(Cache, RECORDS))

    @property
    def checked(self) -> bool:
        return any(launch.entry.checks for launch in self.launches)

    @property
    def recording(self) -> bool:
        return any(launch.entry.checks or launch.entry.cooperative for launch in self.launches)

    def record(self, stream: Stream) -> DeviceBuffer:
        """Zeros, a record for each launch. Those of streams that last come back by `keep` and stay zero while nothing fails."""
        with suppress(KeyError, IndexError):
            return self._records[stream].pop()
        made = self.gpu.allocate(8 * RECORD_WORDS * len(self.launches), stream)
        fill(made, 0, stream, 4)
        return made

    def keep(self, record: DeviceBuffer) -> None:
        """The record of a run without a fault, for the next run: several threads may have one each."""
        stream = record.stream
        if stream is self.gpu.stream or stream.number in self.gpu.device.lasting_streams:
            self._records.of(stream, list).append(record)

    def diagnose(self, words: Any, compute: nodes.Compute) -> Diagnostic | None:
        """What the first launch with a failed check says of it."""
        for launch, record in zip(self.launches, words.reshape(-1, RECORD_WORDS), strict=True):
            if record[1]:
                check = launch.entry.checks[int(record[2])]
                values = tuple(_number(word, dtype) for word, dtype in zip(record[3:], check.dtypes, strict=False))
                return diagnosed(RecordedFault(check.code, check.site, values), self.kernel.built.lowered.function.sites, compute.span)
        return None


def _number(word: Any, dtype: str) -> Any:
    return float(np.int64(word).view(np.float64)) if dtype[0] in "fb" else int(word)
