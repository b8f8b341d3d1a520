"""Ctrl-C while compiled functions run: `with stoppable(): linked["engine.run"].run(...)`.

Python can't raise KeyboardInterrupt before the native code gives control back. A thread that hears of the signal fills a word of the
record of each run under way, at which loops without an end and functions that call themselves look (`polls.py`). The run then fails, and
Python raises what it had to."""

import ctypes
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

STOP = 2**64 - 1
"""What the word is filled with; no address of a stack."""
AGAIN = 0.001
"""Seconds until the word is filled once more: every entry into a module with functions that call themselves writes its own there."""

TIMES = 50
"""How often a listener fills it, where nobody says when the run is over."""

under_way: dict[int, ctypes.Array[ctypes.c_char]] = {}
"""The record of the run in each thread."""


@contextmanager
def stoppable() -> Iterator[None]:
    """While inside, a Ctrl-C stops compiled functions that the main thread runs. On other threads, and where the program that we are part
    of takes signals itself, nothing is different."""
    main = threading.main_thread()
    if threading.current_thread() is not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    done = threading.Event()

    def listen() -> None:
        while numbers := os.read(reader, 16):
            while signal.SIGINT in numbers and not done.is_set():
                record = under_way.get(main.ident or 0)
                if record is not None:
                    ctypes.c_uint64.from_buffer(record, 8).value = STOP
                done.wait(AGAIN)
        os.close(reader)

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield
    finally:
        done.set()
        signal.set_wakeup_fd(before, warn_on_full_buffer=False)
        os.close(writer)


_listening: list[int] = []
"""The end of the pipe to which this process writes its signals, while it listens by itself."""


def listen() -> None:
    """From here on a Ctrl-C stops compiled functions that the main thread runs, whose callers do a run again that was stopped too late.
    Where the program that we are part of takes signals itself, and on other threads, nothing is different."""
    main = threading.main_thread()
    if _listening or threading.current_thread() is not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    before = signal.set_wakeup_fd(-1)
    if before != -1:
        signal.set_wakeup_fd(before, warn_on_full_buffer=False)
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    _listening.append(writer)
    threading.Thread(target=_hear, args=(reader, main.ident or 0), daemon=True).start()


def _hear(reader: int, main: int) -> None:
    again = threading.Event()
    while numbers := os.read(reader, 16):
        if signal.SIGINT in numbers:
            for _ in range(TIMES):
                record = under_way.get(main)
                if record is not None:
                    ctypes.c_uint64.from_buffer(record, 8).value = STOP
                again.wait(AGAIN)


def _forked() -> None:
    """A child's signals aren't its parent's."""
    if _listening:
        signal.set_wakeup_fd(-1)
        _listening.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
