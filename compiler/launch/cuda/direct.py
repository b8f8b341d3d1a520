"""What a planned call does at each run: it places addresses, takes memory for results and launches. A sequence of launches that comes
back with the same addresses is recorded, and replayed as a graph."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from attrs import field

from compiler.codes.device_faults import DeviceTrouble
from compiler.launch.cuda.maps import LaunchMaps
from compiler.launch.cuda.memory import Memory
from compiler.lowering.result_plan import ResultPlan, grouped, number_of
from runtime import forks
from runtime.cuda.copies import to_host
from runtime.cuda.gpu import Gpu
from runtime.cuda.graph import Graph, Recording
from runtime.cuda.launch import LaunchPlan
from runtime.cuda.remote import OnGpu
from runtime.cuda.stream import Stream
from runtime.records import define, frozen
from runtime.tensor import Tensor

GRAPHS_FROM = 3
"""Launches from which on a sequence is worth recording: a graph costs as much to start as one or two of them."""

GRAPHS_KEPT = 8
"""Recordings of one call, for different addresses: a loop that hands its results back as inputs uses two or three sets."""


@frozen
class Step:
    """One launch of the call: `after` are its arguments behind those that all launches share."""

    plan: LaunchPlan
    number: int
    after: tuple[int, ...]
    maps: LaunchMaps

    def launch(self, stream: Stream, arguments: Sequence[Any], record: int) -> None:
        self.plan.launch(stream, *arguments, *self.after, *self.maps.of(self.plan.device, arguments), record)


@frozen
class Filled:
    """The places among the arguments of what only a run knows: addresses of tensors (`packed`: without gaps), of results and workspaces
    by their numbers, and scalars."""

    tensors: tuple[tuple[int, str], ...]
    packed: tuple[tuple[int, str], ...]
    results: tuple[tuple[int, int], ...]
    workspaces: tuple[tuple[int, int], ...]
    scalars: tuple[tuple[int, str], ...]


@define(eq=False)
class DirectCall:
    """A call for tensors of certain layouts and sizes and certain ints. `arguments` are as the kernels take them, with the numbers that
    are known now; the places in `filled` differ from run to run. `launches`: how many kernels there are."""

    gpu: Gpu
    results: tuple[Memory | None, ...]
    workspaces: tuple[Memory, ...]
    arguments: Sequence[Any]
    filled: Filled
    steps: tuple[Step, ...]
    plans: tuple[ResultPlan, ...]
    launches: int
    _single: Callable[..., None] | None = field(init=False)
    """The launch, where it is but one."""
    _no_records: tuple[int, ...] = field(init=False)
    _graphs: "OrderedDict[tuple[Any, ...], Graph | None]" = field(init=False, factory=OrderedDict)
    _lock: threading.Lock = field(init=False, factory=forks.lock)

    @_single.default
    def _(self) -> Callable[..., None] | None:
        return self.steps[0].launch if len(self.steps) == 1 else None

    @_no_records.default
    def _(self) -> tuple[int, ...]:
        return (0,) * self.launches

    def at_once(self, arguments: list[Any], stream: Stream, named: bool = False) -> Any:
        """Of a direct call whose arguments lack only the addresses of what it makes: takes memory, launches, and gives the results as
        they will be, `named` where they are the caller's; numbers are waited for."""
        gpu, filled = self.gpu, self.filled
        results = []
        for memory, (place, _) in zip(self.results, filled.results, strict=True):
            assert memory is not None
            elements = memory.take(gpu, stream)
            arguments[place] = elements.pointer
            results.append(elements)
        if filled.workspaces:
            scratch = [memory.take(gpu, stream) for memory in self.workspaces]
            for place, index in filled.workspaces:
                arguments[place] = scratch[index].pointer
        if self._single is not None:
            self._single(stream, arguments, 0)
        else:
            self.launch(arguments, self._no_records, stream)
        found = [
            number_of(to_host(elements, stream), plan.dtype) if plan.scalar else Tensor(None, OnGpu(elements, gpu, named))
            for plan, elements in zip(self.plans, results, strict=True)
        ]
        return found[0] if len(found) == 1 and self.plans[0].group == 0 else grouped(self.plans, found)

    def launch(self, arguments: list[Any], records: tuple[int, ...], stream: Stream) -> None:
        """All launches; as a graph when these very arguments came before."""
        if len(self.steps) < GRAPHS_FROM or stream.recording is not None:
            self._launch_each(arguments, records, stream)
            return
        # zeros of both signs are equal, and not the same
        key = (*arguments, *records, *[float(arguments[place]).hex() for place, _ in self.filled.scalars])
        with self._lock:
            known, graph = key in self._graphs, self._graphs.pop(key, None)
            if graph is None and known:
                graph = self._recorded(arguments, records)
            self._graphs[key] = graph
            if len(self._graphs) > GRAPHS_KEPT:
                self._graphs.popitem(last=False)
            if graph is not None:
                graph(stream)
                return
        self._launch_each(arguments, records, stream)

    def launch_each(self, arguments: list[Any], stream: Stream) -> None:
        """All launches of a direct call, whose arguments are complete."""
        self._launch_each(arguments, self._no_records, stream)

    def _launch_each(self, arguments: list[Any], records: tuple[int, ...], stream: Stream, steps: slice = slice(None)) -> None:
        for step in self.steps[steps]:
            step.launch(stream, arguments, records[step.number])

    def _recorded(self, arguments: list[Any], records: tuple[int, ...]) -> Graph:
        # on a stream of its own: what others launch meanwhile must not get in, and the legacy stream can't be recorded
        stream = self.gpu.new_stream()
        with Recording(stream) as recording:
            self._launch_each(arguments, records, stream)
        return recording.graph()


@frozen
class Repeat:
    """A call to be made again. `arguments` lack the addresses of arrays (`arrays`: their places, and whose they are among the values
    of the call), and floats."""

    call: DirectCall
    stream: Stream
    arguments: Sequence[Any]
    arrays: tuple[tuple[int, int], ...]
    floats: tuple[tuple[int, int, type], ...]

    def __call__(self, found: Sequence[Any]) -> Any:
        if self.stream.recording is not None:
            return None
        arguments = [*self.arguments]
        for place, number in self.arrays:
            arguments[place] = found[number]
        for place, number, kind in self.floats:
            arguments[place] = kind(found[number])
        try:
            return self.call.at_once(arguments, self.stream, named=True)
        except DeviceTrouble:
            return None
