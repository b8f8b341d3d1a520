"""Sums of terms, each a product of factors: the sum over an axis has only the axes of what it reads.

sum_k (a[i,k]^2 + b[j,k]^2 - 2 a[i,k] b[j,k])  =>  sum_k a^2 + sum_k b^2 - 2 (contract a, b)
sum_ij x[b,i] A[i,j] y[b,j]                    =>  sum_j (contract x, A over i)[b,j] y[b,j]

Terms that vary with fewer axes than others are summed by themselves; factors that don't vary along the sum stand outside of it; and three
factors or more are multiplied two at a time, in the order that takes the fewest operations. All of it is reassociation, which the sum must
permit; of ints it is exact."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import prod

from compiler.analysis.field_values import FieldValues
from compiler.hir.core import Binary, Cast, Contract, Reduce, Unary, dtype_of, union_axes
from compiler.hir.instruction import Value
from compiler.hir.types import bytes_of, is_float
from runtime.records import frozen

Axes = frozenset[str]
Sum = Callable[[Value, Sequence[str], bool], Value]
"""Makes the sum of a value over axes, in normal form; whether it is one of some factors of a product."""

FREE_ORDER = "factors"
"""The flag of a sum of some factors of a product, whose order is free."""
BETTER = 0.8
"""Of the operations of an order, those of another one that is worth taking instead."""
MOST = 6
"""Factors whose orders are all tried."""
NARROW = 4
"""Bytes of a float below which partial sums would be rounded too early."""
LEAST = 16
"""Rows, columns and terms of a product that is worth computing by itself: with fewer, what is kept between takes longer than it saves."""
SAVED = 4
"""How many times as many operations a sum takes as one of parts that is worth keeping these for."""


@frozen(eq=False)
class Term:
    """A term of a sum: its factors, with a sign."""

    value: Value
    factors: tuple[Value, ...]
    negative: bool

    @property
    def axes(self) -> Axes:
        return axes_of(*self.factors)


def axes_of(*values: Value) -> Axes:
    return frozenset(name for name, _ in union_axes(*values))


def terms_of(value: Value, negative: bool = False) -> Iterator[Term]:
    """What is added up and subtracted, where the order of that is free."""
    match value.source:
        case Binary(operator="add" | "sub" as operator, left=left, right=right) if _is_free(value):
            yield from terms_of(left, negative)
            yield from terms_of(right, negative is (operator == "add"))
        case Unary(operator="neg", value=inner):
            yield from terms_of(inner, not negative)
        case _:
            yield Term(value, tuple(factors_of(value)), negative)


def is_of_terms(value: Value) -> bool:
    """Whether there are several terms, or several factors of the one, among which there may be some that don't vary along a sum."""
    first, *others = terms_of(value)
    return bool(others) or len(first.factors) > 1


def factors_of(value: Value) -> Iterator[Value]:
    """What is multiplied, where the order of that is free."""
    match value.source:
        case Binary(operator="mul", left=left, right=right) if _is_free(value):
            yield from factors_of(left)
            yield from factors_of(right)
        case _:
            yield value


def _is_free(value: Value) -> bool:
    """Whether an operation may be rounded with others, or isn't rounded."""
    dtype = dtype_of(value)
    assert value.source is not None
    return not is_float(dtype) or (bytes_of(dtype) >= NARROW and "contract" in getattr(value.source, "flags", ()))


def sum_by_terms(field: FieldValues, value: Value, over: Sequence[str], sum: Sum) -> Value | None:
    """The sum of a value that is a sum of terms, some of which vary with fewer axes than others, or aren't products of two factors. None
    where all are alike, or summing terms apart would compute more."""
    terms = [*terms_of(value)]
    whole = frozenset[str]().union(*(term.axes for term in terms))
    if len(terms) < 2 or any(not term.axes.issuperset(over) for term in terms):
        return None
    largest = {term: _order(field, _varying(term, over), over) for term in terms if term.axes == whole}
    if not all(order.has_contraction for order in largest.values()):
        return None
    plain = [term for term, order in largest.items() if len(_varying(term, over)) == len(term.factors) and not order.saves(field, whole)]
    if len(plain) == len(terms):
        return None
    parts = [(term.negative, sum(term.value, over, False)) for term in terms if term not in plain]
    if plain:
        together, negative = _added(field, [(term.negative, term.value) for term in plain])
        parts.insert(0, (negative, sum(together, over, False)))
    total, negative = _added(field, parts)
    return field.emit(Unary(operator="neg", value=total))[0] if negative else total


def _added(field: FieldValues, parts: Sequence[tuple[bool, Value]]) -> tuple[Value, bool]:
    """What parts with signs come to, and whether that is to be subtracted."""
    ordered = sorted(parts, key=lambda part: part[0])
    (negative, total), *others = ordered
    flags = ("contract",) if is_float(dtype_of(total)) else ()
    for sign, value in others:
        total = field.emit(Binary(operator="add" if sign is negative else "sub", left=total, right=value, flags=flags))[0]
    return total, negative


def _varying(term: Term, over: Sequence[str]) -> list[Value]:
    return [factor for factor in term.factors if not axes_of(factor).isdisjoint(over)]


def _contracts(field: FieldValues, left: Axes, right: Axes, over: Sequence[str]) -> bool:
    """Whether the sum of products of two values is a product of matrices that is worth computing by itself."""
    sides = (frozenset(over), left - right, right - left)
    return left & right >= sides[0] and all(side and _elements(field, side) >= LEAST for side in sides)


def sum_by_factors(field: FieldValues, value: Value, over: Sequence[str], sum: Sum, pair: Sum) -> Value | None:
    """The sum of a product: what doesn't vary along it as a factor of the sum, others two at a time. None where that is how it is written,
    or no order saves anything. `pair` makes the sum of a product of two values, whatever these are."""
    factors = [*factors_of(value)]
    if len(factors) < 2 or len(factors) > MOST:
        return None
    varying = [factor for factor in factors if not axes_of(factor).isdisjoint(over)]
    outside = [factor for factor in factors if factor not in varying]
    order = _order(field, varying, over)
    worth = order.is_worth_taking(field, axes_of(*varying))
    if not varying or not (outside or worth):
        return None
    inner = order.made(field, varying, pair) if worth else sum(_product(field, varying), over, False)
    return _product(field, [*outside, inner])


def sum_in_better_order(field: FieldValues, op: Contract | Reduce, pair: Sum) -> Value | None:
    """The sum of a product of several factors, some of which are summed by themselves in an order that is free, where another order takes
    fewer operations for extents of which more is known; None where it doesn't."""
    over, taken = list[str](), 0

    def factors(op: Contract | Reduce) -> Iterator[Value]:
        nonlocal taken
        over.extend(op.over)
        sides = [op.a, op.b] if isinstance(op, Contract) else [*factors_of(op.values[0])]
        taken += _elements(field, axes_of(*sides))
        for side in sides:
            for value in factors_of(side):
                if isinstance(value.source, Contract | Reduce) and FREE_ORDER in value.source.flags:
                    yield from factors(value.source)
                else:
                    yield value

    to = op.to if isinstance(op, Contract) else dtype_of(op.values[0])
    known = [value if dtype_of(value) == to else field.emit(Cast(value=value, to=to))[0] for value in factors(op)]
    if len(over) == len(op.over) or len(known) > MOST:
        return None
    order = _order(field, known, over)
    return order.made(field, known, pair) if order.operations < BETTER * taken else None


def _product(field: FieldValues, factors: Sequence[Value]) -> Value:
    first, *others = factors
    flags = ("contract",) if is_float(dtype_of(first)) else ()
    for factor in others:
        first = field.emit(Binary(operator="mul", left=first, right=factor, flags=flags))[0]
    return first


@frozen
class Step:
    """Two operands, the later one of which goes into the other's place; and the axes that are summed then, of which no other has any."""

    left: int
    right: int
    over: tuple[str, ...]
    operations: int
    is_contraction: bool


@frozen
class Order:
    """The order in which factors are multiplied and summed."""

    steps: tuple[Step, ...]

    @property
    def operations(self) -> int:
        return sum(step.operations for step in self.steps)

    @property
    def has_contraction(self) -> bool:
        return any(step.is_contraction for step in self.steps)

    def is_worth_taking(self, field: FieldValues, axes: Axes) -> bool:
        """Whether it has products of matrices, or saves operations."""
        return len(self.steps) > 1 and (self.has_contraction or self.saves(field, axes))

    def saves(self, field: FieldValues, axes: Axes) -> bool:
        return SAVED * max((step.operations for step in self.steps), default=1) <= _elements(field, axes)

    def made(self, field: FieldValues, factors: Sequence[Value], pair: Sum) -> Value:
        left = list(factors)
        for step in self.steps:
            value = left[step.left]
            if step.right != step.left:
                value = _product(field, (value, left.pop(step.right)))
            left[step.left] = pair(value, step.over, step is not self.steps[-1]) if step.over else value
        return left[0]


def _order(field: FieldValues, factors: Sequence[Value], over: Sequence[str]) -> Order:
    """The one with the fewest operations; of several the first as written."""
    steps, left = list[Step](), [axes_of(factor) for factor in factors]
    for number, axes in enumerate(left):  # sums of one factor alone come first
        others = frozenset[str]().union(*left[:number], *left[number + 1 :])
        own = tuple(axis for axis in over if axis in axes - others)
        if own and len(factors) > 1:
            steps.append(Step(number, number, own, _elements(field, axes), False))
            left[number] = axes - {*own}
    return Order((*steps, *_pairs(field, tuple(left), tuple(over))))


def _pairs(field: FieldValues, factors: tuple[Axes, ...], over: tuple[str, ...]) -> tuple[Step, ...]:
    """How to multiply two at a time what has these axes."""
    found: list[tuple[Step, ...]] = []
    for left, right in combinations(range(len(factors)), 2):
        a, b = factors[left], factors[right]
        others = [axes for number, axes in enumerate(factors) if number not in (left, right)]
        elsewhere = frozenset[str]().union(*others)
        summed = tuple(axis for axis in over if axis in (a | b) - elsewhere)
        step = Step(left, right, summed, _elements(field, a | b), _contracts(field, a, b, summed))
        further = (*factors[:left], (a | b) - {*summed}, *factors[left + 1 : right], *factors[right + 1 :])
        found.append((step, *_pairs(field, further, over)))
    return min(found, key=lambda steps: sum(step.operations for step in steps), default=())


def _elements(field: FieldValues, axes: Axes) -> int:
    return prod(max(1, field.about(field.axes[axis])) for axis in axes)
