"""Compute blocks on the emulator, which runs the launches that a device would run (`thread_kernels.py`).

The emulator runs every launch block by block in the interpreter of form C: slow, but exact, and it sees what a device doesn't tell:
divergent barriers (0411) and warps (0415), shared memory read before it is written or raced for (0412), indices outside (0801). With
`--sanitize` it looks for more and goes on when it finds something: `compiler/emulator/sanitize.py`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.emulator.fault import KernelFault
from compiler.emulator.interpret import interpret
from compiler.emulator.sanitize import Watch
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.hir.shared_memory import over_limit
from compiler.hir.types import Mem
from compiler.hir.verify import verify
from compiler.launch.block import ComputeBlock
from compiler.launch.cache import THREAD_KERNELS, Cache
from compiler.launch.cpu import first_fault, on_host
from compiler.launch.faults import diagnosed
from compiler.launch.kernels import BuiltKernel
from compiler.launch.plan import KernelPlan, planned, value_of
from compiler.launch.slots import element_name
from compiler.launch.thread_kernels import ThreadKernel, covered_results, launch_facts, thread_kernel
from compiler.launch.updates import require_updatable
from compiler.lowering.result_plan import ResultPlan
from compiler.machines.gpu import GpuMachine
from compiler.schedule.gpu.facts import Facts
from compiler.typed_ast import nodes
from runtime.cuda.array import contiguous_strides
from runtime.records import Factory, define
from runtime.tensor import Tensor, numpy_dtype

Report = Callable[[tuple[Diagnostic, ...]], None]


@define(eq=False)
class EmulatedBlock:
    """A compute block on the emulator of a machine, whose instructions and limits it has: called like a `ComputeBlock`. `report`:
    everything is watched, and it is told all that was found in a run of the block; it may raise."""

    block: ComputeBlock
    machine: GpuMachine
    report: Report | None = None
    _kernels: Cache[Any, ThreadKernel] = Factory(partial(Cache, THREAD_KERNELS))

    def __call__(self, values: Mapping[str, Any]) -> Any:
        block = self.block
        signature = block.signature(values)
        built = block.kernel_for(signature)

        def kernel_for(facts: Facts) -> ThreadKernel:
            kernel = self._kernels.of((signature, facts), lambda: verified(thread_kernel(built, block.compute, facts)))
            block.tell(kernel.unheeded(block.compute))
            return kernel

        return emulate(built, kernel_for, values, block.compute, self.machine, self.report)

    def beside(self, values: Mapping[str, Any]) -> None:
        """The interpreter is Python like the program: it gains nothing from another thread."""


def emulate(
    built: BuiltKernel,
    kernel_for: Callable[[Facts], ThreadKernel],
    values: Mapping[str, Any],
    compute: nodes.Compute,
    machine: GpuMachine,
    report: Report | None = None,
) -> Any:
    """Runs the launches in the interpreter and gives the block's value. Inputs that the block updates change only when all went
    well. With `report` all is watched, and it is told what was found."""
    watch = Watch() if report is not None else None
    require_updatable(built.updated, values, compute)
    given = {name: on_host(value) for name, value in values.items()}
    arrays = {name: value.contents for name, value in given.items() if isinstance(value, Tensor)}
    updated = {name: np.array(arrays[name], order="C") for name in built.updated}
    arrays |= updated
    plan = planned(built, {**given, **{name: Tensor(array) for name, array in updated.items()}})
    results = [_result(result, number, plan, arrays) for number, result in enumerate(plan.results)]
    workspaces = [np.zeros(shape, numpy_dtype(dtype)) for shape, dtype in plan.bound.workspaces]
    scalars = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
    arguments = plan.bound.filled(arrays.__getitem__, arrays.__getitem__, results, workspaces, scalars)
    own = built.nest.parameters[len(arguments) :]  # of a custom kernel as loops: the grid's extents
    grid = plan.grid() if own else []
    arguments += grid
    arguments = [_as_one_axis(value, argument) for value, argument in zip(built.nest.parameters, arguments, strict=False)]
    workspaces = [arguments[position] for position, _ in plan.bound.slots.workspaces]
    known = plan.known | {parameter.name: extent for parameter, extent in zip(own, grid, strict=True)}
    memories = [parameter.name for parameter in built.nest.parameters if isinstance(parameter.type, Mem)]
    kernel = kernel_for(launch_facts(built, known, memories, machine))
    try:
        if kernel.launches is None:
            if (over := over_limit(built.lowered.function, machine.block_shared, str(machine))) is not None:
                raise ZyntaxError(over)
            threads = built.lowered.function
            _interpret(threads, arguments[: len(threads.parameters)], machine, watch, workspaces, tuple(plan.grid()))
        elif not plan.sizes.ordinary:
            interpret(built.nest, arguments)  # no schedule counts on such sizes: the loops as written
        else:
            arguments, known = kernel.launches.counted(arguments, known)
            shared = [_workspace(mem, known) for mem in kernel.launches.workspaces]
            blank = [*workspaces, *(array for position, array in enumerate(shared) if position not in kernel.launches.zeros)]
            for index in covered_results(kernel, plan.bound.slots):
                results[index].view(np.uint8)[...] = 0xFF  # no element may count on a memory that nobody clears
            for number, extra in kernel.launches.steps(known):
                launch = kernel.launches.launches[number]
                blocks = launch.blocks(known)
                if blocks > 0:
                    given_bytes = launch.shared_bytes(known, machine.block_shared, str(machine))
                    # checks of indices come before axes are joined: each launch has its own view of an array
                    pairs = zip(launch.function.parameters, [*arguments, *shared], strict=False)
                    own_views = [as_given(parameter, argument, known) for parameter, argument in pairs]
                    _interpret(launch.function, [*own_views, *extra], machine, watch, blank, (blocks, 1, 1), given_bytes)
    except KernelFault as fault:
        sites = built.lowered.function.sites
        if fault.finding is not None and not 0 <= fault.site < len(sites):
            diagnostic = fault.finding.diagnostic(compute.span)
        else:
            diagnostic = diagnosed(fault, sites, compute.span)
        if kernel.launches is not None and fault.site >= 0:
            diagnostic = first_fault(built, values, compute, diagnostic)
        raise ZyntaxError(*_found(watch, compute), diagnostic) from None
    if report is not None:
        report(_found(watch, compute))
    for name, result in updated.items():
        values[name].array[...] = result
    return value_of(plan.results, results, values)


def verified(kernel: ThreadKernel) -> ThreadKernel:
    """The kernel, if it is well formed. Raises ZyntaxError (0901): of what isn't, the interpreter and a device may make two things."""
    for function in kernel.functions:
        verify(function)
    return kernel


def _result(result: ResultPlan, number: int, plan: KernelPlan, arrays: Mapping[str, Any]) -> Any:
    if result.input is not None:
        return arrays[result.input]
    if result.copy_of is not None:
        return np.array(arrays[result.copy_of], order="C")
    return np.zeros(plan.sizes.results[number], numpy_dtype(result.dtype.value))


def _interpret(
    function: HirFunction,
    arguments: list[Any],
    machine: GpuMachine,
    watch: Watch | None,
    blank: list[Any],
    grid: tuple[int, ...] | None,
    shared_bytes: int = 0,
) -> None:
    """One launch; `blank` are the memories that hold nothing before the first; `grid` None: what the kernel says."""
    if watch is not None:
        for array in blank:
            watch.blank.setdefault(id(array), np.zeros(array.shape, np.bool_))
    interpret(function, arguments, grid=grid, watch=watch, shared_bytes=shared_bytes, lanes=machine.lanes)


def _found(watch: Watch | None, compute: nodes.Compute) -> tuple[Diagnostic, ...]:
    """All that was found, by position."""
    diagnostics = [finding.diagnostic(compute.span) for finding in watch.findings] if watch is not None else []
    return tuple(sorted(diagnostics, key=lambda d: (d.span.path, d.span.start) if d.span is not None else ("", -1)))


def _as_one_axis(parameter: Value, argument: Any) -> Any:
    """The argument as the kernel takes it: with one index over all elements, side by side, where that is how the block runs over them."""
    is_flat = isinstance(parameter.type, Mem) and parameter.type.rank == 1 and np.ndim(argument) > 1
    return np.ascontiguousarray(argument).reshape(-1) if is_flat else argument


def as_given(parameter: Value, argument: Any, known: Mapping[str, int]) -> Any:
    """The argument as a launch takes it: with axes as one that always stand side by side, or as two that are digits of one, and in the
    order in which they lie."""
    if not isinstance(parameter.type, Mem):
        return argument
    mem, width = parameter.type, argument.itemsize
    dims = [dim.evaluate(known.__getitem__) for dim in mem.dims]
    if argument.flags.c_contiguous:
        return argument if argument.shape == tuple(dims) else argument.reshape(dims)
    strides = contiguous_strides(tuple(dims)) if mem.strides is None else [stride.evaluate(known.__getitem__) for stride in mem.strides]
    return np.lib.stride_tricks.as_strided(argument, dims, [width * stride for stride in strides])


def _workspace(mem: Mem, known: Mapping[str, int]) -> Any:
    return np.zeros([dim.evaluate(known.__getitem__) for dim in mem.dims], numpy_dtype(element_name(mem.dtype)))
