"""Textbook loops on one thread of the CPU: compiled by us, the same loops by Numba, and NumPy's own functions.

    python -m bench.loops --peer PYTHON [--rounds 9] [--only softmax,matmul] [--json FILE]

PYTHON is an interpreter that has Numba. All three work on the arrays of `bench.cpu`, in turn; answers are compared with float64 first. A
ratio is the peer's processor time over ours in each round, and its median is printed (above 1: we are faster). Compilation isn't in the
times."""

import os

os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1"))  # read when NumPy is imported

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import zynml
from bench.cpu.kernels import HERE, Case, answer, cases, machine


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    e /= e.sum(1, keepdims=True)
    return e


def heat(x: Any) -> Any:
    out = np.zeros_like(x, shape=(x.shape[0] - 1, x.shape[1] - 1))
    out[1:, 1:] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    return out


NUMPY: dict[str, Callable[..., Any]] = {"matmul": np.matmul, "softmax": softmax, "argmax": np.argmax, "scan": np.cumsum, "heat": heat}
"""The kernels of the comparison, and how NumPy computes each."""


@contextmanager
def numba(python: str, case: Case, folder: Path) -> Iterator[Callable[[], float]]:
    """Answers each call with the seconds of a call in Numba, whose first result is checked."""
    for number, array in enumerate(case.inputs):
        np.save(folder / f"{number}.npy", array)
    script = HERE / "peers" / "numba_loops.py"
    command = [python, str(script), str(folder), case.name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def seconds() -> float:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            return float(process.stdout.readline())

        seconds()
        check(case, "Numba", np.load(folder / "result.npy"))
        yield seconds
        assert process.stdin is not None
        process.stdin.close()


def check(case: Case, who: str, value: Any) -> None:
    assert case.expected is not None
    error = float(np.max(np.abs(np.asarray(answer(value), np.float64) - case.expected())))
    if not error <= case.tolerance:
        raise SystemExit(f"{case.name}: the answer of {who} is off by {error:g}")


def timed(function: Callable[..., Any], case: Case) -> Callable[[], float]:
    def seconds() -> float:
        started = time.process_time()
        function(*case.inputs)
        return time.process_time() - started

    return seconds


def measure(case: Case, program: Any, python: str, rounds: int) -> dict[str, Any]:
    ours, numpy = getattr(program, case.name), NUMPY[case.name]
    for _ in range(3):  # after which calls run by machine code
        check(case, "Zyntax", ours(*case.inputs))
    with tempfile.TemporaryDirectory() as folder, numba(python, case, Path(folder)) as peer:
        sides = {"zyntax": timed(ours, case), "numba": peer, "numpy": timed(numpy, case)}
        times = {who: [] for who in sides}
        for _ in range(rounds):
            for who, seconds in sides.items():
                times[who].append(seconds())
    row: dict[str, Any] = {"kernel": case.name, "shape": case.shape}
    row |= {f"{who}_ms": 1e3 * statistics.median(found) for who, found in times.items()}
    for who in ("numba", "numpy"):
        row[f"ratio_to_{who}"] = statistics.median(peer / own for own, peer in zip(times["zyntax"], times[who], strict=True))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", metavar="PYTHON", required=True)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default=",".join(NUMPY), help="names of kernels")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    program = zynml.compile(HERE / "kernels.zynml", threads=1)
    versions = "import numba, numpy; print('Numba', numba.__version__, 'with NumPy', numpy.__version__)"
    peer = subprocess.run([options.peer, "-c", versions], capture_output=True, text=True, check=True).stdout.strip()
    print(f"{'kernel':10} {'shape':14} {'ours ms':>9} {'Numba ms':>9} {'NumPy ms':>9} {'Numba / ours':>13} {'NumPy / ours':>13}")
    rows, named = [], options.only.split(",")
    for case in cases(np.random.default_rng(0)):
        if case.name in named and case.name not in [row["kernel"] for row in rows]:
            rows.append(row := measure(case, program, options.peer, options.rounds))
            figures = f"{row['zyntax_ms']:9.3f} {row['numba_ms']:9.3f} {row['numpy_ms']:9.3f}"
            print(f"{case.name:10} {case.shape:14} {figures} {row['ratio_to_numba']:13.2f} {row['ratio_to_numpy']:13.2f}", flush=True)
    if options.json is not None:
        command = f"python -m bench.loops --peer PYTHON --rounds {options.rounds}"
        held = {"machine": machine() | {"numpy": np.__version__, "peer": peer}, "command": command, "rows": rows}
        options.json.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
