"""The online rule: reductions over an axis that read the maximum over the same axis may run beside it, in one pass.

Let m be the maximum of x along k, and R(m) = sum over k of g(m), where g is homogeneous in m: g(m') = rho * g(m) with rho free of k.
Then R over a prefix, times rho(old m, new m), plus g(new m) of what comes next, is R over the longer prefix. Here m reaches g
only as exp(c * (x - m)), so rho = exp(c * (old - new)); what follows must be linear (`analysis/homogeneity.py`). The sums must be free to
reassociate.

The pass finds where the rule holds and says so; which schedule makes use of it is decided there."""

from collections.abc import Sequence

from compiler.analysis.homogeneity import Homogeneity
from compiler.hir.core import Binary, Const, Contract, Reduce
from compiler.hir.instruction import Instruction, Value
from compiler.hir.module import HirFunction
from runtime.records import frozen


@frozen(eq=False)
class Online:
    """Along `axis`: the maximum, the reductions that are rescaled when it grows, the factor c (None: 1) and the exponential. `total` is
    what exponents are less by: the maximum, or the larger of it and the number that it starts from."""

    axis: str
    maximum: Reduce
    rescaled: tuple[Reduce | Contract, ...]
    scale: Value | None
    exponential: str
    total: Value
    start: float


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
        total, start = _started(maximum, ops)
        judge = Homogeneity(total)
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
            assert judge.exponential is not None
            return Online(axis, maximum, tuple(readers), judge.exponential.scale, judge.exponential.operator, total, start)
        reason = judge.reason or f"a sum along `{axis}` isn't homogeneous in the maximum"
    return NotOnline(reason)


def _started(maximum: Reduce, ops: Sequence[Instruction]) -> tuple[Value, float]:
    """The maximum with the constant that it is joined with before anything else reads it, and that; -inf where there is none."""
    result = maximum.results[0]
    readers = [op for op in ops if result in op.operand_values]
    match readers:
        case [Binary(operator="max", left=left, right=right) as joined]:
            other = right if left is result else left
            if isinstance(other.source, Const):
                return joined.result, float(other.source.value)
        case _:
            pass
    return result, float("-inf")


def _sums(op: Reduce | Contract) -> bool:
    if isinstance(op, Reduce) and op.monoid != "add":
        return False
    return "reassoc" in op.flags
