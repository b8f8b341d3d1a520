"""Mathematical functions of one number: in f64, by the functions of C that Python's `math` calls. Native code calls the same ones, so that
a program gives the same bits however its functions run. A function of an f32 is computed in f64 and rounded."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

OfOne = Callable[[float], float]
_RAISES = (ValueError, OverflowError, ZeroDivisionError)


def _sigmoid(x: float) -> float:
    small = math.exp(-abs(x))
    return x if x != x else (1.0 if x >= 0.0 else small) / (1.0 + small)


def _gelu(x: float) -> float:
    return -0.0 if x == -math.inf else x * 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))


def _silu(x: float) -> float:
    return -0.0 if x == -math.inf else x * _sigmoid(x)


OF_ONE: Mapping[str, OfOne] = {
    **{name: getattr(math, name) for name in ("sqrt", "exp", "exp2", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan")},
    **{name: getattr(math, name) for name in ("sinh", "cosh", "tanh", "erf")},
    "rsqrt": lambda x: 1.0 / math.sqrt(x),
    "sigmoid": _sigmoid,
    "gelu": _gelu,
    "silu": _silu,
}


def of_number(name: str, of_arrays: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function of an int, an f64 or an f32. `of_arrays` gives what it is where Python raises: infinite, or no number."""
    function = OF_ONE[name]

    def run(value: Any) -> Any:
        x = float(value)
        try:
            result = function(x)
        except _RAISES:
            with np.errstate(all="ignore"):
                result = float(of_arrays(np.float64(x)))
        if value.__class__ is not np.float32:
            return result
        with np.errstate(all="ignore"):
            return np.float32(result)

    return run
