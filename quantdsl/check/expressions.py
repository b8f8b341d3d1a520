"""Names, fields, elements, conditions, blocks: what every expression but operators, literals and calls is."""

from functools import partial

from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.rules import narrowing
from compiler.typed_ast.rules.branches import joined
from compiler.typed_ast.rules.requirements import report_optional, require, require_int
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import (
    BOOL,
    ERROR,
    NEVER,
    RANGE,
    UNIT,
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


@infers(nodes.Block)
def block(checker: QuantChecker, node: nodes.Block, scope: Scope, expected: Type | None, used: bool) -> Type:
    inner = Scope(scope)
    found: Type = UNIT
    last = len(node.statements) - 1
    known = tuple(checker.present)
    for number, statement in enumerate(node.statements):
        narrowing.before(checker, statement, partial(_may_change_states, checker))
        if number == last and isinstance(statement, nodes.ExpressionStatement) and used:
            found = checker.infer(statement.value, inner, expected)
        else:
            ended = checker.statement(statement, inner)
            found = NEVER if ended == NEVER else found if number < last or found == NEVER else UNIT
        narrowing.behind(checker, statement)
    narrowing.leave(checker, known)
    return found


def _may_change_states(checker: QuantChecker, call: nodes.Call) -> bool:
    """Whether a call may be of a function that stands in a strategy."""
    name = call.function.name if isinstance(call.function, nodes.Name | nodes.Field) else None
    callee = checker.declarations.functions.get(name or "")
    return isinstance(callee, nodes.Function) and callee.body is not None and name not in checker.own.world.library


@infers(nodes.If)
def if_(checker: QuantChecker, node: nodes.If, scope: Scope, expected: Type | None, used: bool) -> Type:
    inner = Scope(scope)
    if isinstance(node.condition, nodes.LetCondition):
        checker.infer(node.condition, inner)
    else:
        require(checker, checker.infer(node.condition, scope, BOOL), BOOL, node.condition.span, "the condition")
    with checker.within(sometimes=True, turns=()):
        then = checker.infer(node.then, inner, expected, used)
        if node.otherwise is None:
            return UNIT
        otherwise = checker.infer(node.otherwise, scope, expected, used)
    return joined(checker, then, otherwise, node, expected) if used else NEVER if then == otherwise == NEVER else UNIT


@infers(nodes.Conditional)
def conditional(checker: QuantChecker, node: nodes.Conditional, scope: Scope, expected: Type | None, used: bool) -> Type:
    require(checker, checker.infer(node.condition, scope, BOOL), BOOL, node.condition.span, "the condition")
    with checker.within(sometimes=True, turns=()):
        then = checker.infer(node.then, scope, expected)
        otherwise = checker.infer(node.otherwise, scope, expected or then)
    return joined(checker, then, otherwise, node, expected)
