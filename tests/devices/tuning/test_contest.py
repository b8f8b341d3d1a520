"""Which candidate a tuning run takes, decided on a clock of its own: quiet and busy devices, failures, and budgets."""

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle

import pytest

from compiler.devices.tuning.contest import ADVANTAGE, ROUNDS, SLOWER, ContestResult, Verdict, contest


class Trouble(Exception):
    pass


class Bench:
    """Candidates whose launches take the times given, in turn for ever, and whose making takes `making` seconds."""

    def __init__(self, *times: Sequence[float], making: float = 0.1, burst: float = 0.001) -> None:
        self.now, self.making, self.burst = 100.0, making, burst
        self.made: list[int] = []
        self.rounds = [0] * len(times)
        self.makers = [lambda number=number, each=each: self.make(number, cycle(each)) for number, each in enumerate(times)]

    def make(self, number: int, times: Iterator[float]) -> Callable[[], float]:
        self.now += self.making
        self.made.append(number)

        def run() -> float:
            self.now += self.burst
            self.rounds[number] += 1
            return next(times)

        return run

    def contest(self, budget: float = 2.0) -> ContestResult:
        return contest(self.makers, budget, (Trouble,), lambda: self.now)


def test_the_fastest_is_taken() -> None:
    found = Bench([10.0], [9.0], [8.0], [9.5]).contest()
    assert (found.chosen, found.verdict, found.tried) == (2, Verdict.FASTER, 4)
    assert found.times == (10.0, 9.0, 8.0, 9.5) and found.verdict.lasts


def test_the_models_choice_stands_where_it_is_the_fastest() -> None:
    found = Bench([8.0], [9.0], [8.1]).contest()
    assert (found.chosen, found.verdict) == (0, Verdict.FASTEST) and found.verdict.lasts


@pytest.mark.parametrize(("gain", "chosen"), [(ADVANTAGE / 2, 0), (2 * ADVANTAGE, 1)])
def test_a_small_gain_changes_nothing(gain: float, chosen: int) -> None:
    found = Bench([10.0], [10.0 * (1 - gain)]).contest()
    assert (found.chosen, found.verdict) == (chosen, Verdict.FASTER if chosen else Verdict.NEAR)


@pytest.mark.parametrize("noisy", [0, 1])
def test_on_a_busy_device_the_models_choice_stands(noisy: int) -> None:
    """One of both varies by a third; the other is 8 % faster, or slower."""
    times = [[10.0], [9.2]]
    times[noisy] = [times[noisy][0] * factor for factor in (0.85, 1.0, 1.15, 1.2, 0.9)]
    found = Bench(*times).contest()
    assert (found.chosen, found.verdict) == (0, Verdict.NOISE) and not found.verdict.lasts


def test_one_disturbed_round_is_no_noise() -> None:
    assert Bench([10.0, 10.0, 10.1, 30.0, 10.0, 10.1, 10.0, 10.0, 10.0, 10.0], [9.0]).contest().chosen == 1


def test_what_is_far_slower_is_run_once() -> None:
    bench = Bench([10.0], [10.0 * SLOWER + 0.1], [9.0])
    assert bench.contest().chosen == 2
    assert bench.rounds == [ROUNDS + 1, 2, ROUNDS + 1]  # each once more, before it counts


def test_it_ends_when_nothing_is_left_to_compare() -> None:
    bench = Bench([10.0], [14.0], [20.0])
    found = bench.contest()
    assert (found.chosen, found.verdict) == (0, Verdict.FASTEST) and bench.rounds == [2, 2, 2]


def test_no_candidate_is_begun_that_would_not_be_done() -> None:
    bench = Bench(*([10.0 - number] for number in range(6)), making=0.4)
    found = bench.contest(2.0)
    assert bench.made == [0, 1, 2] and found.chosen == 2 and found.times[3:] == (None, None, None)
    assert found.seconds <= 2.0


def test_none_is_begun_that_is_expected_to_take_too_long() -> None:
    bench = Bench([10.0], [9.0])
    found = contest(bench.makers, 1.0, (Trouble,), lambda: bench.now, expected=0.9)
    assert bench.made == [0] and (found.chosen, found.verdict) == (0, Verdict.SHORT)


def test_a_long_burst_ends_the_run_in_time() -> None:
    bench = Bench([10.0], [9.0], making=0.1, burst=0.15)
    found = bench.contest(2.0)
    assert found.seconds <= 2.0 and found.chosen == 1


def test_without_time_to_compare_the_models_choice_stands() -> None:
    found = Bench([10.0], [9.0], making=0.1, burst=0.3).contest(1.0)
    assert (found.chosen, found.verdict) == (0, Verdict.SHORT) and not found.verdict.lasts


def test_a_candidate_that_fails_changes_nothing() -> None:
    bench = Bench([10.0], [9.0])

    def fail() -> Callable[[], float]:
        raise Trouble("out of memory")

    bench.makers.append(fail)
    found = bench.contest()
    assert (found.chosen, found.verdict, found.trouble) == (0, Verdict.FAILED, "out of memory") and not found.verdict.lasts


def test_other_errors_are_not_hidden() -> None:
    bench = Bench([10.0], [9.0])

    def interrupted() -> Callable[[], float]:
        raise KeyboardInterrupt

    bench.makers.append(interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench.contest()
