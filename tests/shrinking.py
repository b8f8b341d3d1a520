"""Smaller programs that fail as a random one does.

A random program is what its writer makes of a sequence of random choices. The sequence is recorded; then choices are left out and lowered for
as long as the program still fails in the same way. What chooses gives 0 for the plainest choice and for all choices behind the end of a
sequence. So writers need not know that they are shrunk."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from attrs import define, field, frozen

Program = TypeVar("Program")

ATTEMPTS = 300
"""Programs that are tried at most for a smaller one."""

_STEPS = 1 << 53
"""Of the fractions that a generator gives."""


@define
class Choices:
    """Whole numbers from 0 on: those of `replayed`, then zeros; without it those that a generator draws. `recorded` has all that were given."""

    replayed: Sequence[int] | None = None
    recorded: list[int] = field(factory=list)

    def below(self, end: int, draw: Callable[[], int]) -> int:
        number = draw()  # in any case: elements of arrays come from the same generator
        if self.replayed is not None:
            position = len(self.recorded)
            number = self.replayed[position] if position < len(self.replayed) else 0
            number = number if number < end else 0
        self.recorded.append(number)
        return number

    def fraction(self, draw: Callable[[], float]) -> float:
        """From 0 to 1; the plainest is the one next to 1, as what is rare happens below some limit."""
        return (_STEPS - 1 - self.below(_STEPS, lambda: _STEPS - 1 - int(draw() * _STEPS))) / _STEPS


class RecordedRandom(random.Random):
    """As `random.Random(seed)`, by way of recorded choices."""

    def __init__(self, seed: int, choices: Choices) -> None:
        super().__init__(seed)
        self.choices = choices

    def _randbelow(self, n: int) -> int:
        return self.choices.below(n, lambda: super(RecordedRandom, self)._randbelow(n))  # type: ignore[misc]

    def random(self) -> float:
        return self.choices.fraction(super().random)


class RecordedGenerator(np.random.Generator):
    """As `np.random.default_rng(seed)`, by way of recorded choices; the elements of arrays aren't recorded."""

    def __init__(self, seed: Any, choices: Choices) -> None:
        super().__init__(np.random.PCG64(seed))
        self.choices = choices

    def integers(self, low: Any, high: Any = None, size: Any = None, *rest: Any, **named: Any) -> Any:
        if size is not None or rest or named:
            return super().integers(low, high, size, *rest, **named)
        first, end = (0, low) if high is None else (low, high)
        return first + self.choices.below(end - first, lambda: int(super(RecordedGenerator, self).integers(first, end)) - first)

    def random(self, size: Any = None, *rest: Any, **named: Any) -> Any:
        return self.choices.fraction(super().random) if size is None else super().random(size, *rest, **named)

    def choice(self, a: Any, *rest: Any, **named: Any) -> Any:
        return self.choices.below(a, lambda: int(super(RecordedGenerator, self).choice(a, *rest, **named)))

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """The order as it is, or another."""
        items = np.arange(x) if isinstance(x, int) else np.asarray(x)
        return super().permutation(items, axis) if self.choices.below(2, lambda: 1) else items


@frozen
class Failure:
    """A program that fails, how, and the choices that make it."""

    program: Any
    error: Exception
    choices: Sequence[int]


Write = Callable[[Choices], Program]
Check = Callable[[Program], object]
Faults = tuple[type[Exception], ...]


def smallest(write: Write[Program], check: Check[Program], faults: Faults, attempts: int = ATTEMPTS) -> Failure | None:
    """The program that `write` makes first, if `check` raises one of `faults` on it, or a smaller one with an error of the same class; None
    where it passes."""
    best = _failure(write, check, faults, Choices())
    if best is None:
        return None
    same = (type(best.error),)
    progress, tried = True, 0
    while progress and tried < attempts:
        progress = False
        for edit in _edits(len(best.choices)):
            shorter = edit(best.choices)
            if _size(shorter) >= _size(best.choices):
                continue
            smaller = _failure(write, check, same, Choices(shorter))
            tried += 1
            if smaller is not None and _size(smaller.choices) < _size(best.choices):
                best, progress = smaller, True
            if tried == attempts:
                break
    return best


def require_passing(write: Write[Program], check: Check[Program], faults: Faults) -> None:
    """Raises AssertionError with the smallest program that fails as the first one does, if that fails."""
    failure = smallest(write, check, faults)
    if failure is not None:
        raise AssertionError(f"{failure.program}\n{type(failure.error).__name__}: {failure.error}") from failure.error


def _failure(write: Write[Program], check: Check[Program], faults: Faults, choices: Choices) -> Failure | None:
    """How the program of these choices fails; None where it passes, and for a smaller one that fails in another way or can't be written."""
    writing = True
    try:
        program = write(choices)
        writing = False
        check(program)
    except Exception as error:
        if not writing and isinstance(error, faults):
            return Failure(program, error, tuple(choices.recorded))
        if choices.replayed is None:
            raise
    return None


def _size(choices: Sequence[int]) -> tuple[int, list[int]]:
    return len(choices), list(choices)


def _edits(length: int) -> Iterator[Callable[[Sequence[int]], list[int]]]:
    """Ways to make a sequence smaller: stretches left out, the long ones and the last ones first; then single choices lowered."""
    for run in (32, 16, 8, 4, 2, 1):
        for start in range(length - run, -1, -run):
            yield lambda choices, start=start, run=run: [*choices[:start], *choices[start + run :]]  # type: ignore[misc]
    for position in range(length):
        for lowered in (lambda number: 0, lambda number: number // 2, lambda number: max(number - 1, 0)):
            yield lambda choices, at=position, lowered=lowered: [  # type: ignore[misc]
                lowered(number) if place == at else number for place, number in enumerate(choices)
            ]
