"""Programs that are typed in. All inputs so far are one text, so that names, functions, structs, variables, imports and parameters live on;
the statements of earlier inputs have run, and aren't run again."""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from compiler.backends.host.continued import Continued, Variables
from compiler.backends.host.faults import translated_faults
from compiler.backends.host.naming import MARK
from compiler.diagnostics import ZyntaxError
from compiler.source import Source, Span
from compiler.typed_ast import nodes
from compiler.typed_ast.declarations import is_method
from compiler.typed_ast.infer_index import kind_of
from compiler.typed_ast.types import UNIT
from grammars.scan import mask
from runtime.records import evolve

if TYPE_CHECKING:
    from compiler.diagnostics import Diagnostic
    from compiler.driver import CompileOptions, Session
    from compiler.language import Language
    from zyntax.report import Reporter

PATH = "<typed>"
_RESULT = "_"
_OPENERS, _CLOSERS = "([{", ")]}"
_GOES_ON = (":", ",", "=", "=>", "->", "+", "-", "*", "/", "%", "|>", "&&", "||", " and", " or", "??", "(", "[", "{")


class Interpreter:
    """Runs inputs of one language, one after the other."""

    def __init__(self, language: "Language", options: "CompileOptions", reporter: "Reporter") -> None:
        self.language, self.options, self.reporter = language, options, reporter
        self.text = ""
        self.variables = Variables()
        self.names: list[str] = []

    def run(self, text: str) -> str | None:
        """Runs an input, and gives the text of its value where its last statement has one. Raises ZyntaxError; nothing of an input that
        fails is known afterwards."""
        before = self._without_redefined(text)
        session = self._session(before, text)
        session = self._with_result(session, len(before))
        host, variables = session.host, self.variables
        own = frozenset(host.namespace) - variables.keys
        variables.latest = host.namespace
        with translated_faults():
            host.start()
            host.settle(False)
            value = host.value(_RESULT) if _RESULT in host.names else None
        self.text = before + text.rstrip("\n") + "\n"
        variables.keys |= host.namespace.keys() - own
        self.names = sorted({*host.names, *host.functions} - {_RESULT})
        return None if value is None else str(host.namespace[f"{MARK}text"](value))

    def type_of(self, text: str) -> str:
        """The type of an expression, which isn't run. Raises ZyntaxError."""
        session = self._session(self.text, text)
        session.check()
        last = session.checked.program.statements[-1]
        return str(last.value.type) if isinstance(last, nodes.ExpressionStatement) and len(self.text) <= last.span.start else "()"

    def members(self, text: str) -> list[str]:
        """The fields and methods of an expression's value, which isn't run; none where it has errors."""
        with suppress(ZyntaxError):
            session = self._session(self.text, text)
            checked = session.checked
            last = checked.program.statements[-1] if checked.program.statements else None
            if not checked.diagnostics.errors and isinstance(last, nodes.ExpressionStatement):
                kind = kind_of(last.value.type)
                of_library = (method for owner, method in session.language.library.methods if owner == kind)
                own = _members_of(getattr(last.value.type, "name", ""), checked.program)
                return sorted({*own, *(name for name in of_library if name.isidentifier())})
        return []

    def emit(self, stage: str, text: str) -> str:
        """A text behind what was typed in, or nothing, at a stage of the compiler. Raises ZyntaxError."""
        made = self._session(self.text, text).emit(stage)
        return made if isinstance(made, str) else f"{len(made)} bytes"

    def _session(self, before: str, text: str) -> "Session":
        source = Source(PATH, before + text.rstrip("\n") + "\n")
        self.reporter.sources.add(source)

        def warn(warning: "Diagnostic") -> None:
            if warning.span is None or warning.span.start >= len(before):
                self.reporter.show([warning])

        session = self.language.open(source, self.options, self.reporter.sources, warn)
        session.continues = Continued(before.count("\n"), self.variables)
        return session

    def _with_result(self, session: "Session", start: int) -> "Session":
        """The program with the value of its last statement in a variable. Raises ZyntaxError."""
        session.check()
        last = session.checked.program.statements[-1] if session.checked.program.statements else None
        if not isinstance(last, nodes.ExpressionStatement) or last.span.start < start:
            return session
        branches = isinstance(last.value, (nodes.If, nodes.Match, nodes.Block))
        if last.value.type == UNIT and not branches:
            return session
        *others, written = session.program.statements
        assert isinstance(written, nodes.ExpressionStatement)
        result = nodes.Let(pattern=nodes.BindingPattern(name=_RESULT, span=written.span), value=written.value, span=written.span)
        changed = evolve(session, program=evolve(session.program, statements=(*others, result)))
        return session if branches and changed.checked.diagnostics.errors else changed

    def _without_redefined(self, text: str) -> str:
        """What was typed in before, without what this input declares anew."""
        if not self.text:
            return ""
        with suppress(ZyntaxError):
            declared = {name for node in self.language.parse(Source(PATH, text)).statements if (name := _declared(node))}
            spans = [node.span for node in self.language.parse(Source(PATH, self.text)).statements if _declared(node) in declared]
            return _blanked(self.text, spans)
        return self.text


def _members_of(type_name: str, program: nodes.Program) -> Iterator[str]:
    """The fields and methods that a program declares of a type."""
    for node in program.statements:
        match node:
            case nodes.Struct(name=name, fields=fields) if name == type_name:
                yield from (field.name for field in fields)
            case nodes.Impl(target=nodes.NamedTypeSyntax(name=name), members=members) if name == type_name:
                yield from (member.name for member in members if isinstance(member, nodes.Function) and is_method(member))


def _declared(node: nodes.Statement) -> str | None:
    return node.name if isinstance(node, (nodes.Function, nodes.Struct, nodes.EnumDeclaration, nodes.TypeAlias, nodes.Test)) else None


def _blanked(text: str, spans: list[Span]) -> str:
    for span in spans:
        inside = "".join(character if character == "\n" else " " for character in text[span.start : span.end])
        text = text[: span.start] + inside + text[span.end :]
    return text


def goes_on(text: str) -> bool:
    """Whether an input isn't whole yet: a bracket, comment or string is open, a line goes on, or a block behind a colon has begun, which an
    empty line ends."""
    if text.endswith("\n\n"):
        masked, _ = mask(text)
        return _open_brackets(masked) > 0
    masked, faults = mask(text)
    if any(fault.code == "0102" or (fault.code == "0105" and text.startswith(('"""', "'''"), fault.start)) for fault in faults):
        return True
    lines = [line for line in masked.split("\n") if line.strip()]
    if not lines:
        return False
    return _open_brackets(masked) > 0 or lines[-1].rstrip().endswith(_GOES_ON) or (lines[-1][0] in " \t" and len(lines) > 1)


def _open_brackets(masked: str) -> int:
    return sum((character in _OPENERS) - (character in _CLOSERS) for character in masked)
