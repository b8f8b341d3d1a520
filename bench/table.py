"""The figures of bench/cpu.py or bench/gpu.py as a table of docs/performance.md: `python -m bench.table bench/results/cpu-znver5.json`."""

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
    """One line a workload: the median times of both sides in ms, our rate, the median ratio and its spread."""
    lines = ["| workload | ours, ms | peer, ms | rate | ratio | least to most |", "|---|---:|---:|---:|---:|---:|"]
    for row in figures["rows"]:
        if "failed" in row:
            lines.append(f"| {row['workload']} | failed | | | | |")
            continue
        low, high = row["ratio_spread"]
        rate = f"{row['rate']:.3g} {row['unit']}"
        times = f"{_time(row['ours_ms'])} | {_time(row['peer_ms'])}"
        lines.append(f"| {row['workload']} | {times} | {rate} | {row['ratio']:.2f} | {low:.2f} to {high:.2f} |")
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
