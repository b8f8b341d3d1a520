"""Literals: numbers as the type of their place, exact ones as whole numbers of steps."""

from fractions import Fraction

from compiler.typed_ast import nodes
from compiler.typed_ast.types import BOOL, UNKNOWN, Scalar, Type
from quantdsl import types as qt
from quantdsl.check.exact import decimal
from quantdsl.check.literals import DURATIONS, place_of
from quantdsl.elaborate.context import FunctionContext, elaborates
from quantdsl.elaborate.refused import not_supported
from quantdsl.elaborate.values import ScalarValue, Text, Value

_RATIOS = {"bps": Fraction(1, 10_000), "pct": Fraction(1, 100)}


@elaborates(nodes.IntLiteral, nodes.FloatLiteral)
def number(c: FunctionContext, node: nodes.IntLiteral | nodes.FloatLiteral, place: Type | None) -> Value:
    return literal(c, node, place)


def literal(c: FunctionContext, node: nodes.Expression, place: Type | None) -> ScalarValue:
    """A number, perhaps behind a minus, which is part of it."""
    type = c.type(node) if node.type != UNKNOWN else place_of(place)
    assert type is not None
    value = decimal(node)
    assert value is not None, "a literal number"
    match type:
        case Scalar(dtype=dtype) if dtype.is_float:
            return c.constant(nearest(value), type)
        case Scalar():
            return c.constant(int(value), type)
        case qt.Exact():
            return c.constant(int(value / step(c, type)), type)
    raise AssertionError(f"a literal of type {type}")


def step(c: FunctionContext, type: qt.Exact) -> Fraction:
    """What one unit of an exact type is worth: a tick, a lot, the smallest amount of a currency."""
    world = c.elaboration.world
    assert type.of is not None
    if isinstance(type, qt.MoneyType):
        return world.currencies[type.of].unit
    instrument = world.instruments[type.of]
    return instrument.lot if isinstance(type, qt.QtyType) else instrument.tick


def nearest(value: Fraction) -> float:
    """The double nearest to a number."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


@elaborates(nodes.UnitNumber)
def unit_number(c: FunctionContext, node: nodes.UnitNumber, place: Type | None) -> Value:
    value = Fraction(node.text)
    if node.unit in DURATIONS:
        return c.constant(int(value * DURATIONS[node.unit]), qt.DURATION)
    if node.unit in _RATIOS:
        return c.constant(nearest(value * _RATIOS[node.unit]), qt.RATIO)
    if node.unit == "ticks":
        return c.constant(int(value), qt.TicksType())
    if node.unit == "lots":
        return c.constant(int(value), qt.QtyType())
    return c.constant(int(value / c.elaboration.world.currencies[node.unit].unit), qt.MoneyType(node.unit))


@elaborates(nodes.BoolLiteral)
def boolean(c: FunctionContext, node: nodes.BoolLiteral, place: Type | None) -> Value:
    return c.constant(node.value, BOOL)


@elaborates(nodes.StringLiteral)
def string(c: FunctionContext, node: nodes.StringLiteral, place: Type | None) -> Value:
    return Text(node.value)


@elaborates(nodes.FString)
def fstring(c: FunctionContext, node: nodes.FString, place: Type | None) -> Value:
    raise not_supported("an f-string", node.span, "texts are constants in compiled code: write the text, and the numbers with `log_ring`")
