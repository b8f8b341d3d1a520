"""Every node of a tree, without recursion over its depth; the nodes directly below one, and others in their place."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypeVar, get_args

from compiler.typed_ast import nodes
from runtime.records import evolve, fields_of

N = TypeVar("N", bound=nodes.Node)


def branches(node: nodes.Node) -> tuple[str, ...]:
    """The fields that may hold nodes, in the order of the text: all but those whose type rules it out."""
    cls: Any = type(node)
    return _branches(cls)


@cache
def _branches(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields_of(cls) if _may_hold_nodes(field.type))


def _may_hold_nodes(annotated: Any) -> bool:
    inner = get_args(annotated)
    if inner:
        return any(_may_hold_nodes(argument) for argument in inner if argument is not ...)
    return not isinstance(annotated, type) or issubclass(annotated, nodes.Node) or issubclass(nodes.Node, annotated) or annotated is tuple


def walk(node: nodes.Node) -> Iterator[nodes.Node]:
    """The node and all nodes below it, parents first, in the order of the text."""
    waiting: list[Any] = [node]
    while waiting:
        current = waiting.pop()
        if isinstance(current, tuple):
            waiting.extend(reversed(current))
        elif isinstance(current, nodes.Node):
            yield current
            for name in reversed(branches(current)):
                value = getattr(current, name)
                if value:
                    waiting.append(value)


def parts(node: nodes.Node) -> Iterator[nodes.Node]:
    """The nodes directly below it, in the order of the text."""
    waiting: list[Any] = [getattr(node, name) for name in reversed(branches(node))]
    while waiting:
        current = waiting.pop()
        if isinstance(current, tuple):
            waiting.extend(reversed(current))
        elif isinstance(current, nodes.Node):
            yield current


def with_parts(node: N, new: Mapping[int, nodes.Node]) -> N:
    """The node with the nodes directly below it exchanged, by the identity of the old ones."""
    changes: dict[str, Any] = {}
    for name in branches(node):
        value = getattr(node, name)
        if isinstance(value, nodes.Node) and new[id(value)] is not value:
            changes[name] = new[id(value)]
        elif isinstance(value, tuple) and any(isinstance(one, nodes.Node) and new[id(one)] is not one for one in value):
            changes[name] = tuple(new[id(one)] if isinstance(one, nodes.Node) else one for one in value)
    return evolve(node, **changes) if changes else node
