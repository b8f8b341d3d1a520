"""Loops at the top of a program, which it goes on with natively while they run, beside the same in C.

    python -m bench.hot_loops [--rounds 5] [--turns 100000000] [--json FILE]

C is compiled by `gcc -O2`, with `__builtin_add_overflow` and its kind wherever ours checks. Both are processes of their own, in turn, each
with the turns asked for and with four times as many: what is compared is a third of the difference of the processor's time, in which
neither start nor compiler are. The start of ours, with its turns on Python and the making of code, is in the last column."""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

LOOPS = {
    "sum of remainders": (
        "var s = 0\nfor i in 0..TURNS { s += i % 7 }\nprintln(s)",
        "long s = 0; for (long i = 0; i < TURNS; i++) s = add(s, i % 7); printf(\"%ld\\n\", s);",
    ),
    "congruences": (
        "var p = 1\nfor i in 0..TURNS { p = (p * 3 + i) % 1000003 }\nprintln(p)",
        "long p = 1; for (long i = 0; i < TURNS; i++) p = add(mul(p, 3), i) % 1000003; printf(\"%ld\\n\", p);",
    ),
    "f64": (
        "var x = 0.5\nfor i in 0..TURNS { x = x * 0.999999 + 1.0 }\nprintln(f\"{x:.6f}\")",
        "double x = 0.5; for (long i = 0; i < TURNS; i++) x = x * 0.999999 + 1.0; printf(\"%.6f\\n\", x);",
    ),
}

C = """
#include <stdio.h>
#include <stdlib.h>
static long add(long a, long b) { long r; if (__builtin_add_overflow(a, b, &r)) abort(); return r; }
static long mul(long a, long b) { long r; if (__builtin_mul_overflow(a, b, &r)) abort(); return r; }
int main(int count, char **given) { long TURNS = atol(given[1]); LOOP }
"""


def measured(command: list[str]) -> tuple[float, str]:
    """Seconds of the processor that a process takes, and what it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, told


def row(name: str, folder: Path, rounds: int, turns: int) -> dict[str, object]:
    ours, theirs = LOOPS[name]
    (folder / "loop.c").write_text(C.replace("LOOP", theirs), encoding="utf-8")
    subprocess.run(["gcc", "-O2", "-o", folder / "loop", folder / "loop.c"], check=True)
    times: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for many in (turns, 4 * turns):
            path = folder / f"loop{many}.zynml"
            path.write_text(ours.replace("TURNS", str(many)), encoding="utf-8")
            told = set()
            for side, command in (("ours", [sys.executable, "-m", "zyntax", "run", str(path)]), ("C", [str(folder / "loop"), str(many)])):
                seconds, text = measured(command)
                times.setdefault((side, many), []).append(seconds)
                told.add(text)
            assert len(told) == 1, f"{name}: {told}"
    least = {key: min(values) for key, values in times.items()}
    own, c = (
        statistics.median((b - a) / 3 for a, b in zip(times[side, turns], times[side, 4 * turns], strict=True)) for side in ("ours", "C")
    )
    return {"loop": name, "ours": own, "C": c, "ratio": own / c, "start": (4 * least["ours", turns] - least["ours", 4 * turns]) / 3}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turns", type=int, default=100_000_000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    print(f"{'':20} {'ours, s':>10} {'C, s':>10} {'ours / C':>10} {'start, s':>10}")
    rows = []
    with tempfile.TemporaryDirectory(prefix="hot-loops-") as folder:
        os.environ["ZYNTAX_CACHE_DIR"] = str(Path(folder) / "cache")
        for name in LOOPS:
            rows.append(row(name, Path(folder), given.rounds, given.turns))
            print(f"{name:20} {rows[-1]['ours']:10.3f} {rows[-1]['C']:10.3f} {rows[-1]['ratio']:10.2f} {rows[-1]['start']:10.3f}")
    if given.json is not None:
        given.json.write_text(json.dumps({"turns": given.turns, "rounds": given.rounds, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
