"""What a nest takes at least on the machine at hand: the largest of four times, none of which our code has a part in. Each is measured in
the same process, in turn with the nest, or is a count of operations at a rate that is.

* **copy**: `memcpy` of as many bytes as the nest moves, warm as the nest is.
* **operations**: its issue slots (`bench.nests.work`) at the rate of fused products in registers.
* **lookups**: where data decide addresses, as many accesses to places drawn at random in a table as large as the nest's, each line of a
  cache that an entry has: one load each, or one load and one store, without arithmetic and with no place twice in a row.
* **lengths**: where data decide how long inner loops are, a branch that is foretold wrongly for the end of each."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from bench.nests.form import BYTES, BenchNest, Lookups
from bench.nests.work import slots_of

Call = Callable[[], Any]
Rates = Mapping[str, float]

SAMPLE = 1 << 16
"""Lookups that are timed together: where they are stays in the near caches."""

SMALL, DRAWN = 1 << 18, 1 << 22
"""Bytes of a table that stays there, too, and places that are drawn in larger ones, so that a call finds others than the call before."""


def width_of(nest: BenchNest) -> str:
    """Whose lanes the nest's arithmetic has: whole numbers keep their width, floats of 16 bits are computed in 32."""
    return "f64" if nest.unit == "f64" or nest.dtype == "f64" else nest.dtype if nest.dtype[0] in "iu" and nest.unit != "f32" else "f32"


def rate_of(nest: BenchNest, rates: Rates) -> float:
    """Operations a second: those of f32 as often as lanes are narrower."""
    kind = width_of(nest)
    return rates["f64"] if kind == "f64" else rates["f32"] * 4 / BYTES.get(kind, 4)


class NestLimits:
    """The calls that are timed for a nest, by the number of threads, and what follows from their times."""

    def __init__(self, nest: BenchNest, library: Any, generator: Any) -> None:
        self.nest, self.library = nest, library
        half = max(1, int(nest.bytes / 2))
        self.moved = np.ones(half, np.uint8), np.zeros(half, np.uint8)
        self.places = drawn(nest.lookups, generator) if nest.lookups else None
        self.tables: dict[int, Any] = {}
        self.ways = {"branches": generator.integers(0, 2, SAMPLE, np.int8), "straight": np.zeros(SAMPLE, np.int8)} if nest.lengths else {}

    def calls(self, threads: int) -> dict[str, Call]:
        """To be timed in turn with the nest."""
        source, target = (_address(array) for array in self.moved)
        half = ctypes.c_int64(len(self.moved[0]))
        found: dict[str, Call] = {"copy": lambda: self.library.copy(source, target, half, ctypes.c_int64(threads))}
        if self.nest.lookups is not None:
            found["lookups"] = self.lookups(self.nest.lookups, threads)
        if self.nest.lengths:
            count = ctypes.c_int64(SAMPLE)
            for name, ways in self.ways.items():
                found[name] = lambda ways=ways: self.library.branches(_address(ways), count, ctypes.c_int64(threads))
        return found

    def lookups(self, lookups: Lookups, threads: int) -> Call:
        name = "changes" if lookups.updates else "reads"
        known = (4, 8) if lookups.updates else (1, 2, 4, 8)
        function = getattr(self.library, f"{name}_of_{lookups.entry_bytes if lookups.entry_bytes in known else 'any'}")
        assert self.places is not None
        size = lookups.entries * lookups.entry_bytes
        apart = size if lookups.updates else 0
        self.tables[threads] = np.zeros(size + apart * (threads - 1) + 64, np.uint8)
        numbers = [ctypes.c_int64(number) for number in (SAMPLE, lookups.entry_bytes, apart, threads)]
        table, starts = _address(self.tables[threads]), range(0, len(self.places), SAMPLE)
        parts = cycle([_address(self.places[start:]) for start in starts])
        return lambda: function(table, next(parts), *numbers)

    def seconds(self, times: Mapping[str, float], rates: Rates) -> dict[str, float]:
        """Of each limit, by its name."""
        found = {"copy": times["copy"], "operations": 2 * slots_of(self.nest) / rate_of(self.nest, rates)}
        if self.nest.lookups is not None:
            found["lookups"] = times["lookups"] * self.nest.lookups.count / SAMPLE
        if self.nest.lengths:
            # half of the branches go the way that wasn't expected
            found["lengths"] = max(0.0, times["branches"] - times["straight"]) * 2 / SAMPLE * self.nest.lengths
        return found


def drawn(lookups: Lookups, generator: Any) -> Any:
    """Places in a table at random; none comes again before all have, so that no access waits for the one before."""
    wanted = SAMPLE if lookups.entries * lookups.entry_bytes <= SMALL else min(DRAWN, -(-int(lookups.count) // SAMPLE) * SAMPLE)
    rounds: Sequence[Any] = [generator.permutation(lookups.entries) for _ in range(-(-wanted // lookups.entries))]
    return np.concatenate(rounds)[:wanted].astype(np.uint32)


def _address(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
