"""What slices say of sizes: `x[q:q+64]` with `q in 0..S step 64` says that S is the extent of x there."""

from collections.abc import Mapping
from typing import Any, TypeVar

import attrs
from attrs import evolve

from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.walk import walk

Dims = Mapping[str, tuple[object, ...]]
"""Extents of the inputs: a number or a name where the program has one."""
Some = TypeVar("Some", bound=nodes.Node)


def extent_of(dims: Dims, name: str, axis: int, span: Span) -> nodes.Expression:
    """The extent of an input along an axis."""
    known = dims[name][axis] if axis < len(dims[name]) else None
    if isinstance(known, str):
        return nodes.Name(name=known, span=span)
    if isinstance(known, int):
        return nodes.IntLiteral(value=known, span=span)
    shape = nodes.Field(value=nodes.Name(name=name, span=span), name="shape", span=span)
    return nodes.Index(value=shape, indices=(nodes.IntLiteral(value=axis, span=span),), span=span)


def sized(body: nodes.Block, dims: Dims, known: set[str]) -> nodes.Block:
    """The block with its sizes, those names that aren't known, solved from slices."""
    found: dict[str, list[nodes.Expression]] = {}
    for loop in (node for node in walk(body) if isinstance(node, nodes.ForClause)):
        match loop.source:
            case nodes.Range(high=nodes.Name(name=size)) if size not in known:
                for node in walk(body):
                    if isinstance(node, nodes.Index) and isinstance(node.value, nodes.Name) and node.value.name in dims:
                        for number, index in enumerate(node.indices):
                            match index:
                                case nodes.Slice(low=nodes.Name(name=name)) if name in loop.names:
                                    found.setdefault(size, []).append(extent_of(dims, node.value.name, number, node.span))
                                case _:
                                    pass
            case _:
                pass
    alike = {size: forms[0] for size, forms in found.items() if all(same_text(forms[0], form) for form in forms)}
    return _replaced(body, alike) if alike else body


def _replaced(node: Some, names: Mapping[str, nodes.Expression]) -> Some:
    """The node with expressions in place of names."""

    def new(value: Any) -> Any:
        if isinstance(value, nodes.Name) and value.name in names:
            return names[value.name]
        if isinstance(value, nodes.Node):
            return _replaced(value, names)
        return tuple(map(new, value)) if isinstance(value, tuple) else value

    return evolve(node, **{one.name: new(getattr(node, one.name)) for one in attrs.fields(type(node)) if one.name != "type"})


def same_text(one: nodes.Node, other: nodes.Node) -> bool:
    """Whether both are the same text."""
    if type(one) is not type(other):
        return False
    a, b = ([(field.name, getattr(node, field.name)) for field in attrs.fields(type(node))] for node in (one, other))
    for (name, x), (_, y) in zip(a, b, strict=True):
        if name in ("span", "operator_span", "type"):
            continue
        if isinstance(x, nodes.Node) and isinstance(y, nodes.Node):
            if not same_text(x, y):
                return False
        elif isinstance(x, tuple) and isinstance(y, tuple) and len(x) == len(y):
            pairs = zip(x, y, strict=True)
            if not all(same_text(p, q) if isinstance(p, nodes.Node) and isinstance(q, nodes.Node) else p == q for p, q in pairs):
                return False
        elif x != y:
            return False
    return True

