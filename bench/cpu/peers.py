"""Products, convolutions, attention and distances against the libraries that people use: NumPy, PyTorch, C.

    python -m bench.cpu.peers [--peer-python PYTHON] [--threads 1,2] [--rounds 5] [--only NAME,NAME] [--json FILE]

Each side is a process of its own for each number of threads, and stands still while another measures, so that no team of threads
disturbs another. PyTorch is looked for in the interpreter `--peer-python`. In a round every side calls the row for some time. `ratio`:
the median over rounds of the best peer's median time over ours; `least`: the same of the least times of all rounds."""

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

from bench.cpu.kernels import machine
from bench.cpu.peer_rows import ROWS, PeerRow
from bench.cpu.stopped import StoppedProcess

REPOSITORY = Path(__file__).parent.parent.parent

SECONDS = 0.03
"""Of a side in a round; one call at least."""

KEEP_BLOCKS = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 32), "MALLOC_TOP_PAD_": str(1 << 28)}
"""Peers keep the memory of results from call to call."""


class PeerProcess(StoppedProcess):
    """One side."""

    def __init__(self, side: str, threads: int, python: str) -> None:
        # a side that stands still makes no better code in between
        kept = {"ZYNTAX_TIER": "1"} if side == "ours" else KEEP_BLOCKS
        super().__init__(python, Path(__file__).parent / "peer_worker.py", [side, str(threads), str(REPOSITORY)], kept)

    def measure(self, row: int, seconds: float) -> dict[str, float]:
        result: dict[str, float] = json.loads(self.answer(json.dumps({"row": row, "seconds": seconds})))
        return result


def measured(number: int, row: PeerRow, sides: dict[str, PeerProcess], rounds: int, seconds: float) -> dict[str, Any]:
    times: dict[str, list[dict[str, float]]] = {}
    names = [name for name, side in sides.items() if side.measure(number, 0.0)]
    for turn in range(rounds):
        for name in names[:: 1 if turn % 2 else -1]:
            times.setdefault(name, []).append(sides[name].measure(number, seconds))
    peers = [name for name in names if name != "ours"]
    result: dict[str, Any] = {"row": row.name, "operands": row.shape, "bar": row.bar}
    for name in names:
        result[f"{name}_ms"] = 1e3 * statistics.median(time["median"] for time in times[name])
        result[f"{name}_least_ms"] = 1e3 * min(time["least"] for time in times[name])
    if peers:
        ratios = sorted(min(times[peer][turn]["median"] for peer in peers) / times["ours"][turn]["median"] for turn in range(rounds))
        result |= {"ratio": statistics.median(ratios), "ratio_low": ratios[0], "ratio_high": ratios[-1]}
        result["ratio_of_least"] = min(result[f"{peer}_least_ms"] for peer in peers) / result["ours_least_ms"]
    return result


def line(row: dict[str, Any], threads: int) -> str:
    times = "".join(f"{row[f'{side}_ms']:10.4f}" if f"{side}_ms" in row else f"{'-':>10}" for side in ("ours", "numpy", "torch", "c"))
    ratio = f"{row['ratio']:7.2f}{row['ratio_of_least']:7.2f}  {row['ratio_low']:.2f} to {row['ratio_high']:.2f}" if "ratio" in row else ""
    low = "  <" if row.get("ratio", row["bar"]) < row["bar"] else ""
    return f"{threads}  {row['row']:18} {row['operands']:46}{times} {ratio}{low}"


def run(threads: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    only = [name for name in options.only.split(",") if name]
    chosen = [(number, row) for number, row in enumerate(ROWS) if not only or any(row.name.startswith(name) for name in only)]
    sides = {}
    for name, python in (("ours", sys.executable), ("numpy", options.peer_python), ("torch", options.peer_python), ("c", sys.executable)):
        side = PeerProcess(name, threads, python)
        if side.is_ready:
            sides[name] = side
        else:
            print(f"without {name}: {side.why()}", file=sys.stderr)
    try:
        rows = []
        for number, row in chosen:
            rows.append(measured(number, row, sides, options.rounds, options.seconds))
            print(line(rows[-1], threads), flush=True)
        return rows
    finally:
        for side in sides.values():
            side.stop()


def merged(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs with the rows of later ones in the place of the same rows, or behind all others."""
    later = {run["threads"]: {(row["row"], row["operands"]): row for row in run["rows"]} for run in after}
    runs = []
    for run in before:
        rows = {(row["row"], row["operands"]): row for row in run["rows"]} | later.pop(run["threads"], {})
        runs.append({"threads": run["threads"], "rows": list(rows.values())})
    return [*runs, *(run for run in after if run["threads"] in later)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="the interpreter of NumPy and PyTorch")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, one run for each")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of a side in a round")
    parser.add_argument("--only", default="", help="beginnings of names of rows; a file keeps its others")
    parser.add_argument("--json", help="put the figures into this file, as `peers`")
    options = parser.parse_args()
    columns = "".join(f"{side + ' ms':>10}" for side in ("ours", "numpy", "torch", "C"))
    print(f"   {'row':18} {'operands':46}{columns}   ratio  least  spread")
    load = os.getloadavg()[0]
    runs = [{"threads": threads, "rows": run(threads, options)} for threads in map(int, options.threads.split(","))]
    if options.json:
        target = Path(options.json)
        figures = json.loads(target.read_text()) if target.exists() else {}
        arguments = [Path(argument).name if argument == options.peer_python else argument for argument in sys.argv[1:]]
        command = " ".join(["python -m bench.cpu.peers", *arguments])
        made = {"machine": machine(), "load_before": load, "load_after": os.getloadavg()[0], "command": command}
        if options.only and "peers" in figures:
            figures["peers"] |= {"later": [*figures["peers"].get("later", []), made], "runs": merged(figures["peers"]["runs"], runs)}
        else:
            figures["peers"] = {**made, "runs": runs}
        target.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
