"""Axes of one element, left out of a sum of products: a matrix of one column is a vector, a window of one tap none. What schedules ask of a
field, whether it has rows and columns, whether a sum runs along one axis, is then asked of what there is. A product without rows or without
columns is a reduction as any other."""

from collections.abc import Sequence
from typing import Any

from compiler.analysis.recognise import product_sum
from compiler.hir.affine import Affine
from compiler.hir.core import Contract, Reduce
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Effect, Value
from compiler.hir.memory import Load, Store
from compiler.hir.module import HirFunction
from compiler.hir.types import HirType, Mem, Tile
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.terms_of_products import terms_of_products
from compiler.schedule.materialise import common_axes
from runtime.records import evolve


def without_single_elements(field: HirFunction, facts: Facts) -> HirFunction:
    """The field (form F) without such axes of the sum, of rows where there is but one, or of columns, and without dims that its parameters
    have of one element behind all others; itself where it has none, or isn't one sum of products."""
    ops = field.body.body
    reductions = [op for op in ops if isinstance(op, Reduce | Contract)]
    single = {axis for axis, extent in field.axes.items() if _is_one(extent, facts)}
    if not single or field.loops or len(reductions) != 1 or product_sum(reductions[0]) is None:
        return field
    if any(op.regions or (op.effects is not Effect.PURE and not isinstance(op, Load | Store | Reduce | Contract)) for op in ops):
        return field
    sum = product_sum(reductions[0])
    assert sum is not None
    summed = {axis for axis in sum.k if axis in single}
    sides = {axis for side in (sum.m, sum.n) if single.issuperset(side) for axis in side}
    single = (summed - ({*sum.k[:1]} if len(summed) == len(sum.k) else set())) | sides
    if not single or single.issuperset(common_axes(field)):
        return field
    left = _rebuilt(field, single, facts)
    sums = [product for op in left.body.body if (product := product_sum(op)) is not None]
    return left if all(sum.m and sum.n for sum in sums) else terms_of_products(left)


def _is_one(extent: Affine, facts: Facts) -> bool:
    """Whether an extent is known to be 1."""
    return facts.exact.issuperset(extent.names) and facts.about(extent) == 1


def _rebuilt(field: HirFunction, single: set[str], facts: Facts) -> HirFunction:
    copy = FieldCopy(field, dict.fromkeys(single, Affine()))
    for axis, extent in field.axes.items():
        if axis not in single:
            copy.function.axis(axis, extent)
    accesses = [op for op in field.body.body if isinstance(op, Load | Store)]
    types: dict[Value, HirType] = {}
    dims: dict[Value, range] = {}
    for parameter in field.parameters:
        own = [op for op in accesses if op.mem is parameter]
        if not isinstance(parameter.type, Mem) or parameter.type.swizzle is not None:
            continue
        if not any(isinstance(op, Load) and op.pad is not None for op in own):
            dims[parameter] = range(_left(parameter.type, [[copy.form(form) for form in op.index] for op in own], facts))
            types[parameter] = _with_dims(parameter.type, dims[parameter])
    copy.parameters(types)
    for op in field.body.body:
        changes: dict[str, Any] = {}
        if isinstance(op, Load | Store) and op.mem in dims:
            changes["index"] = tuple(copy.form(op.index[dim]) for dim in dims[op.mem])
        elif isinstance(op, Reduce | Contract):
            changes["over"] = tuple(axis for axis in op.over if axis not in single)
        elif isinstance(type_ := getattr(op, "type", None), Tile):
            changes["type"] = evolve(type_, axes=tuple(pair for pair in type_.axes if pair[0] not in single))
        copy.copy(op, **changes)
    return copy.finish()


def _left(mem: Mem, indices: Sequence[Sequence[Affine]], facts: Facts) -> int:
    """How many dims are left without those of one element behind all others."""
    count = mem.rank
    while count > 1 and _is_one(mem.dims[count - 1], facts) and all(index[count - 1] == Affine() for index in indices):
        count -= 1
    return count


def _with_dims(mem: Mem, dims: range) -> Mem:
    strides = None if mem.strides is None else tuple(mem.strides[dim] for dim in dims)
    return evolve(mem, dims=tuple(mem.dims[dim] for dim in dims), strides=strides)
