"""A program at each stage of its way down, as text or bytes: what `compile --emit` shows."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.fusion.program_kernels import ProgramFile, module_name, position_of
from compiler.options import CompileOptions

if TYPE_CHECKING:
    from compiler.backends.nvptx.target import GpuTarget
    from compiler.hir.module import HirModule
    from compiler.launch.kernels import BuiltKernel
    from compiler.launch.recorded import LaunchedKernel
    from compiler.targets.gpu_program import GpuProgram
    from compiler.targets.shown import ShownProgram
    from compiler.targets.target import Target
    from compiler.typed_ast import nodes

BINARY = ("obj", "cubin")
"""Stages of one file each: those of several modules aren't put behind each other."""


class EmittedProgram(ProgramFile, Protocol):
    @property
    def program(self) -> "nodes.Program":
        """The tree as parsed."""

    @property
    def options(self) -> CompileOptions: ...

    def native_stage(self, stage: str, target: str | None = None) -> str:
        """The program's native functions at `native-hir`, `native-llvm` or `native-asm`, for a CPU by its name; None: this one."""

    def launches_like(self, texts: Sequence[str], device: str) -> "list[LaunchedKernel]":
        """The kernels that a call runs whose values are described."""


def emit(program: EmittedProgram, stage: str, target: str | None = None, like: Sequence[str] = ()) -> str | bytes:
    """The stage `ast`, `typed-ast`, `fusion` or `native-...`, or one that the target shows (None: the CPU here; `aarch64`, `sm_90`).
    `like` describes a call: then it is that of the kernels that the call runs, each a module of its own, in the order of the launches."""
    match stage:
        case "ast":
            from compiler.typed_ast.json import to_json

            return to_json(program.program, indent=1)
        case "typed-ast":
            from compiler.typed_ast.json import to_json

            return to_json(program.check(), indent=1)
        case "fusion":
            from compiler.fusion.shown import Shown

            return "\n".join(Shown.of(program).words())
        case "native-hir" | "native-llvm" | "native-asm":
            return program.native_stage(stage, target)
    from compiler.targets.registry import target_named

    target_ = target_named(target)
    if not target_.shows(stage):
        known = ", ".join((*target_.stages, *(f"hir-after={name}" for name in target_.passes)))
        raise ZyntaxError(Diagnostic("0401", f"`{target_.name}` has no stage `{stage}`", hint=f"its stages are {known}"))
    if not like:
        return target_.emitter(shown_program(program), stage)
    return joined([target_.emitter(call, stage) for call in called(program, target_, like)], stage)


def joined(modules: Sequence[str | bytes], stage: str) -> str | bytes:
    """Modules of a call behind each other. Raises ZyntaxError (0505) for several that are bytes."""
    if len(modules) == 1:
        return modules[0]
    if stage in BINARY:
        message = f"the call runs {len(modules)} modules, and `--emit {stage}` writes one"
        raise ZyntaxError(Diagnostic("0505", message, hint="`zyntax run --emit-to FOLDER` writes a file for each"))
    return "\n".join(str(module).rstrip("\n") for module in modules)


def called(program: EmittedProgram, target: "Target", like: Sequence[str]) -> "list[ShownProgram]":
    """The kernels that a call runs, each as a program. Raises ZyntaxError."""
    return [launched_program(program, launched) for launched in program.launches_like(like, target.executor)]


def launched_program(program: EmittedProgram, launched: "LaunchedKernel") -> "ShownProgram":
    """A kernel as a call runs it, as a program of its own."""
    from compiler.targets.shown import ShownProgram, shown_launch

    kernel = shown_launch(launched, position_of(program, launched.compute))
    return ShownProgram(module_name(program), [kernel], program.sources, program.options, program.blocks.options.times)


def shown_program(program: EmittedProgram) -> "ShownProgram":
    """The program's kernels, as far as types tell them. Raises ZyntaxError for programs with faults."""
    from compiler.targets.shown import ShownKernel, ShownProgram

    kernels = [ShownKernel(compute, built, position_of(program, compute)) for compute, built in _kernels(program)]
    return ShownProgram(module_name(program), kernels, program.sources, program.options, program.blocks.options.times)


def gpu_programs(program: EmittedProgram, target: "GpuTarget", like: Sequence[str] = ()) -> "list[GpuProgram]":
    """The program's kernels for a GPU, to be shown at any stage: all in one module, or those of a call, a module each. Raises ZyntaxError
    for programs with faults."""
    from compiler.targets.gpu_program import GpuProgram
    from compiler.targets.registry import target_named

    shown = called(program, target_named(str(target)), like) if like else [shown_program(program)]
    return [GpuProgram(kernels, target) for kernels in shown]


def _kernels(program: EmittedProgram) -> "Iterator[tuple[nodes.Compute, BuiltKernel]]":
    """The program's kernels as they run."""
    from compiler.fusion.shown import Shown

    return Shown.of(program).kernels()


def module_of(program: EmittedProgram) -> "HirModule":
    """The kernels of a program in nest form, as one module."""
    from compiler.hir.module import HirModule

    module = HirModule(module_name(program))
    for _, kernel in _kernels(program):
        module.add(kernel.lowered.function)
    return module
