"""What a native function raises when it stopped, and the place in the program that it gets."""

from compiler.diagnostics import Diagnostic, Label
from compiler.source import Span
from runtime.records import evolve

CALLED = "called from here"
TOO_DEEP = "functions call each other too deep"
ENDS = "check that the recursion ends, or use a loop"


class StoppedNatively(Exception):
    """What a native function stopped for. The place that called it, where no native function did, is known to whoever catches this."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class StoppedInLoop(StoppedNatively):
    """What the native rest of a loop stopped for: the function that the loop stands in stopped there."""


def placed(stopped: Diagnostic, called: Span | None) -> Diagnostic:
    """The failure with the place in the program that called native code, where nothing nearer did."""
    if stopped.span is None:
        return evolve(stopped, span=called)
    if called is None or any(label.text == CALLED for label in stopped.others):
        return stopped
    return evolve(stopped, others=(*stopped.others, Label(called, CALLED)))
