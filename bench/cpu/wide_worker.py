"""The process of `bench.cpu.wide` that measures: limits of the machine first, then a nest for each line that it is given."""

import ctypes
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import zynml
from bench.cpu.wide import LEAST, MOST, WORK
from bench.cpu.wide_limits import NestLimits
from bench.nests.arrays import largest_error, operands_of, wanted
from bench.nests.c import program as c_program
from bench.nests.c import size_arguments
from bench.nests.families import nest_of
from bench.nests.form import BenchNest
from bench.nests.numpy_arrays import NUMPY, NumpyArrays
from bench.nests.printing import scalars
from bench.nests.printing import zynml as text_of
from bench.worker import say

FLAGS = ("-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC")

ROUNDS, ROUND_SECONDS = 5, 0.1
"""Of each side; calls of a round take that long together, at least one."""

SHORT = 1e-4
"""Seconds of calls that are timed together."""


def library(source: Path) -> Any:
    """C compiled for this machine and loaded."""
    target = source.with_suffix(".so")
    subprocess.run(["gcc", *FLAGS, str(source), "-o", str(target), "-lm"], check=True)
    return ctypes.CDLL(str(target))


def clock_of(threads: int) -> Callable[[], float]:
    """The clock of calls. With one thread it tells the seconds of the processor: while other work has it, nothing is measured."""
    return time.thread_time if threads == 1 else time.perf_counter


def least_seconds(calls: Mapping[str, Callable[[], Any]], threads: int, rounds: int = ROUNDS) -> dict[str, float]:
    """Of a call of each, in turn; short calls are timed several together."""
    clock = clock_of(threads)
    least: dict[str, float] = {}
    for name, call in calls.items():
        began = clock()
        call()
        least[name] = clock() - began
    for _ in range(rounds):
        for name, call in calls.items():
            together = max(1, int(SHORT / max(least[name], 1e-7)))
            until = time.perf_counter() + ROUND_SECONDS
            while True:
                began = clock()
                for _ in range(together):
                    call()
                least[name] = min(least[name], (clock() - began) / together)
                if time.perf_counter() > until:
                    break
    return least


def rates_of(limits: Any, threads: int) -> dict[str, float]:
    """Operations a second of fused products, by the unit that does them."""
    rates = {}
    turns = 200_000
    for name, kind in (("f32", np.float32), ("f64", np.float64)):
        cells = np.zeros(2 + threads, kind)
        chains = getattr(limits, f"chains_{name}")

        def call(chains: Any = chains, cells: Any = cells) -> None:
            chains(ctypes.c_void_p(cells.ctypes.data), ctypes.c_int64(turns), ctypes.c_int64(threads))

        rates[name] = 2.0 * threads * 12 * turns * limits.width() / cells.itemsize / least_seconds({"chains": call}, threads)["chains"]
    return rates


def measure(nest: BenchNest, limits: Any, rates: Mapping[int, Mapping[str, float]], folder: Path) -> None:
    """Says what is known of the nest as soon as it is."""
    arrays = NumpyArrays(nest.seed)
    operands = operands_of(nest, arrays)
    values = [*operands.values(), *(nest.sizes[name] for name in scalars(nest))]
    reference = wanted(nest, operands, arrays)
    programs = {}
    for threads in rates:
        began = time.perf_counter()
        try:
            programs[threads] = zynml.compile(text_of(nest), threads=threads, tier=1).f
            worst = largest_error(np.asarray(programs[threads](*values)), reference, arrays)
        except zynml.ZynMLError as error:
            say(state="refused", message=f"{', '.join(sorted(set(error.codes)))}: {error.diagnostics[0].message}"[:300], done=True)
            return
        if worst > nest.tolerance:
            say(state="wrong", error=worst, done=True)
            return
        say(state="right", error=worst, first_call_s=time.perf_counter() - began)
    source = folder / f"nest{nest.seed}.c"
    source.write_text(c_program(nest))
    peer = library(source)
    out = np.zeros(nest.shape(nest.result_dims), NUMPY[nest.result_dtype])
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*operands.values(), out)]
    sizes = [ctypes.c_int64(nest.sizes[name]) for name in size_arguments(nest)]
    least = NestLimits(nest, limits, arrays.generator)
    known: dict[int, dict[str, Any]] = {}
    for threads in rates:
        limits.omp_set_num_threads(threads)
        times = least_seconds({"ours": lambda threads=threads: programs[threads](*values), **least.calls(threads)}, threads)
        parts = {name: 1e3 * seconds for name, seconds in least.seconds(times, rates[threads]).items()}
        # more threads than cores are free are no excuse
        limit = min([max(parts.values()), *(row["limit_ms"] for row in known.values())])
        known[threads] = {"ours_ms": 1e3 * times["ours"], "limit_ms": limit, "limits_ms": parts}
        say(threads=known)
    for threads in rates:
        limits.omp_set_num_threads(threads)
        clock = clock_of(threads)
        began = clock()
        peer.f(*pointers, *sizes)
        passed = clock() - began
        if threads == next(iter(rates)):
            theirs = largest_error(out, reference, arrays)
            if theirs > 2 * nest.tolerance:
                say(message=f"C's answer is off by {theirs:.1e}")
        if passed < 1:
            calls = {"ours": lambda threads=threads: programs[threads](*values), "c": lambda: peer.f(*pointers, *sizes)}
            times = least_seconds(calls, threads)
            passed = times["c"]
            known[threads]["ours_ms"] = min(known[threads]["ours_ms"], 1e3 * times["ours"])
        known[threads]["c_ms"] = 1e3 * passed
        say(threads=known)
    say(done=True)


def main() -> None:
    numbers = [int(number) for number in sys.argv[1].split(",")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "limits.c"
        source.write_text((Path(__file__).parent / "limits.c").read_text())
        limits = library(source)
        single = rates_of(limits, 1)
        rates = {}
        for threads in numbers:
            several = rates_of(limits, threads)
            # Where other work has the cores, one thread may be faster than several.
            rates[threads] = {unit: max(single[unit], several[unit]) for unit in single}
        say(rates=rates, done=True)
        for question in map(json.loads, sys.stdin):
            try:
                measure(nest_of(question["seed"], LEAST, MOST, question["family"], WORK), limits, rates, folder)
            except Exception as error:
                say(state="crashed", message=f"{type(error).__name__}: {error}"[:300], done=True)


if __name__ == "__main__":
    main()
