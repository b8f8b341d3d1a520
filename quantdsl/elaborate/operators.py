"""Operators on numbers, truths and optionals; those on exact numbers and time are in `exact.py`."""

import operator as python

from compiler.hir import instruction as hir
from compiler.typed_ast import nodes
from compiler.typed_ast.types import BOOL, F64, OptionType, ResultType, Scalar, Type
from quantdsl import types as qt
from quantdsl.check import heap
from quantdsl.check.fits import shown
from quantdsl.check.literals import is_literal
from quantdsl.elaborate import exact
from quantdsl.elaborate.arithmetic import arithmetic
from quantdsl.elaborate.context import FunctionContext, elaborates
from quantdsl.elaborate.fitting import common, converted
from quantdsl.elaborate.literals import literal
from quantdsl.elaborate.refused import not_in_place, not_supported
from quantdsl.elaborate.values import ScalarValue, Text, Value, Whole

COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_COMPARED = {"==": python.eq, "!=": python.ne, "<": python.lt, "<=": python.le, ">": python.gt, ">=": python.ge}
_BITS = {"&": "and", "|": "or"}


@elaborates(nodes.Unary)
def unary(c: FunctionContext, node: nodes.Unary, place: Type | None) -> Value:
    if node.operator == "-" and is_literal(node):
        return literal(c, node, place)
    found = c.number(node.operand)
    if node.operator == "not":
        return c.truth(c.b.negate(found.value)) if found.constant is None else c.constant(not found.constant, BOOL)
    return ScalarValue(found.type, c.b.neg(found.value))


@elaborates(nodes.Binary)
def binary(c: FunctionContext, node: nodes.Binary, place: Type | None) -> Value:
    match node.operator:
        case "??":
            return default(c, node)
        case "and" | "or":
            return shortened(c, node)
    if heap.is_heap(node.type):
        raise not_in_place(node.type, node.span)
    left = c.value(node.left)
    right = c.value(node.right)
    if isinstance(left, ScalarValue) and isinstance(right, ScalarValue):
        return combined(c, node.operator, left, right, c.type(node))
    equal = same(c, left, right)
    return c.truth(equal if node.operator == "==" else c.b.negate(equal))


def combined(c: FunctionContext, operator: str, left: ScalarValue, right: ScalarValue, result: Type) -> ScalarValue:
    """An operation on two numbers. `result` is its type where that doesn't follow from the operands."""
    if operator in COMPARISONS:
        return c.truth(compared(c, operator, left, right))
    if isinstance(left.type, Scalar) and isinstance(right.type, Scalar):
        assert isinstance(result, Scalar)
        return ScalarValue(result, _numbers(c, operator, left, right, result))
    return exact.combined(c, operator, left, right)


def compared(c: FunctionContext, operator: str, left: ScalarValue, right: ScalarValue) -> hir.Value:
    x, y = left.value, right.value
    if isinstance(left.constant, int) and isinstance(right.constant, int):
        return c.b.const(_COMPARED[operator](left.constant, right.constant), "i1")
    if isinstance(left.type, Scalar) and isinstance(right.type, Scalar):
        type = common(left.type, right.type)
        x, y = c.b.cast(x, type), c.b.cast(y, type)
    return c.b.compare(COMPARISONS[operator], x, y)


def same(c: FunctionContext, left: Value, right: Value) -> hir.Value:
    """Whether two values of one type are equal: of the same case, with equal parts."""
    if isinstance(left, ScalarValue) and isinstance(right, ScalarValue):
        return compared(c, "==", left, right)
    if not isinstance(left, Whole) or not isinstance(right, Whole):
        what = "text" if isinstance(left, Text) else f"`{shown(left.type)}`"
        raise not_supported(f"`==` on {what}", c.span(), "compare numbers, one by one, or use an enum")
    tag, *_ = names = [name for name, _ in c.layouts.parts(left.type)] or [""]
    if not isinstance(left.type, OptionType | ResultType | qt.EnumType):
        equal = [same(c, c.part(left, name), c.part(right, name)) for name in names if name]
        return c.b.both(c.b.const(True, "i1"), *equal)
    first, second = c.part(left, tag), c.part(right, tag)
    assert isinstance(first, ScalarValue) and isinstance(second, ScalarValue)
    found = [c.b.eq(first.value, second.value)]
    for name in names[1:]:
        there = _is_there(c, left.type, name, first.value)
        found.append(c.b.either(c.b.negate(there), same(c, c.part(left, name), c.part(right, name))))
    return c.b.both(*found)


def _is_there(c: FunctionContext, type: Type, part: str, tag: hir.Value) -> hir.Value:
    """Whether a value with this tag has a part."""
    if isinstance(type, qt.EnumType):
        return c.b.eq(tag, c.layouts.tags(type)[part.split(".")[0]])
    return c.b.negate(tag) if part == "error" else tag


def _numbers(c: FunctionContext, operator: str, left: ScalarValue, right: ScalarValue, result: Scalar) -> hir.Value:
    if operator == "**":
        return c.b.here.op("pow", *(converted(c, side, F64.dtype) for side in (left, right)))
    x = converted(c, left, result.dtype)
    if operator in ("<<", ">>"):
        amount = c.b.narrow(right.value, result.dtype.value) if right.type != left.type else right.value
        return arithmetic(c, operator, x, amount)
    y = converted(c, right, result.dtype)
    if operator in _BITS:
        return c.b.wrapping(_BITS[operator], x, y)
    wraps = c.block is not None and result.dtype.is_int and operator in ("+", "-", "*")
    return arithmetic(c, f"{operator}%" if wraps else operator, x, y)


def shortened(c: FunctionContext, node: nodes.Binary) -> Value:
    """`a and b`: the right side is reached only where it decides."""
    first = c.number(node.left, BOOL)
    left, decided = first.value, first.constant
    if decided is not None:
        return c.number(node.right, BOOL) if decided == (node.operator == "and") else first
    found = c.b.variable(left)
    with c.b.when(left if node.operator == "and" else c.b.negate(left)), c.reaching():
        c.b.set(found, c.number(node.right, BOOL).value)
    return c.truth(c.b.now(found))


def default(c: FunctionContext, node: nodes.Binary) -> Value:
    """`e ?? d`: d is reached only where e is none or an error."""
    left = c.value(node.left)
    assert isinstance(left.type, OptionType | ResultType)
    there = c.part(left, "present" if isinstance(left.type, OptionType) else "ok")
    assert isinstance(there, ScalarValue)
    inner = left.type.value
    result: Type = OptionType(inner) if isinstance(c.type(node), OptionType) and not isinstance(inner, OptionType) else inner
    found = c.variable(c.fit(c.part(left, "value"), result))
    with c.b.when(c.b.negate(there.value)), c.reaching():
        c.write(found, c.value(node.right, result))
    return c.read(found)
