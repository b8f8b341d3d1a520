"""What of the arguments of a call decides which machine code answers it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from runtime.records import frozen

Kinds = tuple[Any, ...]

NUMBERS = (float, int, np.float32, np.float64)
"""Types of the numbers that machine code takes."""


@frozen
class ArrayLayout:
    """How the elements of an array lie, as far as kernels are specialised on it: all side by side, or those along the axis `dense`."""

    contiguous: bool = False
    dense: int | None = None


def kinds_of(values: Sequence[Any]) -> Kinds | None:
    """What of the arguments decides on a plan; None where one of them is neither NumPy's array nor a number."""
    kinds: list[Any] = []
    for value in values:
        kind = value.__class__
        if kind is np.ndarray:
            kinds.append((value.dtype, value.ndim, _layout_of(value)))
        elif kind in NUMBERS:
            kinds.append(kind)
        else:
            return None
    return tuple(kinds)


def _layout_of(array: Any) -> ArrayLayout:
    if array.flags.c_contiguous:
        return ArrayLayout(contiguous=True)
    return ArrayLayout(dense=max((axis for axis, stride in enumerate(array.strides) if stride == array.itemsize), default=None))
