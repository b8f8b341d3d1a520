"""Compute blocks from outside: inputs typed, annotations read, the value's type asked of the rule that looks into bodies."""

import attrs

from compiler.diagnostics import Diagnostic, Label
from compiler.source import Span
from compiler.typed_ast.annotations import kernel_metadata
from compiler.typed_ast.constants import constant
from compiler.typed_ast.context import Checker, infers
from compiler.typed_ast.infer_statements import require_mutable
from compiler.typed_ast.nodes import Compute
from compiler.typed_ast.rebuild import rebuild
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import ERROR, UNIT, Type


@infers(Compute)
def compute(checker: Checker, node: Compute, scope: Scope, expected: Type | None) -> Type:
    good = True
    seen: dict[str, Span] = {}
    for given in node.inputs:
        found = checker.infer(given.value, scope)
        good &= found != ERROR
        if found == UNIT:
            checker.report(Diagnostic("0203", f"input `{given.name}` has no value: this is ()", given.value.span))
            good = False
        if given.mutable:
            require_mutable(checker, given.value, scope, "this changes")
        if given.name in seen:
            checker.report(
                Diagnostic(
                    "0210",
                    f"input `{given.name}` is given twice",
                    given.span,
                    "",
                    (Label(seen[given.name], "first given here"),),
                    hint="name one of them: `other = ...`",
                )
            )
            good = False
        seen.setdefault(given.name, given.span)
    metadata, faults = kernel_metadata(node, lambda value: constant(value, scope))
    for fault in faults:
        checker.report(fault)
    checker.findings.kernels[id(node)] = metadata
    if faults or not good:
        return ERROR
    findings = checker.findings
    typed = attrs.evolve(node, inputs=tuple(rebuild(i, findings.types, findings.kernels) for i in node.inputs), kernel=metadata)
    outcome = checker.compute_rule(typed, scope.variables(), scope.functions())
    for fault in outcome.diagnostics:
        checker.report(fault)
    return outcome.type
