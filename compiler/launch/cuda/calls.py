"""A compute block's call on a GPU, planned once for the layouts and sizes of what it is given: grids, shapes and all numbers that
follow from them. Run again, it only places tensors, takes memory for results and launches; a sequence of launches that comes back with
the same addresses is recorded, and replayed as a graph."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from attrs import Factory, evolve, field, fields

from compiler.backends.nvptx.target import target_of_device
from compiler.diagnostics import ZyntaxError
from compiler.hir.module import Form
from compiler.hir.types import Mem
from compiler.launch.cpu import first_fault, grid_asked_for, grid_of
from compiler.launch.cuda.direct import DirectCall, Filled, Step
from compiler.launch.cuda.gather import gathered
from compiler.launch.cuda.loaded import RECORD_WORDS, LoadedKernel
from compiler.launch.cuda.maps import launch_maps
from compiler.launch.cuda.memory import Memory, Zeros
from compiler.launch.emulator import index_values, launch_choices
from compiler.launch.kernels import BuiltKernel
from compiler.launch.updates import require_updatable
from compiler.lowering.kernel import (
    ResultArgument,
    ScalarArgument,
    SizeArgument,
    StrideArgument,
    TensorArgument,
    WorkspaceArgument,
)
from compiler.lowering.launch import LaunchSizes
from compiler.lowering.result_plan import ResultPlan, grouped, number_of
from compiler.schedule.gpu.choose import Choice
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.typed_ast import nodes
from runtime.cuda.array import DeviceArray
from runtime.cuda.copies import copy, download, fill, restore, saved, to_device, to_host
from runtime.cuda.gpu import Gpu
from runtime.cuda.launch import LaunchPlan
from runtime.cuda.memory import DeviceBuffer
from runtime.cuda.remote import OnGpu, elements_on
from runtime.cuda.stream import Stream, StreamEvent
from runtime.records import define
from runtime.tensor import Tensor


@define(eq=False)
class PlannedCall(DirectCall):
    """A block's call. `tensors` are its inputs, `updated` those of them that it updates."""

    loaded: LoadedKernel = field(kw_only=True)
    compute: nodes.Compute = field(kw_only=True)
    tensors: tuple[str, ...] = field(kw_only=True)
    updated: frozenset[str] = field(kw_only=True)
    checked: bool = field(kw_only=True)
    direct: bool = field(kw_only=True)
    """Whether a call only reads and makes tensors: nothing is updated, copied, cleared, watched or fetched."""
    lasting: bool = field(default=True, kw_only=True)
    """Whether other processes would plan it the same."""

    def __call__(self, given: Mapping[str, Any], values: Mapping[str, Any], stream: Stream) -> Any:
        """The block's value. `given` are the values with tensors as the plan wants them, `values` those of the program, which are
        updated."""
        if self.direct and (value := self._directly(given, stream)) is not None:
            return value
        run = Run(self, given, values, stream)
        loaded, arguments = self.loaded, run.arguments()
        if not loaded.recording:
            self.launch(arguments, self._no_records, stream)
            return run.value()
        record = loaded.record(stream)
        places = range(record.pointer, record.pointer + 8 * RECORD_WORDS * len(loaded.launches), 8 * RECORD_WORDS)
        if self.checked:
            self._launch_checked(arguments, tuple(places), run, record)
        else:
            self.launch(arguments, tuple(places), stream)
        loaded.keep(record)
        return run.value()

    def _launch_checked(self, arguments: list[Any], records: tuple[int, ...], run: "Run", record: DeviceBuffer) -> None:
        """All launches; waits for those that check, while others behind them go on. Raises ZyntaxError where a check failed."""
        stream = run.stream
        checking = max((place for place, step in enumerate(self.steps) if self.loaded.launches[step.number].entry.checks), default=-1) + 1
        if stream.recording is None and 0 < checking < len(self.steps):
            self._launch_each(arguments, records, stream, slice(checking))
            told = run.told(record)
            self._launch_each(arguments, records, stream, slice(checking, None))
        else:
            self.launch(arguments, records, stream)
            told = run.told(record)
        run.require_no_fault(told)

    def _directly(self, given: Mapping[str, Any], stream: Stream) -> Any:
        """The value where all tensors lie on this GPU, else None: takes memory, launches, and gives the results as they will be."""
        gpu, filled, arguments = self.loaded.gpu, self.filled, [*self.arguments]
        for place, name in filled.tensors:
            remote = given[name].remote
            if remote.__class__ is not OnGpu or remote.gpu is not gpu:
                return None
            elements = remote.elements
            if elements.stream is not stream:
                elements.used_on(stream)
                stream.follow(elements.stream)
            arguments[place] = elements.pointer
        for place, name in filled.scalars:
            arguments[place] = given[name]
        return self.at_once(arguments, stream)


Settle = Callable[[tuple[Choice, ...], Mapping[str, int], Callable[[Facts], PlannedCall]], PlannedCall]
"""Takes one of several choices for these sizes: gives its call, which the function makes."""


def first(choices: tuple[Choice, ...], sizes: Mapping[str, int], call: Callable[[Facts], PlannedCall]) -> PlannedCall:
    """The call of what is estimated to end first."""
    return call(choices[0].facts)


def planned(
    built: BuiltKernel,
    gpu: Gpu,
    load: Callable[[Facts], LoadedKernel],
    given: Mapping[str, Any],
    compute: nodes.Compute,
    settle: Settle = first,
) -> PlannedCall | None:
    """The call of a kernel for these values, loaded for the facts that hold of them and that `settle` takes; None for sizes that no
    schedule counts on. Raises ZyntaxError when they don't fit the block."""
    tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}
    scalars = {name: value for name, value in given.items() if name not in tensors}
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    sizes = built.sizes(shapes, scalars)
    if built.lowered.function.form is not Form.THREAD and not sizes.ordinary:
        return None
    layout = _Layout(built, gpu, compute, tensors, scalars, shapes, sizes)
    return settle(layout.choices(), layout.known, lambda facts: layout.call(load(facts)))


@define(eq=False)
class _Layout:
    """What a call is given, and the arguments that follow: numbers, and the places of what only a run knows."""

    built: BuiltKernel
    gpu: Gpu
    compute: nodes.Compute
    tensors: Mapping[str, Tensor]
    scalars: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    sizes: LaunchSizes
    arguments: list[Any] = Factory(list)
    filled: dict[str, list[tuple[int, Any]]] = Factory(lambda: {field.name: [] for field in fields(Filled)})
    workspaces: list[Memory] = Factory(list)
    known: dict[str, int] = field(init=False)

    def __attrs_post_init__(self) -> None:
        filled, sizes = self.filled, self.sizes
        for place, argument in enumerate(self.built.lowered.plan.arguments):
            known_now: Any = None
            match argument:
                case TensorArgument(name, packed):
                    filled["packed" if packed else "tensors"].append((place, name))
                case StrideArgument(name, axis):
                    known_now = self.tensors[name].strides[axis]
                case SizeArgument():
                    known_now = sizes.size_arguments[place]
                case ScalarArgument(name):
                    value = self.scalars[name].item() if isinstance(self.scalars[name], np.generic) else self.scalars[name]
                    known_now = value if isinstance(value, int) else None
                    if known_now is None:
                        filled["scalars"].append((place, name))
                case ResultArgument(index):
                    filled["results"].append((place, index))
                case WorkspaceArgument(dtype):
                    filled["workspaces"].append((place, len(self.workspaces)))
                    self.workspaces.append(Memory.of(sizes.workspaces[place], dtype))
            self.arguments.append(known_now)
        self.known = index_values(self.built.nest, self.arguments)

    def choices(self) -> tuple[Choice, ...]:
        """The facts that hold, and what they leave to choose."""
        built, filled, tensors, known = self.built, self.filled, self.tensors, self.known
        foreign = {place for place, name in filled["tensors"] if not _begins_aligned(tensors[name])}
        results = built.lowered.plan.results
        foreign |= {place for place, index in filled["results"] if not _begins_aligned(tensors.get(results[index].input or ""))}
        memories = [(place, one.name) for place, one in enumerate(built.nest.parameters) if isinstance(one.type, Mem)]
        properties = self.gpu.device.properties
        aligned = [name for place, name in memories if place not in foreign]
        return launch_choices(built, known, aligned, target_of_device(properties.capability).machine, properties.multiprocessors)

    def call(self, loaded: LoadedKernel) -> PlannedCall:
        """The call of a kernel that was loaded for one of the choices."""
        built, shapes, sizes, kernel = self.built, self.shapes, self.sizes, loaded.kernel
        arguments, known, workspaces = [*self.arguments], self.known, [*self.workspaces]
        filled = {name: [*places] for name, places in self.filled.items()}
        made = built.lowered.plan.results
        steps = []
        if kernel.launches is None:
            maps = launch_maps(kernel.functions[0], loaded.launches[0].entry, known)
            grid = grid_asked_for(built, known) or grid_of(built, shapes, sizes)
            steps.append(Step(loaded.launches[0].plan(grid), 0, (), maps))
        else:
            arguments, known = kernel.launches.counted(arguments, known)
            for number, mem in enumerate(kernel.launches.workspaces):
                filled["workspaces"].append((len(arguments), len(workspaces)))
                arguments.append(None)
                workspaces.append(_shared(mem, known, Zeros if number in kernel.launches.zeros else Memory))
            plans: dict[tuple[int, int], LaunchPlan] = {}
            for number, after in kernel.launches.steps(known):
                launch = kernel.launches.launches[number]
                blocks = launch.blocks(known)
                if blocks <= 0:
                    continue
                if (number, blocks) not in plans:
                    limits = loaded.gpu.device.properties
                    shared = launch.shared_bytes(known, limits.shared_per_block_opt_in, limits.name)
                    plans[number, blocks] = loaded.launches[number].plan((blocks, 1, 1), shared)
                names = [parameter.name for parameter in launch.function.parameters[len(arguments) :]]
                maps = launch_maps(launch.function, loaded.launches[number].entry, {**known, **dict(zip(names, after, strict=True))})
                steps.append(Step(plans[number, blocks], number, after, maps))
        results = tuple(
            None if one.input is not None else Memory.of(shapes[one.copy_of] if one.copy_of else sizes.results[number], one.dtype.value)
            for number, one in enumerate(made)
        )
        values = tuple(evolve(one, zeroed=zeroed) for one, zeroed in zip(made, sizes.zeroed, strict=True))
        return PlannedCall(
            self.gpu,
            results,
            tuple(workspaces),
            arguments,
            Filled(**{name: tuple(places) for name, places in filled.items()}),
            tuple(steps),
            values,
            len(loaded.launches),
            loaded=loaded,
            compute=self.compute,
            tensors=tuple(self.tensors),
            updated=frozenset(one.input for one in made if one.input is not None),
            checked=loaded.checked,
            direct=not (loaded.recording or filled["packed"])
            and [index for _, index in filled["results"]] == [*range(len(made))]
            and not any(one.input is not None or one.copy_of is not None or one.zeroed for one in values),
        )


def _begins_aligned(tensor: Tensor | None) -> bool:
    """Whether the widest accesses may begin at the tensor's first element. What isn't on the device yet will be; so are new results."""
    remote = tensor.remote if tensor is not None else None
    return remote.__class__ is not OnGpu or remote.elements.pointer % ALIGNMENT == 0


def _shared(mem: Mem, known: Mapping[str, int], kind: type[Memory]) -> Memory:
    return kind.of([max(0, dim.evaluate(known.__getitem__)) for dim in mem.dims], mem.dtype)


class Run:
    """One run of a planned call: where its tensors lie, and what it made."""

    __slots__ = ("before", "call", "given", "gpu", "kept", "made", "memory", "scratch", "stream", "values")

    def __init__(self, call: PlannedCall, given: Mapping[str, Any], values: Mapping[str, Any], stream: Stream) -> None:
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
            if call.checked:
                self.before = {name: self.saved(name) for name in call.updated if elements_on(given[name], gpu) is not None}
        self.made = [self.taken(plan, memory) for plan, memory in zip(call.plans, call.results, strict=True)]
        self.scratch = [memory.take(gpu, stream) for memory in call.workspaces]

    def arguments(self) -> list[Any]:
        """As the kernel takes them."""
        filled, found = self.call.filled, list(self.call.arguments)
        memory, made, scratch = self.memory, self.made, self.scratch
        for place, name in filled.tensors:
            found[place] = memory[name].pointer
        for place, index in filled.results:
            found[place] = made[index].pointer
        for place, index in filled.workspaces:
            found[place] = scratch[index].pointer
        for place, name in filled.scalars:
            found[place] = self.given[name]
        for place, name in filled.packed:
            found[place] = self.packed(name)
        return found

    def told(self, record: DeviceBuffer) -> tuple[Any, StreamEvent]:
        """What the launches so far have told of failed checks, and when it is there."""
        words = self.gpu.pinned.empty((RECORD_WORDS * len(self.call.loaded.launches),), np.int64)
        download(words, record, self.stream)
        return words, self.stream.record()

    def require_no_fault(self, told: tuple[Any, StreamEvent]) -> None:
        """Waits for it; where a check failed, what was updated gets its old elements back. Raises ZyntaxError then."""
        call, stream = self.call, self.stream
        words, there = told
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
            found = Memory.of(tensor.shape, source.dtype).take(self.gpu, self.stream)
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

    def taken(self, plan: ResultPlan, memory: Memory | None) -> DeviceArray:
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
        found = [self.finished(plan, elements) for plan, elements in zip(self.call.plans, self.made, strict=True)]
        return found[0] if len(found) == 1 and self.call.plans[0].group == 0 else grouped(self.call.plans, found)

    def finished(self, plan: ResultPlan, elements: DeviceArray) -> Any:
        if plan.input is not None:
            return self.updated(self.original(plan.input), elements)
        if plan.scalar:
            return number_of(to_host(elements, self.stream), plan.dtype)
        return Tensor(None, OnGpu(elements, self.gpu))

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
