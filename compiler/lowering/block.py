"""A compute block before any walk: what it declares, writes and yields, and whether these go together."""

from collections.abc import Sequence

from compiler.diagnostics import Diagnostic, Diagnostics, Label
from compiler.hir.affine import Affine
from compiler.lowering import collecting, flat, reductions
from compiler.lowering.flows import Flows
from compiler.lowering.kernel import (
    Signature,
)
from compiler.lowering.outputs import (
    declared_results,
)
from compiler.lowering.result_plan import ResultPlan
from compiler.lowering.sizes import Candidates, Sizes, candidates
from compiler.lowering.tile_sizes import SliceOfInput
from compiler.lowering.words import dotted
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import KernelMetadata, KernelType
from compiler.typed_ast.walk import walk
from runtime.records import frozen

_YIELDING = (KernelType.REDUCE, KernelType.SCAN, KernelType.SORT)


@frozen(eq=False)
class Written:
    """What the block writes by index, first place of each."""

    targets: dict[str, Span]
    yields: tuple[Span, ...]


def written_by(compute: nodes.Compute) -> Written:
    targets: dict[str, Span] = {}
    yields: list[Span] = []
    for node in walk(compute.body):
        match node:
            case nodes.Assign(target=nodes.Index(value=value) as target):
                name = dotted(value)
                if name is not None:
                    targets.setdefault(name, target.span)
            case nodes.Assign(target=nodes.TupleLiteral(elements=elements)):
                for part in elements:
                    if isinstance(part, nodes.Index) and (name := dotted(part.value)) is not None:
                        targets.setdefault(name, part.span)
            case nodes.Assign(target=nodes.Name(name=name, span=span)):
                targets.setdefault(name, span)
            case nodes.Yield(span=span):
                yields.append(span)
            case nodes.Call(function=nodes.Name(name=name), arguments=arguments, span=span) if name.startswith("atomic_") and arguments:
                if isinstance(arguments[0].value, nodes.Index) and (target_name := dotted(arguments[0].value.value)) is not None:
                    targets.setdefault(target_name, span)
            case _:
                pass
    return Written(targets, tuple(yields))


class LoweredBlock:
    """A block, what is said about it, and what the walks have found so far."""

    def __init__(self, compute: nodes.Compute, signature: Signature, slices: Sequence[SliceOfInput]) -> None:
        self.compute = compute
        self.slices = slices
        self.signature = signature
        self.kernel = compute.kernel or KernelMetadata()
        self.diagnostics = Diagnostics()
        self.written = written_by(compute)
        self.candidates: Candidates = candidates(compute)
        self.declared = declared_results(compute)
        self.flows = Flows()
        self.sizes = Sizes(signature)
        self.results: list[ResultPlan] = []
        self.reduction: reductions.Reduction | None = None
        self.collection: collecting.Collection | None = None
        self.yielding = bool(self.written.yields) or self.kernel.kernel_type in _YIELDING
        self.copies: list[str] = []
        self.flat = flat.flat_tensors(compute, signature, self.kernel.kernel_type, [declared.name for declared in self.declared])
        self.sizes.rows = {tensor.name: flat.row_form(tensor) for tensor in signature.tensors if tensor.name in self.flat}
        self.flat_shape: tuple[Affine, ...] | None = None

    # ---- what the block may write ----

    def judge_writes(self) -> None:
        names = [declared.name for declared in self.declared]
        result = next((name for name in names if name in self.written.targets), None)
        if self.kernel.kernel_type in _YIELDING and not self.written.yields:
            kind = self.kernel.kernel_type
            assert kind is not None
            self.diagnostics.add(
                Diagnostic(
                    "0408", f"a `{kind.value}` kernel needs a `yield`", self.compute.span, hint="write `yield x[i]` inside the loops"
                )
            )
            self.diagnostics.raise_errors()
        if self.yielding and result is not None:
            self.diagnostics.add(
                Diagnostic(
                    "0408",
                    "`yield` and a write to `" + result + "` can't stand in one kernel",
                    self.written.targets[result],
                    "the write",
                    (_label(self.written.yields[0], "the `yield`"),) if self.written.yields else (),
                    hint="collect with `yield` alone, or write `out` alone",
                )
            )
            self.diagnostics.raise_errors()
        if self.written.yields and self.kernel.kernel_type not in (*_YIELDING, None):
            kind = self.kernel.kernel_type
            assert kind is not None
            self.diagnostics.add(
                Diagnostic(
                    "0408",
                    f"`yield` stands in a `{kind.value}` kernel, which writes `out`",
                    self.written.yields[0],
                    hint="write `out[...] = ...`, or use `@kernel(reduce)`",
                )
            )
            self.diagnostics.raise_errors()
        if result is None and not self.yielding:
            inputs = {tensor.name: tensor for tensor in self.signature.tensors if not tensor.captured}
            updated = [name for name in self.written.targets if name in inputs and inputs[name].mutable]
            self.copies = [name for name in self.written.targets if name in inputs and name not in updated]
            captured = any(tensor.name in self.written.targets for tensor in self.signature.tensors if tensor.captured)
            if not (self.copies or updated or captured) and self.kernel.kernel_type is not KernelType.CUSTOM:
                self.diagnostics.add(
                    Diagnostic(
                        "0408",
                        "the block computes nothing: it neither writes `out` nor yields",
                        self.compute.span,
                        hint="write `out[i] = ...`, or `yield` a value",
                    )
                )
                self.diagnostics.raise_errors()
        elif result is not None:
            self.result_write = self.written.targets[result]

    result_write: Span | None = None


def _label(span: Span, text: str) -> Label:
    return Label(span, text)


def identifier(name: str) -> str:
    """An input's path as a name in the HIR."""
    return name.replace(".", "_")
