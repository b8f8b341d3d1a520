"""Philox4x32-10 and the numbers made of it, in NumPy: what kernels are held against."""

from statistics import NormalDist
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

KNOWN = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
)
"""Counter, key and words as Random123 publishes them (`kat_vectors`, philox4x32 of 10 rounds)."""


def philox(counter: tuple[Array, ...], key: tuple[Any, Any]) -> tuple[Array, ...]:
    """The four words, as u32 arrays of the counters' shape."""
    a, b, c, d = (np.asarray(word).astype(np.uint32) for word in counter)
    k, m = (np.uint32(word) for word in key)
    for _ in range(10):
        left, right = (np.multiply(word, np.uint64(by), dtype=np.uint64) for word, by in ((a, 0xD2511F53), (c, 0xCD9E8D57)))
        a, b, c, d = (
            (right >> np.uint64(32)).astype(np.uint32) ^ b ^ k,
            right.astype(np.uint32),
            (left >> np.uint64(32)).astype(np.uint32) ^ d ^ m,
            left.astype(np.uint32),
        )
        with np.errstate(over="ignore"):
            k, m = k + np.uint32(0x9E3779B9), m + np.uint32(0xBB67AE85)
    return a, b, c, d


def bits(seed: int, i: Any, j: Any = 0) -> Array:
    """64 bits for each pair of counters."""
    first, second = np.broadcast_arrays(np.asarray(i, np.int64).view(np.uint64), np.asarray(j, np.int64).view(np.uint64))
    low, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    seed %= 1 << 64
    a, b, _, _ = philox((first & mask, first >> low, second & mask, second >> low), (seed & 0xFFFFFFFF, seed >> 32))
    return a.astype(np.uint64) | b.astype(np.uint64) << low


def random(seed: int, i: Any, j: Any = 0) -> Array:
    return ((bits(seed, i, j) & np.uint64(0xFFFFFFFF)) >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)


def uniform(seed: int, i: Any, j: Any = 0) -> Array:
    return (bits(seed, i, j) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def normal(seed: int, i: Any, j: Any = 0) -> Array:
    """By the quantile function of Python's `statistics`."""
    cells = ((bits(seed, i, j) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return np.vectorize(NormalDist().inv_cdf, otypes=[np.float64])(cells)
