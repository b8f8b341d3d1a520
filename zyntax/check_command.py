"""`zyntax check`."""

from typing import Any

import click

from zyntax.inputs import names_of, with_texts
from zyntax.options import compile_options, error_format, floats, products, strict
from zyntax.progress import showing
from zyntax.report import exit_code, reporter


@click.command("check")
@click.argument("paths", type=click.Path(), nargs=-1, metavar="PROGRAM...")
@with_texts
@floats
@products
@strict
@error_format
def command(paths: tuple[str, ...], text: str | None, language: str | None, error_format: str, **given: Any) -> int:
    """Report all errors and warnings of every PROGRAM (standard input where it is `-`), without running it.

    Prints nothing and exits with 0 when there are none; exits with 2 when one doesn't compile."""
    reporter_ = reporter(error_format)
    from compiler.diagnostics import ZyntaxError
    from zyntax.languages import check

    paths = names_of(paths, text, language)
    worst = 0
    with showing() as doing:
        for path in paths:
            try:
                check(path, compile_options(**given, doing=doing), reporter_)
            except ZyntaxError as error:
                reporter_.show(error.diagnostics)
                worst = max(worst, exit_code(error.diagnostics))
    return worst
