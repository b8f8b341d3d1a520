"""What a forked process keeps working with. A copy of a process has only the thread that forked: nobody there lets go of what other
threads held. Locks made here are open in the copy, and native code that isn't safe to copy half done is waited for before the fork."""

import os
import threading
from weakref import WeakSet

_LOCKS: "WeakSet[threading.Lock]" = WeakSet()


def lock() -> threading.Lock:
    """A lock that is open in a forked process, whoever held it. What it guards must make sense at any time, as caches do."""
    new_lock = threading.Lock()
    _LOCKS.add(new_lock)
    return new_lock


def quiet_lock() -> "threading.RLock":
    """A lock that nobody holds while a process forks: the fork waits. Of two, the outer one is made later."""
    new_lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        # hooks before a fork run in the order opposite to that of their registration
        os.register_at_fork(before=new_lock.acquire, after_in_parent=new_lock.release, after_in_child=new_lock.release)
    return new_lock


def _open() -> None:
    for each in list(_LOCKS):
        if each.locked():
            each._at_fork_reinit()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open)
