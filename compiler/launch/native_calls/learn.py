"""Plans from calls that went the way through the program.

A function has plans where its body is one compute block, whose value it returns or nothing; where each input of the block is one of its
parameters under any name, and each other name in the block a parameter or a size that its parameters' types name on its own in some
extent. The call says the rest: which kernel ran, on which arguments as they were given, and that its value was the function's."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from compiler.hir.affine import Affine
from compiler.launch.native_calls.plan import Argument, ArrayArgument, ArrayLayout, CallPlan, NumberArgument, Unplannable
from compiler.launch.native_calls.watch import CpuLaunch
from compiler.typed_ast import nodes
from compiler.typed_ast.shapes import dims_of
from compiler.typed_ast.types import UNIT, UNKNOWN, DType, FunctionType, Scalar, ShapeExpr, TensorType, TupleType, Type
from runtime.records import frozen
from runtime.tensor import NAMES, numpy_dtype

Kinds = tuple[Any, ...]


@frozen
class BlockFunction:
    """A function that is one block. `inputs`: the position of the parameter behind each of the block's names; `sizes`: position and axis
    where each size is read; `extents`: of each parameter, as declared."""

    compute: nodes.Compute
    type: FunctionType
    inputs: Mapping[str, int]
    sizes: Mapping[str, tuple[int, int]]
    extents: tuple[tuple[Affine | None, ...] | None, ...]


def block_function(function: nodes.Function, type: FunctionType, globals: Container[str]) -> BlockFunction | None:
    """The function as one block, `type` as declared; None where it is something else. `globals`: names that mean something outside."""
    body = function.body.statements if function.body is not None else ()
    block = body[0].value if len(body) == 1 and isinstance(body[0], nodes.Return | nodes.ExpressionStatement) else None
    if function.is_async or not isinstance(block, nodes.Compute) or (block.kernel is not None and block.kernel.is_async):
        return None
    positions = {parameter.name: position for position, parameter in enumerate(function.parameters)}
    inputs = dict(positions)
    for entry in block.inputs:
        if not isinstance(entry.value, nodes.Name) or entry.value.name not in positions:
            return None
        inputs[entry.name] = positions[entry.value.name]
    dims = [dims_of(one.shape) if isinstance(one, TensorType) else None for one in type.parameters]
    sizes: dict[str, tuple[int, int]] = {}
    for position, extents in enumerate(dims):
        for axis, extent in enumerate(extents or ()):
            if extent is not None and extent.constant == 0 and len(extent.terms) == 1 and extent.terms[0][1] == 1:
                sizes.setdefault(extent.terms[0][0], (position, axis))
    named = {name for extents in dims for extent in extents or () if extent is not None for name, _ in extent.terms}
    if named != sizes.keys() or any(name in globals for name in named) or not _is_passed_on(type.result):
        return None
    forms = tuple(None if extents is None else tuple(map(_form, extents)) for extents in dims)
    return BlockFunction(block, type, inputs, sizes, forms)


def _is_passed_on(result: Type) -> bool:
    """Whether a result of this type depends on nothing but its elements' type and its rank."""
    match result:
        case TensorType(shape=shape, device=device):
            return device is None and all(extent is None or extent.terms for extent in dims_of(shape) or ())
        case TupleType(elements=elements):
            return all(map(_is_passed_on, elements))
    return True


def _form(extent: ShapeExpr | None) -> Affine | None:
    return None if extent is None else Affine(extent.terms, extent.constant)


def kinds_of(values: Sequence[Any]) -> Kinds | None:
    """What of the arguments decides on a plan; None where one of them is neither NumPy's array nor Python's number."""
    kinds: list[Any] = []
    for value in values:
        kind = value.__class__
        if kind is np.ndarray:
            kinds.append((value.dtype, value.ndim, _layout_of(value)))
        elif kind is float or kind is int:
            kinds.append(kind)
        else:
            return None
    return tuple(kinds)


def _layout_of(array: Any) -> ArrayLayout:
    if array.flags.c_contiguous:
        return ArrayLayout.CONTIGUOUS
    return ArrayLayout.ROWS if array.strides[-1] == array.itemsize else ArrayLayout.STRIDED


def plan_of(function: BlockFunction, kinds: Kinds, given: Sequence[Any], launch: CpuLaunch, value: Any) -> CallPlan:
    """The plan of calls like this one, which took `given`, made this launch, and came to `value`. Raises Unplannable."""
    gives_nothing = function.type.result == UNIT and value is None
    if not (gives_nothing or _is_same(value, launch.value)):
        raise Unplannable("a value that isn't the block's")
    updated = {result.input for result in launch.kernel.lowered.plan.results if result.input is not None}
    inputs = {name: position for name, position in function.inputs.items() if name in launch.values}
    for name, taken in launch.values.items():
        if name in inputs:
            if isinstance(kinds[inputs[name]], tuple) and taken is not given[inputs[name]]:
                raise Unplannable("an array that is converted")
        elif name not in function.sizes:
            raise Unplannable("a name of the program's")
    written = {inputs[name] for name in updated}
    arguments = [_argument(function, kinds[position], position, position in written) for position in range(len(kinds))]
    return CallPlan(launch.kernel, launch.threads, arguments, inputs, function.sizes, gives_nothing)


def _is_same(value: Any, made: Any) -> bool:
    if isinstance(value, tuple) and isinstance(made, tuple) and len(value) == len(made):
        return all(map(_is_same, value, made))
    return value is made


def _argument(function: BlockFunction, kind: Any, position: int, updated: bool) -> Argument:
    declared = function.type.parameters[position]
    if isinstance(kind, tuple):
        dtype, rank, layout = kind
        extents = function.extents[position]
        dtype = numpy_dtype(NAMES[dtype])  # NumPy's own object
        if not (declared == UNKNOWN or (isinstance(declared, TensorType) and _takes(declared, dtype))):
            raise Unplannable("an array that is converted")
        if updated and layout is not ArrayLayout.CONTIGUOUS:
            raise Unplannable("an array with gaps that is updated")
        return ArrayArgument(dtype, rank, layout, (None,) * rank if extents is None else extents, updated)
    if isinstance(declared, Scalar):
        return NumberArgument(kind, declared.dtype)
    if declared != UNKNOWN:
        raise Unplannable("a number that becomes something else")
    return NumberArgument(kind, DType.F64 if kind is float else DType.I64)


def _takes(declared: TensorType, dtype: Any) -> bool:
    """Whether arrays of this dtype are taken as they are."""
    return declared.device is None and (not isinstance(declared.element, Scalar) or NAMES[dtype] == declared.element.dtype.value)
