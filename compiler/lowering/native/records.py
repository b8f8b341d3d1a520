"""Tuples and structs, and cases of enums with named values."""

from collections.abc import Iterable, Mapping

from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.expressions import case
from compiler.lowering.native.rules import CORE
from compiler.lowering.native.values import Value, Whole
from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.types import UNIT, StructType, TupleType, Type


@CORE.elaborates(nodes.TupleLiteral)
def tuple_literal(c: FunctionContext, node: nodes.TupleLiteral, place: Type | None) -> Value:
    if not node.elements:
        return Whole(UNIT, ())
    wanted: Iterable[Type | None] = place.elements if isinstance(place, TupleType) else (None,) * len(node.elements)
    values: list[Value] = []
    for element, want in zip(node.elements, wanted, strict=True):
        value = c.value(element, want)
        values.append(c.kept(value if want is not None else c.fit(value, strong(value.type))))
    type = TupleType(tuple(value.type for value in values))
    return c.make(type, {str(number): value for number, value in enumerate(values)})


@CORE.elaborates(nodes.RecordLiteral)
def record(c: FunctionContext, node: nodes.RecordLiteral, place: Type | None) -> Value:
    """`Quote { bid: b, ..base }` or `Leave { why: 3 }`. Fields that aren't given are those of the base, or have their defaults."""
    name = node.struct.segments[-1] if isinstance(node.struct, nodes.Path) else getattr(node.struct, "name", "")
    if name not in c.elaboration.checker.declarations.structs:
        type = c.type(node)
        fields = dict(c.layouts.cases(type)[name])
        return case(c, type, name, {value.name: c.kept(c.value(value.value, fields[value.name])) for value in node.fields})
    struct = struct_of(c, node, name, place)
    given = {value.name: value.value for value in node.fields}
    base = c.kept(c.value(node.base, struct)) if node.base is not None else None
    defaults = {field.name: field.default for field in c.elaboration.checker.declarations.structs[name].fields if field.default is not None}
    types = dict(c.layouts.parts(struct))
    values = {field: c.kept(c.value(value, types[field])) for field, value in given.items()}
    for field, default in defaults.items():
        if field not in given and base is None:
            values[field] = c.kept(c.named_constant(default, types[field]))
    return c.make(struct, {**_parts(c, base), **values})


def struct_of(c: FunctionContext, node: nodes.RecordLiteral, name: str, place: Type | None) -> Type:
    """The struct's type, with sizes: from its arguments as written, else from where it goes."""
    if isinstance(node.struct, nodes.Path) and node.struct.arguments:
        return StructType(name, tuple(c.resolve(argument) for argument in node.struct.arguments))
    return place if isinstance(place, StructType) and place.name == name else c.type(node)


def _parts(c: FunctionContext, base: Value | None) -> Mapping[str, Value]:
    return {} if base is None else {name: c.part(base, name) for name, _ in c.layouts.parts(base.type)}
