"""What a forked process keeps working with. A copy of a process has only the thread that forked: nobody there lets go of what other
threads held. Locks made here are open in the copy, and native code that isn't safe to copy half done is waited for before the fork."""

import ctypes
import os
import threading
from weakref import WeakSet

_LOCKS: "WeakSet[threading.Lock]" = WeakSet()
_QUIET: list[threading.RLock] = []
_TAKEN: list[list[threading.RLock]] = []
"""What each fork that is under way holds."""


def lock() -> threading.Lock:
    """A lock that is open in a forked process, whoever held it. What it guards must make sense at any time, as caches do."""
    new_lock = threading.Lock()
    _LOCKS.add(new_lock)
    return new_lock


def quiet_lock() -> threading.RLock:
    """A lock that nobody holds while a process forks: the fork waits. Threads may take several in any order that they agree on."""
    new_lock = threading.RLock()
    _QUIET.append(new_lock)
    return new_lock


def _take_all() -> None:
    """Holds every quiet lock. Another thread may hold one and need a second to let go of it: so nothing is held while one is waited for."""
    first = 0
    while True:
        order = [*_QUIET[first:], *_QUIET[:first]]
        taken: list[threading.RLock] = []
        try:
            for each in order:
                if not each.acquire(blocking=not taken):
                    first = _QUIET.index(each)
                    break
                taken.append(each)
            else:
                _TAKEN.append(order)
                taken = []
                return
        finally:
            for each in taken:
                each.release()


def _release_all() -> None:
    for each in _TAKEN.pop() if _TAKEN else ():
        each.release()


_FORKED = ctypes.c_int8(0)


def flag_address() -> int:
    """The address of a byte that isn't 0 in a copy of a process."""
    return ctypes.addressof(_FORKED)


def _open() -> None:
    _FORKED.value = 1
    for each in list(_LOCKS):
        if each.locked():
            each._at_fork_reinit()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take_all, after_in_parent=_release_all, after_in_child=_release_all)
    os.register_at_fork(after_in_child=_open)
