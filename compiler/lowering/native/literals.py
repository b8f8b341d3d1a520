"""Literals: numbers as the type of their place."""

from fractions import Fraction

from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.rules import CORE
from compiler.lowering.native.values import ScalarValue, Text, Value
from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import place_of
from compiler.typed_ast.literal_numbers import decimal
from compiler.typed_ast.types import BOOL, UNKNOWN, Scalar, Type
from compiler.typed_ast.weak_ints import weak_int


@CORE.elaborates(nodes.IntLiteral, nodes.FloatLiteral)
def number(c: FunctionContext, node: nodes.IntLiteral | nodes.FloatLiteral, place: Type | None) -> Value:
    return literal(c, node, place)


def literal(c: FunctionContext, node: nodes.Expression, place: Type | None) -> ScalarValue:
    """A number, perhaps behind a minus, which is part of it, or arithmetic on ints that are written out."""
    type = c.type(node) if node.type != UNKNOWN else place_of(place)
    assert type is not None
    value = decimal(node)
    if value is None and (whole := weak_int(node)) is not None:
        value = Fraction(whole)
    assert value is not None, "a literal number"
    match type:
        case Scalar(dtype=dtype) if dtype.is_float:
            return c.constant(nearest(value), type)
        case Scalar():
            return c.constant(int(value), type)
    found: ScalarValue = c.tables.literals[type.__class__](c, value, type)
    return found


def nearest(value: Fraction) -> float:
    """The double nearest to a number."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


@CORE.elaborates(nodes.BoolLiteral)
def boolean(c: FunctionContext, node: nodes.BoolLiteral, place: Type | None) -> Value:
    return c.constant(node.value, BOOL)


@CORE.elaborates(nodes.StringLiteral)
def string(c: FunctionContext, node: nodes.StringLiteral, place: Type | None) -> Value:
    return Text(node.value)
