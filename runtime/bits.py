"""Bits of ints in arrays."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def counted_bits(operator: str, array: Array) -> Array:
    """How many bits are 1 (`popcount`), or stand above the highest (`leading_zeros`) or below the lowest (`trailing_zeros`) of those."""
    bits: Array = array.view(np.dtype(f"u{array.itemsize}"))
    if operator == "trailing_zeros":
        bits = ~bits & (bits - bits.dtype.type(1))
    elif operator == "leading_zeros":
        for distance in (1, 2, 4, 8, 16, 32):
            bits = bits | bits >> bits.dtype.type(min(distance, 8 * array.itemsize - 1))
        bits = ~bits
    counted: Array = np.bitwise_count(bits)
    return counted
