"""`zyntax compile`: a program at any stage on its way down, for CPUs or for NVIDIA GPUs."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zyntax.inputs import STDIN, TEXT, names_of, with_texts
from zyntax.options import compile_options, error_format, floats, level, products, strict
from zyntax.progress import showing
from zyntax.report import Reporter, reporter

if TYPE_CHECKING:
    from compiler.backends.nvptx.target import GpuTarget

AFTER = "hir-after="
NATIVE_STAGES = ("native-hir", "native-llvm", "native-asm")
CPU_STAGES = ("ast", "typed-ast", "hir", "fusion", "schedule", "llvm", "asm", "obj", *NATIVE_STAGES)
GPU_STAGES = ("hir", "schedule", "llvm", "ptx", "cubin", "sass")
STRATEGY_STAGES = ("ast", "typed-ast", "hir", "llvm", "asm", "obj")
STAGES = {"llvm": (*CPU_STAGES, f"{AFTER}PASS"), "nvptx": (*GPU_STAGES, f"{AFTER}PASS"), "cuda": (*GPU_STAGES, f"{AFTER}PASS")}
"""What each back end makes."""

ASSEMBLED = ("cubin", "sass")
ALIKE = ("ast", "typed-ast", "fusion", "native-hir")
WHOLE = ("ast", "typed-ast", "fusion", *NATIVE_STAGES)
FILES = {"obj": ".o", "cubin": ".cubin"}
"""Stages that aren't text, and where they go when no file is named."""


@click.command("compile")
@click.argument("path", type=click.Path(), metavar="PROGRAM", required=False)
@with_texts
@click.option(
    "--emit",
    "stage",
    metavar="STAGE",
    help=f"{', '.join(CPU_STAGES)}, {AFTER}PASS; for GPUs {', '.join(GPU_STAGES)}, {AFTER}PASS. Default: hir; with --backend cuda "
    "nothing is shown.",
)
@click.option(
    "--backend",
    type=click.Choice(list(STAGES)),
    default="llvm",
    show_default=True,
    help="Code for a CPU; for NVIDIA GPUs of any architecture; or for the GPU that is here, where the program then runs.",
)
@click.option(
    "--target",
    metavar="NAME",
    help="Another CPU than this one: x86-64-v2, x86-64-v3, x86-64-v4, aarch64. With --backend nvptx the architecture: sm_75 to sm_120, by "
    "default sm_90. Or a target that another package brings.",
)
@click.option(
    "--like",
    multiple=True,
    metavar="CALL",
    help="Show the kernels of one call, as `A=4096x4096:bf16, n=5`: the parameters of a function, with sizes and dtypes, and `@4` behind "
    "them for an array on the device that begins at a multiple of 4 bytes only; `f(A=...)` names the function. May be given often.",
)
@click.option("-o", "output", type=click.Path(), metavar="FILE", help="Where to write. Default: standard output; PROGRAM.o, PROGRAM.cubin.")
@click.option(
    "--verbose", is_flag=True, help="With cubin or sass: print to standard error what each kernel takes: registers, memory, spills."
)
@click.option("--time-passes", is_flag=True, help="Print to standard error how long each pass took.")
@floats
@products
@level
@strict
@error_format
def command(
    path: str | None,
    text: str | None,
    language: str | None,
    stage: str | None,
    backend: str,
    target: str | None,
    like: tuple[str, ...],
    output: str | None,
    verbose: bool,
    time_passes: bool,
    error_format: str,
    **given: Any,
) -> None:
    """Compile PROGRAM and show it at a stage of its way down.

    ast and typed-ast are JSON (before and after checking), hir is the kernels as nests, hir-after=PASS the kernels after a pass, fusion
    which blocks are one kernel and what keeps others apart, schedule what was chosen for each and why; llvm, asm and obj are code for
    this CPU, or for that of --target. native-hir, native-llvm and native-asm are the functions that are native outside of kernels. With
    --backend nvptx all kernels go into one module: hir (what one thread does), schedule (how they are launched), llvm, ptx, cubin (wants
    the extra `compute`), sass (machine code as text; wants the extra `sass`). Kernels whose dtypes are only known at run time are shown
    for f32, and for no sizes in particular. With --like they are those of a call with such arrays, a module each: the very kernels that
    it runs. Strategies of QuantDSL have ast, typed-ast, hir, llvm, asm and obj."""
    reporter_ = reporter(error_format)
    from compiler.diagnostics import before_it_runs

    (path,) = names_of(() if path is None else (path,), text, language)
    if stage is None and backend != "cuda":
        stage = "hir"
    is_installed = target is not None and _is_installed(target)
    if not is_installed:
        _require_combination(stage, backend, target, like, output, verbose)
    if stage == "ast":
        _write(_tree(path, reporter_), output)
        return
    architecture = None if is_installed else _architecture(backend, target)
    from zyntax.languages import is_replayed, open_session

    if is_replayed(path, reporter_):
        _require_of_strategies(stage, backend, target, like, time_passes)
        from zyntax.replay import stage_of

        with before_it_runs():
            code = stage_of(path, reporter_, str(stage), **given)
        _write_stage(code, path, str(stage), output)
        return
    with showing() as doing, before_it_runs():
        session = open_session(path, compile_options(**given, device="cuda:0" if backend == "cuda" else None, doing=doing), reporter_)
        if is_installed or architecture is None:
            content, report = session.emit(stage, target, like) if stage is not None else "", ""
        else:
            content, report = _made(session, stage, architecture, like) if stage is not None else ("", "")
    if verbose:
        print(report, end="", file=sys.stderr)
    if time_passes:
        print(_table(session.kernel_options.times.seconds), end="", file=sys.stderr)
    if stage is not None:
        _write_stage(content, path, stage, output)
    if backend == "cuda":
        with showing() as doing:
            session.run()


def _is_installed(target: str) -> bool:
    """Whether another package brings the target."""
    from runtime.entry_points import TARGETS, entry_points

    return any(entry.name == target for entry in entry_points(TARGETS))


def _write_stage(content: str | bytes, path: str, stage: str, output: str | None) -> None:
    if output is None and stage in FILES and path in (STDIN, TEXT):
        raise click.UsageError(f"`-o FILE` says where the {stage} goes: `{path}` is no file whose name it could take")
    _write(content, output if output is not None else str(Path(path).with_suffix(FILES[stage])) if stage in FILES else None)


def _require_of_strategies(stage: str | None, backend: str, target: str | None, like: tuple[str, ...], time_passes: bool) -> None:
    """Refuses what strategies have no use for. Raises ZyntaxError."""
    if backend != "llvm":
        raise _usage(f"`--backend {backend}` compiles compute blocks, and a strategy is code for this CPU", "leave `--backend` out")
    if target is not None:
        raise _usage(f"a strategy is code for this CPU, not for `{target}`", "leave `--target` out")
    if like:
        raise _usage("`--like` describes calls of functions with compute blocks", "a strategy's code is the same for all data")
    if stage not in STRATEGY_STAGES:
        raise _usage(f"a strategy has no stage `{stage}`", f"its stages are {', '.join(STRATEGY_STAGES)}")
    if time_passes:
        raise _usage("`--time-passes` tells the passes of compute blocks", "`zyntax run` tells in its summary how long compiling took")


def _made(session: Any, stage: str, architecture: "GpuTarget", like: tuple[str, ...]) -> tuple[str | bytes, str]:
    """The program at the stage on its way to a GPU, and what its kernels take where they are assembled."""
    from compiler.emit import gpu_programs, joined
    from compiler.targets.nvidia import stage_of

    programs = gpu_programs(session, architecture, like)
    reports = [program.report() for program in programs] if stage in ASSEMBLED else []
    return joined([stage_of(program, stage) for program in programs], stage), "".join(reports)


def _architecture(backend: str, target: str | None) -> "GpuTarget | None":
    """The GPU to compile for; None: a CPU. Raises ZyntaxError."""
    if backend == "llvm":
        if target is not None:
            from compiler.targets.cpu import machine_named

            machine_named(target)
        return None
    from compiler.backends.nvptx.target import DEFAULT, gpu_target, target_of_device

    if backend == "nvptx":
        return gpu_target(target or DEFAULT)
    from runtime.cuda.gpu import gpu
    from zyntax.gpu_here import require_gpu

    require_gpu("`--backend cuda` compiles for the GPU that is here", "`--backend nvptx --target sm_90` compiles without one")
    return target_of_device(gpu().device.properties.capability)


def _require_combination(
    stage: str | None, backend: str, target: str | None, like: tuple[str, ...], output: str | None, verbose: bool
) -> None:
    """Refuse options that don't go together. Raises ZyntaxError."""
    if target is not None and backend == "cuda":
        message = "`--target` goes with `--backend nvptx` and `--backend llvm`, not with `--backend cuda`"
        raise _usage(message, "it compiles for the GPU that is here")
    if target is not None and stage in ALIKE:
        raise _usage(f"`{stage}` is the same for all targets", "leave `--target` out")
    if like and backend == "cuda":
        hint = "`zyntax run --emit-to FOLDER` writes what a run on the GPU here launches"
        raise _usage("`--like` goes with `--backend llvm` and `--backend nvptx`, not with `--backend cuda`", hint)
    if like and stage in WHOLE:
        raise _usage(f"`--like` describes a call, and `{stage}` is of the whole program", f"it goes with {', '.join(GPU_STAGES)}, asm, obj")
    if stage is None:
        if output is not None or verbose:
            given = "-o" if output is not None else "--verbose"
            raise _usage(f"`{given}` goes with `--emit`", f"stages are {', '.join(GPU_STAGES)}")
    elif stage.startswith(AFTER):
        from compiler.targets import cpu, nvidia

        passes = cpu.PASSES if backend == "llvm" else nvidia.PASSES
        if stage.removeprefix(AFTER) not in passes:
            raise _usage(f"`--emit {stage}`: there is no such pass", f"passes are {', '.join(passes)}")
    elif stage not in STAGES[backend]:
        makers = [name for name, stages in STAGES.items() if stage in stages]
        other = f"; `--backend {makers[0]}` makes `{stage}`" if makers else ""
        raise _usage(f"`--backend {backend}` makes no `{stage}`", f"its stages are {', '.join(STAGES[backend])}{other}")
    if verbose and stage not in ASSEMBLED:
        raise _usage("`--verbose` tells what assembled kernels take", f"it goes with `--emit {'` or `--emit '.join(ASSEMBLED)}`")


def _usage(message: str, hint: str) -> Exception:
    from compiler.diagnostics import Diagnostic, ZyntaxError

    return ZyntaxError(Diagnostic("0505", message, hint=hint))


def _tree(path: str, reporter_: Reporter) -> str:
    """The tree as the parser makes it, before anything is checked."""
    from zyntax.languages import tree_as_json

    return tree_as_json(path, reporter_)


def _table(seconds: dict[str, float]) -> str:
    """The longest first."""
    total = sum(seconds.values())
    rows = sorted(seconds.items(), key=lambda row: -row[1])
    return "".join(f"{taken * 1e3:9.2f} ms  {100 * taken / total if total else 0:5.1f} %  {name}\n" for name, taken in rows)


def _write(content: str | bytes, output: str | None) -> None:
    from compiler.diagnostics import Diagnostic, ZyntaxError

    data = content if isinstance(content, bytes) else (content if content.endswith("\n") else content + "\n").encode("utf-8")
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
