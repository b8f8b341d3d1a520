"""What a call from Python costs beside a call of NumPy's, on arrays so small that nothing else counts.

    python -m bench.calls [--rounds 31] [--calls 2000] [--threads 1] [--json FILE]

Ours and NumPy's are called in turn, `--calls` times each a round; nanoseconds are the median of the rounds, and the ratio (ours over
NumPy's) that of the rounds' ratios. Values are compared first. The first calls of a kind go through the program, in milliseconds; after the
second or third of them machine code is made."""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

import zynml

PROGRAM = """
def add(a: tensor[N], b: tensor[N]): tensor { compute(a, b) { for i in 0..N: out[i] = a[i] + b[i] } }
def scale(x: tensor[N], by: f32): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def raise_by(mut w: tensor[N], x: tensor[N]) { compute(mut w, x) { for i in 0..N: w[i] = w[i] + x[i] } }
def total(x: tensor[N]): f32 { compute(x) @kernel reduce(+) { for i in 0..N: yield x[i] } }
def matmul(x: tensor[M, K], y: tensor[K, N]): tensor {
    compute(x, y) { for i in 0..M, j in 0..N { var s = 0.0; for k in 0..K: s += x[i, k] * y[k, j]; out[i, j] = s } }
}
"""


@frozen
class CallCase:
    """`ours` and `peer` take the same arguments."""

    name: str
    arguments: tuple[Any, ...]
    ours: Callable[..., Any]
    peer: Callable[..., Any]


def call_cases(program: Any) -> list[CallCase]:
    rng = np.random.default_rng(1)

    def f32(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    def raised(w: Any, x: Any) -> Any:
        return np.add(w, x, w)

    zeros = np.zeros(16, np.float32)
    sizes = (16, 1 << 10, 1 << 14, 1 << 16, 1 << 20)
    cases = [CallCase(f"add, {count} elements", (f32(count), f32(count)), program.add, np.add) for count in sizes]
    return [
        *cases,
        CallCase("add, every second of 32", (f32(32)[::2], f32(32)[::2]), program.add, np.add),
        CallCase("a number, 16 elements", (f32(16), 1.5), program.scale, np.multiply),
        CallCase("updated, 16 elements", (zeros.copy(), zeros), program.raise_by, raised),
        CallCase("sum of 16", (f32(16),), program.total, np.sum),
        CallCase("matmul of 8x8", (f32(8, 8), f32(8, 8)), program.matmul, np.matmul),
    ]


def measured(case: CallCase, rounds: int, calls: int) -> dict[str, Any]:
    first = []
    for _ in range(4):
        started = time.perf_counter()
        value = case.ours(*case.arguments)
        first.append(time.perf_counter() - started)
    np.testing.assert_allclose(value, case.peer(*case.arguments), rtol=1e-5)
    times: dict[Callable[..., Any], list[float]] = {case.ours: [], case.peer: []}
    for _ in range(rounds):
        for function, found in times.items():
            found.append(mean_of(function, case.arguments, calls))
    ours, peer = times.values()
    ratio = statistics.median(one / other for one, other in zip(ours, peer, strict=True))
    return {
        "call": case.name,
        "first_ms": [1e3 * seconds for seconds in first],
        "ours_ns": 1e9 * statistics.median(ours),
        "numpy_ns": 1e9 * statistics.median(peer),
        "ratio": ratio,
    }


def mean_of(function: Callable[..., Any], arguments: tuple[Any, ...], calls: int) -> float:
    """Seconds of a call."""
    calls = max(5, calls if sum(getattr(each, "size", 0) for each in arguments) < 1 << 14 else calls // 50)
    turns = range(calls)
    started = time.perf_counter()
    for _ in turns:
        function(*arguments)
    return (time.perf_counter() - started) / calls


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.calls", description="What a call from Python costs beside a call of NumPy's.")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    print(f"{'call':24} {'ours ns':>10} {'NumPy ns':>10} {'ratio':>7}   calls 1 to 4, ms")
    for case in call_cases(zynml.compile(PROGRAM, threads=options.threads)):
        rows.append(row := measured(case, options.rounds, options.calls))
        first = " ".join(f"{milliseconds:.2f}" for milliseconds in row["first_ms"])
        print(f"{row['call']:24} {row['ours_ns']:10.0f} {row['numpy_ns']:10.0f} {row['ratio']:7.2f}   {first}", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
