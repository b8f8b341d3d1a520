"""The built-in signals as docs/quantdsl.md defines them, over whole arrays of float64: each result from its window alone, or by the recursion
as it is written. NaN stands for none as well: `warm` says from which call on there is a result."""

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


def windows(x: Array, n: int, of: Callable[[Array], Any], width: int | None = None) -> Array:
    """`of` of the last n values of each call; NaN where there are fewer."""
    shape = (len(x),) if width is None else (len(x), width)
    found = np.full(shape, np.nan)
    for i in range(n - 1, len(x)):
        found[i] = of(x[i - n + 1 : i + 1])
    return found


def total(x: Array, n: int) -> Array:
    """Exact sums, rounded once."""
    import math

    return windows(x, n, lambda w: math.fsum(w) if np.isfinite(w).all() else np.nan)


def sma(x: Array, n: int) -> Array:
    return total(x, n) / n


def wma(x: Array, n: int) -> Array:
    weights = np.arange(1, n + 1)
    return windows(x, n, lambda w: np.sum(w * weights) / weights.sum())


def ema(x: Array, n: int) -> Array:
    found = np.array(x, dtype=np.float64)
    for i in range(1, len(x)):
        found[i] = found[i - 1] + 2.0 / (n + 1) * (x[i] - found[i - 1])
    return found


def wilder(x: Array, n: int) -> Array:
    found = np.full(len(x), np.nan)
    if len(x) >= n:
        found[n - 1] = np.mean(x[:n])
        for i in range(n, len(x)):
            found[i] = (found[i - 1] * (n - 1) + x[i]) / n
    return found


def rsi(x: Array, n: int) -> Array:
    change = np.diff(x)
    up = wilder(np.where(change > 0, change, change * 0), n)
    down = wilder(np.where(change < 0, -change, change * 0), n)
    with np.errstate(invalid="ignore"):
        found = np.where(up + down <= 0, 50.0, 100.0 - 100.0 * down / (up + down))
    return np.concatenate([np.full(min(len(x), 1), np.nan), found])


def macd(x: Array, fast: int = 12, slow: int = 26, signal: int = 9) -> Array:
    line = ema(x, fast) - ema(x, slow)
    smooth = ema(line, signal)
    found = np.stack([line, smooth, line - smooth], axis=1)
    found[: slow + signal - 2] = np.nan
    return found


def atr(high: Array, low: Array, close: Array, n: int) -> Array:
    before = np.concatenate([[np.nan], close[:-1]])
    ranges = np.maximum(high - low, np.maximum(np.abs(high - before), np.abs(low - before)))
    ranges[0] = high[0] - low[0]
    return wilder(ranges, n)


def stdev(x: Array, n: int) -> Array:
    return windows(x, n, lambda w: np.std(w, ddof=1))


def zscore(x: Array, n: int) -> Array:
    return windows(x, n, lambda w: (w[-1] - np.mean(w)) / np.std(w, ddof=1))


def bollinger(x: Array, n: int, width: float = 2.0) -> Array:
    return windows(x, n, lambda w: np.mean(w) + width * np.std(w) * np.array([-1, 0, 1]), 3)


def realised_vol(x: Array, n: int) -> Array:
    return windows(x, n + 1, lambda w: np.sqrt(np.sum(np.diff(np.log(w)) ** 2)))


def regression(x: Array, n: int) -> Array:
    def line(w: Array) -> tuple[float, float]:
        design = np.stack([np.arange(n) - (n - 1), np.ones(n)], axis=1)
        slope, newest = np.linalg.lstsq(design, w, rcond=None)[0]
        return slope, newest

    return windows(x, n, line if n > 1 else lambda w: (np.nan, np.nan), 2)


def corr(x: Array, y: Array, n: int) -> Array:
    found = np.full(len(x), np.nan)
    for i in range(n - 1, len(x)):
        a, b = x[i - n + 1 : i + 1], y[i - n + 1 : i + 1]
        with np.errstate(invalid="ignore", divide="ignore"):
            found[i] = np.sum((a - a.mean()) * (b - b.mean())) / np.sqrt(np.sum((a - a.mean()) ** 2) * np.sum((b - b.mean()) ** 2))
    return found


def highest(x: Array, n: int) -> Array:
    return windows(x, n, np.max)


def lowest(x: Array, n: int) -> Array:
    return windows(x, n, np.min)


def kalman1d(x: Array, q: float, r: float) -> Array:
    found = np.array(x, dtype=np.float64)
    variance = r
    for i in range(1, len(x)):
        predicted = variance + q
        gain = predicted / (predicted + r)
        found[i] = found[i - 1] + gain * (x[i] - found[i - 1])
        variance = (1 - gain) * predicted
    return found
