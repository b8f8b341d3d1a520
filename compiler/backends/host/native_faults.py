"""A failure of a native function, as a message with the program's own place."""

from compiler.backends.host.stopped_natively import CALLED, ENDS, TOO_DEEP
from compiler.backends.native.link import Linked
from compiler.backends.native.record import HostFault, read_callers
from compiler.diagnostics import Diagnostic, Label
from compiler.hir.native_expressions import OUTSIDE
from compiler.source import Span
from runtime.lazy_numpy import np

NO_ELEMENT = "index {0} is out of range: the array has {1}, indices go from 0 to {2}"


def diagnostic(linked: Linked, fault: HostFault, record: bytes) -> Diagnostic:
    """The failure that a record tells of."""
    own = next(facts for facts in linked.facts if facts.name == fault.module)
    callers = [span for number in read_callers(record) if (span := own.callers[number]) is not None]
    site = linked.site(fault)
    if site is None:
        return Diagnostic(fault.code, TOO_DEEP, fault.span, hint=ENDS)
    values = [_shown(value, dtype) for value, dtype in zip(fault.values, fault.dtypes, strict=True)]
    words = NO_ELEMENT if site.message == OUTSIDE else site.message
    message, label = words.format(*values, *(number - 1 for number in fault.values[1:2])), site.label.format(*values)
    if site.code == "0801" and " of axis " in site.message and fault.values[1] == 0:
        message = message.partition(": ")[0] + ": the axis is empty"
    return Diagnostic(site.code, message, site.span, label, (*site.others, *_called(callers)), hint=site.hint)


def _called(callers: list[Span]) -> tuple[Label, ...]:
    return tuple(Label(span, CALLED) for span in callers[:1])


def _shown(value: int | float | bool, dtype: str) -> object:
    """A number as programs show it; of narrow floats the shortest text that means them."""
    if dtype == "i1":
        return "true" if value else "false"
    return np.float32(value) if dtype == "f32" else value
