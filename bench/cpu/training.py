"""A network and its training beside PyTorch and NumPy: the loop alone, and a run from the start of the process to its end.

    python -m bench.cpu.training [--peer-python PYTHON] [--threads 1,2] [--rounds 40] [--runs 5] [--json FILE]

The network is that of `programs/zynml/digits.zynml`. **loop**: an epoch of 23 batches, without what is imported and compiled; each side is
a process of its own for each number of threads, which stands still while another trains. PyTorch runs eagerly, once with autograd and its
optimiser, once with the program's own derivatives; it is looked for in the interpreter `--peer-python`. **whole**: `zyntax run` of the
program, with a cache and without one, beside the NumPy script `digits_numpy.py`, which reads the same data and draws the same pictures,
in turn; byte code of Python's files is written before, into a folder of the run.
`ratio`: the peer's time over ours, the median over rounds; `least`: of the least times."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.cpu.kernels import machine
from bench.cpu.stopped import StoppedProcess

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
PROGRAM = REPOSITORY / "programs" / "zynml" / "digits.zynml"

SIDES = ("ours", "numpy", "torch", "torch by hand")


class Trainer(StoppedProcess):
    """One side."""

    def __init__(self, side: str, threads: int, python: str) -> None:
        super().__init__(python, HERE / "training_worker.py", [side, str(threads), str(REPOSITORY)], {})

    def epoch(self) -> float:
        """Seconds of the next epoch."""
        return float(self.answer("on"))


def loop(threads: int, rounds: int, peer_python: str) -> dict[str, list[float]]:
    """Seconds of each side's epochs."""
    sides: dict[str, Trainer] = {}
    try:
        for name in SIDES:
            trainer = Trainer(name, threads, peer_python if name.startswith("torch") else sys.executable)
            if trainer.is_ready:
                sides[name] = trainer
            else:
                print(f"without {name}: {trainer.why()}", file=sys.stderr)
        times: dict[str, list[float]] = {name: [] for name in sides}
        for turn in range(rounds):
            for name in list(sides)[:: 1 if turn % 2 else -1]:
                times[name].append(sides[name].epoch())
        return times
    finally:
        for trainer in sides.values():
            trainer.stop()


def whole(runs: int) -> dict[str, list[float]]:
    """Seconds of processes from their start to their end."""
    times: dict[str, list[float]] = {"ours": [], "ours, empty cache": [], "numpy": []}
    with tempfile.TemporaryDirectory() as folder:
        zyntax = [sys.executable, "-m", "zyntax", "run", str(PROGRAM)]
        numpy = [sys.executable, str(HERE / "digits_numpy.py"), folder]
        known = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        kept = {**known, "PYTHONPYCACHEPREFIX": f"{folder}/bytecode", "ZYNTAX_CACHE_DIR": f"{folder}/kept"}
        for command in (zyntax, zyntax, numpy):  # an entry to find, and byte code
            _seconds(command, folder, kept)
        for turn in range(runs):
            empty = {**kept, "ZYNTAX_CACHE_DIR": f"{folder}/empty{turn}"}
            times["ours"].append(_seconds(zyntax, folder, kept))
            times["numpy"].append(_seconds(numpy, folder, kept))
            times["ours, empty cache"].append(_seconds(zyntax, folder, empty))
    return times


def _seconds(command: Sequence[str], folder: str, environment: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def summary(times: dict[str, list[float]]) -> dict[str, Any]:
    """Medians, least times, and ratios to ours."""
    ours = times["ours"]
    return {
        name: {
            "median_ms": 1e3 * statistics.median(own),
            "least_ms": 1e3 * min(own),
            "ratio": statistics.median(one / other for one, other in zip(own, ours, strict=True)),
            "least": min(own) / min(ours),
        }
        for name, own in times.items()
        if own
    }


def show(title: str, rows: dict[str, Any]) -> None:
    for name, row in rows.items():
        print(f"{title:18} {name:18} {row['median_ms']:10.2f} {row['least_ms']:10.2f} {row['ratio']:7.2f} {row['least']:7.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="the interpreter of PyTorch")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, one run for each")
    parser.add_argument("--rounds", type=int, default=40, help="epochs of each side")
    parser.add_argument("--runs", type=int, default=5, help="of whole processes; 0: none")
    parser.add_argument("--json", help="put the figures into this file, as `training`")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{'':18} {'side':18} {'median ms':>10} {'least ms':>10} {'ratio':>7} {'least':>7}")
    figures: dict[str, Any] = {"machine": machine(), "load_before": load, "loops": []}
    for threads in map(int, options.threads.split(",")):
        rows = summary(loop(threads, options.rounds, options.peer_python))
        show(f"epoch, {threads} thread{'s' * (threads > 1)}", rows)
        figures["loops"].append({"threads": threads, "sides": rows})
    if options.runs:
        figures["whole"] = summary(whole(options.runs))
        show("start to end", figures["whole"])
    if options.json:
        target = Path(options.json)
        known = json.loads(target.read_text()) if target.exists() else {}
        arguments = [Path(argument).name if argument == options.peer_python else argument for argument in sys.argv[1:]]
        figures |= {"load_after": os.getloadavg()[0], "command": " ".join(["python -m bench.cpu.training", *arguments])}
        target.write_text(json.dumps(known | {"training": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
