"""The program's own functions: what their parameters and results are, calls with sizes bound call by call, and generic functions,
whose bodies are checked again with the types of a call's arguments."""

from collections.abc import Iterator

from compiler.diagnostics import Label
from compiler.typed_ast.bind_sizes import Bound, check_argument, substituted
from compiler.typed_ast.callees_first import callees_first
from compiler.typed_ast.checker import MAX_INSTANCE_DEPTH, MAX_INSTANCES, Checker, Frame, checks
from compiler.typed_ast.conversions import is_silent, strong
from compiler.typed_ast.declarations import changes_receiver, declared_twice
from compiler.typed_ast.free_names import names_from_outside
from compiler.typed_ast.function_annotations import check_annotation
from compiler.typed_ast.generic_calls import Known, check_bounds, type_arguments
from compiler.typed_ast.generics import copy_of, key_of_copy
from compiler.typed_ast.nodes import (
    Argument,
    Call,
    Function,
    Impl,
    Trait,
    TypeAlias,
)
from compiler.typed_ast.rules.bodies import check_body, declare_parameter
from compiler.typed_ast.rules.calls import Receiver, argument_type, placed_arguments, receives_changes
from compiler.typed_ast.rules.cases import infer_arguments
from compiler.typed_ast.scope import Findings, Scope, UserFunction, Variable, VariableKind, name_place
from compiler.typed_ast.signatures import declared_result, parameter_types, sizes_in
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.traits import check_impl
from compiler.typed_ast.types import (
    ERROR,
    UNIT,
    UNKNOWN,
    WEAK_INT,
    FutureType,
    Type,
)

DEEP = 100
"""Bodies that wait for the one that they call, beyond which those further down are checked first."""


@checks(Impl)
def implementation(checker: Checker, node: Impl, scope: Scope) -> Type:
    """Its functions are checked with the program's others."""
    with checker.within(parameters=frozenset(parameter.name for parameter in node.type_parameters)):
        checker.resolve(node.target, checker.top)
    if node.trait is not None:
        check_impl(checker, node)
    elif (alias := next((member for member in node.members if isinstance(member, TypeAlias)), None)) is not None:
        hint = "write it at the program's top, or in the `impl` of a trait that has it"
        checker.report("0101", "a type can't stand inside of an `impl` without a trait", alias.span, hint=hint)
    return UNIT


@checks(Trait)
def trait(checker: Checker, node: Trait, scope: Scope) -> Type:
    """What its functions do is checked where a type implements it."""
    seen: dict[str, Trait | Function | TypeAlias] = {}
    for member in node.members:
        if isinstance(member, Function | TypeAlias):
            if member.name in seen:
                checker.add(declared_twice(member, seen[member.name]))
            seen.setdefault(member.name, member)
    return UNIT


# ---- bodies ----------------------------------------------------------------------------------------------------------


def generic_result(checker: Checker, function: UserFunction) -> Type:
    """The result's type with parameters as declared. Checks the body the first time; UNKNOWN while that is going on. Of a generic
    function the copy is checked in which its type parameters stand for anything."""
    if function.node.type_parameters:
        check_bounds(checker, function.node)
        open_copy = copy_of(checker, function, {}, None)
        assert open_copy is not None
        function = open_copy
    if function in checker.results:
        return checker.results[function]
    if function in checker.in_progress:
        return declared_result(checker, function) or UNKNOWN
    order = [function] if len(checker.in_progress) <= DEEP else callees_first([function], lambda caller: _called(checker, caller))
    checker.in_progress.update(order)
    for each in order:
        findings, checker.findings = checker.findings, each.findings
        try:
            type_ = _check_body(checker, each, parameter_types(checker, each), first=True)
        finally:
            checker.in_progress.discard(each)
            checker.findings = findings
        checker.results[each] = type_
    return checker.results[function]


def _called(checker: Checker, caller: UserFunction) -> Iterator[UserFunction]:
    """The functions that a function names and nobody has looked at."""
    for name in names_from_outside(caller.node):
        entry = caller.scope.find(name)
        if not isinstance(entry, UserFunction) or entry.node.type_parameters:
            continue
        if entry not in checker.results and entry not in checker.in_progress:
            yield entry


def _check_body(checker: Checker, function: UserFunction, types: list[Type], first: bool) -> Type:
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
    if node.is_async and changes_receiver(node):
        checker.later("an `async` method that changes what it is called on", name_place(node), "let it return what it would leave there")
    for annotation in node.annotations:
        check_annotation(checker, function, annotation)
    if node.is_extern and node.name not in checker.library.functions:
        hint = did_you_mean(node.name, checker.library.functions)
        checker.report("0201", f"there is no runtime function `{node.name}`", name_place(node), "not found", hint=hint)
    checker.require_distinct(node.parameters)


# ---- calls -----------------------------------------------------------------------------------------------------------


def call_user_function(
    checker: Checker, call: Call, callee: UserFunction | Function, receiver: Receiver | None, scope: Scope, expected: Type | None
) -> Type:
    """Arguments against parameters, sizes bound, generic bodies checked anew; the type of the result."""
    function = callee if isinstance(callee, UserFunction) else checker.methods[checker.findings.callees[id(call)]]
    node = function.node
    placed = placed_arguments(checker, call, node, receiver, scope)
    if placed is None:
        infer_arguments(checker, call, scope)
        return ERROR
    known: Known = {}
    if node.type_parameters:
        bound_types = type_arguments(checker, call, function, placed, receiver, scope, expected, known)
        copy = copy_of(checker, function, bound_types, call.span) if bound_types is not None else None
        if copy is None:
            return ERROR
        function, node = copy, copy.node
        parameters = {parameter.name: parameter for parameter in node.parameters}
        placed = [(parameters[parameter.name], argument) for parameter, argument in placed]
        checker.findings.callees[id(call)] = key_of_copy(checker, copy)
    elif call.type_arguments:
        others = (Label(name_place(node), "declared here"),)
        return checker.report("0204", f"`{node.name}` has no type parameters", call.type_arguments[0].span, others=others)
    if receiver is not None and not receives_changes(checker, call, node, receiver, scope):
        infer_arguments(checker, call, scope)
        return ERROR
    declared = dict(zip((p.name for p in node.parameters), parameter_types(checker, function), strict=True))
    found = {
        p.name: known[id(argument.value)]
        if id(argument.value) in known
        else argument_type(checker, argument, receiver, scope, declared[p.name])
        for p, argument in placed
    }
    bound: Bound = {}
    origins: dict[str, tuple[Argument, str]] = {}
    fits = True
    given = {parameter.name: argument for parameter, argument in placed}
    for parameter in node.parameters:
        if parameter.name in given and parameter.annotation is not None:
            want, argument = declared[parameter.name], given[parameter.name]
            reason = Label(parameter.span, f"parameter `{parameter.name}` of `{function.name}`")
            what = f"the parameter `{parameter.name}`"
            fits &= check_argument(checker, argument, found[parameter.name], want, scope, what, reason, function, bound, origins)
    if ERROR in found.values() or not fits:
        result = substituted(declared_result(checker, function) or ERROR, bound) if node.result is not None else ERROR
        return FutureType(result) if node.is_async and result != ERROR else result
    types = [declared[p.name] if p.annotation is not None else strong(found.get(p.name, UNKNOWN)) for p in node.parameters]
    result = generic_result(checker, function)
    if any(p.annotation is None and not is_silent(t) for p, t in zip(node.parameters, types, strict=True)):
        result = _instance(checker, function, types, call)
    result = substituted(result, bound)
    return FutureType(result) if node.is_async else result


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
        actual = _check_body(checker, function, types, first=False)
    finally:
        checker.findings = findings
        checker.in_progress.discard(key)
    checker.instances[key] = actual
    return actual
