"""The first two hundred random programs; `python -m tests.random_nests 2000` runs more."""

import pytest

from tests.random_nests import random_program, run

BATCH = 10


@pytest.mark.parametrize("first", range(0, 200, BATCH))
def test_python_interpreter_and_native_code_agree(first: int) -> None:
    for seed in range(first, first + BATCH):
        program = random_program(seed)
        try:
            run(program)
        except Exception as error:
            raise AssertionError(f"{program}\n{error}") from error


def test_programs_of_a_seed_are_the_same() -> None:
    assert [str(random_program(seed)) for seed in range(20)] == [str(random_program(seed)) for seed in range(20)]
