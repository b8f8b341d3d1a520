"""A compute block's planned call on a GPU, and one run of it: it puts tensors on the device, takes memory for results, launches, and waits
for the launches that check something."""

from collections.abc import Mapping
from typing import Any

from compiler.diagnostics import ZyntaxError
from compiler.launch.cpu import first_fault
from compiler.launch.cuda.direct import DirectCall, LaterFault
from compiler.launch.cuda.gather import gathered
from compiler.launch.cuda.loaded import LoadedKernel
from compiler.launch.cuda.memory import CallMemory
from compiler.launch.cuda.unread import UnreadCall, checks_of
from compiler.launch.updates import require_updatable
from compiler.lowering.result_plan import ResultPlan
from compiler.typed_ast import nodes
from runtime.cuda.array import DeviceArray
from runtime.cuda.copies import copy, fill, restore, saved, to_host
from runtime.cuda.remote import OnGpu, elements_on, kept_copy, sent
from runtime.cuda.stream import PER_THREAD, Stream
from runtime.records import define, field
from runtime.tensor import Tensor


@define(eq=False)
class PlannedCall(DirectCall):
    """A block's call. `tensors` are its inputs."""

    loaded: LoadedKernel = field(kw_only=True)
    compute: nodes.Compute = field(kw_only=True)
    tensors: tuple[str, ...] = field(kw_only=True)
    updated: frozenset[str] = field(init=False)
    as_they_lie: bool = field(init=False)
    """Whether tensors are taken as they lie, and results are new memory."""
    zeroed: tuple[int, ...] = field(init=False)
    """Results that begin at 0."""

    def __attrs_post_init__(self) -> None:
        slots, plans = self.bound.slots, self.plans
        self.updated = frozenset(plan.input for plan in plans if plan.input is not None)
        new_results = [number for number, plan in enumerate(plans) if plan.input is None]
        copied = any(plan.copy_of is not None for plan in plans)
        self.as_they_lie = not (slots.packed or copied) and [index for _, index in slots.results] == new_results
        self.zeroed = tuple(number for number in new_results if plans[number].zeroed)
        self.unprepared = self.as_they_lie and not self.zeroed
        self.unwatched = self.unprepared and not self.loaded.recording
        self.direct = self.unwatched and not self.updated

    def __call__(self, given: Mapping[str, Any], values: Mapping[str, Any], stream: Stream) -> Any:
        """The block's value. `given` are the values with tensors as the plan wants them, `values` those of the program, which are
        updated."""
        if self.direct and (arguments := self._addressed(given, stream)) is not None:
            return self.value(self.at_once(arguments, stream), stream)
        run = GpuRun(self, given, values, stream)
        words = self.launch_reporting(run.arguments(), stream)
        if words is not None:
            run.tell(words)
        return run.value()

    @property
    def comes_back(self) -> bool:
        return self.as_they_lie and not (self.loaded.checked and self.updated)

    def again(self, arguments: list[Any], stream: Stream, later: LaterFault | None) -> list[DeviceArray | None] | None:
        results, scratch = self.taken(arguments, stream)
        for number in self.zeroed:
            begin_at_zero(results[number], stream)
        if later is not None and self.loaded.checked and stream.number != PER_THREAD and not any(plan.scalar for plan in self.plans):

            def error(words: Any) -> BaseException:
                return later.error(self.loaded.diagnose(words, self.compute))

            def launch(addresses: tuple[int, ...]) -> None:
                self.launch_steps(arguments, addresses, stream)

            checks_of(self.gpu, stream).launch(UnreadCall(error, later.held), self.launches, results, launch)
            return results
        words = self.launch_reporting(arguments, stream)
        del scratch
        return results if words is None else None

    def launch_reporting(self, arguments: list[Any], stream: Stream) -> Any:
        """All launches; waits for those that check something, while others behind them go on. Gives what the launches report where a check
        failed, else None."""
        loaded = self.loaded
        if not loaded.recording:
            self.launch(arguments, self._no_records, stream)
            return None
        records = loaded.records(stream)
        addresses = records.addresses
        if loaded.checked:
            steps = self.steps
            checking = max((number for number, step in enumerate(steps) if loaded.launches[step.number].entry.checks), default=-1) + 1
            apart = stream.recording is None and 0 < checking < len(steps)
            if apart:
                self.launch_steps(arguments, addresses, stream, slice(checking))
            else:
                self.launch(arguments, addresses, stream)
            there = records.fetch(stream)
            if apart:
                self.launch_steps(arguments, addresses, stream, slice(checking, None))
            there.synchronize()
            if records.words[:, 1].any():
                return records.words
        else:
            self.launch(arguments, addresses, stream)
        loaded.keep(records)
        return None

    def _addressed(self, given: Mapping[str, Any], stream: Stream) -> list[Any] | None:
        """The arguments with the addresses of tensors that all lie on this GPU, else None."""
        gpu, slots, arguments = self.gpu, self.bound.slots, [*self.bound.numbers]
        for position, name in slots.tensors:
            remote = given[name].remote
            if remote.__class__ is not OnGpu or remote.gpu is not gpu:
                return None
            elements = remote.elements
            if elements.stream is not stream:
                elements.used_on(stream)
                stream.follow(elements.stream)
            arguments[position] = elements.pointer
        for position, name in slots.scalars:
            arguments[position] = given[name]
        return arguments


class GpuRun:
    """One run of a planned call: where its tensors lie, and what it made."""

    __slots__ = ("before", "call", "given", "gpu", "kept", "made", "memory", "scratch", "stream", "values")

    def __init__(self, call: "PlannedCall", given: Mapping[str, Any], values: Mapping[str, Any], stream: Stream) -> None:
        self.call, self.given, self.values, self.stream = call, given, values, stream
        self.gpu = gpu = call.loaded.gpu
        self.kept: list[DeviceArray] = []
        self.before: dict[str, DeviceArray] = {}
        if call.updated:
            require_updatable(sorted(call.updated), {name: self.original(name) for name in call.tensors}, call.compute)
        self.memory = {name: self.placed(given[name], name in call.updated) for name in call.tensors}
        if call.updated:
            for name in call.updated:
                # work elsewhere that still reads it
                stream.follow_all(self.memory[name].owner.users)
            if call.loaded.checked:
                self.before = {name: self.saved(name) for name in call.updated if elements_on(given[name], gpu) is not None}
        self.made = [self.taken(plan, memory) for plan, memory in zip(call.plans, call.results, strict=True)]
        self.scratch = [memory.take(gpu, stream) for memory in call.workspaces]

    def arguments(self) -> list[Any]:
        """As the kernel takes them."""
        memory = self.memory
        results, scratch = ([elements.pointer for elements in each] for each in (self.made, self.scratch))
        return self.call.bound.filled(lambda name: memory[name].pointer, self.packed, results, scratch, self.given)

    def tell(self, words: Any) -> None:
        """What was updated gets its old elements back. Raises ZyntaxError for the check that failed, as the launches report it."""
        call, stream = self.call, self.stream
        for name, before in self.before.items():
            restore(self.memory[name], before, stream)
        fault, kernel = call.loaded.diagnose(words, call.compute), call.loaded.kernel
        raise ZyntaxError(fault if kernel.launches is None else first_fault(kernel.built, self.values, call.compute, fault))

    # ---- what goes in ----

    def placed(self, tensor: Tensor, updated: bool) -> DeviceArray:
        """The tensor's elements on this GPU, ready for work on the stream."""
        remote = tensor.remote
        if updated and tensor.is_unmade:
            tensor.make_there(lambda whole: sent(whole, self.gpu, stream=self.stream))
            remote = tensor.remote
        elements_ = remote.elements if remote.__class__ is OnGpu and remote.gpu is self.gpu else None
        if elements_ is None and isinstance(tensor.remote, OnGpu) and tensor.remote.elements.is_contiguous:
            source = tensor.remote.elements
            self.stream.wait(source.stream)
            elements_ = CallMemory.of(tensor.shape, source.dtype).take(self.gpu, self.stream)
            copy(elements_, source, self.stream)
        elif elements_ is None:
            if updated or tensor.remote is not None:
                return sent(tensor, self.gpu, stream=self.stream).elements
            return kept_copy(tensor, self.gpu, self.stream).elements
        elif elements_.stream is not self.stream:
            elements_.used_on(self.stream)
            self.stream.follow(elements_.stream)
        return elements_

    def packed(self, name: str) -> int:
        """The address of the tensor's elements in C order without gaps."""
        elements = self.dense(self.memory[name])
        self.kept.append(elements)
        return elements.pointer

    def dense(self, elements: DeviceArray) -> DeviceArray:
        """The elements in C order without gaps: as they lie, or a copy made on the device."""
        if elements.is_contiguous:
            return elements
        return gathered(elements, self.gpu, self.stream)

    def original(self, name: str) -> Tensor:
        """The program's own tensor, where the call works with one without gaps."""
        value = self.values[name]
        return value if isinstance(value, Tensor) else self.given[name]

    def saved(self, name: str) -> DeviceArray:
        """A copy of a tensor's elements, laid out like them."""
        elements = self.memory[name]
        return saved(elements, self.gpu.allocate(elements.span[1] * elements.itemsize, self.stream), self.stream)

    # ---- what comes out ----

    def taken(self, plan: ResultPlan, memory: CallMemory | None) -> DeviceArray:
        if plan.input is not None:
            return self.memory[plan.input]
        assert memory is not None
        elements = memory.take(self.gpu, self.stream)
        if plan.copy_of is not None:
            copy(elements, self.dense(self.memory[plan.copy_of]), self.stream)
        elif plan.zeroed:
            begin_at_zero(elements, self.stream)
        return elements

    def value(self) -> Any:
        """Numbers are fetched; tensors stay; what was updated goes back to the memory it came from where others may view that."""
        call = self.call
        results = [
            elements if plan.input is None else self.updated(self.original(plan.input), elements)
            for plan, elements in zip(call.plans, self.made, strict=True)
        ]
        return call.value(results, self.stream)

    def updated(self, tensor: Tensor, elements: DeviceArray) -> Tensor:
        there = elements_on(tensor, self.gpu)
        if there is None:
            if tensor.is_alone:
                tensor.move(OnGpu(elements, self.gpu))
            else:
                tensor.array[...] = to_host(elements, self.stream)
            return tensor
        if there is not elements:
            restore(there, elements, self.stream)
        there.stream.follow(self.stream)
        tensor.changed_there()
        return tensor


def begin_at_zero(elements: DeviceArray | None, stream: Stream) -> None:
    if elements is not None and elements.size:
        fill(elements, 0, stream)
