"""The bodies of functions: their parameters as variables, and the value that every path to their end must have."""

from functools import reduce

from compiler.diagnostics import Label
from compiler.source import NOWHERE, Span
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker, leaves
from compiler.typed_ast.conversions import join, strong
from compiler.typed_ast.rules.placing import placed, require_part
from compiler.typed_ast.scope import Scope, Variable, VariableKind
from compiler.typed_ast.shapes import refined
from compiler.typed_ast.types import ERROR, NEVER, UNIT, UNKNOWN, Type


def declare_parameter(checker: Checker, node: nodes.Parameter, found: Type, scope: Scope, first: bool = True) -> None:
    """Enters a parameter of type `found`. `first`: its declaration is looked at, too."""
    settings = checker.meaning.settings
    if node.annotation is None and not settings.untyped_parameters:
        found = checker.report("0203", f"the parameter `{node.name}` has no type", node.span, hint=f"write `{node.name}: f64`")
    if first and node.default is not None:
        reason = Label(node.annotation.span, "the type of the parameter") if node.annotation is not None else None
        placed(checker, node.default, scope, found, f"the parameter `{node.name}`", reason)
    changes = node.mutable or (settings.parameters_change and node.name != "self")
    kind = VariableKind.MUTABLE if changes else VariableKind.PARAMETER
    if isinstance(node.annotation, nodes.ConstantTypeSyntax):
        kind = VariableKind.CONSTANT_PARAMETER
    variable = Variable(node.name, found, kind, node.span, declared=node.annotation is not None, frame=checker.frame)
    scope.add(variable)
    checker.meaning.rules.declared(checker, variable)


def check_body(checker: Checker, node: nodes.Function, body: nodes.Block, scope: Scope, result: Type | None) -> Type:
    """The type of what the body of a function gives, whose parameters are in `scope`. `result`: what is written, None: nothing."""
    if result is None and not checker.meaning.settings.result_inferred:
        result = UNIT
    declared = node.result.span if node.result is not None else NOWHERE
    with checker.within(function=node, result=result, declared=declared, returns=[]):
        wanted = UNKNOWN if result is None else result if result != UNIT else None
        actual = checker.infer(body, scope, wanted, used=result != UNIT)
        if result is None:
            value = reduce(join, checker.frame.returns, actual)
            return strong(value) if value != NEVER else UNKNOWN
        if result != UNIT and ERROR not in (result, actual):
            _require_result(checker, node, body, scope, result)
        return result if checker.frame.returns else refined(result, actual)


def _require_result(checker: Checker, node: nodes.Function, body: nodes.Block, scope: Scope, result: Type) -> None:
    """Reports ends of a function's body that don't give its result. The types in the body are known."""
    reason = Label(checker.frame.declared, "the result is declared here")
    for end in _open_ends(checker, body):
        message = f"`{node.name}` returns {checker.show(result)}, but a path ends without a value"
        checker.report("0209", message, end, "this path ends here", (reason,), hint="end the path with a value or a `return`")
    for leaf in leaves(body):
        type_ = checker.type_of(leaf)
        if type_ not in (NEVER, ERROR) and not isinstance(leaf, nodes.Block | nodes.If):
            require_part(checker, type_, result, leaf, scope, "the result", reason)


def _open_ends(checker: Checker, node: nodes.Expression) -> list[Span]:
    """Where control leaves a body without a value: the last statement of each such path."""
    match node:
        case nodes.Block(statements=statements):
            if checker.type_of(node) == NEVER:
                return []
            if not statements:
                return [node.span]
            last = statements[-1]
            return _open_ends(checker, last.value) if isinstance(last, nodes.ExpressionStatement) else [last.span]
        case nodes.If(otherwise=None):
            return [node.span]
        case nodes.If(then=then, otherwise=nodes.Expression() as otherwise) | nodes.Conditional(then=then, otherwise=otherwise):
            return _open_ends(checker, then) + _open_ends(checker, otherwise)
        case nodes.Match(arms=arms):
            return [end for arm in arms for end in _open_ends(checker, arm.body)]
        case nodes.Try(body=body, handlers=handlers):
            return _open_ends(checker, body) + [end for handler in handlers for end in _open_ends(checker, handler.body)]
    return []
