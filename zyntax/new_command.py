"""`zyntax new`: the beginning of a project."""

import re
from pathlib import Path

import click

from zyntax.options import error_format
from zyntax.report import reporter

_PAGE = """# {name}

A program in {title}.

```console
$ zyntax run {program}      # run it
$ zyntax test {program}     # run its tests
$ zyntax check {program}    # report its errors without running it
$ zyntax fmt {program}      # lay it out
```
"""


@click.command("new")
@click.argument("name")
@click.option("--language", metavar="NAME", help="Of the program.  [default: zynml]")
@error_format
def command(name: str, language: str | None, error_format: str) -> None:
    """Write a folder NAME with a small program that has a test, and a page about it. Overwrites nothing.

    A language of your own begins with `zyntax language new`."""
    reporter(error_format)
    from compiler.diagnostics import Diagnostic, ZyntaxError
    from compiler.languages import endings, language_named, language_with

    chosen = language_named(language) if language is not None else language_with(endings()[0])
    folder = Path(name)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", folder.name):
        message = f"`{folder.name}` is no name of a project: it has letters, digits, `_` and `-`, and begins with a letter"
        raise ZyntaxError(Diagnostic("0505", message, hint="zyntax new first_steps"))
    if not chosen.example:
        message = f"the language `{chosen.name}` brings no program to begin with"
        raise ZyntaxError(Diagnostic("0505", message, hint=f"write a file with the ending `{chosen.endings[0]}`"))
    program = folder.name.replace("-", "_") + chosen.endings[0]
    try:
        folder.mkdir(parents=True)
        (folder / program).write_text(chosen.example, encoding="utf-8")
        (folder / "README.md").write_text(_PAGE.format(name=folder.name, title=chosen.title, program=program), encoding="utf-8")
    except FileExistsError:
        raise ZyntaxError(Diagnostic("0807", f"`{name}` exists already, and is left as it is", hint="choose another name")) from None
    except OSError as error:
        raise ZyntaxError(Diagnostic("0807", f"`{name}` can't be written: {(error.strerror or str(error)).lower()}")) from None
    print(f"{folder / program}\n{folder / 'README.md'}\n\nzyntax run {folder / program}")
