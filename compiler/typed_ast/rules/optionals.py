"""Values that may be none or an error: the default of `??`, and `?`, which leaves the function."""

from compiler.typed_ast import nodes
from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.conversions import fits
from compiler.typed_ast.requirements import require
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import ERROR, NONE, UNIT, UNKNOWN, OptionType, ResultType, Type


def default(checker: Checker, node: nodes.Binary, scope: Scope, expected: Type | None) -> Type:
    """`e ?? d`: the value before `??`, or the default where there is none."""
    left = checker.infer(node.left, scope)
    if left == ERROR:
        checker.infer(node.right, scope, expected)
        return ERROR
    if left == UNKNOWN:
        checker.infer(node.right, scope, expected)
        return UNKNOWN
    if left == NONE:
        checker.findings.rewrites[id(node)] = node.right
        return checker.infer(node.right, scope, expected)
    if not isinstance(left, OptionType | ResultType):
        checker.infer(node.right, scope, left)
        return checker.report(
            "0203", f"`??` gives a default for a value that may be none, and this `{checker.show(left)}` may not", node.left.span
        )
    with checker.within(turns=()):
        right = checker.infer(node.right, scope, left.value)
    if isinstance(right, OptionType) and fits(right, OptionType(left.value)):
        return OptionType(left.value)
    require(checker, right, left.value, node.right.span, "the value before `??`")
    return left.value


@CORE.infers(nodes.Propagate)
def propagate(checker: Checker, node: nodes.Propagate, scope: Scope, expected: Type | None, used: bool) -> Type:
    """`e?`: the value, or out of the function with its none or error; a handler that gives nothing ends."""
    actual = checker.infer(node.value, scope)
    if actual in (ERROR, UNKNOWN):
        return actual
    if not isinstance(actual, OptionType | ResultType):
        return checker.report(
            "0203", f"`?` takes a value that may be none, and this `{checker.show(actual)}` may not", node.span, hint="remove the `?`"
        )
    result = checker.frame.result or UNIT
    leaves = isinstance(result, OptionType) and isinstance(actual, OptionType)
    fails = isinstance(result, ResultType) and isinstance(actual, ResultType) and fits(actual.error, result.error)
    if not (checker.frame.may_leave_without_value or leaves or fails or result == ERROR):
        left = "none" if isinstance(actual, OptionType) else "the error"
        hint = "give a default with `e ?? d`, or make the result one that can be left with"
        return checker.report("0203", f"`?` would leave with {left}, and the result is `{checker.show(result)}`", node.span, hint=hint)
    if checker.frame.result is None:
        checker.frame.returns.append(actual)  # a function whose result is inferred gives it as one of its results
    return actual.value
