"""Recorded choices are those of the generators that they stand for; what fails becomes smaller, and fails as before."""

import random

import numpy as np
import pytest

from tests.random_cases.case import Case
from tests.random_cases.running import random_case
from tests.random_nests.families import random_program
from tests.random_nests.writer import RandomProgram
from tests.shrinking import Choices, RecordedGenerator, RecordedRandom, require_passing, smallest


def three_below_100(choices: Choices) -> list[int]:
    chance = RecordedRandom(1, choices)
    return [chance.randrange(100) for _ in range(chance.randrange(3, 20))]


def test_recorded_choices_are_those_of_the_generator() -> None:
    ours, theirs = RecordedRandom(7, Choices()), random.Random(7)
    for _ in range(50):
        assert (ours.random(), ours.randrange(9), ours.choice("abc")) == (theirs.random(), theirs.randrange(9), theirs.choice("abc"))
        assert (ours.sample(range(9), 4), ours.randrange(1 << 30)) == (theirs.sample(range(9), 4), theirs.randrange(1 << 30))


def test_recorded_choices_are_those_of_numpys_generator() -> None:
    ours, theirs = RecordedGenerator([3, True], Choices()), np.random.default_rng([3, True])
    weights = np.array([0.5, 0.25, 0.25])
    for _ in range(50):
        assert (ours.integers(9), ours.integers(-4, 5), ours.random()) == (theirs.integers(9), theirs.integers(-4, 5), theirs.random())
        assert ours.choice(3, p=weights) == theirs.choice(3, p=weights)
        np.testing.assert_array_equal(ours.permutation(6), theirs.permutation(6))
        np.testing.assert_array_equal(ours.integers(-3, 4, (2, 3)), theirs.integers(-3, 4, (2, 3)))
        np.testing.assert_array_equal(ours.standard_normal(4), theirs.standard_normal(4))


def test_what_was_recorded_gives_the_same_program_again() -> None:
    for seed in range(20):
        choices = Choices()
        program = random_program(seed, None, choices)
        again = random_program(seed, None, Choices(choices.recorded))
        assert (str(again), again.python) == (str(program), program.python)
        choices = Choices()
        case = random_case(seed, True, choices)
        assert random_case(seed, True, Choices(choices.recorded)).source == case.source


def test_numbers_become_as_few_and_as_small_as_they_can() -> None:
    def check(numbers: list[int]) -> None:
        assert sum(number >= 10 for number in numbers) < 2

    failure = smallest(three_below_100, check, (AssertionError,), attempts=1000)
    assert failure is not None and sorted(failure.program) == [0, 10, 10] and isinstance(failure.error, AssertionError)


def test_what_passes_is_no_failure() -> None:
    assert smallest(three_below_100, lambda numbers: None, (AssertionError,)) is None


def test_a_smaller_program_fails_with_the_same_class_of_error() -> None:
    def check(numbers: list[int]) -> None:
        if len(numbers) < 5:
            raise ValueError
        assert max(numbers) < 10

    failure = smallest(three_below_100, check, (AssertionError, ValueError), attempts=1000)
    assert failure is not None and isinstance(failure.error, AssertionError) and sorted(failure.program) == [0, 0, 0, 0, 10]


def test_a_random_program_is_shrunk_and_printed() -> None:
    """Of nests that have a minimum, one is left that does little else."""

    def check(program: RandomProgram) -> None:
        assert "min(" not in program.text, "a minimum"

    seed = next(seed for seed in range(100) if "min(" in random_program(seed).text and random_program(seed).text.count("\n") > 8)
    failure = smallest(lambda choices: random_program(seed, None, choices), check, (AssertionError,))
    before, after = random_program(seed).text, failure.program.text if failure else ""
    assert "min(" in after and len(after) < 0.7 * len(before)
    with pytest.raises(AssertionError, match=rf"(?s)seed {seed}, .*min\(.*a minimum"):
        require_passing(lambda choices: random_program(seed, None, choices), check, (AssertionError,))


def test_a_random_case_is_shrunk() -> None:
    def check(case: Case) -> None:
        assert "exp(" not in case.source

    seed = next(seed for seed in range(100) if "exp(" in random_case(seed, True).source)
    failure = smallest(lambda choices: random_case(seed, True, choices), check, (AssertionError,))
    assert failure is not None and "exp(" in failure.program.source
    assert np.size(failure.program.inputs[0]) <= np.size(random_case(seed, True).inputs[0])
