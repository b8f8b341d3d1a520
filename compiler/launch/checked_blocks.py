"""The compute blocks of one file as the checker met them: the types around each, and the kernel of those whose inputs' types are known.
The checker asks for the type of a block's value, programs that run or are shown for its kernel."""

from collections.abc import Mapping

from attrs import Factory, define

from compiler.diagnostics import ZyntaxError
from compiler.launch.kernels import BuiltKernel, ComputeBlock, KernelOptions, Warn, build
from compiler.launch.signature import assumed_signature, static_signature
from compiler.lowering.kernel import Signature
from compiler.lowering.outcome import outcome_type
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.context import ComputeOutcome
from compiler.typed_ast.free_names import free_names
from compiler.typed_ast.types import UNKNOWN, Type


@define(eq=False)
class CheckedBlocks:
    options: KernelOptions
    _scopes: dict[Span, dict[str, Type]] = Factory(dict)
    """Types of the outer names that a block mentions."""
    _kernels: dict[Span, tuple[Signature, BuiltKernel]] = Factory(dict)

    def outcome(self, node: nodes.Compute, scope: Mapping[str, Type], functions: Mapping[str, nodes.Function]) -> ComputeOutcome:
        """The checker's rule for a block's value: its type, where those of its inputs are known, and the block's faults."""
        names = free_names(node)
        self._scopes[node.span] = {name: scope[name] for name in names if name in scope}
        signature = static_signature(node, scope, names, functions)
        if signature is None:
            return ComputeOutcome(UNKNOWN)
        try:
            kernel = build(node, signature, self.options)
        except ZyntaxError as error:
            return ComputeOutcome(UNKNOWN, error.diagnostics)
        self._kernels[node.span] = signature, kernel
        return ComputeOutcome(outcome_type(kernel.lowered), kernel.lowered.warnings)

    def shown(self, compute: nodes.Compute, functions: Mapping[str, nodes.Function]) -> BuiltKernel:
        """The block's kernel for the types that are known; where a dtype is only known at run time, for f32 and the rank that the block's
        indices show. Raises ZyntaxError."""
        if compute.span in self._kernels:
            return self._kernels[compute.span][1]
        signature = assumed_signature(compute, self._scopes.get(compute.span, {}), free_names(compute), functions)
        return build(compute, signature, self.options)

    def block(self, compute: nodes.Compute, functions: Mapping[str, nodes.Function], warn: Warn) -> ComputeBlock:
        """The block as something that can be called."""
        declared = {**self._scopes.get(compute.span, {}), **{entry.name: entry.value.type for entry in compute.inputs}}
        known = dict([self._kernels[compute.span]]) if compute.span in self._kernels else {}
        return ComputeBlock(compute, functions, declared, self.options, warn, known)
