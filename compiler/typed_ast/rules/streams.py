"""Streams: the types of the values between the steps."""

from compiler.typed_ast import nodes
from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.conversions import is_silent, strong
from compiler.typed_ast.requirements import require, require_int
from compiler.typed_ast.rules.loops import iterated
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.stream_steps import STEPS, VALUES, StepForm
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import BOOL, ERROR, I64, UNIT, UNKNOWN, FunctionType, ListType, TupleType, Type
from runtime.records import evolve


@CORE.infers(nodes.Stream)
def stream(checker: Checker, node: nodes.Stream, scope: Scope, expected: Type | None, used: bool) -> Type:
    """Of a stream that nothing ends the values are told by a loop over it."""
    checker.findings.rewrites.pop(id(node), None)
    if node.steps and (last := STEPS.get(node.steps[-1].name)) is not None and last.of_lists:
        return _ended(checker, node, scope, expected)
    value: Type = strong(iterated(checker, checker.infer(node.source, scope), node.source.span))
    for step in node.steps:
        form = STEPS.get(step.name)
        if form is None:
            for argument in step.arguments:
                checker.infer(argument.value, scope)
            hint = did_you_mean(step.name, STEPS) or "steps are " + ", ".join(f"`{known.shown}`" for known in STEPS.values() if known.shown)
            return checker.report("0201", f"a stream has no step `{step.name}`", step.span, hint=hint)
        value = _step(checker, step, form, value, scope)
        if form.ends:
            return value
    return UNKNOWN


def _step(checker: Checker, step: nodes.StreamStep, form: StepForm, value: Type, scope: Scope) -> Type:
    """The type of what a step hands on, or of what it gives in the end."""
    names = form.arguments
    given = _arguments(step, names)
    if given is None or (names and names[0] not in given):
        for argument in step.arguments:
            checker.infer(argument.value, scope)
        return checker.report("0204", f"the step `{step.name}` is written `{form.shown}`", step.span)
    if form.function:
        type_ = checker.infer(given[form.function], scope, FunctionType((value,), UNKNOWN))
        return _through(checker, step, type_, value)
    if form.others:
        other = given[form.others]
        beside = strong(iterated(checker, checker.infer(other, scope), other.span))
        return TupleType((value, beside)) if step.name == "zip" else value if beside == value else UNKNOWN
    for name, count in given.items():
        type_ = checker.infer(count, scope, I64)
        if not is_silent(type_):
            require_int(checker, type_, count.span, f"`{name}` of `{step.name}`")
    match step.name:
        case "window" | "batch" | "collect" | "·values":
            return ERROR if value == ERROR else ListType(value)
        case "enumerate":
            return TupleType((I64, value))
    return value


def _ended(checker: Checker, node: nodes.Stream, scope: Scope, expected: Type | None) -> Type:
    """A stream whose last step is a method of lists, which takes the values one by one."""
    last = node.steps[-1]
    values = evolve(node, steps=(*node.steps[:-1], nodes.StreamStep(name=VALUES, span=node.source.span)))
    method = nodes.Field(value=values, name=last.name, span=last.span)
    call = nodes.Call(function=method, arguments=last.arguments, span=last.span)
    checker.kept.append(call)
    actual = checker.infer(call, scope, expected)
    checker.findings.rewrites[id(node)] = call
    return actual


def _arguments(step: nodes.StreamStep, names: tuple[str, ...]) -> dict[str, nodes.Expression] | None:
    """The arguments by name; None where they aren't those of the step."""
    given: dict[str, nodes.Expression] = {}
    for number, argument in enumerate(step.arguments):
        name = argument.name or (names[number] if number < len(names) else "")
        if name not in names or name in given:
            return None
        given[name] = argument.value
    return given


def _through(checker: Checker, step: nodes.StreamStep, function: Type, value: Type) -> Type:
    """What a step with a function hands on."""
    span = step.arguments[0].value.span
    if not isinstance(function, FunctionType):
        if not is_silent(function):
            shown = checker.show(function)
            return checker.report("0203", f"`{step.name}` takes a function, not {shown}", span, f"this is {shown}")
        return UNIT if step.name == "sink" else UNKNOWN if step.name == "map" else value
    if len(function.parameters) != 1:
        count = len(function.parameters)
        return checker.report("0204", f"`{step.name}` calls its function with one value, and this takes {count}", span)
    match step.name:
        case "map":
            return strong(function.result)
        case "sink":
            return UNIT
    if not is_silent(function.result):
        require(checker, function.result, BOOL, span, f"the answer of the function of `{step.name}`")
    return value
