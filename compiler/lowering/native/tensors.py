"""Tensors in native functions: the address of the first element, the extents and the distances between neighbours travel as numbers of
their own. The memory is the caller's; native code makes no tensor."""

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.hir.native_expressions import Expr, select
from compiler.hir.types import Array, HirType
from compiler.lowering.native.rules import TypeLowering
from compiler.lowering.native.values import InMemory, ScalarValue, Value, Whole
from compiler.typed_ast.exhaustiveness import Parts
from compiler.typed_ast.native_tensors import extents
from compiler.typed_ast.types import I64, TensorType, Type
from runtime.records import frozen

AXIS = "index {{0}} is out of range of axis {axis}: the axis has {{1}}, indices go from 0 to {{2}}"
"""The message of an index outside; `{2}` is the last index."""


@frozen
class TensorElements(Type):
    """The elements of a tensor, of which only the address travels."""

    element: Type

    def __str__(self) -> str:
        return f"elements of {self.element}"


def parts(found: TensorType) -> Parts:
    """As Python hands a tensor over: the elements, the extents, the distances in elements."""
    axes = range(found.shape.rank or 0)
    numbers = [(f"{what}{axis}", I64) for what in ("extent", "distance") for axis in axes]
    return (("elements", TensorElements(found.element)), *numbers)


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


def element(c: Any, tensor: Value, indices: Sequence[Expr]) -> InMemory:
    """An element; indices below 0 count from the end."""
    assert isinstance(tensor, Whole) and isinstance(tensor.type, TensorType)
    elements, rank = tensor.parts[0], len(indices)
    assert isinstance(elements, InMemory)
    at: Expr | None = None
    for axis, index in enumerate(indices):
        count, distance = extent(tensor, axis), tensor.parts[1 + rank + axis]
        assert isinstance(distance, ScalarValue)
        place = select(index < 0, index.wrapping_add(count), index)
        inside = place.cast("u64") < count.cast("u64")
        c.b.require(inside, index, count, code="0801", message=AXIS.format(axis=axis))
        step = place.wrapping_mul(distance.value)
        at = step if at is None else at.wrapping_add(step)
    assert at is not None
    return InMemory(tensor.type.element, c.b.row(elements.pointer, at, 0, proved=True))


def named_sizes(found: Type, tensor: Value) -> dict[str, ScalarValue]:
    """The sizes that a parameter's type names."""
    given = extents(found) if isinstance(found, TensorType) else None
    return {name: ScalarValue(I64, extent(tensor, axis)) for axis, name in enumerate(given or ()) if isinstance(name, str)}
