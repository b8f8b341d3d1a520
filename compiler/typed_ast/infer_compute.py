"""Compute blocks from outside: inputs typed, annotations read, the value's type asked of the rule that looks into bodies."""

from compiler.diagnostics import Diagnostic, Label
from compiler.source import Span
from compiler.typed_ast.annotations import kernel_metadata
from compiler.typed_ast.checker import Checker, checks, infers
from compiler.typed_ast.constants import constant
from compiler.typed_ast.free_names import free_names
from compiler.typed_ast.nodes import Compute, Name, Yield
from compiler.typed_ast.program_functions import ProgramFunctions
from compiler.typed_ast.rebuild import rebuild
from compiler.typed_ast.rules.assignment import require_mutable
from compiler.typed_ast.rules.strays import stray_yield
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.taken_apart import in_numbers
from compiler.typed_ast.types import ERROR, UNIT, FutureType, Type
from compiler.typed_ast.walk import walk
from runtime.records import evolve

checks(Yield)(stray_yield)


@infers(Compute)
def compute(checker: Checker, node: Compute, scope: Scope, expected: Type | None, used: bool) -> Type:
    good = True
    seen: dict[str, Span] = {}
    types: dict[str, Type] = {}
    checker.findings.rewrites.pop(id(node), None)
    for given in node.inputs:
        actual = types[given.name] = checker.infer(given.value, scope)
        good &= actual != ERROR
        if isinstance(actual, FutureType):
            checker.add(_no_value_yet(given.name, actual, given.value.span))
            good = False
        if actual == UNIT:
            checker.report("0203", f"input `{given.name}` has no value: this is ()", given.value.span)
            good = False
        if given.mutable:
            require_mutable(checker, given.value, scope)
        if given.name in seen:
            checker.report(
                "0210",
                f"input `{given.name}` is given twice",
                given.span,
                "",
                (Label(seen[given.name], "first given here"),),
                hint="name one of them: `other = ...`",
            )
            good = False
        seen.setdefault(given.name, given.span)
    apart = in_numbers(checker, node, types, scope) if good else None
    if apart is not None:
        checker.findings.rewrites[id(node)] = apart
        return checker.infer(apart, scope, expected)
    metadata, faults = kernel_metadata(node, lambda value: constant(value, scope), scope.functions())
    for fault in faults:
        checker.add(fault)
    checker.findings.kernels[id(node)] = metadata
    good &= _captures_values(checker, node, scope)
    if faults or not good:
        return ERROR
    findings = checker.findings
    typed = evolve(node, inputs=tuple(rebuild(i, findings) for i in node.inputs), kernel=metadata)
    outcome = checker.compute_rule(typed, scope.variables(), ProgramFunctions(scope.functions(), checker.declarations))
    checker.outcome(outcome)
    return FutureType(outcome.type) if metadata.is_async and outcome.type != ERROR else outcome.type


def _captures_values(checker: Checker, node: Compute, scope: Scope) -> bool:
    """Whether no outer name that the block mentions is a future."""
    types = scope.variables()
    futures = [name for name in free_names(node) if isinstance(types.get(name), FutureType)]
    for name in futures:
        place = next((part.span for part in walk(node.body) if isinstance(part, Name) and part.name == name), node.span)
        checker.add(_no_value_yet(name, types[name], place))
    return not futures


def _no_value_yet(name: str, type_: Type, span: Span) -> Diagnostic:
    message = f"a compute block takes values, and `{name}` is {type_}"
    return Diagnostic("0203", message, span, f"this is {type_}", hint=f"wait for it before the block: `let {name} = await {name}`")
