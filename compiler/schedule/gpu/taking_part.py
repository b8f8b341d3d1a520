"""Which terms take part in a reduction: those of `k in i..j + 1` are between bounds that other axes give."""

from compiler.analysis.accesses import constraints_of
from compiler.hir.affine import Affine
from compiler.hir.core import Cast, Const, Contract, Reduce, Select
from compiler.hir.instruction import Value


def bounds_of(target: Reduce | Contract) -> list[Affine]:
    """Forms that are at least 0 wherever something takes part in a reduction."""
    if isinstance(target, Contract):
        return [form for value in (target.a, target.b) for form in _guarded(value)]
    return _guarded(target.values[0]) if len(target.values) == 1 and target.monoid == "add" else []


def _guarded(value: Value) -> list[Affine]:
    match value.source:
        case Select(condition=condition, otherwise=Value(source=Const(value=number))) if number == 0:
            return constraints_of(condition) or []
        case Cast(value=inner):
            return _guarded(inner)
        case _:
            return []
