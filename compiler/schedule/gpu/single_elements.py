"""Axes of one element, left out of a sum of products: a matrix of one column is a vector, a window of one tap none. What schedules ask of a
field, whether it has rows and columns, whether a sum runs along one axis, is then asked of what there is. A
product without rows or without columns is a reduction as any other."""

from typing import Any

from compiler.analysis.recognise import product_sum
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.core import Contract, Reduce
from compiler.hir.instruction import Effect, Value
from compiler.hir.memory import Load, Store
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Tile
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
    out = FunctionBuilder(field.name, field.form)
    for axis, extent in field.axes.items():
        if axis not in single:
            out.axis(axis, extent)
    accesses = [op for op in field.body.body if isinstance(op, Load | Store)]
    first: dict[str, Affine | str] = {axis: Affine() for axis in single}
    values: dict[Value, Value] = {}
    dims: dict[Value, list[int]] = {}
    for parameter in field.parameters:
        type = parameter.type
        if isinstance(type, Mem):
            indices = [[form.substitute(first) for form in op.index] for op in accesses if op.mem is parameter]
            count = type.rank
            while count > 1 and _is_one(type.dims[count - 1], facts) and all(index[count - 1] == Affine() for index in indices):
                count -= 1
            left = [*range(count)]
            if type.swizzle is None and not any(isinstance(op, Load) and op.mem is parameter and op.pad is not None for op in accesses):
                dims[parameter] = left
                strides = None if type.strides is None else tuple(type.strides[n] for n in left)
                type = evolve(type, dims=tuple(type.dims[n] for n in left), strides=strides)
        values[parameter] = out.parameter(parameter.name, type)
    for op in field.body.body:
        changes: dict[str, Any] = {}
        if isinstance(op, Load | Store) and op.mem in dims:
            changes["index"] = tuple(op.index[n].substitute(first) for n in dims[op.mem])
        elif isinstance(op, Reduce | Contract):
            changes["over"] = tuple(axis for axis in op.over if axis not in single)
        elif isinstance(type_ := getattr(op, "type", None), Tile):
            changes["type"] = evolve(type_, axes=tuple(pair for pair in type_.axes if pair[0] not in single))
        copy = rebuilt(op, values.__getitem__, lambda form: form.substitute(first), **changes)
        copied = out.body.emit(copy, op.results[0].name if op.results else "")
        values.update(zip(op.results, copied.results, strict=True))
    new = out.finish()
    new.stands_for(field)
    return new
