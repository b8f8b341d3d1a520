"""What launches and allocations cost on the host, and how fast memory is copied: measured, not judged. Times are medians of several
runs, each the mean of many calls; bandwidths are the best of several."""

import statistics
import time
from collections.abc import Callable
from typing import Any

from runtime.cuda.gpu import Gpu
from runtime.cuda.graph import Recording
from runtime.cuda.launch import CheckedLaunch

RUNS = 9
LAUNCHES_OF_GRAPH = 100

NOTHING = """.version 7.0
.target sm_75
.address_size 64
.visible .entry nothing(.param .u64 a, .param .u64 b, .param .f32 c, .param .u64 d)
{
    ret;
}
"""
"""A kernel of four arguments that does nothing: what is left is the launch."""


def microseconds(act: Callable[[], Any], calls: int, after: Callable[[], Any], runs: int = RUNS) -> float:
    """Host time of one call, `after` (a wait, say) not counted."""
    times = []
    for _ in range(runs):
        start = time.perf_counter_ns()
        for _ in range(calls):
            act()
        times.append((time.perf_counter_ns() - start) / calls / 1e3)
        after()
    return round(statistics.median(times), 3)


def gigabytes(device: Gpu, act: Callable[[], Any], size: int, runs: int = RUNS) -> float:
    """Bytes a nanosecond between two events, the best of several."""
    best = 0.0
    for _ in range(runs):
        start = device.stream.record(timing=True)
        act()
        end = device.stream.record(timing=True)
        end.synchronize()
        best = max(best, size / end.milliseconds_since(start) / 1e6)
    return round(best, 1)


def launches(device: Gpu, calls: int = 500) -> dict[str, float]:
    """Microseconds of the host for a kernel with four arguments: one after the other, with waiting, in graphs; and of what a launch
    takes besides."""
    stream = device.stream
    nothing = device.modules.load(NOTHING).kernel("nothing")
    plan = CheckedLaunch(nothing, ("pointer", "pointer", "f32", "i64"), (1,), (32,))
    a, b = device.allocate(1024), device.allocate(1024)
    values = (a, b, 1.0, 5)
    launch, bound = plan.launch, plan.bind(*values)
    wait, driver = stream.synchronize, device.device.api.cuLaunchKernel
    raw = (nothing.handle, 1, 1, 1, 32, 1, 1, 0, stream.handle, plan.arguments.address, 0)

    def round_trip() -> None:
        bound(stream)
        wait()

    def replay() -> None:
        graph(stream)
        wait()

    with Recording(stream) as recording:
        for _ in range(LAUNCHES_OF_GRAPH):
            plan(stream, *values)
    graph = recording.graph()
    few = max(1, calls // 25)
    return {
        "launch with 4 arguments": microseconds(lambda: launch(stream, a, b, 1.0, 5), calls, wait),
        "launch, bound": microseconds(lambda: bound(stream), calls, wait),
        "launch and synchronize": microseconds(round_trip, calls, wait),
        "driver's launch alone": microseconds(lambda: driver(*raw), calls, wait),
        "graph of 100 launches, host time a launch": round(microseconds(lambda: graph(stream), few, wait) / LAUNCHES_OF_GRAPH, 3),
        "graph of 100 launches, with waiting, a launch": round(microseconds(replay, few, wait) / LAUNCHES_OF_GRAPH, 3),
        "cached module load": microseconds(lambda: device.modules.load(NOTHING), 10 * calls, wait),
        "event record": microseconds(lambda: stream.record(), calls, wait),
        "synchronize, nothing to do": microseconds(wait, 4 * calls, wait),
        "argument change in a graph": microseconds(lambda: graph.change(LAUNCHES_OF_GRAPH // 2, values), calls, wait),
    }


def allocations(opened: Gpu, calls: int = 5000) -> dict[str, float]:
    """Microseconds of the host to take device memory and give it back: from the pool, and from the driver."""
    stream, pool, device = opened.stream, opened.pool, opened.device

    def from_driver() -> None:
        device.call("cuMemFreeAsync", device.call("cuMemAllocAsync", 4096, stream.handle), stream.handle)

    return {
        "allocate and free 4 KiB": microseconds(lambda: pool.allocate(4096, stream), calls, stream.synchronize),
        "allocate and free 64 MiB": microseconds(lambda: pool.allocate(64 << 20, stream), calls, stream.synchronize),
        "the driver's alone": microseconds(from_driver, calls, stream.synchronize),
    }
