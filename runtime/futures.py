"""Futures: values that are on their way, and the few threads that bring them. Work is handed over whole: what a task reads is held, and
whoever wants to write there waits until the task has read it, so that no result depends on which of the two is quicker."""

import atexit
import concurrent.futures
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from runtime.lazy_numpy import Array, np
from runtime.unawaited import READING

WORKERS = 4
"""Tasks that run at a time. Kernels spread over all cores by themselves: more would only get into each other's way."""


class TaskOutcome(concurrent.futures.Future[Any]):
    """What a task comes to. `asked`: somebody has asked for it, and was told."""

    asked = False

    def begin(self) -> None:
        """Does the work here and now, if it is one that anybody may do and nobody has begun it."""

    def hurry(self) -> None:
        """Has the work begun elsewhere, if it isn't."""

    def reopen(self) -> None:
        """In a forked process: nobody holds it or waits for it there."""
        self._condition = threading.Condition()
        self._waiters: list[Any] = []


class NotReady(Exception):
    """The time that somebody would wait is over."""


class PendingValue:
    """A value that somebody else is making. `finish` makes it from what `source` brings, once, on the thread that first asks."""

    __slots__ = ("__weakref__", "_finish", "_known", "source")

    def __init__(self, source: TaskOutcome, finish: Callable[[Any], Any] | None = None) -> None:
        self.source, self._finish = source, finish
        self._known: Callable[[], Any] | None = None

    def done(self) -> bool:
        """Whether `value` would answer at once."""
        return self.source.done()

    def ready(self, seconds: float | None = None) -> bool:
        """Waits until it is done, at most so long, and says whether it is."""
        if seconds is None:
            self.source.begin()
        else:
            self.source.hurry()
        return self.source.done() or bool(concurrent.futures.wait((self.source,), seconds).done)

    def value(self, seconds: float | None = None) -> Any:
        """The value, the same each time. Raises NotReady after that time, or whatever went wrong in the making."""
        if self._known is None:
            if not self.ready(seconds):
                raise NotReady
            self.source.asked = True
            self._known = _settled(self.source, self._finish)
        return self._known()

    def then(self, finish: Callable[[Any], Any]) -> "PendingValue":
        """The future of `finish(value)`."""
        return PendingValue(self.source, lambda _: finish(self.value()))


def _settled(source: TaskOutcome, finish: Callable[[Any], Any] | None) -> Callable[[], Any]:
    try:
        result = source.result()
        value = result if finish is None else finish(result)
    except Exception as error:
        failure = error
        return lambda: _raise(failure)
    return lambda: value


def _raise(error: Exception) -> Any:
    raise error


def all_values(futures: Iterable[PendingValue], seconds: float | None = None) -> list[Any]:
    """The values of all, in their order; the time counts for all together. Raises the first failure in that order."""
    end = None if seconds is None else time.monotonic() + seconds
    return [future.value(None if end is None else max(0.0, end - time.monotonic())) for future in futures]


def first(futures: Sequence[PendingValue], seconds: float | None = None) -> int:
    """The position of one that is done; of several the first in order. Raises NotReady."""
    if not any(future.done() for future in futures):
        for future in futures:
            future.source.hurry()
        concurrent.futures.wait([future.source for future in futures], seconds, concurrent.futures.FIRST_COMPLETED)
    position_ = next((position for position, future in enumerate(futures) if future.done()), None)
    if position_ is None:
        raise NotReady
    return position_


def completed(work: Callable[[], Any]) -> PendingValue:
    """The future of work that is done here and now; what it raises waits to be asked for."""
    outcome = TaskOutcome()
    try:
        outcome.set_result(work())
    except Exception as error:
        outcome.set_exception(error)
    return PendingValue(outcome)


def started(work: Callable[[], Any], reads: Iterable[Array] = (), elsewhere: bool = False) -> PendingValue:
    """The future of work that a thread does beside the caller's. `reads`: arrays that nobody may change before it is done;
    `elsewhere`: it reads memory of devices, too."""
    outcome = TaskOutcome()
    READING[outcome] = tuple(reads), elsewhere
    _UNDER_WAY[outcome] = work
    _CREW.hand_over(outcome, work)
    return PendingValue(outcome)


def before_write(array: Array) -> None:
    """Returns when no work under way reads this memory any more."""
    if READING:
        for outcome, (arrays, _) in tuple(READING.items()):
            if any(np.may_share_memory(array, other) for other in arrays):
                concurrent.futures.wait((outcome,))


def before_device_write() -> None:
    """The same for memory of devices, of which nobody keeps account here: returns when no work under way reads any."""
    if READING:
        concurrent.futures.wait([outcome for outcome, (_, elsewhere) in tuple(READING.items()) if elsewhere])


def under_way() -> bool:
    """Whether any work isn't done yet."""
    return bool(READING)


_UNDER_WAY: dict[TaskOutcome, Callable[[], Any]] = {}
"""The tasks that aren't done, in their order."""


class _Crew:
    """Threads that take tasks in their order. They don't keep a process alive: who ends it early ends them, too."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[tuple[TaskOutcome, Callable[[], Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = self._unfinished = 0

    def hand_over(self, outcome: TaskOutcome, work: Callable[[], Any]) -> None:
        with self._lock:
            self._unfinished += 1
            if self._threads < min(self._unfinished, WORKERS):
                self._threads += 1
                threading.Thread(target=self._serve, name=f"zyntax-{self._threads}", daemon=True).start()
        self._tasks.put((outcome, work))

    def _serve(self) -> None:
        while True:
            self._do(*self._tasks.get())
            with self._lock:
                self._unfinished -= 1

    def _do(self, outcome: TaskOutcome, work: Callable[[], Any]) -> None:
        try:
            value = work()
        except BaseException as error:
            del READING[outcome]
            outcome.set_exception(error)
        else:
            del READING[outcome]
            outcome.set_result(value)
        del _UNDER_WAY[outcome]


_CREW = _Crew()


def _in_a_forked_process() -> None:
    """A copy of this process has none of its threads: what they were doing is begun again. A task changes nothing but its own value, and
    nobody has changed what it reads."""
    global _CREW
    _CREW = _Crew()
    for outcome, work in tuple(_UNDER_WAY.items()):
        outcome.reopen()
        if outcome.done():
            READING.pop(outcome, None)
            del _UNDER_WAY[outcome]
        else:
            READING.setdefault(outcome, ((), True))
            _CREW.hand_over(outcome, work)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_a_forked_process)


@atexit.register
def _let_work_end() -> None:
    """Kernels must not run on in a process that takes itself apart."""
    with suppress(KeyboardInterrupt):
        concurrent.futures.wait(tuple(READING))
