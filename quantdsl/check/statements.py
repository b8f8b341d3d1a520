"""Statements that only QuantDSL has: what a signal gives and remembers, and what may not stand in a body."""

from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.declarations import defined_twice
from compiler.typed_ast.requirements import require
from compiler.typed_ast.scope import Scope, Variable, VariableKind
from compiler.typed_ast.types import ERROR, I64, NONE, UNIT, Type
from quantdsl import nodes as quant
from quantdsl.check.checker import QuantChecker, checks
from quantdsl.check.fits import shown
from quantdsl.check.resolve import resolve


@checks(quant.Emit)
def emit(checker: QuantChecker, node: quant.Emit, scope: Scope) -> Type:
    if checker.frame.what != "signal":
        checker.infer(node.value, scope)
        checker.report("0101", "`emit` stands in a signal only", node.span, hint="`return` gives a function's result")
        return UNIT
    result = checker.frame.result or ERROR
    require(checker, checker.infer(node.value, scope, result), result, node.value.span, "the result")
    return UNIT


@checks(quant.Warmup)
def warmup(checker: QuantChecker, node: quant.Warmup, scope: Scope) -> Type:
    if checker.frame.what != "signal":
        checker.report("0101", "`warmup` stands in a signal only", node.span)
    require(checker, checker.infer(node.calls, scope, I64), I64, node.calls.span, "the number of calls")
    return UNIT


@checks(quant.State)
def state(checker: QuantChecker, node: quant.State, scope: Scope) -> Type:
    """A state directly in a signal; those of strategies are entered before their handlers are checked."""
    if checker.frame.what not in ("signal", "strategy"):
        checker.report(
            "0101", "`state` stands directly in a strategy or a signal", node.span, hint="`var` declares a variable of a function"
        )
    declare_state(checker, node, scope)
    return UNIT


def declare_state(checker: QuantChecker, node: quant.State, scope: Scope) -> None:
    place = resolve(checker, node.annotation, scope) if node.annotation is not None else None
    found = checker.infer(node.value, scope, place) if node.value is not None else None
    if node.value is not None and place is not None and found is not None:
        require(checker, found, place, node.value.span, f"the state `{node.name}`")
    if place is None and found == NONE:
        found = checker.report(
            "0203", "`none` alone doesn't say of what type", node.span, hint=f"write the type: `state {node.name}: Side? = none`"
        )
    if node.value is None and place is not None and place != ERROR and not checker.kind(place).begins_empty:
        hint = f"write `state {node.name}: {shown(place)} = ...`"
        checker.report("0203", f"the state `{node.name}` has no first value", node.span, hint=hint)
    if (before := scope.own(node.name)) is not None:
        checker.add(defined_twice(f"`{node.name}`", node.name_span, before.span))
    scope.add(Variable(node.name, place if place is not None else strong(found or ERROR), VariableKind.STATE, node.name_span))


@checks(quant.Handler, quant.RiskNamed, quant.Accounting)
def misplaced(checker: QuantChecker, node: nodes.Statement, scope: Scope) -> Type:
    word = {quant.Handler: "on", quant.RiskNamed: "risk", quant.Accounting: "accounting"}[type(node)]
    checker.report("0101", f"`{word}` stands directly in a strategy only", node.span)
    return UNIT
