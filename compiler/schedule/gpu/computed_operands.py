"""Sums of products whose operands are computed: `max(A[i, k], 0) * B[k, j]`, weights of 8 bits times a scale, only the terms of a triangle.
What an operand is for all elements of the other's axis alike is computed once, into a workspace, which is then multiplied as any memory
is. A condition goes with the operand whose axes it knows: there its terms are zeros, and where the other's infinities and NaN show that
zeros weren't enough, a tile is computed again as the nest is written."""

from collections.abc import Iterable, Iterator, Sequence
from math import prod

from compiler.analysis.guards import conditions
from compiler.analysis.recognise import product_sum
from compiler.hir.affine import Affine
from compiler.hir.core import Binary, Cast, Const, Contract, Reduce, Scan, Select, Unary, dtype_of, union_axes
from compiler.hir.field_copy import FieldCopy
from compiler.hir.hopper import WARPGROUP_KINDS, kind_of
from compiler.hir.instruction import Value
from compiler.hir.memory import Load
from compiler.hir.module import HirFunction
from compiler.hir.types import is_float
from compiler.schedule.gpu.copied_operands import WORTH
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.need import needed
from compiler.schedule.gpu.product_sums import SumOfLoads, unguarded
from compiler.schedule.gpu.reading_copies import FreshNames
from compiler.schedule.gpu.workspaces import Computed
from runtime.records import evolve, frozen

REUSED = 16
"""Products of an element of an operand below which it's computed where it is multiplied."""

UNKNOWN = Affine((), -1)
"""A guard of which no form is known: it may leave out any term."""


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

    @property
    def is_memory(self) -> bool:
        """Whether it is an element of memory and no more."""
        op = self.value.source
        return isinstance(op, Load) and op.where is None and op.pad is None and not self.guards


def computed_operands(function: HirFunction, facts: Facts) -> ComputedOperands | None:
    """The field with those operands of its one sum of products computed first that are more than elements of memory; None where that is
    no such sum, or one too small for further launches."""
    sums = [op for op in function.body.body if isinstance(op, Contract | Reduce | Scan)]
    described = product_sum(sums[0]) if len(sums) == 1 else None
    if described is None or not (described.m and described.n) or described.windows:
        return None
    target = described.op
    if isinstance(target, Contract) and target.accumulator is not None:
        return None
    to = target.to if isinstance(target, Contract) else dtype_of(target.values[0])
    factors = _factors(target, to)
    about = {axis: facts.about(extent) for axis, extent in function.axes.items()}
    reused = min(prod(about[axis] for axis in axes) for axes in (described.m, described.n))
    if factors is None or reused < REUSED or prod(about.values()) < WORTH:
        return None
    left, right = (factor.dtype for factor in factors)
    if all(factor.is_memory for factor in factors) and (left == right or kind_of(left, right) is not None):
        return None
    if len({factor.dtype for factor in factors}) > 1:
        factors = [evolve(factor, value=factor.whole, dtype=dtype_of(factor.whole)) for factor in factors]
    summed = sorted(described.k, key=about.__getitem__)
    return _rewritten(function, target, to, factors, summed)


def _factors(target: Contract | Reduce, to: str) -> list[_Factor] | None:
    """Both factors, with the conditions that are theirs alone; None where one is of both."""
    if isinstance(target, Contract):
        return [_factor(operand, to, ()) for operand in (target.a, target.b)]
    value, guards = unguarded(target.values[0])
    product = value.source
    if not isinstance(product, Binary) or product.operator != "mul" or (is_float(to) and "reassoc" not in target.flags):
        return None
    factors = (product.left, product.right)
    own: list[list[Value]] = [[], []]
    for guard in _parts(guards):
        position = next((position for position, operand in enumerate(factors) if _axes(guard) <= _axes(operand)), None)
        if position is None:
            return None
        own[position].append(guard)
    return [_factor(operand, to, guards) for operand, guards in zip(factors, own, strict=True)]


def _axes(value: Value) -> set[str]:
    return {axis for axis, _ in union_axes(value)}


def _parts(guards: Iterable[Value]) -> Iterator[Value]:
    """As many conditions as there are that hold together where these do."""
    for guard in guards:
        op = guard.source
        if isinstance(op, Binary) and op.operator == "and":
            yield from _parts((op.left, op.right))
        else:
            yield guard


def _factor(whole: Value, to: str, guards: Sequence[Value]) -> _Factor:
    """A factor of a sum in this type."""
    for narrow, kind in WARPGROUP_KINDS.items():
        if kind.sums == to and narrow != to and _is_exact_in(whole, narrow):
            op = whole.source
            value = op.value if isinstance(op, Cast) and dtype_of(op.value) == narrow else whole
            return _Factor(whole, value, narrow, tuple(guards))
    return _Factor(whole, whole, dtype_of(whole), tuple(guards))


def _is_exact_in(value: Value, dtype: str) -> bool:
    """Whether a value is one of this type whatever it is computed from: one of others that are."""
    if dtype_of(value) == dtype:
        return True
    match value.source:
        case Cast(value=inner):
            return _is_exact_in(inner, dtype)
        case Const(value=number):
            return is_float(dtype) and number in (0, 1, -1)
        case Binary(operator="min" | "max", left=left, right=right) | Select(then=left, otherwise=right):
            return _is_exact_in(left, dtype) and _is_exact_in(right, dtype)
        case Unary(operator="neg" | "abs", value=inner):
            return _is_exact_in(inner, dtype) and is_float(dtype)
        case _:
            return False


def _rewritten(
    function: HirFunction, target: Contract | Reduce, to: str, factors: Sequence[_Factor], summed: Sequence[str]
) -> ComputedOperands:
    """The field that reads what is computed: along the other axes first, the longest of the sum's last."""
    names = FreshNames(function)
    computed: dict[Value, Computed] = {}
    for factor, name in zip(factors, ("left", "right"), strict=True):
        if not factor.is_memory:
            own = _axes(factor.value).union(*map(_axes, factor.guards))
            axes = [*(axis for axis in function.axes if axis in own and axis not in summed), *(axis for axis in summed if axis in own)]
            extents = tuple((axis, function.axes[axis]) for axis in axes)
            computed[factor.value] = Computed(names.fresh(name), extents, function, factor.value, factor.dtype, factor.guards)
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
    described = product_sum(sum)
    assert described is not None
    a, b = (loads.get(one.value, out.values[one.value]).source for one in factors)
    assert isinstance(a, Load) and isinstance(b, Load)
    guard = tuple(UNKNOWN if form is None else form for one in factors for each in one.guards for form in conditions(each))
    return ComputedOperands(tuple(computed.values()), field, SumOfLoads(sum, to, a, b, described, guard if is_float(to) else ()))
