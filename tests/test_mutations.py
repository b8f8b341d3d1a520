"""Broken programs of every language give coded messages and nothing else, quickly; `python -m tests.mutations 10000` tries many more."""

from contextlib import suppress
from pathlib import Path

import pytest

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.language import Language
from compiler.languages import language_named, languages
from tests import mutations
from tests.mutations import Tally, programs, tally

COUNTS = {"zynml": 500, "quantdsl": 150, "imagepipe": 60}


def test_every_language_of_ours_is_tried() -> None:
    assert {language.name for language in languages()} >= set(COUNTS)
    for name in COUNTS:
        assert len(programs(language_named(name))) >= 6


@pytest.mark.parametrize("name", COUNTS)
def test_broken_programs_give_coded_messages_and_nothing_else(name: str) -> None:
    found = tally(language_named(name), COUNTS[name], seed=2026)
    assert not found.faults, found.faults[0]
    assert found.count == COUNTS[name]
    assert len(found.codes) > 3
    assert found.clean > 1


def _tried(check: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    language: Language = language_named("quantdsl")
    monkeypatch.setattr(language.front, "check", check, raising=False)
    found = Tally(language)
    found.add(b"", tmp_path)
    return [what for what, _ in found.faults]


def test_an_internal_fault_is_a_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def check(*given: object) -> None:
        raise ZyntaxError(Diagnostic("0901", "the verifier rejects this"))

    assert _tried(check, monkeypatch, tmp_path) == ["an internal fault"]


def test_another_exception_is_a_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def check(*given: object) -> None:
        raise KeyError("x")

    (what,) = _tried(check, monkeypatch, tmp_path)
    assert what.startswith("KeyError: 'x' (test_mutations.py:")


def test_a_check_that_does_not_end_is_a_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(mutations, "LIMIT_S", 0.05)

    def check(*given: object) -> None:
        while True:
            with suppress(Exception):
                pass

    (what,) = _tried(check, monkeypatch, tmp_path)
    assert what.startswith("over 0.05 s (")
