"""Calls of several blocks that come back: the launches of all of them in their order. What one hands to the next lies in one block of
memory, at places that were laid out once. A sequence that comes again with the same addresses is recorded as one CUDA graph and replayed
whole."""

import threading
from collections import OrderedDict
from collections.abc import Container, Sequence
from typing import Any

from attrs import Factory, field

from compiler.codes.device_faults import DeviceTrouble
from compiler.launch.cuda.direct import GRAPHS_KEPT, DirectCall
from compiler.launch.cuda.memory import Memory, Zeros
from runtime import forks
from runtime.cuda.array import DeviceArray
from runtime.cuda.graph import Graph, Recording
from runtime.cuda.remote import OnGpu
from runtime.cuda.stream import Stream
from runtime.records import define, frozen
from runtime.tensor import Tensor

GRAPHS_FROM = 2
"""Calls from which on a sequence is worth recording."""

ALIGN = 512
"""Bytes that everything in the block begins at multiples of, as the driver's own memory does."""


@frozen
class Part:
    """One block's call. `arguments` lack addresses. `arrays`: places of those of the function's own arrays, and whose they are among its
    values; `made`: places of what earlier parts made, by the part's number and which of its results."""

    call: DirectCall
    arguments: Sequence[Any]
    arrays: tuple[tuple[int, int], ...]
    made: tuple[tuple[int, int, int], ...]


@frozen
class Layout:
    """Where results and workspaces of each part lie in the block, and how many bytes it has; None for the function's values and for zeros,
    which lie elsewhere."""

    results: tuple[tuple[int | None, ...], ...]
    workspaces: tuple[tuple[int | None, ...], ...]
    bytes: int


@define(eq=False)
class CallSequence:
    """The calls of all blocks of a function. `values`: what the function gives, each as the part that makes it and which of its results;
    `several`: as a tuple."""

    parts: tuple[Part, ...]
    values: tuple[tuple[int, int], ...]
    several: bool
    stream: Stream
    _layout: Layout = field(init=False)
    _zeros: int = field(init=False)
    """Bytes of zeros that the parts want, one after the other."""
    _graphs: "OrderedDict[tuple[Any, ...], Graph | None]" = Factory(OrderedDict)
    _lock: threading.Lock = Factory(forks.lock)

    @_layout.default
    def _(self) -> Layout:
        return laid_out(self.parts, self.values)

    @_zeros.default
    def _(self) -> int:
        return max((memory.bytes for part in self.parts for memory in part.call.workspaces if isinstance(memory, Zeros)), default=0)

    def __call__(self, found: Sequence[Any]) -> Any:
        """The value for arrays at these addresses; None where it has to be made as the first time."""
        stream, gpu = self.stream, self.parts[0].call.gpu
        if stream.recording is not None:
            return None
        try:
            block = gpu.pool.allocate(self._layout.bytes, stream)
            zeros = gpu.zeros(self._zeros, stream).pointer if self._zeros else 0
            values = [self._taken(part, index) for part, index in self.values]
            places = (block.pointer, zeros, *[value.pointer for value in values])
            graph = self._graph(found, places)
            if graph is not None:
                graph(stream)
            else:
                self._launch(self._placed(found, *places), stream)
        except DeviceTrouble:
            return None
        tensors = [Tensor(None, OnGpu(value, gpu, True)) for value in values]
        return tuple(tensors) if self.several else tensors[0]

    def _taken(self, part: int, index: int) -> DeviceArray:
        call = self.parts[part].call
        memory = call.results[index]
        assert memory is not None
        return memory.take(call.gpu, self.stream)

    def _placed(self, found: Sequence[Any], block: int, zeros: int, *values: int) -> list[list[Any]]:
        """The arguments of each part."""
        placed: list[list[Any]] = []
        results: list[list[int]] = []
        given = dict(zip(self.values, values, strict=True))
        for number, part in enumerate(self.parts):
            made, scratch = self._layout.results[number], self._layout.workspaces[number]
            arguments, filled = [*part.arguments], part.call.filled
            results.append([given[number, index] if offset is None else block + offset for index, offset in enumerate(made)])
            for place, number in part.arrays:
                arguments[place] = found[number]
            for place, number, index in part.made:
                arguments[place] = results[number][index]
            for place, index in filled.results:
                arguments[place] = results[-1][index]
            for place, index in filled.workspaces:
                offset = scratch[index]
                arguments[place] = zeros if offset is None else block + offset
            placed.append(arguments)
        return placed

    def _graph(self, found: Sequence[Any], places: tuple[int, ...]) -> Graph | None:
        if len(self.parts) < GRAPHS_FROM:
            return None
        key = (*found, *places)
        with self._lock:
            known, graph = key in self._graphs, self._graphs.pop(key, None)
            if graph is None and known:
                # on a stream of its own: what others launch meanwhile must not get in, and the legacy stream can't be recorded
                stream = self.parts[0].call.gpu.new_stream()
                with Recording(stream) as recording:
                    self._launch(self._placed(found, *places), stream)
                graph = recording.graph()
            self._graphs[key] = graph
            if len(self._graphs) > GRAPHS_KEPT:
                self._graphs.popitem(last=False)
        return graph

    def _launch(self, placed: list[list[Any]], stream: Stream) -> None:
        for part, arguments in zip(self.parts, placed, strict=True):
            part.call.launch_each(arguments, stream)


def laid_out(parts: Sequence[Part], values: Container[tuple[int, int]]) -> Layout:
    """Everything but the function's values at the first place that is free from the part that writes it to the last one that reads it."""
    until = {(number, index): number for number, part in enumerate(parts) for index in range(len(part.call.results))}
    for number, part in enumerate(parts):
        until.update({(maker, index): number for _, maker, index in part.made})
    taken: list[tuple[int, int, int]] = []
    most = 0

    def place(memory: Memory | None, number: int, end: int) -> int:
        nonlocal most
        size = -(-(memory.bytes if memory is not None else 0) // ALIGN) * ALIGN
        taken[:] = sorted(one for one in taken if one[2] >= number)
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
        made = [(number, index) for index in range(len(part.call.results))]
        results.append(tuple(None if one in values else place(part.call.results[one[1]], number, until[one]) for one in made))
        scratch = part.call.workspaces
        workspaces.append(tuple(None if isinstance(memory, Zeros) else place(memory, number, number) for memory in scratch))
    return Layout(tuple(results), tuple(workspaces), most)
