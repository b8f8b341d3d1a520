"""A program at each stage of its way down, as text or bytes: what `compile --emit` shows."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.fusion.program_kernels import ProgramFile, module_name, position_of
from compiler.options import DriverOptions

if TYPE_CHECKING:
    from compiler.backends.nvptx.target import GpuTarget
    from compiler.hir.module import HirFunction, HirModule
    from compiler.launch.kernels import BuiltKernel
    from compiler.targets.nvidia import GpuProgram
    from compiler.typed_ast import nodes


class EmittedProgram(ProgramFile, Protocol):
    @property
    def program(self) -> "nodes.Program":
        """The tree as parsed."""

    @property
    def options(self) -> DriverOptions: ...


def emit(program: EmittedProgram, stage: str, target: str | None = None) -> str | bytes:
    """The stage `ast`, `typed-ast`, `hir`, `hir-after=PASS`, `fusion`, `schedule`, `llvm`, `asm` or `obj`; for a GPU `target` (`sm_90`)
    one of `nvidia.STAGES`."""
    if target is not None:
        from compiler.backends.nvptx.target import gpu_target

        return gpu_program(program, gpu_target(target)).stage(stage)
    match stage:
        case "ast":
            from compiler.typed_ast.json import to_json

            return to_json(program.program, indent=1)
        case "typed-ast":
            from compiler.typed_ast.json import to_json

            return to_json(program.check(), indent=1)
        case "hir":
            return _module_text(program, lambda kernel: kernel.lowered.function)
        case "fusion":
            from compiler.fusion.shown import Shown

            return "\n".join(Shown.of(program).words())
        case "schedule":
            return _schedules(program)
        case "llvm":
            return "\n".join(kernel.native.llvm for _, kernel in _kernels(program))
        case "asm":
            return "\n".join(kernel.native.asm for _, kernel in _kernels(program))
        case "obj":
            return _object(program)
        case _:
            return _module_text(program, _after(stage.removeprefix("hir-after=")))


def gpu_program(program: EmittedProgram, target: "GpuTarget") -> "GpuProgram":
    """The program's kernels for a GPU, to be shown at any stage. Raises ZyntaxError for programs with faults."""
    from compiler.targets.nvidia import GpuProgram, ShownKernel

    shown = [ShownKernel(compute, built, position_of(program, compute)) for compute, built in _kernels(program)]
    return GpuProgram(module_name(program), shown, target, program.sources, program.options, program.blocks.options.times)


def _kernels(program: EmittedProgram) -> "Iterator[tuple[nodes.Compute, BuiltKernel]]":
    """The program's kernels as they run."""
    from compiler.fusion.shown import Shown

    return Shown.of(program).kernels()


def _module_text(program: EmittedProgram, stage: "Callable[[BuiltKernel], HirFunction]") -> str:
    from compiler.hir.module import HirModule
    from compiler.hir.text import print_module

    module = HirModule(module_name(program))
    for _, kernel in _kernels(program):
        module.add(stage(kernel))
    return print_module(module)


def module_of(program: EmittedProgram) -> "HirModule":
    """The kernels of a program in nest form, as one module."""
    from compiler.hir.module import HirModule

    module = HirModule(module_name(program))
    for _, kernel in _kernels(program):
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


def _schedules(program: EmittedProgram) -> str:
    lines = []
    for compute, kernel in _kernels(program):
        lines.append(f"{position_of(program, compute)}: @{kernel.scheduled.function.name}")
        lines += [f"  {word}" for word in kernel.scheduled.words]
    return "\n".join(lines)


def _object(program: EmittedProgram) -> bytes:
    from runtime.cpu.load import link

    return link([kernel.native.llvm for _, kernel in _kernels(program)])
