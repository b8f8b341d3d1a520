"""Broken programs give coded messages and nothing else, quickly; `python -m tests.mutations 10000` tries many more."""

from tests.mutations import tally


def test_five_hundred_broken_programs_give_coded_messages_and_nothing_else() -> None:
    found = tally(500, seed=2026)
    assert not found.faults, found.faults[0]
    assert len(found.codes) > 20
    assert found.clean > 10
