"""Functions that are one compute block, for C: the block's kernel for a CPU, with a wrapper around it (`exported_wrapper`)."""

from collections.abc import Mapping

from attrs import evolve

from compiler.backends.cpu.compile import attributes, code_target, compile_function
from compiler.backends.cpu.emit import sizes_of_memories
from compiler.backends.host.exported_header import (
    C_NAMES,
    ExportedKernel,
    is_tensor_of_numbers,
    refused,
    require_names,
)
from compiler.backends.host.exported_messages import declare_messages, write_error
from compiler.backends.llvm.writer import ModuleWriter
from compiler.hir.affine import Affine
from compiler.hir.control import For
from compiler.hir.module import Form, OptimizationLevel
from compiler.launch.checked_blocks import CheckedBlocks
from compiler.launch.exported_wrapper import NUMBERS, KernelWrapper
from compiler.launch.kernels import BuiltKernel
from compiler.launch.native_calls.plan import Unplannable
from compiler.lowering.kernel import (
    SizeArgument,
)
from compiler.machines.cpu import CpuMachine
from compiler.source import Sources
from compiler.typed_ast import nodes
from compiler.typed_ast.function_effects import FunctionEffects
from compiler.typed_ast.types import Scalar, TensorType
from compiler.typed_ast.walk import walk
from runtime.cpu import load
from runtime.records import frozen

ONE_BLOCK = "a function with compute blocks can be exported where its body is one block, of its parameters"
TYPED = "parameters whose types are declared, and sizes that stand alone as factors, leave nothing to a call"


@frozen
class KernelExports:
    """Makes kernels for C. `machine`: the CPU; `threads`: whether loops are shared out among threads, by libgomp."""

    blocks: CheckedBlocks
    functions: Mapping[str, nodes.Function]
    sources: Sources
    machine: CpuMachine
    threads: bool

    def kernel_of(self, own: FunctionEffects, name: str) -> ExportedKernel | None:
        """The kernel of a function whose body is one compute block; None where it has no block. Raises ZyntaxError."""
        blocks = [node for node in walk(own.function) if isinstance(node, nodes.Compute)]
        if not blocks:
            return None
        compute = _only_statement(own.function)
        if compute is None or len(blocks) > 1:
            raise refused(f"`{own.name}` can't be exported: its body isn't one compute block", blocks[0].span, ONE_BLOCK)
        _require_parameters(own, compute)
        kernel = self.blocks.typed(compute, self.functions)
        if kernel is None or kernel.lowered.function.form is Form.THREAD:
            what = "what its block is depends on values of a call" if kernel is None else "its block is written for threads"
            raise refused(f"`{own.name}` can't be exported: {what}", compute.span, TYPED)
        try:
            return self._exported(own, name, compute, kernel.on(self.machine))
        except Unplannable as reason:
            raise refused(f"`{own.name}` can't be exported: {reason}", compute.span, ONE_BLOCK) from None

    def _exported(self, own: FunctionEffects, name: str, compute: nodes.Compute, kernel: BuiltKernel) -> ExportedKernel:
        code = evolve(kernel.code(), threads="gomp" if self.threads else "serial")
        fast = compile_function(evolve(kernel.scheduled.function, link_name=f"zyn.kernel.{name}"), code)
        made = [fast]
        plain = None
        if not _is_always_ordinary(kernel):
            plain = compile_function(evolve(kernel.nest, link_name=f"zyn.plain.{name}"), evolve(code, ordinary_sizes=False))
            made.append(plain)
        reporting = evolve(code, level=OptimizationLevel.O1, threads="serial", report=True)
        report = compile_function(evolve(kernel.nest, link_name=f"zyn.report.{name}"), reporting)
        if report.checks:
            made.append(report)
        target = code_target(self.machine)
        writer = ModuleWriter(name, attributes(target, OptimizationLevel.O2))
        declare_messages(writer)
        wrapper = KernelWrapper(writer, own, name, compute, kernel, self.sources, self.threads)
        wrapper.write(fast.symbol, plain.symbol if plain is not None else None, report.symbol, report.checks)
        write_error(writer, name)
        around = load.CompiledModule(writer.text(), target, OptimizationLevel.O1.value, {}).optimised
        return ExportedKernel(name, own, wrapper.declared, (*(one.llvm for one in made), around), tuple(one.symbol for one in made))


def _only_statement(function: nodes.Function) -> nodes.Compute | None:
    statements = function.body.statements if function.body is not None else ()
    match statements:
        case (nodes.Return(value=nodes.Compute() as compute),) | (nodes.ExpressionStatement(value=nodes.Compute() as compute),):
            return compute
        case _:
            return None


def _require_parameters(own: FunctionEffects, compute: nodes.Compute) -> None:
    """Refuses parameters that C has no form for, and blocks that read something else. Raises ZyntaxError."""
    for parameter, type_ in zip(own.function.parameters, own.parameters, strict=True):
        is_number = isinstance(type_, Scalar) and type_.dtype.value in C_NAMES
        if not is_number and not (is_tensor_of_numbers(type_) and isinstance(type_, TensorType) and type_.shape.rank is not None):
            raise refused(f"`{own.name}` can't be exported: C has no form for `{type_}`", parameter.span, NUMBERS)
    require_names(own)
    names = {parameter.name for parameter in own.function.parameters}
    for entry in compute.inputs:
        if not isinstance(entry.value, nodes.Name) or entry.value.name not in names:
            raise refused(f"`{own.name}` can't be exported: `{entry.name}` isn't one of its parameters", entry.span, ONE_BLOCK)


def _is_always_ordinary(kernel: BuiltKernel) -> bool:
    """Whether no sizes of a call, all at least 0, make a loop that ends before it begins, or an extent below 0."""
    nest, plan = kernel.nest, kernel.lowered.plan
    names = sizes_of_memories(nest)
    natural: set[str] = set()
    for rule in plan.sizes:
        if _is_natural(rule.form, natural):
            natural.add(rule.name)
    sizes: set[str] = set()
    for position, argument in enumerate(plan.arguments):
        if isinstance(argument, SizeArgument):
            if _is_natural(argument.form, natural):
                sizes.add(nest.parameters[position].name)
            elif nest.parameters[position].name in names:
                return False
    loops = [op for top in nest.body.body for op in top.walk() if isinstance(op, For)]
    ends = [(loop.low, loop.high) if loop.step > 0 else (loop.high, loop.low) for loop in loops]
    # bounds of inner loops that outer ones decide are no matter of the call, as with calls from Python
    given = {parameter.name for parameter in nest.parameters}
    return all(not given >= {*low.names, *high.names} or _is_natural(high - low, sizes, facts=False) for low, high in ends)


def _is_natural(form: Affine, natural: set[str], facts: bool = True) -> bool:
    """Whether a form is at least 0: a sum of what is at least 0. Extents (`A.0`) are."""
    return form.constant >= 0 and all(
        factor >= 0 and isinstance(symbol, str) and (symbol in natural or (facts and "." in symbol)) for symbol, factor in form.terms
    )
