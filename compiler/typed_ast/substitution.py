"""Trees in which names of types stand for other types: copies of generic functions, and `Self`."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from compiler.typed_ast import nodes
from compiler.typed_ast.type_heads import head_of
from runtime.records import evolve, fields_of

N = TypeVar("N", bound=nodes.Node)
Named = Mapping[str, nodes.TypeSyntax]
"""What names of types stand for; that of a type inside of another by both, as `T::Item`."""
ANYTHING = nodes.NamedTypeSyntax(name="any")
"""What isn't known."""


def mapped(node: N, change: Callable[[nodes.Node], nodes.Node]) -> N:
    """The tree with each node changed, children first. A change gives a node that may stand where the one before did."""
    changes: dict[str, Any] = {}
    for attribute in fields_of(type(node)):
        value = getattr(node, attribute.name)
        new = value
        if isinstance(value, nodes.Node):
            new = mapped(value, change)
        elif isinstance(value, tuple):
            parts = tuple(mapped(one, change) if isinstance(one, nodes.Node) else one for one in value)
            new = value if all(a is b for a, b in zip(parts, value, strict=True)) else parts
        if new is not value:
            changes[attribute.name] = new
    changed: Any = change(evolve(node, **changes) if changes else node)
    return cast("N", changed)


def with_types(node: N, types: Named) -> N:
    """The tree with the types that these names stand for written in their place."""
    return mapped(node, lambda found: _with_types(found, types)) if types else node


def _with_types(node: nodes.Node, types: Named) -> nodes.Node:
    match node:
        case nodes.NamedTypeSyntax(name=name, arguments=()) if name in types:
            return evolve(types[name], span=node.span)
        case nodes.NamedTypeSyntax(name=name) if types.get(name.partition("::")[0]) == ANYTHING:
            return evolve(ANYTHING, span=node.span)
        case nodes.TensorTypeSyntax(dims=(*before, nodes.Dim(value=nodes.Name(name=name))), dtype=None) if name in types:
            return evolve(node, dims=tuple(before), dtype=types[name])
        case nodes.Path(segments=(head, *rest)) if head in types:
            first, arguments = _written(types[head])
            return evolve(node, segments=(first, *rest), arguments=(*arguments, *node.arguments))
        case nodes.RecordLiteral(struct=nodes.Name(name=head) as struct) if head in types:
            first, arguments = _written(types[head])
            return evolve(node, struct=nodes.Path(segments=(first,), arguments=arguments, span=struct.span))
        case nodes.Call(function=nodes.Name(name=head) as struct) if head in types:
            first, _ = _written(types[head])
            return evolve(node, function=evolve(struct, name=first))
        case nodes.VariantPattern(path=(head, *rest)) | nodes.StructPattern(path=(head, *rest)) if head in types:
            return evolve(node, path=(_written(types[head])[0], *rest))
    return node


def _written(found: nodes.TypeSyntax) -> tuple[str, tuple[nodes.TypeSyntax, ...]]:
    """The name before the `::` of a type's function, and the type's arguments."""
    match found:
        case nodes.NamedTypeSyntax(name=name, arguments=arguments):
            return name, arguments
        case nodes.KnownTypeSyntax(type=known):
            return head_of(known), ()
        case nodes.OptionTypeSyntax(value=value):
            return "?", (value,)
        case nodes.TensorTypeSyntax():
            return "tensor", ()
        case nodes.ArrayTypeSyntax(element=element):
            return "[]", (element,)
        case nodes.TupleTypeSyntax(elements=elements):
            return "()", elements
    return "", ()
