"""Tuples and structs, and cases of enums with named values."""

from collections.abc import Iterable, Mapping

from compiler.typed_ast import nodes
from compiler.typed_ast.types import UNIT, TupleType, Type
from quantdsl import types as qt
from quantdsl.check.literals import settled
from quantdsl.check.patterns import cases_of
from quantdsl.elaborate.context import FunctionContext, elaborates
from quantdsl.elaborate.expressions import case
from quantdsl.elaborate.values import Value, Whole


@elaborates(nodes.TupleLiteral)
def tuple_literal(c: FunctionContext, node: nodes.TupleLiteral, place: Type | None) -> Value:
    if not node.elements:
        return Whole(UNIT, ())
    wanted: Iterable[Type | None] = place.elements if isinstance(place, TupleType) else (None,) * len(node.elements)
    values: list[Value] = []
    for element, want in zip(node.elements, wanted, strict=True):
        value = c.value(element, want)
        values.append(c.kept(value if want is not None else c.fit(value, settled(value.type))))
    type = TupleType(tuple(value.type for value in values))
    return c.make(type, {str(number): value for number, value in enumerate(values)})


@elaborates(nodes.RecordLiteral)
def record(c: FunctionContext, node: nodes.RecordLiteral, place: Type | None) -> Value:
    """`Quote { bid: b, ..base }` or `Leave { why: 3 }`. Fields that aren't given are those of the base, or have their defaults."""
    name = node.struct.segments[-1] if isinstance(node.struct, nodes.Path) else getattr(node.struct, "name", "")
    if name not in c.elaboration.world.structs:
        type = c.type(node)
        fields = dict((cases_of(c.elaboration.checker, type) or {})[name])
        return case(c, type, name, {value.name: c.kept(c.value(value.value, fields[value.name])) for value in node.fields})
    struct = struct_of(c, node, name, place)
    given = {value.name: value.value for value in node.fields}
    base = c.kept(c.value(node.base, struct)) if node.base is not None else None
    defaults = {field.name: field.default for field in c.elaboration.world.structs[name].fields if field.default is not None}
    types = dict(c.layouts.parts(struct))
    values = {field: c.kept(c.value(value, types[field])) for field, value in given.items()}
    for field, default in defaults.items():
        if field not in given and base is None:
            values[field] = c.kept(c.named_constant(default, types[field]))
    return c.make(struct, {**_parts(c, base), **values})


def struct_of(c: FunctionContext, node: nodes.RecordLiteral, name: str, place: Type | None) -> Type:
    """The struct's type, with sizes: from its arguments as written, else from where it goes."""
    if isinstance(node.struct, nodes.Path) and node.struct.arguments:
        return qt.StructType(name, tuple(c.resolve(argument) for argument in node.struct.arguments))
    return place if isinstance(place, qt.StructType) and place.name == name else c.type(node)


def _parts(c: FunctionContext, base: Value | None) -> Mapping[str, Value]:
    return {} if base is None else {name: c.part(base, name) for name, _ in c.layouts.parts(base.type)}
