"""A side of a comparison: a process of its own, which stands still while the others have their turns."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class StoppedProcess:
    """A worker, which says a line once it is ready, and answers each line that it is given by one. It is stopped but for its turns."""

    def __init__(self, python: str, script: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        command, pipe = [python, str(script), *arguments], subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **environment})
        assert self.process.stdout is not None
        self.is_ready = bool(self.process.stdout.readline())
        if self.is_ready:
            self.process.send_signal(signal.SIGSTOP)

    def answer(self, words: str) -> str:
        """What it answers in its turn. Raises SystemExit where it ends instead."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(f"{words}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(self.why())
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def why(self) -> str:
        """Why it isn't ready, or has ended."""
        assert self.process.stderr is not None
        return (self.process.stderr.read().strip().splitlines() or ["it ended without a word"])[-1]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
