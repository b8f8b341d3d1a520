"""Operators on numbers, truths and optionals; those on exact numbers and time are in `exact.py`."""

from compiler.hir import instruction as hir
from compiler.typed_ast import nodes
from compiler.typed_ast.types import BOOL, F64, OptionType, ResultType, Scalar, Type
from quantdsl.check.literals import is_literal
from quantdsl.elaborate import exact
from quantdsl.elaborate.arithmetic import arithmetic
from quantdsl.elaborate.context import Context, elaborates
from quantdsl.elaborate.fitting import common, converted
from quantdsl.elaborate.literals import literal
from quantdsl.elaborate.values import Number, Value

COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_BITS = {"&": "and", "|": "or"}


@elaborates(nodes.Unary)
def unary(c: Context, node: nodes.Unary, place: Type | None) -> Value:
    if node.operator == "-" and is_literal(node):
        return literal(c, node, place)
    found = c.number(node.operand)
    if node.operator == "not":
        return c.truth(c.b.negate(found.value))
    return Number(found.type, c.b.neg(found.value))


@elaborates(nodes.Binary)
def binary(c: Context, node: nodes.Binary, place: Type | None) -> Value:
    match node.operator:
        case "??":
            return default(c, node)
        case "and" | "or":
            return shortened(c, node)
    left = c.number(node.left)
    return combined(c, node.operator, left, c.number(node.right), c.type(node))


def combined(c: Context, operator: str, left: Number, right: Number, result: Type) -> Number:
    """An operation on two numbers. `result` is its type where that doesn't follow from the operands."""
    if operator in COMPARISONS:
        return c.truth(compared(c, operator, left, right))
    if isinstance(left.type, Scalar) and isinstance(right.type, Scalar):
        assert isinstance(result, Scalar)
        return Number(result, _numbers(c, operator, left, right, result))
    return exact.combined(c, operator, left, right)


def compared(c: Context, operator: str, left: Number, right: Number) -> hir.Value:
    x, y = left.value, right.value
    if isinstance(left.type, Scalar) and isinstance(right.type, Scalar):
        type = common(left.type, right.type)
        x, y = c.b.cast(x, type), c.b.cast(y, type)
    return c.b.compare(COMPARISONS[operator], x, y)


def _numbers(c: Context, operator: str, left: Number, right: Number, result: Scalar) -> hir.Value:
    if operator == "**":
        return c.b.here.op("pow", *(converted(c, side, F64.dtype) for side in (left, right)))
    x = converted(c, left, result.dtype)
    if operator in ("<<", ">>"):
        amount = c.b.narrow(right.value, result.dtype.value) if right.type != left.type else right.value
        return arithmetic(c, operator, x, amount)
    y = converted(c, right, result.dtype)
    if operator in _BITS:
        return c.b.wrapping(_BITS[operator], x, y)
    return arithmetic(c, operator, x, y)


def shortened(c: Context, node: nodes.Binary) -> Value:
    """`a and b`: the right side is reached only where it decides."""
    left = c.number(node.left, BOOL).value
    found = c.b.variable(left)
    with c.b.when(left if node.operator == "and" else c.b.negate(left)), c.reaching():
        c.b.set(found, c.number(node.right, BOOL).value)
    return c.truth(c.b.now(found))


def default(c: Context, node: nodes.Binary) -> Value:
    """`e ?? d`: d is reached only where e is none or an error."""
    left = c.value(node.left)
    assert isinstance(left.type, OptionType | ResultType)
    there = c.part(left, "present" if isinstance(left.type, OptionType) else "ok")
    assert isinstance(there, Number)
    inner = left.type.value
    result: Type = OptionType(inner) if isinstance(c.type(node), OptionType) and not isinstance(inner, OptionType) else inner
    found = c.variable(c.fit(c.part(left, "value"), result))
    with c.b.when(c.b.negate(there.value)), c.reaching():
        c.write(found, c.value(node.right, result))
    return c.read(found)
