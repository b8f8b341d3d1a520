"""Ranges of ints, written out: `0..n`."""

from compiler.typed_ast import nodes
from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.requirements import require_int
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import RANGE, Type


@CORE.infers(nodes.Range)
def range_(checker: Checker, node: nodes.Range, scope: Scope, expected: Type | None, used: bool) -> Type:
    for part in (node.low, node.high, node.step):
        if part is not None:
            require_int(checker, checker.infer(part, scope), part.span, "a bound of the range")
    return RANGE
