"""`zyntax export`."""

from pathlib import Path

import click

from zyntax.options import error_format, strict
from zyntax.progress import showing
from zyntax.report import reporter


@click.command("export")
@click.argument("path", type=click.Path(), metavar="PROGRAM")
@click.option("--function", "-f", "functions", multiple=True, required=True, metavar="NAME", help="What to export; may be given often.")
@click.option(
    "-o", "output", type=click.Path(), metavar="FILE", help="The library, or with the ending .o an object. Default: libPROGRAM.so."
)
@click.option("--target", metavar="NAME", help="Another CPU than this one: x86-64-v2, x86-64-v3, x86-64-v4, aarch64.")
@click.option("--static", is_flag=True, help="Code that needs no library but C's: loops of compute blocks run in the calling thread.")
@click.option("--header", type=click.Path(), metavar="FILE", help="Where to write the header. Default: beside the library, as .h.")
@strict
@error_format
def command(
    path: str,
    functions: tuple[str, ...],
    output: str | None,
    target: str | None,
    static: bool,
    header: str | None,
    strict: bool,
    error_format: str,
) -> None:
    """Make a shared library of functions of PROGRAM in ZynML, for this CPU or that of --target, and a header for C.

    Parameters and results are numbers, bool, structs, arrays of known size and tensors. A function returns 0, or the number of an error's
    code, and NAME_error() tells the message. Functions that are one compute block can be exported, and native functions: `zyntax explain
    PROGRAM` lists what isn't native."""
    reporter_ = reporter(error_format)
    from compiler.backends.host.export import write_exported
    from compiler.diagnostics import Diagnostic, ZyntaxError
    from zyntax.languages import is_replayed, open_session
    from zyntax.options import compile_options

    if is_replayed(path, reporter_):
        message = f"`{path}` can't be exported: a strategy runs in a replay"
        raise ZyntaxError(Diagnostic("0109", message, hint=f"`zyntax compile {path} --emit obj` makes its object"))
    with showing() as doing:
        made = open_session(path, compile_options(strict=strict, doing=doing), reporter_).exported(functions, target, not static)
    library = Path(output) if output is not None else Path(f"lib{Path(path).stem}.so")
    write_exported(made, library, Path(header) if header is not None else library.with_suffix(".h"))
