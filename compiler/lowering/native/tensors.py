"""Tensors in native functions: the address of the first element, the extents and the distances between neighbours travel as numbers of
their own. The memory is the caller's, or on the heap of the run."""

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.hir.layout import size_of
from compiler.hir.native_expressions import Expr, select
from compiler.hir.types import Array, HirType
from compiler.lowering.native.rules import TypeLowering
from compiler.lowering.native.values import InMemory, ScalarValue, Value, Whole
from compiler.typed_ast.exhaustiveness import Parts
from compiler.typed_ast.native_tensors import extents, row_type
from compiler.typed_ast.types import I64, TensorType, TupleType, Type
from runtime.records import frozen

AXIS = "index {{0}} is out of range of axis {axis}: the axis has {{1}}, indices go from 0 to {{2}}"
"""The message of an index outside; `{2}` is the last index."""


@frozen
class TensorElements(Type):
    """The elements of a tensor, of which only the address travels."""

    element: Type

    def __str__(self) -> str:
        return f"elements of {self.element}"


@frozen
class Enumerated(TupleType):
    """What `enumerate` of a tensor gives, one pair after the other."""


def parts(type_: TensorType) -> Parts:
    """As Python hands a tensor over: the elements, the extents, the distances in elements."""
    axes = range(type_.shape.rank or 0)
    numbers = [(f"{what}{axis}", I64) for what in ("extent", "distance") for axis in axes]
    return (("elements", TensorElements(type_.element)), *numbers)


def _memory(layouts: Any, found: TensorElements) -> HirType:
    return Array(layouts.memory(found.element), None)


def _fit(holding: Any, value: Value, place: Type) -> Value | None:
    """The names of sizes change from function to function."""
    return Whole(place, value.parts) if isinstance(value, Whole) else None


TYPES: Mapping[type[Type], TypeLowering] = {
    TensorType: TypeLowering(parts=parts, apart=True, fit=_fit),
    TensorElements: TypeLowering(in_memory=lambda found: True, memory=_memory),
}


def extent(tensor: Value, axis: int) -> Expr:
    assert isinstance(tensor, Whole)
    found = tensor.parts[1 + axis]
    assert isinstance(found, ScalarValue)
    return found.value


def distance(tensor: Value, axis: int) -> Expr:
    """Between neighbours along an axis, in elements."""
    assert isinstance(tensor, Whole) and isinstance(tensor.type, TensorType)
    found = tensor.parts[1 + (tensor.type.shape.rank or 0) + axis]
    assert isinstance(found, ScalarValue)
    return found.value


def whole(c: Any, type: TensorType, elements: Expr, counts: Sequence[Expr], distances: Sequence[Expr]) -> Whole:
    """A tensor of its parts."""
    numbers = tuple(ScalarValue(I64, number) for number in (*counts, *distances))
    return Whole(type, (InMemory(TensorElements(type.element), c.b.of(elements.hir)), *numbers))


def element(c: Any, tensor: Value, indices: Sequence[Expr], checked: bool = True) -> InMemory:
    """An element. `checked`: indices may be outside, or below 0, where they count from the end."""
    assert isinstance(tensor, Whole) and isinstance(tensor.type, TensorType)
    return InMemory(tensor.type.element, c.b.row(_elements(tensor).pointer, _offset(c, tensor, indices, checked), 0, proved=True))


def part(c: Any, tensor: Value, indices: Sequence[Expr], checked: bool = True) -> Whole:
    """What the first indices leave of a tensor: the same memory."""
    assert isinstance(tensor, Whole) and isinstance(tensor.type, TensorType)
    axes, memory = range(len(indices), tensor.type.shape.rank or 0), c.layouts.memory(TensorElements(tensor.type.element))
    address, at = c.b.address(_elements(tensor).pointer), _offset(c, tensor, indices, checked)
    start = c.b.at_address(address.wrapping_add(at.wrapping_mul(size_of(memory.element))), memory)
    counts, distances = ([number(tensor, axis) for axis in axes] for number in (extent, distance))
    return whole(c, row_type(tensor.type, len(indices)), start, counts, distances)


def _elements(tensor: Whole) -> InMemory:
    elements = tensor.parts[0]
    assert isinstance(elements, InMemory)
    return elements


def _offset(c: Any, tensor: Value, indices: Sequence[Expr], checked: bool = True) -> Expr:
    """How far from the first element, in elements."""
    at: Expr | None = None
    for axis, index in enumerate(indices):
        position = index
        if checked:
            count = extent(tensor, axis)
            position = select(index < 0, index.wrapping_add(count), index)
            inside = position.cast("u64") < count.cast("u64")
            c.b.require(inside, index, count, code="0801", message=AXIS.format(axis=axis))
        step = position.wrapping_mul(distance(tensor, axis))
        at = step if at is None else at.wrapping_add(step)
    assert at is not None
    return at


def with_declared_extents(c: Any, type_: Type, tensor: Value) -> Value:
    """A parameter whose extents that are numbers in its type are these: Python has compared them."""
    given = extents(type_) if isinstance(type_, TensorType) else None
    if given is None or not isinstance(tensor, Whole):
        return tensor
    parts = list(tensor.parts)
    for axis, number in enumerate(given):
        if isinstance(number, int):
            parts[1 + axis] = c.constant(number, I64)
    return Whole(tensor.type, tuple(parts))


def named_sizes(type_: Type, tensor: Value) -> dict[str, ScalarValue]:
    """The sizes that a parameter's type names."""
    given = extents(type_) if isinstance(type_, TensorType) else None
    return {name: ScalarValue(I64, extent(tensor, axis)) for axis, name in enumerate(given or ()) if isinstance(name, str)}
