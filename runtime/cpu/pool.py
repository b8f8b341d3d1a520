"""Teams of threads for parallel loops: libgomp where it loads, else a pool of Python threads that call native code (which
runs without the interpreter's lock).

A team belongs to the thread that began it, and a forked process has none of its threads: there the thread that forked would wait for them
for ever. Its parallel work is done from a thread of the new process, which begins a team of its own."""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from runtime.cpu import detect


@cache
def kind() -> str:
    """ "gomp" or "pool"."""
    return "gomp" if gomp_path() else "pool"


@cache
def gomp_path() -> str | None:
    """The name under which libgomp loads, None when it doesn't."""
    import sys

    if not sys.platform.startswith("linux"):
        return None
    with _short_waits():
        return _loaded("libgomp.so.1") or _loaded(_library_of_gomp())


SPINS = 100_000 // 45
"""Looks of a waiting thread for the next parallel loop before it sleeps: at most 100 microseconds, for a look takes 15 to 45 ns. By itself
libgomp looks for milliseconds, in which a program that does something else keeps all cores busy."""

_WAITS = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
"""Variables of the environment that say it to libgomp."""


@contextmanager
def _short_waits() -> Iterator[None]:
    """Libgomp reads the environment while it is loaded. What the user says there counts, and nothing is left there for other processes."""
    if any(name in os.environ for name in _WAITS):
        yield
        return
    os.environ[_WAITS[0]] = str(SPINS)
    try:
        yield
    finally:
        os.environ.pop(_WAITS[0], None)


def _library_of_gomp() -> str | None:
    import ctypes.util

    return ctypes.util.find_library("gomp")


def _loaded(name: str | None) -> str | None:
    if name is not None:
        with suppress(OSError):
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
            return name
    return None


_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


@cache
def _executor() -> Any:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(max(1, detect.cores() * 2), thread_name_prefix="zyntax")


def _run(body: int, context: int, count: int) -> None:
    call = _BODY(body)
    others = [_executor().submit(call, context, number, count) for number in range(1, count)]
    call(context, 0, count)
    for other in others:
        _waited_for(other)


def _waited_for(task: Any) -> Any:
    """What the task gives. Nothing may leave while native code still writes: a signal is raised again behind it."""
    interrupted = False
    while True:
        try:
            value = task.result()
            break
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        import _thread

        _thread.interrupt_main()
    return value


class _Forked:
    """`thread`: the one that forked, in the copy of the process; 0 where this is none. `flag` says for machine code whether it is one."""

    thread = 0
    flag = ctypes.c_int8(0)


def forked_flag() -> int:
    """The address of a byte that isn't 0 in a copy of a process."""
    return ctypes.addressof(_Forked.flag)


def from_own_thread(call: Callable[[int], int], address: int) -> int:
    """The call of native code that may begin a team, from a thread that can."""
    if _Forked.thread != threading.get_ident():
        return call(address)
    return int(_waited_for(_substitute().submit(call, address)))


@cache
def _substitute() -> Any:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(1, thread_name_prefix="zyntax-team")


def _in_a_forked_process() -> None:
    _Forked.thread = threading.get_ident()
    _Forked.flag.value = 1
    _executor.cache_clear()
    _substitute.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_a_forked_process)


@cache
def run_address() -> int:
    """Address of `void run(void (*body)(void *, i64 number, i64 count), void *context, i64 count)`."""
    callback = _RUN(_run)
    _kept.append(callback)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    return address


RUN = "zyntax_pool_run"
"""The symbol of that function."""

_kept: list[Any] = []
