"""Calls on the CPU: results allocated, addresses put among the arguments, the kernel run, its fault turned into the program's."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from compiler.backends.cpu.native import NativeKernel
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.launch.faults import diagnosed
from compiler.launch.kernels import BuiltKernel
from compiler.launch.native_calls.watch import CPU_LAUNCHES, CpuLaunch
from compiler.launch.plan import KernelPlan, planned, value_of
from compiler.launch.signature import as_tensor
from compiler.launch.updates import require_updatable
from compiler.lowering.result_plan import ResultPlan
from compiler.typed_ast import nodes
from runtime import buffers
from runtime.records import define
from runtime.tensor import Tensor, numpy_dtype

WORTH_THREADS = 1 << 18
"""Inner steps below which one thread is quicker: 26 to 120 microseconds of work, against some 30 that a team takes which has gone to
sleep."""


def worth_threads(kernel: BuiltKernel) -> int:
    """Inner steps of a kernel below which one thread is quicker: more where its steps are quick."""
    if kernel.has_reuse:
        return WORTH_THREADS << 1  # 0.02 to 0.04 ns a step, where others take 0.1 to 0.5
    if kernel.has_open_loops:
        return WORTH_THREADS >> 6  # each is counted as one step
    return WORTH_THREADS


def on_host(value: Any) -> Any:
    """The value as a call takes it: a tensor on the host where it stands for one, to be read only."""
    tensor = as_tensor(value)
    return Tensor(tensor.contents) if tensor.__class__ is Tensor and tensor.remote is not None else tensor


@define(eq=False)
class CpuCall:
    """A planned call. `numbers` are the plan's, with the grid of a custom kernel behind them; `work`: inner steps, about."""

    plan: KernelPlan
    native: NativeKernel
    compute: nodes.Compute
    numbers: tuple[Any, ...]
    updated: tuple[str, ...]
    work: int

    @classmethod
    def of(cls, plan: KernelPlan, compute: nodes.Compute) -> "CpuCall":
        kernel, numbers, work = plan.kernel, plan.bound.numbers, plan.sizes.work
        if len(kernel.nest.parameters) > len(numbers):
            numbers = (*numbers, *plan.grid())
        if plan.is_custom:
            # Loops that share out a range by the grid have bounds that only the run knows; their work is at least a look at each element.
            work = max(work, sum(map(prod, plan.shapes.values())))
        return cls(plan, kernel.native_for(plan.sizes), compute, numbers, kernel.updated, work)

    def __call__(self, given: Mapping[str, Any], values: Mapping[str, Any], threads: int) -> Any:
        """The block's value: a tensor, a number, or a tuple. `given` are the values on the host, `values` those of the program, which are
        updated."""
        plan, updated, packed_arrays = self.plan, self.updated, []
        if updated:
            require_updatable(updated, values, self.compute)
            given = {**given, **{name: values[name] for name in updated}}
        address, slots, arguments = buffers.address, plan.bound.slots, [*self.numbers]
        for position, name in slots.tensors:
            tensor = given[name]
            arguments[position] = address(tensor.array if name in updated else tensor.contents)
        for position, name in slots.packed:
            packed_arrays.append(np.ascontiguousarray(given[name].contents))
            arguments[position] = address(packed_arrays[-1])
        plans = plan.results
        results = [self._result(number, result, given) for number, result in enumerate(plans)]
        for position, index in slots.results:
            arguments[position] = address(results[index])
        for position, index in slots.workspaces:
            shape, dtype = plan.bound.workspaces[index]
            packed_arrays.append(np.empty(max(1, prod(shape)), numpy_dtype(dtype)))
            arguments[position] = address(packed_arrays[-1])
        for position, name in slots.scalars:
            arguments[position] = given[name]
        saved = {name: given[name].array.copy() for name in updated if plan.kernel.nest.sites} if updated else {}
        fault = self.native.run(arguments, threads if self.work >= worth_threads(plan.kernel) else 1)
        if fault is not None:
            for name, array in saved.items():
                given[name].array[...] = array
            raise ZyntaxError(diagnosed(fault, plan.kernel.nest.sites, self.compute.span))
        value = value_of(plans, results, values)
        if CPU_LAUNCHES.calls is not None:
            CPU_LAUNCHES.calls.append(CpuLaunch(plan.kernel, values, threads, value, self.compute.span))
        return value

    def _result(self, number: int, result: ResultPlan, given: Mapping[str, Any]) -> Any:
        if result.input is not None:
            return given[result.input].array
        if result.copy_of is not None:
            return np.ascontiguousarray(given[result.copy_of].contents).copy()
        sizes, dtype = self.plan.sizes, numpy_dtype(result.dtype.value)
        shape = sizes.results[number]
        try:
            return buffers.zeros(shape, dtype) if sizes.zeroed[number] else buffers.empty(shape, dtype)
        except MemoryError:
            amount = int(np.prod(shape, dtype=object)) * result.dtype.bytes
            message = f"out of memory: `{result.name}` of shape {list(shape)} {result.dtype.value} needs {amount:,} bytes"
            raise ZyntaxError(Diagnostic("0804", message)) from None


def first_fault(kernel: BuiltKernel, values: Mapping[str, Any], compute: nodes.Compute, reported: Diagnostic) -> Diagnostic:
    """The fault that comes first in the order of the nest, when a device `reported` one: its threads go through the nest in an order of
    their own. The loops are run on copies, as the CPU runs them; where nothing fails then, it is the one that was reported."""
    given = {name: on_host(value) for name, value in values.items()}
    copies = {name: Tensor(np.array(value.contents)) if isinstance(value, Tensor) else value for name, value in given.items()}
    try:
        CpuCall.of(planned(kernel, copies), compute)(copies, copies, 1)
    except ZyntaxError as fault:
        return fault.diagnostics[0]
    return reported
