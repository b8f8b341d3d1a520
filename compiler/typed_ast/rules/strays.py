"""Statements that stand only in compute blocks, outside of them."""

from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.nodes import SharedVariable, Yield
from compiler.typed_ast.scope import Scope, Variable, VariableKind
from compiler.typed_ast.types import ERROR, UNIT, Type


def stray_yield(checker: Checker, node: Yield, scope: Scope) -> Type:
    checker.report("0408", "`yield` stands outside of a compute block", node.span, hint="a function gives its value with `return`")
    return UNIT


@CORE.checks(SharedVariable)
def stray_shared(checker: Checker, node: SharedVariable, scope: Scope) -> Type:
    checker.report("0413", "`shared var` stands outside of a compute block", node.span, hint="declare an ordinary variable with `var`")
    scope.add(Variable(node.name, ERROR, VariableKind.MUTABLE, node.span, frame=checker.frame))
    return UNIT
