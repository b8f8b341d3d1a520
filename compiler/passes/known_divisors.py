"""Divisions by what only a launch knows (`K[b, h / group, j, e]`, `h / (H / G)`): with the number put in, the quotient of a loop
variable is an affine index, and analysis sees through it. Kernels are made for the divisors that a launch has; there are few of them."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from compiler.analysis.accesses import affine_value, walk
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For
from compiler.hir.core import Binary, Cast, Compare, Const, Index, dtype_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Check
from compiler.hir.module import HirFunction
from compiler.hir.types import INDEX, is_float
from compiler.passes.rewrite import Rebuild
from runtime.records import define, field

_DIVISIONS = ("div", "rem")


def divisors_of(nest: HirFunction) -> tuple[Value, ...]:
    """What a nest divides ints by that depends on nothing but its index parameters."""
    known = {parameter.name for parameter in nest.parameters if parameter.type == INDEX}
    divisors: dict[Value, None] = {}
    for op in walk(nest.body):
        if isinstance(op, Binary) and op.operator in _DIVISIONS and not is_float(dtype_of(op.left)):
            names = _names(op.right)
            if names and names <= known and _names(op.left) - known:
                divisors.setdefault(op.right)
    return tuple(divisors)


def number_of(value: Value, sizes: Mapping[str, int]) -> int | None:
    """The value where these are the sizes; None where it depends on something else, or divides by 0."""
    match value.source:
        case Index(of=form):
            return form.evaluate(sizes.__getitem__) if sizes.keys() >= set(form.names) else None
        case Const(value=number):
            return int(number)
        case Cast(value=inner) if not is_float(dtype_of(value)):
            return number_of(inner, sizes)
        case Binary(operator=operator, left=left, right=right):
            a, b = number_of(left, sizes), number_of(right, sizes)
            return None if a is None or b is None else _result(operator, a, b)
        case None if value.type == INDEX:
            return sizes.get(value.name)
        case _:
            return None


def with_divisors(nest: HirFunction, divisors: Mapping[Value, int]) -> HirFunction:
    """The nest (form A) with these numbers, all above 0, as its divisors."""
    return _Divided(nest, divisors).run()


def _names(value: Value) -> set[str]:
    """Names that an int is computed from, its own where it is computed from something else than ints; none of a constant."""
    match value.source:
        case Index(of=form):
            return set(form.names)
        case Const():
            return set()
        case Cast(value=inner) if not is_float(dtype_of(inner)):
            return _names(inner)
        case Binary(operator="add" | "sub" | "mul" | "div" | "rem", left=left, right=right):
            return _names(left) | _names(right)
        case _:
            return {value.name}


def _result(operator: str, a: int, b: int) -> int | None:
    match operator:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "div" | "rem" if b:
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return quotient if operator == "div" else a - b * quotient
        case _:
            return None


@define(eq=False)
class _Divided(Rebuild):
    divisors: Mapping[Value, int]
    counted: set[str] = field(factory=set, init=False)
    """Loop variables that are never negative."""

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        match op:
            case For() if op.step > 0 and self.natural(op.low):
                self.counted.add(op.variable.name)
            case Check() if self.holds(op.condition):
                return []
            case Binary(operator="div" | "rem", right=right) if right in self.divisors:
                quotient = self.quotient(op, self.divisors[right], into)
                if quotient is not None:
                    return [quotient]
            case _:
                pass
        return self.copy(op, into)

    def quotient(self, op: Binary, divisor: int, into: Builder) -> Value | None:
        form = affine_value(self.values[op.left])
        if form is None or not self.natural(form):
            return None
        quotient = form.floordiv(divisor)
        return into.cast(into.index(quotient if op.operator == "div" else form - quotient * divisor), dtype_of(op.left))

    def natural(self, form: Affine) -> bool:
        """Whether a form of loop variables is never negative."""
        return all(name in self.counted for name in form.names) and all(n >= 0 for n in (form.constant, *(n for _, n in form.terms)))

    def holds(self, condition: Value) -> bool:
        """Whether it is the check that one of the divisors, or what that is divided by, isn't 0."""
        op = condition.source
        return isinstance(op, Compare) and op.operator == "ne" and op.left in self.nonzero and number_of(op.right, {}) == 0

    @cached_property
    def nonzero(self) -> set[Value]:
        nonzero, waiting = set(self.divisors), list(self.divisors)
        while waiting:
            match waiting.pop().source:
                case Binary(operator=operator, left=left, right=right):
                    waiting += [left, right]
                    nonzero |= {right} if operator in _DIVISIONS else set()
                case Cast(value=inner):
                    waiting.append(inner)
                case _:
                    pass
        return nonzero
