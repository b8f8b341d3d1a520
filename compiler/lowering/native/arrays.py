"""Arrays of fixed size that are written out, or of one value repeated."""

from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.rules import CORE
from compiler.lowering.native.values import InMemory, ScalarValue, Value
from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.types import ArrayType, ListType, Size, Type


@CORE.elaborates(nodes.ListLiteral)
def list_literal(c: FunctionContext, node: nodes.ListLiteral, place: Type | None) -> Value:
    if isinstance(node.type, ListType):
        raise c.layouts.rules.not_in_place(node.type, node.span)
    values = [c.kept(c.value(element, _element(place))) for element in node.elements]
    type = _element(place) or _element(c.type(node)) or strong(values[0].type)
    made = c.room(ArrayType(type, Size(len(values))))
    for number, value in enumerate(values):
        c.write(InMemory(type, c.b.at(made.pointer, number, proved=True)), c.fit(value, type))
    return made


@CORE.elaborates(nodes.Repeat)
def repeat(c: FunctionContext, node: nodes.Repeat, place: Type | None) -> Value:
    """`[e; N]`: e is computed once."""
    value = c.value(node.element, _element(place))
    type = _element(place) or strong(value.type)
    size = c.bound.get(node.count.name) if isinstance(node.count, nodes.Name) else None
    count = size.value if isinstance(size, Size) else c.whole_number(node.count)
    if count is None:
        raise c.refuse("0301", "the number of elements is not constant", "write a number or a `const`", node.count.span)
    made = c.room(ArrayType(type, Size(count)))
    value = c.fit(value, type)
    if isinstance(value, ScalarValue) and value.constant in (0, False):
        return made
    with c.b.loop(0, count) as i:
        c.write(InMemory(type, c.b.at(made.pointer, i, proved=True)), value)
    return made


def _element(type: Type | None) -> Type | None:
    return type.element if isinstance(type, ArrayType) else None
