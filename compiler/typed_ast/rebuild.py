"""The tree anew, with what the checker found filled in: types of expressions, metadata of compute blocks, what is called. What has not
changed is shared with the old tree."""

from functools import cache
from typing import Any, TypeVar

import attrs

from compiler.typed_ast.nodes import Call, Compute, Expression, Node
from compiler.typed_ast.scope import Findings
from compiler.typed_ast.types import UNKNOWN

N = TypeVar("N", bound=Node)
_LEAVES = {
    "span", "type", "kernel", "name",
    "operator", "operator_span", "name_span", "name_spans",
    "names", "suffix", "path", "text", "callee",
}


@cache
def _branches(cls: Any) -> tuple[str, ...]:
    """The fields of a class that may hold nodes."""
    return tuple(f.name for f in attrs.fields(cls) if f.name not in _LEAVES)


def rebuild(node: N, findings: Findings) -> N:
    """`findings` are by the identity of the old nodes. Bodies of compute blocks stay as they are, unless they have types."""
    changes: dict[str, object] = {}
    cls: Any = type(node)
    for name in _branches(cls):
        if name == "body" and isinstance(node, Compute) and id(node.body) not in findings.types:
            continue
        value: Any = getattr(node, name)
        if isinstance(value, Node):
            new: object = rebuild(value, findings)
        elif type(value) is tuple and value:
            new = tuple(rebuild(item, findings) if isinstance(item, Node) else item for item in value)
            if all(a is b for a, b in zip(new, value, strict=True)):
                continue
        else:
            continue
        if new is not value:
            changes[name] = new
    if isinstance(node, Expression):
        found = findings.types.get(id(node), UNKNOWN)
        if found != UNKNOWN:
            changes["type"] = found
    if isinstance(node, Compute) and id(node) in findings.kernels:
        changes["kernel"] = findings.kernels[id(node)]
    if isinstance(node, Call) and id(node) in findings.callees:
        changes["callee"] = findings.callees[id(node)]
    return attrs.evolve(node, **changes) if changes else node  # type: ignore[arg-type]
