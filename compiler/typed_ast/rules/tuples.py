"""Tuples, written out."""

from compiler.typed_ast import nodes
from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.conversions import fits, strong
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
    if checker.meaning.weak_elements:
        return TupleType(tuple(elements))
    return TupleType(tuple(e if w is not None and fits(e, w) else strong(e) for e, w in zip(elements, wanted, strict=True)))
