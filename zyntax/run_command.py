"""`zyntax run`."""

from typing import Any

import click

from zyntax.options import driver_options, execution
from zyntax.progress import showing
from zyntax.report import reporter


@click.command("run")
@click.argument("path", type=click.Path(), metavar="PROGRAM")
@execution
def command(path: str, error_format: str, **given: Any) -> None:
    """Run PROGRAM: its top-level statements, then `main` if it has one.

    Exits with 0, with 1 when the program failed while it ran, with 2 when it doesn't compile, with 130 when it was interrupted."""
    here = reporter(error_format)
    from zyntax.languages import open_session

    with showing() as doing:
        open_session(path, driver_options(**given, doing=doing), here).run()
