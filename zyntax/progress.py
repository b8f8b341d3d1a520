"""What is going on, said on standard error while it takes more than a second: a spinner and a few words (`compiling the kernel at line
12`). Only where standard error is a terminal; elsewhere nothing is written and nothing (Rich, threads) is loaded."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, TextIO

QUIET_SECONDS = 1.0
"""Silence before the spinner comes."""


def wanted(stream: TextIO) -> bool:
    """Whether a spinner has a place there."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def showing() -> Iterator[Callable[[str], None]]:
    """Gives what a command tells its activities to; the spinner is gone at the end of the block."""
    if not wanted(sys.stderr):
        yield _nowhere
        return
    progress = Progress(sys.stderr)
    streams = sys.stdout, sys.stderr
    if sys.stdout.isatty():
        sys.stdout = Announced(sys.stdout, progress)
    sys.stderr = Announced(sys.stderr, progress)
    try:
        yield progress.now
    finally:
        sys.stdout, sys.stderr = streams
        progress.close()


def _nowhere(activity: str) -> None:
    """No terminal, no words."""


class Progress:
    """The spinner of one invocation. It appears after `quiet` seconds without output and goes away before any is written."""

    def __init__(self, stream: TextIO, quiet: float = QUIET_SECONDS) -> None:
        self.stream, self.quiet = stream, quiet
        self.activity = ""
        self._lock = threading.RLock()
        self._live: Any = None
        self._inside_a_line = False
        self._last_output = monotonic()
        self._closed = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def visible(self) -> bool:
        return self._live is not None

    def now(self, activity: str) -> None:
        """Something else goes on from here."""
        with self._lock:
            self.activity = activity
            if self._live is not None:
                self._live.update(_spinner(activity), refresh=True)

    def before(self, text: str) -> None:
        """Called before `text` is written: makes room, and counts the silence anew."""
        with self._lock:
            if text:
                self._inside_a_line = not text.endswith("\n")
            self._last_output = monotonic()
            self._vanish()

    def appear(self) -> None:
        """Shows the spinner, unless it would tear a line that the program has begun."""
        with self._lock:
            if self._closed.is_set() or self._live is not None or self._inside_a_line or not self.activity:
                return
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self.stream)
            self._live = Live(_spinner(self.activity), console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
            self._live.start(refresh=True)

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            self._vanish()

    def _vanish(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _watch(self) -> None:
        while not self._closed.wait(self.quiet if self.visible else max(0.05, self._last_output + self.quiet - monotonic())):
            if monotonic() >= self._last_output + self.quiet:
                self.appear()


class Announced:
    """A stream that says so before it writes; else it is the stream."""

    def __init__(self, stream: TextIO, progress: Progress) -> None:
        self._stream, self._progress = stream, progress

    def write(self, text: str) -> int:
        self._progress.before(text)
        return self._stream.write(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _spinner(activity: str) -> Any:
    from rich.spinner import Spinner
    from rich.text import Text

    return Spinner("dots", Text(activity))
