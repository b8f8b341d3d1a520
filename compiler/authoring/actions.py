"""The base of an author's actions: what calls them, and what they may ask."""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from compiler.authoring.build import RULE, flat
from compiler.authoring.tokens import TextToken
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import Source, Span
from compiler.typed_ast import nodes
from compiler.typed_ast.suggest import nearest
from grammars.faults import Token
from grammars.machine import Tables
from runtime.records import evolve

FAULT = "0902"


class KernelNames(dict[str, str]):
    """The kernels by the names that they have in their file. What is looked up stands where the name does that asks for it."""

    def __getitem__(self, name: str) -> str:
        found = super().__getitem__(name)
        return TextToken(found, name.kind, name.span) if isinstance(name, TextToken) else found


class AuthorActions:
    """A method for each alias of the grammar, and for each rule without one that isn't inlined, builds what the rule means from the values
    of its parts: tokens, what other actions gave, None for an optional part that isn't there. `kernels`: the functions of the language's
    file of kernels, by name; `source`: the program."""

    def __init__(self, source: Source, kernels: Mapping[str, str]) -> None:
        self.source = source
        self.kernels = KernelNames(kernels)
        self.found: list[Diagnostic] = []

    def fault(
        self, code: str, text: str, *, at: Any = None, near: Iterable[str] = (), hint: str | None = None, label: str = ""
    ) -> nodes.Expression:
        """Notes an error of the program: a code of the language's own (`IMG0201`) or four digits of ours, what is wrong, and the token or
        node where. With `near` the names like that token are suggested. The parse goes on, so that one run finds all
        of them. Gives an expression, for the action to give in place of what it can't build."""
        close = nearest(str(at), near) if isinstance(at, str) else ()
        if hint is None and close:
            hint = f"did you mean {' or '.join(f'`{name}`' for name in close)}?"
        span = at.span if isinstance(at, nodes.Node | TextToken) else RULE.get()
        self.found.append(Diagnostic(code, text, span, label, hint=hint))
        return nodes.TupleLiteral(span=span)

    def program(self, *parts: Any) -> Any:
        """The whole: by itself the statements in their order."""
        return parts


class ActionCalls:
    """Calls an author's actions for the machine. `title`: of the language; `folder`: where its package lies."""

    def __init__(self, actions: AuthorActions, title: str, folder: Path) -> None:
        self.actions, self.title, self.folder = actions, title, folder

    def methods(self, tables: Tables, start: str) -> list[Any]:
        """What the machine calls for each rule. Raises ZyntaxError for a rule without an action."""
        wanted = {rule.action for rule in tables.rules if rule.action} - {start}
        self.require(wanted)
        called = {name: self.called(name) for name in wanted}
        called[start] = self._calling(start, getattr(self.actions, start, self.actions.program))
        return [called[rule.action] if rule.action else None for rule in tables.rules]

    def has(self, name: str) -> bool:
        """Whether the author's class itself has an action."""
        return any(name in vars(cls) for cls in type(self.actions).__mro__ if not issubclass(AuthorActions, cls))

    def require(self, names: Iterable[str]) -> None:
        """Raises ZyntaxError for rules without an action."""
        missing = sorted(name for name in names if not self.has(name))
        if missing:
            shown = ", ".join(f"`{name}`" for name in missing)
            cls = type(self.actions)
            message = f"the language `{self.title}` has no action for {shown}"
            hint = f"each alias of its grammar is a method of `{cls.__module__}.{cls.__qualname__}`"
            raise ZyntaxError(Diagnostic("0110", message, hint=hint))

    def called(self, name: str) -> Callable[..., Any]:
        """The action of a name, as the machine calls it."""
        return self._calling(name, getattr(self.actions, name))

    def _calling(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        path = self.actions.source.path

        def reduced(_: object, start: int, end: int, *values: Any) -> Any:
            span = Span(path, start, end)
            before = RULE.set(span)
            try:
                given = method(*(self._token(value) if type(value) is Token else value for value in values))
                return self._placed(given, span)
            except ZyntaxError:
                raise
            except Exception as error:
                if self.actions.found:  # it may follow from what was noted
                    raise ZyntaxError(*self.actions.found) from None
                raise ZyntaxError(self._fault(name, span, error)) from error
            finally:
                RULE.reset(before)

        return reduced

    def _token(self, token: Token) -> TextToken:
        return TextToken(token.text, token.kind, Span(self.actions.source.path, token.start, token.end))

    def _placed(self, given: Any, span: Span) -> Any:
        """A node that stands inside of its rule stands where the whole rule does."""
        if isinstance(given, nodes.Node) and given.span.path == span.path and span.start <= given.span.start and given.span.end <= span.end:
            return evolve(given, span=span)
        return given

    def statements(self, value: Any) -> tuple[nodes.Statement, ...]:
        """What the action of the start rule gave. Raises ZyntaxError where that is no statements."""
        if isinstance(value, nodes.Program):
            return value.statements
        try:
            return tuple(flat(value))
        except TypeError as error:
            text = self.actions.source.text
            message = f"a fault of the language `{self.title}`: {error}"
            raise ZyntaxError(Diagnostic(FAULT, message, Span(self.actions.source.path, 0, len(text)), hint=self._hint)) from error

    @property
    def _hint(self) -> str:
        return f"this is a fault of the language `{self.title}`, not of zyntax, and not of your program"

    def _fault(self, name: str, span: Span, error: Exception) -> Diagnostic:
        """An author's mistake, with the author's own line."""
        import linecache
        import traceback

        frames = traceback.extract_tb(error.__traceback__)[1:]
        own = [frame for frame in frames if Path(frame.filename).is_relative_to(self.folder)] or frames
        notes = []
        if own:
            line = linecache.getline(own[-1].filename, own[-1].lineno or 0).strip()
            notes.append(f"raised at {own[-1].filename}:{own[-1].lineno}, in `{own[-1].name}`" + (f": {line}" if line else ""))
        else:
            cls = type(self.actions)
            code = getattr(getattr(cls, name, None), "__code__", None)
            where = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else sys.modules[cls.__module__].__file__
            notes.append(f"raised by the call of `{cls.__qualname__}.{name}`, {where}")
        message = f"a fault of the language `{self.title}`: {type(error).__name__}: {error}"
        return Diagnostic(FAULT, message, span, f"while `{name}` read this", notes=notes, hint=self._hint)
