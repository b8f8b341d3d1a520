"""`zyntax fmt`: programs in the layout of the house."""

import os
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import click

from zyntax.inputs import STDIN, language_option, names_of
from zyntax.options import error_format
from zyntax.report import exit_code, reporter


@click.command("fmt")
@click.argument("paths", type=click.Path(), nargs=-1, required=True, metavar="PROGRAM|FOLDER...")
@click.option("--check", is_flag=True, help="Change nothing: name the programs that would change, and exit with 1 when there are any.")
@click.option("--diff", is_flag=True, help="Change nothing: show what would change.")
@language_option
@error_format
def command(paths: tuple[str, ...], check: bool, diff: bool, language: str | None, error_format: str) -> int:
    """Lay out every PROGRAM, and all programs in every FOLDER: indentation, spaces, empty lines, and comments at the ends of lines. Where
    lines break stays as it is written, and so does what a program means. `-` is standard input, and is written to standard output.

    A program with a syntax error is left as it is, with its errors. Exits with 2 when there is one, with 1 when `--check` finds something
    to change."""
    reporter_ = reporter(error_format)
    from compiler.diagnostics import ZyntaxError
    from zyntax.languages import language_of, no_programs, programs_in, read

    programs = programs_in(paths)
    if not programs:
        reporter_.show([no_programs(paths)])
        return 2
    worst = changes = 0
    for path in names_of(programs, None, language):
        try:
            source = read(path, reporter_)
            laid_out = language_of(path).formatted(source)
            changed = laid_out != source.text
            changes += changed
            if diff and changed:
                sys.stdout.writelines(_difference(path, source.text, laid_out))
            elif check and changed:
                print(path)
            elif path == STDIN and not diff and not check:
                sys.stdout.write(laid_out)
            elif changed and not diff and not check:
                _replace(Path(path), laid_out)
        except ZyntaxError as error:
            reporter_.show(error.diagnostics)
            worst = max(worst, exit_code(error.diagnostics))
    return worst or (1 if check and changes else 0)


def _difference(path: str, before: str, after: str) -> list[str]:
    import difflib

    lines = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), path, path)
    return [line if line.endswith("\n") else f"{line}\n\\ no newline at the end\n" for line in lines]


def _replace(path: Path, text: str) -> None:
    """Write the file at once or not at all. Raises ZyntaxError."""
    from compiler.diagnostics import Diagnostic, ZyntaxError

    target = path.resolve()
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(".part", f"{target.name}.", target.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        Path(temporary).chmod(stat.S_IMODE(target.stat().st_mode))
        Path(temporary).replace(target)
    except OSError as error:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()
        reason = (error.strerror or str(error)).lower()
        raise ZyntaxError(Diagnostic("0807", f"`{path}` can't be written: {reason}")) from None
