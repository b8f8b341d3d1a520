"""Sums of products of two factors and of scales that groups of terms have in common: `X[m, k] * (q(k, n) - 8) * S[k / 128, n]`, which is
the sum over groups of a group's scale times its own sum of `X[m, k] * (q(k, n) - 8)`. Matrix units make the inner sums, of factors that
are narrow; the scales are multiplied as they are."""

from collections.abc import Iterator, Sequence
from math import gcd

from compiler.analysis.ranges import Ranges
from compiler.analysis.recognise import ProductSum, instructions_below
from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.core import Binary, Cast, Const, Contract, Index, Reduce, Select, Unary, dtype_of, names_of_axes, union_axes
from compiler.hir.hopper import WARPGROUP_KINDS
from compiler.hir.instruction import Value
from compiler.hir.memory import Load
from compiler.hir.module import HirFunction
from compiler.hir.types import is_float
from runtime.records import frozen

WHOLE = {"f16": 1 << 11, "bf16": 1 << 8, "f8e4m3": 1 << 4, "f8e5m2": 1 << 3}
"""Whole numbers up to which a float of this type has all."""


@frozen(eq=False)
class GroupScale:
    """Factors of the terms of a sum that are alike for each `terms` of them along an axis; 0: for all."""

    values: tuple[Value, ...]
    axis: str
    terms: int


@frozen(eq=False)
class ScaledSum:
    """A sum whose terms are two factors that this type holds, times the scale."""

    described: ProductSum
    dtype: str
    scale: GroupScale | None


def narrow_sum(function: HirFunction) -> ScaledSum | None:
    """The one sum of a field as one of products of narrow factors, and of scales; None where it isn't one."""
    sums = [op for op in function.body.body if isinstance(op, Contract | Reduce)]
    if len(sums) != 1 or not (isinstance(target := sums[0], Contract) or (target.monoid == "add" and "reassoc" in target.flags)):
        return None
    to = target.to if isinstance(target, Contract) else dtype_of(target.values[0])
    if not is_float(to) or (isinstance(target, Contract) and target.accumulator is not None):
        return None
    factors = [*factors_of((target.a, target.b) if isinstance(target, Contract) else target.values[:1])]
    periods = {factor: _periods(function, factor, target.over) for factor in factors}
    scales = [factor for factor in factors if (known := periods[factor]) is not None and len(known) <= 1]
    factors = [factor for factor in factors if factor not in scales]
    dtype = next((narrow for narrow in WARPGROUP_KINDS if _are_exact(function, factors, narrow, to)), None)
    if len(factors) != 2 or dtype is None:
        return None
    groups = {axis: terms for scale in scales for axis, terms in (periods[scale] or {}).items()}
    if len(groups) > 1:
        return None
    axis = next(iter(groups), target.over[-1])
    terms = gcd(*((periods[scale] or {}).get(axis, 0) for scale in scales))
    of_a, of_b = (names_of_axes(factor) for factor in factors)
    outer = [name for name, _ in union_axes(*factors) if name not in target.over]
    owners = (True, True), (True, False), (False, True)
    batch, m, n = (tuple(name for name in outer if (name in of_a, name in of_b) == owner) for owner in owners)
    if not (m and n) or not {*target.over} <= of_a & of_b or any(not names_of_axes(scale) <= {*outer, *target.over} for scale in scales):
        return None
    a, b = (_unconverted(factor, dtype) for factor in factors)
    described = ProductSum(target, a, b, batch, m, n, tuple(target.over), (), None, None)
    return ScaledSum(described, dtype, GroupScale(tuple(scales), axis, terms) if scales else None)


def is_exact_in(function: HirFunction, value: Value, dtype: str) -> bool:
    """Whether a value is one of this type whatever it is computed from: one of others that are, or a whole number that it has."""
    if dtype_of(value) == dtype:
        return True
    match value.source:
        case Cast(value=inner) if is_float(dtype_of(inner)):
            return is_exact_in(function, inner, dtype)
        case Const(value=number):
            return is_float(dtype) and (number in (0, 1, -1) or (number == int(number) and abs(number) <= WHOLE.get(dtype, 0)))
        case Binary(operator="min" | "max", left=left, right=right) | Select(then=left, otherwise=right):
            return is_exact_in(function, left, dtype) and is_exact_in(function, right, dtype)
        case Unary(operator="neg" | "abs", value=inner):
            return is_exact_in(function, inner, dtype) and is_float(dtype)
        case _:
            known = whole_range(function, value) if dtype in WHOLE and is_float(dtype_of(value)) else None
            return known is not None and -WHOLE[dtype] <= known[0] and known[1] <= WHOLE[dtype]


def _unconverted(value: Value, dtype: str) -> Value:
    """A value of this type where it is one that was converted to another."""
    op = value.source
    return op.value if isinstance(op, Cast) and dtype_of(op.value) == dtype else value


def whole_number(value: Value) -> tuple[Value | None, int] | None:
    """The int that a float is, and what is added to it; None where it isn't that."""
    match value.source:
        case Cast(value=inner) if not is_float(dtype_of(inner)):
            return inner, 0
        case Cast(value=inner):
            return whole_number(inner)
        case Const(value=number) if number == int(number):
            return None, int(number)
        case Binary(operator="add" | "sub" as operator, left=left, right=right):
            first, second = whole_number(left), whole_number(right)
            if first is not None and second is not None and second[0] is None:
                return first[0], first[1] + (second[1] if operator == "add" else -second[1])
            return None
        case _:
            return None


def whole_range(function: HirFunction, value: Value) -> tuple[int, int] | None:
    """The range of a float that is a whole number."""
    known = whole_number(value)
    if known is None:
        return None
    low, high = (0, 0) if known[0] is None else Ranges(function).of(known[0])
    return low + known[1], high + known[1]


def _are_exact(function: HirFunction, factors: Sequence[Value], narrow: str, to: str) -> bool:
    kind = WARPGROUP_KINDS[narrow]
    return kind.sums == to and narrow != to and kind.depth == 16 and all(is_exact_in(function, factor, narrow) for factor in factors)


def factors_of(values: Sequence[Value]) -> Iterator[Value]:
    """The factors of products, those of products among them."""
    for value in values:
        op = value.source
        if isinstance(op, Binary) and op.operator == "mul" and "contract" in op.flags and is_float(dtype_of(value)):
            yield from factors_of((op.left, op.right))
        else:
            yield value



def _periods(function: HirFunction, value: Value, over: Sequence[str]) -> dict[str, int] | None:
    """Along each axis of a sum that a value varies along, how many elements one after the other are alike, from multiples of so many on;
    None where neighbours differ."""
    named = {result.name: result for op in function.body.body for result in op.results}
    periods: dict[str, int] = {}

    def enter(form: Affine) -> bool:
        for symbol, _ in form.terms:
            if isinstance(symbol, FloorDiv):
                axes = [axis for axis in over if axis in symbol.numerator.names]
                if axes and symbol.numerator != Affine.of(axes[0]):
                    return False
                periods.update({axis: gcd(periods.get(axis, 0), symbol.divisor) for axis in axes})
            elif symbol in over or (symbol in named and not seen(named[symbol])):
                return False
        return True

    def seen(value: Value) -> bool:
        for op in instructions_below(value):
            forms = op.index if isinstance(op, Load) else (op.of,) if isinstance(op, Index) else [*map(Affine.of, op.symbols)]
            if not all(enter(form) for form in forms) or isinstance(op, Reduce | Contract):
                return False
        return True

    return periods if seen(value) else None
