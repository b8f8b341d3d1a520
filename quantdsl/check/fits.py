"""Types, and floats in the place of exact numbers, in messages."""

from compiler.source import Span
from compiler.typed_ast.types import (
    STRING,
    ListType,
    OptionType,
    ResultType,
    StringType,
    StructType,
    TensorType,
    TupleType,
    Type,
)
from quantdsl import types as qt
from quantdsl.check.checker import QuantChecker

CONVERSIONS: dict[type[Type], str] = {qt.PriceType: "to_price", qt.QtyType: "to_qty", qt.MoneyType: "to_money"}


def report_float(checker: QuantChecker, place: Type, span: Span) -> Type:
    call = CONVERSIONS[type(place)]
    hint = f"write `{call}(..., round = nearest_even)`, which gives `{place}?`"
    return checker.report("0704", f"a float stands where a `{place}` should", span, hint=hint)


def shown(type_: Type) -> str:
    """A type as programs write it, which is without the market in sight."""
    match type_:
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
            return "str" if type_ == STRING else "tensor"
    return str(type_)
