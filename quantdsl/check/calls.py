"""Calls: which function is meant, whether its arguments fit, and whether it may be called here."""

from compiler.diagnostics import Label, Severity
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.constants import whole_constant
from compiler.typed_ast.conversions import place_of
from compiler.typed_ast.rules.cases import case_with_values, infer_arguments, wrapped, wrappers
from compiler.typed_ast.rules.requirements import report_optional, require
from compiler.typed_ast.scope import CONSTANT_KINDS, Scope
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.type_arguments import is_open, substituted, unify_argument
from compiler.typed_ast.types import ERROR, UNIT, ArrayType, OptionType, Type, TypeVariable
from quantdsl import nodes as quant
from quantdsl import types as qt
from quantdsl.check import heap, library
from quantdsl.check.checker import QuantChecker, infers, note_change
from quantdsl.check.fits import meet, shown
from quantdsl.check.generic import bounds_of, require_bounds
from quantdsl.check.resolve import resolve
from quantdsl.check.world import Callee

CHANGING = ("push", "pop", "clear", "insert", "remove")
"""Methods that change what they are called on."""


@infers(nodes.Call)
def call(checker: QuantChecker, node: nodes.Call, scope: Scope, expected: Type | None, used: bool) -> Type:
    match node.function:
        case nodes.Name(name=name) if name in wrappers(checker) and name not in checker.declarations.functions:
            return wrapped(checker, node, name, scope, expected)
        case nodes.Name(name=name) if (callee := checker.declarations.functions.get(name)) is not None and scope.variable(name) is None:
            return _called(checker, node, callee, scope, None, expected)
        case nodes.Name(name=name) if name in checker.declarations.cases:
            return case_with_values(checker, node, name, scope, expected)
        case nodes.Path(segments=(_, name)) if name in checker.declarations.cases:
            return case_with_values(checker, node, name, scope, expected)
        case nodes.Field(value=value, name=name):
            return _method(checker, node, value, name, scope, expected)
        case nodes.Name(name=name) if heap.is_function(name) and scope.variable(name) is None:
            return heap.call(checker, node, name, scope)
        case nodes.Name(name=name):
            infer_arguments(checker, node, scope)
            if scope.variable(name) is not None:
                return checker.report("0203", f"`{name}` is no function", node.function.span)
            return checker.report(
                "0201",
                f"undefined name `{name}`",
                node.function.span,
                hint=did_you_mean(name, {*checker.declarations.functions, *checker.declarations.cases, *library.names()}),
            )
    infer_arguments(checker, node, scope)
    return checker.report("0203", "only a function can be called", node.function.span)


def _method(checker: QuantChecker, node: nodes.Call, value: nodes.Expression, name: str, scope: Scope, expected: Type | None) -> Type:
    subject = checker.infer(value, scope)
    callee = checker.declarations.functions.get(name)
    if subject == ERROR:
        infer_arguments(checker, node, scope)
        return ERROR
    if heap.is_heap(subject):
        if name in CHANGING and not _can_change(value, scope):
            _not_changing(checker, name, value)
        return heap.method(checker, node, subject, name, scope)
    if callee is None or not callee.parameters or callee.parameters[0].name != "self":
        infer_arguments(checker, node, scope)
        known = [n for n, f in checker.declarations.functions.items() if f.parameters and f.parameters[0].name == "self"]
        return checker.report("0202", f"a `{shown(subject)}` has no method `{name}`", node.function.span, hint=did_you_mean(name, known))
    if name in CHANGING and isinstance(subject, ArrayType | qt.Container):
        if not _can_change(value, scope):
            _not_changing(checker, name, value)
        note_change(checker, value, node.span, scope)
    return _called(checker, node, callee, scope, (subject, value.span), expected)


def _not_changing(checker: QuantChecker, name: str, value: nodes.Expression) -> None:
    hint = "call it on a `var` or a `state`; a function gets copies of what it is called with"
    checker.report("0205", f"`{name}` would change what can't change", value.span, hint=hint)


def _can_change(node: nodes.Expression, scope: Scope) -> bool:
    """Whether an expression is a variable, or a part of one, that may be assigned to."""
    while isinstance(node, nodes.Field | nodes.Index):
        node = node.value
    variable = scope.variable(node.name) if isinstance(node, nodes.Name) else None
    return variable is not None and variable.mutable


def _called(
    checker: QuantChecker, node: nodes.Call, callee: Callee, scope: Scope, subject: tuple[Type, Span] | None, expected: Type | None
) -> Type:
    if not _may_call(checker, callee, node):
        infer_arguments(checker, node, scope)
        return ERROR
    remembers = isinstance(callee, quant.Signal) or "memory" in (callee.effects or ())
    if remembers and checker.frame.sometimes:
        hint = "its memory only sees the values of those times: call it before, and use its value here"
        message = f"the signal `{callee.name}` isn't reached exactly once each time"
        checker.report("0606", message, node.span, hint=hint, severity=Severity.WARNING)
    bound: dict[str, Type] = {}
    names = {parameter.name for parameter in callee.type_parameters}
    asked = bounds_of(callee.type_parameters)
    placed = _placed(checker, callee, node, subject)
    if placed is None:
        infer_arguments(checker, node, scope)
        return ERROR
    failed = False
    for parameter, argument in placed:
        with checker.within(parameters=checker.frame.parameters | names):
            place = resolve(checker, parameter.annotation, scope) if parameter.annotation is not None else ERROR
        if argument is None:
            assert subject is not None
            found, span = subject
        else:
            known = substituted(place, bound, names)
            found, span = checker.infer(argument.value, scope, None if is_open(known, names) else known), argument.span
        if remembers and isinstance(place, TypeVariable) and isinstance(found, OptionType):
            report_optional(checker, found, span)
            failed = True
            continue
        before = set(bound)
        unify_argument(place, found, bound, names, meet)
        if not require_bounds(checker, callee.name, asked, {name: one for name, one in bound.items() if name not in before}, span):
            failed = True
            continue
        wanted = substituted(place, bound, names)
        if not (isinstance(wanted, TypeVariable) and wanted.name in names - set(bound)):
            failed |= not require(checker, found, wanted, span, f"the parameter `{parameter.name}`")
        if argument is not None and isinstance(parameter.annotation, nodes.ConstantTypeSyntax):
            failed |= not _is_constant(checker, callee, parameter, argument, scope)
    if failed:
        return ERROR
    return _result(checker, node, callee, scope, bound, names, expected)


def _may_call(checker: QuantChecker, callee: Callee, node: nodes.Call) -> bool:
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
    return True


def _placed(
    checker: QuantChecker, callee: Callee, node: nodes.Call, subject: tuple[Type, Span] | None
) -> list[tuple[nodes.Parameter, nodes.Argument | None]] | None:
    """Each parameter with its argument (None: the subject of a method); parameters that keep their default are left out."""
    parameters = list(callee.parameters)
    placed: list[tuple[nodes.Parameter, nodes.Argument | None]] = []
    if subject is not None:
        placed.append((parameters.pop(0), None))
    given: dict[str, nodes.Argument] = {}
    for number, argument in enumerate(node.arguments):
        if argument.name is None and number >= len(parameters):
            message = f"`{callee.name}` takes {_many(len(parameters))}, and {len(node.arguments)} are given"
            _refused(checker, callee, message, node.span)
            return None
        name = argument.name or parameters[number].name
        if name in given:
            _refused(checker, callee, f"`{name}` is given twice", argument.span)
            return None
        if name not in {parameter.name for parameter in parameters}:
            hint = did_you_mean(name, [parameter.name for parameter in parameters])
            _refused(checker, callee, f"`{callee.name}` has no parameter `{name}`", argument.span, hint)
            return None
        given[name] = argument
    for parameter in parameters:
        if parameter.name in given:
            placed.append((parameter, given[parameter.name]))
        elif parameter.default is None:
            _refused(checker, callee, f"`{callee.name}` needs an argument for `{parameter.name}`", node.span)
            return None
    return placed


def _many(count: int) -> str:
    return "no argument" if count == 0 else "1 argument" if count == 1 else f"{count} arguments"


def _refused(checker: QuantChecker, callee: Callee, message: str, span: Span, hint: str | None = None) -> None:
    others = (Label(callee.name_span, "declared here"),) if callee.name_span.path and not callee.name_span.path.startswith("<") else ()
    parameters = ", ".join(parameter.name for parameter in callee.parameters if parameter.name != "self")
    checker.report("0204", message, span, hint=hint or f"its parameters are ({parameters})", others=others)


def _is_constant(checker: QuantChecker, callee: Callee, parameter: nodes.Parameter, argument: nodes.Argument, scope: Scope) -> bool:
    value = whole_constant(argument.value, scope)
    constants = [scope.variable(name.name) for name in _names(argument.value)]
    if value is None and not (constants and all(v is not None and v.kind in CONSTANT_KINDS for v in constants)):
        hint = "use a number, a `const`, a `param` or a `const` parameter"
        checker.report("0204", f"the parameter `{parameter.name}` of `{callee.name}` wants a constant", argument.span, hint=hint)
        return False
    if value is not None and value < 1 and callee.name == "delay":
        hint = "`delay(x, 1)` is the value of the call before, which is the latest that is known"
        checker.report("0724", f"`delay` by {value} would look ahead", argument.span, hint=hint)
        return False
    return True


def _names(node: nodes.Expression) -> list[nodes.Name]:
    match node:
        case nodes.Name():
            return [node]
        case nodes.Binary(left=left, right=right):
            return _names(left) + _names(right)
    return []


def _result(
    checker: QuantChecker,
    node: nodes.Call,
    callee: Callee,
    scope: Scope,
    bound: dict[str, Type],
    names: set[str],
    expected: Type | None,
) -> Type:
    if callee.result is None:
        return UNIT
    with checker.within(parameters=checker.frame.parameters | names):
        found = substituted(resolve(checker, callee.result, scope), bound, names)
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
