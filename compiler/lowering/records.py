"""Values of structs, enums, optionals and results in kernel bodies: how they are written out, and the fields of a struct."""

from collections.abc import Sequence

from compiler.lowering.body import Body, fault
from compiler.lowering.composites import optional, outcome, tag
from compiler.lowering.declared_types import enum_zeros, fitted, parts_of
from compiler.lowering.numbers import Choice, Operand, Record
from compiler.lowering.walk import forbidden, lowers, value
from compiler.lowering.words import words
from compiler.typed_ast import nodes
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import DType

WRAPPERS = ("Some", "Ok", "Err")
"""Cases of optionals and results that hold a value."""


@lowers(nodes.RecordLiteral)
def _record(body: Body, node: nodes.RecordLiteral, into: DType | None) -> Operand:
    declared = body.signature.declared
    path = _path(node.struct)
    if path is None:
        raise forbidden(body, "a record without a struct", node)
    given = [(field.name, field.value) for field in node.fields]
    if len(path) == 1 and path[0] in declared.structs:
        struct = declared.structs[path[0]]
        base = None if node.base is None else value(body, node.base)
        if base is not None and not (isinstance(base, Record) and base.name == struct.name):
            assert node.base is not None
            raise fault("0203", f"`{words(node.base)}` is no `{struct.name}`", node.base.span)
        wanted = {field.name: field.annotation for field in struct.fields if field.annotation is not None}
        return Record(struct.name, _fields(body, struct.name, wanted, given, node, struct.type_parameters, base))
    enum, variant = _case(body, path, node)
    wanted_parts = parts_of(variant)
    return _chosen(body, enum, variant, _fields(body, variant.name, wanted_parts, given, node, enum.type_parameters))


def _fields(
    body: Body,
    name: str,
    wanted: dict[str, nodes.TypeSyntax],
    given: Sequence[tuple[str, nodes.Expression]],
    node: nodes.Node,
    parameters: tuple[nodes.TypeParameter, ...],
    base: Operand | None = None,
) -> dict[str, Operand]:
    """The fields in the order of the declaration, computed in the order in which they are written."""
    found: dict[str, Operand] = {}
    for field, expression in given:
        if field not in wanted:
            raise fault("0202", f"`{name}` has no field `{field}`", expression.span, hint=did_you_mean(field, wanted))
        if field in found:
            raise fault("0204", f"field `{field}` is given twice", expression.span)
        found[field] = fitted(body, value(body, expression), wanted[field], expression.span, f"`{field}` of `{name}`", parameters)
    if isinstance(base, Record):
        found = {**base.fields, **found}
    missing = [field for field in wanted if field not in found]
    if missing:
        raise fault("0204", f"`{name}` needs a value for `{missing[0]}`", node.span)
    return {field: found[field] for field in wanted}


def _path(node: nodes.Expression | None) -> tuple[str, ...] | None:
    match node:
        case nodes.Name(name=name):
            return (name,)
        case nodes.Path(segments=segments):
            return segments
    return None


# ---- cases -----------------------------------------------------------------------------------------------------------------


def _case(body: Body, path: tuple[str, ...], node: nodes.Node) -> tuple[nodes.EnumDeclaration, nodes.Variant]:
    """The case that a path names."""
    declared = body.signature.declared
    if len(path) == 1 and path[0] in declared.cases:
        return declared.cases[path[0]][0]
    if len(path) == 2 and path[0] in declared.enums:
        enum = declared.enums[path[0]]
        cases = {variant.name: variant for variant in enum.variants}
        if path[1] in cases:
            return enum, cases[path[1]]
        raise fault("0201", f"`{path[0]}` has no case `{path[1]}`", node.span, hint=did_you_mean(path[1], cases))
    raise fault("0201", f"`{'::'.join(path)}` is not defined", node.span)


def is_case(body: Body, name: str) -> bool:
    return name in body.signature.declared.cases or name in WRAPPERS


def bare_case(body: Body, node: nodes.Name) -> Operand | None:
    """`None`, or a case without values; None for other names."""
    if node.name == "None":
        return optional(None)
    return without_values(body, (node.name,), node) if node.name in body.signature.declared.cases else None


@lowers(nodes.Path)
def _of_path(body: Body, node: nodes.Path, into: DType | None) -> Operand:
    if len(node.segments) == 2 and node.segments[0] in body.signature.declared.enums:
        return without_values(body, node.segments, node)
    raise forbidden(body, "a name with `::`", node)


def without_values(body: Body, path: tuple[str, ...], node: nodes.Node) -> Operand:
    """`Red`, `Color::Red`."""
    enum, variant = _case(body, path, node)
    if parts_of(variant):
        shown = "::".join(path)
        raise fault("0204", f"the case `{variant.name}` of `{enum.name}` has values", node.span, hint=f"write `{shown}(...)`")
    return _chosen(body, enum, variant, {})


def with_values(body: Body, path: tuple[str, ...], node: nodes.Call) -> Operand:
    """`Circle(2.0)`, `Shape::Circle(2.0)`, `Some(v)`."""
    if path[-1] in WRAPPERS and len(path) == 1 and path[0] not in body.signature.declared.cases:
        if len(node.arguments) != 1 or node.arguments[0].name is not None:
            raise fault("0204", f"`{path[0]}` takes one value", node.span)
        inner = value(body, node.arguments[0].value)
        return optional(inner) if path[0] == "Some" else outcome(path[0], inner)
    enum, variant = _case(body, path, node)
    wanted = parts_of(variant)
    if variant.fields or len(node.arguments) != len(wanted):
        raise fault("0204", f"`{variant.name}` has {len(wanted)} parts, and {len(node.arguments)} are given", node.span)
    given = [(str(number), argument.value) for number, argument in enumerate(node.arguments)]
    return _chosen(body, enum, variant, _fields(body, variant.name, wanted, given, node, enum.type_parameters))


def _chosen(body: Body, enum: nodes.EnumDeclaration, variant: nodes.Variant, parts: dict[str, Operand]) -> Choice:
    zeros = enum_zeros(body, enum)
    return Choice(enum.name, zeros.cases, tag(zeros.cases.index(variant.name)), {**zeros.parts, variant.name: parts})


# ---- fields ----------------------------------------------------------------------------------------------------------------


def field_of(owner: Record | Choice, node: nodes.Field) -> Operand:
    """`p.x`."""
    if isinstance(owner, Record) and node.name in owner.fields:
        return owner.fields[node.name]
    if isinstance(owner, Choice):
        raise fault("0202", f"`{owner.name}` has cases, and no field `{node.name}`", node.span, hint="take it apart with `match`")
    hint = did_you_mean(node.name, owner.fields) or f"it has {', '.join(f'`{field}`' for field in owner.fields)}"
    raise fault("0202", f"`{owner.name}` has no field `{node.name}`", node.span, hint=hint)
