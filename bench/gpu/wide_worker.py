"""The process of `bench.gpu.wide` that measures: limits of the device first, then a nest for each line that it is given."""

import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
import torch

import zynml
from bench.gpu.harness import BURST_SECONDS, QUEUED_BELOW, as_torch, release, seconds_of
from bench.gpu.torch_arrays import TORCH, TorchArrays
from bench.gpu.wide import LEAST, MOST
from bench.gpu.wide_lookups import lookup_seconds
from bench.nests.arrays import largest_error, operands_of, wanted
from bench.nests.families import nest_of
from bench.nests.form import BYTES, BenchNest
from bench.nests.printing import scalars
from bench.nests.printing import zynml as text_of
from bench.worker import say

ROUNDS = 5

CHAINS = """
#define CHOSEN(x, y, before) ((x) before (y) ? (x) : (y))
extern "C" __global__ void chains(TYPE *out, TYPE a, TYPE b, int turns) {
    TYPE s[16];
    for (int c = 0; c < 16; c++) s[c] = (TYPE)(threadIdx.x + c);
    for (int t = 0; t < turns; t++) {
#pragma unroll
        for (int u = 0; u < 16; u++) {
#pragma unroll
            for (int c = 0; c < 16; c++) s[c] = STEP;
        }
    }
    TYPE sum = 0;
    for (int c = 0; c < 16; c++) sum += s[c];
    if (sum == (TYPE)-1) out[0] = sum;
}
"""
"""Sixteen chains of steps of two operations a thread, in registers."""

STEPS = {"": "s[c] * a + b", "extremes ": "max(min(s[c], a), b)", "chosen ": "CHOSEN(CHOSEN(s[c], a, <), b, >)"}
"""Fused products are one instruction, and a minimum and a maximum two, or four: comparisons and choices are faster where the device has no
instruction for extremes. One of them counts as two operations."""


def measured_limits() -> dict[str, Any]:
    """Bytes a second of a copy, operations a second of each unit, seconds of an empty launch."""
    source = torch.ones(1 << 28, device="cuda")
    target = torch.empty_like(source)
    copy = 2 * source.nbytes / quickest(partial(target.copy_, source), 10)
    launch = quickest(partial(torch.zeros(1, device="cuda").add_, 1), 100)
    rates = {name: chained_rate(name, "") for name in CHAINED}
    rates |= {f"extremes {name}": max(chained_rate(name, kind) for kind in ("extremes ", "chosen ")) for name in CHAINED}
    for name in ("f16", "bf16"):
        a = torch.randn(8192, 8192, device="cuda").to(TORCH[name])
        rates[f"matrix {name}"] = 2 * 8192**3 / quickest(partial(torch.matmul, a, a), 5)
    a = torch.ones(8192, 8192, device="cuda", dtype=torch.int8)
    rates["matrix i8"] = rates["matrix u8"] = 2 * 8192**3 / quickest(partial(torch._int_mm, a, a.t()), 5)
    device = torch.cuda.get_device_properties(0)
    measured = {"copy": copy, "launch": launch, "rates": rates, "shared": device.shared_memory_per_block_optin}
    return {"device": device.name, **measured, "torch": torch.__version__}


def quickest(call: Callable[[], Any], repeats: int) -> float:
    call()
    return min(seconds_of(call, [()], repeats, True) for _ in range(5))


CHAINED = {"f32": ("float", "f4"), "f64": ("double", "f8"), "i32": ("int", "i4"), "i64": ("long long", "i8")}
"""Types in CUDA C++ and in NumPy. The device multiplies 32 bits at a time, so it multiplies 64 in several instructions."""


def chained_rate(dtype: str, step: str) -> float:
    """Operations a second of such steps; CuPy and PyTorch both use the default stream."""
    import cupy

    kind, code = CHAINED[dtype]
    kernel = cupy.RawKernel(CHAINS.replace("TYPE", kind).replace("STEP", STEPS[step]), "chains")
    blocks, threads, turns = 8 * torch.cuda.get_device_properties(0).multi_processor_count, 256, 64
    out = cupy.zeros(1, code)
    number = out.dtype.type
    passed = quickest(partial(kernel, (blocks,), (threads,), (out, number(1), number(0), numpy.int32(turns))), 3)
    return (4.0 if step else 2.0) * blocks * threads * turns * 256 / passed


def measure(nest: BenchNest) -> None:
    """Says what is known of the nest as soon as it is."""
    shared = torch.cuda.get_device_properties(0).shared_memory_per_block_optin
    say(lookups_s=lookup_seconds(nest.lookups, BYTES[nest.result_dtype], shared))
    release()
    library = TorchArrays(nest.seed)
    operands = operands_of(nest, library)
    sizes = [nest.sizes[name] for name in scalars(nest)]
    torch.cuda.synchronize()
    began = time.perf_counter()
    try:
        program = zynml.compile(text_of(nest), device="cuda:0")
        first = program.f(*operands.values(), *sizes)
        torch.cuda.synchronize()
    except zynml.ZynMLError as error:
        say(state="refused", message=f"{', '.join(sorted(set(error.codes)))}: {error.diagnostics[0].message}"[:300], done=True)
        return
    say(state="stopped", first_call_s=time.perf_counter() - began)
    worst = largest_error(as_torch(first), wanted(nest, operands, library), library)
    say(state="right" if worst <= nest.tolerance else "wrong", error=worst)
    del first
    release()
    turns = [[*operands.values(), *sizes]]
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    copies = min(32, int(2 * cache // max(1, sum(value.nbytes for value in operands.values()))))
    turns += [[*operands_of(nest, library).values(), *sizes] for _ in range(copies)]
    single = min(seconds_of(program.f, turns, 1) for _ in range(2))
    say(seconds=single)
    times = []
    for _ in range(ROUNDS if single < 0.2 else 2):
        repeats = max(2, min(20, int(BURST_SECONDS / max(single, 1e-6))))
        times.append(seconds_of(program.f, turns, repeats, single < QUEUED_BELOW))
    say(seconds=statistics.median(times), spread=[min(times), max(times)], done=True)


def main() -> None:
    if len(sys.argv) > 1:
        torch.zeros(1, device="cuda")
        say(**json.loads(sys.argv[1]) | {"done": True})
    else:
        say(**measured_limits(), done=True)
    for question in map(json.loads, sys.stdin):
        nest = nest_of(question["seed"], LEAST, MOST, question["family"])
        try:
            measure(nest)
        except Exception as error:
            say(state="crashed", message=f"{type(error).__name__}: {error}"[:300], done=True)
        release()


if __name__ == "__main__":
    main()
