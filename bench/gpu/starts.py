"""What a program's first call costs: `python -m bench.gpu.starts [--runs 7]`. Each figure is of a process of its own, whose arrays lie on
the device before its clock starts.

* cold: nothing is kept, by us or by the driver, and nothing tuned. From the program's text to the end of its first call, for a process
  that loads the compiler for it, and for one that compiled something else before.
* warm: another process made this very call. From the text to the launch."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.gpu import sources

SIZE = 4096
BEFORE = "def g(x: tensor[N, f32]) { compute(x) { for i in 0..N: out[i] = x[i] + 1.0 } }"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.starts", description="What a program's first call costs.")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--once", action="store_true", help="one process's figures, as JSON")
    parser.add_argument("--loaded", action="store_true", help="of a process that compiled something before")
    options = parser.parse_args()
    if options.once:
        print(json.dumps(once(options.loaded)))
        return
    found = figures(options.runs)
    for name, value in found.items():
        print(f"{name:60} {value:8.2f} ms")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


def figures(runs: int) -> dict[str, float]:
    """Milliseconds, medians over processes."""
    with tempfile.TemporaryDirectory() as folder:
        nothing_kept = {"ZYNTAX_CACHE": "off", "CUDA_CACHE_DISABLE": "1", "ZYNTAX_TUNE": "off"}
        _process({"ZYNTAX_CACHE": "off"})  # modules are compiled to bytecode
        cold = [_process(nothing_kept) for _ in range(runs)]
        loaded = [_process(nothing_kept, "--loaded") for _ in range(runs)]
        kept = {"ZYNTAX_CACHE_DIR": folder}
        first = [_process(kept) for _ in range(2)]
        assert any(Path(folder).rglob("*.zyn")), "nothing was kept"
        warm = [_process(kept) for _ in range(runs)]
    found = {}
    for name, ones in {"cold": cold, "cold, compiler loaded": loaded, "filling the cache": first[:1], "warm": warm}.items():
        for part in ones[0]:
            found[f"{name}: {part}"] = statistics.median(one[part] for one in ones)
    return found


def _process(environment: dict[str, str], *more: str) -> dict[str, float]:
    inherited = {name: value for name, value in os.environ.items() if name != "ZYNTAX_CACHE"}
    command = [sys.executable, "-m", "bench.gpu.starts", "--once", *more]
    done = subprocess.run(command, env={**inherited, **environment}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def once(loaded: bool) -> dict[str, float]:
    """One start in this process."""
    began = time.perf_counter()
    import zynml

    compile = zynml.compile
    imported = time.perf_counter()
    given = [_array(seed) for seed in (1, 2)]
    if loaded:
        _compile_another()
    ready = time.perf_counter()
    program = compile(sources.product(), device="cuda:0")
    compiled = time.perf_counter()
    product = program.f(*given)
    launched = time.perf_counter()
    given[0].remote.gpu.synchronize()
    done = time.perf_counter()
    _require_right(given, product)
    return {
        "import zynml": 1e3 * (imported - began),
        "zynml.compile": 1e3 * (compiled - ready),
        "first call": 1e3 * (launched - compiled),
        "text to launch": 1e3 * (launched - ready),
        "text to end": 1e3 * (done - ready),
    }


def _array(seed: int, rows: int = SIZE) -> Any:
    """Values of bf16 on the device, which the caller put there."""
    import numpy as np

    from runtime.cuda.copies import to_device
    from runtime.cuda.gpu import gpu
    from runtime.cuda.remote import OnGpu
    from runtime.tensor import Tensor, numpy_dtype

    found = gpu(0)
    values = np.random.default_rng(seed).standard_normal((rows, SIZE), np.float32).astype(numpy_dtype("bf16"))
    elements = to_device(values, found.allocate(values.nbytes), found.stream)
    found.synchronize()
    return Tensor(None, OnGpu(elements, found, named=True))


def _compile_another() -> None:
    import numpy as np

    import zynml

    zynml.compile(BEFORE, device="cuda:0").g(np.ones(SIZE, np.float32))


def _require_right(given: list[Any], product: Any) -> None:
    import numpy as np

    a, b = (one.contents for one in given)
    rows = [0, 1, SIZE // 2 + 3, SIZE - 1]
    right = a[rows].astype(np.float64) @ b.astype(np.float64)
    error = np.linalg.norm(product.array[rows].astype(np.float64) - right) / np.linalg.norm(right)
    assert error < 1e-2, f"the product is wrong by {error}"


if __name__ == "__main__":
    main()
