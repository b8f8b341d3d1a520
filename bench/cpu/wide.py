"""Random nests on the CPU: which share of the machine's limit each reaches, and how it compares with the same loops in C.

    python -m bench.cpu.wide [--seed 0] [--count 300] [--seconds 540] [--threads 1,2] [--json FILE]

The nests are those of `bench.nests`, with 1 MB to 256 MB of traffic. A nest's limit is the largest of several times: a copy that moves as
many bytes, its operations at the rate of fused products, and, where data decide, lookups in a table as large as its own and the ends of
loops (`bench.cpu.wide_limits`). All are measured in the same process, in turn. The peer is
`gcc -O3 -march=native -ffast-math -fopenmp` of the same loops. Times are the least of several rounds, with one thread the processor's: on a
machine with other work they say the most. Results are compared with NumPy in float64. With `--json` a later call goes on behind the last
seed of the file."""

import argparse
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.nests.families import FAMILIES, nest_of
from bench.nests.report import FINE, Row, described, keep, kept, line, shown
from bench.worker import Worker

LEAST, MOST = 1e6, 256e6
"""Bytes that a nest moves."""

WORK = 8e9
"""Operations of a nest at most, so that C's loops end."""

MEASURES = "bench.cpu.wide_worker"


def against_c(rows: Sequence[Row]) -> str:
    """The geometric mean of C's time over ours, and the rows in which C is faster."""
    ratios = sorted((row["c_ms"] / row["ours_ms"], row["seed"], row["kind"]) for row in rows if "c_ms" in row and row["state"] == FINE)
    if not ratios:
        return "no row has a time of C"
    mean = math.exp(sum(math.log(ratio) for ratio, _, _ in ratios) / len(ratios))
    slower = [f"{seed} {kind} {ratio:.2f}" for ratio, seed, kind in ratios if ratio < 0.9]
    return f"C over ours: geometric mean {mean:.2f} of {len(ratios)}; below 0.9: {len(slower)}{': ' + '; '.join(slower) if slower else ''}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cpu.wide", description="Random nests against the machine's limit and against C.")
    parser.add_argument("--seed", type=int, default=0, help="the first seed, where the file has none")
    parser.add_argument("--count", type=int, default=300, help="nests in all, those of the file among them")
    parser.add_argument("--seconds", type=float, default=540.0, help="of this call")
    parser.add_argument("--limit", type=float, default=40.0, help="seconds of a nest")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--families", default="", help=f"of {', '.join(FAMILIES)}; all in turn where none is named")
    parser.add_argument("--json", type=Path)
    run(parser.parse_args())


def run(options: argparse.Namespace) -> None:
    until = time.monotonic() + options.seconds
    figures = kept(options.json)
    rows: list[Row] = figures["rows"]
    families = [name for name in options.families.split(",") if name]
    worker = Worker(MEASURES, options.threads)
    if "rates" not in worker.greeting:
        raise SystemExit(f"the machine's limits weren't measured: {worker.greeting.get('message')}")
    figures["runs"].append({name: value for name, value in worker.greeting.items() if name != "done"})
    for threads, rates in worker.greeting["rates"].items():
        print(f"threads {threads}: " + ", ".join(f"{unit} {rate / 1e9:.1f} G/s" for unit, rate in rates.items()), flush=True)
    seed = max((row["seed"] + 1 for row in rows), default=options.seed)
    try:
        while len({row["seed"] for row in rows}) < options.count and time.monotonic() + 2 < until:
            if not worker.alive:
                worker = Worker(MEASURES, options.threads)
            family = families[seed % len(families)] if families else None
            nest = nest_of(seed, LEAST, MOST, family, WORK)
            seconds = min(options.limit, until - time.monotonic())
            answer = worker.measure({"seed": seed, "family": family}, seconds)
            seed += 1
            measured = answer.pop("threads", {})
            if answer["state"] == "stopped" and not measured and seconds < options.limit:
                break  # this call's time is over: the next call takes the nest again
            for threads in options.threads.split(","):
                row = described(nest) | {name: value for name, value in answer.items() if name != "done"} | {"threads": int(threads)}
                row |= measured.get(threads, {})
                if "ours_ms" in row and row["state"] == "stopped":
                    row["state"] = FINE  # ours was measured; what took long is C's loop
                if "limit_ms" in row:
                    row["share"] = row["limit_ms"] / row["ours_ms"]
                rows.append(row)
                print(f"{threads} {line(row)}", flush=True)
            keep(options.json, figures)
    except KeyboardInterrupt:
        print("interrupted: these are the rows before")
    worker.stop()
    for threads in options.threads.split(","):
        mine = [row for row in rows if row["threads"] == int(threads)]
        print(f"\nthreads {threads}, worst first\n{shown(mine)}\n{against_c(mine)}")
    if any(row["state"] in ("wrong", "crashed") for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
