"""The rows that `checks.spread` makes of several choices."""

import itertools

import pytest

from tests.kernels.checks import EXHAUSTIVE, spread


@pytest.mark.skipif(EXHAUSTIVE, reason="an exhaustive run has all combinations")
@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("lengths", [*itertools.product((1, 2, 3, 5), repeat=3), (8, 5, 5), (6, 4, 2, 3), (7, 1, 7, 5)], ids=str)
def test_every_value_occurs_and_choices_of_one_length_are_paired_differently(lengths: tuple[int, ...], seed: int) -> None:
    rows = spread(*map(range, lengths), seed=seed)
    assert len(rows) == max(lengths)
    assert [{*column} for column in zip(*rows, strict=True)] == [{*range(length)} for length in lengths]
    for (a, first), (b, second) in itertools.combinations(enumerate(lengths), 2):
        if first == second == 5 < len(rows):
            assert len({(row[a] - row[b]) % 5 for row in rows}) == 5
