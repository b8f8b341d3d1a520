"""What a planned call does at each run: it puts addresses among its arguments, takes memory for results and launches."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import field

from compiler.diagnostics import Diagnostic
from compiler.launch.cuda.graphs import RecordedLaunches
from compiler.launch.cuda.maps import LaunchMaps
from compiler.launch.cuda.memory import CallMemory
from compiler.launch.slots import BoundArguments
from compiler.launch.watch import CallWatch
from compiler.lowering.result_plan import ResultPlan, grouped, number_of
from runtime.cuda.array import DeviceArray
from runtime.cuda.copies import to_host
from runtime.cuda.gpu import Gpu
from runtime.cuda.launch import CheckedLaunch
from runtime.cuda.remote import OnGpu
from runtime.cuda.stream import Stream
from runtime.records import define, frozen
from runtime.tensor import Tensor

GRAPHS_FROM = 3
"""Launches from which on a sequence is worth recording: a graph costs as much to start as one or two of them."""


@frozen(eq=False)
class LaterFault:
    """How a call tells later that a check failed. `error` makes the error of what a launch reported, and keeps the call's arguments until
    then, `held` bytes on the device."""

    error: Callable[[Diagnostic], BaseException]
    held: int


@frozen
class CallStep:
    """One launch of a call: `after` are its arguments behind those that all launches share."""

    plan: CheckedLaunch
    number: int
    after: tuple[int, ...]
    maps: LaunchMaps

    def launch(self, stream: Stream, arguments: Sequence[Any], record: int) -> None:
        self.plan.launch(stream, *arguments, *self.after, *self.maps.of(self.plan.device, arguments), record)


@define(eq=False)
class DirectCall:
    """A call for tensors of certain layouts and sizes and certain ints. `results`: memory of each result, None for an input that is
    updated. `launches`: how many kernels there are."""

    gpu: Gpu
    results: tuple[CallMemory | None, ...]
    workspaces: tuple[CallMemory, ...]
    bound: BoundArguments
    steps: tuple[CallStep, ...]
    plans: tuple[ResultPlan, ...]
    launches: int
    unwatched: bool = field(default=True, init=False)
    """Whether its launches report nothing besides."""
    unprepared: bool = field(default=True, init=False)
    """Whether it makes its results as they are, of tensors as they lie."""
    direct: bool = field(default=True, init=False)
    """Whether it updates nothing besides."""
    lasting: bool = field(default=True, init=False)
    """Whether other processes would plan it the same."""
    _single: Callable[..., None] | None = field(init=False)
    """The launch, where it is but one."""
    _no_records: tuple[int, ...] = field(init=False)
    _recorded: RecordedLaunches = field(init=False)

    @_single.default
    def _(self) -> Callable[..., None] | None:
        return self.steps[0].launch if len(self.steps) == 1 else None

    @_no_records.default
    def _(self) -> tuple[int, ...]:
        return (0,) * self.launches

    @_recorded.default
    def _(self) -> RecordedLaunches:
        return RecordedLaunches(self.gpu)

    @property
    def comes_back(self) -> bool:
        """Whether a call like it can be made with other addresses and nothing decided anew."""
        return True

    def taken(self, arguments: list[Any], stream: Stream) -> tuple[list[DeviceArray | None], list[DeviceArray]]:
        """Takes memory, whose addresses the arguments lack: the results as they will be, None for inputs that are updated, and what must be
        kept until all is launched."""
        gpu, slots, memories = self.gpu, self.bound.slots, self.results
        results: list[DeviceArray | None] = [None] * len(memories)
        for position, index in slots.results:
            memory = memories[index]
            assert memory is not None
            results[index] = elements = memory.take(gpu, stream)
            arguments[position] = elements.pointer
        scratch = [memory.take(gpu, stream) for memory in self.workspaces]
        for position, index in slots.workspaces:
            arguments[position] = scratch[index].pointer
        return results, scratch

    def at_once(self, arguments: list[Any], stream: Stream) -> list[DeviceArray | None]:
        """Takes memory and launches."""
        results, scratch = self.taken(arguments, stream)
        if self._single is not None:
            self._single(stream, arguments, 0)
        else:
            self.launch(arguments, self._no_records, stream)
        del scratch
        return results

    def again(self, arguments: list[Any], stream: Stream, later: LaterFault | None) -> list[DeviceArray | None] | None:
        """The same for a call that comes back, and that need not wait where a fault may be told later; None where a check failed, which a
        call from the beginning tells."""
        return self.at_once(arguments, stream)

    def value(self, results: Sequence[Any], stream: Stream, named: bool = False) -> Any:
        """The block's value from elements on the GPU and tensors that were updated. Tensors are `named` where they are the caller's;
        numbers are waited for."""
        values = [
            result
            if result.__class__ is Tensor
            else number_of(to_host(result, stream), plan.dtype)
            if plan.scalar
            else Tensor(None, OnGpu(result, self.gpu, named))
            for plan, result in zip(self.plans, results, strict=True)
        ]
        return values[0] if len(values) == 1 and self.plans[0].group == 0 else grouped(self.plans, values)

    def launch(self, arguments: list[Any], records: tuple[int, ...], stream: Stream) -> None:
        """All launches; as a graph when these very arguments came before."""
        if len(self.steps) < GRAPHS_FROM or stream.recording is not None:
            self.launch_steps(arguments, records, stream)
            return
        # zeros of both signs are equal, and not the same
        key = (*arguments, *records, *[float(arguments[position]).hex() for position, _ in self.bound.slots.scalars])
        self._recorded.launch(key, stream, lambda stream: self.launch_steps(arguments, records, stream))

    def launch_each(self, arguments: list[Any], stream: Stream) -> None:
        """All launches, where none reports anything."""
        self.launch_steps(arguments, self._no_records, stream)

    def launch_steps(self, arguments: list[Any], records: tuple[int, ...], stream: Stream, steps: slice = slice(None)) -> None:
        for step in self.steps[steps]:
            step.launch(stream, arguments, records[step.number])


@frozen
class BlockCall:
    """A call that went well: the values as it took them, its stream, and the block's value."""

    call: DirectCall
    given: Mapping[str, Any]
    stream: Stream
    value: Any

    @property
    def results(self) -> tuple[Any, ...]:
        """The tensors that it made."""
        return self.value if len(self.call.results) > 1 else (self.value,)


GPU_CALLS: CallWatch[BlockCall | None] = CallWatch()
"""None for a call that the CPU made."""
