"""What was decided on each difference holds in every dialect that takes the program, but for those listed, which must still differ."""

import pytest

from tests.core.dialects import agrees, outcome
from tests.core.differences import DIFFERENCES, Difference

CASES = [(difference, dialect) for difference in DIFFERENCES for dialect in difference.dialects]


@pytest.mark.parametrize(("difference", "dialect"), CASES, ids=lambda value: value.name if isinstance(value, Difference) else value)
def test_dialect_gives_what_was_decided(difference: Difference, dialect: str) -> None:
    found, decided = outcome(dialect, difference.text + "\n", difference.arguments), difference.wanted(dialect)
    if dialect not in difference.today:
        assert agrees(found, decided), f"gives {found!r}, not {decided!r}"
        return
    assert not agrees(found, decided), f"gives {found!r} as decided: take it out of `today`"
    assert agrees(found, difference.today[dialect]), f"gives {found!r}, not {difference.today[dialect]!r} as listed"


def test_every_difference_has_a_program() -> None:
    assert {difference.name.split()[0] for difference in DIFFERENCES} == {f"D{number}" for number in range(1, 27)}
