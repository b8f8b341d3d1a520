"""Floats of ZynML as they are written: the nearest double to the text, which becomes the float that its place or its neighbour is."""

from compiler.lowering.native import operators
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.host_library import TABLES
from compiler.lowering.native.values import Value
from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import place_of
from compiler.typed_ast.types import Scalar, Type


@TABLES.elaborates(nodes.FloatLiteral)
def number(c: FunctionContext, node: nodes.FloatLiteral, place: Type | None) -> Value:
    return _constant(c, node.value, node, place)


@TABLES.elaborates(nodes.Unary)
def negated(c: FunctionContext, node: nodes.Unary, place: Type | None) -> Value:
    """`-0.0` has a sign, too."""
    if node.operator == "-" and isinstance(node.operand, nodes.FloatLiteral):
        return _constant(c, -node.operand.value, node, place)
    return operators.unary(c, node, place)


def _constant(c: FunctionContext, value: float, node: nodes.Expression, place: Type | None) -> Value:
    """A weak literal takes the float of its place."""
    wanted, own = place_of(place), c.type(node)
    weak = isinstance(node.type, Scalar) and node.type.weak
    takes = weak and isinstance(wanted, Scalar) and wanted.dtype.is_float
    return c.constant(value, wanted if takes and wanted is not None else own)
