"""A compute block's planned call on a GPU, and one run of it: it puts tensors on the device, takes memory for results, launches, and waits
for the launches that check something."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import field

from compiler.diagnostics import ZyntaxError
from compiler.launch.cpu import first_fault
from compiler.launch.cuda.direct import DirectCall
from compiler.launch.cuda.gather import gathered
from compiler.launch.cuda.loaded import RECORD_WORDS, LoadedKernel
from compiler.launch.cuda.memory import CallMemory
from compiler.launch.updates import require_updatable
from compiler.lowering.result_plan import ResultPlan
from compiler.typed_ast import nodes
from runtime.cuda.array import DeviceArray
from runtime.cuda.copies import copy, download, fill, restore, saved, to_device, to_host
from runtime.cuda.memory import DeviceBuffer
from runtime.cuda.remote import OnGpu, elements_on
from runtime.cuda.stream import Stream, StreamEvent
from runtime.records import define
from runtime.tensor import Tensor


@define(eq=False)
class PlannedCall(DirectCall):
    """A block's call. `tensors` are its inputs."""

    loaded: LoadedKernel = field(kw_only=True)
    compute: nodes.Compute = field(kw_only=True)
    tensors: tuple[str, ...] = field(kw_only=True)
    updated: frozenset[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        slots, plans = self.bound.slots, self.plans
        self.updated = frozenset(plan.input for plan in plans if plan.input is not None)
        made = [number for number, plan in enumerate(plans) if plan.input is None]
        prepared = any(plan.copy_of is not None or plan.zeroed for plan in plans)
        self.unwatched = not (self.loaded.recording or slots.packed or prepared) and [index for _, index in slots.results] == made
        self.direct = self.unwatched and not self.updated

    def __call__(self, given: Mapping[str, Any], values: Mapping[str, Any], stream: Stream) -> Any:
        """The block's value. `given` are the values with tensors as the plan wants them, `values` those of the program, which are
        updated."""
        if self.direct and (arguments := self._addressed(given, stream)) is not None:
            return self.value(self.at_once(arguments, stream), stream)
        run = GpuRun(self, given, values, stream)
        loaded, arguments = self.loaded, run.arguments()
        if not loaded.recording:
            self.launch(arguments, self._no_records, stream)
            return run.value()
        record = loaded.record(stream)
        places = tuple(range(record.pointer, record.pointer + 8 * RECORD_WORDS * len(loaded.launches), 8 * RECORD_WORDS))
        if loaded.checked:
            self._launch_checked(arguments, places, run, record)
        else:
            self.launch(arguments, places, stream)
        loaded.keep(record)
        return run.value()

    def _launch_checked(self, arguments: list[Any], records: tuple[int, ...], run: "GpuRun", record: DeviceBuffer) -> None:
        """All launches; waits for those that check, while others behind them go on. Raises ZyntaxError where a check failed."""
        stream = run.stream
        checking = max((place for place, step in enumerate(self.steps) if self.loaded.launches[step.number].entry.checks), default=-1) + 1
        if stream.recording is None and 0 < checking < len(self.steps):
            self.launch_steps(arguments, records, stream, slice(checking))
            report = run.report(record)
            self.launch_steps(arguments, records, stream, slice(checking, None))
        else:
            self.launch(arguments, records, stream)
            report = run.report(record)
        run.require_no_fault(report)

    def _addressed(self, given: Mapping[str, Any], stream: Stream) -> list[Any] | None:
        """The arguments with the addresses of tensors that all lie on this GPU, else None."""
        gpu, slots, arguments = self.gpu, self.bound.slots, [*self.bound.numbers]
        for place, name in slots.tensors:
            remote = given[name].remote
            if remote.__class__ is not OnGpu or remote.gpu is not gpu:
                return None
            elements = remote.elements
            if elements.stream is not stream:
                elements.used_on(stream)
                stream.follow(elements.stream)
            arguments[place] = elements.pointer
        for place, name in slots.scalars:
            arguments[place] = given[name]
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
        self.memory = {name: self.placed(given[name]) for name in call.tensors}
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
        made, scratch = ([elements.pointer for elements in each] for each in (self.made, self.scratch))
        return self.call.bound.filled(lambda name: memory[name].pointer, self.packed, made, scratch, self.given)

    def report(self, record: DeviceBuffer) -> tuple[Any, StreamEvent]:
        """What the launches so far report of failed checks, and when it is there."""
        words = self.gpu.pinned.empty((RECORD_WORDS * len(self.call.loaded.launches),), np.int64)
        download(words, record, self.stream)
        return words, self.stream.record()

    def require_no_fault(self, report: tuple[Any, StreamEvent]) -> None:
        """Waits for it; where a check failed, what was updated gets its old elements back. Raises ZyntaxError then."""
        call, stream = self.call, self.stream
        words, there = report
        there.synchronize()
        fault = call.loaded.diagnose(words, call.compute)
        if fault is not None:
            for name, before in self.before.items():
                restore(self.memory[name], before, stream)
            kernel = call.loaded.kernel
            raise ZyntaxError(fault if kernel.launches is None else first_fault(kernel.built, self.values, call.compute, fault))

    # ---- what goes in ----

    def placed(self, tensor: Tensor) -> DeviceArray:
        """The tensor's elements on this GPU, ready for work on the stream."""
        remote = tensor.remote
        found = remote.elements if remote.__class__ is OnGpu and remote.gpu is self.gpu else None
        if found is None and isinstance(tensor.remote, OnGpu) and tensor.remote.elements.is_contiguous:
            source = tensor.remote.elements
            self.stream.wait(source.stream)
            found = CallMemory.of(tensor.shape, source.dtype).take(self.gpu, self.stream)
            copy(found, source, self.stream)
        elif found is None:
            host = tensor.contents
            return to_device(host, self.gpu.allocate(host.nbytes, self.stream), self.stream)
        elif found.stream is not self.stream:
            found.used_on(self.stream)
            self.stream.follow(found.stream)
        return found

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
        made = memory.take(self.gpu, self.stream)
        if plan.copy_of is not None:
            copy(made, self.dense(self.memory[plan.copy_of]), self.stream)
        elif plan.zeroed and memory.bytes:
            fill(made, 0, self.stream)
        return made

    def value(self) -> Any:
        """Numbers are fetched; tensors stay; what was updated goes back to the memory it came from, which other tensors may view."""
        call = self.call
        results = [
            elements if plan.input is None else self.updated(self.original(plan.input), elements)
            for plan, elements in zip(call.plans, self.made, strict=True)
        ]
        return call.value(results, self.stream)

    def updated(self, tensor: Tensor, elements: DeviceArray) -> Tensor:
        there = elements_on(tensor, self.gpu)
        if there is None:
            tensor.array[...] = to_host(elements, self.stream)
            return tensor
        if there is not elements:
            restore(there, elements, self.stream)
        there.stream.follow(self.stream)
        tensor.changed_there()
        return tensor
