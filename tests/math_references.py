"""How right functions of floats have to be: exact values by NumPy in long double (x87, 64 bits of mantissa), the ulp that each may
be off, the numbers to try, and the comparison."""

import math
from collections.abc import Callable

import numpy as np
import pytest

LONG = np.longdouble
needs_long_double = pytest.mark.skipif(np.finfo(LONG).nmant < 63, reason="no wider float to compare with")
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.0, 5e-324, 1e-310, 1e-45, 1e-40, 3e38, 1e308, -1e-300, -3e38]


def _erf(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(float(v)) for v in x], LONG)


TABLE: dict[str, tuple[Callable[[np.ndarray], np.ndarray], tuple[tuple[float, float] | None, ...], float, float]] = {
    "exp": (np.exp, ((-120, 120), (-1, 1), (-760, 760)), 1.1, 1.01),
    "exp2": (np.exp2, ((-160, 140), (-1, 1), (-1100, 1100)), 1.0, 1.0),
    "log": (np.log, (None, (0.5, 2)), 1.0, 1.0),
    "log2": (np.log2, (None, (0.5, 2)), 1.0, 1.0),
    "sin": (np.sin, ((-4, 4), (-1e6, 1e6), (-1e15, 1e15)), 1.5, 1.0),
    "cos": (np.cos, ((-4, 4), (-1e6, 1e6), (-1e15, 1e15)), 1.5, 1.0),
    "tan": (np.tan, ((-4, 4), (-1e6, 1e6)), 1.0, 2.5),
    "asin": (np.arcsin, ((-1, 1), (-1e-3, 1e-3)), 1.0, 1.0),
    "acos": (np.arccos, ((-1, 1), (0.99, 1)), 1.0, 1.0),
    "atan": (np.arctan, ((-5, 5), None), 2.0, 2.0),
    "sinh": (np.sinh, ((-1, 1), (-95, 95), (-715, 715)), 2.5, 2.5),
    "cosh": (np.cosh, ((-1, 1), (-95, 95), (-715, 715)), 2.0, 2.0),
    "tanh": (np.tanh, ((-1, 1), (-25, 25)), 2.5, 2.5),
    "erf": (_erf, ((-1, 1), (-6, 6)), 1.5, 1.5),
}
"""Name: reference, ranges (None: all positive floats), ulp allowed in f32 and f64."""


def errors(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Units in the last place that each number is off by; infinitely many where NaN or an infinity isn't what the exact value rounds
    to, and 0 where it is."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(found.dtype)
        unit = np.spacing(np.abs(rounded)).astype(LONG)
        off = np.abs(found.astype(LONG) - exact) / unit
        same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
        return np.where(np.isfinite(rounded) & np.isfinite(found), off, np.where(same, 0, np.inf))


def assert_near(found: np.ndarray, exact: np.ndarray, ulp: float, *at: np.ndarray) -> float:
    """Within `ulp` units in the last place; infinities and NaN as the exact value rounds to. The most that any is off."""
    off = errors(found, exact)
    bad = np.flatnonzero(off > ulp)
    assert not len(bad), f"{len(bad)} wrong, at {[x[bad[:3]] for x in at]}: {found[bad[:3]]}, not {exact[bad[:3]]}"
    return float(off.max(initial=0))


def sweep(bounds: tuple[float, float] | None, dtype: type, count: int) -> np.ndarray:
    """Numbers of a range, evenly; of None: all bit patterns of positive finite floats alike."""
    rng = np.random.default_rng(0)
    if bounds is not None:
        return rng.uniform(*bounds, count).astype(dtype)
    word, top = (np.uint32, 2**31 - 2**23) if dtype is np.float32 else (np.uint64, 2**63 - 2**52)
    return rng.integers(0, top, count).astype(word).view(dtype)
