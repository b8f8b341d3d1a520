"""Spoilt market data loses no row without a count; `python -m tests.data_mutations 2000` tries many more."""

from tests.data_mutations import tally


def test_fifty_spoilt_files_lose_nothing_without_a_count() -> None:
    found = tally(50, seed=2026)
    assert not found.faults, found.faults[0]
    assert found.ends["skip: ran"] > 20 and found.ends["stop: stopped"] > 20 and len(found.reasons) > 4
