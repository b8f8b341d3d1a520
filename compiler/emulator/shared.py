"""Whether threads of a block met at an element of shared memory between two of its barriers: a quick answer for all that one
instruction touches, from arrays with an entry for each element. What exactly happened `watch.py` says, when it is told."""

from typing import Any

import numpy as np
from attrs import Factory

from compiler.emulator.watch import Shadow
from runtime.records import define

Array = np.ndarray[Any, Any]

_SEVERAL = -2
"""Stands for more than one thread."""


_never = Factory(lambda self: np.full(self.array.size, -1, np.int32), takes_self=True)


@define(eq=False)
class SharedWatch:
    """A shared memory's elements: who last read and wrote them, and when. `time` counts barriers, `met` says that two threads were at
    an element that one of them changed, or that something was read which nobody has written."""

    array: Array
    shadow: Shadow
    time: int = 0
    met: bool = False
    first: Array = _never
    written: Array = _never
    writer: Array = _never
    read_at: Array = _never
    reader: Array = _never
    changed: Array = _never

    def see(self, kind: str, index: tuple[Any, ...], numbers: Array, where: Any) -> None:
        """Accesses of one kind, at indices, of threads that stand along the first axis."""
        shape = np.broadcast_shapes(*(np.shape(i) for i in index), numbers.shape, np.shape(where) if where is not None else ())
        flat: Any = np.zeros((), np.int64)
        taken = np.ones(shape, np.bool_) if where is None else np.broadcast_to(where, shape)
        for i, extent in zip(index, self.array.shape, strict=True):
            flat = flat * extent + i
            taken = taken & (np.asarray(i) >= 0) & (np.asarray(i) < extent)
        cells, threads = np.broadcast_to(flat, shape)[taken], np.broadcast_to(numbers, shape)[taken]
        {"read": self._read, "write": self._write, "atomic": self._change}[kind](cells, threads)

    def _read(self, cells: Array, threads: Array) -> None:
        now, written = self.time, self.written[cells]
        missing = (written < 0).any() and self.shadow.filled is not None
        if missing or ((written == now) & (self.writer[cells] != threads)).any() or (self.changed[cells] == now).any():
            self.met = True
        others = (self.read_at[cells] == now) & (self.reader[cells] != threads)
        self.read_at[cells] = now
        self.reader[cells] = threads
        others |= self.reader[cells] != threads
        self.reader[cells[others]] = _SEVERAL

    def _write(self, cells: Array, threads: Array) -> None:
        now = self.time
        met = (self.read_at[cells] == now) & (self.reader[cells] != threads)
        met |= (self.written[cells] == now) & (self.writer[cells] != threads)
        self._fill(cells)
        self.written[cells] = now
        self.writer[cells] = threads
        met |= self.writer[cells] != threads
        self.met |= bool(met.any() or (self.changed[cells] == now).any())

    def _change(self, cells: Array, threads: Array) -> None:
        """Atomic changes, which meet what isn't atomic."""
        now = self.time
        missing = (self.written[cells] < 0).any() and self.shadow.filled is not None
        self.met |= bool(missing or (self.written[cells] == now).any() or (self.read_at[cells] == now).any())
        self._fill(cells)
        self.changed[cells] = now

    def _fill(self, cells: Array) -> None:
        new = cells[self.first[cells] < 0]
        self.first[new] = self.time

    def begin(self) -> None:
        """What happened since the last barrier is going to be told: the shadow holds what was written before."""
        if self.shadow.filled is not None:
            before = np.flatnonzero((self.first >= 0) & (self.first < self.time))
            places = np.unravel_index(before, self.array.shape)
            self.shadow.filled = set(zip(*(part.tolist() for part in places), strict=True)) if self.array.ndim else set()
        self.shadow.forget()

    def end(self) -> None:
        """A barrier."""
        self.shadow.forget()
        self.met = False
        self.time += 1
