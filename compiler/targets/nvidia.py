"""NVIDIA's GPUs as targets: the passes of a kernel on its way there, and what is shown of it."""

from compiler.backends.nvptx.disassemble import disassemble
from compiler.backends.nvptx.target import GpuTarget
from compiler.hir.module import HirFunction, HirModule
from compiler.hir.text import print_module
from compiler.launch.thread_kernels import ThreadKernel
from compiler.passes.pipelines import NEST
from compiler.schedule.gpu.choose import specialised_field
from compiler.targets.cpu import before_machines
from compiler.targets.gpu_program import GpuProgram
from compiler.targets.shown import ShownProgram

STEPS = ("tile", "rotate", "split-roles")
"""What makes a launch of products or of attention, before its threads."""
PASSES = ("lower", *(step.name for step in NEST), "lift", "specialise", *STEPS, "place")
STAGES = ("hir", "schedule", "llvm", "ptx", "cubin", "sass")


def emit(target: GpuTarget, program: ShownProgram, stage: str) -> str | bytes:
    """One of `STAGES`, or `hir-after=` one of `PASSES`. Raises ZyntaxError: 0501 where an optional package is missing that it needs."""
    return stage_of(GpuProgram(program, target), stage)


def stage_of(program: GpuProgram, stage: str) -> str | bytes:
    match stage:
        case "hir":
            return print_module(program.module)
        case "schedule":
            return program.schedule
        case "llvm":
            return program.ptx.llvm
        case "ptx":
            return program.ptx.text
        case "cubin":
            return program.cubin.bytes
        case "sass":
            return disassemble(program.cubin)
        case _:
            module = HirModule(program.shown.name)
            for kernel in program.kernels:
                for function in after(kernel, stage.removeprefix("hir-after=")):
                    module.add(function)
            return print_module(module)


def after(kernel: ThreadKernel, name: str) -> list[HirFunction]:
    """The kernel after one of `PASSES`: one function before it is placed, then one for each launch. Of launches that no tiles or roles
    stand behind, that is the launch itself."""
    if name in STEPS and kernel.launches is not None:
        done = STEPS[: STEPS.index(name) + 1]
        every = [[launch.function, *(form for step, form in launch.forms if step in done)] for launch in kernel.launches.launches]
        return [forms[-1] for forms in every]
    if name in ("place", *STEPS):
        return kernel.functions
    field = kernel.field
    if name not in ("lift", "specialise"):
        return [before_machines(kernel.built, name)]
    if field is None:
        return [kernel.built.nest]
    return [field if name == "lift" else specialised_field(field, kernel.facts) or field]
