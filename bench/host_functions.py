"""Native functions of ZynML, every operation checked, against the same ones in C (`gcc -O2`, with `__builtin_add_overflow` and its kind
wherever ours checks).

    python -m bench.host_functions [--rounds 15] [--json FILE]

Both are called in turn, ours first in one round and second in the next; answers are compared first. Times are milliseconds of the
processor for a call, the least and the median of all rounds; the ratio is the median of ours over C's in the same round. Compiling our
functions is timed apart."""

import argparse
import ctypes
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from compiler.backends.host.boundary import native_entry, room
from compiler.backends.host.heap import heap_limit
from compiler.backends.host.native_code import lowered
from compiler.backends.native.compile import compile_module, link_modules
from compiler.backends.native.link import Linked
from compiler.options import CompileOptions
from compiler.source import Source, Sources
from compiler.typed_ast.check import checker_of
from compiler.typed_ast.effects import effects
from compiler.typed_ast.generics import without_generics
from compiler.typed_ast.native_calls import has_native_code
from compiler.typed_ast.specialise import specialised
from zynml.api import open_source

HERE = Path(__file__).parent
TABLE = np.random.default_rng(5).random((1000, 1001))
NUMBERS = np.random.default_rng(6).integers(-1000, 1000, 2_000_000)
CALLS: dict[str, tuple[Any, ...]] = {
    "collatz": (1_000_000,),
    "sieve": (500,),
    "mandelbrot": (400, 500),
    "exponent": (40_000,),
    "walk": (3_000_000,),
    "largest": (10_000_000,),
    "area": (10_000_000, 3.0),
    "spread": (TABLE, np.zeros_like(TABLE)),
    "counted": (NUMBERS, 500),
    "primes": (3_000_000,),
    "spreading": (10_000, 300),
}
"""The functions, and what they are called with: numbers, and tensors as their addresses, extents and distances. `walk` calls a method that
changes what it is called on, `largest` a generic function, `area` a function that takes a closure; `spread` and `counted` go over tensors,
and the last two make some."""
WANTED = {"mandelbrot": 1.1, "area": 1.1, "spread": 1.1, "spreading": 1.1}
"""The ratio that is wanted, of functions of f64; 1.2 of the others."""


def ours(text: str) -> tuple[Linked, dict[str, str], float]:
    """The functions, their names in HIR, and the seconds of the processor that compiling took."""
    source = Source("host_functions.zynml", text)
    session = open_source(source, CompileOptions(), Sources(source), lambda warning: None)
    library, meaning = session.language.library, session.language.meaning
    known = partial(checker_of, library=library, meaning=meaning)
    program = specialised(without_generics(session.check()), known)
    started = time.process_time()
    checker = known(program)
    made = lowered(checker, effects(checker, program, has_native_code), tuple(CALLS))
    linked = link_modules([compile_module(made.module, tells_callers=True)])
    return linked, dict(made.symbols), time.process_time() - started


def c_library(folder: Path) -> ctypes.CDLL:
    made = folder / "functions.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", made, HERE / "host_functions.c"], check=True)
    return ctypes.CDLL(str(made))


def numbers(arguments: tuple[Any, ...]) -> list[Any]:
    """The arguments as both take them."""
    found: list[Any] = []
    for value in arguments:
        if isinstance(value, np.ndarray):
            steps = [step // value.itemsize for step in value.strides]
            found += [ctypes.c_void_p(value.ctypes.data), *map(ctypes.c_int64, (*value.shape, *steps))]
        else:
            found.append(ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int64(value))
    return found


def called(linked: Linked, symbol: str) -> Callable[..., int | float]:
    """A function of ours as a plain one, which must not fail."""
    function = linked[symbol]
    call = native_entry(function.entry, function.address)
    recorded, given, _, results, heap = room(function.entry)

    def run(*arguments: Any) -> int | float:
        heap[1] = heap_limit()
        assert call(recorded, *arguments, given) == 0
        return results.value  # type: ignore[no-any-return]

    return run


def measure(rounds: int) -> dict[str, Any]:
    linked, symbols, seconds = ours((HERE / "host_functions.zynml").read_text(encoding="utf-8"))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        library = c_library(Path(folder))
        for name, arguments in CALLS.items():
            theirs = getattr(library, name)
            theirs.restype = ctypes.c_double if name in ("area", "spread", "spreading") else ctypes.c_int64
            runs = {"ours": called(linked, symbols[name]), "c": theirs}
            passed = numbers(arguments)
            answers = {who: run(*passed) for who, run in runs.items()}
            assert answers["ours"] == answers["c"] != -1, f"{name}: {answers}"
            times: dict[str, list[float]] = {who: [] for who in runs}
            for turn in range(rounds):
                for who in sorted(runs, reverse=bool(turn % 2)):
                    started = time.thread_time()
                    runs[who](*passed)
                    times[who].append(1e3 * (time.thread_time() - started))
            ratio = statistics.median(a / b for a, b in zip(times["ours"], times["c"], strict=True))
            shown = [list(one.shape) if isinstance(one, np.ndarray) else one for one in arguments]
            row: dict[str, Any] = {"function": name, "arguments": shown, "answer": answers["ours"]}
            for who, found in times.items():
                row |= {f"{who}_ms": round(statistics.median(found), 2), f"{who}_least_ms": round(min(found), 2)}
            rows.append(row | {"ratio": round(ratio, 3), "wanted": WANTED.get(name, 1.2)})
    return {"compile_seconds": round(seconds, 3), "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = measure(options.rounds)
    print(f"compiled in {figures['compile_seconds']} s")
    for row in figures["rows"]:
        print("  ".join(f"{name} {row[name]}" for name in ("function", "ours_ms", "c_ms", "ratio", "wanted")))
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
