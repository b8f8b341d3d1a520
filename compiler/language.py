"""What a language is to those who run, check and show programs: one record, which its package makes and registers as an entry point of the
group `zyntax.languages`. Nothing of the compiler is imported before a method needs it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from runtime.records import Factory, frozen

if TYPE_CHECKING:
    from pathlib import Path

    from compiler.diagnostics import Diagnostic
    from compiler.driver import Session, Warn
    from compiler.fusion.kept_runs import KeptRun
    from compiler.options import CompileOptions
    from compiler.source import Source, Sources
    from compiler.typed_ast.language import SessionLanguage
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

    def explained(self, source: "Source", function: str, options: "ExplainOptions", sources: "Sources") -> str:
        """What is known of a function before it runs, and the code that it becomes."""

    def compile_in(self, language: "Language", source: "str | Path", options: dict[str, Any]) -> Any:
        """The program of a language that builds on this one, as `compile` gives its own."""

    def shared_actions(self) -> type:
        """The actions of what `common.lark` says, for a language that adds to it and builds on this one."""

    def of_session(self, source: "Source", options: "CompileOptions", families: Sequence[Any]) -> "SessionLanguage":
        """The language for a program in another that builds on it. `families`: functions of that one's own."""

    def compile(self, source: "str | Path", options: dict[str, Any]) -> Any:
        """The program of a text, or of a file, as an object of Python's. `options` are the keywords of the language's own `compile`."""


@runtime_checkable
class KeepsRuns(Protocol):
    """A front whose programs are found in the user's cache when they are run again."""

    def kept_run(self, source: "Source", options: "CompileOptions", sources: "Sources", warn: "Warn") -> "KeptRun | None":
        """The run that another process kept; None where there is none."""


@frozen
class ExplainOptions:
    """What a function is explained with. `settings`: texts of the program's parameters; `strategy`: which, of a language that has
    several in a program; `level`: of optimization, None for the language's own."""

    settings: Mapping[str, str] = Factory(dict)
    strategy: str | None = None
    level: str | None = None


def explained_by_session(front: Front, source: "Source", function: str, options: ExplainOptions, sources: "Sources") -> str:
    """What is known of a native function of a program that runs by itself. Raises ZyntaxError."""
    from compiler.options import CompileOptions
    from compiler.typed_ast.levels import OptimizationLevel

    level = OptimizationLevel(options.level) if options.level is not None else OptimizationLevel.O3
    opened = front.open(source, CompileOptions(parameters=options.settings, level=level), sources, lambda warning: None)
    return opened.function_explained(function)


class Replays(Protocol):
    """What commands ask of a language some of whose programs run on recorded market data: a module of its package with these functions.
    `given` has the options of the command line by name, with the texts of the program's parameters under `parameters`. Each raises
    ZyntaxError."""

    def opened(self, path: str, given: Mapping[str, Any], sources: "Sources", warn: "Warn", doing: Callable[[str], None]) -> Any:
        """The program, compiled, and the nanoseconds that it aims at, None where it has no target."""

    def replayed(self, strategy: Any, given: Mapping[str, Any], doing: Any, tell: Any, interrupts: Any, make: Callable[[Any], Any]) -> Any:
        """How its run into what `make` gives ended: `summary`, `notes` and `failure`. `tell` hears of its progress; it runs within
        `interrupts()`."""

    def measured(self, strategy: Any, given: Mapping[str, Any]) -> Any:
        """Its `fills` and `figures()`, measured."""

    def stage(self, name: str, source: "Source", given: Mapping[str, Any], sources: "Sources", warn: "Warn") -> str | bytes:
        """The program at a stage of its way down."""

    def tested(
        self, source: "Source", given: Mapping[str, Any], sources: "Sources", warn: "Warn"
    ) -> "Sequence[tuple[str, Diagnostic | None]]":
        """Its tests, each with what went wrong."""

    def run_options(self, given: Mapping[str, Any]) -> Any:
        """The options of a run, which are right."""

    def refused(self, message: str, hint: str) -> Exception:
        """What an option is refused with."""


class NewerApi(Exception):
    """A language wants a newer `zyntax.language` than this one."""

    def __init__(self, name: str, wanted: int) -> None:
        super().__init__(f"the language `{name}` wants version {wanted} of `zyntax.language`, and this is version {API}")


class Language:
    """`name`: by which commands and Python know it; `title`: how messages write it. `endings`: of its files, the usual one first.
    `syntax` gives its grammar; `words`: terminals of it in words, for "expected ..."; `comment`: the sign that begins a comment which ends
    with the line. `codes`: the file that explains the codes of its own errors. `replays` gives what runs those of its programs that run on
    recorded market data; None where there are none. `tree_modules`: those with its own classes of nodes and types. `layout`: gives the text
    of a program without syntax errors as `zyntax fmt` writes it, for a language whose grammar has its own layout. `example`: a small
    program, with which `zyntax new` begins. `api`: the version of `zyntax.language` that it was written for."""

    def __init__(
        self,
        name: str,
        endings: Sequence[str],
        *,
        front: Front,
        syntax: "Callable[[], Grammar]",
        title: str = "",
        words: Mapping[str, str] | None = None,
        codes: "Path | None" = None,
        comment: str = "//",
        replays: Callable[[], Replays] | None = None,
        tree_modules: Sequence[str] = (),
        layout: Callable[[str], str] | None = None,
        example: str = "",
        api: int = API,
    ) -> None:
        _require_names(name, endings)
        self.name, self.endings, self.title = name, tuple(endings), title or name
        self.front, self.syntax = front, syntax
        self.words, self.codes = dict(words or {}), codes
        self.comment, self.api = comment, api
        self.of_replays, self.tree_modules = replays, tuple(tree_modules)
        self.layout, self.example = layout, example

    def __repr__(self) -> str:
        return f"<Language {self.name}: {', '.join(self.endings)}>"

    @property
    def replays(self) -> bool:
        """Whether some of its programs run on recorded market data."""
        return self.of_replays is not None

    @property
    def grammar(self) -> "Grammar":
        return self.syntax()

    def parse(self, source: "Source") -> "Program":
        """The tree of a text. Raises ZyntaxError with all its syntax errors."""
        return self.front.parse(source)

    def tree_as_json(self, source: "Source") -> str:
        """The tree of a text as JSON. Raises ZyntaxError with all its syntax errors."""
        return self.front.tree_as_json(source)

    def formatted(self, source: "Source") -> str:
        """The text as `zyntax fmt` writes it. Raises ZyntaxError with all its syntax errors."""
        from grammars.format import formatted, tidied

        self.parse(source)
        if self.layout is not None:
            return self.layout(source.text)
        return formatted(source.text, self.grammar) if self.grammar.layout else tidied(source.text)

    def open(self, source: "Source", options: "CompileOptions", sources: "Sources", warn: "Warn") -> "Session":
        """A program as a session, which runs it. Raises ZyntaxError."""
        return self.front.open(source, options, sources, warn)

    @property
    def keeps_runs(self) -> bool:
        """Whether runs of its programs are put into the user's cache."""
        return isinstance(self.front, KeepsRuns)

    def kept_run(self, source: "Source", options: "CompileOptions", sources: "Sources", warn: "Warn") -> "KeptRun | None":
        """The run of a program that the cache has, which needs no session. Raises ZyntaxError."""
        return self.front.kept_run(source, options, sources, warn) if isinstance(self.front, KeepsRuns) else None

    def check(self, source: "Source", options: "CompileOptions", sources: "Sources", show: Show) -> None:
        """Shows the program's warnings. Raises ZyntaxError with all its errors."""
        self.front.check(source, options, sources, show)

    def explained(self, source: "Source", function: str, options: ExplainOptions, sources: "Sources") -> str:
        """What is known of a function before it runs, and the code that it becomes. Raises ZyntaxError."""
        return self.front.explained(source, function, options, sources)

    def is_replayed(self, source: "Source") -> bool:
        """Whether the program doesn't run by itself, but on recorded market data. Raises ZyntaxError with all its syntax errors."""
        return self.replays and self.front.is_replayed(source)

    def compile(self, source: "str | Path", **options: Any) -> Any:
        """The program of a text, or of the file that a `Path` names, as an object of Python's."""
        return self.front.compile(source, options)


def _require_names(name: str, endings: Sequence[str]) -> None:
    """Raises TypeError for names that can't be."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise TypeError(f"a language's name is a word in small letters, not {name!r}")
    if isinstance(endings, str) or not endings or any(not re.fullmatch(r"\.[A-Za-z0-9_]+", ending) for ending in endings):
        raise TypeError(f"endings={endings!r}: a tuple of endings with their dots, as (\".{name[:3]}\",)")
