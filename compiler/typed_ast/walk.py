"""Every node of a tree, without recursion over its depth; the nodes directly below one, and others in their place."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import attrs

from compiler.typed_ast import nodes

N = TypeVar("N", bound=nodes.Node)


def walk(node: nodes.Node) -> Iterator[nodes.Node]:
    """The node and all nodes below it, parents first, in the order of the text."""
    waiting: list[Any] = [node]
    while waiting:
        current = waiting.pop()
        if isinstance(current, tuple):
            waiting.extend(reversed(current))
        elif isinstance(current, nodes.Node):
            yield current
            waiting.extend(getattr(current, field.name) for field in reversed(attrs.fields(type(current))))


def parts(node: nodes.Node) -> Iterator[nodes.Node]:
    """The nodes directly below it, in the order of the text."""
    waiting: list[Any] = [getattr(node, field.name) for field in reversed(attrs.fields(type(node)))]
    while waiting:
        current = waiting.pop()
        if isinstance(current, tuple):
            waiting.extend(reversed(current))
        elif isinstance(current, nodes.Node):
            yield current


def with_parts(node: N, new: Mapping[int, nodes.Node]) -> N:
    """The node with the nodes directly below it exchanged, by the identity of the old ones."""
    changes: dict[str, Any] = {}
    for attribute in attrs.fields(type(node)):
        value = getattr(node, attribute.name)
        if isinstance(value, nodes.Node) and new[id(value)] is not value:
            changes[attribute.name] = new[id(value)]
        elif isinstance(value, tuple) and any(isinstance(one, nodes.Node) and new[id(one)] is not one for one in value):
            changes[attribute.name] = tuple(new[id(one)] if isinstance(one, nodes.Node) else one for one in value)
    return attrs.evolve(node, **changes) if changes else node
