"""KernelBench, a benchmark of operations (level 1) and of short chains of them (level 2) in PyTorch: textbook loops against PyTorch,
eager and compiled.

    python -m bench.gpu.kernelbench PATH [--level 2] [--rows 35,50,54-87] [--seconds 540] [--products f32|tf32]
        [--json FILE] [--markdown FILE]

PATH is a checkout of github.com/ScalingIntelligence/KernelBench, whose problems are read there. Inputs and model are the problem's own,
made on the device under seed 42. Our program for an operation is one of `bench/gpu/textbook.py`: its sizes are names. For a chain it is
a function of such loops for each operation, one after the other (`bench/gpu/fused_programs.py`); dropout drops nothing on either
side. Right means within 1e-2,
absolute or relative, of what the model gives, as in the benchmark. Times are medians of single calls, ours and theirs in turn, after
the cache was emptied. PyTorch multiplies f32 exactly too, or with `--products tf32` in tf32, in cuBLAS and cuDNN.

With `--json` a later call goes on with the problems that the file doesn't have."""

import argparse
import math
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.gpu.kernelbench_programs import LEVELS, Problem, problems, rows_of
from bench.nests.report import kept, written
from bench.worker import Worker

MEASURES = "bench.gpu.kernelbench_worker"

Row = dict[str, Any]


def ratios(row: Mapping[str, Any]) -> dict[str, float]:
    """The times of PyTorch over ours, where both are known."""
    if "ours_ms" not in row:
        return {}
    return {peer: row[f"{peer}_ms"] / row["ours_ms"] for peer in ("eager", "compile") if f"{peer}_ms" in row}


def line(row: Mapping[str, Any]) -> str:
    head = f"{row['number']:4} {row['title'][:60]:60} {row['state']:10}"
    times = "".join(f" {who} {row[f'{who}_ms']:9.4f} ms" for who in ("ours", "eager", "compile") if f"{who}_ms" in row)
    shares = "".join(f"  {peer} / ours {ratio:.3f}" for peer, ratio in ratios(row).items())
    first = f"  first {row['first_call_s']:.2f} s" if "first_call_s" in row else ""
    error = f"  error {row['error']:.1e}" if "error" in row else ""
    return f"{head}{times}{shares}{first}{error} {row.get('message', '')}"


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Counts, and geometric means; those of the better of both is over rows where both were timed."""
    states = {state: sum(row["state"] == state for row in rows) for state in sorted({row["state"] for row in rows})}
    words = [f"{len(rows)} problems: {', '.join(f'{count} {state}' for state, count in states.items())}"]
    right = [ratios(row) for row in rows if row["state"] == "right"]
    for name, values in (
        ("eager", [pair["eager"] for pair in right if "eager" in pair]),
        ("compile", [pair["compile"] for pair in right if "compile" in pair]),
        ("better of both", [min(pair.values()) for pair in right if len(pair) == 2]),
    ):
        if values:
            mean = math.exp(sum(map(math.log, values)) / len(values))
            ahead = sum(value >= 1 for value in values)
            words.append(f"{name}: geometric mean {mean:.3f} of {len(values)}, {ahead} of them at least 1, least {min(values):.3f}")
    return "\n".join(words)


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = ["| problem | | right | ours, ms | eager / ours | compile / ours | first call, s |", "|---:|---|---|---:|---:|---:|---:|"]
    for row in sorted(rows, key=lambda row: int(row["number"])):
        shares = ratios(row)
        cells = [str(row["number"]), row["title"], row["state"], f"{row['ours_ms']:.4g}" if "ours_ms" in row else ""]
        cells += [f"{shares[peer]:.2f}" if peer in shares else "" for peer in ("eager", "compile")]
        lines.append("| " + " | ".join([*cells, f"{row['first_call_s']:.2f}" if "first_call_s" in row else ""]) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.kernelbench", description="KernelBench.")
    parser.add_argument("path", type=Path, help="a checkout of KernelBench")
    parser.add_argument("--level", type=int, choices=tuple(LEVELS), default=1, help="1: operations; 2: chains of them")
    parser.add_argument("--rows", default="", help="numbers of problems, such as 35,50,54-87")
    parser.add_argument("--seconds", type=float, default=540.0, help="of this call")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of a problem")
    exact = "exact: as blocks that say nothing; f32: by FMAs alone"
    parser.add_argument("--products", choices=("exact", "f32", "tf32"), default="exact", help=exact)
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile, which takes seconds a problem")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("ZYNTAX_CACHE_DIR", folder)
        run(options, time.monotonic() + options.seconds)


def run(options: argparse.Namespace, until: float) -> None:
    chosen = rows_of(options.rows)
    figures = kept(options.json)
    rows: list[Row] = figures["rows"]
    known = {row["number"] for row in rows}
    waiting = [
        problem
        for problem in problems(options.path, options.level)
        if problem.number not in known and (chosen is None or problem.number in chosen)
    ]
    arguments = (options.products, "eager" if options.no_compile else "compile")
    worker = None
    try:
        for problem in waiting:
            if time.monotonic() + 5 > until:
                break
            if worker is None or not worker.alive:
                worker = Worker(MEASURES, *arguments)
                if not figures["runs"] or "device" not in figures["runs"][-1]:
                    figures["runs"].append({name: value for name, value in worker.greeting.items() if name != "done"})
            row = measured(worker, options.level, problem, min(options.limit, until - time.monotonic()))
            if row["state"] == "stopped" and until - time.monotonic() < 1 and "ours_ms" not in row:
                break  # this call's time is over: the next call takes the problem again
            rows.append(row)
            print(line(row), flush=True)
            written(options.json, figures)
    except KeyboardInterrupt:
        print("interrupted: these are the rows before")
    if worker is not None:
        worker.stop()
    if options.markdown:
        options.markdown.write_text(markdown(rows))
    print(f"\n{summary(rows)}")
    left = len(waiting) + len(known) - len(rows)
    if left:
        print(f"{left} problems are left for the next call")


def measured(worker: Worker, level: int, problem: Problem, seconds: float) -> Row:
    answer = worker.measure({"level": level, "path": str(problem.path), "title": problem.title}, seconds)
    return {"number": problem.number, "title": problem.title} | {name: value for name, value in answer.items() if name != "done"}


if __name__ == "__main__":
    main()
