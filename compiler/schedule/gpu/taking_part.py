"""Which terms take part in a reduction: those of `k in i..j + 1` are between bounds that other axes give."""

from collections.abc import Sequence

from compiler.analysis.accesses import constraints_of
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Cast, Const, Contract, Reduce, Select
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.schedule.table import AxisPlan


def bounds_of(target: Reduce | Contract) -> list[Affine]:
    """Forms that are at least 0 wherever something takes part in a reduction."""
    if isinstance(target, Contract):
        return [form for value in (target.a, target.b) for form in _guarded(value)]
    return _guarded(target.values[0]) if len(target.values) == 1 and target.monoid == "add" else []


def longest_first(field: HirFunction, b: Builder, number: Value, total: Value, plans: Sequence[AxisPlan]) -> Value:
    """The tile of a turn, so that long sums don't come last: in the order of the axes, or backwards where sums grow all along the first of
    them that bounds one."""
    sums = [op for op in field.body.body if isinstance(op, Reduce | Contract)]
    for plan in plans:
        for op in sums:
            for form in bounds_of(op):
                growth = form.coefficient(plan.axis)
                if growth and any(form.coefficient(axis) and _is_as_long(field, axis, plan.axis) for axis in op.over):
                    return b.sub(b.sub(total, b.const(1, "index")), number) if growth > 0 else number
    return number


def _is_as_long(field: HirFunction, axis: str, other: str) -> bool:
    """Whether an axis is surely about as long as another: a window is short, and its sums grow at the border only."""
    own, beside = field.axes[axis], field.axes[other]
    return (own - beside).value is not None and (own.value is None or 2 * own.value >= (beside.value or 0))


def _guarded(value: Value) -> list[Affine]:
    match value.source:
        case Select(condition=condition, otherwise=Value(source=Const(value=number))) if number == 0:
            return constraints_of(condition) or []
        case Cast(value=inner):
            return _guarded(inner)
        case _:
            return []
