"""Runs the tests of a fault in a copy of the tree, which has a cache of its own: kernels that were kept before don't hide a fault."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from attrs import define, frozen

from tests.faults.declared import ROOT, Fault, objections, planted

TEST_SECONDS = 120
"""After which a test counts as failed."""

SECONDS = 900
"""After which a run of tests is given up: that counts as a survivor, whatever failed before."""

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$", re.MULTILINE)


@frozen
class Verdict:
    """`caught`: every test failed. `words`: which didn't, or why the fault can't be planted. `failed`: the tests that failed."""

    fault: Fault
    caught: bool
    words: str
    failed: tuple[str, ...] = ()


@frozen
class Run:
    """What pytest said of some tests."""

    failed: tuple[str, ...]
    passed: bool
    output: str


@define
class Copy:
    """The files of the tree that git knows or doesn't ignore, in a folder of their own."""

    root: Path
    seconds: float = SECONDS

    @classmethod
    def of_tree(cls, folder: Path) -> "Copy":
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
        ).stdout.decode()
        root = folder / "tree"
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name)
        return cls(root)

    def verdict(self, fault: Fault) -> Verdict:
        """Plants the fault, runs its tests and takes the fault out."""
        if stale := objections(fault, self.root):
            return Verdict(fault, False, "stale: " + "; ".join(stale))
        path = self.root / fault.file
        before = path.read_bytes()
        try:
            self._write(path, planted(fault, before.decode()).encode())
            self._forget(tables=fault.file.startswith("grammars/"))
            runs = {test: self.run([test], first_only=True) for test in fault.tests}
        finally:
            self._write(path, before)
        silent = [test for test, run in runs.items() if not run.failed]
        failed = tuple(name for run in runs.values() for name in run.failed)
        if not silent:
            return Verdict(fault, True, "", failed)
        odd = [f"{test} can't run:\n{runs[test].output}" for test in silent if not runs[test].passed]
        return Verdict(fault, False, "\n".join(odd) or "survives " + ", ".join(silent), failed)

    def run(self, tests: list[str], first_only: bool = False) -> Run:
        """What pytest says of tests, or of the first that fails."""
        command = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", f"--timeout={TEST_SECONDS}"]
        command += ["-x"] if first_only else []
        environment = {**os.environ, "PYTHONPATH": str(self.root), "ZYNTAX_CACHE_DIR": str(self._cache), "COLUMNS": "400"}
        process = subprocess.Popen(
            [*command, *tests], cwd=self.root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        try:
            output = process.communicate(timeout=self.seconds)[0]
        except subprocess.TimeoutExpired:
            return Run((), False, f"more than {self.seconds} s")
        finally:
            _end(process)
        # 0: all passed, 1: tests failed; a test may end the process, too. Anything else, such as a file that can't be imported, says
        # nothing about a test.
        ended = process.returncode
        failed = _FAILED.findall(output) if ended == 1 else [f"signal {-ended}"] if ended < 0 else []
        return Run(tuple(failed), ended == 0, output[-3000:])

    @property
    def _cache(self) -> Path:
        return self.root.parent / "cache"

    def _forget(self, tables: bool) -> None:
        """Empties the cache; parser tables, which take long, go only where a fault is about them."""
        for entry in self._cache.glob("*"):
            if entry.is_file():
                entry.unlink()
            elif tables or entry.name != "grammars":
                shutil.rmtree(entry)

    def _write(self, path: Path, content: bytes) -> None:
        """A new modification time each, so that no byte code of another text of the same size is taken for this text's."""
        later = path.stat().st_mtime + 2
        path.write_bytes(content)
        os.utime(path, (later, later))


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a run and what its tests left running."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
