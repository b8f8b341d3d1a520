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
from pathlib import Path
from typing import Any

from compiler.backends.host.boundary import native_entry, room
from compiler.backends.host.native_code import lowered
from compiler.backends.native.compile import compile_module, link_modules
from compiler.backends.native.link import Linked
from compiler.backends.native.record import CALLERS_BYTES
from compiler.options import CompileOptions
from compiler.source import Source, Sources
from compiler.typed_ast.check import checker_of
from compiler.typed_ast.effects import effects
from compiler.typed_ast.native_calls import has_native_code
from zynml.api import open_source

HERE = Path(__file__).parent
CALLS: dict[str, tuple[int, ...]] = {"collatz": (1_000_000,), "sieve": (500,), "mandelbrot": (400, 500), "exponent": (40_000,)}
"""The functions, and what they are called with."""
WANTED = {"mandelbrot": 1.1}
"""The ratio that is wanted; 1.2 of the others."""


def ours(text: str) -> tuple[Linked, dict[str, str], float]:
    """The functions, their names in HIR, and the seconds of the processor that compiling took."""
    source = Source("host_functions.zynml", text)
    session = open_source(source, CompileOptions(), Sources(source), lambda warning: None)
    program = session.check()
    started = time.process_time()
    checker = checker_of(program, session.language.library)
    made = lowered(checker, effects(checker, program, has_native_code), tuple(CALLS))
    linked = link_modules([compile_module(made.module, tells_callers=True)])
    return linked, dict(made.symbols), time.process_time() - started


def c_library(folder: Path) -> ctypes.CDLL:
    made = folder / "functions.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", made, HERE / "host_functions.c"], check=True)
    return ctypes.CDLL(str(made))


def called(linked: Linked, symbol: str) -> Callable[..., int]:
    """A function of ours as a plain one, which must not fail."""
    function = linked[symbol]
    call = native_entry(function.entry, function.address)
    recorded, given, _, results = room(CALLERS_BYTES, function.entry)

    def run(*arguments: int) -> int:
        assert call(recorded, *arguments, given) == 0
        return int(results.value)

    return run


def measure(rounds: int) -> dict[str, Any]:
    linked, symbols, seconds = ours((HERE / "host_functions.zynml").read_text(encoding="utf-8"))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        library = c_library(Path(folder))
        for name, arguments in CALLS.items():
            theirs = getattr(library, name)
            theirs.restype, theirs.argtypes = ctypes.c_int64, [ctypes.c_int64] * len(arguments)
            runs = {"ours": called(linked, symbols[name]), "c": theirs}
            answers = {who: run(*arguments) for who, run in runs.items()}
            assert answers["ours"] == answers["c"] != -1, f"{name}: {answers}"
            times: dict[str, list[float]] = {who: [] for who in runs}
            for turn in range(rounds):
                for who in sorted(runs, reverse=bool(turn % 2)):
                    started = time.thread_time()
                    runs[who](*arguments)
                    times[who].append(1e3 * (time.thread_time() - started))
            ratio = statistics.median(a / b for a, b in zip(times["ours"], times["c"], strict=True))
            row: dict[str, Any] = {"function": name, "arguments": list(arguments), "answer": answers["ours"]}
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
