"""What is wrong with the data of a replay, as coded messages. Their exit code is 3."""

from collections.abc import Iterator
from contextlib import contextmanager

from compiler.diagnostics import Diagnostic, ZyntaxError
from runtime.replay.bad_rows import BadData, BadRow, BadSource, Why

_SKIP = "`--on-bad skip` goes on without such rows and lists them in bad_rows.parquet"
_WHOLE = "`--on-bad skip` uses what is whole, each file once, and counts the rest in summary.json"
_HINTS = {
    Why.TRUNCATED: _WHOLE,
    Why.REPEATED_FILE: _WHOLE,
    Why.EARLIER: f"`--reorder 5ms` sorts rows inside of such a window; {_SKIP}",
    Why.OFF_GRID: f"`tick` and `lot` of the instrument say what its grid is; {_SKIP}",
}


def of_row(row: BadRow) -> Diagnostic:
    """The row that the run doesn't go on without."""
    return Diagnostic("0807", row.message, hint=_HINTS.get(row.why, _SKIP), data=True)


def of_source(fault: BadSource) -> Diagnostic:
    """A file that can't be used at all."""
    return Diagnostic("0807", str(fault), hint=fault.hint, data=True)


@contextmanager
def told() -> Iterator[None]:
    """Faults of data inside become messages. Raises ZyntaxError."""
    try:
        yield
    except BadData as fault:
        raise ZyntaxError(of_row(fault.row)) from None
    except BadSource as fault:
        raise ZyntaxError(of_source(fault)) from None
