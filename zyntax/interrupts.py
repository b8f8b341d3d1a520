"""Ctrl-C while native code runs. Python raises KeyboardInterrupt only between its own instructions, which a long kernel or a large
matrix product keeps it from reaching: after a moment's patience a watcher ends the process instead."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

PATIENCE = 0.3
"""Seconds that the main thread has to notice a Ctrl-C by itself."""


@contextmanager
def noticed() -> Iterator[None]:
    """While inside, the main thread notices a Ctrl-C by itself, and may take its time to leave things in order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before, warn_on_full_buffer=False)


@contextmanager
def watched(leave: Callable[[FrameType | None], None]) -> Iterator[None]:
    """While inside, a Ctrl-C that the main thread doesn't notice soon calls `leave`, with that thread's frame, on another thread."""
    main = threading.main_thread()
    if threading.current_thread() is not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    done = threading.Event()

    def watch() -> None:
        while numbers := os.read(reader, 16):
            if signal.SIGINT in numbers and not done.wait(PATIENCE):
                leave(sys._current_frames().get(main.ident or 0))
        os.close(reader)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        done.set()
        signal.set_wakeup_fd(before)
        os.close(writer)
