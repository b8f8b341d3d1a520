"""`try { } catch E as e { }` and `throw`: what can be thrown, which type a `catch` names, and those that nothing reaches."""

from compiler.diagnostics import Label, Severity
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.conversions import is_silent
from compiler.typed_ast.error_kinds import ANY_ERROR, KINDS
from compiler.typed_ast.rules import narrowing
from compiler.typed_ast.rules.branches import joined
from compiler.typed_ast.scope import Scope, Variable, VariableKind
from compiler.typed_ast.types import NEVER, STRING, UNIT, UNKNOWN, EnumType, StructType, Type

_THROWN = StructType | EnumType
_HINT = "throw a struct, an enum or a text: `throw ValueError { message: \"...\" }`"


@CORE.checks(nodes.Throw)
def throw(checker: Checker, node: nodes.Throw, scope: Scope) -> Type:
    type_ = checker.infer(node.value, scope)
    if not _can_be_thrown(type_):
        checker.report("0203", f"{checker.show(type_)} can't be thrown", node.value.span, f"this is {checker.show(type_)}", hint=_HINT)
    return NEVER


def _can_be_thrown(type_: Type) -> bool:
    return type_ in (STRING, NEVER) or isinstance(type_, _THROWN) or is_silent(type_)


@CORE.infers(nodes.Try)
def try_(checker: Checker, node: nodes.Try, scope: Scope, expected: Type | None, used: bool) -> Type:
    with checker.within(sometimes=True, turns=()):
        with checker.within(in_try=True):
            result = checker.infer(node.body, scope, expected, used)
        # What the body assigned may not have happened where a fault leads to a `catch`.
        narrowing.behind(checker, nodes.ExpressionStatement(value=node.body, span=node.body.span))
        caught: dict[str, Span] = {}
        for handler in node.handlers:
            inner = scope.inner()
            found = _caught(checker, handler, scope, caught)
            if handler.name is not None:
                inner.add(Variable(handler.name, found, VariableKind.LET, handler.span, frame=checker.frame))
            value = checker.infer(handler.body, inner, expected, used)
            inner.close()
            result = joined(checker, result, value, handler.body, expected) if used else NEVER if result == value == NEVER else UNIT
    return result


def _caught(checker: Checker, handler: nodes.Catch, scope: Scope, caught: dict[str, Span]) -> Type:
    """The type that a `catch` names, UNKNOWN of `_`, which takes anything. `caught`: the types of those before it."""
    written = handler.error
    type_ = UNKNOWN if written is None else checker.resolve(written, scope)
    span = Span(handler.span.path, handler.span.start, handler.span.start + len("catch")) if written is None else written.span
    if not _can_be_thrown(type_):
        message = f"nothing throws {checker.show(type_)}"
        checker.report("0203", message, span, hint="`catch` names a struct, an enum or `String`; `catch _` takes anything")
    key = "_" if written is None else str(type_)
    first = caught.get("_") or caught.get(key) or (caught.get(ANY_ERROR) if _is_built_in(checker, key) else None)
    if first is not None:
        others = (Label(first, "caught here already"),)
        hint = "put it before the one that takes more, or leave it out"
        checker.report("0620", "nothing reaches this `catch`", span, "", others, hint=hint, severity=Severity.WARNING)
    if not is_silent(type_) or written is None:
        caught.setdefault(key, span)
    return type_


def _is_built_in(checker: Checker, name: str) -> bool:
    return name in KINDS and name not in checker.declarations.own
