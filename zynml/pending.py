"""Futures between Python and programs: an `@async` block's that a function returns, and Python's own (`concurrent.futures`) that a
function is given."""

import concurrent.futures
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from compiler.typed_ast.library import LibraryFault
from runtime import futures

Crosses = Callable[[Any], Any]


class Future:
    """A value that a program is computing beside Python. Arrays that its block reads must stay as they are until it is done."""

    def __init__(self, pending: futures.PendingValue, out: Crosses, errors: AbstractContextManager[None]) -> None:
        self.pending, self._out, self._errors = pending, out, errors

    def done(self) -> bool:
        """Whether `result` would answer at once."""
        return self.pending.done()

    def result(self, timeout: float | None = None) -> Any:
        """The value, the same each time; waits at most `timeout` seconds. Raises TimeoutError, or ZynMLError where the block failed."""
        if not self.pending.ready(timeout):
            raise TimeoutError(f"not ready after {timeout} s")
        from compiler.backends.host.faults import translated_faults

        with self._errors, translated_faults():
            return self._out(self.pending.value())

    def __repr__(self) -> str:
        return f"<zynml.Future, {'done' if self.done() else 'not done yet'}>"


def given(value: Any, into: Crosses) -> futures.PendingValue | None:
    """The program's future for Python's, whose value crosses when it is asked for; None for what is no future."""
    match value:
        case Future():
            return value.pending
        case concurrent.futures.Future():
            return futures.PendingValue(_followed(value), into)
    return None


def _followed(source: "concurrent.futures.Future[Any]") -> futures.TaskOutcome:
    """What comes of somebody else's future; its failure is a fault of what the program was given."""
    outcome = futures.TaskOutcome()

    def pass_on(done: "concurrent.futures.Future[Any]") -> None:
        try:
            outcome.set_result(done.result())
        except (Exception, concurrent.futures.CancelledError) as error:
            words = f": {error}" if str(error) else ""
            outcome.set_exception(LibraryFault("0807", f"the future from Python has no value: {type(error).__name__}{words}"))

    source.add_done_callback(pass_on)
    return outcome
