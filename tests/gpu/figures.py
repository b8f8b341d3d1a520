"""What the runtime costs on this machine, as JSON: `python tests/gpu/figures.py [FILE]`. Times are medians of several runs, each the
mean of many calls; bandwidths beside PyTorch's in the same run, where PyTorch is here. This measures; it judges nothing."""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import numpy as np
from ptx_kernels import ALL

from runtime.cuda.copies import copy, download, fill, upload
from runtime.cuda.gpu import Gpu, gpu
from runtime.cuda.graph import Recording
from runtime.cuda.launch import LaunchPlan

COPY_BYTES = 256 << 20
RUNS = 9


def microseconds(act: Callable[[], Any], calls: int, after: Callable[[], Any]) -> float:
    """Host time of one call, `after` (a wait, say) not counted."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter_ns()
        for _ in range(calls):
            act()
        times.append((time.perf_counter_ns() - start) / calls / 1e3)
        after()
    return round(statistics.median(times), 3)


def gigabytes(found: Gpu, act: Callable[[], Any], size: int) -> float:
    """Bytes a nanosecond between two events, the best of several."""
    best = 0.0
    for _ in range(RUNS):
        start = found.stream.record(timing=True)
        act()
        end = found.stream.record(timing=True)
        end.synchronize()
        best = max(best, size / end.milliseconds_since(start) / 1e6)
    return round(best, 1)


def launches(found: Gpu) -> dict[str, float]:
    stream = found.stream
    nothing = found.modules.load(ALL["waiting"]).kernel("nothing")
    plan = LaunchPlan(nothing, ("pointer", "pointer", "f32", "i64"), (1,), (32,))
    a, b = found.allocate(1024), found.allocate(1024)
    bound = plan.bind(a, b, 1.0, 5)
    values = (a, b, 1.0, 5)

    def round_trip() -> None:
        bound(stream)
        stream.synchronize()

    with Recording(stream) as recording:
        for _ in range(100):
            plan(stream, *values)
    graph = recording.graph()
    wait = stream.synchronize

    def replay() -> None:
        graph(stream)
        stream.synchronize()

    replayed = microseconds(replay, 20, wait)
    return {
        "launch with 4 arguments": microseconds(lambda: plan(stream, *values), 500, wait),
        "launch, bound": microseconds(lambda: bound(stream), 500, wait),
        "launch and synchronize": microseconds(round_trip, 500, wait),
        "driver's launch alone": microseconds(lambda: plan._driver_launch(stream, plan.arguments.address), 500, wait),
        "graph of 100 launches, host time a launch": round(microseconds(lambda: graph(stream), 20, wait) / 100, 3),
        "graph of 100 launches, with waiting, a launch": round(replayed / 100, 3),
        "cached module load": microseconds(lambda: found.modules.load(ALL["waiting"]), 5000, wait),
        "event record": microseconds(lambda: stream.record(), 500, wait),
        "synchronize, nothing to do": microseconds(wait, 2000, wait),
        "argument change in a graph": microseconds(lambda: graph.change(50, values), 500, wait),
    }


def memory(found: Gpu) -> dict[str, float]:
    stream, pool = found.stream, found.pool

    def from_driver() -> None:
        device = found.device
        device.call("cuMemFreeAsync", device.call("cuMemAllocAsync", 4096, stream.handle), stream.handle)

    return {
        "allocate and free 4 KiB": microseconds(lambda: pool.allocate(4096, stream), 5000, stream.synchronize),
        "allocate and free 64 MiB": microseconds(lambda: pool.allocate(64 << 20, stream), 2000, stream.synchronize),
        "the driver's alone": microseconds(from_driver, 2000, stream.synchronize),
    }


def bandwidths(found: Gpu) -> dict[str, float]:
    stream = found.stream
    pinned = found.pinned.empty((COPY_BYTES,), np.uint8)
    pinned[:] = np.arange(COPY_BYTES, dtype=np.uint8)
    ordinary = np.array(pinned)
    a, b = found.allocate(COPY_BYTES), found.allocate(COPY_BYTES)
    result = {
        "pinned to device": gigabytes(found, lambda: upload(a, pinned, stream), COPY_BYTES),
        "device to pinned": gigabytes(found, lambda: download(pinned, a, stream), COPY_BYTES),
        "ordinary to device": gigabytes(found, lambda: upload(a, ordinary, stream), COPY_BYTES),
        "device to device, read and written": gigabytes(found, lambda: copy(b, a, stream), 2 * COPY_BYTES),
        "fill": gigabytes(found, lambda: fill(a, 0, stream, 4), COPY_BYTES),
    }
    return result | pytorchs()


def pytorchs() -> dict[str, float]:
    try:
        import torch
    except ImportError:
        return {}
    host = torch.empty(COPY_BYTES, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda")

    def best(act: Callable[[], Any]) -> float:
        found = 0.0
        for _ in range(RUNS):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            act()
            end.record()
            end.synchronize()
            found = max(found, COPY_BYTES / start.elapsed_time(end) / 1e6)
        return round(found, 1)

    return {
        "PyTorch's pinned to device": best(lambda: device.copy_(host, non_blocking=True)),
        "PyTorch's device to pinned": best(lambda: host.copy_(device, non_blocking=True)),
    }


def main() -> None:
    found = gpu()
    limits = found.device.properties
    figures = {
        "device": limits.name,
        "driver": ".".join(str(part) for part in limits.driver_version),
        "python": sys.version.split()[0],
        "microseconds": launches(found) | memory(found),
        "gigabytes a second": bandwidths(found),
    }
    text = json.dumps(figures, indent=2)
    print(text)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text + "\n")


if __name__ == "__main__":
    main()
