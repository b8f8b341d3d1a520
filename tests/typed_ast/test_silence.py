"""Correct programs, of which the checker must say nothing."""

import re
from pathlib import Path

import pytest

from tests.typed_ast.checking import messages

_CASE = re.compile(r"^## (?P<title>.+?)\n+```zynml\n(?P<program>.*?)```", re.DOTALL | re.MULTILINE)
CORRECT = [
    pytest.param(case["program"], id=case["title"])
    for case in _CASE.finditer((Path(__file__).parent / "correct.md").read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("program", CORRECT)
def test_nothing_is_said_of(program: str) -> None:
    assert messages(program) == ""


REAL = sorted((Path(__file__).parents[2] / "programs" / "zynml").glob("*.zynml"))


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_nothing_is_said_of_the_program(path: Path) -> None:
    assert messages(path.read_text(encoding="utf-8")) == ""
