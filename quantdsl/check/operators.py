"""What operators mean on money, prices, quantities, times and ratios."""

from compiler.typed_ast.conversions import fits
from compiler.typed_ast.nodes import Binary
from compiler.typed_ast.rules.bounds import meets
from compiler.typed_ast.rules.operators import COMPARISONS, both_sides, operator_span
from compiler.typed_ast.rules.parts import parts_of
from compiler.typed_ast.types import BOOL, F64, DType, Scalar, Type
from quantdsl import types as qt
from quantdsl.check.checker import QuantChecker
from quantdsl.check.fits import report_float

_ADDING = ("+", "-", "+|", "-|", "+%", "-%")
_MULTIPLYING = ("*", "*|", "*%")
_COUNTED = (qt.TicksType, qt.QtyType, qt.MoneyType)


def exact(checker: QuantChecker, node: Binary, left: Type, right: Type) -> Type | None:
    """Of exact values with each other, and of those that count something with ints."""
    operator = node.operator
    if isinstance(left, qt.Exact) and isinstance(right, qt.Exact):
        if operator not in COMPARISONS:
            return _two_exact(checker, node, left, right)
        if type(left) is not type(right):
            return None
        return BOOL if fits(left, right) or fits(right, left) else _mixed(checker, node, left, right)
    counted, number = (left, right) if isinstance(left, qt.Exact) else (right, left)
    if not isinstance(counted, _COUNTED) or not isinstance(number, Scalar) or number.dtype is DType.BOOL:
        return None
    if operator not in _MULTIPLYING and not (operator in "/%" and counted is left):
        return None
    if number.dtype.is_float:
        return None if isinstance(counted, qt.TicksType) else report_float(checker, counted, node.span)
    return counted


def legal(checker: QuantChecker, node: Binary, left: Type, right: Type) -> str:
    return "defined are `price + ticks`, `price - price`, `price * qty`, `qty * int`, `money + money`"


def no_equal_floats(checker: QuantChecker, node: Binary, left: Type, right: Type) -> None:
    """In handlers floats aren't compared for equality, alone or as parts."""
    if checker.frame.what == "handler" and (_has_floats(checker, left) or _has_floats(checker, right)):
        alone = isinstance(left, Scalar)
        hint = "write `approx(a, b, rel)`, or compare with `<`" if alone else "compare the parts, floats with `approx(a, b, rel)`"
        checker.report("0725", f"`{node.operator}` on floats", node.span, hint=hint)


def _has_floats(checker: QuantChecker, type_: Type) -> bool:
    within = parts_of(checker, type_)
    if within is not None:
        return any(_has_floats(checker, part) for part in within)
    return isinstance(type_, Scalar) and type_.dtype.is_float


def _mixed(checker: QuantChecker, node: Binary, left: qt.Exact, right: qt.Exact) -> Type:
    what = "currencies" if isinstance(left, qt.MoneyType) else "instruments"
    others = both_sides(checker, node, left, right)
    return checker.report("0701", f"values of two {what} are mixed", operator_span(node), others=others)


def _two_exact(checker: QuantChecker, node: Binary, left: qt.Exact, right: qt.Exact) -> Type | None:
    """The type of an operation on two exact values; None where there is no such operation."""
    operator = node.operator
    of = left.of or right.of
    both = None not in (left.of, right.of) and left.of != right.of
    kinds = (type(left), type(right))
    result: Type | None = None
    if operator in _ADDING:
        if kinds == (qt.PriceType, qt.PriceType) and operator.startswith("-"):
            result = qt.TicksType(of)
        elif kinds[0] is kinds[1] and kinds[0] in _COUNTED:
            result = kinds[0](of)
        elif kinds == (qt.PriceType, qt.TicksType) or (kinds == (qt.TicksType, qt.PriceType) and operator.startswith("+")):
            result = qt.PriceType(of)
    elif operator in _MULTIPLYING and set(kinds) in ({qt.PriceType, qt.QtyType}, {qt.TicksType, qt.QtyType}):
        instrument = checker.own.world.instruments.get(of) if of else None
        result = qt.MoneyType(instrument.currency.name if instrument else None)
    elif operator in ("/", "%") and kinds[0] is kinds[1] and kinds[0] in _COUNTED:
        result = Scalar(DType.I64) if operator == "/" else kinds[0](of)
    return _mixed(checker, node, left, right) if both and result is not None else result


def time_and_ratio(checker: QuantChecker, node: Binary, left: Type, right: Type) -> Type | None:
    """Times, and ratios of prices: those of one type are compared, too."""
    operator = node.operator
    if operator in COMPARISONS:
        return BOOL if left == right and meets(left, "Ordered") else None
    stamp, span, ratio = qt.TIMESTAMP, qt.DURATION, qt.RATIO
    number = next((found for found in (left, right) if isinstance(found, Scalar) and found.dtype is not DType.BOOL), None)
    whole = number is not None and number.dtype.is_int
    match operator:
        case "+" if {left, right} == {stamp, span}:
            return stamp
        case "-" if (left, right) == (stamp, span):
            return stamp
        case "-" if (left, right) == (stamp, stamp):
            return span
        case "+" | "-" if left == right and left in (span, ratio):
            return left
        case "*" if span in (left, right) and whole:
            return span
        case "/" | "%" if left == span and whole:
            return span
        case "/" if (left, right) == (span, span):
            return Scalar(DType.I64)
        case "%" if (left, right) == (span, span):
            return span
        case "*" | "/" if ratio in (left, right) and (number is not None or left == right):
            return F64
        case "+" | "-" if ratio in (left, right) and number is not None and number.dtype.is_float:
            return F64
    return None
