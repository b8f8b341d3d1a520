"""Plans from calls that went the way through the program.

A function has plans where its body is a sequence of compute blocks: each but the last is the value of a `let`, or stands for what it
updates, and the last is the function's value, or nothing. Each input of a block is a parameter or an earlier block's value, under any name,
and each other name in a block one of these, or a size that the parameters' types name on its own in some extent. The call says the rest:
which kernels ran, on which values, and that what the last one made was the function's value."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from compiler.hir.affine import Affine
from compiler.launch.native_calls.kinds import Kinds
from compiler.launch.native_calls.plan import (
    Argument,
    ArrayArgument,
    CallPlan,
    EarlierResult,
    NumberArgument,
    Origin,
    PlannedLaunch,
    Unplannable,
)
from compiler.launch.native_calls.watch import CpuLaunch
from compiler.launch.signature import affine_form
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.shapes import dims_of
from compiler.typed_ast.types import UNIT, UNKNOWN, DType, FunctionType, Scalar, TensorType, TupleType, Type
from runtime.records import frozen
from runtime.tensor import dtype_name, numpy_dtype

OF_NUMPY: Mapping[type, DType] = {np.float32: DType.F32, np.float64: DType.F64}
"""Floats of NumPy's, which are passed on as they are."""


class OfBlock:
    """Stands for the value of an earlier block, among the names of a function."""


OF_BLOCK = OfBlock()


@frozen
class BlocksFunction:
    """A function that is a sequence of blocks. `names`: of each block, where the values of its names come from: a parameter, by its
    position, a size, or an earlier block; `sizes`: position and axis where each size is read; `extents`: of each parameter, as declared."""

    blocks: tuple[nodes.Compute, ...]
    type: FunctionType
    names: Mapping[Span, Mapping[str, int | str | OfBlock]]
    sizes: Mapping[str, tuple[int, int]]
    extents: tuple[tuple[Affine | None, ...] | None, ...]

    @property
    def count(self) -> int:
        return len(self.type.parameters)

    def plan(self, kinds: Kinds, given: Sequence[Any], launches: Sequence[CpuLaunch], value: Any) -> CallPlan:
        """The plan of calls like this one, which took `given`, made these launches, and came to `value`. Raises Unplannable."""
        return plan_of(self, kinds, given, launches, value)


def blocks_function(function: nodes.Function, type: FunctionType, globals: Container[str]) -> BlocksFunction | None:
    """The function as blocks, `type` as declared; None where it is something else. `globals`: names that mean something outside."""
    dims = [dims_of(parameter_type.shape) if isinstance(parameter_type, TensorType) else None for parameter_type in type.parameters]
    sizes: dict[str, tuple[int, int]] = {}
    for position, extents in enumerate(dims):
        for axis, extent in enumerate(extents or ()):
            if extent is not None and extent.name is not None:
                sizes.setdefault(extent.name, (position, axis))
    named = {name for extents in dims for extent in extents or () if extent is not None for name in extent.names}
    if function.is_async or named != sizes.keys() or any(name in globals for name in named) or not _is_passed_on(type.result):
        return None
    written = [parameter.annotation for parameter in function.parameters]
    if any(dim.bound is not None for syntax in written if isinstance(syntax, nodes.TensorTypeSyntax) for dim in syntax.dims or ()):
        return None  # the slow way compares
    known: dict[str, int | str | OfBlock] = {name: name for name in sizes}
    known.update({parameter.name: position for position, parameter in enumerate(function.parameters)})
    names: dict[Span, Mapping[str, int | str | OfBlock]] = {}
    blocks: list[nodes.Compute] = []
    statements = function.body.statements if function.body is not None else ()
    for number, statement in enumerate(statements):
        block = _block_of(statement, last=number == len(statements) - 1)
        if block is None or not all(isinstance(entry.value, nodes.Name) and entry.value.name in known for entry in block.inputs):
            return None
        names[block.span] = {
            **known,
            **{entry.name: known[entry.value.name] for entry in block.inputs if isinstance(entry.value, nodes.Name)},
        }
        blocks.append(block)
        if isinstance(statement, nodes.Let) and isinstance(statement.pattern, nodes.BindingPattern):
            known[statement.pattern.name] = OF_BLOCK
    forms = tuple(None if extents is None else tuple(e if e is None else affine_form(e) for e in extents) for extents in dims)
    return BlocksFunction(tuple(blocks), type, names, sizes, forms) if blocks else None


def _block_of(statement: nodes.Statement, last: bool) -> nodes.Compute | None:
    """The block that a statement is."""
    match statement:
        case nodes.Let(pattern=nodes.BindingPattern(), mutable=False, annotation=None, value=nodes.Compute() as block) if not last:
            if any(entry.mutable for entry in block.inputs):
                return None
        case nodes.ExpressionStatement(value=nodes.Compute() as block):
            pass
        case nodes.Return(value=nodes.Compute() as block) if last:
            pass
        case _:
            return None
    return None if block.kernel is not None and block.kernel.is_async else block


def _is_passed_on(result: Type) -> bool:
    """Whether a result of this type depends on nothing but its elements' type and its rank."""
    match result:
        case TensorType(shape=shape, device=device):
            return device is None and all(extent is None or extent.terms for extent in dims_of(shape) or ())
        case TupleType(elements=elements):
            return all(map(_is_passed_on, elements))
    return True


def plan_of(function: BlocksFunction, kinds: Kinds, given: Sequence[Any], launches: Sequence[CpuLaunch], value: Any) -> CallPlan:
    """The plan of calls like this one, which took `given`, made these launches, and came to `value`. Raises Unplannable."""
    if not launches:
        raise Unplannable("a call that launches nothing")
    gives_nothing = function.type.result == UNIT and value is None
    origin = None
    if not gives_nothing and not _is_same(value, launches[-1].value):
        origin = _result_of(value, launches)
    planned = [_planned(function, kinds, given, launches, number) for number in range(len(launches))]
    updated = {launch.inputs[name] for launch in planned for name in launch.kernel.updated}
    if not all(isinstance(origin, int) for origin in updated):
        raise Unplannable("a block's value that is updated")
    arguments = [_argument(function, kinds[position], position, position in updated) for position in range(len(kinds))]
    return CallPlan(launches[-1].threads, arguments, function.sizes, planned, None if origin is None else (origin,), gives_nothing)


def _planned(function: BlocksFunction, kinds: Kinds, given: Sequence[Any], launches: Sequence[CpuLaunch], number: int) -> PlannedLaunch:
    launch = launches[number]
    inputs: dict[str, Origin] = {}
    for name, taken in launch.values.items():
        block, own = launch.named(name)
        origin = OF_BLOCK if block is None else function.names.get(block, {}).get(own)
        if origin is None:
            raise Unplannable("a name of the program's")
        if isinstance(origin, OfBlock):
            inputs[name] = _result_of(taken, launches[:number])
            continue
        if isinstance(origin, int) and isinstance(kinds[origin], tuple) and taken is not given[origin]:
            raise Unplannable("an array that is converted")
        inputs[name] = origin
    return PlannedLaunch(launch.kernel, inputs)


def _result_of(value: Any, launches: Sequence[CpuLaunch]) -> EarlierResult:
    """The launch that made this very value, and which of its results it is."""
    for number, launch in enumerate(launches):
        values = launch.value if isinstance(launch.value, tuple) else (launch.value,)
        if all(result.group == 0 for result in launch.kernel.lowered.plan.results):
            for result, each in enumerate(values):
                if each is value:
                    return EarlierResult(number, result)
    raise Unplannable("a value that isn't a block's")


def _is_same(value: Any, result: Any) -> bool:
    if isinstance(value, tuple) and isinstance(result, tuple) and len(value) == len(result):
        return all(map(_is_same, value, result))
    return value is result


def _argument(function: BlocksFunction, kind: Any, position: int, updated: bool) -> Argument:
    declared = function.type.parameters[position]
    if isinstance(kind, tuple):
        dtype, rank, layout = kind
        extents = function.extents[position]
        dtype = numpy_dtype(dtype_name(dtype))  # NumPy's own object
        if not (declared == UNKNOWN or (isinstance(declared, TensorType) and _takes(declared, dtype))):
            raise Unplannable("an array that is converted")
        if updated and not layout.contiguous:
            raise Unplannable("an array with gaps that is updated")
        return ArrayArgument(dtype, rank, layout, (None,) * rank if extents is None else extents, updated)
    of_numpy = OF_NUMPY.get(kind)
    if isinstance(declared, Scalar) and of_numpy in (None, declared.dtype):
        return NumberArgument(kind, declared.dtype)
    if declared != UNKNOWN:
        raise Unplannable("a number that becomes something else")
    return NumberArgument(kind, of_numpy or (DType.F64 if kind is float else DType.I64))


def _takes(declared: TensorType, dtype: Any) -> bool:
    """Whether arrays of this dtype are taken as they are."""
    return declared.device is None and (not isinstance(declared.element, Scalar) or dtype_name(dtype) == declared.element.dtype.value)
