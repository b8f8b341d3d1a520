"""The programs on the page about computing print what stands under them."""

from itertools import pairwise

import pytest

from tests.docs.examples import ROOT, Example, examples
from tests.quantdsl.host.running import printed

PAGE = examples(ROOT / "docs" / "quantdsl_computing.md")
PROGRAMS = [(program, output) for program, output in pairwise(PAGE) if program.language == "quantdsl" and output.language == "text"]


@pytest.mark.parametrize("program, output", PROGRAMS, ids=lambda example: example.name)
def test_a_program_prints_what_stands_there(program: Example, output: Example, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(program.text, capsys) == output.text


def test_programs_are_found() -> None:
    assert len(PROGRAMS) == sum(example.language == "quantdsl" for example in PAGE) == 2
