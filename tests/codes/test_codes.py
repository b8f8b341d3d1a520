"""The registry of error codes: complete, true, and the source of docs/errors.md."""

import re
from pathlib import Path

import pytest

from compiler.codes import CODES, FAMILIES, digits_of
from compiler.codes.entry import Code
from compiler.codes.page import markdown
from tests.errors.conftest import diagnose

ROOT = Path(__file__).parents[2]
FOLDERS = ("compiler", "grammars", "quantdsl", "runtime", "zynml", "zyntax")
_QUOTED = re.compile(r'"(0[1-9]\d\d)"')
_SHOWN = re.compile(r"^(?:error|warning|note)\[ZYN(\d{4})\]", re.MULTILINE)

TESTED_ELSEWHERE = {"0110", "0211", "0416", "0505", "0506", "0607", "0622", "0805", "0809", "0811", "0812", "0901", "0902"}
"""Codes that no program's text leads to: tests/test_bad_input.py shows the messages of 0809 and 0901, tests/zyntax those of 0505, tests/quantdsl/run that of 0811,
tests/quantdsl/engine those of 0812, tests/zynml/test_modules.py those of 0211 and 0622, tests/interop/test_programs.py that of 0607, tests/test_extras.py those of 0506; 0805 takes a failing GPU;
tests/emulator/test_interpret_hopper.py shows those of 0416, and tests/language_api those of 0110 and 0902."""


def _used() -> set[str]:
    files = (p for folder in FOLDERS for p in (ROOT / folder).rglob("*.py") if ROOT / "compiler" / "codes" not in p.parents)
    return {found for file in files for found in _QUOTED.findall(file.read_text(encoding="utf-8"))}


def test_every_code_in_the_sources_is_registered() -> None:
    assert _used() - set(CODES) == set()


def test_every_registered_code_is_used_or_says_why_not() -> None:
    assert {number for number, code in CODES.items() if not code.absent} - _used() == set()


def test_what_is_said_never_to_be_raised_is_not_in_the_sources() -> None:
    assert {number for number, code in CODES.items() if code.absent} & _used() == set()


def test_codes_stand_in_order_under_their_own_number() -> None:
    numbers = [code.number for family in FAMILIES.values() for code in family]
    assert numbers == sorted(set(numbers)) == list(CODES)


def test_every_code_that_can_be_raised_has_a_page_of_messages() -> None:
    pages = {page.stem for page in (ROOT / "tests" / "errors").glob("0*.md")}
    expected = {number for number, code in CODES.items() if not code.absent} - TESTED_ELSEWHERE
    assert pages == expected


def test_every_code_that_can_be_raised_has_both_programs() -> None:
    without = {number for number, code in CODES.items() if not (code.wrong and code.right)}
    assert without == {number for number, code in CODES.items() if code.absent} | TESTED_ELSEWHERE


@pytest.mark.parametrize("code", [code for code in CODES.values() if code.wrong], ids=lambda code: code.number)
def test_wrong_program_gives_its_code_and_right_one_gives_nothing(code: Code) -> None:
    assert _SHOWN.findall(diagnose(code.wrong, code.runs, code.sanitize, code.language)) == [code.number]
    assert diagnose(code.right, code.runs, code.sanitize, code.language) == ""


def test_right_programs_of_faults_at_compile_time_run_too() -> None:
    for code in CODES.values():
        if code.right and code.language == "zynml" and not (code.runs or code.sanitize):
            assert diagnose(code.right, run=True) == "", code.number


def test_the_error_index_is_up_to_date() -> None:
    assert (ROOT / "docs" / "errors.md").read_text(encoding="utf-8") == markdown()


@pytest.mark.parametrize("text", ["0404", "404", "ZYN0404", "zyn0404", " zyn404 "])
def test_a_code_is_found_by_its_number_however_written(text: str) -> None:
    assert digits_of(text) == "0404"
