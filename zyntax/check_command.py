"""`zyntax check`."""

import click

from zyntax.options import driver_options, error_format, strict
from zyntax.report import exit_code, reporter


@click.command("check")
@click.argument("paths", type=click.Path(), nargs=-1, required=True)
@strict
@error_format
def command(paths: tuple[str, ...], strict: bool, error_format: str) -> int:
    """Report all errors of the programs PATHS without running them."""
    here = reporter(error_format)
    from compiler.diagnostics import ZyntaxError
    from zyntax.languages import open_session

    worst = 0
    for path in paths:
        try:
            session = open_session(path, driver_options(strict=strict), here)
            session.check()
        except ZyntaxError as error:
            here.show(error.diagnostics)
            worst = max(worst, exit_code(error.diagnostics))
    return worst
