"""What of a compute block's inputs decides how it is compiled: its signature, from values at a launch, from types when a program is
checked, or assumed when it is only shown."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.lowering.kernel import ScalarInput, Signature, TensorInput
from compiler.typed_ast import nodes
from compiler.typed_ast.constants import names_needing_values, walk
from compiler.typed_ast.types import (
    DType,
    FunctionType,
    ListType,
    Scalar,
    ShapeExpr,
    StaticShape,
    SymbolicShape,
    TensorType,
    Type,
    UnknownType,
)
from runtime.tensor import Tensor, dtype_name


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
        value = as_tensor(value)
        if isinstance(value, Tensor):
            contiguous = value.is_contiguous
            tensors.append(
                TensorInput(
                    name,
                    _dtype_of(value.dtype, name, span),
                    _dims_told(declared.get(name), len(value.shape)),
                    contiguous=contiguous,
                    mutable=entry is not None and entry.mutable,
                    captured=entry is None,
                    span=span,
                    dense_rows=not contiguous and value.rows_are_dense,
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


def as_tensor(value: Any) -> Any:
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


def _dims_told(type: Type | None, rank: int) -> tuple[str | int | None, ...]:
    """What the declared type tells of dims: a name, which is a size inside the block, or a number among names (`tensor[K, C, 3, 3]`)."""
    if isinstance(type, TensorType) and isinstance(type.shape, SymbolicShape) and type.shape.rank == rank:
        return tuple(None if dim is None else _told(dim) for dim in type.shape.dims)
    return (None,) * rank


def _told(dim: ShapeExpr) -> str | int | None:
    if not dim.terms:
        return dim.constant
    ((name, coefficient), *others) = dim.terms
    return name if coefficient == 1 and not others and not dim.constant else None


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
                dims: tuple[Any, ...] = _dims_told(type, shape.rank)
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
    """The signature to show a block under when types leave it open: unknown elements count as f32, or as ints where the block indexes
    with them; an unknown rank is that of the block's own indices, an outer name that is never indexed is an int, and an int whose
    value decides what is compiled is 1."""
    inputs = {entry.name: entry for entry in compute.inputs}
    ranks = {
        node.value.name: len(node.indices)
        for node in walk(compute.body)
        if isinstance(node, nodes.Index) and isinstance(node.value, nodes.Name)
    }
    constants = names_needing_values(compute)
    positions = _names_of_positions(compute.body)
    tensors, scalars = [], []
    for name in dict.fromkeys((*inputs, *names)):
        entry = inputs.get(name)
        type = entry.value.type if entry is not None else scope.get(name)
        span = entry.span if entry else compute.span
        unknown = DType.I64 if name in positions else DType.F32
        match type:
            case None:
                continue
            case Scalar(dtype):
                scalars.append(ScalarInput(name, dtype, 1 if name in constants else None, entry is None, span))
            case TensorType(element, shape):
                dtype = element.dtype if isinstance(element, Scalar) else unknown
                rank = shape.rank if shape.rank is not None else ranks.get(name, 1)
                dims: tuple[Any, ...] = shape.dims if isinstance(shape, StaticShape) else _dims_told(type, rank)
                tensors.append(TensorInput(name, dtype, dims, True, entry is not None and entry.mutable, entry is None, span))
            case UnknownType() if name in ranks:
                dims = (None,) * ranks[name]
                tensors.append(TensorInput(name, unknown, dims, True, entry is not None and entry.mutable, entry is None, span))
            case UnknownType():
                scalars.append(ScalarInput(name, DType.I64, 1 if name in constants else None, entry is None, span))
            case ListType():
                dtype, rank = _of_list(type, unknown)
                dims = (None,) * rank
                tensors.append(TensorInput(name, dtype, dims, True, entry is not None and entry.mutable, entry is None, span))
            case _:
                continue
    return Signature(tensors, scalars, functions)


def _names_of_positions(body: nodes.Node) -> set[str]:
    """Names whose values a block indexes with, itself or by way of its own variables."""
    found = {name for node in walk(body) if isinstance(node, nodes.Index) for index in node.indices for name in _names(index)}
    flows = [(pair[0], _names(pair[1])) for node in walk(body) if (pair := _written(node)) is not None]
    before = -1
    while before != len(found):
        before = len(found)
        for target, sources in flows:
            if target in found:
                found |= sources
    return found


def _names(node: nodes.Node) -> set[str]:
    return {inner.name for inner in walk(node) if isinstance(inner, nodes.Name)}


def _written(node: nodes.Node) -> tuple[str, nodes.Node] | None:
    """The variable that a statement writes, and what it writes."""
    match node:
        case nodes.Let(pattern=nodes.BindingPattern(name=name), value=nodes.Expression() as value):
            return name, value
        case nodes.Assign(target=nodes.Name(name=name), value=value):
            return name, value
        case _:
            return None


def _of_list(type: ListType, unknown: DType) -> tuple[DType, int]:
    """Elements and rank of the tensor that `as_tensor` makes of such a list."""
    rank, element = 1, type.element
    while isinstance(element, ListType):
        rank, element = rank + 1, element.element
    dtype = element.dtype if isinstance(element, Scalar) else unknown
    return DType.F32 if dtype is DType.F64 else dtype, rank


def _is_callable(type: Type) -> bool:
    return isinstance(type, FunctionType)


def layout_of(name: str, value: Any, constants: frozenset[str]) -> Any:
    """What of a value decides which kernel runs: quick to compute, coarser than a signature by nothing."""
    if isinstance(value, np.ndarray):
        value = Tensor(value)
    if type(value) is Tensor:
        return name, value.dtype, len(value.shape), value.is_contiguous or ("rows" if value.rows_are_dense else "")
    if name in constants:
        return name, type(value), value
    if isinstance(value, list):
        return name, tuple(_shape_of(value)), _first_type(value)
    return name, type(value)


def _shape_of(value: Any) -> list[int]:
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    return shape


def _first_type(value: Any) -> Any:
    return as_tensor(value).dtype.name
