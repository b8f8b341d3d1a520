"""Constructs that the grammar knows and nothing executes yet: each is ZYN0109 at its place, says what works instead, and silences
whatever depends on it."""

from compiler.typed_ast.checker import Checker, checks, infers
from compiler.typed_ast.constants import constant
from compiler.typed_ast.nodes import (
    LaterDeclaration,
    LaterExpression,
    LaterStatement,
    Node,
    UnitNumber,
)
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import ERROR, UNIT, Type

_HINTS = {
    "effect": "pass functions as parameters",
    "handler": "pass functions as parameters",
    "abstract": "use the type under it",
    "module": "leave it out: a module is named after its file",
    "extern struct": "use a tuple",
    "extern": "call the library's function by its name",
    "with": "call the function without it",
    "opaque": "use the library's types",
}


@infers(LaterExpression)
def later_expression(checker: Checker, node: LaterExpression, scope: Scope, expected: Type | None, used: bool) -> Type:
    return _feature(checker, node, node.feature)


@infers(UnitNumber)
def unit_number(checker: Checker, node: UnitNumber, scope: Scope, expected: Type | None, used: bool) -> Type:
    known = constant(node)
    hint = f"write the plain number: `{known}`" if known is not None else "write a plain number"
    return checker.later(f"a number with the unit `{node.unit}`", node.span, hint)


@checks(LaterStatement, LaterDeclaration)
def later_statement(checker: Checker, node: LaterStatement | LaterDeclaration, scope: Scope) -> Type:
    _feature(checker, node, node.feature)
    return UNIT


def _feature(checker: Checker, node: Node, feature: str) -> Type:
    hint = next((hint for word, hint in _HINTS.items() if word in feature), "leave it out")
    checker.later(feature, node.span, hint)
    return ERROR
