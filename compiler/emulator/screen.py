"""A first look at the memory that threads share, from arrays with an entry for each element: which thread was there last, and when. It
shows for all elements of an instruction at once that nothing is wrong with them. Where it can't, it ends the run (`Unsure`): the launch
runs again with clocks (`watch.py`), which know all that orders threads and say what exactly happened. Blocks run one after another here."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
from attrs import Factory

from runtime.records import define

Array = np.ndarray[Any, Any]

_NOBODY, _SEVERAL, _COPY = -1, -2, -3
"""Instead of the number of a thread, warp or block: none, more than one, and an asynchronous copy that nobody has waited for."""


class Unsure(Exception):
    """The first look doesn't show that all is well."""


@define(eq=False)
class Order:
    """What comes before the things that a block's threads do now, as far as barriers of blocks and warps say, and atomics of other blocks
    that were seen before such a barrier. Time is counted in moments. `threads`: numbers of threads from one block to the next; `warps`:
    whether warps meet."""

    lanes: int
    threads: int
    blocks: int
    warps: bool
    moment: int = 0
    block: int = -1
    met: int = 0
    """When the block's threads last met."""
    warps_met: Array = Factory(lambda self: np.zeros(self.blocks * self.threads // self.lanes, np.int32), takes_self=True)
    known: Array = Factory(lambda self: np.zeros(self.blocks, np.int32), takes_self=True)
    """By block, the moment up to which all is known that it has done."""
    learnt: Array | None = None
    """What is known when the block meets the next time."""
    fenced: dict[int, Array] = Factory(dict)
    """By thread, what everyone knows who sees an atomic that it makes from now on."""

    def begin(self, block: int) -> None:
        """The next block."""
        self.block, self.learnt = block, None
        self.known[:] = 0
        self.fenced.clear()
        self.meet()

    def meet(self) -> None:
        """A barrier of all threads of the block."""
        self.moment += 1
        self.met = self.known[self.block] = self.moment
        if self.learnt is not None:
            np.maximum(self.known, self.learnt, out=self.known)

    def meet_warps(self, numbers: Array) -> None:
        """A barrier of whole warps."""
        self.moment += 1
        self.warps_met[self.in_grid(numbers) // self.lanes] = self.moment

    def in_grid(self, numbers: Array) -> Array:
        """Numbers of the block's threads as numbers in the grid, by which threads are told apart here."""
        return numbers + self.block * self.threads

    def fence(self, numbers: Array, scope: str) -> None:
        if scope not in ("thread", "block"):
            seen = self.known.copy()
            self.fenced.update((number, seen) for number in self.in_grid(numbers).tolist())

    def synchronise(self, released: dict[int, Array], op: Any, cells: Array, threads: Array) -> None:
        """Threads change elements atomically: who sees the values later knows what fences have covered, or the atomic's own order."""
        releases = op.order in ("release", "acq_rel", "seq_cst")
        if op.scope == "block" or not (releases or released or self.fenced):
            return
        for cell, number in zip(cells.tolist(), threads.tolist(), strict=True):
            there = released.get(cell)
            if there is not None:
                self.learnt = there if self.learnt is None else np.maximum(self.learnt, there)
            left = self.known.copy() if releases else self.fenced.get(number)
            if left is not None:
                released[cell] = left if there is None else np.maximum(there, left)


@define(eq=False)
class LastAccesses:
    """Accesses of one kind: for each element, the last thread, its warp and block, and the last moment. What isn't known to come before a
    later access stands there beside it, as `_SEVERAL`."""

    thread: Array
    warp: Array
    block: Array
    moment: Array

    @classmethod
    def of(cls, size: int) -> "LastAccesses":
        return cls(*(np.full(size, _NOBODY, np.int32) for _ in range(4)))

    def unordered(self, order: Order, cells: Array, threads: Array) -> Array:
        """Where another thread was that isn't known to have been there before."""
        last = self.thread[cells]
        met: Array = (last != _NOBODY) & (last != threads)
        if not met.any():
            return met
        at = cells[met]
        block, moment = self.block[at], self.moment[at]
        before = (block >= 0) & (moment < order.known[np.maximum(block, 0)])
        if order.warps:
            warp = self.warp[at]
            before |= (warp == threads[met] // order.lanes) & (moment < order.warps_met[np.maximum(warp, 0)])
        met[met] = ~before
        return met

    def add(self, order: Order, cells: Array, threads: Array, beside: Array | None = None) -> Array:
        """Accesses of now, `beside` those that stand there; where several threads are at one element."""
        warps = threads // order.lanes if order.warps else _SEVERAL
        kept = cells[beside] if beside is not None and beside.any() else None
        places = None if kept is None else (self.warp[kept], self.block[kept])
        self.thread[cells], self.warp[cells], self.block[cells], self.moment[cells] = threads, warps, order.block, order.moment
        several = self.thread[cells] != threads
        if several.any():
            self.warp[cells[self.warp[cells] != warps]] = _SEVERAL
            self.thread[cells[several]] = _SEVERAL
        if kept is not None and places is not None:
            self.thread[kept] = _SEVERAL
            self.warp[kept[self.warp[kept] != places[0]]] = _SEVERAL
            self.block[kept[self.block[kept] != places[1]]] = _SEVERAL
        return np.asarray(several)

    def forget(self, cells: Array) -> None:
        self.thread[cells] = _NOBODY


@define(eq=False)
class Elements:
    """The elements of a memory. `filled`: which ones hold something; None: all do."""

    order: Order
    size: int
    filled: Array | None
    shared: bool
    writes: LastAccesses | None = None
    reads: LastAccesses | None = None
    changes: LastAccesses | None = None
    """Atomic ones."""
    released: dict[int, Array] = Factory(dict)
    """By element, what those know who see its value through an atomic."""

    def read(self, cells: Array, threads: Array) -> None:
        self._need_filled(cells)
        self._need_order(cells, threads, self.writes, self.changes)
        if self.reads is None:
            self.reads = LastAccesses.of(self.size)
        self.reads.add(self.order, cells, threads, self.reads.unordered(self.order, cells, threads))

    def write(self, cells: Array, threads: Array, values: Callable[[], Array | None]) -> None:
        self._need_order(cells, threads, self.writes, self.reads, self.changes)
        if self.writes is None:
            self.writes = LastAccesses.of(self.size)
        for accesses in (self.reads, self.changes):
            if accesses is not None:
                accesses.forget(cells)
        if self.writes.add(self.order, cells, threads).any():
            if (given := values()) is None or not _alike(cells, given):
                raise Unsure
            self.writes.thread[cells] = threads  # writes of one value: the last one stands for all
        self._fill(cells)

    def change(self, cells: Array, threads: Array, op: Any) -> None:
        self._need_filled(cells)
        self._need_order(cells, threads, self.writes, self.reads)
        if op.scope == "block" and not self.shared and self.order.blocks > 1:
            raise Unsure
        if self.changes is None:
            self.changes = LastAccesses.of(self.size)
        self.changes.add(self.order, cells, threads, self.changes.unordered(self.order, cells, threads))
        self.order.synchronise(self.released, op, cells, threads)
        self._fill(cells)

    def begin_copy(self, cells: Array, threads: Array) -> None:
        """Asynchronous copies to these elements: until they arrive nobody may be there."""
        if len(np.unique(cells)) < len(cells):
            raise Unsure
        self.write(cells, threads, lambda: None)
        assert self.writes is not None
        self.writes.thread[cells] = self.writes.warp[cells] = self.writes.block[cells] = _COPY

    def arrive(self, cells: Array, threads: Array) -> None:
        assert self.writes is not None
        self.writes.add(self.order, cells, threads)

    def _need_filled(self, cells: Array) -> None:
        if self.filled is not None and not self.filled[cells].all():
            raise Unsure

    def _need_order(self, cells: Array, threads: Array, *others: LastAccesses | None) -> None:
        if any(accesses is not None and accesses.unordered(self.order, cells, threads).any() for accesses in others):
            raise Unsure

    def _fill(self, cells: Array) -> None:
        if self.filled is not None:
            self.filled[cells] = True


def _alike(cells: Array, values: Array) -> bool:
    """Whether each element gets one value."""
    order = np.argsort(cells, kind="stable")
    cells, values = cells[order], values[order]
    same = (values[1:] == values[:-1]) | ((values[1:] != values[1:]) & (values[:-1] != values[:-1]))
    return bool((same | (cells[1:] != cells[:-1])).all())


class ScreenedThreads(Protocol):
    """Some threads of a block."""

    @property
    def numbers(self) -> Array: ...


@define(eq=False)
class Screened:
    """A memory as the threads see it. Of views on memory of several types, an element is so many `units` from `offset` on."""

    elements: Elements
    shape: tuple[int, ...]
    offset: int = 0
    units: int = 1
    left: Array | None = None
    """Which elements hold something, for launches to come."""

    @property
    def given(self) -> bool:
        """Whether all elements held something before."""
        return self.elements.filled is None

    def tell(self, kind: str, op: Any, lanes: ScreenedThreads, index: tuple[Any, ...], where: Any = None, value: Any = None) -> None:
        """Accesses of threads, which stand along the first axis of what is given, each to as many elements as further axes have."""
        given = [np.asarray(part) for part in (*index, True if where is None else where)]
        numbers = self.elements.order.in_grid(lanes.numbers).reshape(-1, *([1] * (max(part.ndim for part in given) - 1)))
        shape = np.broadcast_shapes(*(part.shape for part in given), numbers.shape)
        flat: Any = np.zeros((), np.int64)
        taken = given.pop()
        for part, extent in zip(given, self.shape, strict=True):
            flat = flat * extent + part
            taken = taken & (part >= 0) & (part < extent)
        taken = np.broadcast_to(taken, shape)
        cells, threads = self._units(np.broadcast_to(flat, shape)[taken], np.broadcast_to(numbers, shape)[taken])
        match kind:
            case "read":
                self.elements.read(cells, threads)
            case "write":
                self.elements.write(cells, threads, partial(self._values, value, shape, taken))
            case "atomic":
                self.elements.change(cells, threads, op)
            case "copy":
                self.elements.begin_copy(cells, threads)
            case _:
                self.elements.arrive(cells, threads)

    def _units(self, cells: Array, threads: Array) -> tuple[Array, Array]:
        if self.units == 1:
            return cells, threads
        return ((self.offset + self.units * cells)[:, None] + np.arange(self.units)).reshape(-1), np.repeat(threads, self.units)

    def _values(self, value: Any, shape: tuple[int, ...], taken: Array) -> Array | None:
        return None if value is None else np.repeat(np.broadcast_to(np.asarray(value), shape)[taken], self.units)

    def fill(self) -> None:
        """All elements hold something."""
        self.elements.filled = None

    def close(self) -> None:
        """The end of the threads: what was written stays written."""
        if self.left is not None and self.elements.filled is not None:
            self.left[...] = self.elements.filled.reshape(self.left.shape)
