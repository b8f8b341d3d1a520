"""From text to tree: parses a program, and turns the grammar layer's faults into diagnostics."""

import sys
from collections.abc import Iterable
from typing import Any

from compiler.diagnostics import Diagnostic, Label, ZyntaxError
from compiler.source import Span
from compiler.syntax.base import Actions
from grammars.faults import Fault
from grammars.loader import load
from grammars.machine import Machine

# Every pass over a tree recurses over its depth, which the parser bounds; Python's own bound is lower.
sys.setrecursionlimit(20_000)

def parse_with(actions: Actions, start: str) -> Any:
    """The value that the actions build from their text; raises ZyntaxError with all its syntax errors."""
    value, faults = parse_text(actions.text, actions, start)
    if faults:
        raise ZyntaxError(*of_faults(faults, actions.file))
    return value


def parse_text(text: str, actions: Actions, start: str) -> tuple[Any, list[Fault]]:
    """The value that the actions build from a text, and all faults in it; the value is only whole when there are none."""
    machine = Machine(load(actions.grammar), actions.grammar.words, actions, text, start)
    value = machine.run()
    return value, [*machine.faults, *actions.faults]


def of_faults(faults: Iterable[Fault], path: str) -> list[Diagnostic]:
    """The diagnostics of all faults of a text, by position."""
    return [_diagnostic(fault, path) for fault in sorted(faults, key=lambda fault: (fault.start, fault.code))]


def _diagnostic(fault: Fault, path: str) -> Diagnostic:
    others = tuple(Label(Span(path, start, end), text) for start, end, text in fault.others)
    return Diagnostic(fault.code, fault.message, Span(path, fault.start, fault.end), fault.label, others, hint=fault.hint)
