"""Functions of a critical path, all operations checked, against C++ without checks (`g++ -O3 -march=native -ffp-contract=off`).

    python -m bench.native [--calls 10000000] [--rounds 7] [--level latency|3] [--json FILE]

Both are called from compiled loops (`native.cpp`), in turn, on equal state; results and final states are compared first. Nanoseconds are
means over all calls of a round, the median of the rounds; the ratio is ours over C++'s. The percentiles are of a call of ours, from batches
of 16, the counter's own time taken off. C++ comes twice: with 64-bit products that are cut off, and with 128-bit ones, rounded half to
even, which is what ours computes (they differ in `fill` and `tick` only)."""

import argparse
import ctypes
import json
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.native_functions import BOOK, ORDER, ORDERS, POSITION, RISK, SIGNAL, hot_functions
from compiler.backends.native.compile import compile_module
from compiler.backends.native.record import RECORD_BYTES
from compiler.hir.layout import new_memory
from compiler.hir.module import OptimizationLevel

HERE = Path(__file__).parent
MANY_ORDERS, MANY_BOOKS = 1 << 14, 1 << 10


def orders(rng: np.random.Generator) -> Any:
    made, n = new_memory(ORDER, MANY_ORDERS), MANY_ORDERS
    made["price"] = 1_000_000 + rng.integers(-120, 121, n)
    made["qty"] = rng.integers(1, 1060, n)
    made["side"] = rng.choice([-1, 1], n)
    made["time"] = np.cumsum(rng.integers(200, 2000, n))
    made["id"] = np.arange(n) + rng.integers(0, 3, n)
    return made


def books(rng: np.random.Generator) -> Any:
    made, n = new_memory(BOOK, MANY_BOOKS), MANY_BOOKS
    mid, half = 1_000_000 + np.cumsum(rng.integers(-3, 4, n)), rng.integers(1, 4, n)
    steps = np.arange(10)
    made["bid"], made["ask"] = (mid - half)[:, None] - steps, (mid + half)[:, None] + steps
    made["bid_qty"], made["ask_qty"] = rng.integers(1, 2000, (n, 10)), rng.integers(1, 2000, (n, 10))
    return made


def state(name: str) -> list[Any]:
    """Fresh memory of a function, in the order of its parameters."""
    risk = new_memory(RISK)
    for field, value in (("max_qty", 1000), ("max_notional", 990_000_000), ("collar", 110), ("reference", 1_000_000)):
        risk[field] = value
    risk["max_position"], risk["window"], risk["times"], risk["ids"] = 985, 40_000, -(10**12), -1
    signal = new_memory(SIGNAL)
    signal["fast"] = signal["slow"] = 1e6
    signal["a_fast"], signal["a_slow"], signal["threshold"] = 2 / 13, 2 / 27, 0.05
    match name:
        case "risk":
            return [risk]
        case "fill":
            return [new_memory(POSITION)]
        case "signal":
            return [signal]
        case _:
            risk["max_position"], risk["max_notional"] = 100_000, 10**12
            queue = new_memory(ORDERS)
            queue["clip"] = 10
            return [risk, new_memory(POSITION), signal, queue]


def library(folder: Path, *flags: str) -> ctypes.CDLL:
    out = folder / f"native{len(flags)}.so"
    command = ["g++", "-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC", *flags, "-o", str(out), str(HERE / "native.cpp")]
    subprocess.run(command, check=True)
    made = ctypes.CDLL(str(out))
    for name in ("time_c2", "time_z2", "time_c6", "time_z6"):
        getattr(made, name).restype = ctypes.c_double
    return made


Timed = Callable[[int], tuple[float, int, list[bytes]]]
"""From a number of calls to the nanoseconds of one, the sum of all results, and the memory afterwards."""


def timed(loops: ctypes.CDLL, name: str, address: int, inputs: Any, ours: bool) -> Timed:
    loop = getattr(loops, f"time_{'z' if ours else 'c'}{6 if name == 'tick' else 2}")
    record = np.zeros(RECORD_BYTES, np.uint8)

    def run(calls: int) -> tuple[float, int, list[bytes]]:
        memory = state(name)
        total, failures = ctypes.c_int64(), ctypes.c_int64()
        places = [ctypes.c_void_p(m.ctypes.data) for m in ([record] if ours else []) + [*memory, inputs]]
        sizes = [ctypes.c_int64(v) for v in (inputs.itemsize, len(inputs) - 1, calls)]
        ends = [ctypes.byref(total), *([ctypes.byref(failures)] if ours else [])]
        time = loop(ctypes.c_void_p(address), *places, *sizes, *ends)
        assert failures.value == 0, f"{name}: {failures.value} calls failed"
        return time, total.value, [m.tobytes() for m in memory]

    return run


def percentiles(loops: ctypes.CDLL, name: str, address: int, inputs: Any, calls: int) -> dict[str, float]:
    """Of a call of ours, from batches of 16."""
    record, memory, out = np.zeros(RECORD_BYTES, np.uint8), state(name), np.zeros(calls // 16)
    places = [ctypes.c_void_p(m.ctypes.data) for m in (record, *memory, inputs)]
    sizes = [ctypes.c_int64(v) for v in (inputs.itemsize, len(inputs) - 1, len(out))]
    getattr(loops, f"batches_{6 if name == 'tick' else 2}")(ctypes.c_void_p(address), *places, *sizes, ctypes.c_void_p(out.ctypes.data))
    return {f"p{of:g}": round(float(np.percentile(out, of)), 2) for of in (50, 99, 99.9)}


def measure(calls: int, rounds: int, level: OptimizationLevel) -> list[dict[str, Any]]:
    rng = np.random.default_rng(7)
    made = compile_module(hot_functions(), level, frozenset())
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        plain, exact = library(Path(folder)), library(Path(folder), "-DHALF_EVEN")
        for name, inputs in (("risk", orders(rng)), ("fill", orders(rng)), ("signal", books(rng)), ("tick", books(rng))):
            pointer = {lib: ctypes.cast(getattr(lib, f"c_{name}"), ctypes.c_void_p).value or 0 for lib in (plain, exact)}
            runs = {
                "ours": timed(plain, name, made[name].address, inputs, True),
                "c++": timed(plain, name, pointer[plain], inputs, False),
                "c++ exact": timed(exact, name, pointer[exact], inputs, False),
            }
            times: dict[str, list[float]] = {who: [] for who in runs}
            same = {repr(runs[who](100_000)[1:]) for who in ("ours", "c++ exact")}
            assert len(same) == 1, f"{name}: results differ"
            for turn in range(rounds):
                order = list(runs)[turn % 3 :] + list(runs)[: turn % 3]
                for who in order:
                    times[who].append(runs[who](calls)[0])
            row: dict[str, Any] = {"function": name, **{who: round(statistics.median(t), 2) for who, t in times.items()}}
            for who in ("c++", "c++ exact"):
                ratios = [a / b for a, b in zip(times["ours"], times[who], strict=True)]
                row[f"ratio to {who}"] = round(statistics.median(ratios), 2)
            row |= percentiles(plain, name, made[name].address, inputs, calls)
            found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--level", default="latency", choices=[level.value for level in OptimizationLevel])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = measure(options.calls, options.rounds, OptimizationLevel(options.level))
    names = list(rows[0])
    print("  ".join(f"{name:>18}" for name in names))
    for row in rows:
        print("  ".join(f"{row[name]!s:>18}" for name in names))
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
