"""One launch of a kernel on the CPU: sizes solved and checked, results allocated, arguments packed, faults turned into messages about
the program, the value put together."""

from collections.abc import Container, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.backends.cpu.faults import NativeFault
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.gpu import GridIndex
from compiler.hir.module import FaultSite, Form
from compiler.launch.native_calls import watch
from compiler.launch.signature import as_tensor
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
from compiler.typed_ast import nodes
from runtime import buffers
from runtime.tensor import Tensor, numpy_dtype

if TYPE_CHECKING:
    from compiler.launch.kernels import BuiltKernel

WORTH_THREADS = 1 << 18
"""Inner steps below which one thread is quicker: some tens of microseconds of work, against a fork and a join."""

STRIDING_BLOCKS = 64
"""Blocks for custom kernels that stride by the size of the grid."""


def tensor_arrays(values: Mapping[str, Any], updated: Container[str] = ()) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of a launch as arrays and scalars, by name. Only `updated` arrays may be written to."""
    arrays = {
        name: tensor.array if name in updated else tensor.contents
        for name, value in values.items()
        if isinstance(tensor := as_tensor(value), Tensor)
    }
    return arrays, {name: value for name, value in values.items() if name not in arrays}


def launch(kernel: "BuiltKernel", values: Mapping[str, Any], threads: int, compute: nodes.Compute) -> Any:
    """Solves and checks sizes, allocates results, runs, and gives the block's value: a tensor, a number, or a tuple."""
    plan = kernel.lowered.plan
    updated = [r.input for r in plan.results if r.input is not None]
    if updated:
        require_updatable(updated, values, compute)
    arrays, scalars = tensor_arrays(values, updated)
    shapes = {name: array.shape for name, array in arrays.items()}
    sizes = kernel.sizes(shapes, scalars)
    results = [_allocate(result, sizes, number, arrays) for number, result in enumerate(plan.results)]
    saved = {name: arrays[name].copy() for name in updated if kernel.nest.sites}
    keep: list[Any] = []
    native = kernel.native_for(sizes)
    arguments = [
        _argument(place, argument, arrays, scalars, results, sizes, keep) for place, argument in enumerate(plan.arguments)
    ]
    if len(kernel.nest.parameters) > len(arguments):
        arguments += grid_of(kernel, shapes, sizes)
    work = sizes.work
    if kernel.lowered.function.form is Form.THREAD:
        # Loops that share out a range by the grid have bounds that only the run knows; their work is at least a look at each element.
        work = max(work, sum(map(prod, shapes.values())))
    fault = native.run(arguments, threads if work >= WORTH_THREADS else 1)
    if fault is not None:
        for name, array in saved.items():
            arrays[name][...] = array
        raise ZyntaxError(_fault(fault, kernel.nest.sites, compute))
    for result, array in zip(plan.results, results, strict=True):
        if result.input is not None and array is not values[result.input].array:
            values[result.input].array[...] = array
    value = value_of(plan.results, results, values)
    watch.note(kernel, values, threads, value)
    return value


def first_fault(kernel: "BuiltKernel", values: Mapping[str, Any], compute: nodes.Compute, found: Diagnostic) -> Diagnostic:
    """The fault that comes first in the order of the nest, when a device has `found` one: its threads go through the nest in an order of
    their own. The loops are run on copies, as the CPU runs them; where nothing fails then, it is the one that was found."""
    arrays, scalars = tensor_arrays(values)
    copies = {**scalars, **{name: Tensor(np.array(array)) for name, array in arrays.items()}}
    try:
        launch(kernel, copies, 1, compute)
    except ZyntaxError as fault:
        return fault.diagnostics[0]
    return found


def grid_asked_for(kernel: "BuiltKernel", known: Mapping[str, int]) -> list[int] | None:
    """Blocks of a custom kernel whose program says how many, given the values of its `index` parameters."""
    info = kernel.lowered.function.kernel_info
    return None if info is None or info.grid is None else [form.evaluate(known.__getitem__) for form in info.grid]


def grid_of(kernel: "BuiltKernel", shapes: Mapping[str, tuple[int, ...]], sizes: LaunchSizes) -> list[int]:
    """Blocks of a custom kernel whose program doesn't say: enough that every element of the largest tensor has a thread. A kernel that
    asks for the number of blocks walks in strides and is content with any number: it gets few."""
    info = kernel.lowered.function.kernel_info
    x, y, z = info.workgroup if info is not None and info.workgroup is not None else (256, 1, 1)
    elements = [*shapes.values(), *sizes.results]
    if y == z == 1:
        blocks = -(-max((prod(shape) for shape in elements), default=1) // x)
        instructions = (op for top in kernel.lowered.function.body.body for op in top.walk())
        asks = any(isinstance(op, GridIndex) and op.operator == "grid_dim" for op in instructions)
        return [max(1, min(blocks, STRIDING_BLOCKS) if asks else blocks), 1, 1]
    extents = [max((shape[-1 - axis] for shape in elements if len(shape) > axis), default=1) for axis in range(3)]
    return [max(1, -(-extent // threads)) for extent, threads in zip(extents, (x, y, z), strict=True)]


def _allocate(plan: ResultPlan, sizes: LaunchSizes, number: int, arrays: Mapping[str, Any]) -> Any:
    if plan.input is not None:
        return arrays[plan.input]
    if plan.copy_of is not None:
        return np.ascontiguousarray(arrays[plan.copy_of]).copy()
    shape = sizes.results[number]
    try:
        dtype = numpy_dtype(plan.dtype.value)
        return buffers.zeros(shape, dtype) if sizes.zeroed[number] else buffers.empty(shape, dtype)
    except MemoryError:
        amount = int(np.prod(shape, dtype=object)) * plan.dtype.bytes
        raise ZyntaxError(
            Diagnostic("0804", f"out of memory: `{plan.name}` of shape {list(shape)} {plan.dtype.value} needs {amount:,} bytes")
        ) from None


def _argument(
    place: int,
    argument: Any,
    arrays: Mapping[str, Any],
    scalars: Mapping[str, Any],
    results: list[Any],
    sizes: LaunchSizes,
    keep: list[Any],
) -> Any:
    match argument:
        case TensorArgument(name, packed):
            array = np.ascontiguousarray(arrays[name]) if packed else arrays[name]
            keep.append(array)
            return buffers.address(array)
        case StrideArgument(name, axis):
            return arrays[name].strides[axis] // arrays[name].itemsize
        case SizeArgument():
            return sizes.size_arguments[place]
        case ScalarArgument(name):
            value = scalars[name]
            return value.item() if isinstance(value, np.generic) else value
        case ResultArgument(index):
            return buffers.address(results[index])
        case WorkspaceArgument(dtype):
            buffer = np.empty(max(1, prod(sizes.workspaces[place])), numpy_dtype("bool" if dtype == "i1" else dtype))
            keep.append(buffer)
            return buffers.address(buffer)
        case _:
            raise AssertionError(f"no argument {argument}")


def _fault(fault: NativeFault, sites: tuple[FaultSite, ...], compute: nodes.Compute) -> Diagnostic:
    if 0 <= fault.site < len(sites):
        site = sites[fault.site]
        message, label = site.message.format(*fault.values), site.label.format(*fault.values)
        return Diagnostic(site.code, message, site.span, label, site.others, hint=site.hint)
    if fault.code == "0804":
        return Diagnostic("0804", "out of memory inside a compute block", compute.span)
    return Diagnostic("0901", f"a kernel failed with code {fault.code}", compute.span)


def value_of(plans: tuple[ResultPlan, ...], arrays: list[Any], values: Mapping[str, Any]) -> Any:
    """The block's value from its results as arrays on the host."""
    return grouped(
        plans,
        [
            number_of(array, plan.dtype) if plan.scalar else values[plan.input] if plan.input is not None else Tensor(array)
            for plan, array in zip(plans, arrays, strict=True)
        ],
    )
