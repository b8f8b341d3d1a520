"""What a call has to know of futures before it may begin: whose faults nobody has asked for, and what work under way reads."""

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from runtime.lazy_numpy import Array


class Outcome(Protocol):
    """What a task comes to. `asked`: whether somebody has asked for it."""

    asked: bool

    def exception(self) -> BaseException | None: ...

    def add_done_callback(self, fn: Callable[[Any], object]) -> None: ...


class Pending(Protocol):
    """A future, as the program has it."""

    @property
    def source(self) -> Outcome: ...


READING: "dict[Any, tuple[tuple[Array, ...], bool]]" = {}
"""What work under way reads, by its outcome: arrays, and whether memory elsewhere."""


class Unawaited:
    """The futures of one program whose value nobody has asked for. Their faults must not be lost."""

    def __init__(self) -> None:
        self.futures: dict[Outcome, weakref.ref[Pending]] = {}
        """By what they come to: always this dictionary."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.futures)

    def note(self, future: Pending) -> None:
        self.futures[future.source] = weakref.ref(future)
        future.source.add_done_callback(self._forget_if_well)

    def _forget_if_well(self, outcome: Outcome) -> None:
        if outcome.exception() is None:
            self.futures.pop(outcome, None)

    def settle(self) -> None:
        """Waits for all of them, and raises the first fault, in the order of their beginnings."""
        for outcome in tuple(self.futures):
            self._show(outcome)

    def settle_dropped(self) -> None:
        """The same for those that are gone: nobody can ask for them any more. Those that were asked are forgotten."""
        for outcome, future in tuple(self.futures.items()):
            if future() is None or outcome.asked:
                self._show(outcome)

    def _show(self, outcome: Outcome) -> None:
        failure = outcome.exception()
        self.futures.pop(outcome, None)
        if failure is not None and not outcome.asked:
            outcome.asked = True
            raise failure
