"""`zyntax language`: the languages that are installed, and packages of new ones."""

import json
from pathlib import Path
from typing import Any

import click

from zyntax.options import error_format
from zyntax.report import reporter


@click.group("language")
def command() -> None:
    """List the languages that are installed, begin one of your own, test it, or show it to an editor."""


@command.command("list")
@error_format
def listing(error_format: str) -> int:
    """List the languages that are installed: the endings of their files, and the packages that bring them.

    Exits with 2 when one of them can't be used."""
    from compiler.diagnostics import Diagnostic, ZyntaxError
    from compiler.languages import endings, language_with
    from runtime.entry_points import LANGUAGES, entry_points

    packages = {f".{entry.name}": entry.distribution for entry in entry_points(LANGUAGES)}
    rows: dict[Any, list[str]] = {}
    broken: list[Diagnostic] = []
    for ending in endings():
        try:
            rows.setdefault(language_with(ending), []).append(ending)
        except ZyntaxError as error:
            broken += error.diagnostics
    lines = [(language.name, " ".join(found), packages[found[0]]) for language, found in rows.items()]
    widths = [max((len(line[column]) for line in lines), default=0) for column in (0, 1)]
    for name, found, package in lines:
        print(f"{name.ljust(widths[0])}  {found.ljust(widths[1])}  {package}")
    reporter(error_format).show(broken)
    return 2 if broken else 0


@command.command("new")
@click.argument("name")
@click.option("--ending", metavar="ENDING", help="Of its files.  [default: tip for tinypipe, else the name's first three letters]")
@click.option("--folder", type=click.Path(file_okay=False), help="Where the package is written.  [default: a folder of that name]")
@error_format
def new(name: str, ending: str | None, folder: str | None, error_format: str) -> None:
    """Write the package of a new language: a grammar, actions, kernels, a program, a test."""
    reporter(error_format)
    from zyntax.language.new import ending_of, write_package

    written = write_package(name, ending, Path(folder or name))
    print(f"{written} is the package of the language `{name}`. To use it:\n")
    print(f"  pip install --editable {written}\n  zyntax run {written / 'programs'}/first.{ending_of(name, ending)}")


@command.command("textmate")
@click.argument("name")
@error_format
def textmate(name: str, error_format: str) -> None:
    """Print a TextMate grammar of the language NAME as JSON, by which editors colour its programs."""
    reporter(error_format)
    from compiler.authoring.lexers import textmate as grammar_of
    from compiler.languages import language_named

    print(json.dumps(grammar_of(language_named(name)), indent=2, ensure_ascii=False))


@command.command("check")
@click.argument("name")
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@error_format
def check(name: str, folder: str, error_format: str) -> int:
    """Test the language NAME: that its grammar has no conflicts, that each rule has an action, that its kernels are right, and that each
    program in FOLDER prints what its first lines state.

    Prints what is wrong, and exits with 1 if anything is."""
    reporter(error_format)
    from compiler.diagnostics import Diagnostic, ZyntaxError
    from compiler.languages import language_named

    language = language_named(name)
    from compiler.authoring.language import AuthoredLanguage
    from zyntax.testing import check_language

    if not isinstance(language, AuthoredLanguage):
        hint = "the tests of this repository check it"
        raise ZyntaxError(Diagnostic("0505", f"`zyntax language check` is for languages by others, and `{name}` is one of ours", hint=hint))
    problems = check_language(language, folder)
    for problem in problems:
        print(f"FAIL  {problem}".replace("\n", "\n      "))
    print(f"{len(problems)} problems" if len(problems) != 1 else "1 problem")
    return 1 if problems else 0
