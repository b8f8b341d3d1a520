"""Every kernel kind on the CPU against naive C (`gcc -O3 -march=native -fopenmp`), same number of threads.

    python -m bench.cpu [--threads 1,2] [--rounds 9] [--only matmul,scan] [--json [FILE]]

The two run in turn, in one process, on the same arrays; answers are compared first, against NumPy in float64. The ratio is
C's time over ours in each round, and its median is what counts (above 1: we are faster); on a machine with other work the ratio of
the least times says more, and is kept beside it."""

import argparse
import ctypes
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

import zynml

HERE = Path(__file__).parent.parent

SLOW = 0.3
"""Seconds of one call of the peer beyond which three rounds must do."""


@frozen
class Case:
    """`shape`: in words. `inputs`: arrays; `sizes`: the ints that the C function takes behind them; `expected`: float64,
    None where C's answer is the reference."""

    name: str
    kind: str
    shape: str
    inputs: tuple[Any, ...]
    output: Any
    sizes: tuple[int, ...]
    expected: Callable[[], Any] | None
    tolerance: float


def cases(rng: np.random.Generator) -> list[Case]:
    def f32(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    def empty(*shape: int, dtype: Any = np.float32) -> Any:
        return np.empty(shape, dtype)

    n = 10_000_000
    x = f32(n)
    wide = np.float64
    a, b = f32(1024, 1024), f32(1024, 1024)
    ga, gb = f32(64, 128, 128), f32(64, 128, 128)
    image, weights, depth = f32(8, 64, 56, 56), f32(64, 64, 3, 3), f32(64, 3, 3)
    q, k, v = f32(16, 512, 64), f32(16, 512, 64), f32(16, 512, 64)
    rows = f32(4096, 1024)
    square = f32(4096, 4096)
    even = square[::2]
    line = f32(4096)
    near, far = f32(1000, 64), f32(1000, 64)
    flat_near, flat_far = f32(1000, 3), f32(1000, 3)
    a64, b64 = rng.standard_normal((512, 512)), rng.standard_normal((512, 512))
    places = rng.integers(0, 1_000_000, n).astype(np.int32)
    ones = np.full(n, 2, np.float32)
    zeros = np.zeros((500, 500), np.float32)
    pixels = rng.integers(0, 256, n).astype(np.uint8)

    def attention() -> Any:
        s = np.einsum("hid,hjd->hij", q.astype(wide), k.astype(wide)) * 0.125
        p = np.exp(s - s.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True) @ v.astype(wide)

    def convolution() -> Any:
        padded = np.pad(image.astype(wide), ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        return np.einsum("nchwrs,fcrs->nfhw", windows, weights.astype(wide), optimize=True)

    def by_channel() -> Any:
        windows = np.lib.stride_tricks.sliding_window_view(image.astype(wide), (3, 3), axis=(2, 3))
        return np.einsum("nchwrs,crs->nchw", windows, depth.astype(wide), optimize=True)

    def rows_softmax() -> Any:
        e = np.exp(rows.astype(wide) - rows.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def gelu() -> Any:
        w = x.astype(wide)
        return 0.5 * w * (1 + np.tanh(0.7978845608 * (w + 0.044715 * w**3)))

    def one_head() -> Any:
        return attention()[:1]

    def small() -> Any:
        return a[:64, :64].astype(wide) @ b[:64, :64]

    def normalised() -> Any:
        w = rows.astype(wide)
        scaled = (w - w.mean(1, keepdims=True)) / np.sqrt(w.var(1, keepdims=True) + 1e-5)
        return scaled * line[:1024] + line[1024:2048]

    def heat() -> Any:
        found = np.zeros((4095, 4095), wide)
        w = square.astype(wide)
        found[1:, 1:] = 0.25 * (w[:-2, 1:-1] + w[2:, 1:-1] + w[1:-1, :-2] + w[1:-1, 2:])
        return found

    def distances_of(a: Any, b: Any) -> Any:
        return np.sqrt(((a[:, None].astype(wide) - b[None]) ** 2).sum(2))

    def apart() -> Any:
        return distances_of(near, far)

    def few_apart() -> Any:
        return distances_of(flat_near, flat_far)

    def blurred() -> Any:
        padded = np.pad(square.astype(wide), 2)
        rows_of = sum(padded[r : r + 4096] for r in range(5))
        return 0.04 * sum(rows_of[:, q : q + 4096] for q in range(5))

    def pooled() -> Any:
        return image.reshape(512, 28, 2, 28, 2).max((2, 4))

    return [
        Case("relu", "elementwise", "1e7", (x,), empty(n), (n,), lambda: np.maximum(x.astype(wide) * 1.5 + 0.25, 0), 1e-5),
        Case("gelu", "elementwise", "1e7", (x,), empty(n), (n,), gelu, 1e-5),
        Case("transpose", "elementwise", "4096^2", (square,), empty(4096, 4096), (4096, 4096), lambda: square.T, 0),
        Case("total", "reduce", "1e7", (x,), empty(1), (n,), lambda: x.sum(dtype=wide), 2e-1),
        Case("column_sums", "reduce", "4096x4096", (square,), empty(4096), (4096, 4096), lambda: square.sum(0, dtype=wide), 1e-2),
        Case("argmax", "reduce", "1e7", (x,), empty(1, dtype=np.int64), (n,), lambda: x.argmax(), 0),
        Case("matmul", "matmul", "1024^3", (a, b), empty(1024, 1024), (1024,) * 3, lambda: a.astype(wide) @ b, 1e-2),
        Case("batched", "batched_matmul", "64x128^3", (ga, gb), empty(64, 128, 128), (64, *[128] * 3), lambda: ga.astype(wide) @ gb, 1e-3),
        Case("conv2d", "conv2d", "8x64x56x56, 64x64x3x3", (image, weights), empty(8, 64, 56, 56), (8, 64, 56, 56, 64), convolution, 1e-2),
        Case("depthwise", "depthwise", "8x64x56x56, 3x3", (image, depth), empty(8, 64, 54, 54), (8, 64, 56, 56), by_channel, 1e-4),
        Case("attention", "attention", "16x512x64", (q, k, v), empty(16, 512, 64), (16, 512, 512, 64), attention, 1e-4),
        Case("softmax", "fused", "4096x1024", (rows,), empty(4096, 1024), (4096, 1024), rows_softmax, 1e-5),
        Case("scan", "scan", "1e7", (x,), empty(n), (n,), lambda: np.cumsum(x, dtype=wide), 5e-1),
        Case("sort", "sort", "1e7", (x,), empty(n), (n,), lambda: np.sort(x), 0),
        Case("matmul", "matmul", "64^3", (a[:64, :64].copy(), b[:64, :64].copy()), empty(64, 64), (64,) * 3, small, 1e-3),
        Case("matmul_f64", "matmul", "512^3", (a64, b64), empty(512, 512, dtype=wide), (512,) * 3, lambda: a64 @ b64, 1e-9),
        Case("matrix_vector", "matmul", "4096x4096", (square, line), empty(4096), (4096, 4096), lambda: square.astype(wide) @ line, 1e-2),
        Case("vector_matrix", "matmul", "4096x4096", (line, square), empty(4096), (4096, 4096), lambda: line @ square.astype(wide), 1e-2),
        Case("row_sums", "reduce", "4096x4096", (square,), empty(4096), (4096, 4096), lambda: square.sum(1, dtype=wide), 1e-2),
        Case("row_maxima", "reduce", "4096x4096", (square,), empty(4096), (4096, 4096), lambda: square.max(1), 0),
        Case("layernorm", "fused", "4096x1024", (rows, line[:1024], line[1024:2048]), empty(4096, 1024), (4096, 1024), normalised, 1e-4),
        Case("column_scan", "scan", "4096x1024", (rows,), empty(4096, 1024), (4096, 1024), lambda: np.cumsum(rows, 0, dtype=wide), 1e-1),
        Case("sort_rows", "sort", "4096x1024", (rows,), empty(4096, 1024), (4096, 1024), lambda: np.sort(rows), 0),
        Case("attention", "attention", "1x512x64", (q[:1], k[:1], v[:1]), empty(1, 512, 64), (1, 512, 512, 64), one_head, 1e-4),
        Case("gather", "nest", "1e7 of 1e6", (x[:1_000_000], places), empty(n), (1_000_000, n), lambda: x[places] * 2.0, 1e-6),
        Case("bytes", "elementwise", "1e7 u8", (pixels,), empty(n, dtype=np.uint8), (n,), lambda: pixels // 2 + 3, 0),
        Case("update", "elementwise", "1e7 in place", (ones,), ones.copy(), (n,), lambda: ones, 0),
        Case("strided", "elementwise", "2048 of 4096 rows", (even,), empty(2048, 4096), (2048, 4096), lambda: even * 2.0 + 1, 1e-6),
        Case("heat", "elementwise", "4096^2", (square,), empty(4096, 4096), (4096, 4096), heat, 1e-5),
        Case("distances", "nest", "1000x1000x64", (near, far), empty(1000, 1000), (1000, 1000, 64), apart, 1e-4),
        Case("distances", "nest", "1000x1000x3", (flat_near, flat_far), empty(1000, 1000), (1000, 1000, 3), few_apart, 1e-4),
        Case("blur", "nest", "4096^2", (square,), empty(4096, 4096), (4096, 4096), blurred, 1e-5),
        Case("pooled", "nest", "512x56x56", (image.reshape(512, 56, 56),), empty(512, 28, 28), (512, 56, 56), pooled, 0),
        Case("row_argmax", "reduce", "4096x1024", (rows,), empty(4096, dtype=np.int64), (4096, 1024), lambda: rows.argmax(1), 0),
        Case("mandelbrot", "nest", "500x500", (zeros,), empty(500, 500, dtype=np.int32), (500, 500), None, 0),
        Case("histogram", "custom", "1e7 u8", (pixels,), empty(256, dtype=np.int32), (n,), lambda: np.bincount(pixels, minlength=256), 0),
    ]


def naive_library() -> Any:
    """The C file compiled for this machine and loaded."""
    folder = tempfile.mkdtemp()
    target = Path(folder) / "naive.so"
    subprocess.run(
        ["gcc", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", str(HERE / "naive.c"), "-o", str(target), "-lm"], check=True
    )
    return ctypes.CDLL(str(target))


def c_call(library: Any, case: Case) -> Callable[[], None]:
    function = getattr(library, case.name)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*case.inputs, case.output)]
    sizes = [ctypes.c_int64(size) for size in case.sizes]
    return lambda: function(*pointers, *sizes)


def answer(value: Any) -> Any:
    """An arg-reduction's value is a pair; the index is compared."""
    return value[1] if isinstance(value, tuple) else value


def measure(case: Case, program: Any, library: Any, rounds: int) -> dict[str, Any]:
    ours, theirs = getattr(program, case.name), c_call(library, case)
    started = time.perf_counter()
    got = answer(ours(*case.inputs))
    first = time.perf_counter() - started
    started = time.perf_counter()
    theirs()
    slow = time.perf_counter() - started > SLOW
    expected = np.asarray(case.expected() if case.expected is not None else case.output)
    error = float(np.max(np.abs(np.asarray(got, np.float64) - expected)))
    if error > case.tolerance:
        raise SystemExit(f"{case.name}: our answer is off by {error:g}")
    times: dict[str, list[float]] = {"ours": [], "c": []}
    for turn in range(min(rounds, 3) if slow else rounds):
        for who, call in (("ours", lambda: ours(*case.inputs)), ("c", theirs))[:: 1 if turn % 2 else -1]:
            started = time.perf_counter()
            call()
            times[who].append(time.perf_counter() - started)
    ratios = sorted(c / o for o, c in zip(times["ours"], times["c"], strict=True))
    return {
        "kernel": case.name,
        "kind": case.kind,
        "shape": case.shape,
        "ours_ms": float(np.median(times["ours"]) * 1e3),
        "naive_c_ms": float(np.median(times["c"]) * 1e3),
        "ours_least_ms": min(times["ours"]) * 1e3,
        "naive_c_least_ms": min(times["c"]) * 1e3,
        "ratio_of_least": min(times["c"]) / min(times["ours"]),
        "ratio": float(np.median(ratios)),
        "ratio_low": ratios[0],
        "ratio_high": ratios[-1],
        "error": error,
        "first_call_s": first,
    }


def machine() -> dict[str, Any]:
    from llvmlite import binding

    from runtime.cpu import detect

    gcc = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    return {
        "cpu": detect.host_cpu(),
        "simd": detect.simd_name(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "llvm": ".".join(map(str, binding.llvm_version_info)),
        "gcc": gcc,
        "date": datetime.date.today().isoformat(),
    }


def run(library: Any, threads: int, rounds: int, only: frozenset[str]) -> list[dict[str, Any]]:
    """The rows of all kernels, or of those named, with so many threads on both sides; printed as they come."""
    library.omp_set_num_threads(threads)
    program = zynml.compile(HERE / "kernels.zynml", threads=threads)
    print(f"{threads} thread{'s' * (threads > 1)}")
    print(f"{'kernel':14} {'shape':24} {'ours ms':>9} {'C ms':>9} {'ratio':>7} {'least':>7}   spread")
    rows = []
    for case in cases(np.random.default_rng(0)):
        if only and case.name not in only:
            continue
        row = measure(case, program, library, rounds)
        rows.append(row)
        print(
            f"{row['kernel']:14} {row['shape']:24} {row['ours_ms']:9.3f} {row['naive_c_ms']:9.3f} {row['ratio']:7.2f} "
            f"{row['ratio_of_least']:7.2f}   "
            f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}",
            flush=True,
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="1,2", help="numbers of threads, one run for each")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="names of kernels")
    parser.add_argument("--json", nargs="?", const="", help="write the figures to bench/results/cpu-CPU.json, or the file given")
    given = parser.parse_args()
    library = naive_library()
    load = os.getloadavg()[0]
    only = frozenset(name for name in given.only.split(",") if name)
    runs = [{"threads": threads, "rows": run(library, threads, given.rounds, only)} for threads in map(int, given.threads.split(","))]
    if given.json is not None:
        about = machine()
        target = Path(given.json) if given.json else HERE / "results" / f"cpu-{about['cpu']}.json"
        target.parent.mkdir(exist_ok=True)
        command = " ".join(["python -m bench.cpu", *sys.argv[1:]])
        figures = {"machine": about, "load_before": load, "load_after": os.getloadavg()[0], "command": command, "runs": runs}
        target.write_text(json.dumps(figures, indent=1) + "\n")
