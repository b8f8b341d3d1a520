"""Operators: what may be added to what, and what comes of it."""

from compiler.diagnostics import Label
from compiler.typed_ast import nodes
from compiler.typed_ast.constants import whole_constant
from compiler.typed_ast.conversions import fits
from compiler.typed_ast.literal_numbers import is_literal
from compiler.typed_ast.rules.bounds import meets
from compiler.typed_ast.rules.optionals import default
from compiler.typed_ast.rules.parts import parts_of
from compiler.typed_ast.rules.requirements import report_optional, require
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import (
    BOOL,
    ERROR,
    F64,
    STRING,
    ArrayType,
    DType,
    EnumType,
    NoneType,
    OptionType,
    ResultType,
    Scalar,
    StructType,
    TupleType,
    Type,
    TypeVariable,
)
from compiler.typed_ast.weak_ints import DIVIDES_BY_ZERO, weak_int
from quantdsl import types as qt
from quantdsl.check import heap
from quantdsl.check.checker import QuantChecker, infers
from quantdsl.check.fits import meet, report_float, shown
from quantdsl.check.literals import in_range, is_weak, negative, whole

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_ADDING = ("+", "-", "+|", "-|", "+%", "-%")
_MULTIPLYING = ("*", "*|", "*%")
_NUMERIC = ("+", "-", "*", "/", "%")
_BITS = ("<<", ">>", "&", "|", "^")
_COUNTED = (qt.TicksType, qt.QtyType, qt.MoneyType)
_LEGAL = "`price + ticks`, `price - price`, `price * qty`, `qty * int`, `money + money`"


@infers(nodes.Unary)
def unary(checker: QuantChecker, node: nodes.Unary, scope: Scope, expected: Type | None, used: bool) -> Type:
    if node.operator == "-" and is_literal(node):
        return negative(checker, node, expected)
    value = weak_int(node)
    if value is not None:
        return whole(checker, node, value, expected)
    found = checker.infer(node.operand, scope, expected if node.operator == "-" else BOOL)
    if found == ERROR:
        return found
    if isinstance(found, OptionType):
        return report_optional(checker, found, node.operand.span)
    if node.operator == "not":
        return BOOL if require(checker, found, BOOL, node.operand.span, "the operand of `not`") else ERROR
    if isinstance(found, _COUNTED) or found in (qt.DURATION, qt.RATIO) or (isinstance(found, Scalar) and found.dtype is not DType.BOOL):
        return found
    if isinstance(found, TypeVariable) and found.bound == "Number":
        return found
    return checker.report("0208", f"a `{shown(found)}` has no negative", node.span)


@infers(nodes.Binary)
def binary(checker: QuantChecker, node: nodes.Binary, scope: Scope, expected: Type | None, used: bool) -> Type:
    if node.operator == "??":
        return default(checker, node, scope, expected)
    value = weak_int(node)
    if value is not None:
        return whole(checker, node, value, expected)
    left, right = _operands(checker, node, scope)
    if node.operator in ("==", "!=") and _optionals(left, right):
        return _equality(checker, node, left, right)
    for found, operand in ((left, node.left), (right, node.right)):
        if isinstance(found, OptionType):
            return report_optional(checker, found, operand.span)
        if isinstance(found, ResultType):
            return checker.report("0726", f"this is a `{found}`", operand.span, hint="`match` it with `Ok(v)` and `Err(e)`, or write `e?`")
    if ERROR in (left, right):
        return BOOL if node.operator in _COMPARISONS else ERROR
    if node.operator in ("and", "or"):
        ok = [require(checker, f, BOOL, o.span, f"the operand of `{node.operator}`") for f, o in ((left, node.left), (right, node.right))]
        return BOOL if all(ok) else ERROR
    made = heap.operation(node, left, right)
    if made is not None:
        return made
    if node.operator in _COMPARISONS:
        return _comparison(checker, node, left, right)
    found = _arithmetic(checker, node, left, right)
    return _constant(checker, node, scope, found)


def _operands(checker: QuantChecker, node: nodes.Binary, scope: Scope) -> tuple[Type, Type]:
    """A literal takes its neighbour's type: of a number, and of an exact value that it is compared with."""
    comparing = node.operator in _COMPARISONS
    inner = BOOL if node.operator in ("and", "or") else None
    if is_weak(node.left) and not is_weak(node.right):
        right = checker.infer(node.right, scope, inner)
        return checker.infer(node.left, scope, right if comparing or isinstance(right, Scalar) else inner), right
    left = checker.infer(node.left, scope, inner)
    beside = left if is_weak(node.right) and (comparing or isinstance(left, Scalar)) else inner
    with checker.within(turns=() if node.operator in ("and", "or") else checker.frame.turns):
        return left, checker.infer(node.right, scope, beside)


def _comparison(checker: QuantChecker, node: nodes.Binary, left: Type, right: Type) -> Type:
    order = node.operator not in ("==", "!=")
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        if (left.dtype is DType.BOOL) != (right.dtype is DType.BOOL) or (order and left.dtype is DType.BOOL):
            _undefined(checker, node, left, right)
        elif not order and (left.dtype.is_float or right.dtype.is_float) and checker.frame.what == "handler":
            hint = "write `approx(a, b, rel)`, or compare with `<`"
            checker.report("0725", f"`{node.operator}` on floats", node.span, hint=hint)
        return BOOL
    if isinstance(left, qt.Exact) and isinstance(right, qt.Exact) and type(left) is type(right):
        if not (fits(left, right) or fits(right, left)):
            _mixed(checker, node, left, right)
        return BOOL
    if not order and isinstance(left, TupleType | StructType | ArrayType):
        return _equality(checker, node, left, right)
    ordered = meets(left, "Ordered")
    if left == right and (
        ordered or (not order and (isinstance(left, EnumType | TypeVariable) or left in (*qt.OPAQUE.values(), STRING)))
    ):
        return BOOL
    if any(isinstance(one, TypeVariable) and fits(other, one) for one, other in ((left, right), (right, left))) and ordered:
        return BOOL
    unbounded = order and left == right and isinstance(left, TypeVariable)
    sided = None if left == right else "both sides have one type"
    _undefined(checker, node, left, right, f"types that `<` compares have a bound: `{left}: Ordered`" if unbounded else sided)
    return BOOL


def _optionals(left: Type, right: Type) -> bool:
    """Two values that may be none, or one and `none` itself."""
    kinds = (OptionType, NoneType)
    return isinstance(left, kinds) and isinstance(right, kinds) and OptionType in (type(left), type(right))


def _equality(checker: QuantChecker, node: nodes.Binary, left: Type, right: Type) -> Type:
    """Of values with parts: all parts are compared."""
    if not ((fits(left, right) and _compared(checker, right)) or (fits(right, left) and _compared(checker, left))):
        _undefined(checker, node, left, right)
    elif checker.frame.what == "handler" and (_has_floats(checker, left) or _has_floats(checker, right)):
        checker.report("0725", f"`{node.operator}` on floats", node.span, hint="compare the parts, floats with `approx(a, b, rel)`")
    return BOOL


def _compared(checker: QuantChecker, found: Type) -> bool:
    """Whether `==` is defined for a type and all that it is made of."""
    within = parts_of(checker, found)
    if within is not None:
        return all(_compared(checker, part) for part in within)
    return isinstance(found, Scalar | qt.Exact | NoneType) or meets(found, "Ordered") or found in (*qt.OPAQUE.values(), STRING)


def _has_floats(checker: QuantChecker, found: Type) -> bool:
    within = parts_of(checker, found)
    if within is not None:
        return any(_has_floats(checker, part) for part in within)
    return isinstance(found, Scalar) and found.dtype.is_float


def _mixed(checker: QuantChecker, node: nodes.Binary, left: qt.Exact, right: qt.Exact) -> Type:
    what = "currencies" if isinstance(left, qt.MoneyType) else "instruments"
    others = (Label(node.left.span, f"`{left}`"), Label(node.right.span, f"`{right}`"))
    span = node.operator_span if node.operator_span.path else node.span
    return checker.report("0701", f"values of two {what} are mixed", span, others=others)


def _arithmetic(checker: QuantChecker, node: nodes.Binary, left: Type, right: Type) -> Type:
    operator = node.operator
    variable = next((one for one in (left, right) if isinstance(one, TypeVariable)), None)
    if variable is not None and operator in _NUMERIC and variable.bound == "Number" and fits(left, variable) and fits(right, variable):
        return variable
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        return _numbers(checker, node, left, right)
    if isinstance(left, qt.Exact) and isinstance(right, qt.Exact):
        found = _exact(checker, node, left, right)
        if found is not None:
            return found
    elif isinstance(left, Scalar | qt.Exact) and isinstance(right, Scalar | qt.Exact):
        exact, number = (left, right) if isinstance(left, qt.Exact) else (right, left)
        assert isinstance(exact, qt.Exact) and isinstance(number, Scalar)
        if isinstance(exact, _COUNTED) and (operator in _MULTIPLYING or (operator in "/%" and exact is left)):
            if number.dtype.is_float:
                return (
                    report_float(checker, exact, node.span)
                    if not isinstance(exact, qt.TicksType)
                    else _undefined(checker, node, left, right)
                )
            if number.dtype is not DType.BOOL:
                return exact
    else:
        found = _time_and_ratio(operator, left, right)
        if found is not None:
            return found
    return _undefined(checker, node, left, right)


def _exact(checker: QuantChecker, node: nodes.Binary, left: qt.Exact, right: qt.Exact) -> Type | None:
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


def _time_and_ratio(operator: str, left: Type, right: Type) -> Type | None:
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


def _numbers(checker: QuantChecker, node: nodes.Binary, left: Scalar, right: Scalar) -> Type:
    if DType.BOOL in (left.dtype, right.dtype):
        return _undefined(checker, node, left, right)
    floats = left.dtype.is_float or right.dtype.is_float
    if floats and (node.operator in _BITS or (len(node.operator) == 2 and node.operator[1] in "|%")):
        return _undefined(checker, node, left, right)
    if floats and node.operator == "**":
        return F64
    if node.operator in ("<<", ">>"):
        return left
    common = meet(left, right)
    if common is not None:
        return common
    hint = f"convert one: `... as {left}`"
    return checker.report("0207", f"`{left}` and `{right}` have no common type", node.span, hint=hint)


def _undefined(checker: QuantChecker, node: nodes.Binary, left: Type, right: Type, instead: str | None = None) -> Type:
    hint = instead or (f"defined are {_LEGAL}" if isinstance(left, qt.Exact) or isinstance(right, qt.Exact) else None)
    variable = next((one for one in (left, right) if isinstance(one, TypeVariable)), None)
    if variable is not None and node.operator in _NUMERIC:
        hint = f"what is calculated with has a bound: `{variable}: Number`"
        if variable.bound == "Number":
            hint = f"a `{variable}` goes with a `{variable}`, or with a whole number that is written out"
    message = f"operator `{node.operator}` is not defined for {shown(left)} and {shown(right)}"
    if hint is None and BOOL in (left, right) and isinstance(left, Scalar) and isinstance(right, Scalar):
        hint = "`b as i64` makes 0 or 1 of a bool"
    others = (Label(node.left.span, shown(left)), Label(node.right.span, shown(right)))
    return checker.report("0208", message, node.operator_span if node.operator_span.path else node.span, hint=hint, others=others)


def _constant(checker: QuantChecker, node: nodes.Binary, scope: Scope, found: Type) -> Type:
    """Constants are computed exactly: what doesn't fit, or divides by zero, is an error now."""
    if node.operator in ("/", "%") and whole_constant(node.right, scope) == 0 and not (isinstance(found, Scalar) and found.dtype.is_float):
        return checker.report("0705", DIVIDES_BY_ZERO, node.span)
    if isinstance(found, Scalar) and found.dtype.is_int and (value := whole_constant(node, scope)) is not None:
        return in_range(checker, value, found, node.span)
    return found
