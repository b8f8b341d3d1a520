"""Windows at the edge of a picture count only what lies inside. In its interior that condition holds for whole tiles of results, all along
the window: then nothing is compared or masked there."""

from collections.abc import Iterable, Mapping

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Binary, Compare, Const, Index
from compiler.hir.instruction import Value


def bounds_of(condition: Value) -> list[Affine] | None:
    """Forms none of which is negative where the condition holds; None where it isn't a conjunction of comparisons of indices."""
    match condition.source:
        case Binary(operator="and", left=left, right=right):
            first, second = bounds_of(left), bounds_of(right)
            return None if first is None or second is None else [*first, *second]
        case Compare(operator="ge" | "le" | "gt" | "lt" as operator, left=left, right=right):
            low, high = (left, right) if operator in ("le", "lt") else (right, left)
            least, most = _form(low), _form(high)
            return None if least is None or most is None else [most - least - (1 if operator in ("lt", "gt") else 0)]
        case _:
            return None


def _form(value: Value) -> Affine | None:
    match value.source:
        case Index(of=form):
            return form
        case Const(value=int() as number):
            return Affine.of(number)
        case _:
            return None


def least_of(form: Affine, extents: Mapping[str, Affine]) -> Affine | None:
    """The least value of a form whose variables in `extents` run from 0 to below these; None where that isn't a form."""
    least = Affine.of(form.constant)
    for symbol, coefficient in form.terms:
        if isinstance(symbol, str):
            if symbol not in extents:
                least = least + Affine.of(symbol) * coefficient
            elif coefficient < 0:
                least = least + (extents[symbol] - 1) * coefficient
        elif any(name in extents for name in Affine(((symbol, 1),)).names):
            return None
        else:
            least = least + Affine(((symbol, coefficient),))
    return least


def all_hold(forms: Iterable[Affine], b: Builder) -> Value:
    """Whether no form is negative."""
    result: Value | None = None
    for form in forms:
        result = b.both(result, b.op("ge", b.index(form), b.const(0, "index")))
    return b.const(True, "i1") if result is None else result
