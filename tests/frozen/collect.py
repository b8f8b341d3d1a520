"""Writes every stage of the fixed list to a folder, a file each: `python -m tests.frozen.collect FOLDER [--quick]`.

The tree that is imported is the one that is looked at: `tests.frozen` runs this file in two trees and compares the folders. So it uses the
compiler through few names, and a name that moves is looked up under both."""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CPUS = {"x86-64-v3": (256, "+avx2,+avx,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe,+sse4.2"), "x86-64-v4": (512, "+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,+avx2,+avx,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe,+sse4.2")}  # fmt: skip
"""CPUs whose code is compared: their features, whatever machine this is."""

GPUS = ("sm_75", "sm_80", "sm_90a", "sm_100a")

Stage = tuple[str, Callable[[], str | bytes]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.frozen.collect", description="Write every stage of the fixed list.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="HIR and messages alone")
    parser.add_argument("--only", default="", help="programs with this word in their name")
    parser.add_argument("--cpu", choices=CPUS, default="x86-64-v3")
    options = parser.parse_args()
    pretend(options.cpu)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, make in stages(options.quick, options.cpu, options.only):
        try:
            content = make()
        except Exception as error:
            content = f"{type(error).__name__}: {error}"
        (options.folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        if not options.quick:
            print(name, file=sys.stderr)


def pretend(cpu: str) -> None:
    """Code is made for this CPU from now on, with two cores."""
    from runtime.cpu import detect

    detect.host_cpu = lambda: cpu  # type: ignore[assignment]
    detect.host_features = lambda: CPUS[cpu][1]  # type: ignore[assignment]
    detect.cores = lambda: 2  # type: ignore[assignment]


def stages(quick: bool, cpu: str, only: str = "") -> Iterator[Stage]:
    """Names of files, and what goes into each."""
    from tests.frozen.programs import CPU_KERNELS, GALLERY, STRATEGIES, sized_programs

    for path in [*GALLERY, CPU_KERNELS]:
        if only in path.stem:
            yield from _of_program(path, quick, cpu)
    for path in STRATEGIES:
        if only in path.stem and not quick:
            yield from _of_strategy(path, cpu)
    if cpu != "x86-64-v3":
        return
    for program in sized_programs():
        if only not in program.name:
            continue
        for target in ("sm_90a",) if quick else GPUS:
            yield from _of_launches(program, target, quick)


def _of_program(path: Path, quick: bool, cpu: str) -> Iterator[Stage]:
    from compiler.driver import CompileOptions
    from compiler.source import Sources
    from tests.frozen.programs import ROOT
    from zynml.api import open_program

    messages: list[str] = []
    session = open_program(str(path.relative_to(ROOT)), CompileOptions(device="cpu"), Sources(), lambda d: messages.append(f"{d.code} {d.message}"))
    name = path.stem
    yield f"{name}.{cpu}.schedule", lambda: session.emit("schedule")
    for stage in ("hir", "hir-after=lift", "hir-after=place"):
        yield f"{name}.{cpu}.{stage.replace('=', '-')}", lambda stage=stage: session.emit(stage)  # type: ignore[misc]
    yield f"{name}.messages", lambda: "\n".join([*messages, ""])
    if quick:
        return
    yield f"{name}.{cpu}.llvm", lambda: session.emit("llvm")
    yield f"{name}.{cpu}.asm", lambda: session.emit("asm")
    for target in GPUS if cpu == "x86-64-v3" else ():
        for stage in ("hir", "schedule", "ptx"):
            yield f"{name}.{target}.{stage}", lambda stage=stage, target=target: session.emit(stage, target)  # type: ignore[misc]


def _of_strategy(path: Path, cpu: str) -> Iterator[Stage]:
    from click.testing import CliRunner

    from tests.frozen.programs import ROOT
    from zyntax.main import main as command

    for stage in ("hir", "llvm"):

        def made(stage: str = stage) -> str:
            return CliRunner().invoke(command, ["compile", str(path.relative_to(ROOT)), "--emit", stage]).output

        yield f"{path.stem}.{cpu}.{stage}", made


def _of_launches(program: Any, target: str, quick: bool) -> Iterator[Stage]:
    """The launches of a call with these sizes, as HIR and PTX."""

    def launched() -> Any:
        from compiler.driver import CompileOptions
        from compiler.source import Source, Sources
        from zynml.api import open_source

        sources = Sources()
        session = open_source(Source("frozen.zynml", program.text), CompileOptions(device="cpu"), sources, lambda d: None)
        return sized_module(session, program.extents, target), sources

    modules: list[Any] = []

    def hir() -> str:
        from compiler.hir.text import print_module

        modules.append(launched())
        return print_module(modules[0][0])

    def ptx() -> str:
        from compiler.backends.nvptx.compile import compile_kernels
        from compiler.backends.nvptx.target import gpu_target

        module, sources = modules[0]
        return compile_kernels(module, gpu_target(target), sources, 3).text

    yield f"{program.name}.{target}.launches", hir
    if not quick:
        yield f"{program.name}.{target}.launches.ptx", ptx


def sized_module(session: Any, extents: dict[str, tuple[int, ...]], target: str) -> Any:
    """The launches of a program's blocks for tensors of these extents that begin at multiples of 16 bytes, as one module. Values that
    blocks hand on to each other have the extents of `x`."""
    from compiler.fusion.shown import Shown
    from compiler.hir.module import HirModule
    from compiler.hir.types import Mem
    from compiler.launch.thread_kernels import launch_facts, thread_kernel
    from compiler.lowering.kernel import ScalarArgument, SizeArgument, StrideArgument, TensorArgument

    module = HirModule("frozen")
    for compute, built in Shown.of(session).kernels():
        arguments = built.lowered.plan.arguments
        names = [argument.name for argument in arguments if isinstance(argument, TensorArgument)]
        scalars = {argument.name: 1 for argument in arguments if isinstance(argument, ScalarArgument)}
        sizes = built.sizes({name: extents.get(name, extents.get("x", ())) for name in names}, scalars)
        known = {}
        for number, (parameter, argument) in enumerate(zip(built.nest.parameters, arguments, strict=False)):
            if isinstance(argument, SizeArgument):
                known[parameter.name] = sizes.size_arguments[number]
            elif isinstance(argument, StrideArgument | ScalarArgument):
                known[parameter.name] = 1
        memories = [parameter.name for parameter in built.nest.parameters if isinstance(parameter.type, Mem)]
        for function in thread_kernel(built, compute, launch_facts(built, known, memories, _machine(target))).functions:
            module.add(function)
    return module


def _machine(target: str) -> Any:
    """As the tree that is looked at names it."""
    try:
        from compiler.machines.nvidia import MACHINES
    except ImportError:
        return target
    return MACHINES[target]


if __name__ == "__main__":
    main()
