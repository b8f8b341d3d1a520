"""Programs in files, as commands take them: read, and handed to the language of their ending."""

from typing import TYPE_CHECKING

from zyntax.inputs import given

if TYPE_CHECKING:
    from compiler.diagnostics import Diagnostic
    from compiler.driver import Session
    from compiler.fusion.kept_runs import KeptRun
    from compiler.language import Language
    from compiler.options import CompileOptions
    from compiler.source import Source
    from zyntax.report import Reporter


def language_of(path: str) -> "Language":
    """The language of a program. Raises ZyntaxError."""
    text = given(path)
    if text is not None:
        return text[1]
    from compiler.languages import language_of as of_file

    return of_file(path)


def read(path: str, reporter: "Reporter") -> "Source":
    """The text of a program, whose language is known. Raises ZyntaxError."""
    text = given(path)
    if text is not None:
        return reporter.sources.add(text[0])
    language_of(path)
    from compiler.syntax.read import read_source

    return reporter.sources.add(read_source(path))


def open_session(path: str, options: "CompileOptions", reporter: "Reporter") -> "Session":
    """Reads and parses the file with the frontend of its ending. Raises ZyntaxError."""
    language = language_of(path)
    options.doing("reading")
    source = read(path, reporter)
    return language.open(source, options, reporter.sources, lambda diagnostic: reporter.show([diagnostic]))


def kept_run(path: str, options: "CompileOptions", reporter: "Reporter") -> "KeptRun | None":
    """The run of the file that the user's cache has, which needs no session. Raises ZyntaxError."""
    language = language_of(path)
    if not language.keeps_runs:
        return None
    options.doing("reading")
    return language.kept_run(read(path, reporter), options, reporter.sources, lambda diagnostic: reporter.show([diagnostic]))


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


def programs_in(paths: tuple[str, ...]) -> tuple[str, ...]:
    """The paths, with all programs of a folder in its place."""
    from pathlib import Path

    from compiler.languages import endings

    programs: list[str] = []
    for path in paths:
        folder = Path(path)
        programs += sorted(str(p) for p in folder.rglob("*") if p.suffix in endings()) if folder.is_dir() else [path]
    return tuple(programs)


def no_programs(folders: tuple[str, ...]) -> "Diagnostic":
    """What is said of folders without any program."""
    from compiler.diagnostics import Diagnostic
    from compiler.languages import endings

    named = ", ".join(f"`{folder}`" for folder in folders)
    known = ", ".join(f"`{ending}`" for ending in endings())
    return Diagnostic("0108", f"{named}: no program is in there", hint=f"endings of programs: {known}")
