"""Constructs that the grammar knows and nothing executes yet: each is ZYN0109 at its place, says what works instead, and silences
whatever depends on it."""

from compiler.typed_ast.checker import Checker, checks, infers
from compiler.typed_ast.nodes import (
    LaterDeclaration,
    LaterExpression,
    LaterStatement,
    Node,
)
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import ERROR, UNIT, Type

_HINTS = {
    "effect": "pass functions as parameters",
    "handler": "pass functions as parameters",
    "extern": "call the library's function by its name",
    "with": "call the function without it",
}


@infers(LaterExpression)
def later_expression(checker: Checker, node: LaterExpression, scope: Scope, expected: Type | None, used: bool) -> Type:
    return _feature(checker, node, node.feature)


@checks(LaterStatement, LaterDeclaration)
def later_statement(checker: Checker, node: LaterStatement | LaterDeclaration, scope: Scope) -> Type:
    _feature(checker, node, node.feature)
    return UNIT


def _feature(checker: Checker, node: Node, feature: str) -> Type:
    hint = next((hint for word, hint in _HINTS.items() if word in feature), "leave it out")
    checker.later(feature, node.span, hint)
    return ERROR
