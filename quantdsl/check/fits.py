"""Which values fit a place, and what is said when one doesn't."""

from compiler.source import Span
from compiler.typed_ast.types import (
    ERROR,
    NEVER,
    STRING,
    UNIT,
    DType,
    ListType,
    OptionType,
    ResultType,
    Scalar,
    StringType,
    TensorType,
    TupleType,
    Type,
)
from quantdsl import types as qt
from quantdsl.check.checker import QuantChecker

_CONVERSIONS = {"PriceType": "to_price", "QtyType": "to_qty", "MoneyType": "to_money"}


def fits(found: Type, place: Type) -> bool:
    """Whether a value of one type stands as it is, or widened without loss, where the other is wanted."""
    if found in (place, NEVER) or ERROR in (found, place):
        return True
    match found, place:
        case Scalar(dtype=a, weak=weak), Scalar(dtype=b):
            return _number_fits(a, b, weak)
        case Scalar(dtype=a, weak=True), qt.TypeVariable(bound="Number"):
            return a.is_int
        case qt.Exact(of=None), qt.Exact():
            return type(found) is type(place)
        case qt.NoneType(), OptionType():
            return True
        case OptionType(value=a), OptionType(value=b):
            return fits(a, b)
        case _, OptionType(value=inner):
            return fits(found, inner)
        case ResultType(value=a, error=c), ResultType(value=b, error=d):
            return fits(a, b) and fits(c, d)
        case TupleType(elements=mine), TupleType(elements=others):
            return len(mine) == len(others) and all(fits(a, b) for a, b in zip(mine, others, strict=True))
        case qt.Container(kind=kind, elements=mine, size=size), qt.Container(kind=other, elements=others, size=wanted):
            same = kind == other and len(mine) == len(others) and all(fits(a, b) for a, b in zip(mine, others, strict=True))
            return same and (size == wanted or qt.Size() in (size, wanted))
        case qt.StructType(name=a, arguments=mine), qt.StructType(name=b, arguments=others):
            return a == b and len(mine) == len(others) and all(fits(x, y) for x, y in zip(mine, others, strict=True))
    return False


def _number_fits(found: DType, place: DType, weak: bool) -> bool:
    if found is DType.BOOL or place is DType.BOOL:
        return found is place
    if found.is_int and place.is_int:
        if weak or found is place:
            return True
        if found.is_signed == place.is_signed:
            return found.bits <= place.bits
        return place.is_signed and found.bits < place.bits
    if place.is_float:
        return weak or found.is_int or found.bits <= place.bits
    return False


def require(checker: QuantChecker, found: Type, place: Type, span: Span, what: str) -> bool:
    """Reports a value that doesn't fit; `what` names the place, as in "the parameter `qty`"."""
    if fits(found, place):
        return True
    wanted = shown(place)
    if isinstance(place, OptionType) and not isinstance(found, OptionType):
        place = place.value
    if isinstance(found, OptionType) and fits(found.value, place):
        report_optional(checker, found, span)
    elif isinstance(found, ResultType) and fits(found.value, place):
        hint = "`match` it with `Ok(v)` and `Err(e)`, or write `e?` to leave with the error"
        checker.report("0726", f"this is a `{found}`, used as a `{place}`", span, hint=hint)
    elif isinstance(found, qt.Exact) and isinstance(place, qt.Exact) and type(found) is type(place):
        market = "currency" if isinstance(found, qt.MoneyType) else "instrument"
        checker.report("0701", f"{what} is `{wanted}`, and this is `{found}`, of another {market}", span)
    elif isinstance(found, Scalar) and found.dtype.is_float and type(place).__name__ in _CONVERSIONS:
        report_float(checker, place, span)
    elif isinstance(found, Scalar) and isinstance(place, Scalar) and DType.BOOL not in (found.dtype, place.dtype):
        hint = f"write `... as {place}` if losing that is meant"
        checker.report("0207", f"{what} is `{wanted}`, and a `{found}` may not fit it", span, hint=hint)
    else:
        given = "nothing" if found == UNIT else f"`{shown(found)}`"
        checker.report("0203", f"{what} is `{wanted}`, and this is {given}", span)
    return False


def report_optional(checker: QuantChecker, found: OptionType, span: Span) -> Type:
    hint = "take it out with `if let v = e { }`, give a default with `e ?? d`, or leave with `e?`"
    return checker.report("0726", f"this is a `{shown(found)}`, which may be none", span, hint=hint)


def report_float(checker: QuantChecker, place: Type, span: Span) -> Type:
    call = _CONVERSIONS[type(place).__name__]
    hint = f"write `{call}(..., round = nearest_even)`, which gives `{place}?`"
    return checker.report("0704", f"a float stands where a `{place}` should", span, hint=hint)


def shown(found: Type) -> str:
    """A type as programs write it."""
    match found:
        case OptionType(value=value):
            return f"{shown(value)}?"
        case ResultType(value=value, error=error):
            return f"Result<{shown(value)}, {shown(error)}>"
        case TupleType(elements=elements):
            return f"({', '.join(map(shown, elements))})"
        case ListType(element=element):
            return f"list<{shown(element)}>"
        case StringType() | TensorType():
            return "str" if found == STRING else "tensor"
    return str(found)
