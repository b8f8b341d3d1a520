"""The command as a user has it: another folder, no terminal, and another process where that may matter."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zyntax import report
from zyntax.main import main

ROOT = Path(__file__).parent.parent.parent

Zyntax = Callable[..., "subprocess.CompletedProcess[str]"]

PROGRAMS = {
    "hello.zynml": 'println("hello")\n',
    "double.zynml": "param by: float = 2.0\nlet x = arange(0, 4)\nlet y = compute(x, by) { for i in 0..N: out[i] = x[i] * by as f32 }\nprintln(y)\n",
    "wrong.zynml": "let a = b\nlet c: int = 2.5\nlet d = 5q\n",
    "names.zynml": "println(one)\nprintln(1)\nprintln(two)\nprintln(three)\n",
    "fault.zynml": 'println("before")\nlet n = 0\nlet x = 1 / n\n',
    "warns.zynml": "let x = arange(0, 4)\nlet y = compute(x) { for i in 0..N: out[2 * i] = x[i] }\nprintln(y)\n",
    "cuda.zynml": 'let x = arange(0, 2)\nprintln("first")\nlet y = compute(x) @device("cuda:0") { for i in 0..N: out[i] = x[i] }\nprintln(y)\n',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with small programs."""
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def process(folder: Path) -> Zyntax:
    """Runs the command in that folder, as a user does."""

    def run(*arguments: str, typed: str | None = None, **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "zyntax", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            capture_output=True,
            input=typed,
            text=True,
            check=False,
            timeout=120,
        )

    return run


@pytest.fixture
def zyntax(process: Zyntax, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Zyntax:
    """As `process`, in this process where nothing is typed in and no variable is set: most of a short command's time goes into its start."""

    def run(*arguments: str, typed: str | None = None, **environment: str) -> "subprocess.CompletedProcess[str]":
        if typed is not None or environment:
            return process(*arguments, typed=typed, **environment)
        capfd.readouterr()
        with monkeypatch.context() as patch, pytest.raises(SystemExit) as ended:
            patch.setattr(report, "_current", [])
            patch.chdir(folder)
            main([*arguments])
        written = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, int(str(ended.value.code)), written.out, written.err)

    return run
