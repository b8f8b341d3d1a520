"""The team of threads that parallel loops are shared out to: one for the process. A region that a thread begins while the team works for
another one is done by that thread alone. A forked process has none of the team's threads: it begins a team of its own.

Where Linux runs, what a region costs is machine code (`team_code`), which is made when the first region begins, and kept in the user's
cache. Elsewhere Python's threads call the chunks, which run without the interpreter's lock."""

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

from runtime import forks
from runtime.cpu import detect
from runtime.cpu.team_code import FIELDS, PROCESSORS, RUN, SIZE, WORK, text

SPINS = 100_000 // 50
"""Looks of a waiting thread for the next region before it sleeps: at most 100 microseconds, for a look takes 15 to 50 ns."""

_FOR_EVER = 1 << 62
_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_REGION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
_GROW = ctypes.CFUNCTYPE(None, ctypes.c_int64)
_LOCK = forks.lock()


class _Team:
    """The team's memory, and what its threads and the callers need as long as the process lives."""

    def __init__(self) -> None:
        self.memory = ctypes.create_string_buffer(SIZE + 64)
        self.start = ctypes.addressof(self.memory) + 63 & ~63
        self.begins, self.grows, self.shares = _REGION(_begin), _GROW(_grow), _REGION(_share)
        self.code: Any = None
        self.worker = 0
        self.place("run").value = _address(self.begins)
        self.place("grow").value = _address(self.grows)
        self.place("spins").value = spins()
        for kept in (self, self.memory):
            # threads use them until the process ends, behind the interpreter's own end
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))

    def place(self, field: str) -> ctypes.c_int64:
        return ctypes.c_int64.from_address(self.start + FIELDS[field])


@cache
def _team() -> _Team:
    return _Team()


def address() -> int:
    """Where the address lies of `void run(void (*body)(void *context, i64 number, i64 count), void *context, i64 count)`, which has the
    team do the chunks."""
    return _team().start


SYMBOL = "zyntax_team"
"""The symbol of that place."""


def spins() -> int:
    """How often a thread looks for the next region, as the environment says it to libgomp."""
    count = os.environ.get("GOMP_SPINCOUNT", "").strip().lower()
    if count.isdecimal():
        return min(int(count), _FOR_EVER)
    if count in ("infinite", "infinity"):
        return _FOR_EVER
    return {"passive": 0, "active": _FOR_EVER}.get(os.environ.get("OMP_WAIT_POLICY", "").strip().lower(), SPINS)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


# ---- called by machine code ----


def _begin(body: int, context: int, count: int) -> None:
    """The first region: makes the machine code of all others."""
    team = _team()
    _uninterrupted(lambda: _make(team))
    _REGION(team.place("run").value)(body, context, count)


def _make(team: _Team) -> None:
    with _LOCK:
        if team.place("run").value != _address(team.begins):
            return
        found = None
        with suppress(OSError, RuntimeError, ValueError):
            found = _machine_code(team)
        if found is None:
            team.place("run").value = _address(team.shares)
            return
        run, team.worker, team.code = found
        allowed = sum(1 << processor for processor in os.sched_getaffinity(0) if processor < 8 * PROCESSORS)
        ctypes.memmove(team.start + FIELDS["processors"], allowed.to_bytes(PROCESSORS, "little"), PROCESSORS)
        team.place("run").value = run


def _machine_code(team: _Team) -> tuple[int, int, Any] | None:
    """Where it lies, and what keeps it there. From the user's cache where it is."""
    module = text(os.uname().machine) if sys.platform == "linux" else None
    if module is None:
        return None
    from runtime.cache.identity import compiler_identity
    from runtime.cache.store import key_of, store
    from runtime.cpu.image import CodeImage, NotPortable, ObjectToLink, put_together

    fields = {field: team.start + offset for field, offset in FIELDS.items()}
    kept, key = store(), key_of([_HOLDS, compiler_identity(), os.uname().machine])
    entry = kept.get(key) if kept is not None else None
    if entry is not None:
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            loaded = CodeImage.of(*entry).loaded(fields)
            return loaded.addresses[RUN], loaded.addresses[WORK], loaded
    from runtime.cpu import load

    made = load.CompiledModule(module, load.target(None, None, None, 1), load.QUICK, {}, True)
    try:
        image = put_together([ObjectToLink(made.object, {RUN: RUN, WORK: WORK})], [RUN, WORK])
    except NotPortable:
        addresses, tracker = made.addresses([RUN, WORK], fields)
        return addresses[RUN], addresses[WORK], tracker
    if kept is not None:
        kept.put(key, image.as_json(), image.code, _HOLDS)
    loaded = image.loaded(fields)
    return loaded.addresses[RUN], loaded.addresses[WORK], loaded


_HOLDS = "team of threads"


def _grow(wanted: int) -> None:
    """Begins threads until there are so many besides the caller. Where the system gives none, the callers do without."""
    _uninterrupted(lambda: _begin_threads(_team(), wanted))


def _begin_threads(team: _Team, wanted: int) -> None:
    import signal

    create = ctypes.CDLL(None).pthread_create
    create.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    with _LOCK:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # signals are for the threads of the program
        try:
            while team.place("workers").value < wanted:
                team.place("workers").value += 1
                if create(ctypes.byref(ctypes.c_uint64()), None, team.worker, None):
                    team.place("workers").value = max(wanted, team.place("workers").value)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _uninterrupted(work: Callable[[], None]) -> None:
    """Does it to its end, for native code waits for it. A signal is raised again behind it."""
    interrupted = False
    while True:
        try:
            work()
            break
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        import _thread

        _thread.interrupt_main()


# ---- where there is no machine code for it ----


@cache
def _executor() -> Any:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(max(1, detect.cores() * 2), thread_name_prefix="zyntax")


def _share(body: int, context: int, count: int) -> None:
    call = _BODY(body)
    others = [_executor().submit(call, context, number, count) for number in range(1, count)]
    call(context, 0, count)
    for other in others:
        _uninterrupted(other.result)


def _in_a_forked_process() -> None:
    _executor.cache_clear()
    if _team.cache_info().currsize:
        for field in ("workers", "untaken", "busy", "asleep"):
            _team().place(field).value = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_a_forked_process)
