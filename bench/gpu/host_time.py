"""What a call from Python takes on the host while the GPU works: `python -m bench.gpu.host_time [--runs 5]`. Each figure is of a process of
its own, and compares with what the same process takes for

* the driver's own launch of a kernel of as many arguments, for a function that updates a `mut` tensor of PyTorch's;
* PyTorch's own sum, for a function that returns the sum of two tensors as a new one.

Calls are timed in bursts that the launch queue holds, in turn with what they are compared with; the quickest burst of each counts."""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIZE = 1024
BURST, BURSTS = 200, 60
"""Calls, of which a queue holds some thousand, and how often."""

PROGRAM = """
def raised(mut w: tensor[N], x: tensor[N]) { compute(mut w, x) { for i in 0..N: w[i] = w[i] + x[i] } }
def sum(x: tensor[N], y: tensor[N]): tensor { compute(x, y) { for i in 0..N: out[i] = x[i] + y[i] } }
"""

NOTHING = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry nothing(.param .u64 w, .param .u64 x, .param .u64 n, .param .u64 record) { ret; }
"""

CASES = {"update": "the driver's own launch", "new": "torch.add"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.host_time", description="What a call takes on the host.")
    parser.add_argument("--runs", type=int, default=5, help="processes of each case, whose median counts")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--once", choices=CASES, help="one process's figures, as JSON")
    options = parser.parse_args()
    if options.once:
        print(json.dumps(once(options.once)))
        return
    figures = {case: [_process(case) for _ in range(options.runs)] for case in CASES}
    for line in shown(figures):
        print(line)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


def shown(figures: dict[str, list[tuple[float, float]]]) -> list[str]:
    """The medians over processes, which hold microseconds of ours and of what it is compared with."""
    lines = []
    for case, runs in figures.items():
        ours, theirs = (statistics.median(one) for one in zip(*runs, strict=True))
        above = statistics.median(ours - theirs for ours, theirs in runs)
        ratio = statistics.median(ours / theirs for ours, theirs in runs)
        lines.append(f"{case:8} {ours:6.2f} us, {CASES[case]} {theirs:6.2f} us: {above:+.2f} us, {ratio:.2f} times")
    return lines


def _process(case: str) -> tuple[float, float]:
    command = [sys.executable, "-m", "bench.gpu.host_time", "--once", case]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    ours, theirs = json.loads(done.stdout.splitlines()[-1])
    return ours, theirs


def once(case: str) -> tuple[float, float]:
    """Microseconds of a call of ours, and of what it is compared with, in this process."""
    import torch

    import zynml

    program = zynml.compile(PROGRAM)
    x, y = (torch.arange(SIZE, device="cuda", dtype=torch.float32) + number for number in range(2))
    if case == "new":
        _require_equal(program.sum(x, y), x + y)
        return quickest(lambda: program.sum(x, y), lambda: torch.add(x, y), torch.cuda.synchronize)
    w = torch.zeros_like(x)
    for count in range(1, 4):
        program.raised(w, x)
        _require_equal(w, count * x)
    return quickest(lambda: program.raised(w, x), _launch_of_nothing(w, x), torch.cuda.synchronize)


def quickest(ours: Callable[[], Any], theirs: Callable[[], Any], synchronize: Callable[[], Any]) -> tuple[float, float]:
    """Microseconds of a call of each."""
    best = [float("inf")] * 2
    for _ in range(BURSTS):
        for number, call in enumerate((ours, theirs)):
            synchronize()
            began = time.perf_counter()
            for _ in range(BURST):
                call()
            best[number] = min(best[number], (time.perf_counter() - began) / BURST)
    return 1e6 * best[0], 1e6 * best[1]


def _launch_of_nothing(w: Any, x: Any) -> Callable[[], Any]:
    """The driver's call as its Python binding has it, on arguments that lie packed in memory, on PyTorch's stream."""
    from runtime.cuda.arguments import Arguments
    from runtime.cuda.gpu import gpu
    from runtime.cuda.stream import LEGACY, foreign_stream

    here = gpu(0)
    kernel = here.modules.load(NOTHING, "nothing").kernel("nothing")
    arguments = Arguments(("pointer", "pointer", "i64", "pointer"))
    arguments.pack((w.data_ptr(), x.data_ptr(), SIZE, 0))
    launch, handle, stream = here.device.api.cuLaunchKernel, kernel.handle, foreign_stream(here.device, LEGACY).handle

    def call() -> Any:
        return launch(handle, 4, 1, 1, 256, 1, 1, 0, stream, arguments.address, 0)

    assert int(call()[0]) == 0, "the driver refused the launch"
    return call


def _require_equal(found: Any, right: Any) -> None:
    import numpy as np
    import torch

    np.testing.assert_array_equal(torch.from_dlpack(found).cpu().numpy(), right.cpu().numpy())


if __name__ == "__main__":
    main()
