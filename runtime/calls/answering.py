"""Functions whose calls machine code answers, a piece of code in front of the one that answered until now."""

import atexit
import threading
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakSet

from runtime import forks
from runtime.calls.vectorcall import ENTRY, KEPT, VECTOR

FIRST, SLOWLY = "zyntax_call", "zyntax_call_slowly"
"""Symbols of the code that Python calls first, and of the way through the program."""

NEXT = "zyntax_next_call"
"""Symbol of the code for other calls."""

FORKED = "zyntax_forked"
"""Symbol of the byte that isn't 0 in a forked process."""

PLANS = 8
"""Plans of a function: kinds of arguments that are tried in turn."""

_LOCK: threading.Lock = forks.lock()


def put_in_front(target: Any, entries: Mapping[str, int], bring: Callable[[Mapping[str, int]], tuple[int, Any]]) -> None:
    """Has code answer calls of `target` from now on, a function with fields as `vectorcall_type` adds them. `entries`: where the code
    lies that all functions have. `bring` is given the addresses that the code goes on at, by their symbols. It tells where the code
    lies, and what must live as long as it does."""
    with _LOCK:
        after = {NEXT: getattr(target, f"_{ENTRY}") or entries[SLOWLY], SLOWLY: entries[SLOWLY], FORKED: forks.flag_address()}
        address, held = bring(after)
        # the code of calls that run in other threads stays, and so does what it refers to
        setattr(target, f"_{KEPT}", [*getattr(target, f"_{KEPT}", ()), held])
        setattr(target, f"_{ENTRY}", address)
        setattr(target, f"_{VECTOR}", entries[FIRST])
        _TARGETS.add(target)


_TARGETS: "WeakSet[Any]" = WeakSet()
"""The callables whose calls machine code answers."""


@atexit.register
def _without_machine_code() -> None:
    """What is called while the interpreter takes itself apart goes the way through the program: machine code may be gone by then."""
    for target in list(_TARGETS):
        setattr(target, f"_{VECTOR}", 0)
