"""A ring of stages in shared memory, which bulk copies fill and warpgroups read: the barriers that say which stages are full and which are
empty, and the stage of a turn. Products and attention have the same."""

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.hopper import BarrierArrive, BarrierInit, BarrierMake, BarrierWait
from compiler.hir.instruction import Value
from compiler.hir.types import Barrier


class StageRing:
    """`readers`: warpgroups that free a stage before it is filled again."""

    def __init__(self, b: Builder, stages: int, readers: int) -> None:
        self.stages, self.readers = stages, readers
        self.full, self.empty = (b.emit(BarrierMake(type=Barrier(stages)), name).result for name in ("full", "empty"))

    def counts(self) -> list[tuple[Value, int, int]]:
        """Of each barrier: its number in the array, and how many arrive at it."""
        return [(barrier, stage, count) for stage in range(self.stages) for barrier, count in ((self.full, 1), (self.empty, self.readers))]

    def stage_of(self, b: Builder, turn: Value) -> Value:
        return b.index(Affine.of(turn.name) % self.stages)

    def parity_of(self, b: Builder, turn: Value) -> Value:
        """Whether the stage of a turn was filled an odd number of times before."""
        return b.cast(b.index(Affine.of(turn.name).floordiv(self.stages) % 2), "i32")

    def await_full(self, b: Builder, stage: Affine, parity: Value) -> None:
        b.emit(BarrierWait(barrier=self.full, barrier_index=(stage,), parity=parity))

    def await_empty(self, b: Builder, stage: Affine, parity: Value) -> None:
        b.emit(BarrierWait(barrier=self.empty, barrier_index=(stage,), parity=self.flipped(b, parity)))

    def free(self, b: Builder, stage: Affine) -> None:
        """This warpgroup has read the stage."""
        b.emit(BarrierArrive(barrier=self.empty, barrier_index=(stage,)))

    def flipped(self, b: Builder, parity: Value) -> Value:
        return b.op("xor", parity, b.const(1, "i32"))


def initialise(b: Builder, counts: list[tuple[Value, int, int]], together: bool = False) -> None:
    """One thread makes the barriers ready; `together`: bulk copies and other blocks know of all of them from the last one on."""
    for number, (barrier, position, count) in enumerate(counts, 1):
        known = not together or number == len(counts)
        b.emit(BarrierInit(barrier=barrier, barrier_index=(Affine.of(position),), count=count, known=known))
