"""What was decided on each difference holds in every dialect that takes the program."""

import pytest

from tests.core.dialects import agrees, outcome
from tests.core.differences import DIFFERENCES, Difference

CASES = [(difference, dialect) for difference in DIFFERENCES for dialect in difference.dialects]


@pytest.mark.parametrize(("difference", "dialect"), CASES, ids=lambda value: value.name if isinstance(value, Difference) else value)
def test_dialect_gives_what_was_decided(difference: Difference, dialect: str) -> None:
    found, decided = outcome(dialect, difference.text + "\n", difference.arguments), difference.wanted(dialect)
    assert agrees(found, decided), f"gives {found!r}, not {decided!r}"


def test_every_difference_has_a_program() -> None:
    assert {difference.name.split()[0] for difference in DIFFERENCES} == {f"D{number}" for number in range(1, 27)}
