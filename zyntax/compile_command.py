"""`zyntax compile`: a program at any stage on its way down."""

import sys
from pathlib import Path
from typing import Any

import click

from zyntax.options import driver_options, error_format, level, strict
from zyntax.progress import showing
from zyntax.report import Reporter, reporter

STAGES = ("ast", "typed-ast", "hir", "schedule", "llvm", "asm", "obj")
GPU_STAGES = ("hir", "llvm", "ptx", "cubin")
AFTER = "hir-after="


@click.command("compile")
@click.argument("path", type=click.Path(), metavar="PROGRAM")
@click.option("--emit", "stage", default="hir", show_default=True, metavar="STAGE", help=f"{', '.join(STAGES)}, or {AFTER}PASS.")
@click.option(
    "--backend", type=click.Choice(["llvm", "nvptx"]), default="llvm", show_default=True, help="Code for this CPU, or for NVIDIA GPUs."
)
@click.option("--target", metavar="SM", help="Architecture for --backend nvptx: sm_75 to sm_120. Default: sm_90.")
@click.option("-o", "output", type=click.Path(), metavar="FILE", help="Where to write. Default: standard output; PROGRAM.o, PROGRAM.cubin.")
@click.option("--time-passes", is_flag=True, help="Print to standard error how long each pass took.")
@level
@strict
@error_format
def command(
    path: str, stage: str, backend: str, target: str | None, output: str | None, time_passes: bool, error_format: str, **given: Any
) -> None:
    """Compile PROGRAM and show it at a stage of its way down.

    ast and typed-ast are JSON (before and after checking), hir is the kernels as nests, hir-after=PASS the kernels after a pass,
    schedule what was chosen for each and why; llvm, asm and obj are code for this CPU. With --backend nvptx: hir (a thread an
    iteration), llvm, ptx, and cubin (wants the extra `compute`). Kernels whose dtypes are only known at run time are shown for f32."""
    here = reporter(error_format)
    if backend == "nvptx":
        _require_gpu_stage(stage)
        target = target or "sm_90"
    elif target is not None:
        raise click.UsageError("--target goes with --backend nvptx")
    else:
        _require_stage(stage)
    if stage == "ast":
        _write(_tree(path, here), output)
        return
    from zyntax.languages import open_session

    with showing() as doing:
        session = open_session(path, driver_options(**given, doing=doing), here)
        made = session.emit(stage, target)
    if time_passes:
        print(_table(session.times.seconds), end="", file=sys.stderr)
    files = {"obj": ".o", "cubin": ".cubin"}
    _write(made, output if output is not None else str(Path(path).with_suffix(files[stage])) if stage in files else None)


def _require_stage(stage: str) -> None:
    if stage in STAGES:
        return
    if not stage.startswith(AFTER):
        raise click.UsageError(f"--emit {stage}: there is no such stage; stages are {', '.join(STAGES)}, {AFTER}PASS")
    from compiler.pipelines import PASSES

    if stage.removeprefix(AFTER) not in PASSES:
        raise click.UsageError(f"--emit {stage}: there is no such pass; passes are {', '.join(PASSES)}")


def _require_gpu_stage(stage: str) -> None:
    if stage not in GPU_STAGES:
        raise click.UsageError(f"--emit {stage}: with --backend nvptx the stages are {', '.join(GPU_STAGES)}")


def _tree(path: str, here: Reporter) -> str:
    """The tree as the parser makes it, before anything is checked."""
    from compiler.typed_ast.json import to_json
    from zyntax.languages import read_program

    return to_json(read_program(path, here), indent=1)


def _table(seconds: dict[str, float]) -> str:
    """The longest first."""
    total = sum(seconds.values())
    rows = sorted(seconds.items(), key=lambda row: -row[1])
    return "".join(f"{taken * 1e3:9.2f} ms  {100 * taken / total if total else 0:5.1f} %  {name}\n" for name, taken in rows)


def _write(made: str | bytes, output: str | None) -> None:
    from compiler.diagnostics import Diagnostic, ZyntaxError

    data = made if isinstance(made, bytes) else (made if made.endswith("\n") else made + "\n").encode("utf-8")
    if output is None or output == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    try:
        Path(output).write_bytes(data)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ZyntaxError(Diagnostic("0807", f"`{output}` can't be written: {reason}")) from None
