"""Blocks joined into one kernel: merged, analysed and judged."""

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.fusion.judge import require_promising, require_worthwhile
from compiler.fusion.merge import NotMergeable, Stage, merged
from compiler.hir.memory import Check
from compiler.hir.module import Form, HirFunction
from compiler.launch.block import ComputeBlock
from compiler.launch.kernels import BuiltKernel, KernelOptions
from compiler.lowering.kernel import Signature
from compiler.passes.analysed import analysed
from compiler.source import Span
from compiler.typed_ast.kernel import KernelMetadata
from runtime.records import define, evolve, field

PLAIN = KernelMetadata()


def require_joinable(kernel: BuiltKernel) -> None:
    """Raises NotMergeable for a block that is a kernel of its own whatever stands beside it."""
    if kernel.lowered.function.form is Form.THREAD:
        raise NotMergeable("a `custom` kernel is launched as written")
    if kernel.field is None:
        raise NotMergeable(f"its loops stay as written: {kernel.analysed.reason}")
    if any(isinstance(op, Check) for top in kernel.nest.body.body for op in top.walk()):
        raise NotMergeable("an index is checked as it runs")
    given = kernel.lowered.metadata
    if given.parallel is not None:
        raise NotMergeable("it is split over devices")
    launch = ("workgroup_size", "grid_size", "shared_memory_bytes", "max_registers", "trace")
    hints = evolve(given.hints, use_tensor_cores=None, accumulator=None, floats=None, products=None)
    if any(getattr(given, name) != getattr(PLAIN, name) for name in launch) or hints != PLAIN.hints:
        raise NotMergeable("it says how it is launched")


def joined(stages: Sequence[Stage], maker: HirFunction, reader: HirFunction, options: KernelOptions, span: Span | None) -> BuiltKernel:
    """The stages as one kernel; `maker` and `reader` are the fields of the two that are joined. Raises NotMergeable."""
    require_promising(maker, reader)
    kernel = analysed(merged(stages), options.times)
    if kernel.field is None:
        raise NotMergeable(kernel.reason)
    require_worthwhile(maker, reader, kernel.field)
    return BuiltKernel(kernel, options, span)


@define(eq=False)
class JoinedBlock(ComputeBlock):
    """Several blocks as one, for the signatures that they were joined for; called with all that comes from outside."""

    kernel: BuiltKernel = field(kw_only=True)

    @property
    def constants(self) -> frozenset[str]:
        """What decides on the kernel has done so."""
        return frozenset()

    def signature(self, values: Mapping[str, Any]) -> Signature:
        return Signature()

    def kernel_of(self, values: Mapping[str, Any]) -> BuiltKernel:
        return self.kernel

    def kernel_for(self, signature: Signature) -> BuiltKernel:
        return self.kernel
