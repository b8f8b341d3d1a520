"""Which values fit where a type is expected, and what is said when one doesn't."""

from compiler.source import Span
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.conversions import fits
from compiler.typed_ast.types import I64, UNIT, DType, OptionType, ResultType, Scalar, Type


def require(checker: Checker, found: Type, expected: Type, span: Span, what: str) -> bool:
    """Reports a value that doesn't fit; `what` names where it goes, as in "the parameter `qty`"."""
    if fits(found, expected):
        return True
    wanted = checker.show(expected)
    inside = expected.value if isinstance(expected, OptionType) and not isinstance(found, OptionType) else expected
    misfit = checker.kind(inside).misfit
    if isinstance(found, OptionType) and fits(found.value, inside):
        report_optional(checker, found, span)
    elif isinstance(found, ResultType) and fits(found.value, inside):
        hint = "`match` it with `Ok(v)` and `Err(e)`, or write `e?` to leave with the error"
        checker.report("0726", f"this is a `{found}`, used as a `{inside}`", span, hint=hint)
    elif misfit is not None and misfit(checker, found, expected, span, what):
        pass
    elif isinstance(found, Scalar) and isinstance(inside, Scalar) and DType.BOOL not in (found.dtype, inside.dtype):
        hint = f"write `... as {inside}` if losing that is meant"
        checker.report("0207", f"{what} is `{wanted}`, and a `{found}` may not fit it", span, hint=hint)
    else:
        given = "nothing" if found == UNIT else f"`{checker.show(found)}`"
        checker.report("0203", f"{what} is `{wanted}`, and this is {given}", span)
    return False


def require_int(checker: Checker, found: Type, span: Span, what: str) -> bool:
    """Reports what is no int; one of any type counts and indexes."""
    if isinstance(found, Scalar) and found.dtype.is_int:
        return True
    return require(checker, found, I64, span, what)


def report_optional(checker: Checker, found: OptionType, span: Span) -> Type:
    hint = "take it out with `if let v = e { }`, give a default with `e ?? d`, or leave with `e?`"
    return checker.report("0726", f"this is a `{checker.show(found)}`, which may be none", span, hint=hint)
