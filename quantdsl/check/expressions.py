"""Arrays written out, and functions as values."""

from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.requirements import require
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import ArrayType, Size, Type
from quantdsl.check import heap, library
from quantdsl.check.checker import RULES, QuantChecker, infers


def undeclared(checker: QuantChecker, word: str, span: Span) -> Type | None:
    """What is said of a function as a value."""
    if word not in checker.declarations.functions and word not in library.names():
        return None
    return checker.report("0203", f"`{word}` is a function, not a value", span, hint=f"call it: `{word}(...)`")


RULES.undeclared = undeclared


@infers(nodes.ListLiteral)
def list_literal(checker: QuantChecker, node: nodes.ListLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    """An array of as many elements as are written, or a list where one is wanted."""
    listed = heap.list_literal(checker, node, scope, expected)
    if listed is not None:
        return listed
    element = expected.element if isinstance(expected, ArrayType) else None
    found: Type | None = element
    for value in node.elements:
        one = checker.infer(value, scope, found)
        common = checker.meaning.meet(found, one) if element is None and found is not None else None
        if found is None or common is not None:
            found = one if common is None else common
        else:
            require(checker, one, found, value.span, "an element of this array")
    if found is None:
        hint = "write the type: `let xs: list<f64> = []`; a ring or table begins empty: `var xs: ring<f64, 8>`"
        return checker.report("0203", "an array without elements has no type", node.span, hint=hint)
    return ArrayType(strong(found), Size(len(node.elements)))
