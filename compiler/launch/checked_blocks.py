"""The compute blocks of one file as the checker met them: the types around each, and the kernel of those whose inputs' types are known.
The checker asks for the type of a block's value, programs that run or are shown for its kernel."""

from collections.abc import Mapping

from attrs import Factory

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.launch.block import ComputeBlock, Warn
from compiler.launch.kernels import BuiltKernel, KernelOptions, build, built, lower
from compiler.launch.signature import assumed_signature, static_signature
from compiler.lowering.kernel import LoweredKernel, Signature
from compiler.lowering.outcome import outcome_type
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import ComputeOutcome
from compiler.typed_ast.free_names import free_names
from compiler.typed_ast.types import UNKNOWN, Type
from runtime.records import define


@define(eq=False)
class CheckedBlocks:
    options: KernelOptions
    _scopes: dict[Span, dict[str, Type]] = Factory(dict)
    """Types of the outer names that a block mentions."""
    _lowered: dict[Span, tuple[Signature, LoweredKernel]] = Factory(dict)
    """Each block as it was typed last."""
    _kernels: dict[Span, dict[Signature, BuiltKernel]] = Factory(dict)

    def outcome(self, node: nodes.Compute, scope: Mapping[str, Type], functions: Mapping[str, nodes.Function]) -> ComputeOutcome:
        """The checker's rule for a block's value: its type, where those of its inputs are known, and the block's faults."""
        names = free_names(node)
        self._scopes[node.span] = {name: scope[name] for name in names if name in scope}
        signature = static_signature(node, scope, names, functions)
        if signature is None:
            return ComputeOutcome(UNKNOWN)
        try:
            lowered = lower(node, signature, self.options)
        except ZyntaxError as error:
            return ComputeOutcome(UNKNOWN, error.diagnostics)
        self._lowered[node.span] = signature, lowered
        return ComputeOutcome(outcome_type(lowered), (), lambda: self._analysed(node, signature, lowered))

    def _analysed(self, node: nodes.Compute, signature: Signature, lowered: LoweredKernel) -> tuple[Diagnostic, ...]:
        """The faults that analysis finds, else the warnings of lowering."""
        try:
            self._kernel(node, signature, lowered)
        except ZyntaxError as error:
            return error.diagnostics
        return lowered.warnings

    def _kernel(self, node: nodes.Compute, signature: Signature, lowered: LoweredKernel) -> BuiltKernel:
        """The kernel, analysed once for its signature. Raises ZyntaxError."""
        kernels = self._kernels.setdefault(node.span, {})
        if signature not in kernels:
            kernels[signature] = built(lowered, node, self.options)
        return kernels[signature]

    def shown(self, compute: nodes.Compute, functions: Mapping[str, nodes.Function]) -> BuiltKernel:
        """The block's kernel for the types that are known; where a dtype is only known at run time, for f32 and the rank that the block's
        indices show. Raises ZyntaxError."""
        if compute.span in self._lowered:
            return self._kernel(compute, *self._lowered[compute.span])
        signature = assumed_signature(compute, self._scopes.get(compute.span, {}), free_names(compute), functions)
        return build(compute, signature, self.options)

    def block(self, compute: nodes.Compute, functions: Mapping[str, nodes.Function], warn: Warn) -> ComputeBlock:
        """The block as something that can be called."""
        declared = {**self._scopes.get(compute.span, {}), **{entry.name: entry.value.type for entry in compute.inputs}}
        return ComputeBlock(compute, functions, declared, self.options, warn, dict(self._kernels.get(compute.span, {})))
