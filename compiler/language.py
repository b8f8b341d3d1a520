"""What a language is to those who run, check and show programs: one record, which its package makes and registers as an entry point of the
group `zyntax.languages`. Nothing of the compiler is imported before a method needs it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from compiler.diagnostics import Diagnostic
    from compiler.driver import Session, Warn
    from compiler.options import CompileOptions
    from compiler.source import Source, Sources
    from compiler.typed_ast.nodes import Program
    from grammars.grammar import Grammar

API = 1
"""Raised when a language written for this version of `zyntax.language` could meet something that it doesn't know."""

Show = Callable[["Iterable[Diagnostic]"], None]


class Front(Protocol):
    """How programs of one language are read, checked and opened. Each method raises ZyntaxError with all that it finds wrong."""

    def parse(self, source: "Source") -> "Program":
        """The tree of a text."""

    def tree_as_json(self, source: "Source") -> str:
        """The tree of a text, as `zyntax compile --emit ast` shows it."""

    def open(self, source: "Source", options: "CompileOptions", sources: "Sources", warn: "Warn") -> "Session":
        """A program as a session, which runs it."""

    def check(self, source: "Source", options: "CompileOptions", sources: "Sources", show: Show) -> None:
        """Shows the program's warnings."""

    def is_replayed(self, source: "Source") -> bool:
        """Whether the program doesn't run by itself, but on recorded market data."""

    def compile(self, source: str | Path, options: dict[str, Any]) -> Any:
        """The program of a text, or of a file, as an object of Python's. `options` are the keywords of the language's own `compile`."""


class NewerApi(Exception):
    """A language wants a newer `zyntax.language` than this one."""

    def __init__(self, name: str, wanted: int) -> None:
        super().__init__(f"the language `{name}` wants version {wanted} of `zyntax.language`, and this is version {API}")


class Language:
    """`name`: by which commands and Python know it; `title`: how messages write it. `endings`: of its files, the usual one first.
    `comment`: the sign that begins a comment which ends with the line. `replays`: whether some of its programs run on recorded market
    data. `api`: the version of `zyntax.language` that it was written for."""

    def __init__(
        self,
        name: str,
        endings: tuple[str, ...],
        *,
        front: Any = None,
        syntax: Any = None,
        title: str = "",
        comment: str = "//",
        replays: bool = False,
        api: int = API,
        **newer: Any,
    ) -> None:
        if api > API:
            raise NewerApi(name, api)
        if newer:
            raise TypeError(f"Language() has no keyword `{next(iter(newer))}`")
        self.name, self.endings, self.title = name, tuple(endings), title or name
        self.front: Front = front
        self.syntax: Callable[[], Grammar] = syntax
        self.comment, self.replays, self.api = comment, replays, api

    def __repr__(self) -> str:
        return f"<Language {self.name}: {', '.join(self.endings)}>"

    @property
    def grammar(self) -> "Grammar":
        return self.syntax()

    def parse(self, source: "Source") -> "Program":
        """The tree of a text. Raises ZyntaxError with all its syntax errors."""
        return self.front.parse(source)

    def tree_as_json(self, source: "Source") -> str:
        """The tree of a text as JSON. Raises ZyntaxError with all its syntax errors."""
        return self.front.tree_as_json(source)

    def open(self, source: "Source", options: "CompileOptions", sources: "Sources", warn: "Warn") -> "Session":
        """A program as a session, which runs it. Raises ZyntaxError."""
        return self.front.open(source, options, sources, warn)

    def check(self, source: "Source", options: "CompileOptions", sources: "Sources", show: Show) -> None:
        """Shows the program's warnings. Raises ZyntaxError with all its errors."""
        self.front.check(source, options, sources, show)

    def is_replayed(self, source: "Source") -> bool:
        """Whether the program doesn't run by itself, but on recorded market data. Raises ZyntaxError with all its syntax errors."""
        return self.replays and self.front.is_replayed(source)

    def compile(self, source: str | Path, **options: Any) -> Any:
        """The program of a text, or of the file that a `Path` names, as an object of Python's."""
        return self.front.compile(source, options)
