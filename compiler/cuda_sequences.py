"""Calls of several blocks that come back: the launches of all of them in their order, with what one hands to the next taken from the
pool as before. A sequence that comes again with the same addresses is recorded as one CUDA graph and replayed whole."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from attrs import Factory, define, frozen

from compiler.cuda_direct import GRAPHS_KEPT, DirectCall
from compiler.device_faults import DeviceTrouble
from runtime.cuda.array import DeviceArray
from runtime.cuda.graph import Graph, Recording
from runtime.cuda.remote import OnGpu
from runtime.cuda.stream import Stream
from runtime.tensor import Tensor

GRAPHS_FROM = 2
"""Calls from which on a sequence is worth recording."""


@frozen
class Part:
    """One block's call. `arguments` lack addresses. `arrays`: places of those of the function's own arrays, and whose they are among its
    values; `made`: places of what earlier parts made, by the part's number and which of its results; `done`: parts whose results nobody
    reads any more."""

    call: DirectCall
    arguments: Sequence[Any]
    arrays: tuple[tuple[int, int], ...]
    made: tuple[tuple[int, int, int], ...]
    done: tuple[int, ...]


@define(eq=False)
class CallSequence:
    """The calls of all blocks of a function. `last`: its value, as the part that makes it and which of its results."""

    parts: tuple[Part, ...]
    last: tuple[int, int]
    stream: Stream
    _graphs: "OrderedDict[tuple[Any, ...], Graph | None]" = Factory(OrderedDict)
    _lock: threading.Lock = Factory(threading.Lock)

    def __call__(self, found: Sequence[Any]) -> Any:
        """The value for arrays at these addresses; None where it has to be made as the first time."""
        stream = self.stream
        if stream.recording is not None:
            return None
        try:
            placed, value = self._placed(found)
            graph = self._graph(placed)
            if graph is not None:
                graph(stream)
            else:
                self._launch(placed, stream)
        except DeviceTrouble:
            return None
        gpu = self.parts[self.last[0]].call.gpu
        return Tensor(None, OnGpu(value, gpu, True))

    def _placed(self, found: Sequence[Any]) -> tuple[list[list[Any]], DeviceArray]:
        """The arguments of each part, and where the value will be. Memory is taken and left in the order of the launches, so what is left
        early serves later parts."""
        stream = self.stream
        placed: list[list[Any]] = []
        results: list[list[DeviceArray]] = []
        for part in self.parts:
            call, arguments = part.call, [*part.arguments]
            gpu, filled = call.gpu, call.filled
            for place, number in part.arrays:
                arguments[place] = found[number]
            for place, number, index in part.made:
                arguments[place] = results[number][index].pointer
            made = [memory.take(gpu, stream) for memory in call.results if memory is not None]
            for place, index in filled.results:
                arguments[place] = made[index].pointer
            scratch = [one.take(gpu, stream) for one in call.workspaces]
            for place, index in filled.workspaces:
                arguments[place] = scratch[index].pointer
            placed.append(arguments)
            results.append(made)
            for number in part.done:
                results[number] = []
        number, index = self.last
        return placed, results[number][index]

    def _graph(self, placed: list[list[Any]]) -> Graph | None:
        if len(self.parts) < GRAPHS_FROM:
            return None
        key = tuple([number for arguments in placed for number in arguments])
        with self._lock:
            known, graph = key in self._graphs, self._graphs.pop(key, None)
            if graph is None and known:
                # on a stream of its own: what others launch meanwhile must not get in, and the legacy stream can't be recorded
                stream = self.parts[0].call.gpu.new_stream()
                with Recording(stream) as recording:
                    self._launch(placed, stream)
                graph = recording.graph()
            self._graphs[key] = graph
            if len(self._graphs) > GRAPHS_KEPT:
                self._graphs.popitem(last=False)
        return graph

    def _launch(self, placed: list[list[Any]], stream: Stream) -> None:
        for part, arguments in zip(self.parts, placed, strict=True):
            part.call.launch_each(arguments, stream)
