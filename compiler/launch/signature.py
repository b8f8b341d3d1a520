"""What of a compute block's inputs decides how it is compiled and called. From values: the signature, which decides the kernel, and the
call's key, which decides the plan of a call, too. From types alone: the signature when a program is checked, or is only shown."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.affine import Affine
from compiler.lowering.kernel import ScalarInput, Signature, TensorInput
from compiler.machines.access import ALIGNMENT
from compiler.typed_ast import nodes
from compiler.typed_ast.constants import names_needing_values
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
from compiler.typed_ast.walk import walk
from runtime.records import evolve
from runtime.tensor import Tensor, dtype_name

# ---- from values ----


def as_tensor(value: Any) -> Any:
    """The tensor that an array or a list stands for; other values as they are."""
    if isinstance(value, np.ndarray):
        return Tensor(value)
    if isinstance(value, list):
        try:
            array = np.array(value)
        except ValueError:
            raise ZyntaxError(Diagnostic("0301", "the rows of the list have different lengths")) from None
        return Tensor(array.astype(np.float32) if array.dtype == np.float64 else array)
    return value


def tensor_layout(tensor: Tensor) -> tuple[np.dtype[Any], int, bool, int | None]:
    """Dtype and rank of a tensor, and whether all elements lie side by side, or else along which axis they do."""
    contiguous = tensor.is_contiguous
    return tensor.dtype, len(tensor.shape), contiguous, None if contiguous else tensor.dense_axis


def kernel_key(value: Any, constant: bool) -> Hashable:
    """What of a value decides the kernel: the layout of a tensor, the type of a number, and its value where that is a `constant` of the
    compilation."""
    tensor = as_tensor(value)
    if tensor.__class__ is Tensor:
        return tensor_layout(tensor)
    kind: Any = type(value)
    return (kind, value) if constant else kind


def call_key(value: Any, constant: bool) -> Any:
    """What of a value decides the plan of a call besides: extents, strides and alignment of a tensor, and the value of an int. `value` is
    no list or array."""
    kind = value.__class__
    if kind is Tensor:
        remote = value.remote
        if remote is None:
            return value.dtype, value.shape, value.byte_strides
        return remote.layout, remote.address % ALIGNMENT == 0
    if constant or not isinstance(value, float | np.floating):
        return (kind, value) if isinstance(value, bool | int | float | np.generic) else kind
    return kind


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
            dtype, rank, contiguous, dense = tensor_layout(value)
            mutable = entry is not None and entry.mutable
            dims = _fixed_dims(compute, _declared_dims(declared.get(name), rank))
            tensors.append(
                TensorInput(name, _dtype_of(dtype, name, span), dims, contiguous, mutable, entry is None, span, dense)
            )
        elif isinstance(value, bool | int | float | np.generic):
            constant = value.item() if isinstance(value, np.generic) else value
            scalars.append(
                ScalarInput(name, _scalar_dtype(value, name, span), constant if name in constants else None, entry is None, span)
            )
        elif entry is not None:
            kind = type(value).__name__
            raise ZyntaxError(Diagnostic("0203", f"`{name}` can't go into a compute block", span, f"a {kind}, not a tensor or number"))
    return Signature(_without_open_quotients(tensors), scalars, functions)


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


def _declared_dims(type: Type | None, rank: int) -> tuple[str | int | Affine | None, ...]:
    """The dims that the declared type gives: a name, which is a size inside the block, a form of one (`tensor[2*H]`), or a number among
    names (`tensor[K, C, 3, 3]`)."""
    if isinstance(type, TensorType) and isinstance(type.shape, StaticShape) and len(type.shape.dims) == rank:
        return type.shape.dims
    if isinstance(type, TensorType) and isinstance(type.shape, SymbolicShape) and type.shape.rank == rank:
        return tuple(None if dim is None else _declared_dim(dim) for dim in type.shape.dims)
    return (None,) * rank


def _declared_dim(dim: ShapeExpr) -> str | int | Affine | None:
    """A form of several names is left out: none of them follows from the extent alone."""
    if not dim.terms:
        return dim.constant
    return dim.name or (affine_form(dim) if len(dim.names) == 1 else None)


def _without_open_quotients(tensors: list[TensorInput]) -> list[TensorInput]:
    """The tensors without dims that are quotients of a size which is an axis of none of them: such an extent doesn't tell the size."""
    named = {dim for tensor in tensors for dim in tensor.dims if isinstance(dim, str)}

    def is_open(dim: str | int | Affine | None) -> bool:
        return isinstance(dim, Affine) and any(not isinstance(symbol, str) and named.isdisjoint(dim.names) for symbol, _ in dim.terms)

    return [
        evolve(tensor, dims=tuple(None if is_open(dim) else dim for dim in tensor.dims)) if any(map(is_open, tensor.dims)) else tensor
        for tensor in tensors
    ]


def affine_form(dim: ShapeExpr) -> Affine:
    """A declared dim as the form of its size names that launches compute."""
    form = Affine.of(dim.constant)
    for term, coefficient in dim.terms:
        form += (Affine.of(term) if isinstance(term, str) else affine_form(term.numerator).floordiv(term.divisor)) * coefficient
    return form


def _fixed_dims(compute: nodes.Compute, dims: tuple[Any, ...]) -> tuple[Any, ...]:
    """The extents on which code may rely: of a block that is split over devices no number, as each of them has a range of an axis."""
    is_split = compute.kernel is not None and compute.kernel.parallel is not None
    return tuple(None if is_split and isinstance(dim, int) else dim for dim in dims)


# ---- from types ----


def static_signature(
    compute: nodes.Compute, scope: Mapping[str, Type], names: tuple[str, ...], functions: Mapping[str, nodes.Function]
) -> Signature | None:
    """The signature as far as types say, or None when a dtype or rank is only known at run time."""
    return _typed_signature(compute, scope, names, functions, assumed=False)


def assumed_signature(
    compute: nodes.Compute, scope: Mapping[str, Type], names: tuple[str, ...], functions: Mapping[str, nodes.Function]
) -> Signature:
    """The signature to show a block under when types leave it open: unknown elements count as f32, or as ints where the block indexes
    with them; an unknown rank is that of the block's own indices, an outer name that is never indexed is an int, and an int whose
    value decides what is compiled is 1."""
    signature = _typed_signature(compute, scope, names, functions, assumed=True)
    assert signature is not None
    return signature


def _typed_signature(
    compute: nodes.Compute, scope: Mapping[str, Type], names: tuple[str, ...], functions: Mapping[str, nodes.Function], assumed: bool
) -> Signature | None:
    inputs = {entry.name: entry for entry in compute.inputs}
    constants = names_needing_values(compute)
    ranks = _ranks_of_indexed(compute.body) if assumed else {}
    indices = _names_of_indices(compute.body) if assumed else set()
    tensors, scalars = [], []
    for name in dict.fromkeys((*inputs, *names)):
        entry = inputs.get(name)
        type = entry.value.type if entry is not None else scope.get(name)
        span = entry.span if entry else compute.span
        unknown = DType.I64 if name in indices else DType.F32
        dims: tuple[Any, ...]
        match type:
            case None:
                continue
            case Scalar(dtype) if assumed or name not in constants:
                scalars.append(ScalarInput(name, dtype, 1 if name in constants else None, entry is None, span))
                continue
            case TensorType(element, shape) if assumed or (isinstance(element, Scalar) and shape.rank is not None):
                dtype = element.dtype if isinstance(element, Scalar) else unknown
                rank = shape.rank if shape.rank is not None else ranks.get(name, 1)
                dims = shape.dims if isinstance(shape, StaticShape) else _declared_dims(type, rank)
            case UnknownType() if name in ranks:
                dtype, dims = unknown, (None,) * ranks[name]
            case UnknownType() if assumed:
                scalars.append(ScalarInput(name, DType.I64, 1 if name in constants else None, entry is None, span))
                continue
            case ListType() if assumed:
                dtype, rank = _of_list(type, unknown)
                dims = (None,) * rank
            case _ if assumed or (entry is None and isinstance(type, FunctionType)):
                continue
            case _:
                return None
        dims = _fixed_dims(compute, dims)
        tensors.append(TensorInput(name, dtype, dims, True, entry is not None and entry.mutable, entry is None, span))
    return Signature(_without_open_quotients(tensors), scalars, functions)


def _ranks_of_indexed(body: nodes.Node) -> dict[str, int]:
    """How many indices a block gives to each name that it indexes."""
    indexed = (node for node in walk(body) if isinstance(node, nodes.Index))
    return {node.value.name: len(node.indices) for node in indexed if isinstance(node.value, nodes.Name)}


def _names_of_indices(body: nodes.Node) -> set[str]:
    """Names whose values a block indexes with, itself or by way of its own variables."""
    names = {name for node in walk(body) if isinstance(node, nodes.Index) for index in node.indices for name in _names(index)}
    flows = [(pair[0], _names(pair[1])) for node in walk(body) if (pair := _written(node)) is not None]
    before = -1
    while before != len(names):
        before = len(names)
        for target, sources in flows:
            if target in names:
                names |= sources
    return names


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
