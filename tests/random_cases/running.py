"""Cases by their seeds, and what comes of them."""

import multiprocessing
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from time import perf_counter

import numpy as np
from attrs import frozen

from compiler.diagnostics import ZyntaxError
from tests.random_cases import attention, memory_bound, ordered, products, windows
from tests.random_cases.case import TARGETS, Case, Draw, emulating, run

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
)
"""Of a hundred cases so many."""


@frozen
class Outcome:
    kind: str
    seed: int
    seconds: float
    fault: str = ""


def random_case(seed: int, tiny: bool = False) -> Case:
    chance = np.random.default_rng([seed, tiny])
    weights = np.array([weight for weight, _ in KINDS], float)
    made = KINDS[int(chance.choice(len(KINDS), p=weights / weights.sum()))][1]
    return made(Draw(chance, tiny))


def outcome(seed: int, device: str) -> Outcome:
    """What came of a case."""
    began = perf_counter()
    case = random_case(seed, tiny=device == "emulator")
    fault = ""
    try:
        if device == "emulator":
            with emulating(TARGETS[seed % len(TARGETS)]):
                run(case, device)
        else:
            run(case, device)
    except AssertionError as error:
        fault = str(error)
    except ZyntaxError as error:
        fault = f"{type(error).__name__}: {error}"
    except Exception:
        fault = traceback.format_exc(limit=-4)
    told = f"---- seed {seed}: {case.kind}, {case.words}, layouts {list(case.layouts)}\n{case.source.strip()}\n{fault[:2000]}\n" if fault else ""
    return Outcome(case.kind, seed, perf_counter() - began, told)


def outcomes(seeds: range, device: str, processes: int) -> Iterator[Outcome]:
    """What came of these cases; with several processes each has a context of the device."""
    if processes == 1:
        yield from (outcome(seed, device) for seed in seeds)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(outcome, seeds, [device] * len(seeds), chunksize=4)
