"""Program code that runs beside other program code: calls of `async` functions and the sides of `a & b`. Each gets a thread of its own
while there are few; of many, those that nobody has begun are done by whoever asks for them, so that tasks may wait for tasks."""

import atexit
import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runtime.futures import PendingValue, TaskOutcome
from runtime.lazy_numpy import np

THREADS = 64
"""Tasks that have a thread from their begin on."""
SECONDS_TO_STOP = 2.0
"""How long a process that ends waits for tasks that were told to stop."""


class HostOutcome(TaskOutcome):
    """What a task of program code comes to."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__()
        self._work: Callable[[], Any] | None = work
        self._claim = threading.Lock()

    def begin(self) -> None:
        with self._claim:
            work, self._work = self._work, None
        if work is None:
            return
        try:
            with np.errstate(all="ignore"):
                value = work()
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(value)

    def hurry(self) -> None:
        if self._work is not None:
            _with_thread(self)


_running: dict[threading.Thread, HostOutcome] = {}


def beside(work: Callable[[], Any]) -> PendingValue:
    """The future of what program code gives."""
    outcome = HostOutcome(work)
    if len(_running) < THREADS:
        _with_thread(outcome)
    return PendingValue(outcome)


def both(sides: Sequence[Callable[[], Any]]) -> tuple[Any, ...]:
    """The values of all sides, which run at once. Raises the first failure in their order, when all are done."""
    first, *others = sides
    started = [beside(side) for side in others]
    try:
        value, failure = first(), None
    except Exception as error:
        value, failure = None, error
    for future in started:
        future.ready()
        future.source.asked = True
    if failure is not None:
        raise failure
    return (value, *(future.value() for future in started))


def one_at_a_time(functions: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """These functions, of which only one runs at a time, whatever thread calls it."""
    lock = threading.RLock()

    def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any) -> Any:
            with lock:
                return function(*values)

        return call

    return {name: guarded(function) for name, function in functions.items()}


def stop() -> None:
    """Tells all tasks to stop, as an interruption does the program itself."""
    for thread in tuple(_running):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(KeyboardInterrupt))


def _with_thread(outcome: HostOutcome) -> None:
    def run() -> None:
        try:
            outcome.begin()
        finally:
            _running.pop(thread, None)

    thread = threading.Thread(target=run, daemon=True)
    _running[thread] = outcome
    thread.start()


@atexit.register
def _let_tasks_stop() -> None:
    """Tasks must not run on in a process that takes itself apart."""
    stop()
    for thread in tuple(_running):
        thread.join(SECONDS_TO_STOP)
