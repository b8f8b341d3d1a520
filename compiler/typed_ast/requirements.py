"""Which values fit where a type is expected, and what is said when one doesn't."""

from collections.abc import Iterable
from typing import Protocol

from compiler.diagnostics import Label, Severity
from compiler.source import Span
from compiler.typed_ast.conversions import INT_RANGES, Fit, fit, fits
from compiler.typed_ast.meaning import TypeRules
from compiler.typed_ast.shapes import describe, differ, dims_of
from compiler.typed_ast.types import (
    BOOL,
    I64,
    UNIT,
    DType,
    FutureType,
    ListType,
    OptionType,
    ResultType,
    Scalar,
    StringType,
    TensorType,
    Type,
)

AWAIT_HINT = "`await` gives the value of a future"


class Reports(Protocol):
    """What is asked of a checker here."""

    def report(
        self,
        code: str,
        message: str,
        span: Span,
        label: str = "",
        others: tuple[Label, ...] = (),
        *,
        notes: tuple[str, ...] = (),
        hint: str | None = None,
        severity: Severity = Severity.ERROR,
    ) -> Type: ...

    def kind(self, type_: Type) -> TypeRules: ...

    def show(self, type_: Type) -> str: ...


def require(
    checker: Reports,
    actual: Type,
    expected: Type,
    span: Span,
    what: str,
    others: Iterable[Label] = (),
    value: object = None,
    hint: str | None = None,
) -> bool:
    """Reports a value that doesn't fit; `what` names where it goes, as in "the parameter `qty`", and `others` say why that is so. `value`:
    the number that it is known to be; `hint`: what to do about a value of another kind, where the types don't tell."""
    others = tuple(others)
    fitting = fit(actual, expected, value)
    if fitting is Fit.YES:
        return _require_shape(checker, actual, expected, span, others)
    wanted, given = checker.show(expected), checker.show(actual)
    inside = expected.value if isinstance(expected, OptionType) and not isinstance(actual, OptionType) else expected
    misfit = checker.kind(inside).misfit
    if isinstance(actual, OptionType) and fits(actual.value, inside):
        report_optional(checker, actual, span)
    elif isinstance(actual, ResultType) and fits(actual.value, inside):
        matched = "`match` it with `Ok(v)` and `Err(e)`, or write `e?` to leave with the error"
        checker.report("0726", f"this is a `{actual}`, used as a `{inside}`", span, hint=matched)
    elif misfit is not None and misfit(checker, actual, expected, span, what):
        pass
    elif type(value) is int and isinstance(inside, Scalar) and inside.dtype.is_int:
        low, high = INT_RANGES[inside.dtype]
        checker.report("0705", f"{value} does not fit {inside}", span, "", others, hint=f"{inside} holds {low} to {high}")
    elif fitting is Fit.LOSSY:
        element = inside.element if isinstance(inside, TensorType) else inside
        cast = f"write `... as {element}` if losing that is meant" if isinstance(element, Scalar) else None
        checker.report("0207", f"{what} is `{wanted}`, and a `{given}` may not fit it", span, f"this is {given}", others, hint=cast)
    else:
        shown, label = ("nothing", "") if actual == UNIT else (f"`{given}`", f"this is {given}")
        checker.report("0203", f"{what} is `{wanted}`, and this is {shown}", span, label, others, hint=_hint(actual, inside) or hint)
    return False


def _require_shape(checker: Reports, actual: Type, expected: Type, span: Span, others: tuple[Label, ...]) -> bool:
    if not isinstance(actual, TensorType) or not isinstance(expected, TensorType):
        return True
    have, want = dims_of(actual.shape), dims_of(expected.shape)
    if have is None or want is None or (len(have) == len(want) and not any(map(differ, have, want))):
        return True
    if len(have) != len(want):
        what = f"it has {len(have)} axes, not {len(want)}"
    else:
        axis = next(i for i, (a, b) in enumerate(zip(have, want, strict=True)) if differ(a, b))
        what = f"axis {axis} is {have[axis]}, not {want[axis]}"
    message = f"shapes do not fit: expected {expected}, found {actual}"
    checker.report("0301", message, span, what, others, notes=(f"expected {describe(want)}", f"found    {describe(have)}"))
    return False


def require_int(checker: Reports, type_: Type, span: Span, what: str) -> bool:
    """Reports what is no int; one of any type counts and indexes."""
    if isinstance(type_, Scalar) and type_.dtype.is_int:
        return True
    return require(checker, type_, I64, span, what)


def report_optional(checker: Reports, type_: OptionType, span: Span) -> Type:
    hint = "take it out with `if let v = e { }`, give a default with `e ?? d`, or leave with `e?`"
    return checker.report("0726", f"this is a `{checker.show(type_)}`, which may be none", span, hint=hint)


def _hint(actual: Type, expected: Type) -> str | None:
    if isinstance(actual, FutureType):
        return AWAIT_HINT
    match expected:
        case Scalar(dtype=DType.BOOL):
            if isinstance(actual, TensorType):
                return "say which: `any(...)` or `all(...)`"
            return "compare it, as in `n != 0`" if isinstance(actual, Scalar) else None
        case StringType() if isinstance(actual, Scalar):
            return 'an f-string makes text of it: f"{...}"'
        case TensorType() if isinstance(actual, ListType):
            return "a list of numbers, or of lists of them, becomes a tensor"
        case Scalar() if isinstance(actual, TensorType):
            return "`.item()` takes the number out of a tensor of one element"
        case Scalar() if actual == BOOL:
            return "`b as i64` makes 0 or 1 of a bool"
        case ListType() if isinstance(actual, TensorType):
            return "`.to_list()` makes a list of a tensor"
    return None
