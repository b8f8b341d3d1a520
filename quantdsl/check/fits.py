"""The type in which two numbers meet, and types and floats in messages."""

from compiler.source import Span
from compiler.typed_ast.conversions import promote
from compiler.typed_ast.types import (
    F32,
    F64,
    STRING,
    WEAK_FLOAT,
    DType,
    ListType,
    OptionType,
    ResultType,
    Scalar,
    StringType,
    StructType,
    TensorType,
    TupleType,
    Type,
)
from quantdsl import types as qt
from quantdsl.check.checker import QuantChecker

CONVERSIONS: dict[type[Type], str] = {qt.PriceType: "to_price", qt.QtyType: "to_qty", qt.MoneyType: "to_money"}


def meet(left: Scalar, right: Scalar) -> Scalar | None:
    """The type in which two numbers are computed: the smallest that holds both, of a literal that of its neighbour; None: none."""
    if DType.BOOL in (left.dtype, right.dtype):
        return left if left.dtype is right.dtype else None
    if left.dtype.is_float or right.dtype.is_float:
        if left.weak and right.weak:
            return WEAK_FLOAT
        narrow = all(found.weak or found.dtype is DType.F32 for found in (left, right))
        return F32 if narrow and DType.F32 in (left.dtype, right.dtype) else F64
    if left.weak or right.weak:
        return left if right.weak else right
    dtype = promote(left.dtype, right.dtype)
    return Scalar(dtype) if dtype is not None else None


def report_float(checker: QuantChecker, place: Type, span: Span) -> Type:
    call = CONVERSIONS[type(place)]
    hint = f"write `{call}(..., round = nearest_even)`, which gives `{place}?`"
    return checker.report("0704", f"a float stands where a `{place}` should", span, hint=hint)


def shown(found: Type) -> str:
    """A type as programs write it, which is without the market in sight."""
    match found:
        case StructType(name=name, arguments=(qt.MarketType(), *_)):
            return name
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
