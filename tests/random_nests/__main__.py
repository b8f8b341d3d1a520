"""The command: see the package."""

import argparse
import multiprocessing
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from time import perf_counter

from attrs import frozen

from tests.random_nests.families import random_program
from tests.random_nests.running import FAULTS, TARGETS, assembled, run, run_on
from tests.random_nests.writer import RandomProgram
from tests.shrinking import smallest

BATCH = 25
"""Programs that a process takes at a time."""


@frozen
class Batch:
    """Programs of consecutive seeds, and where they run: on the CPU in every way, or on a device, `assemble`d besides."""

    first: int
    count: int
    device: str = "cpu"
    assemble: bool = False


@frozen
class Outcome:
    """What came of a batch: how many programs each family had, the words of those that went wrong, launches that spill registers."""

    families: Counter[str]
    wrong: list[str]
    spilling: int = 0


def outcome(batch: Batch) -> Outcome:
    families: Counter[str] = Counter()
    wrong: list[str] = []
    spilling = 0
    for seed in range(batch.first, batch.first + batch.count):
        program = random_program(seed)
        families[program.family] += 1
        try:
            spilling += spilling_blocks(program, batch)
        except FAULTS:
            failure = smallest(partial(random_program, seed, None), partial(spilling_blocks, batch=batch), FAULTS)
            wrong.append(f"---- {failure.program}\n{type(failure.error).__name__}: {failure.error}\n" if failure else f"---- {program}\nfails at times\n")
    return Outcome(families, wrong, spilling)


def spilling_blocks(program: RandomProgram, batch: Batch) -> int:
    """Runs a program; gives how many of its launches spill registers, where they are assembled."""
    if batch.device == "cpu":
        run(program)
        return 0
    kernels = run_on(batch.device, program)
    return sum(cubin.spills > 0 for cubin in assembled(kernels, TARGETS[program.seed % len(TARGETS)])) if batch.assemble else 0


def outcomes(batches: list[Batch], processes: int) -> Iterator[Outcome]:
    """What came of batches, in order; with several processes, each has a device context of its own."""
    if processes == 1:
        yield from map(outcome, batches)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(outcome, batches)


def batches(count: int, first: int, device: str, assemble: bool) -> list[Batch]:
    return [Batch(start, min(BATCH, first + count - start), device, assemble) for start in range(first, first + count, BATCH)]


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.random_nests")
    options.add_argument("count", type=int, nargs="?", default=2000)
    options.add_argument("first", type=int, nargs="?", default=0)
    options.add_argument("--device", default="cpu", help="cpu, emulator, cuda:0")
    options.add_argument("--processes", type=int, default=1)
    given = options.parse_args()
    started = perf_counter()
    families: Counter[str] = Counter()
    wrong = spilling = 0
    for done in outcomes(batches(given.count, given.first, given.device, given.device == "emulator"), given.processes):
        families += done.families
        wrong += len(done.wrong)
        spilling += done.spilling
        for words in done.wrong:
            print(words, flush=True)
    shown = ", ".join(f"{name} {number}" for name, number in sorted(families.items()))
    spills = f", {spilling} blocks with spills" if given.device == "emulator" else ""
    print(f"{given.count} programs, {wrong} wrong{spills}, {perf_counter() - started:.0f} s; {shown}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
