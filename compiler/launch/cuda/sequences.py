"""Calls of several blocks that come back: the launches of all of them in their order. What one hands to the next lies in one block of
memory, at places that were laid out once. A sequence that comes again with the same addresses is recorded as one CUDA graph and replayed
whole."""

from collections.abc import Container, Sequence
from typing import Any

from attrs import field

from compiler.codes.device_faults import DeviceTrouble
from compiler.launch.cuda.direct import DirectCall
from compiler.launch.cuda.graphs import RecordedLaunches
from compiler.launch.cuda.memory import CallMemory, LastingZeros
from runtime.cuda.memory import DeviceBuffer
from runtime.cuda.remote import OnGpu
from runtime.cuda.stream import Stream
from runtime.records import define, frozen
from runtime.tensor import Tensor

GRAPHS_FROM = 2
"""Calls from which on a sequence is worth recording."""

ALIGN = 512
"""Bytes that everything in the block begins at multiples of, as the driver's own memory does."""


@frozen
class SequencePart:
    """One block's call. `arguments` lack addresses. `arrays`: places of those of the function's own arrays, and whose they are among its
    values; `made`: places of what earlier parts made, by the part's number and which of its results."""

    call: DirectCall
    arguments: Sequence[Any]
    arrays: tuple[tuple[int, int], ...]
    made: tuple[tuple[int, int, int], ...]


@frozen
class SequenceLayout:
    """Where results and workspaces of each part lie in the block, and how many bytes it has; None for the function's values and for zeros,
    which lie elsewhere."""

    results: tuple[tuple[int | None, ...], ...]
    workspaces: tuple[tuple[int | None, ...], ...]
    bytes: int


@define(eq=False)
class CallSequence:
    """The calls of all blocks of a function. `values`: what the function gives, each as the part that makes it and which of its results;
    `several`: as a tuple."""

    parts: tuple[SequencePart, ...]
    values: tuple[tuple[int, int], ...]
    several: bool
    stream: Stream
    _layout: SequenceLayout = field(init=False)
    times: int = field(default=0, init=False)
    """How often it came again."""
    _recorded: RecordedLaunches = field(init=False)

    @_layout.default
    def _(self) -> SequenceLayout:
        return laid_out(self.parts, self.values)

    @_recorded.default
    def _(self) -> RecordedLaunches:
        return RecordedLaunches(self.parts[0].call.gpu)

    def __call__(self, addresses: Sequence[Any], values: Sequence[Any]) -> Any:
        """The value for arrays at these addresses; None where it has to be made as the first time."""
        stream, gpu = self.stream, self.parts[0].call.gpu
        if stream.recording is not None:
            return None
        try:
            block, zeros = gpu.pool.allocate(self.bytes, stream), self.zeros()
            results = [self.memory(*value).take(gpu, stream) for value in self.values]
            places = (block.pointer, zeros.pointer if zeros else 0, *[result.pointer for result in results])

            def launch(stream: Stream) -> None:
                for part, arguments in zip(self.parts, self.placed(addresses, *places), strict=True):
                    part.call.launch_each(arguments, stream)

            if len(self.parts) < GRAPHS_FROM:
                launch(stream)
            else:
                self._recorded.launch((*addresses, *places), stream, launch)
        except DeviceTrouble:
            return None
        tensors = [Tensor(None, OnGpu(result, gpu, True)) for result in results]
        return tuple(tensors) if self.several else tensors[0]

    @property
    def bytes(self) -> int:
        """Of the block for all that isn't the function's value."""
        return self._layout.bytes

    def memory(self, part: int, index: int) -> CallMemory:
        """Of a result."""
        memory = self.parts[part].call.results[index]
        assert memory is not None
        return memory

    def zeros(self) -> DeviceBuffer | None:
        """The zeros that the parts want, one after the other."""
        wanted = [memory.bytes for part in self.parts for memory in part.call.workspaces if isinstance(memory, LastingZeros)]
        return self.parts[0].call.gpu.zeros(max(wanted), self.stream) if wanted else None

    def placed(self, addresses: Sequence[Any], block: Any, zeros: int, *values: Any) -> list[list[Any]]:
        """The arguments of each part. Addresses are numbers, or stand for some."""
        placed: list[list[Any]] = []
        results: list[list[Any]] = []
        given = dict(zip(self.values, values, strict=True))
        for number, part in enumerate(self.parts):
            offsets, scratch = self._layout.results[number], self._layout.workspaces[number]
            arguments, filled = [*part.arguments], part.call.bound.slots
            results.append([given[number, index] if offset is None else block + offset for index, offset in enumerate(offsets)])
            for position, number in part.arrays:
                arguments[position] = addresses[number]
            for position, number, index in part.made:
                arguments[position] = results[number][index]
            for position, index in filled.results:
                arguments[position] = results[-1][index]
            for position, index in filled.workspaces:
                offset = scratch[index]
                arguments[position] = zeros if offset is None else block + offset
            placed.append(arguments)
        return placed


def laid_out(parts: Sequence[SequencePart], values: Container[tuple[int, int]]) -> SequenceLayout:
    """Everything but the function's values at the first place that is free from the part that writes it to the last one that reads it."""
    until = {(number, index): number for number, part in enumerate(parts) for index in range(len(part.call.results))}
    for number, part in enumerate(parts):
        until.update({(maker, index): number for _, maker, index in part.made})
    taken: list[tuple[int, int, int]] = []
    most = 0

    def place(memory: CallMemory | None, number: int, end: int) -> int:
        nonlocal most
        size = -(-(memory.bytes if memory is not None else 0) // ALIGN) * ALIGN
        taken[:] = sorted(stretch for stretch in taken if stretch[2] >= number)
        offset = 0
        for begin, stop, _ in taken:
            if begin - offset >= size:
                break
            offset = max(offset, stop)
        taken.append((offset, offset + size, end))
        most = max(most, offset + size)
        return offset

    results, workspaces = [], []
    for number, part in enumerate(parts):
        new_results = [(number, index) for index in range(len(part.call.results))]
        own = part.call.results
        results.append(tuple(None if key in values else place(own[key[1]], number, until[key]) for key in new_results))
        scratch = part.call.workspaces
        workspaces.append(tuple(None if isinstance(memory, LastingZeros) else place(memory, number, number) for memory in scratch))
    return SequenceLayout(tuple(results), tuple(workspaces), most)
