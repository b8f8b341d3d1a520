"""How values depend on a maximum m: g is homogeneous in m where g(m') = rho * g(m), with rho the same for everything. Here m may enter as
exp(c * (x - m)), so rho = exp(c * (m - m')); what follows must be linear: products with what is free of m, casts, sums, contractions,
guards that put 0."""

from collections.abc import Sequence

from compiler.hir.core import Binary, Cast, Const, Contract, Reduce, Select, Unary
from compiler.hir.instruction import Value
from runtime.records import define, field, frozen


@frozen(eq=False)
class Exponential:
    """exp(scale * (left - right)), or a power of two; no scale: 1."""

    operator: str
    left: Value
    right: Value
    scale: Value | None = None

    def same_base(self, other: "Exponential") -> bool:
        """Whether both are powers of one number."""
        return self.operator == other.operator and _same(self.scale, other.scale)


def exponential_of(value: Value) -> Exponential | None:
    """The value as an exponential of a difference."""
    op = value.source
    if not isinstance(op, Unary) or op.operator not in ("exp", "exp2"):
        return None
    scale: Value | None = None
    difference = op.value.source
    if isinstance(difference, Binary) and difference.operator == "mul":
        for factor, rest in ((difference.right, difference.left), (difference.left, difference.right)):
            if isinstance(factor.source, Const) and isinstance(rest.source, Binary):
                scale, difference = factor, rest.source
                break
    if not isinstance(difference, Binary) or difference.operator != "sub":
        return None
    return Exponential(op.operator, difference.left, difference.right, scale)


@define(eq=False)
class Homogeneity:
    """How values depend on one maximum m. `exponential`: one of those that m enters by; all have its base."""

    maximum: Value
    exponential: Exponential | None = None
    reason: str = ""
    _reaches: dict[Value, bool] = field(factory=dict)
    _degrees: dict[Value, int | None] = field(factory=dict)

    def reaches(self, value: Value) -> bool:
        """Whether m is among what the value is computed from."""
        if value not in self._reaches:
            op = value.source
            self._reaches[value] = value is self.maximum or (op is not None and any(map(self.reaches, op.operand_values)))
        return self._reaches[value]

    def degree(self, value: Value) -> int | None:
        """0: free of m. 1: homogeneous in m. None: neither."""
        if value not in self._degrees:
            self._degrees[value] = self._degree(value)
        return self._degrees[value]

    def _degree(self, value: Value) -> int | None:
        if not self.reaches(value):
            return 0
        match value.source:
            case Unary(operator="exp" | "exp2"):
                return self._exponential(value)
            case Unary(operator="neg", value=inner) | Cast(value=inner):
                return self.degree(inner)
            case Binary(operator="mul", left=a, right=b) | Contract(a=a, b=b, accumulator=None):
                first, second = self.degree(a), self.degree(b)
                return self._no("the maximum is in both factors of a product") if first == 1 and second == 1 else self._both(first, second)
            case Binary(operator="div", left=a, right=b):
                return self.degree(a) if self.degree(b) == 0 else self._no("the maximum is in a divisor")
            case Binary(operator="add" | "sub", left=a, right=b):
                return 1 if self.degree(a) == 1 and self.degree(b) == 1 else self._no("something free of the maximum is added")
            case Reduce(monoid="add", values=(inner,)):
                return self.degree(inner)
            case Select(condition=condition, then=then, otherwise=otherwise) if self.degree(condition) == 0:
                sides = [self.degree(side) for side in (then, otherwise) if not is_number(side, 0)]
                return 1 if sides and all(side == 1 for side in sides) else self._no("a guard puts in something other than 0")
            case _:
                return self._no("the maximum is used other than in exp(x - maximum)")

    def quotients(self, value: Value) -> bool:
        """Whether the value is computed from quotients of two sums, which are the same whichever m both were summed with, and what is free
        of m."""
        return self._free(value, ())

    def free(self, value: Value) -> bool:
        """The same, from m plus the logarithm of a sum, too."""
        return self._free(value, ("log", "log2"))

    def _free(self, value: Value, logarithms: Sequence[str]) -> bool:
        match value.source:
            case Binary(operator="div", left=a, right=b) if self.degree(a) == 1 and self.degree(b) == 1:
                return True
            case Binary(operator="add", left=a, right=b) if logarithms and self.maximum in (a, b):
                return self._is_log_of_sum(b if a is self.maximum else a)
            case op if op is None or value is self.maximum:
                return not self.reaches(value)
            case op:
                return not self.reaches(value) or all(self._free(each, logarithms) for each in op.operand_values)

    def _is_log_of_sum(self, value: Value) -> bool:
        """Whether it grows by what m shrinks by."""
        op = value.source
        if not isinstance(op, Unary) or op.operator not in ("log", "log2") or self.degree(op.value) != 1:
            return False
        assert self.exponential is not None
        return self.exponential.scale is None and self.exponential.operator == {"log": "exp", "log2": "exp2"}[op.operator]

    def _both(self, first: int | None, second: int | None) -> int | None:
        return None if first is None or second is None else first + second

    def _no(self, reason: str) -> int | None:
        self.reason = self.reason or reason
        return None

    def _exponential(self, value: Value) -> int | None:
        """exp(c * (x - m)) with x and c free of m, one c everywhere."""
        exponential = exponential_of(value)
        if exponential is None or exponential.right is not self.maximum:
            return self._no("the maximum is used other than in exp(x - maximum)")
        if self.reaches(exponential.left):
            return self._no("x of exp(x - maximum) depends on the maximum itself")
        if self.exponential is not None and not self.exponential.same_base(exponential):
            return self._no("the exponentials have different factors")
        self.exponential = exponential
        return 1


def is_number(value: Value, number: float) -> bool:
    """Whether the value is this constant."""
    return isinstance(value.source, Const) and value.source.value == number


def _same(first: Value | None, second: Value | None) -> bool:
    if first is None or second is None:
        return first is second
    a, b = first.source, second.source
    return first is second or (isinstance(a, Const) and isinstance(b, Const) and a.value == b.value)
