"""A program at each stage of its way down, as text or bytes: what `compile --emit` shows."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.fusion.program_kernels import module_name, place_of

if TYPE_CHECKING:
    from compiler.backends.nvptx.target import GpuTarget
    from compiler.driver import Session
    from compiler.hir.module import HirFunction, HirModule
    from compiler.launch.kernels import BuiltKernel
    from compiler.targets.nvidia import GpuProgram
    from compiler.typed_ast import nodes


def emit(session: "Session", stage: str, target: str | None = None) -> str | bytes:
    """The stage `ast`, `typed-ast`, `hir`, `hir-after=PASS`, `fusion`, `schedule`, `llvm`, `asm` or `obj`; for a GPU `target` (`sm_90`)
    one of `nvidia.STAGES`."""
    if target is not None:
        from compiler.backends.nvptx.target import gpu_target

        return gpu_program(session, gpu_target(target)).stage(stage)
    match stage:
        case "ast":
            from compiler.typed_ast.json import to_json

            return to_json(session.program, indent=1)
        case "typed-ast":
            from compiler.typed_ast.json import to_json

            return to_json(session.check(), indent=1)
        case "hir":
            return _module_text(session, lambda kernel: kernel.lowered.function)
        case "fusion":
            from compiler.fusion.shown import Shown

            return "\n".join(Shown.of(session).words())
        case "schedule":
            return _schedules(session)
        case "llvm":
            return "\n".join(kernel.native.llvm for _, kernel in _kernels(session))
        case "asm":
            return "\n".join(kernel.native.asm for _, kernel in _kernels(session))
        case "obj":
            return _object(session)
        case _:
            return _module_text(session, _after(stage.removeprefix("hir-after=")))


def gpu_program(session: "Session", target: "GpuTarget") -> "GpuProgram":
    """The program's kernels for a GPU, to be shown at any stage. Raises ZyntaxError for programs with faults."""
    from compiler.targets.nvidia import GpuProgram, ShownKernel

    shown = [ShownKernel(compute, built, place_of(session, compute)) for compute, built in _kernels(session)]
    return GpuProgram(module_name(session), shown, target, session.sources, session.options, session.times)


def _kernels(session: "Session") -> "Iterator[tuple[nodes.Compute, BuiltKernel]]":
    """The program's kernels as they run."""
    from compiler.fusion.shown import Shown

    return Shown.of(session).kernels()


def _module_text(session: "Session", stage: "Callable[[BuiltKernel], HirFunction]") -> str:
    from compiler.hir.module import HirModule
    from compiler.hir.text import print_module

    module = HirModule(module_name(session))
    for _, kernel in _kernels(session):
        module.add(stage(kernel))
    return print_module(module)


def module_of(session: "Session") -> "HirModule":
    """The kernels of a program in nest form, as one module."""
    from compiler.hir.module import HirModule

    module = HirModule(module_name(session))
    for _, kernel in _kernels(session):
        module.add(kernel.lowered.function)
    return module


def _after(name: str) -> "Callable[[BuiltKernel], HirFunction]":
    from compiler.passes.pipelines import NEST, PASSES, run_passes

    if name not in PASSES:
        raise ZyntaxError(Diagnostic("0401", f"there is no pass `{name}`", hint=f"passes: {', '.join(PASSES)}"))

    def stage(kernel: "BuiltKernel") -> "HirFunction":
        if name == "lower":
            return kernel.lowered.function
        if name == "lift":
            return kernel.field or kernel.nest
        if name == "place":
            return kernel.scheduled.function
        for done, function in run_passes(kernel.lowered.function, NEST):
            if done == name:
                return function
        raise AssertionError(name)

    return stage


def _schedules(session: "Session") -> str:
    lines = []
    for compute, kernel in _kernels(session):
        lines.append(f"{place_of(session, compute)}: @{kernel.scheduled.function.name}")
        lines += [f"  {word}" for word in kernel.scheduled.words]
    return "\n".join(lines)


def _object(session: "Session") -> bytes:
    from runtime.cpu.load import link

    return link([kernel.native.llvm for _, kernel in _kernels(session)])
