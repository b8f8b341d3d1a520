"""Axes of one element, left out of a sum of products: a matrix of one column is a vector, a window of one tap none. What schedules ask of a
field, whether it has rows and columns, whether a sum runs along one axis, is then asked of what there is. A product without rows or without
columns is a reduction as any other."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod

from compiler.analysis.recognise import product_sum
from compiler.hir.affine import Affine
from compiler.hir.core import Contract, Reduce
from compiler.hir.field_copy import FieldCopy, Places
from compiler.hir.instruction import Effect, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import HirType, Mem
from compiler.schedule.gpu.facts import NOTHING, Facts
from compiler.schedule.gpu.products.product_sums import sum_of_loads
from compiler.schedule.gpu.rewrites.residue_parts import without_known_guards
from compiler.schedule.gpu.rewrites.terms_of_products import terms_of_products
from compiler.schedule.materialise import common_axes
from runtime.records import evolve

LEAST = 64
"""Terms of a window from which on it is worth a plain product."""


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


def single_taps(field: HirFunction, sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The sizes of 1 that windows have: of one tap in each direction a window is a plain product, for which the kernel is made."""
    product = sum_of_loads(field)
    if product is None or not product.described.windows:
        return ()
    if not all(name in sizes for axis in product.described.k for name in field.axes[axis].names):
        return ()
    if prod(field.axes[axis].evaluate(sizes.__getitem__) for axis in product.described.k) < LEAST:
        return ()  # what takes windows of few terms is no product of matrices
    taps, places = dict[str, int](), dict[str, int]()
    for load in (product.a, product.b):
        for dim, form in zip(mem_of(load.mem).dims, load.index, strict=True):
            own = [axis for axis in form.names if axis in field.axes]
            short = {name for axis in own if axis in product.described.k for name in field.axes[axis].names if sizes.get(name) == 1}
            if len(own) > 1 and short:
                taps |= dict.fromkeys(short, 1)
                ends = [dim, *(field.axes[axis] for axis in own if axis not in product.described.k)]
                if len({end.substitute(dict.fromkeys(short, Affine((), 1))) for end in ends}) > 1:
                    places |= {name: sizes[name] for end in ends for name in end.names if name in sizes}
    return tuple(sorted((places | taps).items()))


def without_single_taps(field: HirFunction) -> HirFunction:
    """The field of a window without axes of one tap, where it has such."""
    product = sum_of_loads(field)
    left = field if product is None or not product.described.windows else without_single_elements(field, NOTHING)
    return left if left is field else without_known_guards(left)


def _is_one(extent: Affine, facts: Facts) -> bool:
    """Whether an extent is known to be 1."""
    return facts.exact.issuperset(extent.names) and facts.about(extent) == 1


def _rebuilt(field: HirFunction, single: set[str], facts: Facts) -> HirFunction:
    copy = FieldCopy(field, dict.fromkeys(single, Affine()))
    for axis, extent in field.axes.items():
        if axis not in single:
            copy.function.axis(axis, extent)
    accesses = [op for op in field.body.body if isinstance(op, Load | Store)]

    def kept(left: int, index: tuple[Affine, ...]) -> list[Affine]:
        return [*map(copy.form, index[:left])]

    types: dict[Value, HirType] = {}
    places: dict[Value, Places] = {}
    for parameter in field.parameters:
        own = [op for op in accesses if op.mem is parameter]
        if not isinstance(parameter.type, Mem) or parameter.type.swizzle is not None:
            continue
        if not any(isinstance(op, Load) and op.pad is not None for op in own):
            left = _left(parameter.type, [[copy.form(form) for form in op.index] for op in own], facts)
            types[parameter] = _with_dims(parameter.type, range(left))
            places[parameter] = partial(kept, left)
    copy.parameters(types)
    return copy.viewed(places, single)


def _left(mem: Mem, indices: Sequence[Sequence[Affine]], facts: Facts) -> int:
    """How many dims are left without those of one element behind all others."""
    count = mem.rank
    while count > 1 and _is_one(mem.dims[count - 1], facts) and all(index[count - 1] == Affine() for index in indices):
        count -= 1
    return count


def _with_dims(mem: Mem, dims: range) -> Mem:
    strides = None if mem.strides is None else tuple(mem.strides[dim] for dim in dims)
    return evolve(mem, dims=tuple(mem.dims[dim] for dim in dims), strides=strides)
