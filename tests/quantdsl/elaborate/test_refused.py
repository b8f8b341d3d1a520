"""`refused.md` holds pairs of a program and all its messages, of what shows when it is compiled."""

import re
from pathlib import Path

import pytest

from compiler.diagnostics import ZyntaxError, render
from compiler.source import Source, Sources
from quantdsl.check.program import check_program
from quantdsl.elaborate import elaborate
from quantdsl.parse import parse_source

PAGE = Path(__file__).parent / "refused.md"
PAIRS = re.findall(r"^```quantdsl\n(.*?)^```\n\s*^```text\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("program", "expected"), PAIRS)
def test_programs_with_their_messages(program: str, expected: str) -> None:
    source = Source("program.qdsl", program)
    checked = check_program(parse_source(source))
    assert not checked.diagnostics.errors
    with pytest.raises(ZyntaxError) as refused:
        elaborate(checked)
    assert "\n\n".join(render(found, Sources(source)) for found in refused.value.diagnostics) == expected.rstrip("\n")


def test_every_program_has_its_messages() -> None:
    assert len(PAIRS) == PAGE.read_text(encoding="utf-8").count("```quantdsl") > 15
