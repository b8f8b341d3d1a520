"""Each page `0101.md` holds pairs of fenced blocks: a program (```quantdsl, ```zynml, ```zynml run for what shows only when it runs, or
```zynml sanitize for what `--sanitize` finds) and all its messages (```text)."""

import re
from pathlib import Path

import pytest

from tests.errors.conftest import diagnose

_PAIR = re.compile(r"^```(zynml|quantdsl)( run| sanitize)?\n(.*?)^```\n\s*^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _cases() -> list[object]:
    found = []
    for page in sorted(Path(__file__).parent.glob("*.md")):
        for number, (language, run, program, expected) in enumerate(_PAIR.findall(page.read_text(encoding="utf-8")), 1):
            found.append(pytest.param(language, run.strip(), program, expected, page.stem, id=f"{page.stem}-{number}"))
    return found


@pytest.mark.parametrize(("language", "run", "program", "expected", "code"), _cases())
def test_program_is_refused_with_these_messages(language: str, run: str, program: str, expected: str, code: str) -> None:
    assert diagnose(program, bool(run), run == "sanitize", language) == expected.rstrip("\n")
    assert not code.isdigit() or f"ZYN{code}" in expected


def test_every_page_holds_as_many_messages_as_programs() -> None:
    for page in Path(__file__).parent.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert len(_PAIR.findall(text)) == text.count("```zynml") + text.count("```quantdsl") > 0, page.name
