"""`zyntax explain`."""

import click

from zyntax.options import error_format
from zyntax.report import reporter


@click.command("explain")
@click.argument("code", required=False)
@error_format
def command(code: str | None, error_format: str) -> None:
    """Say what CODE (`ZYN0404` or `404`) means, with a wrong and a right program; without CODE, list all codes."""
    reporter(error_format)
    from compiler.codes import CODES, digits_of
    from compiler.codes.page import explanation, listing
    from compiler.diagnostics import Diagnostic, ZyntaxError
    from compiler.typed_ast.suggest import nearest

    if code is None:
        print(listing(), end="")
        return
    found = CODES.get(digits_of(code))
    if found is None:
        near = nearest(digits_of(code), CODES)
        hint = f"did you mean {', '.join(CODES[one].full for one in near)}?" if near else "`zyntax explain` lists all codes"
        raise ZyntaxError(Diagnostic("0201", f"there is no code `{code}`", hint=hint))
    print(explanation(found), end="")
