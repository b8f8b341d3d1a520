"""Arithmetic of floats where Python's own would raise: a division by zero, a remainder or a power without a value."""

import math
from typing import Any

import numpy as np


def divide(left: float, right: float) -> float:
    if right:
        return left / right
    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def remainder(left: float, right: float) -> float:
    try:
        return math.fmod(left, right)
    except ValueError:
        return math.nan


def power(left: float, right: float) -> float:
    """What overflows is infinite, and what has no real value is NaN."""
    try:
        return math.pow(left, right)
    except (OverflowError, ValueError):
        with np.errstate(all="ignore"):
            return float(np.power(np.float64(left), np.float64(right)))


def power_arrays(left: Any, right: Any) -> Any:
    """Of f32 in f64, rounded once: the last bit of NumPy's own power of f32 depends on the vectors of the CPU."""
    if np.result_type(left, right) != np.float32:
        return np.power(left, right)
    return np.power(np.asarray(left, np.float64), right).astype(np.float32)
