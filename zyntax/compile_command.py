"""`zyntax compile`: a program at any stage on its way down."""

import sys
from pathlib import Path
from typing import Any

import click

from zyntax.options import driver_options, error_format, level, strict
from zyntax.report import reporter

STAGES = ("ast", "typed-ast", "hir", "schedule", "llvm", "asm", "obj")


@click.command("compile")
@click.argument("path", type=click.Path())
@click.option("--emit", "stage", default="hir", show_default=True, metavar="STAGE", help=f"{', '.join(STAGES)}, or hir-after=PASS.")
@click.option("--backend", type=click.Choice(["llvm"]), default="llvm", show_default=True, help="Machine code for this CPU.")
@click.option("-o", "output", type=click.Path(), help="File to write; default: standard output (obj: PATH.o).")
@click.option("--time-passes", is_flag=True, help="Print the time of each pass to standard error.")
@level
@strict
@error_format
def command(path: str, stage: str, backend: str, output: str | None, time_passes: bool, error_format: str, **given: Any) -> None:
    """Compile the program PATH and show or write a stage."""
    here = reporter(error_format)
    if stage not in STAGES and not stage.startswith("hir-after="):
        raise click.UsageError(f"--emit {stage}: stages are {', '.join(STAGES)}, hir-after=PASS")
    from zyntax.languages import open_session

    session = open_session(path, driver_options(**given), here)
    made = session.emit(stage)
    if time_passes:
        total = sum(session.times.seconds.values())
        for name, seconds in sorted(session.times.seconds.items(), key=lambda item: -item[1]):
            print(f"{seconds * 1e3:9.2f} ms  {100 * seconds / total if total else 0:5.1f} %  {name}", file=sys.stderr)
    _write(made, output if output is not None else str(Path(path).with_suffix(".o")) if stage == "obj" else None)


def _write(made: str | bytes, output: str | None) -> None:
    from compiler.diagnostics import Diagnostic, ZyntaxError

    if output is None or output == "-":
        if isinstance(made, bytes):
            sys.stdout.buffer.write(made)
        else:
            sys.stdout.write(made if made.endswith("\n") else made + "\n")
        return
    try:
        if isinstance(made, bytes):
            Path(output).write_bytes(made)
        else:
            Path(output).write_text(made if made.endswith("\n") else made + "\n", encoding="utf-8")
    except OSError as error:
        raise ZyntaxError(Diagnostic("0807", f"`{output}` can't be written: {error.strerror}")) from None
