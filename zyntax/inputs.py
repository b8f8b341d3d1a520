"""Programs that are in no file: standard input (`-`), and texts of the command line (`-e`)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from compiler.language import Language
    from compiler.source import Source

STDIN = "<stdin>"
TEXT = "<command line>"

text_option = click.option("-e", "text", metavar="TEXT", help="The program itself, in place of a file.")
language_option = click.option("--language", metavar="NAME", help="Of a program from standard input or of `-e`.  [default: zynml]")

_given: dict[str, "tuple[Source, Language]"] = {}
"""What this process was given, by the name that messages have for it."""


def with_texts(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of commands that take programs from no file."""
    return text_option(language_option(command))


def names_of(paths: tuple[str, ...], text: str | None, language: str | None) -> tuple[str, ...]:
    """The programs that a command was given, `<stdin>` and `<command line>` among them. Raises UsageError and ZyntaxError."""
    if text is not None and paths:
        raise click.UsageError("`-e` is the program: it stands for no file beside it")
    if text is None and not paths:
        raise click.UsageError("Missing argument 'PROGRAM'.")
    if language is not None and text is None and "-" not in paths:
        raise click.UsageError("`--language` goes with `-` and with `-e`: the name of a file says its language")
    if text is not None:
        return (_keep(TEXT, text.encode("utf-8", "surrogateescape"), language),)
    if "-" in paths:
        _keep(STDIN, _standard_input(), language)
    return tuple(STDIN if path == "-" else path for path in paths)


def given(name: str) -> "tuple[Source, Language] | None":
    """The text behind the name of a program that is in no file."""
    return _given.get(name)


def _standard_input() -> bytes:
    import sys

    return sys.stdin.buffer.read()


def _keep(name: str, data: bytes, language: str | None) -> str:
    from compiler.languages import endings, language_named, language_with
    from compiler.syntax.read import source_of

    _given[name] = (source_of(name, data), language_named(language) if language is not None else language_with(endings()[0]))
    return name
