"""Runs the compute block of a small program through lowering and the HIR interpreter: no analysis, no backend."""

from collections.abc import Mapping
from typing import Any

import attrs
import ml_dtypes
import numpy as np

from compiler.diagnostics import Diagnostic, ZyntaxError, render
from compiler.emulator.interpret import KernelFault, interpret
from compiler.hir.verify import verify
from compiler.lowering.compute import lower_compute
from compiler.lowering.kernel import (
    LoweredKernel,
    ResultArgument,
    ScalarArgument,
    ScalarInput,
    Signature,
    SizeArgument,
    StrideArgument,
    TensorArgument,
    TensorInput,
    WorkspaceArgument,
)
from compiler.lowering.launch import evaluate
from compiler.source import Source, Sources
from compiler.typed_ast import nodes
from compiler.typed_ast.annotations import kernel_metadata
from compiler.typed_ast.program_functions import functions_of
from compiler.typed_ast.types import DType
from zynml.parse import parse_source

NUMPY = {
    **{
        d.value: np.dtype(name)
        for d, name in ((DType.F16, "float16"), (DType.F32, "float32"), (DType.F64, "float64"), (DType.BOOL, "bool"))
    },
    **{f"{kind}{bits}": np.dtype(f"{name}{bits}") for kind, name in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)},
    "bf16": np.dtype(ml_dtypes.bfloat16),
}
DTYPES = {numpy: DType(name) for name, numpy in NUMPY.items()}


def block_of(text: str) -> tuple[nodes.Compute, dict[str, nodes.Function], Source]:
    """The first compute block of the text, its annotations read, and the text's functions."""
    source = Source("kernel.zynml", text)
    program = parse_source(source)
    functions = functions_of(program)
    compute = next(node for s in program.statements for node in _computes(s))
    metadata, faults = kernel_metadata(compute)
    if faults:
        raise ZyntaxError(*faults)
    return attrs.evolve(compute, kernel=metadata), functions, source


def _computes(statement: nodes.Statement) -> list[nodes.Compute]:
    value = getattr(statement, "value", None)
    return [value] if isinstance(value, nodes.Compute) else []


def signature_for(
    compute: nodes.Compute,
    functions: Mapping[str, nodes.Function],
    arrays: Mapping[str, Any],
    dims: Mapping[str, Any],
    constants: bool = False,
) -> Signature:
    inputs = {entry.name: entry for entry in compute.inputs}
    tensors, scalars = [], []
    for name, value in arrays.items():
        entry = inputs.get(name)
        span = entry.span if entry is not None else None
        captured = entry is None
        if isinstance(value, np.ndarray):
            tensors.append(
                TensorInput(
                    name,
                    DTYPES[value.dtype],
                    dims.get(name, (None,) * value.ndim),
                    bool(value.flags.c_contiguous),
                    entry is not None and entry.mutable,
                    captured,
                    span,
                )
            )
        else:
            dtype = (
                DType.BOOL
                if isinstance(value, bool)
                else DType.I64
                if type(value) is int
                else DType.F64
                if type(value) is float
                else DTYPES[np.asarray(value).dtype]
            )
            scalars.append(ScalarInput(name, dtype, value if constants else None, captured, span))
    return Signature(tensors, scalars, functions)


def lower_block(text: str, dims: Mapping[str, Any] | None = None, constants: bool = False, **arrays: Any) -> LoweredKernel:
    """The block lowered for these inputs, verified."""
    compute, functions, _ = block_of(text)
    lowered = lower_compute(compute, signature_for(compute, functions, arrays, dims or {}, constants))
    verify(lowered.function)
    return lowered


def run_lowered(lowered: LoweredKernel, grid: tuple[int, int, int] | None = None, **arrays: Any) -> Any:
    """One launch in the interpreter: the value as NumPy arrays, Python numbers and tuples."""
    tensors = {name: value for name, value in arrays.items() if isinstance(value, np.ndarray)}
    scalars = {name: value for name, value in arrays.items() if name not in tensors}
    plan = lowered.plan
    sizes = evaluate(plan, {name: array.shape for name, array in tensors.items()}, scalars)
    results = []
    for result, dims, zeroed in zip(plan.results, sizes.results, sizes.zeroed, strict=True):
        dtype = NUMPY[result.dtype.value]
        if result.copy_of is not None:
            results.append(np.ascontiguousarray(tensors[result.copy_of]).copy())
        elif result.input is not None:
            results.append(tensors[result.input])
        else:
            results.append(np.zeros(dims, dtype) if zeroed else _poison(dims, dtype))
    arguments: list[Any] = []
    for place, argument in enumerate(plan.arguments):
        match argument:
            case TensorArgument(name=name):
                flat = lowered.function.parameters[place].type.rank != tensors[name].ndim
                assert not flat or argument.packed or tensors[name].flags.c_contiguous
                arguments.append(tensors[name].reshape(-1) if flat else tensors[name])
            case StrideArgument(name=name, axis=axis):
                arguments.append(tensors[name].strides[axis] // tensors[name].itemsize)
            case SizeArgument():
                arguments.append(sizes.size_arguments[place])
            case ScalarArgument(name=name):
                arguments.append(scalars[name])
            case ResultArgument(index=index):
                shape = lowered.function.parameters[place].type.rank
                arguments.append(results[index] if results[index].ndim == shape else results[index].reshape(-1))
            case WorkspaceArgument(dtype=dtype):
                arguments.append(_poison(sizes.workspaces[place], NUMPY["bool" if dtype == "i1" else dtype]))
    try:
        interpret(lowered.function, arguments, **({"grid": grid} if grid else {}))
    except KernelFault as fault:
        site = lowered.function.sites[fault.site]
        raise ZyntaxError(Diagnostic(site.code, site.message.format(*fault.values), site.span, site.label, hint=site.hint)) from None
    return _value(plan.results, results)


def _poison(dims: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    made = np.empty(dims, dtype)
    made.view(np.uint8).fill(0xAB if dtype != np.bool_ else 1) if made.size and made.ndim else made.fill(1)
    return made


def _value(plans: Any, results: list[np.ndarray]) -> Any:
    parts: list[Any] = []
    grouped: dict[int, list[Any]] = {}
    for plan, array in zip(plans, results, strict=True):
        one = array[()] if plan.scalar else array
        if plan.group == 0:
            parts.append(one)
        elif plan.group in grouped:
            grouped[plan.group].append(one)
        else:
            parts.append(grouped.setdefault(plan.group, [one]))
    closed = [tuple(part) if isinstance(part, list) else part for part in parts]
    return closed[0] if len(closed) == 1 else tuple(closed)


def run_block(text: str, dims: Mapping[str, Any] | None = None, **arrays: Any) -> Any:
    """Parse, lower, launch in the interpreter."""
    return run_lowered(lower_block(text, dims, **arrays), **arrays)


def errors_of(text: str, dims: Mapping[str, Any] | None = None, constants: bool = False, **arrays: Any) -> str:
    """All messages of lowering and of one launch, as shown; empty when there is none."""
    try:
        lowered = lower_block(text, dims, constants, **arrays)
        run_lowered(lowered, **arrays)
    except ZyntaxError as error:
        return "\n\n".join(render(d, Sources(Source("kernel.zynml", text))) for d in error.diagnostics)
    return ""


def warnings_of(text: str, dims: Mapping[str, Any] | None = None, **arrays: Any) -> str:
    lowered = lower_block(text, dims, **arrays)
    return "\n\n".join(render(d, Sources(Source("kernel.zynml", text))) for d in lowered.warnings)
