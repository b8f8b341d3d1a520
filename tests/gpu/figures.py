"""What the runtime costs on this machine, as JSON: `python tests/gpu/figures.py [FILE]`. Times are medians of several runs, each the
mean of many calls; bandwidths beside PyTorch's in the same run, where PyTorch is here. This measures; it judges nothing."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import numpy as np

from runtime.cuda.copies import copy, download, fill, upload
from runtime.cuda.gpu import Gpu, gpu
from runtime.cuda.measure import RUNS, allocations, gigabytes, launches

COPY_BYTES = 256 << 20


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
        "microseconds": launches(found) | allocations(found),
        "gigabytes a second": bandwidths(found),
    }
    text = json.dumps(figures, indent=2)
    print(text)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text + "\n")


if __name__ == "__main__":
    main()
