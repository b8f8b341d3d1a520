"""A program at each stage of its way down, as text or bytes: what `compile --emit` shows."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.typed_ast import nodes
from compiler.typed_ast.constants import walk

if TYPE_CHECKING:
    from compiler.driver import Session
    from compiler.hir.module import HirFunction, HirModule
    from compiler.kernels import BuiltKernel


def emit(session: "Session", stage: str, target: str | None = None) -> str | bytes:
    """The stage `ast`, `typed-ast`, `hir`, `hir-after=PASS`, `schedule`, `llvm`, `asm` or `obj`; for a GPU `target` (`sm_90`) `hir`
    (its kernels in form C), `llvm`, `ptx` or `cubin`."""
    if target is not None:
        return _for_gpu(session, stage, target)
    match stage:
        case "ast":
            from compiler.typed_ast.json import to_json

            return to_json(session.program, indent=1)
        case "typed-ast":
            from compiler.typed_ast.json import to_json

            return to_json(session.check(), indent=1)
        case "hir":
            return _module_text(session, lambda kernel: kernel.lowered.function)
        case "schedule":
            return _schedules(session)
        case "llvm":
            return "\n".join(kernel.native.llvm for _, kernel in kernels(session))
        case "asm":
            return "\n".join(kernel.native.asm for _, kernel in kernels(session))
        case "obj":
            return _object(session)
        case _:
            return _module_text(session, _after(stage.removeprefix("hir-after=")))


def _for_gpu(session: "Session", stage: str, name: str) -> str | bytes:
    """All kernels of the program in one file, for one NVIDIA architecture."""
    from compiler.backends.nvptx.assemble import assemble
    from compiler.backends.nvptx.compile import compile_kernels
    from compiler.backends.nvptx.target import gpu_target
    from compiler.device_kernels import thread_kernel
    from compiler.hir.module import HirModule
    from compiler.hir.text import print_module

    target = gpu_target(name)
    module = HirModule(_name(session))
    for compute, kernel in kernels(session):
        for function in thread_kernel(kernel, compute).functions:
            module.add(function)
    if stage == "hir":
        return print_module(module)
    made = compile_kernels(module, target, session.sources)
    match stage:
        case "llvm":
            return made.llvm
        case "ptx":
            return made.text
        case _:
            return assemble(made).bytes


def kernels(session: "Session") -> "Iterator[tuple[nodes.Compute, BuiltKernel]]":
    """Every compute block of the program, built for the types that are known; where a dtype is only known at run time, for f32
    and the rank that the block's indices show."""
    from compiler.kernels import build
    from compiler.signatures import assumed_signature
    from compiler.typed_ast.free_names import free_names

    program = session.check()
    functions = {s.name: s for s in program.statements if isinstance(s, nodes.Function)}
    blocks = [node for node in walk(program) if isinstance(node, nodes.Compute)]
    for number, compute in enumerate(blocks):
        kernel = session.built(compute)
        if kernel is None:
            signature = assumed_signature(compute, session.scope_of(compute), free_names(compute), functions)
            kernel = build(compute, signature, session.kernel_options)
        yield compute, kernel.named((compute.kernel.name if compute.kernel else None) or f"kernel{number}")


def _module_text(session: "Session", stage: "Callable[[BuiltKernel], HirFunction]") -> str:
    from compiler.hir.module import HirModule
    from compiler.hir.text import print_module

    module = HirModule(_name(session))
    for _, kernel in kernels(session):
        module.add(stage(kernel))
    return print_module(module)


def module_of(session: "Session") -> "HirModule":
    """The kernels of a program in nest form, as one module."""
    from compiler.hir.module import HirModule

    module = HirModule(_name(session))
    for _, kernel in kernels(session):
        module.add(kernel.lowered.function)
    return module


def _name(session: "Session") -> str:
    from pathlib import Path

    return Path(session.source.path).stem or "program"


def _after(name: str) -> "Callable[[BuiltKernel], HirFunction]":
    from compiler.pipelines import NEST, PASSES, run_passes

    if name not in PASSES:
        raise ZyntaxError(Diagnostic("0401", f"there is no pass `{name}`", hint=f"passes: {', '.join(PASSES)}"))

    def stage(kernel: "BuiltKernel") -> "HirFunction":
        if name == "lower":
            return kernel.lowered.function
        if name == "lift":
            return kernel.scheduled.field or kernel.nest
        if name == "place":
            return kernel.scheduled.function
        for done, function in run_passes(kernel.lowered.function, NEST):
            if done == name:
                return function
        raise AssertionError(name)

    return stage


def _schedules(session: "Session") -> str:
    lines = []
    for compute, kernel in kernels(session):
        line, column = session.source.line_and_column(compute.span.start)
        lines.append(f"{session.source.path}:{line}:{column}: @{kernel.scheduled.function.name}")
        lines += [f"  {word}" for word in kernel.scheduled.words]
    return "\n".join(lines)


def _object(session: "Session") -> bytes:
    from runtime.cpu.load import link

    return link([kernel.native.llvm for _, kernel in kernels(session)])
