"""One tuning run: candidates are made and timed in turn until it is clear which is the fastest, or the time is up. What the model chose
stands unless another one is faster by more than the times vary by themselves, which on a busy device they do."""

from collections.abc import Callable, Sequence
from enum import Enum
from statistics import median, quantiles
from time import perf_counter

from runtime.records import frozen

Round = Callable[[], float]
"""Runs a candidate for a moment: the seconds of one launch."""

PREPARING = 0.75
"""Of the time: after it no further candidate is made."""
ROUNDS, LEAST_ROUNDS = 9, 4
SLOWER = 1.3
"""Times the fastest: what takes so long once isn't run again."""
ADVANTAGE = 0.02
"""Of the time of the model's choice: what is gained at least, or it stands."""


class Verdict(Enum):
    """Why a candidate was chosen."""

    FASTER = "faster than the model's choice"
    FASTEST = "the model's choice is the fastest"
    NEAR = "none is 2 % faster than the model's choice"
    NOISE = "the device is busy: times vary by more than could be gained, and the model's choice stands"
    SHORT = "there was no time to compare, and the model's choice stands"
    FAILED = "a candidate failed, and the model's choice stands"

    @property
    def lasts(self) -> bool:
        """Whether another run would find the same."""
        return self in (Verdict.FASTER, Verdict.FASTEST, Verdict.NEAR)


@frozen
class ContestResult:
    """The number of the candidate that was chosen, and of each the median of its times, in seconds; None of one that wasn't run."""

    chosen: int
    verdict: Verdict
    times: tuple[float | None, ...]
    seconds: float
    trouble: str = ""

    @property
    def tried(self) -> int:
        return sum(time is not None for time in self.times)


def contest(
    candidates: Sequence[Callable[[], Round]],
    budget: float,
    failures: tuple[type[Exception], ...],
    clock: Callable[[], float] = perf_counter,
    expected: float = 0.0,
) -> ContestResult:
    """Which candidate is the fastest; the first is the model's choice. `budget`: seconds, within which no candidate is begun that
    wouldn't be done, if it takes as long to make as those before, or as `expected`; `failures`: errors of candidates that can't be made
    or run."""
    began = clock()
    times: list[list[float]] = [[] for _ in candidates]

    def result(chosen: int, verdict: Verdict, trouble: str = "") -> ContestResult:
        medians = tuple(median(rounds) if rounds else None for rounds in times)
        return ContestResult(chosen, verdict, medians, clock() - began, trouble)

    rounds: list[Round] = []
    longest = expected
    try:
        for make in candidates:
            start = clock()
            if rounds and start + longest - began > PREPARING * budget:
                break
            rounds.append(make())
            rounds[-1]()  # the first is slower
            longest = max(longest, clock() - start)
        running = list(range(len(rounds)))
        for _ in range(ROUNDS):
            start = clock()
            for number in running:
                times[number].append(rounds[number]())
            least = min(min(times[number]) for number in running)
            running = [number for number in running if number == 0 or min(times[number]) <= SLOWER * least]
            if len(running) == 1 or clock() + (clock() - start) - began > budget:
                break
    except failures as trouble:
        return result(0, Verdict.FAILED, str(trouble))
    if len(rounds) < 2 or (len(times[0]) < LEAST_ROUNDS and len(running) > 1):
        return result(0, Verdict.SHORT)
    return result(*_verdict(times))


def _verdict(times: Sequence[Sequence[float]]) -> tuple[int, Verdict]:
    own = median(times[0])
    fastest = min((number for number, rounds in enumerate(times) if rounds), key=lambda number: median(times[number]))
    advantage = 1 - median(times[fastest]) / own
    if fastest == 0:
        return 0, Verdict.FASTEST
    if advantage < ADVANTAGE:
        return 0, Verdict.NEAR
    if advantage < max(_spread(times[0]), _spread(times[fastest])):
        return 0, Verdict.NOISE
    return fastest, Verdict.FASTER


def _spread(times: Sequence[float]) -> float:
    """Between the quartiles, over the median."""
    if len(times) < LEAST_ROUNDS:
        return max(times) / min(times) - 1
    low, _, high = quantiles(times, n=4, method="inclusive")
    return (high - low) / median(times)
