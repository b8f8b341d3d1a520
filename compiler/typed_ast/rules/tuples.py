"""Tuples, written out."""

from compiler.typed_ast import nodes
from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import UNIT, TupleType, Type


@CORE.infers(nodes.TupleLiteral)
def tuple_literal(checker: Checker, node: nodes.TupleLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    if not node.elements:
        return UNIT
    wanted: tuple[Type | None, ...] = (None,) * len(node.elements)
    if isinstance(expected, TupleType) and len(expected.elements) == len(node.elements):
        wanted = expected.elements
    elements = [checker.infer(e, scope, w) for e, w in zip(node.elements, wanted, strict=True)]
    return TupleType(tuple(elements))
