"""Arithmetic of prices, quantities, money, time and ratios: whole numbers of steps, checked in 64 bits."""

from compiler.hir.native_expressions import Expr
from compiler.lowering.native.arithmetic import arithmetic, checked
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.fitting import as_i64
from compiler.lowering.native.values import ScalarValue
from compiler.typed_ast.types import F64, I64, Scalar, Type
from quantdsl import types as qt
from quantdsl.check.fits import shown
from quantdsl.elaborate.own import own
from quantdsl.elaborate.rules import TABLES

_UNITS: dict[type, str] = {qt.PriceType: "ticks", qt.TicksType: "ticks", qt.QtyType: "lots", qt.MoneyType: "units"}


def unit(type: Type) -> str:
    """What the numbers of an exact type count."""
    return "ns" if type in (qt.DURATION, qt.TIMESTAMP) else _UNITS.get(type.__class__, "whole numbers")


def overflow(operator: str, type: Type) -> str:
    """What is said when a result has no value; `{0}` and `{1}` are the operands, as counts."""
    problem = "has no value in" if operator in "/%" else "doesn't fit"
    return f"{{0}} {operator} {{1}} {problem} `{shown(type)}`" + ("" if isinstance(type, Scalar) else f", in {unit(type)}")


@TABLES.combines(qt.PriceType, qt.TicksType, qt.QtyType, qt.MoneyType, qt.PlainType)
def combined(c: FunctionContext, operator: str, left: ScalarValue, right: ScalarValue) -> ScalarValue:
    """An operation of which at least one side is exact, a time or a ratio."""
    if qt.RATIO in (left.type, right.type):
        x, y = left.value.cast("f64"), right.value.cast("f64")
        both = left.type == right.type and operator in "+-"
        return ScalarValue(qt.RATIO if both else F64, arithmetic(c, operator, x, y))
    kinds = (type(left.type), type(right.type))
    if operator[0] == "*" and qt.QtyType in kinds and (qt.PriceType in kinds or qt.TicksType in kinds):
        return money(c, operator, left, right)
    result = result_of(operator, left.type, right.type)
    return ScalarValue(result, arithmetic(c, operator, as_i64(c, left), as_i64(c, right), overflow(operator, result)))


def result_of(operator: str, left: Type, right: Type) -> Type:
    """The type of a sum, a difference, a multiple or a quotient."""
    if isinstance(right, Scalar):
        return left
    if isinstance(left, Scalar):
        return right
    if left == qt.TIMESTAMP or right == qt.TIMESTAMP:
        return qt.DURATION if left == right else qt.TIMESTAMP
    if left == right == qt.DURATION:
        return I64 if operator == "/" else qt.DURATION
    assert isinstance(left, qt.Exact) and isinstance(right, qt.Exact)
    of = left.of or right.of
    if operator == "/":
        return I64
    if isinstance(left, qt.PriceType) and isinstance(right, qt.PriceType):
        return qt.TicksType(of)
    if isinstance(left, qt.PriceType) or isinstance(right, qt.PriceType):
        return qt.PriceType(of)
    return type(left)(of)


def money(c: FunctionContext, operator: str, left: ScalarValue, right: ScalarValue) -> ScalarValue:
    """Price x quantity: ticks x lots x the money of one tick and lot, which is at least 1. So the product fits 64 bits just where both
    steps do, and saturates or wraps as they do."""
    assert isinstance(left.type, qt.Exact) and isinstance(right.type, qt.Exact)
    of = left.type.of or right.type.of
    if of is None:
        raise c.refuse("0203", "nothing says of which instrument this product is", "write the type of one side: `let p: Price<...> = ...`")
    instrument = own(c).world.instruments[of]
    type = qt.MoneyType(instrument.currency.name)
    tick_value = c.b.const(int(instrument.money_per_tick_and_lot), "i64")
    if operator != "*":
        return ScalarValue(type, arithmetic(c, operator, arithmetic(c, operator, left.value, right.value), tick_value))
    units = f"{unit(left.type)} * {{1}} {unit(right.type)}"
    product = checked(c, "mul", left.value, right.value, f"{{0}} {units} doesn't fit `{shown(type)}`")
    words = f"{{0}} (ticks * lots) of {{1}} units each doesn't fit `{shown(type)}`"
    return ScalarValue(type, product if instrument.money_per_tick_and_lot == 1 else checked(c, "mul", product, tick_value, words))


def divided(c: FunctionContext, count: Expr, divisor: int, power: int) -> Expr:
    """count * divisor / power as a double; with one rounding while count * divisor is below 2**53."""
    x = count.cast("f64")
    if divisor != 1:
        x = x * float(divisor)
    return x / float(power) if power != 1 else x
