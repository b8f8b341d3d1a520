"""Programs, each one text, give the same in both languages."""

import pytest

from tests.core.dialects import agrees, outcome, zynml_words
from tests.core.method_programs import METHOD_PROGRAMS
from tests.core.program import Program
from tests.core.record_programs import RECORD_PROGRAMS
from tests.core.scalar_programs import SCALAR_PROGRAMS

PROGRAMS = (*SCALAR_PROGRAMS, *RECORD_PROGRAMS, *METHOD_PROGRAMS)


@pytest.mark.parametrize("dialect", ["Z", "H", "N"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_program_gives_the_same_in_both_languages(program: Program, dialect: str) -> None:
    text = (zynml_words(program.text) if dialect == "Z" else program.text) + "\n"
    for arguments, expected in program.calls:
        found = outcome(dialect, text, arguments)
        assert agrees(found, expected), f"f{arguments} gives {found!r}, not {expected!r}"


def test_names_are_distinct() -> None:
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)
