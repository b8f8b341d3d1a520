"""Random nests on a GPU: which share of the device's limit each reaches.

    python -m bench.gpu.wide [--seed 0] [--count 300] [--seconds 540] [--json FILE]

A nest's limit is the largest of four times, and one empty launch more: the bytes that it can't do without, at the speed of a copy; its
operations at the rate of their unit, and the minima and maxima among them at the rate of theirs; and, where data decide addresses, as many
accesses to places drawn at random in a table as large as its own (`bench.gpu.wide_lookups`). All are measured in the same run. The traffic
is drawn between 64 MB and 2 GB. Results are compared with float64 on the device. Each nest has a time limit, in a process that is started
again when a nest crashes or hangs: that one nest is lost then. A nest that is refused, or wrong, has a share of 0. With `--json` a later
call goes on behind the last seed of the file."""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.nests.families import FAMILIES, nest_of
from bench.nests.form import BenchNest
from bench.nests.report import FINE, Row, described, keep, kept, line, shown
from bench.worker import Worker

LEAST, MOST = 64e6, 2e9
"""Bytes that a nest moves."""

SECOND = 2
"""Times the speed of a copy at which blocks read what the second cache holds."""

MEASURES = "bench.gpu.wide_worker"


def limit_seconds(nest: BenchNest, limits: dict[str, Any], lookups: float = 0.0) -> float:
    """`lookups`: the seconds of its accesses to places that data decide. Those of updates go to ranges of the table that blocks hold, where
    that is faster: each range's blocks read all."""
    rates, found = limits["rates"], nest.lookups
    if found is not None and found.updates:
        ranges = -(-found.entries * found.entry_bytes // limits["shared"])
        lookups = min(lookups, ranges * nest.bytes / (SECOND * limits["copy"]))
    compared = nest.extremes / rates[f"extremes {nest.unit}"] if nest.extremes else 0.0
    return float(max(nest.bytes / limits["copy"], nest.operations / rates[nest.unit], compared, lookups) + limits["launch"])


def row_of(nest: BenchNest, answer: dict[str, Any], limits: dict[str, Any], seconds: float) -> Row:
    row = described(nest) | {name: value for name, value in answer.items() if name not in ("done", "seconds")}
    least = limit_seconds(nest, limits, answer.get("lookups_s", 0.0))
    row["limit_ms"] = 1e3 * least
    if "seconds" in answer:
        row["ours_ms"] = 1e3 * answer["seconds"]
        row["share"] = least / answer["seconds"]
    elif row["state"] == "stopped":
        row["share"] = least / seconds
    return row


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.wide", description="Random nests against the device's limit.")
    parser.add_argument("--seed", type=int, default=0, help="the first seed, where the file has none")
    parser.add_argument("--count", type=int, default=300, help="nests in all, those of the file among them")
    parser.add_argument("--seconds", type=float, default=540.0, help="of this call")
    parser.add_argument("--limit", type=float, default=25.0, help="seconds of a nest")
    parser.add_argument("--families", default="", help=f"of {', '.join(FAMILIES)}; all in turn where none is named")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("ZYNTAX_CACHE_DIR", folder)
        run(options, time.monotonic() + options.seconds)


def run(options: argparse.Namespace, until: float) -> None:
    figures = kept(options.json)
    rows: list[Row] = figures["rows"]
    families = [name for name in options.families.split(",") if name]
    worker = Worker(MEASURES)
    limits = worker.greeting
    if "copy" not in limits:
        raise SystemExit(f"the device's limits weren't measured: {limits.get('message')}")
    figures["runs"].append({name: value for name, value in limits.items() if name != "done"})
    print(f"{limits['device']}: copy {limits['copy'] / 1e12:.2f} TB/s, launch {1e6 * limits['launch']:.1f} us, "
          + ", ".join(f"{unit} {rate / 1e12:.1f} T/s" for unit, rate in limits["rates"].items()), flush=True)  # fmt: skip
    seed = max((row["seed"] + 1 for row in rows), default=options.seed)
    try:
        while len(rows) < options.count and time.monotonic() + 5 < until:
            if not worker.alive:
                worker = Worker(MEASURES, json.dumps(limits))
            family = families[seed % len(families)] if families else None
            nest = nest_of(seed, LEAST, MOST, family)
            seconds = min(options.limit, until - time.monotonic())
            answer = worker.measure({"seed": seed, "family": family}, seconds)
            seed += 1
            if answer["state"] == "stopped" and seconds < options.limit:
                break  # this call's time is over: the next call takes the nest again
            rows.append(row_of(nest, answer, limits, options.limit))
            print(line(rows[-1]), flush=True)
            keep(options.json, figures)
    except KeyboardInterrupt:
        print("interrupted: these are the rows before")
    worker.stop()
    print(f"\nworst first\n{shown(rows)}")
    if any(row["state"] not in (FINE, "refused", "stopped") for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
