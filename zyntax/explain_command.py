"""`zyntax explain`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zyntax.options import error_format, level, settings_of
from zyntax.progress import showing
from zyntax.report import reporter

if TYPE_CHECKING:
    from compiler.codes.entry import Code


@click.command("explain")
@click.argument("what", required=False, metavar="[CODE | NAME | PROGRAM | PROGRAM:FUNCTION]")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Value of a `param`; may be given often.")
@click.option("--strategy", metavar="NAME", help="Which strategy, in a program with several.")
@level
@error_format
def command(what: str | None, settings: tuple[str, ...], strategy: str | None, level: str | None, error_format: str) -> None:
    """Say what CODE (`ZYN0404` or `404`) means, with a wrong and a right program; without it, list all codes. Languages that others wrote
    have codes of their own, as `IMG0201`.

    Of NAME, as in `softmax`, tell how a function of ZynML's library is called, and show its text where that is in ZynML.

    Of PROGRAM in ZynML, tell which of its functions are native, and why the others aren't; then how the kernels of its compute blocks
    are laid out on the CPU.

    Of PROGRAM:FUNCTION, as in `cross.qdsl:trade`, tell what is known before it runs: whom it calls, the worst case in instructions and
    cycles by line, the checks that stay and those that were proved away, the bounds of its loops, its vectors, its IR and its assembly."""
    reporter_ = reporter(error_format)
    from compiler.language import ExplainOptions
    from compiler.languages import language_of
    from zyntax.languages import read

    path, function = _program_and_function(what or "")
    if function:
        with showing() as doing:
            doing("compiling")
            options = ExplainOptions(settings_of({"settings": settings}), strategy, level)
            explained_function = language_of(path).explained(read(path, reporter_), function, options, reporter_.sources)
        print(explained_function, end="")
        return
    if what is not None and _is_program(what) and not language_of(what).replays:
        from compiler.emit import emit
        from compiler.options import CompileOptions
        from zyntax.languages import open_session

        session = open_session(what, CompileOptions(), reporter_)
        print(session.native_explained(), end="")
        if session.has_blocks:
            print("\nschedules on the CPU (`zyntax compile --emit schedule --backend nvptx` shows those of a GPU)")
            print(emit(session, "schedule"))
        return
    from compiler.codes import CODES, digits_of
    from compiler.codes.page import explanation, listing
    from compiler.diagnostics import Diagnostic, ZyntaxError
    from compiler.typed_ast.suggest import nearest

    if what is None:
        print(listing(), end="")
        return
    code = CODES.get(digits_of(what)) or _code_of_author(what)
    if code is None and what.isidentifier() and not what.upper().startswith("ZYN0"):
        from zynml.stdlib.explained import explained, names

        text = explained(what)
        if text is None:
            close = nearest(what, names())
            hint = f"did you mean {', '.join(close)}?" if close else "docs/library.md lists the library's functions"
            raise ZyntaxError(Diagnostic("0201", f"there is no code `{what}`, and no function of the library", hint=hint))
        print(text, end="")
        return
    if code is None:
        near = nearest(digits_of(what), CODES)
        hint = f"did you mean {', '.join(CODES[close].full for close in near)}?" if near else "`zyntax explain` lists all codes"
        raise ZyntaxError(Diagnostic("0201", f"there is no code `{what}`", hint=hint))
    print(explanation(code), end="")


def _code_of_author(what: str) -> "Code | None":
    """A code of another language: `IMG0201`."""
    from compiler.authoring.codes import FORM, code_named

    return code_named(what.upper()) if FORM.fullmatch(what.upper()) else None


def _program_and_function(what: str) -> tuple[str, str]:
    """Of `rows.zynml:Point::norm`; no function where it isn't written so."""
    cuts = (match.start() for match in re.finditer(":", what))
    cut = next((cut for cut in cuts if _is_program(what[:cut])), None)
    return ("", "") if cut is None else (what[:cut], what[cut + 1 :])


def _is_program(text: str) -> bool:
    from compiler.languages import endings

    return Path(text).suffix in endings()
