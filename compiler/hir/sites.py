"""What failed checks speak of. Imports nothing of the HIR, so that compiled code can be loaded without it."""

from compiler.diagnostics import Label
from compiler.source import Span
from runtime.records import frozen


@frozen
class FaultSite:
    """What a run-time `check` speaks of: the place in the program and the words of its message, with `{0}`, `{1}` for the
    values of the check; `others` are further places."""

    code: str
    span: Span | None
    message: str
    label: str = ""
    hint: str | None = None
    others: tuple[Label, ...] = ()
