"""Sums of products whose operands are computed: `max(A[i, k], 0) * B[k, j]`, weights of 8 bits times a scale, only the terms of a triangle.
What an operand is for all elements of the other's axis alike is computed once, into a workspace, which is then multiplied as any memory
is. A condition goes with the operand whose axes it knows: there its terms are zeros, and where the other's infinities and NaN show that
zeros weren't enough, a tile is computed again as the nest is written."""

from collections.abc import Sequence
from itertools import chain
from math import prod

from compiler.analysis.accesses import conjuncts, constraints_of
from compiler.analysis.recognise import instructions_below, only_product, product_sum
from compiler.hir.affine import Affine
from compiler.hir.alignment import steps_by_one
from compiler.hir.core import Binary, Cast, Contract, Reduce, dtype_of, names_of_axes
from compiler.hir.field_copy import FieldCopy, FreshNames
from compiler.hir.hopper import WARPGROUP_KINDS, kind_of
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of, is_float
from compiler.schedule.gpu.cuts.workspaces import Computed
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.need import needed
from compiler.schedule.gpu.products.copied_operands import REUSED, WORTH
from compiler.schedule.gpu.products.product_sums import SumOfLoads, unguarded
from compiler.schedule.gpu.rewrites.scaled_sums import ScaledSum, is_exact_in, narrow_sum
from compiler.schedule.gpu.tiles.taking_part import restricting
from runtime.records import evolve, frozen


@frozen(eq=False)
class ComputedOperands:
    """What is computed first, the field that reads it, and its sum."""

    made: tuple[Computed, ...]
    field: HirFunction
    found: SumOfLoads


@frozen(eq=False)
class _Factor:
    """A factor of the sum: as it is multiplied; without its last conversion; the type that it loses nothing in, of those that tensor cores
    multiply; and what must hold of its place, else the product counts nothing."""

    whole: Value
    value: Value
    dtype: str
    guards: tuple[Value, ...] = ()
    inside: tuple[Affine, ...] = ()
    """Forms of the same that are at least 0."""
    across: bool = False
    """Whether it is bytes that don't lie along the sum: no instruction reads those as they lie."""

    @property
    def is_load(self) -> bool:
        op = self.value.source
        return isinstance(op, Load) and op.where is None and op.pad is None

    @property
    def is_memory(self) -> bool:
        """Whether it is an element of memory and no more, multiplied as it lies."""
        return self.is_load and not (self.guards or self.inside or self.across)

    def axes(self, function: HirFunction) -> set[str]:
        own = names_of_axes(self.value, *self.guards)
        return own | {axis for form in self.inside for axis in form.names if axis in function.axes}


def computed_operands(function: HirFunction, facts: Facts) -> ComputedOperands | None:
    """The field with those operands of its one sum of products computed first that are more than elements of memory; None where that is
    no such sum, or one too small for further launches."""
    narrow = narrow_sum(function)
    scaled = narrow if narrow is not None and narrow.scale is not None else None
    described = only_product(function) if scaled is None else scaled.described
    if described is None or not (described.m and described.n) or described.windows:
        return None
    target = described.op
    if isinstance(target, Contract) and target.accumulator is not None:
        return None
    to = target.to if isinstance(target, Contract) else dtype_of(target.values[0])
    factors = _factors(function, target, to) if scaled is None else [_narrowed(one, scaled.dtype) for one in (described.a, described.b)]
    about = {axis: facts.about(extent) for axis, extent in function.axes.items()}
    reused = min(prod(about[axis] for axis in axes) for axes in (described.m, described.n))
    wanted = function.kernel_info is not None and function.kernel_info.tensor_cores
    if factors is None or (not wanted and (reused < REUSED or prod(about.values()) < WORTH)):
        return None
    factors = [evolve(factor, across=_is_across(factor, described.k)) for factor in factors]
    left, right = (factor.dtype for factor in factors)
    if scaled is None and all(factor.is_memory for factor in factors) and (left == right or kind_of(left, right) is not None):
        return None
    if len({factor.dtype for factor in factors}) > 1:
        factors = [evolve(factor, value=factor.whole, dtype=dtype_of(factor.whole)) for factor in factors]
    summed = sorted(described.k, key=about.__getitem__)
    return _rewritten(function, target, to, factors, summed, scaled)


def _factors(function: HirFunction, target: Contract | Reduce, to: str) -> list[_Factor] | None:
    """Both factors, with the conditions that are theirs alone; None where one is of both."""
    if isinstance(target, Contract):
        return [_factor(function, operand, to) for operand in (target.a, target.b)]
    value, guards = unguarded(target.values[0])
    product = value.source
    if not isinstance(product, Binary) or product.operator != "mul" or (is_float(to) and "reassoc" not in target.flags):
        return None
    factors = (product.left, product.right)
    own: list[list[Value]] = [[], []]
    inside: list[list[Affine]] = [[], []]
    for guard in chain.from_iterable(map(conjuncts, guards)):
        forms = constraints_of(guard)
        for form in [None] if forms is None else restricting(forms, function.axes):
            axes = names_of_axes(guard) if form is None else {*form.names} & {*function.axes}
            position = next((position for position, operand in enumerate(factors) if axes <= names_of_axes(operand)), None)
            if position is None:
                return None
            if form is None:
                own[position].append(guard)
            else:
                inside[position].append(form)
    return [_factor(function, operand, to, guards, forms) for operand, guards, forms in zip(factors, own, inside, strict=True)]


def _is_across(factor: _Factor, summed: Sequence[str]) -> bool:
    op = factor.value.source
    if not isinstance(op, Load) or bytes_of(mem_of(op.mem).dtype) > 1:
        return False
    return not any(steps_by_one(mem_of(op.mem), op.index, axis) for axis in summed)



def _factor(function: HirFunction, whole: Value, to: str, guards: Sequence[Value] = (), inside: Sequence[Affine] = ()) -> _Factor:
    """A factor of a sum in this type."""
    for narrow, kind in WARPGROUP_KINDS.items():
        if kind.sums == to and narrow != to and is_exact_in(function, whole, narrow):
            return evolve(_narrowed(whole, narrow), guards=tuple(guards), inside=tuple(inside))
    return _Factor(whole, whole, dtype_of(whole), tuple(guards), tuple(inside))


def _narrowed(whole: Value, narrow: str) -> _Factor:
    """A factor that this type holds."""
    op = whole.source
    return _Factor(whole, op.value if isinstance(op, Cast) and dtype_of(op.value) == narrow else whole, narrow)


def _rewritten(
    function: HirFunction,
    target: Contract | Reduce,
    to: str,
    factors: Sequence[_Factor],
    summed: Sequence[str],
    scaled: ScaledSum | None,
) -> ComputedOperands:
    """The field that reads what is computed: along the other axes first, the longest of the sum's last."""
    names = FreshNames(function)
    computed: dict[Value, Computed] = {}
    for factor, name in zip(factors, ("left", "right"), strict=True):
        if not factor.is_memory:
            extents = tuple((axis, function.axes[axis]) for axis in _order(function, factor, summed))
            computed[factor.value] = Computed(
                names.fresh(name), extents, function, factor.value, factor.dtype, factor.guards, factor.inside
            )
    out = FieldCopy(function)
    out.parameters()
    memories = {value: out.function.parameter(one.name, evolve(one.mem, readonly=True)) for value, one in computed.items()}
    out.axes()
    loads = {value: out.body.load(memory, [axis for axis, _ in computed[value].axes]) for value, memory in memories.items()}
    for value, load in loads.items():
        out.put(value, out.body.cast(load, dtype_of(value)))
    for op in needed(function, known=computed):
        out.copy(op)
    field = out.finish()
    sum = out.values[target.results[0]].source
    assert isinstance(sum, Contract | Reduce)
    a, b = (loads.get(one.value, out.values[one.value]).source for one in factors)
    assert isinstance(a, Load) and isinstance(b, Load)
    bounds = tuple(form for one in factors for form in one.inside)
    if scaled is None or scaled.scale is None:
        described, scale = product_sum(sum), None
    else:
        described = evolve(scaled.described, op=sum, a=a.result, b=b.result)
        scale = evolve(scaled.scale, values=tuple(out.values[one] for one in scaled.scale.values))
    assert described is not None
    found = SumOfLoads(sum, to, a, b, described, bounds=bounds, has_zeros=True, scale=scale)
    return ComputedOperands(tuple(computed.values()), field, found)


def _order(function: HirFunction, factor: _Factor, summed: Sequence[str]) -> list[str]:
    """The axes of what is computed: those of the sum last, unless it is of 16 bits, which are multiplied either way, and the most of what
    it is computed from lies otherwise."""
    own = factor.axes(function)
    order = [*(axis for axis in function.axes if axis in own and axis not in summed), *(axis for axis in summed if axis in own)]
    loads = [op for op in instructions_below(factor.value) if isinstance(op, Load) and op.index]
    if loads and bytes_of(factor.dtype) == 2:
        load = max(loads, key=lambda load: len({axis for form in load.index for axis in form.names} & own))
        order.sort(key=lambda axis: load.index[-1].coefficient(axis) == 1)
    return order
