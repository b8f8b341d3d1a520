"""Every node of a tree, without recursion over its depth."""

from collections.abc import Iterator
from typing import Any

import attrs

from compiler.typed_ast import nodes


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
