"""`zyntax run`."""

from typing import Any

import click

from zyntax.options import driver_options, execution
from zyntax.report import reporter


@click.command("run")
@click.argument("path", type=click.Path())
@execution
def command(path: str, error_format: str, **given: Any) -> None:
    """Run the program PATH."""
    here = reporter(error_format)
    from zyntax.languages import open_session

    session = open_session(path, driver_options(**given), here)
    session.run()
