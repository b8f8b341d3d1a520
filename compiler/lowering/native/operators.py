"""Operators on numbers, truths and optionals, and whether values are equal."""

import operator as python

from compiler.hir.native_expressions import Expr, all_of
from compiler.lowering.native.arithmetic import OPERATIONS, arithmetic
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.fitting import common, converted
from compiler.lowering.native.literals import literal
from compiler.lowering.native.powers import power_of_ints
from compiler.lowering.native.rules import CORE
from compiler.lowering.native.values import InMemory, ScalarValue, Text, Value
from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import fits
from compiler.typed_ast.literal_numbers import is_literal
from compiler.typed_ast.types import (
    BOOL,
    F64,
    ArrayType,
    DType,
    EnumType,
    ListType,
    OptionType,
    ResultType,
    Scalar,
    StringType,
    TensorType,
    Type,
)
from compiler.typed_ast.weak_ints import weak_int

COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_COMPARED = {"==": python.eq, "!=": python.ne, "<": python.lt, "<=": python.le, ">": python.gt, ">=": python.ge}
_BITS = {"&": "and", "|": "or"}


@CORE.elaborates(nodes.Unary)
def unary(c: FunctionContext, node: nodes.Unary, place: Type | None) -> Value:
    if node.operator == "-" and (is_literal(node) or weak_int(node) is not None):
        return literal(c, node, place)
    found = c.number(node.operand)
    if node.operator == "not":
        return c.truth(~found.value) if found.constant is None else c.constant(not found.constant, BOOL)
    wraps = c.wraps and isinstance(found.type, Scalar) and found.type.dtype.is_int
    return ScalarValue(found.type, c.b.wrapping("sub", 0, found.value) if wraps else -found.value)


@CORE.elaborates(nodes.Binary)
def binary(c: FunctionContext, node: nodes.Binary, place: Type | None) -> Value:
    if weak_int(node) is not None:
        return literal(c, node, place)
    match node.operator:
        case "??":
            return default(c, node)
        case "and" | "or":
            return shortened(c, node)
    if isinstance(node.type, ListType | StringType | TensorType):
        raise c.layouts.rules.not_in_place(node.type, node.span)
    left = c.value(node.left)
    right = c.value(node.right)
    if isinstance(left, ScalarValue) and isinstance(right, ScalarValue):
        left, right = _met(c, node, left, right)
        return combined(c, node.operator, left, right, c.type(node))
    wide = left.type if fits(right.type, left.type) else right.type
    equal = same(c, c.fit(left, wide), c.fit(right, wide))
    return c.truth(equal if node.operator == "==" else ~equal)


def _met(c: FunctionContext, node: nodes.Binary, left: ScalarValue, right: ScalarValue) -> tuple[ScalarValue, ScalarValue]:
    """The operands of a comparison with an f32 as the float in which they are compared: a literal beside it is one."""
    match node.left.type, node.right.type:
        case Scalar() as one, Scalar() as other if node.operator in COMPARISONS and DType.F32 in (one.dtype, other.dtype):
            met = c.elaboration.rules.meaning.meet(one, other)
            if met is not None:
                return ScalarValue(met, converted(c, left, met.dtype)), ScalarValue(met, converted(c, right, met.dtype))
    return left, right


def combined(c: FunctionContext, operator: str, left: ScalarValue, right: ScalarValue, result: Type) -> ScalarValue:
    """An operation on two numbers. `result` is its type where that doesn't follow from the operands."""
    if operator in COMPARISONS:
        return c.truth(compared(c, operator, left, right))
    if isinstance(left.type, Scalar) and isinstance(right.type, Scalar):
        assert isinstance(result, Scalar)
        return ScalarValue(result, _numbers(c, operator, left, right, result))
    kind = type(right.type if isinstance(left.type, Scalar) else left.type)
    found: ScalarValue = c.tables.operations[kind](c, operator, left, right)
    return found


def compared(c: FunctionContext, operator: str, left: ScalarValue, right: ScalarValue) -> Expr:
    x, y = left.value, right.value
    if isinstance(left.constant, int) and isinstance(right.constant, int):
        return c.b.const(_COMPARED[operator](left.constant, right.constant), "i1")
    if isinstance(left.type, Scalar) and isinstance(right.type, Scalar):
        type = common(c, left.type, right.type)
        x, y = x.cast(type), y.cast(type)
    return c.b.compare(COMPARISONS[operator], x, y)


def same(c: FunctionContext, left: Value, right: Value) -> Expr:
    """Whether two values of one type are equal: of the same case, with equal parts."""
    if isinstance(left, ScalarValue) and isinstance(right, ScalarValue):
        return compared(c, "==", left, right)
    if isinstance(left, Text) or isinstance(right, Text):
        raise c.not_supported("`==` on text", "compare numbers, one by one, or use an enum")
    if isinstance(left.type, ArrayType):
        assert isinstance(left, InMemory) and isinstance(right, InMemory)
        return _same_elements(c, left, right, left.type)
    tag, *_ = names = [name for name, _ in c.layouts.parts(left.type)] or [""]
    if not isinstance(left.type, OptionType | ResultType | EnumType):
        equal = [same(c, c.part(left, name), c.part(right, name)) for name in names if name]
        return all_of(c.b.const(True, "i1"), *equal)
    first, second = c.part(left, tag), c.part(right, tag)
    assert isinstance(first, ScalarValue) and isinstance(second, ScalarValue)
    found = [first.value == second.value]
    for name in names[1:]:
        there = _is_there(c, left.type, name, first.value)
        found.append(~there | same(c, c.part(left, name), c.part(right, name)))
    return all_of(*found)


def _same_elements(c: FunctionContext, left: InMemory, right: InMemory, array: ArrayType) -> Expr:
    """Whether two arrays of as many elements have equal ones."""
    found = c.b.variable(True)
    with c.b.loop(0, c.layouts.size(array)) as i:
        one, other = (c.read(InMemory(array.element, c.b.part(side.pointer, i, checks=False))) for side in (left, right))
        found.value &= same(c, one, other)
    return found.value


def _is_there(c: FunctionContext, type: Type, part: str, tag: Expr) -> Expr:
    """Whether a value with this tag has a part."""
    if isinstance(type, EnumType):
        return tag == c.layouts.tags(type)[part.split(".")[0]]
    return ~tag if part == "error" else tag


def _numbers(c: FunctionContext, operator: str, left: ScalarValue, right: ScalarValue, result: Scalar) -> Expr:
    if operator == "**" and result.dtype.is_float:
        own = c.elaboration.rules.power
        x, y = (converted(c, side, result.dtype).cast(F64.dtype.value) for side in (left, right))
        power = own(c, x, y) if own is not None else c.b.op("pow", x, y)
        return power.cast(result.dtype.value) if result.dtype is not DType.F64 else power
    x = converted(c, left, result.dtype)
    if operator in ("<<", ">>"):
        if c.wraps:
            return c.b.wrapping(OPERATIONS[operator], x, right.value.cast(result.dtype.value))
        return arithmetic(c, operator, x, right.value.narrow(result.dtype.value) if right.type != left.type else right.value)
    y = converted(c, right, result.dtype)
    if operator == "**":
        return power_of_ints(c, x, y)
    if operator in _BITS:
        return c.b.wrapping(_BITS[operator], x, y)
    wraps = c.wraps and result.dtype.is_int and operator in ("+", "-", "*")
    return arithmetic(c, f"{operator}%" if wraps else operator, x, y)


def shortened(c: FunctionContext, node: nodes.Binary) -> Value:
    """`a and b`: the right side is reached only where it decides."""
    first = c.number(node.left, BOOL)
    left, decided = first.value, first.constant
    if decided is not None:
        return c.number(node.right, BOOL) if decided == (node.operator == "and") else first
    found = c.b.variable(left)
    with c.b.when(left if node.operator == "and" else ~left), c.reaching():
        found.value = c.number(node.right, BOOL).value
    return c.truth(found.value)


def default(c: FunctionContext, node: nodes.Binary) -> Value:
    """`e ?? d`: d is reached only where e is none or an error."""
    left = c.value(node.left)
    assert isinstance(left.type, OptionType | ResultType)
    there = c.part(left, "present" if isinstance(left.type, OptionType) else "ok")
    assert isinstance(there, ScalarValue)
    inner = left.type.value
    result: Type = OptionType(inner) if isinstance(c.type(node), OptionType) and not isinstance(inner, OptionType) else inner
    found = c.variable(c.fit(c.part(left, "value"), result))
    with c.b.when(~there.value), c.reaching():
        c.write(found, c.value(node.right, result))
    return c.read(found)
