"""A failure of a native function, as a message with the program's own place."""

import attrs

from compiler.backends.native.link import Linked
from compiler.backends.native.record import HostFault, read_callers
from compiler.diagnostics import Diagnostic, Label
from compiler.source import Span
from runtime.lazy_numpy import np

CALLED = "called from here"
TOO_DEEP = "functions call each other too deep"
ENDS = "check that the recursion ends, or use a loop"


class StoppedNatively(Exception):
    """What a native function stopped for. The place that called it, where no native function did, is known to whoever catches this."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def diagnostic(linked: Linked, fault: HostFault, record: bytes) -> Diagnostic:
    """The failure that a record tells of."""
    own = next(facts for facts in linked.facts if facts.name == fault.module)
    callers = [span for number in read_callers(record) if (span := own.callers[number]) is not None]
    site = linked.site(fault)
    if site is None:
        return Diagnostic(fault.code, TOO_DEEP, callers[0] if callers else None, hint=ENDS)
    values = [_shown(value, dtype) for value, dtype in zip(fault.values, fault.dtypes, strict=True)]
    message, label = site.message.format(*values), site.label.format(*values)
    return Diagnostic(site.code, message, site.span, label, (*site.others, *_called(callers)), hint=site.hint)


def _called(callers: list[Span]) -> tuple[Label, ...]:
    return tuple(Label(span, CALLED) for span in callers[:1])


def _shown(value: int | float | bool, dtype: str) -> object:
    """A number as Python shows it; of narrow floats the shortest text that means them."""
    return np.float32(value) if dtype == "f32" else value


def placed(stopped: Diagnostic, called: Span | None) -> Diagnostic:
    """The failure with the place in the program that called native code, where nothing nearer did."""
    if stopped.span is None:
        return attrs.evolve(stopped, span=called)
    if called is None or any(label.text == CALLED for label in stopped.others):
        return stopped
    return attrs.evolve(stopped, others=(*stopped.others, Label(called, CALLED)))
