"""Warnings for annotations that the schedule of a device doesn't follow, each with the device and the reason."""

from collections.abc import Iterable

from compiler.diagnostics import Diagnostic, Severity
from compiler.schedule.table import Unheeded
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.annotation_arguments import span_of_argument
from compiler.typed_ast.kernel import KernelType
from compiler.typed_ast.walk import walk


def warnings(compute: nodes.Compute, unheeded: Iterable[Unheeded], device: str) -> tuple[Diagnostic, ...]:
    """Of a block that runs on a device (`the CPU`)."""
    return tuple(
        Diagnostic(
            "0610",
            f"`@{each.annotation}`{_where(each)} has no effect on {device}: {each.why}",
            span,
            hint="leave it out",
            severity=Severity.WARNING,
        )
        for each in dict.fromkeys(unheeded)
        for span in _places(compute, each)
    )


def of_gpus(compute: nodes.Compute) -> tuple[Unheeded, ...]:
    """Annotations of a block for the CPU that only GPUs follow."""
    custom = compute.kernel is not None and compute.kernel.kernel_type is KernelType.CUSTOM
    names = [annotation.name for annotation in compute.annotations]
    return tuple(Unheeded(name, "", _ONLY_GPUS[name]) for name in names if name in _ONLY_GPUS and not (custom and name == "workgroup"))


_ONLY_GPUS = {
    "workgroup": "its threads have parts of loops, and stand in no blocks",
    "shared": "it has no shared memory",
    "warps": "it has no warps",
    "registers": "its threads have the registers that there are",
    "cluster": "its threads stand in no blocks",
    "pipeline": "it fetches ahead by itself",
    "tensor_cores": "it has none",
}


def _where(each: Unheeded) -> str:
    return "" if not each.loop else f" along `{each.loop}`" if each.annotation == "tile" else f" of the loop over `{each.loop}`"


def _places(compute: nodes.Compute, each: Unheeded) -> list[Span]:
    """Where the annotation stands; at the block if that isn't in it."""
    if each.loop and each.annotation == "tile":
        arguments = [argument for annotation in compute.annotations if annotation.name == "tile" for argument in annotation.arguments]
        return [span_of_argument(argument) for argument in arguments if argument.name == each.loop] or [compute.span]
    if each.loop:
        loops = [part for part in walk(compute.body) if isinstance(part, nodes.For)]
        annotated = [loop.annotations for loop in loops if any(each.loop in clause.names for clause in loop.clauses)]
    else:
        annotated = [compute.annotations]
    spans = [a.span for annotations in annotated for a in annotations if a.name == each.annotation]
    return spans or [compute.span]
