"""Cases by their seeds, and what comes of them."""

import multiprocessing
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from time import perf_counter

import numpy as np
from attrs import frozen

from compiler.diagnostics import ZyntaxError
from tests.random_cases import attention, memory_bound, ordered, phases, products, windows
from tests.random_cases.case import TARGETS, Case, Draw, run
from tests.shrinking import Choices, Failure, RecordedGenerator, smallest

KINDS: tuple[tuple[int, Callable[[Draw], Case]], ...] = (
    (21, products.product),
    (16, windows.window),
    (14, attention.attention),
    (10, memory_bound.reduction),
    (5, memory_bound.sides),
    (8, memory_bound.map_),
    (6, memory_bound.permutation),
    (8, memory_bound.rows),
    (6, ordered.scan),
    (6, ordered.sort),
    (10, phases.phases),
)
"""By how often they come."""


@frozen
class Outcome:
    kind: str
    seed: int
    seconds: float
    fault: str = ""


def random_case(seed: int, tiny: bool = False, choices: Choices | None = None, made: Callable[[Draw], Case] | None = None) -> Case:
    """The case of a seed, of one kind if it is given, or the one that these choices make of it."""
    chance = RecordedGenerator([seed, tiny], Choices() if choices is None else choices)
    weights = np.array([weight for weight, _ in KINDS], float)
    drawn = KINDS[int(chance.choice(len(KINDS), p=weights / weights.sum()))][1]
    return (made or drawn)(Draw(chance, tiny))


def outcome(seed: int, device: str) -> Outcome:
    """What came of a case, and the smallest case that fails as it does."""
    began = perf_counter()
    tiny = device == "emulator"
    case = random_case(seed, tiny)

    def check(case: Case) -> None:
        run(case, f"emulator:{TARGETS[seed % len(TARGETS)]}" if tiny else device)

    fault = ""
    try:
        check(case)
    except Exception:
        failure = smallest(partial(random_case, seed, tiny), check, (Exception,))
        fault = f"---- seed {seed}: {described(failure)}\n" if failure else f"---- seed {seed}: {case.kind} fails at times\n"
    return Outcome(case.kind, seed, perf_counter() - began, fault)


def described(failure: Failure) -> str:
    """A case and how it fails."""
    case, error = failure.program, failure.error
    expected = isinstance(error, AssertionError | ZyntaxError)
    fault = f"{type(error).__name__}: {error}" if expected else "".join(traceback.format_exception(error, limit=-4))
    return f"{case.kind}, {case.words}, layouts {list(case.layouts)}\n{case.source.strip()}\n{fault[:2000]}"


def outcomes(seeds: range, device: str, processes: int) -> Iterator[Outcome]:
    """What came of these cases; with several processes each has a context of the device."""
    if processes == 1:
        yield from (outcome(seed, device) for seed in seeds)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(outcome, seeds, [device] * len(seeds), chunksize=4)
