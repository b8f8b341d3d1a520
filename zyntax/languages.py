"""Programs in files, as commands take them: read, and handed to the language of their ending."""

from typing import TYPE_CHECKING

from compiler.languages import language_of as language_of

if TYPE_CHECKING:
    from compiler.driver import CompileOptions, Session
    from compiler.source import Source
    from zyntax.report import Reporter


def read(path: str, reporter: "Reporter") -> "Source":
    """The text of a program's file, whose ending is known. Raises ZyntaxError."""
    language_of(path)
    from compiler.syntax.read import read_source

    return reporter.sources.add(read_source(path))


def open_session(path: str, options: "CompileOptions", reporter: "Reporter") -> "Session":
    """Reads and parses the file with the frontend of its ending. Raises ZyntaxError."""
    language = language_of(path)
    options.doing("reading")
    source = read(path, reporter)
    return language.open(source, options, reporter.sources, lambda diagnostic: reporter.show([diagnostic]))


def is_replayed(path: str, reporter: "Reporter") -> bool:
    """Whether the program doesn't run by itself, but on recorded market data. Raises ZyntaxError."""
    language = language_of(path)
    return language.replays and language.is_replayed(read(path, reporter))


def check(path: str, options: "CompileOptions", reporter: "Reporter") -> None:
    """Shows the file's warnings. Raises ZyntaxError with all its errors."""
    language = language_of(path)
    options.doing("reading")
    language.check(read(path, reporter), options, reporter.sources, reporter.show)


def tree_as_json(path: str, reporter: "Reporter") -> str:
    """The file's tree, which needs the parser and nothing else. Raises ZyntaxError with all syntax errors."""
    return language_of(path).tree_as_json(read(path, reporter))
