"""A process beside ours that measures: what hangs or crashes there costs one row."""

import json
import queue
import subprocess
import sys
import threading
import time
from typing import Any

STARTING = 120.0
"""Seconds until the process has greeted."""

MARK = "\x1e"
"""In front of the lines that are for us."""


class Worker:
    """A process that measures one thing after another, and is lost when one of them crashes or hangs. It says what it knows in lines of
    JSON, the last of which has `done`."""

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", module, *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.greeting = self.answer({}, STARTING)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            if text.startswith(MARK):
                self.lines.put(text.removeprefix(MARK))
        self.lines.put(None)

    def measure(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"state": "crashed", "message": "the process is gone"}
        return self.answer({}, seconds)

    def answer(self, known: dict[str, Any], seconds: float) -> dict[str, Any]:
        """What the process says until it is done; what it had said where it ends or takes longer."""
        until = time.monotonic() + seconds
        while not known.get("done"):
            try:
                text = self.lines.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                self.stop()
                state = "wrong" if known.get("state") == "wrong" else "stopped"
                return known | {"state": state, "message": f"longer than {seconds:.0f} s"}
            if text is None:
                self.stop()
                return known | {"state": "crashed", "message": f"the process ended with {self.process.returncode}"}
            known |= json.loads(text)
        return known

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None


def say(**words: Any) -> None:
    """From the process to the one that started it."""
    print(MARK + json.dumps(words), flush=True)
