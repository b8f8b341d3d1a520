"""A process of `bench.cpu.peers`, for one side and one number of threads: `python peer_worker.py SIDE THREADS REPOSITORY`. It is told
a row and how many seconds to call it, and answers with the least and the median time of a call. Peers' interpreters run it too."""

import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv[3])
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = sys.argv[2]

import numpy as np  # noqa: E402  (NumPy's threads are counted when it is loaded)

from bench.cpu.peer_rows import ROWS, PeerRow, arrays, close  # noqa: E402

SHORT = 2e-5
"""Seconds of calls that are timed together."""


def ours(threads: int) -> Callable[[PeerRow], Callable[[], Any]]:
    import ml_dtypes

    import zynml

    program = zynml.compile(Path(__file__).parent / "products.zynml", threads=threads)
    narrow = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}

    def prepare(row: PeerRow) -> Callable[[], Any]:
        given = [array.astype(narrow.get(dtype, array.dtype)) for array, (dtype, _) in zip(arrays(row), row.operands, strict=True)]
        function = getattr(program, row.function)
        wanted = row.wanted(*(array.astype(np.float64) for array in given), *row.numbers)
        if not close(function(*given, *row.numbers), wanted, row.tolerance):
            raise SystemExit(f"{row.name}: our answer is wrong")
        return lambda: function(*given, *row.numbers)

    return prepare


def numpy(threads: int) -> Callable[[PeerRow], Callable[[], Any] | None]:
    def prepare(row: PeerRow) -> Callable[[], Any] | None:
        if row.numpy is None:
            return None
        call, given = row.numpy, arrays(row)
        out = np.empty(row.result[1], np.float64 if row.result[0] == "f64" else np.float32)
        return lambda: call(np, out, *given)

    return prepare


def torch(threads: int) -> Callable[[PeerRow], Callable[[], Any] | None]:
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    dtypes = {"f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64, "i32": torch.int32}

    def prepare(row: PeerRow) -> Callable[[], Any] | None:
        if row.torch is None:
            return None
        call, pairs = row.torch, zip(arrays(row), row.operands, strict=True)
        given = [torch.from_numpy(array).to(dtypes.get(dtype)) for array, (dtype, _) in pairs]
        out = torch.empty(row.result[1], dtype=dtypes.get(row.result[0], torch.float32))
        return lambda: call(torch, out, *given, *row.numbers)

    return prepare


def c(threads: int) -> Callable[[PeerRow], Callable[[], Any] | None]:
    target = Path(tempfile.mkdtemp()) / "naive.so"
    source = Path(__file__).parent.parent / "naive.c"
    flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(target), "-lm"], check=True)
    library = ctypes.CDLL(str(target))

    def prepare(row: PeerRow) -> Callable[[], Any] | None:
        if row.c is None:
            return None
        name, sizes = row.c
        held = [*arrays(row), np.empty(row.result[1], np.float32)]
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in held]
        function = getattr(library, name)
        return lambda: (function(*pointers, *map(ctypes.c_int64, sizes)), held)

    return prepare


SIDES: dict[str, Callable[[int], Callable[[PeerRow], Callable[[], Any] | None]]] = {"ours": ours, "numpy": numpy, "torch": torch, "c": c}


def timed(call: Callable[[], Any], seconds: float) -> dict[str, float]:
    began = time.perf_counter()
    call()
    together = max(1, int(SHORT / max(time.perf_counter() - began, 1e-7)))
    times = []
    until = time.perf_counter() + seconds
    while not times or time.perf_counter() < until:
        began = time.perf_counter()
        for _ in range(together):
            call()
        times.append((time.perf_counter() - began) / together)
    return {"least": min(times), "median": statistics.median(times)}


def main() -> None:
    prepare = SIDES[sys.argv[1]](int(sys.argv[2]))
    rows = {(row.name, row.function, row.operands): row for row in ROWS}
    by_number = list(rows.values())
    prepared: dict[int, Callable[[], Any] | None] = {}
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        number = question["row"]
        if number not in prepared:
            prepared.clear()
            prepared[number] = prepare(by_number[number])
            if (call := prepared[number]) is not None:
                call()
        call = prepared[number]
        print(json.dumps(timed(call, question["seconds"]) if call is not None else {}), flush=True)


if __name__ == "__main__":
    main()
