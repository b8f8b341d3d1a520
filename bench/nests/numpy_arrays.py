"""NumPy's arrays for nests on the CPU, and as a reference."""

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

NUMPY: dict[str, Any] = {
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    "u8": np.dtype(np.uint8),
    "u32": np.dtype(np.uint32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}


class NumpyArrays:
    """NumPy, with the few functions whose names differ between libraries of arrays."""

    xp: Any = np

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def normal(self, shape: Sequence[int], dtype: str) -> Any:
        return self.generator.standard_normal(shape, np.float32).astype(NUMPY[dtype])

    def share(self, shape: Sequence[int], dtype: str) -> Any:
        return self.generator.random(shape, np.float32).astype(NUMPY[dtype])

    def below(self, bound: int, shape: Sequence[int], dtype: str) -> Any:
        return self.generator.integers(0, bound, shape, NUMPY[dtype])

    def rising(self, count: int, last: int, dtype: str) -> Any:
        """So many numbers from 0 to `last`, none less than the one before."""
        inside = np.sort(self.generator.integers(0, last + 1, count - 2)) if count > 2 else []
        return np.concatenate([[0], inside, [last]])[:count].astype(NUMPY[dtype])

    def wide(self, array: Any) -> Any:
        """In float64, where it isn't of indices."""
        return np.asarray(array).astype(np.float64)

    def indices(self, array: Any) -> Any:
        return np.asarray(array).astype(np.int64)

    def zeros(self, *shape: int) -> Any:
        return np.zeros(shape)

    def arange(self, count: int) -> Any:
        return np.arange(count)

    def add_at(self, target: Any, index: Any, values: Any) -> None:
        np.add.at(target, index, values)

    def largest_at(self, target: Any, index: Any, values: Any) -> None:
        np.maximum.at(target, index, values)

    def swapped(self, array: Any) -> Any:
        return array.swapaxes(-1, -2)

    def repeated(self, counts: Any) -> Any:
        """0 so often as the first count says, then 1, ..."""
        return np.repeat(np.arange(len(counts)), counts)

    def counted(self, index: Any, bins: int) -> Any:
        return np.bincount(index.astype(np.int64), minlength=bins).astype(np.float64)

    def erf(self, x: Any) -> Any:
        return np.vectorize(math.erf, otypes=[np.float64])(x)
