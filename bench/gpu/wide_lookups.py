"""What a GPU takes for accesses to places that data decide: as many loads, or atomic additions, at places drawn at random in a table as
large as the nest's. Entries that are read have a thread for each of the aligned words of up to 16 bytes that they touch, and entries that
are changed one for each element. Where few accesses change what they find, they count as loads. Places are computed, not read: indices are
bytes of the nest, which count by themselves. A table that a block's shared memory holds has no such limit, as blocks may keep copies."""

from functools import partial
from typing import Any

import cupy
import torch

from bench.gpu.harness import seconds_of
from bench.nests.form import Lookups

SAMPLE = 1 << 26
"""Words that are accessed together at most."""

THREADS, EACH = 256, 8
"""Of a block, and accesses that a thread has under way."""

WIDEST = 16

SOURCE = """
__device__ unsigned mixed(unsigned x) {
    x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; return x ^ (x >> 16);
}
extern "C" __global__ void accesses(WORD *table, unsigned entries, unsigned count, unsigned *out) {
    unsigned first = blockIdx.x * blockDim.x * EACH + threadIdx.x, all = 0;
    unsigned long long places[EACH];
#pragma unroll
    for (int n = 0; n < EACH; n++) {
        unsigned number = min(first + n * blockDim.x, count - 1);
        unsigned long long entry = __umulhi(mixed(number / WORDS), entries);
        places[n] = entry * BYTES / sizeof(WORD) + number % WORDS;
    }
    ACCESS
    if (all == 77) out[0] = all;
}
"""
"""`mixed`: bits that are mixed well (C. Wellons, hash-prospector, 2018), of which a number from 0 to `entries` is made."""

READS = """
    WORD read[EACH];
#pragma unroll
    for (int n = 0; n < EACH; n++) read[n] = __ldg(table + places[n]);
#pragma unroll
    for (int n = 0; n < EACH; n++) all += FOLDED;
"""

CHANGES = """
#pragma unroll
    for (int n = 0; n < EACH; n++) atomicAdd(table + places[n], (WORD)1);
"""

NAMES = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long", 16: "uint4"}


def lookup_seconds(lookups: Lookups | None, element: int, shared: int) -> float:
    """`element`: bytes of an element; `shared`: of the shared memory that a block may have."""
    if lookups is None or lookups.entries * lookups.entry_bytes <= shared:
        return 0.0
    size, words = lookups.words(element, WIDEST)
    whole = lookups.count * words
    count = int(min(whole, SAMPLE))
    step = words * size if lookups.changes else lookups.entry_bytes
    table = torch.zeros(lookups.entries * step + WIDEST, dtype=torch.uint8, device="cuda")
    folded = "read[n].x ^ read[n].y ^ read[n].z ^ read[n].w" if size == WIDEST else "(unsigned)read[n]"
    source = SOURCE.replace("ACCESS", CHANGES if lookups.changes else READS.replace("FOLDED", folded))
    for name, value in (("WORDS", words), ("BYTES", step), ("EACH", EACH), ("WORD", NAMES[size])):
        source = source.replace(name, str(value))
    kernel: Any = cupy.RawKernel(source, "accesses")
    numbers = [cupy.uint32(number) for number in (lookups.entries, count)]
    call = partial(kernel, (-(-count // (THREADS * EACH)),), (THREADS,), (table.data_ptr(), *numbers, table.data_ptr()))
    call()
    passed = min(seconds_of(call, [()], 5, True) for _ in range(3))
    return float(passed * whole / count)
