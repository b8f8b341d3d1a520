"""What QuantDSL adds to calls: signals, which remember; effects of what sends orders or reads the market; exact results."""

from compiler.diagnostics import Severity
from compiler.typed_ast import nodes
from compiler.typed_ast.constants import whole_constant
from compiler.typed_ast.conversions import place_of
from compiler.typed_ast.meaning import CallRules
from compiler.typed_ast.requirements import report_optional
from compiler.typed_ast.rules.calls import called
from compiler.typed_ast.rules.cases import infer_arguments
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import OptionType, Type, TypeVariable
from quantdsl import nodes as quant
from quantdsl import types as qt
from quantdsl.check import heap, library
from quantdsl.check.checker import RULES, QuantChecker
from quantdsl.check.fits import shown
from quantdsl.check.world import Callee


def _find(checker: QuantChecker, name: str, scope: Scope) -> Callee | None:
    return checker.declarations.functions.get(name) if scope.variable(name) is None else None


def _outside(checker: QuantChecker, node: nodes.Call, scope: Scope) -> Type:
    """A call of a function of the heap, or of what isn't there."""
    name = node.function.name if isinstance(node.function, nodes.Name) else ""
    if heap.is_function(name):
        return heap.call(checker, node, name, scope)
    infer_arguments(checker, node, scope)
    if not name:
        return checker.report("0203", "only a function can be called", node.function.span)
    known = (function for function in checker.declarations.functions if function.isidentifier())
    hint = did_you_mean(name, {*known, *checker.declarations.cases, *library.names()})
    return checker.report("0201", f"`{name}` is not defined", node.function.span, "not found", hint=hint)


def _no_method(checker: QuantChecker, target: nodes.Field, type_: Type, scope: Scope, hint: str | None) -> Type:
    known = {method.name for method in checker.declarations.methods().values()}
    message = f"a `{shown(type_)}` has no method `{target.name}`"
    return checker.report("0202", message, target.span, hint=hint or did_you_mean(target.name, known))


def _remembers(callee: Callee) -> bool:
    return isinstance(callee, quant.Signal) or "memory" in (callee.effects or ())


def _may_call(checker: QuantChecker, node: nodes.Call, callee: Callee) -> bool:
    """Orders leave from handlers, and the market is there in strategies only."""
    effects = checker.own.world.effects(callee)
    body = checker.frame
    if ("order" in effects or "cancel" in effects) and not (body.in_strategy and body.what in ("handler", "function")):
        where = {"test": "a test", "signal": "a signal", "function": "a function outside of strategies"}.get(body.what, "a constant")
        hint = "orders are sent, changed and cancelled in a strategy's handlers, and in functions that stand in the strategy"
        checker.report("0722", f"`{callee.name}` is called in {where}", node.span, hint=hint)
        return False
    if "book" in effects and not body.in_strategy:
        checker.report("0201", f"`{callee.name}` is only known in a strategy", node.function.span, hint="pass its value as an argument")
        return False
    if _remembers(callee) and body.sometimes:
        hint = "its memory only sees the values of those times: call it before, and use its value here"
        message = f"the signal `{callee.name}` isn't reached exactly once each time"
        checker.report("0606", message, node.span, hint=hint, severity=Severity.WARNING)
    return True


def _may_take(checker: QuantChecker, callee: Callee, place: Type, actual: Type, argument: nodes.Argument, scope: Scope) -> bool:
    """Signals remember values that are there, and `delay` looks back."""
    if _remembers(callee) and isinstance(place, TypeVariable) and isinstance(actual, OptionType):
        report_optional(checker, actual, argument.span)
        return False
    value = whole_constant(argument.value, scope) if callee.name == "delay" and not isinstance(place, TypeVariable) else None
    if value is not None and value < 1:
        hint = "`delay(x, 1)` is the value of the call before, which is the latest that is known"
        checker.report("0724", f"`delay` by {value} would look ahead", argument.span, hint=hint)
        return False
    return True


def _result(checker: QuantChecker, node: nodes.Call, callee: Callee, found: Type, expected: Type | None) -> Type:
    """What a signal that warms up gives may be none; an exact number of nothing in particular is of what is wanted."""
    inner = place_of(found)
    if isinstance(inner, qt.Exact) and inner.of is None:
        wanted = place_of(expected)
        if not isinstance(wanted, qt.Exact) or type(wanted) is not type(inner):
            what = "currency" if isinstance(inner, qt.MoneyType) else "instrument"
            hint = f"write the type where the value goes: `let x: {inner}<...>? = ...`"
            return checker.report("0203", f"nothing says of which {what} the result of `{callee.name}` is", node.span, hint=hint)
        found = OptionType(wanted) if isinstance(found, OptionType) else wanted
    warms = isinstance(callee, quant.Signal) and any(isinstance(statement, quant.Warmup) for statement in callee.body.statements)
    return OptionType(found) if warms else found


RULES.calls = CallRules(
    find=_find,
    call=called,
    outside=_outside,
    method=lambda checker, node, target, subject, scope, expected: heap.method(checker, node, target, subject, scope),
    no_method=_no_method,
    may_call=_may_call,
    may_take=_may_take,
    result=_result,
)
