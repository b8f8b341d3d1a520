"""Figures of a run, gathered as its records come, in memory that doesn't grow with them. Money stays whole until the last division."""

from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.replay.outputs.records import I64, Records

SECOND = 10**9
INTERVALS = {"1s": SECOND, "1m": 60 * SECOND, "1h": 3600 * SECOND, "1d": 86400 * SECOND}
YEAR = 365 * 86400 * SECOND
ENOUGH = 30
"""Intervals that a Sharpe ratio should have."""
MOST = 100_000
"""Intervals that are kept. So many seconds are more than enough minutes, so many minutes more than enough hours."""


def ratio(part: int, whole: int) -> float | None:
    return float(Fraction(part, whole)) if whole else None


class Equity:
    """The sum of the instruments' net, one currency's, whenever one of them changed, and its deepest fall from a peak; it begins at 0."""

    def __init__(self, instruments: int) -> None:
        self._net = [0] * instruments
        self.now = self.peak = self.drawdown = 0

    def add(self, instruments: npt.NDArray[np.uint32], net: I64) -> tuple[I64, I64]:
        """After each record the equity, and how much above it the peak is."""
        reach = sum(map(abs, self._net))
        change = np.empty(net.size, np.int64)
        for one in np.unique(instruments).tolist():
            of_one = instruments == one
            values = net[of_one]
            reach += max(abs(int(values.min())), abs(int(values.max())))
            change[of_one] = np.diff(values, prepend=np.int64(self._net[one]))
            self._net[one] = int(values[-1])
        if reach >= 2**62:
            raise OverflowError("the profit of all instruments together is outside of 64 bits")
        equity = self.now + np.cumsum(change)
        falls = np.maximum(np.maximum.accumulate(equity), self.peak) - equity
        if equity.size:
            self.drawdown = max(self.drawdown, int(falls.max()))
            self.now, self.peak = int(equity[-1]), int(equity[-1] + falls[-1])
        return equity, falls


class Sharpe:
    """Mean over standard deviation of what was earned in equal intervals of time, for a year of 365 days.

    There is no capital to divide by, so what is earned is money; the ratio is the same. The interval is the longest of `INTERVALS` of
    which the run has 30, else a second; those in which nothing changed count too."""

    def __init__(self) -> None:
        self._level = 0
        self._slots = np.empty(0, np.int64)
        self._last = np.empty(0, np.int64)

    def add(self, ts: I64, equity: I64) -> None:
        """Times don't go back."""
        slots, last = _last_of(np.append(self._slots[-1:], ts // self._width), np.append(self._last[-1:], equity))
        self._slots, self._last = np.append(self._slots[:-1], slots), np.append(self._last[:-1], last)
        while self._slots.size > MOST and self._level + 1 < len(INTERVALS):
            self._coarsen()

    @property
    def _width(self) -> int:
        return list(INTERVALS.values())[self._level]

    def _coarsen(self) -> None:
        finer = self._width
        self._level += 1
        self._slots, self._last = _last_of(self._slots * finer // self._width, self._last)

    def value(self) -> tuple[float | None, str]:
        """The ratio and its interval. None: there were less than two intervals, or all earned the same."""
        while self._level + 1 < len(INTERVALS):
            longer = list(INTERVALS.values())[self._level + 1]
            span = int(self._slots[-1] * self._width // longer - self._slots[0] * self._width // longer) + 1 if self._slots.size else 0
            if span < ENOUGH:
                break
            self._coarsen()
        name = list(INTERVALS)[self._level]
        n = int(self._slots[-1] - self._slots[0]) + 1 if self._slots.size else 0
        earned = np.diff(self._last, prepend=np.int64(0)).tolist()
        total, squares = sum(earned), sum(x * x for x in earned)
        spread = n * squares - total * total
        if n < 2 or spread == 0:
            return None, name
        variance_of_mean = Fraction(spread, n * n * (n - 1))
        return float(Fraction(total, n)) / sqrt(variance_of_mean * n) * sqrt(Fraction(YEAR, self._width)), name


def _last_of(slots: I64, values: I64) -> tuple[I64, I64]:
    """The last value of each run of equal slots."""
    ends = np.flatnonzero(np.diff(slots, append=slots[-1:] + 1)) if slots.size else slots
    return slots[ends], values[ends]


class Counts:
    """How often each value came. Measured times have few values, multiples of what the timer tells apart, so percentiles are exact."""

    def __init__(self) -> None:
        self.values = np.empty(0, np.float64)
        self.counts = np.empty(0, np.int64)

    def add(self, values: npt.NDArray[np.float64]) -> None:
        found, counts = np.unique(values, return_counts=True)
        self.values, places = np.unique(np.concatenate([self.values, found]), return_inverse=True)
        together = np.zeros(self.values.size, np.int64)
        np.add.at(together, places, np.concatenate([self.counts, counts]))
        self.counts = together

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def percentile(self, share: Fraction) -> float | None:
        """The least value that at least this share of all doesn't exceed, of values that were there."""
        if not self.total:
            return None
        rank = max(1, -(-self.total * share.numerator // share.denominator))
        return float(self.values[np.searchsorted(np.cumsum(self.counts), rank)])

    def share_within(self, most: float) -> float | None:
        return ratio(int(self.counts[self.values <= most].sum()), self.total)


class Envelope:
    """A line over time, thinned: in each of at most `limit` stretches of time its first, least, greatest and last value. A stretch is then
    at least two units of a chart wide."""

    def __init__(self, limit: int = 400) -> None:
        self.limit = limit
        self._shift = 0
        self._table = np.empty((0, 5), np.int64)

    def add(self, ts: I64, values: I64) -> None:
        """Times don't go back."""
        if not ts.size:
            return
        slots = np.append(self._table[:, 0], ts >> self._shift)
        while np.count_nonzero(np.diff(slots)) >= self.limit:
            self._shift += 1
            slots >>= 1
        old, new = self._table[:, 1:], np.broadcast_to(values[:, None], (values.size, 4))
        self._table = _joined(np.column_stack([slots, np.concatenate([old, new])]))

    def points(self) -> list[tuple[int, int]]:
        """Times and values, in order, so that nothing that stands out is lost."""
        found: list[tuple[int, int]] = []
        width = 1 << self._shift
        for slot, first, least, greatest, last in self._table.tolist():
            begin = slot << self._shift
            if first == least == greatest == last:
                found.append((begin, first))
            else:
                between = (least, greatest) if last >= first else (greatest, least)
                found += [(begin + width * quarter // 4, value) for quarter, value in enumerate((first, *between, last))]
        return found


def _joined(table: I64) -> I64:
    """Rows of one slot become one row."""
    starts = np.flatnonzero(np.diff(table[:, 0], prepend=table[0, 0] - 1))
    ends = np.append(starts[1:], len(table)) - 1
    return np.stack(
        [
            table[starts, 0],
            table[starts, 1],
            np.minimum.reduceat(table[:, 2], starts),
            np.maximum.reduceat(table[:, 3], starts),
            table[ends, 4],
        ],
        axis=1,
    )


class Sampled:
    """Records, every one of them as long as there are few, then every second, every fourth... so that at most `limit` stay."""

    def __init__(self, limit: int = 1500) -> None:
        self.limit, self.every, self._seen = limit, 1, 0
        self._kept: list[Any] = []

    def add(self, records: Records) -> None:
        first = -self._seen % self.every
        self._seen += len(records)
        self._kept += list(records[first :: self.every])
        while len(self._kept) > self.limit:
            self._kept, self.every = self._kept[::2], self.every * 2

    @property
    def kept(self) -> list[Any]:
        return self._kept
