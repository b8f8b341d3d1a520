"""Fields that convert: `.f64`, `.ticks`, `.lots`, `.units`, `.ns`, `.sign`, `.opposite`; and `as`."""

from compiler.hir.core import dtype_of
from compiler.hir.types import is_float
from compiler.typed_ast import nodes
from compiler.typed_ast.types import F64, I64, Scalar, Type
from quantdsl import types as qt
from quantdsl.check.exact import decimal_places
from quantdsl.elaborate.context import FunctionContext, elaborates
from quantdsl.elaborate.exact import divided
from quantdsl.elaborate.literals import step
from quantdsl.elaborate.values import InMemory, ScalarValue, Value


def field_of(c: FunctionContext, value: Value, name: str) -> Value:
    """The field of a value: a part of it, or what it converts to."""
    if isinstance(value, InMemory) and isinstance(value.type, qt.Container):
        if name in qt.RULES:
            return ScalarValue(I64, c.b.get(value.pointer, qt.RULES.index(name), proved=True))
        assert name == "len"
        return length(c, value)
    if not isinstance(value, ScalarValue):
        return c.part(value, name)
    match name:
        case "ticks" | "lots" | "units" | "ns":
            return ScalarValue(I64, value.value)
        case "f64":
            return ScalarValue(F64, as_float(c, value).value)
        case "sign":
            return ScalarValue(I64, c.b.wrapping("sub", 1, c.b.wrapping("mul", c.b.cast(value.value, "i64"), 2)))
        case "opposite":
            return ScalarValue(qt.SIDE, c.b.wrapping("xor", value.value, 1))
    if value.type == qt.REJECT_MASK:
        return c.truth(c.b.ne(c.b.wrapping("and", value.value, 1 << qt.RULES.index(name)), 0))
    raise AssertionError(f"a `{value.type}` has no field {name}")


def as_float(c: FunctionContext, value: ScalarValue) -> ScalarValue:
    """An exact number in its instrument's or currency's units, as a double: one division, which rounds to the nearest."""
    if not isinstance(value.type, qt.Exact):
        return value
    if value.type.of is None:
        raise c.refuse("0203", f"nothing says of which instrument this `{value.type}` is", "write the type where the value is made")
    size = step(c, value.type)
    digits = decimal_places(size)
    return ScalarValue(F64, divided(c, value.value, int(size * 10**digits), 10**digits))


def length(c: FunctionContext, value: InMemory) -> ScalarValue:
    assert isinstance(value.type, qt.Container)
    if value.type.kind == "array":
        return c.constant(c.layouts.size(value.type), I64)
    return ScalarValue(I64, c.b.get(value.pointer, "count"))


@elaborates(nodes.Cast)
def cast(c: FunctionContext, node: nodes.Cast, place: Type | None) -> Value:
    """`x as T`: an int that T can't hold stops, a float is cut toward zero; a float takes the nearest."""
    target = c.resolve(node.target)
    found = c.number(node.value)
    assert isinstance(target, Scalar)
    number = c.layouts.number(target)
    assert number is not None
    if is_float(number.dtype) or dtype_of(found.value) == "i1":
        return ScalarValue(target, c.b.cast(found.value, number.dtype))
    return ScalarValue(target, c.b.narrow(found.value, number.dtype))
