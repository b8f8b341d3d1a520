"""The figures of bench/cpu.py as the table of docs/performance.md: `python -m bench.table bench/results/cpu-znver4.json`."""

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


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    least = _time(row["ours_least_ms"]), _time(row["naive_c_least_ms"])
    return *least, _ratio(row["ratio_of_least"]), _ratio(row["ratio"])


def _time(milliseconds: float) -> str:
    return f"{milliseconds:.3g}" if milliseconds < 100 else f"{milliseconds:.0f}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


if __name__ == "__main__":
    print(table(json.loads(Path(sys.argv[1]).read_text())))
