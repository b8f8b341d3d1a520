"""The tree anew, with what the checker found filled in: types of expressions, metadata of compute blocks, what is called. What has not
changed is shared with the old tree."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from compiler.typed_ast.nodes import Call, Compute, Expression, Function, Impl, Node
from compiler.typed_ast.scope import Findings, UserFunction
from compiler.typed_ast.types import UNKNOWN
from compiler.typed_ast.walk import branches
from runtime.records import evolve

N = TypeVar("N", bound=Node)

Copies = Callable[[Function], Sequence[UserFunction]]


def no_copies(function: Function) -> Sequence[UserFunction]:
    return ()


def _with_copies(old: Sequence[object], new: Sequence[object], copies: Copies) -> tuple[object, ...]:
    """Statements with the copies of generic functions behind these, typed by what was found in each."""
    if not any(isinstance(item, Function | Impl) for item in old):
        return tuple(new)
    found: list[object] = []
    for before, item in zip(old, new, strict=True):
        found.append(item)
        for one in before.members if isinstance(before, Impl) else (before,):
            if isinstance(one, Function) and one.type_parameters:
                found += [rebuild(copy.node, copy.findings, copies) for copy in copies(one)]
    return tuple(found)


def rebuild(node: N, findings: Findings, copies: Copies = no_copies) -> N:
    """`findings` are by the identity of the old nodes. Bodies of compute blocks stay as they are, unless they have types. `copies`, of a
    generic function: those that stand behind it in the tree."""
    changes: dict[str, object] = {}
    rewritten = findings.rewrites.get(id(node))
    if rewritten is not None:
        return rebuild(rewritten, findings, copies)  # type: ignore[return-value]
    for name in branches(node):
        if name == "body" and isinstance(node, Compute) and id(node.body) not in findings.types:
            continue
        value: Any = getattr(node, name)
        if isinstance(value, Node):
            new: object = rebuild(value, findings, copies)
        elif type(value) is tuple and value:
            new = tuple(rebuild(item, findings, copies) if isinstance(item, Node) else item for item in value)
            new = new if isinstance(node, Impl) else _with_copies(value, new, copies)
            if len(new) == len(value) and all(a is b for a, b in zip(new, value, strict=True)):
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
    return evolve(node, **changes) if changes else node  # type: ignore[arg-type]
