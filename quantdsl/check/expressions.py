"""Arrays written out, ranges, conversions, and functions as values."""


from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.rules.requirements import report_optional, require, require_int
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import (
    ERROR,
    RANGE,
    ArrayType,
    OptionType,
    Scalar,
    Size,
    Type,
    TypeVariable,
)
from quantdsl import types as qt
from quantdsl.check import heap, library
from quantdsl.check.checker import RULES, QuantChecker, infers
from quantdsl.check.fits import meet, shown
from quantdsl.check.resolve import resolve


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
        if found is None:
            found = one
        elif element is None and isinstance(found, Scalar) and isinstance(one, Scalar) and (common := meet(found, one)) is not None:
            found = common
        else:
            require(checker, one, found, value.span, "an element of this array")
    if found is None:
        hint = "write the type: `let xs: list<f64> = []`; a ring or table begins empty: `var xs: ring<f64, 8>`"
        return checker.report("0203", "an array without elements has no type", node.span, hint=hint)
    return ArrayType(strong(found), Size(len(node.elements)))


@infers(nodes.Range)
def range_(checker: QuantChecker, node: nodes.Range, scope: Scope, expected: Type | None, used: bool) -> Type:
    for part in (node.low, node.high, node.step):
        if part is not None:
            require_int(checker, checker.infer(part, scope), part.span, "a bound of the range")
    return RANGE


@infers(nodes.Cast)
def cast(checker: QuantChecker, node: nodes.Cast, scope: Scope, expected: Type | None, used: bool) -> Type:
    target = resolve(checker, node.target, scope)
    found = checker.infer(node.value, scope)
    if ERROR in (target, found):
        return target
    if isinstance(found, OptionType):
        return report_optional(checker, found, node.value.span)
    number = isinstance(found, Scalar) or (isinstance(found, TypeVariable) and found.bound == "Number")
    if number and isinstance(target, Scalar):
        return target
    hint = (
        "exact numbers give theirs as `.f64`, and come from floats by `to_price`, `to_qty`, `to_money`"
        if isinstance(found, qt.Exact)
        else None
    )
    return checker.report("0203", f"`as` doesn't turn a `{shown(found)}` into a `{shown(target)}`", node.span, hint=hint)
