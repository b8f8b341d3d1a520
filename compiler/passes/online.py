"""The online rule: reductions over an axis that read the maximum over the same axis may run beside it, in one pass.

Let m be the maximum of x along k, and R(m) = sum over k of g(m), where g is homogeneous in m: g(m') = rho * g(m) with rho free of k.
Then R over a prefix, times rho(old m, new m), plus g(new m) of what comes next, is R over the longer prefix. Here m reaches g
only as exp(c * (x - m)), so rho = exp(c * (old - new)); what follows must be linear: products with what is free of m, casts,
sums, contractions, guards that put 0. The sums must be free to reassociate.

The pass finds where the rule holds and says so; which schedule makes use of it is decided there."""

from attrs import define, field, frozen

from compiler.hir.core import Binary, Cast, Const, Contract, Reduce, Select, Unary
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction


@frozen(eq=False)
class Online:
    """Along `axis`: the maximum, the reductions that are rescaled when it grows, the factor c (None: 1) and the exponential."""

    axis: str
    maximum: Reduce
    rescaled: tuple[Reduce | Contract, ...]
    scale: Value | None
    exponential: str


@frozen(eq=False)
class NotOnline:
    """Why the rule doesn't hold, in words."""

    reason: str


def online(function: HirFunction, axis: str) -> Online | NotOnline:
    """The rule's parts in a field, or why it doesn't hold along the axis."""
    ops = function.body.body
    maxima = [op for op in ops if isinstance(op, Reduce) and op.monoid == "max" and axis in op.over]
    if not maxima:
        return NotOnline(f"there is no maximum along `{axis}`")
    reason = f"nothing along `{axis}` depends on the maximum"
    for maximum in maxima:
        judge = _Homogeneity(maximum.results[0])
        readers = [
            op for op in ops if isinstance(op, Reduce | Contract) and op is not maximum and axis in op.over and judge.reaches(op.results[0])
        ]
        if not readers:
            continue
        bad = next((op for op in readers if not _sums(op)), None)
        if bad is not None:
            reason = f"`{bad.results[0]}` along `{axis}` is no sum that may be reassociated"
            continue
        if all(judge.degree(op.results[0]) == 1 for op in readers):
            return Online(axis, maximum, tuple(readers), judge.scale, judge.exponential)
        reason = judge.reason or f"a sum along `{axis}` isn't homogeneous in the maximum"
    return NotOnline(reason)


def _sums(op: Reduce | Contract) -> bool:
    if isinstance(op, Reduce) and op.monoid != "add":
        return False
    return "reassoc" in op.flags


@define(eq=False)
class _Homogeneity:
    """How values depend on one maximum m."""

    maximum: Value
    scale: Value | None = None
    exponential: str = ""
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
            case Unary(operator="exp" | "exp2" as operator, value=inner):
                return self._exponential(operator, inner)
            case Unary(operator="neg", value=inner) | Cast(value=inner):
                return self.degree(inner)
            case Binary(operator="mul", left=a, right=b) | Contract(a=a, b=b, accumulator=None):
                one, two = self.degree(a), self.degree(b)
                return self._no("the maximum is in both factors of a product") if one == 1 and two == 1 else self._both(one, two)
            case Binary(operator="div", left=a, right=b):
                return self.degree(a) if self.degree(b) == 0 else self._no("the maximum is in a divisor")
            case Binary(operator="add" | "sub", left=a, right=b):
                return 1 if self.degree(a) == 1 and self.degree(b) == 1 else self._no("something free of the maximum is added")
            case Reduce(monoid="add", values=(inner,)):
                return self.degree(inner)
            case Select(condition=condition, then=then, otherwise=otherwise) if self.degree(condition) == 0:
                sides = [self.degree(side) for side in (then, otherwise) if not _is_zero(side)]
                return 1 if sides and all(side == 1 for side in sides) else self._no("a guard puts in something other than 0")
            case _:
                return self._no("the maximum is used other than in exp(x - maximum)")

    def _both(self, one: int | None, two: int | None) -> int | None:
        return None if one is None or two is None else one + two

    def _no(self, reason: str) -> int | None:
        self.reason = self.reason or reason
        return None

    def _exponential(self, operator: str, inner: Value) -> int | None:
        """exp(c * (x - m)) with x and c free of m, one c everywhere."""
        scale: Value | None = None
        difference = inner.source
        if isinstance(difference, Binary) and difference.operator == "mul":
            for factor, rest in ((difference.right, difference.left), (difference.left, difference.right)):
                if isinstance(factor.source, Const) and isinstance(rest.source, Binary):
                    scale, difference = factor, rest.source
                    break
        if not isinstance(difference, Binary) or difference.operator != "sub" or difference.right is not self.maximum:
            return self._no("the maximum is used other than in exp(x - maximum)")
        if self.reaches(difference.left):
            return self._no("x of exp(x - maximum) depends on the maximum itself")
        if self.exponential and (self.exponential != operator or not _same(self.scale, scale)):
            return self._no("the exponentials have different factors")
        self.scale, self.exponential = scale, operator
        return 1


def _same(one: Value | None, two: Value | None) -> bool:
    if one is None or two is None:
        return one is two
    return one is two or (isinstance(one.source, Const) and isinstance(two.source, Const) and one.source.value == two.source.value)


def _is_zero(value: Value) -> bool:
    return isinstance(value.source, Const) and value.source.value == 0
