"""The compute blocks of one file as the checker met them: the types around each, and the kernel of those whose inputs' types are known.
The checker asks for the type of a block's value, programs that run or are shown for its kernel."""

from collections.abc import Mapping

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.launch.block import ComputeBlock, Warn
from compiler.launch.kernels import BuiltKernel, KernelOptions, built, lower
from compiler.launch.numbered import numbered, stand_ins
from compiler.launch.signature import assumed_signature, static_signature
from compiler.lowering.kernel import LoweredKernel, NeedsNumbers, Signature
from compiler.lowering.outcome import outcome_type, without_extents
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import ComputeOutcome
from compiler.typed_ast.free_names import free_names
from compiler.typed_ast.types import UNKNOWN, DeviceKind, Type
from runtime.records import Factory, define

MENDED = ("0303", "0406")
"""Faults that go where sizes are numbers."""


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
        except NeedsNumbers as needs:
            return self._with_stand_ins(node, signature, needs)
        except ZyntaxError as error:
            return ComputeOutcome(UNKNOWN, error.diagnostics)
        self._lowered[node.span] = signature, lowered
        return ComputeOutcome(outcome_type(lowered), (), lambda: self._analysed(node, signature, lowered))

    def _with_stand_ins(self, node: nodes.Compute, signature: Signature, needs: NeedsNumbers) -> ComputeOutcome:
        """What can be said of a block before a call gives it numbers: dtypes and ranks, and faults that no number mends."""
        if any(diagnostic.code not in MENDED for diagnostic in needs.diagnostics):
            return ComputeOutcome(UNKNOWN, needs.diagnostics)
        try:
            return ComputeOutcome(without_extents(outcome_type(self._lowered_anyhow(node, signature)[1])))
        except ZyntaxError as error:
            return ComputeOutcome(UNKNOWN, error.diagnostics if all(d.code in MENDED for d in error.diagnostics) else ())

    def _lowered_anyhow(self, node: nodes.Compute, signature: Signature) -> tuple[Signature, LoweredKernel]:
        """The block, with numbers that stand for those of a call where it needs them. Raises ZyntaxError."""
        known = stand_ins(signature)
        while True:
            try:
                return signature, lower(node, signature, self.options)
            except NeedsNumbers as needs:
                signature = numbered(signature, needs.wanted, known)

    def _analysed(self, node: nodes.Compute, signature: Signature, lowered: LoweredKernel) -> tuple[Diagnostic, ...]:
        """The faults that analysis finds, else the warnings of lowering."""
        try:
            kernel = self._kernel(node, signature, lowered)
        except ZyntaxError as error:
            return error.diagnostics
        on_cpu = node.kernel is not None and node.kernel.device.kind is DeviceKind.CPU
        return (*lowered.warnings, *(kernel.unheeded(node) if on_cpu else ()))

    def _kernel(self, node: nodes.Compute, signature: Signature, lowered: LoweredKernel) -> BuiltKernel:
        """The kernel, analysed once for its signature. Raises ZyntaxError."""
        kernels = self._kernels.setdefault(node.span, {})
        if signature not in kernels:
            kernels[signature] = built(lowered, node, self.options)
        return kernels[signature]

    def typed(self, compute: nodes.Compute, functions: Mapping[str, nodes.Function]) -> BuiltKernel | None:
        """The block's kernel for any call; None where types leave something open that decides it. Raises ZyntaxError."""
        return self.shown(compute, functions) if compute.span in self._lowered else None

    def shown(self, compute: nodes.Compute, functions: Mapping[str, nodes.Function]) -> BuiltKernel:
        """The block's kernel for the types that are known; where a dtype is only known at run time, for f32 and the rank that the block's
        indices show. Raises ZyntaxError."""
        if compute.span in self._lowered:
            return self._kernel(compute, *self._lowered[compute.span])
        signature = assumed_signature(compute, self._scopes.get(compute.span, {}), free_names(compute), functions)
        return built(self._lowered_anyhow(compute, signature)[1], compute, self.options)

    def block(self, compute: nodes.Compute, functions: Mapping[str, nodes.Function], warn: Warn) -> ComputeBlock:
        """The block as something that can be called."""
        declared = {**self._scopes.get(compute.span, {}), **{entry.name: entry.value.type for entry in compute.inputs}}
        return ComputeBlock(compute, functions, declared, self.options, warn, dict(self._kernels.get(compute.span, {})))
