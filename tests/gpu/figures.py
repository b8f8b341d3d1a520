"""What the runtime costs on this machine, as JSON: `python tests/gpu/figures.py [FILE]`. Times are medians of several runs, each the
mean of many calls; bandwidths stand beside the device's limit, and pinned copies beside PyTorch's in turn, where PyTorch is here. This
measures; it judges nothing. What can't be measured is listed under `errors`, and the rest goes on."""

import datetime
import json
import statistics
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import numpy as np

import zynml
from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import target_of_device
from compiler.hir.parse import parse_function
from runtime.cuda.copies import copy, download, fill, upload
from runtime.cuda.gpu import Gpu, gpu
from runtime.cuda.launch import CheckedLaunch
from runtime.cuda.measure import RUNS, allocations, gigabytes, launches, microseconds
from runtime.cuda.remote import upload as resident
from runtime.tensor import Tensor

COPY_BYTES = 256 << 20
ELEMENTS = 1 << 28
SYNCS, SOME = 200, 1 << 16
TERMS, ROUNDS, BLOCK = 16, 512, 256

PROGRAM = f"""
def copied(x: tensor[N]): tensor {{ compute(x) {{ for i in 0..N: out[i] = x[i] }} }}
def ordered(x: tensor[N]): tensor {{ compute(x) @kernel sort {{ for i in 0..N: yield x[i] }} }}
def shared(x: tensor[N]): tensor {{
    compute(x) -> tensor[N, f32] @kernel(custom) @workgroup({BLOCK}) {{
        shared var s[{BLOCK + 32 * (TERMS + 1)}, f32]
        let t = thread_idx().x
        for k in t..{BLOCK + 32 * (TERMS + 1)} step {BLOCK}: s[k] = x[k]
        barrier()
        var a = 0.0
        for r in 0..{ROUNDS}:
            let p = t + r % 32
            a += {" + ".join(f"s[p + {32 * term}]" for term in range(TERMS))}
        out[global_idx().x] = a
    }}
}}
"""
"""`shared` reads {TERMS} elements of shared memory a round and thread, without conflicts of banks."""

GRID_SYNC = """func @meet(%n: index) form=C convention=kernel kernel=[entry=true, kind=custom, threads=128, workgroup=[128, 1, 1]] {
  for i in 0..n {
    grid_sync
  }
}
"""


class Figures:
    """What was measured, by groups, and what could not be."""

    def __init__(self, found: Gpu) -> None:
        self.found = found
        self.groups: dict[str, dict[str, Any]] = {}
        self.errors: dict[str, str] = {}

    def take(self, group: str, what: str, measure: Callable[[Gpu], Mapping[str, Any]]) -> None:
        try:
            self.groups.setdefault(group, {}).update(measure(self.found))
        except Exception as error:
            traceback.print_exc()
            self.errors[what] = f"{type(error).__name__}: {error}"


def on_gpu(found: Gpu, array: Any) -> Tensor:
    return Tensor(None, resident(array, found, named=True))


def device_of(found: Gpu) -> str:
    return f"cuda:{found.device.ordinal}"


def calls(found: Gpu) -> dict[str, float]:
    """Calls of blocks from Python, on tensors that lie on the device."""
    program = zynml.compile(PROGRAM, device=device_of(found))
    small, some = on_gpu(found, np.ones(1024, np.float32)), on_gpu(found, np.ones(SOME, np.float32))
    program.copied(small)
    for _ in range(12):
        program.ordered(some)
    wait = found.stream.synchronize
    return {
        "call of a function with one block": microseconds(lambda: program.copied(small), 500, wait),
        "call of a function with a sort of 2^16, host time": microseconds(lambda: program.ordered(some), 100, wait),
    }


def calls_of_pytorch(found: Gpu) -> dict[str, float]:
    """The same on PyTorch's tensors, and a call of its own beside it."""
    try:
        import torch
    except ImportError:
        return {}
    program = zynml.compile(PROGRAM)
    x = torch.ones(1024, device=device_of(found))
    result, out, wait = program.copied(x), torch.empty_like(x), torch.cuda.synchronize
    return {
        "call of a function with one block, on PyTorch's tensor": microseconds(lambda: program.copied(x), 500, wait),
        "the same, and its result to PyTorch": microseconds(lambda: torch.from_dlpack(program.copied(x)), 500, wait),
        "a result's capsule for PyTorch's stream": microseconds(lambda: result.__dlpack__(stream=1, max_version=(1, 0)), 500, wait),
        "PyTorch's own copy into a tensor": microseconds(lambda: out.copy_(x), 500, wait),
    }


def grid_sync(found: Gpu) -> dict[str, float]:
    """A barrier over a full grid: what 200 of them in a kernel take more than one."""
    module = compile_kernels(parse_function(GRID_SYNC), target_of_device(found.device.properties.capability))
    kernel = found.modules.load(assemble(module).bytes).kernel(module.entries[0].symbol)
    record = found.allocate(64)
    fill(record, 0, found.stream)
    blocks = kernel.blocks_per_multiprocessor(128) * found.device.properties.multiprocessors
    result = {}
    for name, grid in (("one block a multiprocessor", found.device.properties.multiprocessors), ("a full grid", blocks)):
        plan = CheckedLaunch(kernel, ("i64", "pointer"), (grid,), (128,), cooperative=True)
        many, one = (milliseconds(found, lambda n=n, plan=plan: plan(found.stream, n, record)) for n in (SYNCS + 1, 1))
        result[f"grid sync of {grid} blocks, {name}"] = round(1e3 * (many - one) / SYNCS, 3)
    return result


def milliseconds(found: Gpu, act: Callable[[], Any]) -> float:
    """Time on the device, the median of several."""
    times = []
    for _ in range(RUNS):
        start = found.stream.record(timing=True)
        act()
        end = found.stream.record(timing=True)
        end.synchronize()
        times.append(end.milliseconds_since(start))
    return statistics.median(times)


def steady(found: Gpu, act: Callable[[], Any], size: int) -> float:
    """Gigabytes a second, the best of several. The device is kept busy while the host prepares what is measured."""
    best = 0.0
    for _ in range(RUNS):
        act()
        start = found.stream.record(timing=True)
        act()
        end = found.stream.record(timing=True)
        end.synchronize()
        best = max(best, size / end.milliseconds_since(start) / 1e6)
    return round(best, 1)


def copies(found: Gpu) -> dict[str, float]:
    stream = found.stream
    pinned = found.pinned.empty((COPY_BYTES,), np.uint8)
    pinned[:] = 7
    ordinary = np.array(pinned)
    a, b = found.allocate(COPY_BYTES), found.allocate(COPY_BYTES)
    return {
        "pinned to device": gigabytes(found, lambda: upload(a, pinned, stream), COPY_BYTES),
        "device to pinned": gigabytes(found, lambda: download(pinned, a, stream), COPY_BYTES),
        "ordinary to device": gigabytes(found, lambda: upload(a, ordinary, stream), COPY_BYTES),
        "device to device, read and written": gigabytes(found, lambda: copy(b, a, stream), 2 * COPY_BYTES),
        "fill": gigabytes(found, lambda: fill(a, 0, stream, 4), COPY_BYTES),
    }


def beside_pytorch(found: Gpu) -> dict[str, float]:
    """Pinned copies, ours and PyTorch's in turn: medians, and ours as a part of theirs."""
    try:
        import torch
    except ImportError:
        return {}
    stream, result = found.stream, {}
    pinned = found.pinned.empty((COPY_BYTES,), np.uint8)
    pinned[:] = 7
    buffer = found.allocate(COPY_BYTES)
    host = torch.full((COPY_BYTES,), 7, dtype=torch.uint8).pin_memory()
    device = torch.empty(COPY_BYTES, dtype=torch.uint8, device=device_of(found))

    def ours(act: Callable[[], Any]) -> float:
        start = stream.record(timing=True)
        act()
        end = stream.record(timing=True)
        end.synchronize()
        return COPY_BYTES / end.milliseconds_since(start) / 1e6

    def theirs(act: Callable[[], Any]) -> float:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        act()
        end.record()
        end.synchronize()
        return COPY_BYTES / start.elapsed_time(end) / 1e6

    ways = {
        "pinned to device": (lambda: upload(buffer, pinned, stream), lambda: device.copy_(host, non_blocking=True)),
        "device to pinned": (lambda: download(pinned, buffer, stream), lambda: host.copy_(device, non_blocking=True)),
    }
    for way, (mine, other) in ways.items():
        pairs = [(ours(mine), theirs(other)) for _ in range(RUNS + 2)][2:]
        medians = [statistics.median(each) for each in zip(*pairs, strict=True)]
        result[f"{way}, in turn with PyTorch"] = round(medians[0], 1)
        result[f"PyTorch's {way}"] = round(medians[1], 1)
        result[f"{way}, of PyTorch's"] = round(medians[0] / medians[1], 3)
    return result


def device_memory(found: Gpu) -> dict[str, float]:
    """A plain copy by a block, and what the memory's clock and width allow."""
    limits = found.device.properties
    program = zynml.compile(PROGRAM, device=device_of(found))
    x = on_gpu(found, np.ones(ELEMENTS, np.float32))
    program.copied(x)
    limit = 2 * limits.memory_clock * 1e3 * limits.memory_bus_bits / 8 / 1e9
    reached = steady(found, lambda: program.copied(x), 8 * ELEMENTS)
    ratio = round(reached / limit, 3)
    return {"a block's copy, read and written": reached, "the device memory's limit": round(limit, 1), "copy, of the limit": ratio}


def shared_memory(found: Gpu) -> dict[str, float]:
    """Plain reads of shared memory by a custom block, and the limit of 128 bytes a clock and multiprocessor."""
    limits = found.device.properties
    threads = limits.multiprocessors * limits.max_threads_per_multiprocessor * 4
    program = zynml.compile(PROGRAM, device=device_of(found))
    x = on_gpu(found, np.ones(threads, np.float32))
    check = np.asarray(program.shared(x))
    assert (check == TERMS * ROUNDS).all(), "the kernel did not read what it should"
    limit = limits.multiprocessors * 128 * limits.clock * 1e3 / 1e9
    reached = steady(found, lambda: program.shared(x), threads * ROUNDS * TERMS * 4)
    ratio = round(reached / limit, 3)
    return {"shared memory, read": reached, "shared memory's limit": round(limit, 1), "shared memory, of the limit": ratio}


def main() -> None:
    found = gpu()
    limits = found.device.properties
    figures = Figures(found)
    for group, what, measure in (
        ("microseconds", "launches", launches),
        ("microseconds", "allocations", allocations),
        ("microseconds", "calls", calls),
        ("microseconds", "calls on PyTorch's tensors", calls_of_pytorch),
        ("microseconds", "grid sync", grid_sync),
        ("gigabytes a second", "copies", copies),
        ("gigabytes a second", "PyTorch", beside_pytorch),
        ("gigabytes a second", "device memory", device_memory),
        ("gigabytes a second", "shared memory", shared_memory),
    ):
        figures.take(group, what, measure)
    written = {
        "device": limits.name,
        "driver": ".".join(str(part) for part in limits.driver_version),
        "date": datetime.date.today().isoformat(),
        "python": sys.version.split()[0],
        **figures.groups,
        "errors": figures.errors,
    }
    text = json.dumps(written, indent=2)
    print(text)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text + "\n")


if __name__ == "__main__":
    main()
