"""Warnings for annotations that the schedule of a device doesn't follow, each with the device and the reason."""

from collections.abc import Iterable

from compiler.diagnostics import Diagnostic, Severity
from compiler.schedule.table import Unheeded
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.walk import walk


def warnings(compute: nodes.Compute, unheeded: Iterable[Unheeded], device: str) -> tuple[Diagnostic, ...]:
    """Of a block that runs on a device (`the CPU`)."""
    return tuple(
        Diagnostic(
            "0610",
            f"`@{each.annotation}`{f' of the loop over `{each.loop}`' if each.loop else ''} has no effect on {device}: {each.why}",
            span,
            hint="leave it out",
            severity=Severity.WARNING,
        )
        for each in dict.fromkeys(unheeded)
        for span in _places(compute, each)
    )


def _places(compute: nodes.Compute, each: Unheeded) -> list[Span]:
    """Where the annotation stands; at the block if that isn't in it."""
    if each.loop:
        loops = [part for part in walk(compute.body) if isinstance(part, nodes.For)]
        annotated = [loop.annotations for loop in loops if any(each.loop in clause.names for clause in loop.clauses)]
    else:
        annotated = [compute.annotations]
    spans = [a.span for annotations in annotated for a in annotations if a.name == each.annotation]
    return spans or [compute.span]
