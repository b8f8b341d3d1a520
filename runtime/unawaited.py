"""What a call has to know of futures before it may begin: whose faults nobody has asked for, and what work under way reads."""

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import concurrent.futures

    from runtime.futures import PendingValue, TaskOutcome
    from runtime.lazy_numpy import Array

READING: "dict[TaskOutcome, tuple[tuple[Array, ...], bool]]" = {}
"""What work under way reads: arrays, and whether memory elsewhere."""


class Unawaited:
    """The futures of one program whose value nobody has asked for. Their faults must not be lost."""

    def __init__(self) -> None:
        self.futures: dict[TaskOutcome, weakref.ref[PendingValue]] = {}
        """By what they come to: always this dictionary."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.futures)

    def note(self, future: "PendingValue") -> None:
        self.futures[future.source] = weakref.ref(future)
        future.source.add_done_callback(self._forget_if_well)

    def _forget_if_well(self, outcome: "concurrent.futures.Future[Any]") -> None:
        if outcome.exception() is None:
            self.futures.pop(outcome, None)  # type: ignore[call-overload]

    def settle(self) -> None:
        """Waits for all of them, and raises the first fault, in the order of their beginnings."""
        for outcome in tuple(self.futures):
            self._show(outcome)

    def settle_dropped(self) -> None:
        """The same for those that are gone: nobody can ask for them any more. Those that were asked are forgotten."""
        for outcome, future in tuple(self.futures.items()):
            if future() is None or outcome.asked:
                self._show(outcome)

    def _show(self, outcome: "TaskOutcome") -> None:
        failure = outcome.exception()
        self.futures.pop(outcome, None)
        if failure is not None and not outcome.asked:
            outcome.asked = True
            raise failure
