"""This CPU as a target: its machine, the passes of a kernel on its way there, and what is shown of it."""

from collections.abc import Callable

from compiler.hir.module import HirFunction, HirModule
from compiler.hir.text import print_module
from compiler.launch.kernels import BuiltKernel
from compiler.passes.pipelines import NEST, run_passes
from compiler.targets.shown import ShownKernel, ShownProgram
from runtime.cpu.load import link

PASSES = ("lower", *(step.name for step in NEST), "lift", "place")
STAGES = ("hir", "schedule", "llvm", "asm", "obj")


def emit(program: ShownProgram, stage: str) -> str | bytes:
    """One of `STAGES`, or `hir-after=` one of `PASSES`."""
    kernels = [kernel.built for kernel in program.kernels]
    match stage:
        case "hir":
            return _module_text(program, lambda kernel: kernel.lowered.function)
        case "schedule":
            return "\n".join(line for kernel in program.kernels for line in _schedule(kernel))
        case "llvm":
            return "\n".join(kernel.native.llvm for kernel in kernels)
        case "asm":
            return "\n".join(kernel.native.asm for kernel in kernels)
        case "obj":
            return link([kernel.native.llvm for kernel in kernels])
        case _:
            return _module_text(program, lambda kernel: after(kernel, stage.removeprefix("hir-after=")))


def _schedule(kernel: ShownKernel) -> list[str]:
    return [kernel.heading, *(f"  {word}" for word in kernel.built.scheduled.words)]


def after(kernel: BuiltKernel, name: str) -> HirFunction:
    """The kernel after one of `PASSES`."""
    match name:
        case "place":
            return kernel.scheduled.function
        case _:
            return before_machines(kernel, name)


def before_machines(kernel: BuiltKernel, name: str) -> HirFunction:
    """The kernel after a pass that knows of no machine: all are that, to the field."""
    if name == "lower":
        return kernel.lowered.function
    if name == "lift":
        return kernel.field or kernel.nest
    return next(function for done, function in run_passes(kernel.lowered.function, NEST) if done == name)


def _module_text(program: ShownProgram, stage: Callable[[BuiltKernel], HirFunction]) -> str:
    module = HirModule(program.name)
    for kernel in program.kernels:
        module.add(stage(kernel.built))
    return print_module(module)
