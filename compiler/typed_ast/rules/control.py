"""Blocks and what leads through them: statements of an expression, branches, `while`, and the jumps out of loops and functions."""

from compiler.diagnostics import Label, Severity
from compiler.source import NOWHERE, Span
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.conversions import fits, is_silent
from compiler.typed_ast.declarations import changes_receiver, declared_twice
from compiler.typed_ast.endless_loops import is_endless
from compiler.typed_ast.requirements import require
from compiler.typed_ast.rules import narrowing
from compiler.typed_ast.rules.branches import joined
from compiler.typed_ast.rules.loops import counted, loop_body
from compiler.typed_ast.rules.placing import condition, placed
from compiler.typed_ast.scope import Scope, UserFunction
from compiler.typed_ast.types import I64, NEVER, UNIT, UNKNOWN, ResultType, Type


@CORE.checks(nodes.ExpressionStatement)
def expression_statement(checker: Checker, node: nodes.ExpressionStatement, scope: Scope) -> Type:
    type_ = checker.infer(node.value, scope, used=False)
    if isinstance(type_, ResultType):
        hint = "`match` it with `Ok(v)` and `Err(e)`, or drop it: `_ = ...`"
        checker.report("0723", f"this `{checker.show(type_)}` is neither used nor dropped", node.span, hint=hint)
    if isinstance(node.value, nodes.Compute) and not any(given.mutable for given in node.value.inputs):
        checker.report(
            "0604",
            "the value of this `compute` block is not used",
            Span(node.span.path, node.span.start, node.span.start + len("compute")),
            hint="give it a name: `let y = compute(...)`",
            severity=Severity.WARNING,
        )
    return NEVER if type_ == NEVER else UNIT


@CORE.infers(nodes.Block)
def block(checker: Checker, node: nodes.Block, scope: Scope, expected: Type | None, used: bool) -> Type:
    """The value of its last expression; NEVER when its end is not reached."""
    inner = scope.inner()
    found = statements(checker, node.statements, inner, expected, used)
    inner.close()
    return found


def statements(
    checker: Checker, body: tuple[nodes.Statement, ...], scope: Scope, expected: Type | None = None, used: bool = False
) -> Type:
    functions = _hoist(checker, body, scope)
    found: Type = UNIT
    ended = False
    known = tuple(checker.present)
    for number, statement in enumerate(body):
        narrowing.before(checker, statement)
        if used and number == len(body) - 1 and isinstance(statement, nodes.ExpressionStatement):
            found = checker.infer(statement.value, scope, expected)
        else:
            found = checker.statement(statement, scope)
        ended |= found == NEVER
        narrowing.behind(checker, statement)
    narrowing.leave(checker, known)
    for function in functions:
        if function not in checker.results:
            checker.check_function(checker, function)
    # A value that isn't reached must be one of its place, too.
    return NEVER if ended and (expected is None or fits(found, expected)) else found


def _hoist(checker: Checker, body: tuple[nodes.Statement, ...], scope: Scope) -> list[UserFunction]:
    """Declares the functions of a block before its statements run, so that they can call each other."""
    found: list[UserFunction] = []
    of_types = {id(function): key for key, function in checker.declarations.functions.items() if "::" in key}
    for statement in body:
        for function in statement.members if isinstance(statement, nodes.Impl) else (statement,):
            if not isinstance(function, nodes.Function) or (function is not statement and id(function) not in of_types):
                continue
            before = scope.entries.get(function.name)
            made = UserFunction(function, scope.for_functions or scope, checker.findings_here())
            if id(function) in of_types:
                checker.methods[of_types[id(function)]] = made
            elif isinstance(before, UserFunction):
                checker.add(declared_twice(function, before.node))
                continue
            if function is statement and not (id(function) in of_types and changes_receiver(function)):
                scope.entries.setdefault(function.name, made)
            found.append(made)
    return found


@CORE.infers(nodes.If)
def if_(checker: Checker, node: nodes.If, scope: Scope, expected: Type | None, used: bool) -> Type:
    inner = scope
    if isinstance(node.condition, nodes.LetCondition):
        inner = scope.inner()
        checker.infer(node.condition, inner)
    else:
        condition(checker, node.condition, scope, "the condition of `if`")
    with checker.within(sometimes=True, turns=()):
        then = checker.infer(node.then, inner, expected, used)
        if node.otherwise is None:
            return UNIT
        otherwise = checker.infer(node.otherwise, scope, expected, used)
    return joined(checker, then, otherwise, node, expected) if used else NEVER if then == otherwise == NEVER else UNIT


@CORE.infers(nodes.Conditional)
def conditional(checker: Checker, node: nodes.Conditional, scope: Scope, expected: Type | None, used: bool) -> Type:
    condition(checker, node.condition, scope, "the condition")
    with checker.within(sometimes=True, turns=()):
        then = checker.infer(node.then, scope, expected)
        otherwise = checker.infer(node.otherwise, scope, expected or then)
    return joined(checker, then, otherwise, node, expected)


@CORE.checks(nodes.While)
def while_(checker: Checker, node: nodes.While, scope: Scope) -> Type:
    condition(checker, node.condition, scope, "the condition of `while`")
    if node.bound is not None:
        require(checker, checker.infer(node.bound, scope, I64), I64, node.bound.span, "the bound")
    loop_body(checker, node.body, scope, counted(checker, node, scope))
    return NEVER if is_endless(node) else UNIT


@CORE.checks(nodes.Break, nodes.Continue)
def jump(checker: Checker, node: nodes.Break | nodes.Continue, scope: Scope) -> Type:
    if not checker.frame.loops:
        word = "break" if isinstance(node, nodes.Break) else "continue"
        checker.report("0101", f"`{word}` stands outside of a loop", node.span)
    return NEVER


@CORE.checks(nodes.Return)
def return_(checker: Checker, node: nodes.Return, scope: Scope) -> Type:
    frame = checker.frame
    if frame.no_return is not None:
        checker.report("0101", frame.no_return.what, node.span, hint=frame.no_return.hint)
        return NEVER
    if frame.top:
        checker.report("0101", "`return` stands outside of a function", node.span)
    reason = Label(frame.declared, "the result is declared here") if frame.declared != NOWHERE else None
    if node.value is None:
        if frame.function is not None and frame.result is not None and frame.result != UNIT and not is_silent(frame.result):
            message = f"`{frame.function.name}` returns {checker.show(frame.result)}, but this `return` has no value"
            checker.report("0209", message, node.span, others=(reason,) if reason else ())
        frame.returns.append(UNIT)
    elif frame.result is None:
        frame.returns.append(checker.infer(node.value, scope))
    elif frame.result == UNIT and reason is None:
        type_ = checker.infer(node.value, scope)
        if type_ not in (UNIT, UNKNOWN, NEVER):
            checker.report("0203", "this `return` gives a value, and no result is declared", node.value.span)
    else:
        frame.returns.append(placed(checker, node.value, scope, frame.result, "the result", reason))
    return NEVER
