"""CPUs as targets, this one and those of objects for elsewhere: the passes of a kernel on its way there, and what is shown of it."""

from collections.abc import Callable

from attrs import evolve

from compiler.backends.cpu.compile import code_target
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.module import HirFunction, HirModule
from compiler.hir.text import print_module
from compiler.launch.kernels import BuiltKernel
from compiler.machines.cpu import CPUS, CpuMachine
from compiler.passes.pipelines import NEST, run_passes
from compiler.targets.shown import ShownKernel, ShownProgram
from runtime.cpu import load

PASSES = ("lower", *(step.name for step in NEST), "lift", "place")
STAGES = ("hir", "schedule", "llvm", "asm", "obj")


def machine_named(name: str) -> CpuMachine:
    """The CPU of that name. Raises ZyntaxError (0501)."""
    machine = CPUS.get(name)
    if machine is None:
        raise ZyntaxError(Diagnostic("0501", f"there is no CPU target `{name}`", hint=f"targets are {', '.join(CPUS)}"))
    assert machine.triple is not None
    if not load.has_code(machine.triple):
        known = [other for other, its in CPUS.items() if its.triple is not None and load.has_code(its.triple)]
        hint = f"it makes code for {', '.join(known)}" if known else "another build of llvmlite has more targets"
        raise ZyntaxError(Diagnostic("0501", f"LLVM as it is installed here makes no code for `{name}`", hint=hint))
    return machine


def code_named(name: str | None) -> load.CodeTarget:
    """What code for the CPU of that name is made for; None: for this one. Raises ZyntaxError (0501)."""
    return load.target(None, None, None, 3) if name is None else code_target(machine_named(name))


def emit(machine: CpuMachine | None, program: ShownProgram, stage: str) -> str | bytes:
    """One of `STAGES`, or `hir-after=` one of `PASSES`, for a CPU; None: the one that the kernels are for already."""
    if machine is not None:
        program = evolve(program, kernels=[evolve(kernel, built=kernel.built.on(machine)) for kernel in program.kernels])
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
            return load.link([kernel.native.llvm for kernel in kernels], None if machine is None else code_target(machine))
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
