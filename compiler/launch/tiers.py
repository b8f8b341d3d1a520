"""Tiers of machine code. A kernel with little to do answers its first launch by code of LLVM's shortest way, tier 0; code with all passes,
tier 1, is made by a thread beside the program and takes its place between two launches. Both have the same bits: what LLVM could decide
about floats is decided before (decision 0033), and kernels of which that isn't so begin in tier 1.

LLVM works in one thread at a time. So the thread waits until nothing new has been wanted for a moment: first calls that follow each other
don't wait for it."""

import atexit
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable

from compiler.backends.cpu.liberties import leaves_liberties
from compiler.hir.module import HirFunction, OptimizationLevel
from compiler.options import TIERS
from runtime import forks
from runtime.calls import answering  # noqa: F401 - what it does at the process's end follows `_end`
from runtime.records import frozen

AUTO, QUICK, BEST = TIERS

SMALL = 1 << 24
"""Inner steps of a launch from which tier 0 would take longer for them than tier 1 takes to be made: about 50 ms."""

QUIET = 0.02
"""Seconds without new work after which the thread begins."""


def why_best(tier: str, level: OptimizationLevel, function: HirFunction, work: int | None) -> str | None:
    """Why a kernel begins in tier 1, in words; None where it begins in tier 0. `work`: inner steps of its first launch, where known."""
    if tier == BEST:
        return "as it was asked for"
    if level is OptimizationLevel.O0:
        return "`-O0` leaves no passes out"
    if leaves_liberties(function):
        return "LLVM decides on the order of its sums"
    if tier == AUTO and (work is None or work > SMALL):
        return f"{work} inner steps are worth it" if work is not None else "its sizes aren't known"
    return None


@frozen(eq=False)
class LaterWork:
    """`do` is told whether the process ends; `failed` is told of what went wrong. `lasts`: it is also for processes to come."""

    do: Callable[[bool], None]
    failed: Callable[[Exception], None]
    lasts: bool = False


_WORK: deque[LaterWork] = deque()
"""What is to be done; the first is perhaps under way."""

_AT_END: list[LaterWork] = []
"""What is done when the process ends."""

_DOING = forks.quiet_lock()
"""Held while one is done: a process forks between two, for what the thread imports would never be there in the copy."""
_STARTING = forks.lock()
"""Held while it is found out whether a thread is needed, and while the thread finds out that it is not."""
_thread: threading.Thread | None = None
_wanted = 0.0


def later(work: LaterWork) -> None:
    """Has it done beside the program."""
    global _wanted
    _wanted = time.perf_counter()
    _WORK.append(work)
    wake()


def at_end(work: LaterWork) -> None:
    """Has it done when the process ends, unless it is interrupted."""
    _AT_END.append(work)


def wake() -> None:
    """Sees to it that a thread is at work, where there is any: a forked process has none."""
    global _thread
    if not _WORK:
        return
    with _STARTING:
        if _thread is None:
            _thread = threading.Thread(target=_work_beside, name="zyntax tiers", daemon=True)
            try:
                _thread.start()
            except RuntimeError:  # no more threads, or the interpreter ends: what runs goes on as it is
                _thread = None


def is_idle() -> bool:
    """Whether nothing is left to do."""
    return not _WORK


def finish() -> None:
    """Does here and now all that is to be done, and waits for the thread to be gone."""
    _take_last()
    while _WORK:
        _do_first(ending=False)
    if (beside := _thread) is not None:
        beside.join()


def _work_beside() -> None:
    global _thread
    while True:
        with _STARTING:
            if not _WORK:
                _thread = None
                return
        while (left := _wanted + QUIET - time.perf_counter()) > 0:
            time.sleep(left)
        _do_first(ending=False)


def _do_first(ending: bool) -> None:
    with _DOING:
        try:
            first = _WORK[0]
        except IndexError:
            return
        try:
            if first.lasts or not ending:
                first.do(ending)
        except Exception as error:
            first.failed(error)
        finally:
            if _WORK and _WORK[0] is first:
                _WORK.popleft()


@atexit.register
def _end() -> None:
    """The process waits for what LLVM has begun, which can't be stopped, and makes what other processes find in the cache; not so where
    somebody has interrupted it."""
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        with _DOING:
            _WORK.clear()
            _AT_END.clear()
    _take_last()
    while _WORK:
        _do_first(ending=True)


def _take_last() -> None:
    _WORK.extend(_AT_END)
    _AT_END.clear()


def _in_a_forked_process() -> None:
    """The thread isn't here, and what it had begun is done anew."""
    global _thread
    _thread = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_a_forked_process)
