"""The variables of a function's body, and what keeps it from being compiled natively, as `body_effects.py` finds it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.function_effects import DYNAMIC, FunctionEffects, ProgramEffects, Reason
from compiler.typed_ast.native_forms import without_form
from compiler.typed_ast.native_tensors import tensor_refused
from compiler.typed_ast.rules.parts import cases_of
from compiler.typed_ast.types import UNKNOWN, TensorType, Type
from runtime.records import define

NativeCall = Callable[[nodes.Call, str], bool]
"""`(call, name) -> whether` this call of a function or method of the library has native code."""


@define(eq=False)
class LocalVariable:
    """A variable: the type that it keeps, None where only its uses tell; `declared`: that is written. `fresh`: it is a tensor that was
    made here, and no other; `written`: elements of it are assigned."""

    type: Type | None = None
    declared: bool = False
    fresh: bool = False
    written: bool = False


class BodyScopes:
    """What is known where the walk is. `native_call(call, name)`: whether a call of the library has native code."""

    def __init__(self, checker: Checker, program: ProgramEffects, own: FunctionEffects, native_call: NativeCall) -> None:
        self.checker, self.program, self.own, self.native_call = checker, program, own, native_call
        self.scopes: list[dict[str, LocalVariable]] = [{}]

    def because(self, effect: str, words: str, span: Span) -> None:
        if not any(found.words == words for found in self.own.reasons):
            self.own.reasons.append(Reason(effect, words, span))

    def with_form(self, type_: Type, span: Span, what: str = "") -> None:
        words = tensor_refused(type_) if isinstance(type_, TensorType) else without_form(self.checker, type_)
        if words is not None:
            shown = words.removeprefix("its ") if not what else words
            if what and words.startswith("its type"):
                words = f"the type of {what} isn't known"
            elif what:
                words = f"{what} is {words}" if words.startswith(("a ", "text")) else f"{what}: {shown}"
            else:
                words = f"it uses {words}" if words.startswith(("a ", "text")) else words.replace("its type", "a type")
            self.because(DYNAMIC, words, span)

    def written(self, syntax: nodes.TypeSyntax) -> Type:
        return self.checker.resolver.resolve(syntax)

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.scopes.append({})
        try:
            yield
        finally:
            self.scopes.pop()

    def local(self, name: str) -> LocalVariable | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def bind(self, pattern: nodes.Pattern, actual: Type, declared: bool = False) -> None:
        """The names that a pattern binds in a value of this type."""
        match pattern:
            case nodes.BindingPattern(name=name):
                self.scopes[-1][name] = LocalVariable(strong(actual) if actual != UNKNOWN else None, declared)
                return
            case nodes.LiteralPattern(value=nodes.StringLiteral()):
                self.because(DYNAMIC, "it compares text", pattern.span)
                return
            case nodes.ListPattern():
                self.because(DYNAMIC, "it takes a list apart", pattern.span)
        cases = cases_of(self.checker, actual) or {}
        match pattern:
            case nodes.AlternativePattern(alternatives=alternatives):
                inside = [("", alternative) for alternative in alternatives]
                cases = {"": (("", actual),)}
            case nodes.TuplePattern(elements=elements):
                inside = [(str(number), element) for number, element in enumerate(elements)]
            case nodes.VariantPattern(path=path, arguments=arguments):
                inside = [(str(number), argument) for number, argument in enumerate(arguments)]
                cases = {"": cases.get(path[-1], ())}
            case nodes.StructPattern(path=path, fields=fields):
                inside = [(field.name, field.pattern) for field in fields]
                cases = cases if "" in cases else {"": cases.get(path[-1], ())}
            case _:
                return
        known = dict(cases.get("", ()))
        for part, one in inside:
            self.bind(one, known.get(part, UNKNOWN), declared)
