"""The call of a block on a GPU from its plan: the choices that its sizes leave, and for one of them grids, steps and memory."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Protocol

from compiler.backends.nvptx.target import target_of_device
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem
from compiler.launch.cuda.calls import PlannedCall
from compiler.launch.cuda.direct import CallStep
from compiler.launch.cuda.loaded import LoadedKernel
from compiler.launch.cuda.maps import launch_maps
from compiler.launch.cuda.memory import CallMemory, LastingZeros
from compiler.launch.cuda.rates import rates_of
from compiler.launch.plan import KernelPlan
from compiler.launch.slots import Workspace, element_name
from compiler.launch.thread_kernels import covered_results, launch_choices
from compiler.options import Tuning
from compiler.schedule.gpu.choose import LaunchChoice
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.typed_ast import nodes
from runtime.cuda.gpu import Gpu
from runtime.cuda.launch import CheckedLaunch
from runtime.cuda.remote import OnGpu
from runtime.cuda.stream import Stream
from runtime.records import define, evolve, frozen
from runtime.tensor import Tensor

Settle = Callable[[tuple[LaunchChoice, ...], Mapping[str, int], Callable[[Facts], PlannedCall]], PlannedCall]
"""Takes one of several choices for these sizes: gives its call, which the function makes."""


def first(choices: tuple[LaunchChoice, ...], sizes: Mapping[str, int], call: Callable[[Facts], PlannedCall]) -> PlannedCall:
    """The call of what is estimated to end first."""
    return call(choices[0].facts)


@frozen(eq=False)
class TuningCase:
    """A call that may be tuned: the field that its kernel is made of, its values, its stream, and how long candidates may be tried."""

    gpu: Gpu
    field: HirFunction
    given: Mapping[str, Any]
    values: Mapping[str, Any]
    stream: Stream
    tuning: Tuning


class Tuner(Protocol):
    """Finds the fastest of the choices that a call's sizes leave."""

    def settle(self, case: TuningCase) -> Settle: ...


@define(eq=False)
class GpuPlan:
    """A plan on a GPU, before one of its choices is taken."""

    plan: KernelPlan
    gpu: Gpu
    compute: nodes.Compute
    tensors: Mapping[str, Tensor]

    @cached_property
    def known(self) -> dict[str, int]:
        return self.plan.known

    def choices(self) -> tuple[LaunchChoice, ...]:
        """The facts that hold, and what they leave to choose."""
        kernel, slots, tensors, known = self.plan.kernel, self.plan.bound.slots, self.tensors, self.known
        foreign = {position for position, name in slots.tensors if not _begins_aligned(tensors[name])}
        foreign |= {position for position, index in slots.results if not _begins_aligned(tensors.get(self.plan.results[index].input or ""))}
        parameters = enumerate(kernel.nest.parameters)
        memories = [(position, parameter.name) for position, parameter in parameters if isinstance(parameter.type, Mem)]
        properties = self.gpu.device.properties
        aligned = [name for position, name in memories if position not in foreign]
        machine, rates = target_of_device(properties.capability).machine, rates_of(self.gpu.device)
        return launch_choices(kernel, known, aligned, machine, properties.multiprocessors, rates)

    def call(self, loaded: LoadedKernel) -> PlannedCall:
        """The call of a kernel that was loaded for one of the choices."""
        plan, kernel, bound = self.plan, loaded.kernel, self.plan.bound
        workspaces = [CallMemory.of(*workspace) for workspace in bound.workspaces]
        if kernel.launches is None:
            maps = launch_maps(kernel.functions[0], loaded.launches[0].entry, self.known)
            steps, covered = [CallStep(loaded.launches[0].plan(plan.grid()), 0, (), maps)], frozenset[int]()
        else:
            numbers, known = kernel.launches.counted(bound.numbers, self.known)
            shared = [_extents(mem, known) for mem in kernel.launches.workspaces]
            bound = bound.with_workspaces(numbers, shared)
            zeros = kernel.launches.zeros
            workspaces += [(LastingZeros if number in zeros else CallMemory).of(*each) for number, each in enumerate(shared)]
            steps, covered = _steps(loaded, known, len(bound.numbers)), covered_results(kernel, bound.slots)
        sizes, shapes = plan.sizes, plan.shapes
        results = tuple(
            None
            if result.input is not None
            else CallMemory.of(shapes[result.copy_of] if result.copy_of else sizes.results[number], result.dtype.value)
            for number, result in enumerate(plan.results)
        )
        return PlannedCall(
            self.gpu,
            results,
            tuple(workspaces),
            bound,
            tuple(steps),
            tuple(evolve(result, zeroed=sizes.zeroed[number] and number not in covered) for number, result in enumerate(plan.results)),
            len(loaded.launches),
            loaded=loaded,
            compute=self.compute,
            tensors=tuple(self.tensors),
        )


def _steps(loaded: LoadedKernel, known: Mapping[str, int], arguments: int) -> list[CallStep]:
    """The launches that have blocks, each kernel planned once for a grid. `arguments`: how many all launches share."""
    launches, limits = loaded.kernel.launches, loaded.gpu.device.properties
    assert launches is not None
    plans: dict[tuple[int, int], CheckedLaunch] = {}
    steps = []
    for number, after in launches.steps(known):
        launch = launches.launches[number]
        blocks = launch.blocks(known)
        if blocks <= 0:
            continue
        if (number, blocks) not in plans:
            shared = launch.shared_bytes(known, limits.shared_per_block_opt_in, limits.name)
            plans[number, blocks] = loaded.launches[number].plan((blocks, 1, 1), shared)
        names = [parameter.name for parameter in launch.function.parameters[arguments:]]
        maps = launch_maps(launch.function, loaded.launches[number].entry, {**known, **dict(zip(names, after, strict=True))})
        steps.append(CallStep(plans[number, blocks], number, after, maps))
    return steps


def _begins_aligned(tensor: Tensor | None) -> bool:
    """Whether the widest accesses may begin at the tensor's first element. What isn't on the device yet will be; so are new results."""
    remote = tensor.remote if tensor is not None else None
    return remote.__class__ is not OnGpu or remote.elements.pointer % ALIGNMENT == 0


def _extents(mem: Mem, known: Mapping[str, int]) -> Workspace:
    return tuple(max(0, dim.evaluate(known.__getitem__)) for dim in mem.dims), element_name(mem.dtype)
