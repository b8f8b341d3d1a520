"""Calls on devices whose checks of indices the host has not read. They return before the device has run them: the host reads their checks
where it looks at a device anyway, before it sees or hands on any element, and raises the fault there. What a call made that failed is void
from then on: reading it raises the fault again."""

import atexit
import os
import sys
from collections.abc import Callable
from typing import Any, Protocol
from weakref import ref


class UnreadChecks(Protocol):
    """The calls of one stream."""

    def read(self) -> None:
        """Waits for the calls, forgets them, and raises the fault of the first that failed."""


UNREAD: dict[UnreadChecks, None] = {}
"""Those with calls, in the order of their first ones: always this dictionary."""

VOID: dict[int, tuple["ref[Any]", Callable[[], BaseException]]] = {}
"""Memory of results that are void, by its identity, and what makes the fault: always this dictionary."""


def settle() -> None:
    """Reads all checks. Raises the first fault."""
    for checks in tuple(UNREAD):
        checks.read()


def require_sound(memory: Any) -> None:
    """Raises the fault that nobody has read, or that left the memory void."""
    if UNREAD:
        settle()
    if VOID and (known := VOID.get(id(memory))) is not None:
        raise known[1]().with_traceback(None)


def make_void(memory: Any, fault: Callable[[], BaseException]) -> None:
    key = id(memory)
    VOID[key] = ref(memory, lambda _: VOID.pop(key, None)), fault


@atexit.register
def _at_exit() -> None:
    """Faults that nobody came to see are shown when the process ends."""
    while UNREAD:
        try:
            settle()
        except Exception as fault:
            print(fault, file=sys.stderr)


def _forget() -> None:
    UNREAD.clear()
    VOID.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
