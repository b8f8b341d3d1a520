"""The command as a user has it: another process, another folder, no terminal."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

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
def zyntax(folder: Path) -> Zyntax:
    """Runs the command in that folder."""

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
