"""Weights of attention as powers of two with one fused operation each. Where x - m stands in an exponential and x = y * f with f the same
for all scores, exp(x - m) is 2^(y*F - n*F) with F = f * log2(e) and n the maximum of y: the factor costs nothing. What is hidden (a
select that gives -inf) stays hidden in y, since F is positive.

A factor that only the run knows may be negative or 0. Then the sign goes to the queries, before they are multiplied."""

from collections.abc import Callable
from math import inf, log, prod

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Binary, Cast, Const, Index, Select, Unary, dtype_of, union_axes
from compiler.hir.instruction import Instruction, Value
from compiler.hir.module import HirFunction
from compiler.passes.online import Online
from compiler.schedule.gpu.need import needed
from compiler.schedule.gpu.rewrites.counted_floats import whole
from runtime.records import evolve, frozen

LOG2_E = 1 / log(2)
MOST_CAPPED = 2.0**9
"""What a tanh may be multiplied by in the exponents."""


@frozen(eq=False)
class Exponent:
    """What the exponentials are taken of: `guards` hide scores, `core` is what else there is, without what it is multiplied by
    (`factors`) and divided by (`divisors`)."""

    rule: Online
    guards: tuple[Value, ...]
    core: Value
    factors: tuple[Value, ...] = ()
    divisors: tuple[Value, ...] = ()

    def is_weight(self, op: object) -> bool:
        """Whether it is the exponential of a score less the maximum."""
        if not isinstance(op, Unary) or op.operator != self.rule.exponential:
            return False
        inner = op.value.source
        if self.rule.scale is not None:
            if not isinstance(inner, Binary) or inner.operator != "mul":
                return False
            inner = next((side.source for side in (inner.left, inner.right) if isinstance(side.source, Binary)), None)
        if not isinstance(inner, Binary) or inner.operator != "sub" or inner.right is not self.rule.total:
            return False
        return inner.left in (self.rule.maximum.values[0], self.unguarded)

    def explains(self, function: HirFunction) -> bool:
        """Whether of all that is summed nothing but such exponentials reads the maximum."""
        between = {self.rule.total}
        for op in needed(function, [result for sum in self.rule.rescaled for result in sum.results]):
            if between.isdisjoint(op.operand_values) or self.is_weight(op):
                continue
            if not isinstance(op, Binary) or op.operator not in ("sub", "mul"):
                return False
            between.update(op.results)
        return True

    def hides(self, op: Instruction) -> bool:
        """Whether it is a weight where a guard holds and 0 elsewhere, where weights are 0 by themselves."""
        return isinstance(op, Select) and op.condition in self.guards and is_number(op.otherwise, 0.0) and self.is_weight(op.then.source)

    @property
    def unguarded(self) -> Value:
        """The scores where nothing hides them."""
        value = self.rule.maximum.values[0]
        for _ in self.guards:
            assert isinstance(value.source, Select)
            value = value.source.then
        return value

    @property
    def constant(self) -> float:
        """What the program and the base of the exponential multiply by."""
        scale = self.rule.scale
        own = float(scale.source.value) if scale is not None and isinstance(scale.source, Const) else 1.0
        return own * (LOG2_E if self.rule.exponential == "exp" else 1.0)

    @property
    def cap(self) -> Unary | None:
        """The tanh that the core is, where it may be off by some 2^-21 whatever its size: so are exponents then, times no more than 2^9."""
        op = self.core.source
        return op if self.number <= MOST_CAPPED and isinstance(op, Unary) and op.operator == "tanh" and "afn" in op.flags else None

    @property
    def number(self) -> float:
        """What the core is multiplied by in all, where the program says it."""
        numbers = [float(factor.source.value) if isinstance(factor.source, Const) else inf for factor in self.factors]
        return inf if self.divisors else self.constant * prod(numbers)

    @property
    def signed(self) -> bool:
        """Whether the factor's sign is for the run to tell."""
        return not (all(map(_positive, self.factors)) and all(_positive(divisor) or _root(divisor) for divisor in self.divisors))


@frozen(eq=False)
class Slope:
    """Scores with a product to which a whole number of row and key is added, times what all of a tile have the same: distances of ALiBi.
    `exponent`: without it; `factors` of the `distance`, a cast of the index `form`; `below`: whether it is subtracted."""

    exponent: Exponent
    factors: tuple[Value, ...]
    distance: Cast
    form: Affine
    below: bool


def slope_of(exponent: Exponent, scores: Value, rows: str) -> Slope | None:
    """The exponent's core as such a sum."""
    varying, op = {exponent.rule.axis, rows}, exponent.core.source
    if exponent.factors or exponent.divisors or not isinstance(op, Binary) or op.operator not in ("add", "sub"):
        return None
    for product, other in ((op.left, op.right), (op.right, op.left))[: 1 if op.operator == "sub" else 2]:
        core, factors, divisors = multiplied(product, varying)
        distance, own, below = multiplied(other, varying)
        form = whole(distance.source) if isinstance(distance.source, Cast) else None
        if core is scores and not below and form is not None and isinstance(distance.source, Cast):
            plain = evolve(exponent, core=core, factors=factors, divisors=divisors)
            return Slope(plain, own, distance.source, form, op.operator == "sub")
    return None


def exponent_of(rule: Online, scores: Value, rows: str) -> Exponent:
    """How the scores of the rule's maximum, of so called rows, are put together."""
    varying = {rule.axis, rows}
    value = rule.maximum.values[0]
    guards: list[Value] = []
    while isinstance(value.source, Select) and is_number(value.source.otherwise, -inf):
        guards.append(value.source.condition)
        value = value.source.then
    core, factors, divisors = multiplied(value, varying)
    if core is not scores:
        core, factors, divisors = multiplied(value, varying, _positive)
    return Exponent(rule, tuple(guards), core, factors, divisors)


def multiplied(
    value: Value, varying: set[str], accepted: Callable[[Value], bool] = lambda value: True
) -> tuple[Value, tuple[Value, ...], tuple[Value, ...]]:
    """A value without what all scores of a tile are multiplied by, and divided by, as far as that is accepted; both of these."""
    factors: list[Value] = []
    divisors: list[Value] = []
    while isinstance(value.source, Binary) and value.source.operator in ("mul", "div"):
        left, right = value.source.left, value.source.right
        if value.source.operator == "mul" and _uniform(left, varying):
            left, right = right, left
        if not _uniform(right, varying) or not accepted(right):
            break
        (divisors if value.source.operator == "div" else factors).append(right)
        value = left
    return value, tuple(factors), tuple(divisors)


def is_number(value: Value, number: float) -> bool:
    return isinstance(value.source, Const) and value.source.value == number


def _uniform(value: Value, varying: set[str]) -> bool:
    """Whether a tile's scores all have the same."""
    return dtype_of(value) == "f32" and varying.isdisjoint(name for name, _ in union_axes(value))


def _positive(value: Value) -> bool:
    """Whether a number is above 0, or comes of sizes that would make all scores NaN where it isn't."""
    match value.source:
        case Const(value=number):
            return 0 < float(number) < inf
        case Unary(operator="rsqrt", value=inner):
            return _of_sizes(inner)
        case Binary(operator="div", left=left, right=right):
            return _positive(left) and (_positive(right) or _root(right))
        case Cast(value=inner):
            return _positive(inner)
        case _:
            return False


def _root(value: Value) -> bool:
    """Whether it is a square root of sizes, which nothing is multiplied by."""
    match value.source:
        case Unary(operator="sqrt", value=inner):
            return _of_sizes(inner)
        case Cast(value=inner):
            return _root(inner)
        case _:
            return False


def _of_sizes(value: Value) -> bool:
    match value.source:
        case Index() | Const():
            return True
        case Cast(value=inner):
            return _of_sizes(inner)
        case _:
            return False


def sign_of(b: Builder, factor: Value) -> Value:
    """1, -1, or 0 for 0 and NaN."""
    unit, zero = b.const(1.0, "f32"), b.const(0.0, "f32")
    below = b.select(b.op("lt", factor, zero), b.const(-1.0, "f32"), zero)
    return b.select(b.op("gt", factor, zero), unit, below)
