"""Who touched which element of a memory that several threads see: finds accesses of two threads that nothing orders, reads of what
nobody has written, and places outside. Atomics don't race each other, nor do two writes of one value."""

from collections.abc import Callable, Iterable, Iterator
from itertools import compress
from typing import Any, Protocol

import numpy as np

from compiler.emulator import findings
from compiler.emulator.clocks import NOTHING, Known, ThreadClock, TimedAccess, access, joined
from compiler.emulator.findings import ThreadFindings
from compiler.hir.instruction import Instruction
from runtime.records import Factory, define

Array = np.ndarray[Any, Any]
Index = tuple[int, ...]
Cell = Any
"""What is told apart: an index, or a byte of memory that is seen as several types."""

FIRST_LIMIT = 64
"""Readers of one element beyond which those are forgotten that a later reader comes after."""


class Readers(dict[ThreadClock, TimedAccess]):
    """The last read of one element by each thread. When more than `limit` threads have read it, the reads that come before the new one are
    forgotten, and the limit becomes twice what is left: so forgetting takes constant time for a read on average."""

    limit = FIRST_LIMIT

    def add(self, clock: ThreadClock, seen: TimedAccess) -> None:
        if len(self) > self.limit and clock not in self:
            for reader in [reader for reader, read in self.items() if read.before(clock)]:
                del self[reader]
            self.limit = max(FIRST_LIMIT, 2 * len(self))
        self[clock] = seen


@define(eq=False)
class Shadow:
    """The accesses to one memory that still matter: each cell's last plain write, and the atomics and reads since. `filled`: which
    cells held something before; None: all do."""

    name: str
    shared: bool
    findings: ThreadFindings
    filled: Array | None = None
    index_of: Callable[[Cell], Index] = lambda cell: cell
    writes: dict[Cell, TimedAccess] = Factory(dict)
    atomics: dict[Cell, dict[ThreadClock, TimedAccess]] = Factory(dict)
    reads: dict[Cell, Readers] = Factory(dict)
    released: dict[Cell, dict[int | None, Known]] = Factory(dict)
    """By cell, what those learn who see its value through an atomic: any thread (None), or those of one block."""
    early: dict[Cell, TimedAccess] = Factory(dict)
    """Reads of what nobody had written by then."""

    def read(self, cells: Iterable[Cell], seen: TimedAccess) -> None:
        """A read of some cells at once: each access that wrote to any of them is compared once."""
        clock, writes, atomics, reads = seen.clock, self.writes, self.atomics, self.reads
        given = self.filled is None
        ordered: TimedAccess | None = None
        for cell in cells:
            write = writes.get(cell)
            if write is None:
                if not given:
                    self._need_written(cell, seen)
            elif write is not ordered:
                if write.before(clock):
                    ordered = write
                else:
                    self._race(cell, write, seen)
            if atomics and cell in atomics:
                self._against(cell, atomics[cell], seen)
            readers = reads.get(cell)
            if readers is None:
                readers = reads[cell] = Readers()
            if len(readers) <= readers.limit:
                readers[clock] = seen
            else:
                readers.add(clock, seen)

    def write(self, cell: Cell, op: Instruction, clock: ThreadClock, value: Any) -> None:
        self.put(cell, access(op, clock, "write", value))

    def put(self, cell: Cell, seen: TimedAccess) -> None:
        """A write, or a copy that begins."""
        last = self.writes.get(cell)
        if last is not None and not last.before(seen.clock) and not (last.kind == seen.kind == "write" and _same(last.value, seen.value)):
            self._race(cell, last, seen)
        accesses: tuple[dict[Cell, Any], ...] = (self.atomics, self.reads)
        for others in accesses:
            if cell in others:
                self._against(cell, others.pop(cell), seen)
        self.writes[cell] = seen

    def atomic(self, cell: Cell, op: Any, clock: ThreadClock) -> None:
        """Atomics release what a fence before them, or their own order, covers; all of them acquire."""
        seen = access(op, clock, "atomic", op.scope)
        write = self.writes.get(cell)
        if write is None:
            self._need_written(cell, seen)
        elif not write.before(clock):
            self._race(cell, write, seen)
        if cell in self.reads:
            self._against(cell, self.reads[cell], seen)
        others = self.atomics.setdefault(cell, {})
        for other in others.values():
            if other.clock.block != clock.block and "block" in (other.value, op.scope) and not other.before(clock):
                self._race(cell, other, seen)
        others[clock] = seen
        self._synchronise(cell, op, clock)

    def _synchronise(self, cell: Cell, op: Any, clock: ThreadClock) -> None:
        released = self.released.get(cell)
        if released is not None:
            clock.learn(released.get(clock.block, NOTHING))
            if op.scope != "block":
                clock.learn(released.get(None, NOTHING))
        own = clock.snapshot() if op.order in ("release", "acq_rel", "seq_cst") else NOTHING
        for scope, block in (("block", clock.block), ("device", None)):
            left = joined((own, clock.fenced.get(scope, NOTHING)))
            if left and not (block is None and op.scope == "block"):
                there = self.released.setdefault(cell, {})
                there[block] = joined((there.get(block, NOTHING), left))

    def _need_written(self, cell: Cell, seen: TimedAccess) -> None:
        if self.filled is None or self.filled[cell]:
            return
        if self.findings.collecting:
            self.early.setdefault(cell, seen)
        else:
            self.findings.add(findings.unwritten(self.name, self.shared, self.index_of(cell), seen))

    def _against(self, cell: Cell, others: dict[ThreadClock, TimedAccess], seen: TimedAccess) -> None:
        reported: set[Any] = set()
        for other in others.values():
            if other.op not in reported and other.clock is not seen.clock and not other.before(seen.clock):
                reported.add(other.op)
                self._race(cell, other, seen)

    def _race(self, cell: Cell, first: TimedAccess, second: TimedAccess) -> None:
        self.early.pop(cell, None)  # read too early, and told so
        if not self.findings.again(findings.race_code(self.shared), first.op, second.op):
            self.findings.add(findings.race(self.name, self.shared, self.index_of(cell), first, second), first.op, second.op)

    def close(self) -> None:
        """The end of the threads: what was read early, and by no race, is told; all that was written stays written."""
        for cell, seen in self.early.items():
            self.findings.add(findings.unwritten(self.name, self.shared, self.index_of(cell), seen))
        if self.filled is not None:
            for cell in (*self.writes, *self.atomics):
                self.filled[cell] = True
        self.forget()

    def forget(self) -> None:
        for events in (self.early, self.writes, self.atomics, self.reads, self.released):
            events.clear()


def _same(a: Any, b: Any) -> bool:
    return bool(a == b or (a != a and b != b))


class ClockedBlock(Protocol):
    """A block: its threads' clocks, and what is told of them later."""

    @property
    def clocks(self) -> list[ThreadClock]: ...

    def later(self, numbers: Array, tell: Callable[[int], None]) -> None: ...


class ClockedThreads(Protocol):
    """Some threads of a block."""

    @property
    def numbers(self) -> Array: ...

    @property
    def block(self) -> ClockedBlock: ...


@define(eq=False)
class Watched:
    """A memory as the threads see it: its shadow, its shape, and how indices become cells."""

    shadow: Shadow
    shape: tuple[int, ...]
    cells: Callable[[Index], tuple[Cell, ...]] | None = None
    """Of views on memory of several types; None: an index is its own cell."""

    @property
    def given(self) -> bool:
        """Whether all elements held something before."""
        return self.shadow.filled is None

    def tell(self, kind: str, op: Instruction, lanes: ClockedThreads, index: tuple[Any, ...], where: Any = None, value: Any = None) -> None:
        """Accesses of threads, which stand along the first axis of what is given, each to as many elements as further axes have."""
        given = [np.asarray(part) for part in (*index, True if where is None else where, 0 if value is None else value)]
        numbers = lanes.numbers.reshape(-1, *([1] * (max(part.ndim for part in given) - 1)))
        shape = np.broadcast_shapes(*(part.shape for part in given), numbers.shape)
        rows: list[list[list[Any]]] = []

        def one(lane: int) -> None:
            if not rows:
                rows.extend(np.broadcast_to(part, shape).reshape(len(numbers), -1).tolist() for part in given)
            clock = lanes.block.clocks[int(lanes.numbers[lane])]
            *columns, taken, values = (row[lane] for row in rows)
            indices: Iterable[Index] = zip(*columns, strict=True) if columns else [()] * len(taken)
            if kind == "read":
                self.read(compress(indices, taken), op, clock)
                return
            change = self.write if kind == "write" else self.atomic
            for place, value in compress(zip(indices, values, strict=True), taken):
                change(place, op, clock, value)

        lanes.block.later(lanes.numbers, one)

    def read(self, indices: Iterable[Index], op: Instruction, clock: ThreadClock) -> None:
        """One read of these elements, by a thread or by something beside the threads."""
        cells = indices if self.cells is None else (cell for index in indices for cell in self.cells(index))
        self.shadow.read(cells, access(op, clock, "read"))

    def write(self, index: Index, op: Instruction, clock: ThreadClock, value: Any) -> None:
        for cell in (index,) if self.cells is None else self.cells(index):
            self.shadow.write(cell, op, clock, value)

    def atomic(self, index: Index, op: Instruction, clock: ThreadClock, _: Any = None) -> None:
        for cell in (index,) if self.cells is None else self.cells(index):
            self.shadow.atomic(cell, op, clock)

    def copy(self, indices: Iterator[Index], op: Instruction, clock: ThreadClock) -> TimedAccess:
        """An asynchronous copy to these elements begins; the access is told when it `arrive`s."""
        seen = access(op, clock, "copy")
        for index in indices:
            for cell in (index,) if self.cells is None else self.cells(index):
                self.shadow.put(cell, seen)
        return seen

    def fill(self) -> None:
        """All elements hold something."""
        self.shadow.filled = None

    def close(self) -> None:
        """The end of the threads."""
        self.shadow.close()
