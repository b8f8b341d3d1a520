"""The figures of bench/cpu or bench/gpu as a table of docs/performance.md: `python -m bench.table bench/results/cpu-znver5.json`."""

import json
import sys
from pathlib import Path
from typing import Any


def table(figures: dict[str, Any]) -> str:
    """One line a kernel and shape: for each number of threads the least times of both sides in ms, their ratio, and the median of
    the ratios of single rounds."""
    runs = figures["runs"]
    heads = [f"{who}, {run['threads']} thr." for run in runs for who in ("ours", "C", "ratio", "median")]
    lines = ["| kernel | shape | " + " | ".join(heads) + " |", "|---|---|" + "---:|" * len(heads)]
    for number, row in enumerate(runs[0]["rows"]):
        rows = [run["rows"][number] for run in runs]
        cells = [text for one in rows for text in _cells(one)]
        lines.append(f"| {row['kernel']} | {row['shape']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def gpu_table(figures: dict[str, Any]) -> str:
    """One line a workload: the median times of ours and of the best peer in ms, our rate and share of the device's limit, the median
    ratio, its spread and what is wanted."""
    lines = ["| workload | ours, ms | best peer, ms | | rate | % of limit | ratio | least to most | wanted |"]
    lines.append("|---|---:|---:|---|---:|---:|---:|---:|---:|")
    for row in figures["rows"]:
        if "failed" in row:
            lines.append(f"| {row['workload']} | {row['failed'].split(':')[0]} | | | | | | | |")
            continue
        share = f"{100 * row['share_of_limit']:.0f}" if "share_of_limit" in row else ""
        rate, goal = f"{row['rate']:.3g} {row['unit']}", row.get("goal")
        cells = [row["workload"], _time(row["ours_ms"])]
        if "ratio" in row:
            low, high = row["ratio_spread"]
            cells += [_time(row["peer_ms"]), row.get("best_peer", ""), rate, share, f"{row['ratio']:.2f}", f"{low:.2f} to {high:.2f}"]
        else:
            cells += ["", "", rate, share, "", ""]
        lines.append("| " + " | ".join([*cells, f"{goal:.3g}" if goal else ""]) + " |")
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    least = _time(row["ours_least_ms"]), _time(row["naive_c_least_ms"])
    return *least, _ratio(row["ratio_of_least"]), _ratio(row["ratio"])


def _time(milliseconds: float) -> str:
    return f"{milliseconds:.3g}" if milliseconds < 100 else f"{milliseconds:.0f}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


if __name__ == "__main__":
    read = json.loads(Path(sys.argv[1]).read_text())
    print(table(read) if "runs" in read else gpu_table(read))
