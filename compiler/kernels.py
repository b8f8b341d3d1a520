"""A compute block as something that can be called: specialised by the dtypes, ranks and layouts of what it is given, compiled
once per specialisation, launched with its sizes solved and checked, its faults turned into messages about the program."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from math import prod
from time import perf_counter
from typing import Any

import numpy as np
from attrs import Factory, define, evolve, field, frozen

from compiler.analysis.barriers import check_barriers
from compiler.analysis.check import check_kernel, zeroed_memories
from compiler.analysis.dependence import analyse
from compiler.analysis.lift import Refused, lift
from compiler.backends.cpu.compile import CpuOptions, compile_function
from compiler.backends.cpu.emit import ORDINARY, sizes_of_memories
from compiler.backends.cpu.faults import NativeFault
from compiler.backends.cpu.native import NativeKernel
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.control import For
from compiler.hir.gpu import GridIndex
from compiler.hir.module import FaultSite, Form, HirFunction, OptimizationLevel
from compiler.lowering.compute import lower_compute
from compiler.lowering.kernel import (
    LoweredKernel,
    ResultArgument,
    ResultPlan,
    ScalarArgument,
    ScalarInput,
    Signature,
    SizeArgument,
    StrideArgument,
    TensorArgument,
    TensorInput,
    WorkspaceArgument,
)
from compiler.lowering.launch import LaunchSizes, evaluate
from compiler.pipelines import NEST, PassTimes, run_passes
from compiler.schedule.cpu import Scheduled, schedule_for_cpu
from compiler.schedule.machine import CpuMachine
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.constants import names_needing_values, walk
from compiler.typed_ast.types import DType, FunctionType, Scalar, StaticShape, SymbolicShape, TensorType, Type, UnknownType
from runtime import buffers
from runtime.tensor import Tensor, dtype_name, numpy_dtype

Warn = Callable[[Diagnostic], None]

WORTH_THREADS = 1 << 18
"""Inner steps below which one thread is quicker: some tens of microseconds of work, against a fork and a join."""

STRIDING_BLOCKS = 64
"""Blocks for custom kernels that stride by the size of the grid."""

REMEMBERED_SIZES = 64
"""Launches of a kernel whose solved sizes are kept: programs repeat few shapes."""


@frozen
class KernelOptions:
    """How kernels are compiled and run. `threads` 0: as many as the machine has."""

    level: OptimizationLevel = OptimizationLevel.O3
    threads: int = 0
    machine: CpuMachine = CpuMachine()
    times: PassTimes = Factory(PassTimes)
    compiling: Callable[[Span | None], AbstractContextManager[None]] = field(default=lambda span: nullcontext(), eq=False)
    """Entered around the work on the block at a place, for those who show what is going on."""


@define(eq=False)
class BuiltKernel:
    """A block for one signature at every stage: lowered, cleaned nest, scheduled, native (made when first asked for)."""

    lowered: LoweredKernel
    nest: HirFunction
    scheduled: Scheduled
    options: KernelOptions
    span: Span | None = None
    _native: NativeKernel | None = None
    _plain: NativeKernel | None = None
    _sizes: dict[tuple[Any, ...], LaunchSizes] = Factory(dict)

    def sizes(self, shapes: Mapping[str, tuple[int, ...]], scalars: Mapping[str, Any]) -> LaunchSizes:
        """The plan evaluated for these extents and ints. Raises ZyntaxError when they don't fit the block."""
        key = (*shapes.values(), *(value for value in scalars.values() if isinstance(value, int | np.integer)))
        found = self._sizes.get(key)
        if found is None:
            found = evaluate(self.lowered.plan, shapes, scalars)
            found = evolve(found, ordinary=self._is_ordinary(found))
            if len(self._sizes) >= REMEMBERED_SIZES:
                self._sizes.clear()
            self._sizes[key] = found
        return found

    def named(self, name: str) -> "BuiltKernel":
        """The kernel under another name at every stage."""
        field = self.scheduled.field
        scheduled = evolve(
            self.scheduled, function=evolve(self.scheduled.function, name=name), field=evolve(field, name=name) if field else None
        )
        lowered = evolve(self.lowered, function=evolve(self.lowered.function, name=name))
        return BuiltKernel(lowered, evolve(self.nest, name=name), scheduled, self.options, self.span)

    @property
    def native(self) -> NativeKernel:
        if self._native is None:
            with self.options.compiling(self.span):
                started = perf_counter()
                self._native = compile_function(self.scheduled.function, CpuOptions(level=self.options.level), self.nest)
                self.options.times.add("llvm", perf_counter() - started)
        return self._native


    def native_for(self, sizes: LaunchSizes) -> NativeKernel:
        """The machine code for a launch: as scheduled, or the loops as written where the sizes are none that schedules count on."""
        if sizes.ordinary:
            return self.native
        if self._plain is None:
            with self.options.compiling(self.span):
                self._plain = compile_function(self.nest, CpuOptions(level=self.options.level, ordinary_sizes=False), self.nest)
        return self._plain

    def _is_ordinary(self, sizes: LaunchSizes) -> bool:
        known = {self.nest.parameters[place].name: value for place, value in sizes.size_arguments.items()}
        extents = sizes_of_memories(self.nest)
        ordinary = all(0 <= value < ORDINARY for name, value in known.items() if name in extents)
        for loop in (op for top in self.nest.body.body for op in top.walk() if isinstance(op, For)):
            if known.keys() >= {*loop.low.names, *loop.high.names}:
                low, high = (bound.evaluate(lambda name: known[name]) for bound in (loop.low, loop.high))
                _require_countable(loop, low, high)
                ordinary = ordinary and (high >= low if loop.step > 0 else low >= high)
        return ordinary


def _require_countable(loop: For, low: int, high: int) -> None:
    beyond = next((bound for bound in (low, high) if not -(1 << 63) <= bound < 1 << 63), None)
    if beyond is not None:
        raise ZyntaxError(Diagnostic("0804", f"this loop goes to {beyond}, which doesn't fit in 64 bits", loop.span))


def build(compute: nodes.Compute, signature: Signature, options: KernelOptions) -> BuiltKernel:
    """All stages above machine code. Raises ZyntaxError with every fault found in the block."""
    with options.compiling(compute.span):
        return _build(compute, signature, options)


def _build(compute: nodes.Compute, signature: Signature, options: KernelOptions) -> BuiltKernel:
    started = perf_counter()
    lowered = lower_compute(compute, signature)
    options.times.add("lower", perf_counter() - started)
    nest = lowered.function
    if nest.form is Form.THREAD:
        faults = check_barriers(lowered)
        if faults:
            raise ZyntaxError(*faults)
    for _, after in run_passes(nest, NEST, options.times):
        nest = after
    started = perf_counter()
    facts = analyse(nest)
    field, reason = lifted(nest, lowered)
    options.times.add("lift", perf_counter() - started)
    started = perf_counter()
    if lowered.function.form is not Form.THREAD:
        faults = check_kernel(lowered, facts, field)
        if faults:
            raise ZyntaxError(*faults)
    options.times.add("check kernels", perf_counter() - started)
    started = perf_counter()
    scheduled = schedule_for_cpu(nest, facts, field, reason, options.machine)
    options.times.add("schedule", perf_counter() - started)
    return BuiltKernel(lowered, nest, scheduled, options, compute.span)


def lifted(nest: HirFunction, lowered: LoweredKernel) -> tuple[HirFunction | None, str]:
    """The field of a nest, or None and the reason why it has none."""
    try:
        return lift(nest, zeroed_memories(lowered)), ""
    except Refused as refusal:
        return None, str(refusal)


@define(eq=False)
class ComputeBlock:
    """One `compute` expression of a program, callable with the values of its inputs and captured names."""

    compute: nodes.Compute
    functions: Mapping[str, nodes.Function]
    declared: Mapping[str, Type]
    """Types of names as the checker knows them: where dim names come from."""
    options: KernelOptions
    warn: Warn
    _built: dict[Signature, BuiltKernel] = Factory(dict)
    _known: dict[tuple[Any, ...], BuiltKernel] = Factory(dict)

    @cached_property
    def constants(self) -> frozenset[str]:
        return names_needing_values(self.compute)

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """Compiles if this is a new signature, and runs. Raises ZyntaxError."""
        key = tuple([_layout(name, value, self.constants) for name, value in values.items()])
        kernel = self._known.get(key)
        if kernel is None:
            signature = signature_of(self.compute, values, self.declared, self.functions, self.constants)
            kernel = self._known[key] = self.kernel_for(signature)
        return launch(kernel, values, self.options.threads, self.compute)

    def kernel_for(self, signature: Signature) -> BuiltKernel:
        built = self._built.get(signature)
        if built is None:
            built = self._built[signature] = build(self.compute, signature, self.options)
            if len(self._built) == 1:
                for warning in built.lowered.warnings:
                    self.warn(warning)
        return built


def _layout(name: str, value: Any, constants: frozenset[str]) -> Any:
    """What of a value decides which kernel runs: quick to compute, coarser than a signature by nothing."""
    array = value.array if type(value) is Tensor else value if isinstance(value, np.ndarray) else None
    if array is not None:
        return name, array.dtype, array.ndim, array.flags.c_contiguous or _rows_are_dense(array)
    if name in constants:
        return name, type(value), value
    if isinstance(value, list):
        return name, tuple(_shape_of(value)), _first_type(value)
    return name, type(value)


def _rows_are_dense(array: Any) -> str:
    """Of an array that isn't contiguous: whether the elements of its last axis lie side by side."""
    return "rows" if array.ndim and array.strides[-1] == array.itemsize else ""


def _shape_of(value: Any) -> list[int]:
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    return shape


def _first_type(value: Any) -> Any:
    return _as_tensor(value).array.dtype.name


# ---- signatures ------------------------------------------------------------------------------------------------------


def signature_of(
    compute: nodes.Compute,
    values: Mapping[str, Any],
    declared: Mapping[str, Type],
    functions: Mapping[str, nodes.Function],
    constants: frozenset[str],
) -> Signature:
    """The signature of a launch: dtypes, ranks and layouts as they are now. Extents stay run-time arguments."""
    inputs = {entry.name: entry for entry in compute.inputs}
    tensors, scalars = [], []
    for name, value in values.items():
        entry = inputs.get(name)
        span = entry.span if entry else compute.span
        value = _as_tensor(value)
        if isinstance(value, Tensor):
            array = value.array
            tensors.append(
                TensorInput(
                    name,
                    _dtype_of(array.dtype, name, span),
                    _dim_names(declared.get(name), array.ndim),
                    contiguous=bool(array.flags.c_contiguous),
                    mutable=entry is not None and entry.mutable,
                    captured=entry is None,
                    span=span,
                    dense_rows=not array.flags.c_contiguous and bool(_rows_are_dense(array)),
                )
            )
        elif isinstance(value, bool | int | float | np.generic):
            constant = value.item() if isinstance(value, np.generic) else value
            scalars.append(
                ScalarInput(name, _scalar_dtype(value, name, span), constant if name in constants else None, entry is None, span)
            )
        elif entry is not None:
            kind = type(value).__name__
            raise ZyntaxError(Diagnostic("0203", f"`{name}` can't go into a compute block", span, f"a {kind}, not a tensor or number"))
    return Signature(tensors, scalars, functions)


def _as_tensor(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return Tensor(value)
    if isinstance(value, list):
        try:
            array = np.array(value)
        except ValueError:
            raise ZyntaxError(Diagnostic("0301", "the rows of the list have different lengths")) from None
        return Tensor(array.astype(np.float32) if array.dtype == np.float64 else array)
    return value


def _dtype_of(dtype: Any, name: str, span: Any) -> DType:
    try:
        return DType(dtype_name(dtype))
    except KeyError:
        raise ZyntaxError(
            Diagnostic("0807", f"`{name}` has elements of NumPy type {dtype}, which no kernel computes with", span,
                       hint=f"convert it first; kernels know {', '.join(d.value for d in DType)}")
        ) from None


def _scalar_dtype(value: Any, name: str, span: Any) -> DType:
    match value:
        case bool() | np.bool_():
            return DType.BOOL
        case np.generic():
            return _dtype_of(value.dtype, name, span)
        case int():
            return DType.I64
        case _:
            return DType.F64


def _dim_names(type: Type | None, rank: int) -> tuple[str | None, ...]:
    """Dim names that the declared type gives; a name is a size inside the block."""
    if isinstance(type, TensorType) and isinstance(type.shape, SymbolicShape) and type.shape.rank == rank:
        return tuple(
            dim.terms[0][0] if dim is not None and len(dim.terms) == 1 and dim.terms[0][1] == 1 and not dim.constant else None
            for dim in type.shape.dims
        )
    return (None,) * rank


def static_signature(
    compute: nodes.Compute, scope: Mapping[str, Type], names: tuple[str, ...], functions: Mapping[str, nodes.Function]
) -> Signature | None:
    """The signature as far as types tell it, or None when a dtype or rank is only known at run time."""
    inputs = {entry.name: entry for entry in compute.inputs}
    constants = names_needing_values(compute)
    tensors, scalars = [], []
    for name in dict.fromkeys((*inputs, *names)):
        entry = inputs.get(name)
        type = entry.value.type if entry is not None else scope.get(name)
        span = entry.span if entry else compute.span
        match type:
            case None:
                continue
            case Scalar() if name in constants:
                return None
            case Scalar(dtype):
                scalars.append(ScalarInput(name, dtype, None, entry is None, span))
            case TensorType(Scalar(dtype), shape) if shape.rank is not None:
                dims: tuple[Any, ...] = _dim_names(type, shape.rank)
                if isinstance(shape, StaticShape):
                    dims = shape.dims
                tensors.append(TensorInput(name, dtype, dims, True, entry is not None and entry.mutable, entry is None, span))
            case _ if entry is not None or not _is_callable(type):
                return None
            case _:
                continue
    return Signature(tensors, scalars, functions)


def assumed_signature(
    compute: nodes.Compute, scope: Mapping[str, Type], names: tuple[str, ...], functions: Mapping[str, nodes.Function]
) -> Signature:
    """The signature to show a block under when types leave it open: unknown elements count as f32, an unknown rank is that of the
    block's own indices, an outer name that is never indexed is an int, and an int whose value decides what is compiled is 1."""
    inputs = {entry.name: entry for entry in compute.inputs}
    ranks = {
        node.value.name: len(node.indices)
        for node in walk(compute.body)
        if isinstance(node, nodes.Index) and isinstance(node.value, nodes.Name)
    }
    constants = names_needing_values(compute)
    tensors, scalars = [], []
    for name in dict.fromkeys((*inputs, *names)):
        entry = inputs.get(name)
        type = entry.value.type if entry is not None else scope.get(name)
        span = entry.span if entry else compute.span
        match type:
            case None:
                continue
            case Scalar(dtype):
                scalars.append(ScalarInput(name, dtype, 1 if name in constants else None, entry is None, span))
            case TensorType(element, shape):
                dtype = element.dtype if isinstance(element, Scalar) else DType.F32
                rank = shape.rank if shape.rank is not None else ranks.get(name, 1)
                dims: tuple[Any, ...] = shape.dims if isinstance(shape, StaticShape) else _dim_names(type, rank)
                tensors.append(TensorInput(name, dtype, dims, True, entry is not None and entry.mutable, entry is None, span))
            case UnknownType() if name in ranks:
                dims = (None,) * ranks[name]
                tensors.append(TensorInput(name, DType.F32, dims, True, entry is not None and entry.mutable, entry is None, span))
            case UnknownType():
                scalars.append(ScalarInput(name, DType.I64, 1 if name in constants else None, entry is None, span))
            case _:
                continue
    return Signature(tensors, scalars, functions)


def _is_callable(type: Type) -> bool:
    return isinstance(type, FunctionType)


# ---- launching -------------------------------------------------------------------------------------------------------


def tensor_arrays(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of a launch as arrays and scalars, by name."""
    arrays = {name: tensor.array for name, value in values.items() if isinstance(tensor := _as_tensor(value), Tensor)}
    return arrays, {name: value for name, value in values.items() if name not in arrays}


def launch(kernel: BuiltKernel, values: Mapping[str, Any], threads: int, compute: nodes.Compute) -> Any:
    """Solves and checks sizes, allocates results, runs, and gives the block's value: a tensor, a number, or a tuple."""
    plan = kernel.lowered.plan
    arrays, scalars = tensor_arrays(values)
    shapes = {name: array.shape for name, array in arrays.items()}
    sizes = kernel.sizes(shapes, scalars)
    arrays = _without_aliases(kernel, arrays)
    results = [_allocate(result, sizes, number, arrays) for number, result in enumerate(plan.results)]
    saved = {r.input: arrays[r.input].copy() for r in plan.results if r.input is not None and kernel.nest.sites}
    keep: list[Any] = []
    native = kernel.native_for(sizes)
    arguments = [
        _argument(place, argument, arrays, scalars, results, sizes, keep) for place, argument in enumerate(plan.arguments)
    ]
    if len(kernel.nest.parameters) > len(arguments):
        arguments += grid_of(kernel, shapes, sizes)
    fault = native.run(arguments, threads if sizes.work >= WORTH_THREADS else 1)
    if fault is not None:
        for name, array in saved.items():
            arrays[name][...] = array
        raise ZyntaxError(_fault(fault, kernel.nest.sites, compute))
    for result, array in zip(plan.results, results, strict=True):
        if result.input is not None and array is not values[result.input].array:
            values[result.input].array[...] = array
    return value_of(plan.results, results, values)


def grid_of(kernel: BuiltKernel, shapes: Mapping[str, tuple[int, ...]], sizes: LaunchSizes) -> list[int]:
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


def _without_aliases(kernel: BuiltKernel, arrays: dict[str, Any]) -> dict[str, Any]:
    """Kernels are compiled for inputs that don't overlap what they write: an input that does is read from a copy."""
    mutable = [r.input for r in kernel.lowered.plan.results if r.input is not None]
    if not mutable:
        return arrays
    out = dict(arrays)
    for name, array in arrays.items():
        if any(other != name and np.may_share_memory(array, arrays[other]) for other in mutable):
            out[name] = array.copy()
    return out


def _allocate(plan: ResultPlan, sizes: LaunchSizes, number: int, arrays: Mapping[str, Any]) -> Any:
    if plan.input is not None:
        if not arrays[plan.input].flags.writeable:
            raise ZyntaxError(
                Diagnostic("0807", f"`{plan.input}` can't be updated: its memory is read-only", hint="update a copy: `.clone()`")
            )
        return arrays[plan.input]
    if plan.copy_of is not None:
        return np.ascontiguousarray(arrays[plan.copy_of]).copy()
    shape = sizes.results[number]
    try:
        dtype = numpy_dtype(plan.dtype.value)
        return buffers.zeros(shape, dtype) if plan.zeroed else buffers.empty(shape, dtype)
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


def grouped(plans: tuple[ResultPlan, ...], results: list[Any]) -> Any:
    """One result is the value; several are a tuple; results of one group are a tuple inside it."""
    parts: list[Any] = []
    groups: dict[int, list[Any]] = {}
    for plan, one in zip(plans, results, strict=True):
        if plan.group == 0:
            parts.append(one)
        elif plan.group in groups:
            groups[plan.group].append(one)
        else:
            groups[plan.group] = [one]
            parts.append(groups[plan.group])
    closed = [tuple(part) if isinstance(part, list) else part for part in parts]
    return closed[0] if len(closed) == 1 else tuple(closed)


def number_of(array: Any, dtype: DType) -> Any:
    """A rank-0 result as the program's number: i64, f64 and bool are Python's own."""
    return array.item() if dtype in (DType.I64, DType.F64, DType.BOOL) else array[()]
