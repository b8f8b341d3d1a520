"""What a GPU takes for accesses to places that data decide: as many loads, or atomic additions, at places drawn at random in a table as
large as the nest's. Entries of several words have a thread for each, side by side. Places are computed, not read: indices are bytes of the
nest, which count by themselves. A table that a block's shared memory holds has no such limit, as blocks may keep copies of it."""

from functools import partial
from typing import Any

import cupy
import torch

from bench.gpu.harness import seconds_of
from bench.nests.form import Lookups

SAMPLE = 1 << 26
"""Words that are accessed together at most."""

THREADS = 256

SOURCE = """
extern "C" __global__ void reads(const WORD *table, unsigned entries, unsigned words, unsigned count, WORD *out) {
    unsigned number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= count) return;
    WORD read = table[(unsigned long long)PLACE(number / words) * words + number % words];
    if (read == (WORD)77) out[0] = read;
}
extern "C" __global__ void changes(WORD *table, unsigned entries, unsigned words, unsigned count, WORD *out) {
    unsigned number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number < count) atomicAdd(table + (unsigned long long)PLACE(number / words) * words + number % words, (WORD)1);
}
"""

PLACE = """
__device__ unsigned mixed(unsigned x) {
    x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; return x ^ (x >> 16);
}
#define PLACE(n) __umulhi(mixed(n), entries)
"""
"""A number from 0 to `entries`, by bits that are mixed well (C. Wellons, hash-prospector, 2018)."""

WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}


def word_bytes(lookups: Lookups, element: int) -> int:
    """What is accessed at once: of entries that are read the widest words, of those that are changed an element, 32 bits at least."""
    return max(4, element) if lookups.updates else next(size for size in (8, 4, 2, 1) if lookups.entry_bytes % size == 0)


def lookup_seconds(lookups: Lookups | None, element: int, shared: int) -> float:
    """`element`: bytes of an element; `shared`: of the shared memory that a block may have."""
    if lookups is None or lookups.entries * lookups.entry_bytes <= shared:
        return 0.0
    size = word_bytes(lookups, element)
    words = max(1, lookups.entry_bytes // (element if lookups.updates else size))
    whole = lookups.count * words
    count = int(min(whole, SAMPLE))
    table = torch.zeros(lookups.entries * words * size, dtype=torch.uint8, device="cuda")
    source = PLACE + SOURCE.replace("WORD", WORDS[size])
    if size < 4:
        source = source[: source.index('extern "C" __global__ void changes')]
    kernel: Any = cupy.RawKernel(source, "changes" if lookups.updates else "reads")
    numbers = [cupy.uint32(number) for number in (lookups.entries, words, count)]
    call = partial(kernel, (-(-count // THREADS),), (THREADS,), (table.data_ptr(), *numbers, table.data_ptr()))
    call()
    passed = min(seconds_of(call, [()], 5, True) for _ in range(3))
    return float(passed * whole / count)
