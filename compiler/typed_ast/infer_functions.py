"""The program's own functions: what their parameters and results are, calls with sizes bound call by call, and generic functions,
whose bodies are checked again with the types of a call's arguments."""

import attrs

from compiler.diagnostics import Diagnostic, Label
from compiler.typed_ast.arguments import ArgumentSlot, Callee, match_arguments
from compiler.typed_ast.bind_sizes import Bound, check_argument, substituted
from compiler.typed_ast.checker import MAX_INSTANCE_DEPTH, MAX_INSTANCES, Checker, Frame
from compiler.typed_ast.conversions import is_silent, strong
from compiler.typed_ast.nodes import (
    Annotation,
    Argument,
    Call,
)
from compiler.typed_ast.rules.bodies import check_body, declare_parameter
from compiler.typed_ast.scope import Findings, Scope, UserFunction, Variable, VariableKind, name_place
from compiler.typed_ast.signatures import declared_result, parameter_types, signature, sizes_in
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import (
    ERROR,
    UNKNOWN,
    WEAK_INT,
    Type,
)

# ---- bodies ----------------------------------------------------------------------------------------------------------


def generic_result(checker: Checker, function: UserFunction) -> Type:
    """The result's type with parameters as declared. Checks the body the first time; UNKNOWN while that is going on."""
    if function in checker.results:
        return checker.results[function]
    if function in checker.in_progress:
        return declared_result(checker, function) or UNKNOWN
    checker.in_progress.add(function)
    findings, checker.findings = checker.findings, function.findings
    try:
        found = _check_body(checker, function, parameter_types(checker, function), first=True)
    finally:
        checker.in_progress.discard(function)
        checker.findings = findings
    checker.results[function] = found
    return found


def _check_body(checker: Checker, function: UserFunction, types: list[Type], first: bool) -> Type:
    node = function.node
    resolver = checker.resolver
    if node.type_parameters:
        # Their declaration is reported; their uses are no further errors.
        checker.resolver = attrs.evolve(resolver, parameters=resolver.parameters | {p.name for p in node.type_parameters})
    try:
        return _check_body_here(checker, function, types, first)
    finally:
        checker.resolver = resolver


def _check_body_here(checker: Checker, function: UserFunction, types: list[Type], first: bool) -> Type:
    node = function.node
    if first:
        _check_declaration(checker, function)
    result = checker.resolver.resolve(node.result) if node.result is not None else None
    outer, checker.frame = checker.frame, Frame()
    scope = function.scope.inner()
    for parameter, found in zip(node.parameters, types, strict=True):
        for name in sizes_in(found):
            scope.entries.setdefault(name, Variable(name, WEAK_INT, VariableKind.SIZE, parameter.span, frame=checker.frame))
    for parameter, found in zip(node.parameters, types, strict=True):
        if first and parameter.annotation is not None:
            found = checker.resolver.resolve(parameter.annotation)
        declare_parameter(checker, parameter, found, scope, first)
    found = check_body(checker, node, node.body, scope, result) if node.body is not None else result or UNKNOWN
    checker.frame = outer
    return found


def _check_declaration(checker: Checker, function: UserFunction) -> None:
    node = function.node
    if node.type_parameters:
        checker.later("a function with type parameters", name_place(node), "leave the types of its parameters out: each call is checked")
    if node.is_async:
        checker.later("`async def`", name_place(node), "leave `async` out; blocks inside may be `@async`")
    for annotation in node.annotations:
        _check_annotation(checker, annotation)
    if node.is_extern and node.name not in checker.library.functions:
        hint = did_you_mean(node.name, checker.library.functions)
        checker.report("0201", f"there is no runtime function `{node.name}`", name_place(node), "not found", hint=hint)
    checker.require_distinct(node.parameters)


_ACCEPTED = ("cache", "memoize", "inline", "deprecated", "jit")
_LATER = {
    "kernel": ("a named kernel", "write a `compute` block inside a plain `def`"),
    "pipeline": ("`pipeline`", "write it as a `def`"),
    "with": ("`@with`", "call the function without it"),
    "critical_path": ("`@critical_path`", "leave it out: nothing would prove it"),
    "no_allocation": ("`@no_allocation`", "leave it out: nothing would prove it"),
    "inline_always": ("`@inline_always`", "leave it out, or write `@inline`"),
    "vectorizable": ("`@vectorizable`", "write a `compute` block, which is compiled to vectors"),
    "gpu_compute": ("`@gpu_compute`", "write a `compute` block"),
}


def _check_annotation(checker: Checker, annotation: Annotation) -> None:
    """Annotations of a function: hints are accepted, promises that nothing would prove are not."""
    name = annotation.name
    if name in _LATER:
        what, hint = _LATER[name]
        checker.later(what, annotation.span, hint)
    elif name not in _ACCEPTED:
        known = [*_ACCEPTED, *_LATER]
        hint_text = did_you_mean(f"@{name}", [f"@{k}" for k in known]) or "functions take " + ", ".join(f"`@{k}`" for k in _ACCEPTED)
        checker.report("0401", f"there is no annotation `@{name}` of functions", annotation.span, hint=hint_text)


# ---- calls -----------------------------------------------------------------------------------------------------------


def call_user_function(checker: Checker, call: Call, function: UserFunction, scope: Scope) -> Type:
    """Arguments against parameters, sizes bound, generic bodies checked anew; the type of the result."""
    node = function.node
    slots = [ArgumentSlot(p.name, p.default is None) for p in node.parameters]
    declared = parameter_types(checker, function)
    matched = match_arguments(slots, call, Callee(function.name, signature(checker, function), name_place(node)))
    wanted: dict[int, Type] = {}
    if not isinstance(matched, Diagnostic):
        by_name = dict(zip((p.name for p in node.parameters), declared, strict=True))
        wanted = {id(a): by_name[name] for name, given in matched.items() for a in given}
    found = {id(a): checker.infer(a.value, scope, wanted.get(id(a))) for a in call.arguments}
    if isinstance(matched, Diagnostic):
        return checker.add(matched)
    bound: Bound = {}
    origins: dict[str, tuple[Argument, str]] = {}
    fits = True
    for parameter, want in zip(node.parameters, declared, strict=True):
        given = matched.get(parameter.name)
        if given is None or parameter.annotation is None:
            continue
        argument = given[0]
        reason = Label(parameter.span, f"parameter `{parameter.name}` of `{function.name}`")
        fits &= check_argument(checker, argument, found[id(argument)], want, scope, reason, function, bound, origins)
    if ERROR in found.values() or not fits:
        return substituted(declared_result(checker, function) or ERROR, bound) if node.result is not None else ERROR
    types = [
        want if p.annotation is not None else strong(found[id(matched[p.name][0])]) if p.name in matched else UNKNOWN
        for p, want in zip(node.parameters, declared, strict=True)
    ]
    result = generic_result(checker, function)
    if any(p.annotation is None and not is_silent(t) for p, t in zip(node.parameters, types, strict=True)):
        result = _instance(checker, function, types, call)
    if node.is_async or node.type_parameters:
        return ERROR
    return substituted(result, bound)


def _instance(checker: Checker, function: UserFunction, types: list[Type], call: Call) -> Type:
    """The result of a generic function for these argument types. Its body is checked once for each, within bounds."""
    key = (function, *types)
    if key in checker.instances:
        return checker.instances[key]
    declared = declared_result(checker, function)
    too_many = len(checker.instances) >= MAX_INSTANCES or len(checker.findings.calls) >= MAX_INSTANCE_DEPTH
    if key in checker.in_progress or too_many or function.node.body is None:
        return declared or UNKNOWN
    checker.in_progress.add(key)
    findings = checker.findings
    label = Label(call.span, f"called here with ({', '.join(map(str, types))})")
    checker.findings = Findings(muted=findings.muted, calls=(*findings.calls, label))
    try:
        found = _check_body(checker, function, types, first=False)
    finally:
        checker.findings = findings
        checker.in_progress.discard(key)
    checker.instances[key] = found
    return found
