"""Whole messages: each file under messages/ holds the cases of one code, a program and what is said of it."""

import re
from pathlib import Path

import pytest

from tests.typed_ast.checking import messages

FOLDER = Path(__file__).parent / "messages"
_CASE = re.compile(r"^## (?P<title>.+?)\n+```zynml\n(?P<program>.*?)```\n+```text\n(?P<message>.*?)```", re.DOTALL | re.MULTILINE)

CASES = [
    pytest.param(case["program"], case["message"], id=f"{path.stem}: {case['title']}")
    for path in sorted(FOLDER.glob("*.md"))
    for case in _CASE.finditer(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("program", "expected"), CASES)
def test_message_is(program: str, expected: str) -> None:
    assert messages(program) == expected.rstrip("\n")


def test_every_file_has_cases_of_its_code() -> None:
    for path in FOLDER.glob("*.md"):
        text = path.read_text(encoding="utf-8")
        cases = list(_CASE.finditer(text))
        assert len(cases) == text.count("\n## ") > 0, path.name
        assert all(f"[ZYN{path.stem}]" in case["message"] for case in cases), path.name
