"""Who touched which element of shared memory: finds reads of what nobody has written, and accesses of two threads that no barrier
orders (0412). A barrier of the whole block orders all its threads, `warp_sync` those of a warp; atomics don't race each other."""

from typing import Any

from attrs import Factory, define, frozen

from compiler.hir.fault import KernelFault

WARP = 32


@define(eq=False)
class Clock:
    """How many barriers of the block, and of the warp, a thread has passed."""

    number: int
    block: int = 0
    warp: int = 0


@frozen
class _Access:
    """One access as it happened: whose, and when; `value` is what a write left."""

    number: int
    block: int
    warp: int
    value: Any = None

    def before(self, clock: Clock) -> bool:
        """Whether all that `clock`'s thread does now comes after it."""
        if self.number == clock.number or self.block < clock.block:
            return True
        return self.number // WARP == clock.number // WARP and self.warp < clock.warp


Index = tuple[int, ...]


@define(eq=False)
class SharedAccesses:
    """The accesses to one shared memory that still matter: each element's last plain write, and the atomics and reads since.
    `complete`: tiles or copies have written it, whose elements are not followed; `racing` False: partial barriers order threads
    in ways that clocks don't see."""

    racing: bool = True
    complete: bool = False
    writes: dict[Index, _Access] = Factory(dict)
    atomics: dict[Index, dict[int, _Access]] = Factory(dict)
    reads: dict[Index, dict[int, _Access]] = Factory(dict)

    def read(self, index: Index, clock: Clock) -> None:
        self._written(index)
        self._ordered(index, clock, self.writes.get(index), self.atomics)
        self.reads.setdefault(index, {})[clock.number] = _Access(clock.number, clock.block, clock.warp)

    def write(self, index: Index, clock: Clock, value: Any) -> None:
        """Two threads may write the same value."""
        last = self.writes.get(index)
        self._ordered(index, clock, last if last is not None and last.value != value else None, self.atomics)
        self._ordered(index, clock, None, self.reads)
        self.reads.pop(index, None)
        self.atomics.pop(index, None)
        self.writes[index] = _Access(clock.number, clock.block, clock.warp, value)

    def atomic(self, index: Index, clock: Clock) -> None:
        self._written(index)
        self._ordered(index, clock, self.writes.get(index), self.reads)
        self.atomics.setdefault(index, {})[clock.number] = _Access(clock.number, clock.block, clock.warp)

    def _written(self, index: Index) -> None:
        if index not in self.writes and not self.complete:
            raise KernelFault("0412", -1, index)

    def _ordered(self, index: Index, clock: Clock, write: _Access | None, others: dict[Index, dict[int, _Access]]) -> None:
        """A fault when one of these accesses may come at the same time as what `clock`'s thread does now."""
        if not self.racing:
            return
        for access in (*((write,) if write is not None else ()), *others.get(index, {}).values()):
            if not access.before(clock):
                raise KernelFault("0412", -1, (*index, access.number, clock.number))
