"""Loops that end only with what leaves their function."""

from compiler.typed_ast.nodes import BoolLiteral, Break, For, Function, Node, While
from compiler.typed_ast.walk import parts


def is_endless(loop: While) -> bool:
    """Whether nothing behind the loop is reached: `while true` without a `break` of its own."""
    holds = isinstance(loop.condition, BoolLiteral) and loop.condition.value
    return holds and loop.bound is None and not _breaks(loop.body)


def _breaks(node: Node) -> bool:
    """Whether a `break` in here leaves the loop whose body this is."""
    match node:
        case Break():
            return True
        case For() | While() | Function():
            return False
    return any(map(_breaks, parts(node)))
