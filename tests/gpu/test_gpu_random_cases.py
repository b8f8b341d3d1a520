"""Random cases of every kernel kind on a GPU, against float64. Compiling takes nearly all the time, so processes share the cases."""

import os

import pytest

from tests.random_cases.running import outcomes

CASES = 500
PROCESSES = min(12, max(1, (os.cpu_count() or 1) - 2))


@pytest.mark.timeout(600)
def test_answers_are_right() -> None:
    wrong = [done.fault for done in outcomes(range(CASES), "cuda:0", PROCESSES) if done.fault]
    assert not wrong, f"{len(wrong)} of {CASES} cases are wrong:\n" + "\n".join(wrong[:5])
