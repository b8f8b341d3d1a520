"""A ring of stages in shared memory, which bulk copies fill and warpgroups read: the barriers that say which stages are full and which are
empty, and the stage of a turn. Products and attention have the same."""

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.hopper import BarrierArrive, BarrierExpect, BarrierInit, BarrierMake, BarrierWait
from compiler.hir.instruction import Value
from compiler.hir.types import Barrier


class StageRing:
    """`readers`: warpgroups that free a stage before it is filled again, in each of so many blocks that write to it (`cluster`)."""

    def __init__(self, b: Builder, stages: int, readers: int, cluster: int = 1) -> None:
        self.stages, self.readers, self.cluster = stages, readers * cluster, cluster
        self.full, self.empty = (b.emit(BarrierMake(type=Barrier(stages)), name).result for name in ("full", "empty"))

    def counts(self) -> list[tuple[Value, int, int]]:
        """Of each barrier: its number in the array, and how many arrive at it."""
        return [(barrier, stage, count) for stage in range(self.stages) for barrier, count in ((self.full, 1), (self.empty, self.readers))]

    def place(self, b: Builder, turn: Value) -> tuple[Value, Value]:
        """The stage of a turn, and how often it was filled before, odd or even."""
        number = Affine.of(turn.name)
        return b.index(number % self.stages), b.cast(b.index(number.floordiv(self.stages) % 2), "i32")

    def next(self, b: Builder, stage: Value, parity: Value) -> tuple[Value, Value]:
        """Of the turn after: without a division, which would take longer than small tiles' products."""
        further = b.add(stage, b.const(1, "index"))
        over = b.op("eq", further, b.const(self.stages, "index"))
        return b.select(over, b.const(0, "index"), further), b.select(over, self._flipped(b, parity), parity)

    def await_full(self, b: Builder, stage: Affine, parity: Value) -> None:
        b.emit(BarrierWait(barrier=self.full, barrier_index=(stage,), parity=parity))

    def fill(self, b: Builder, stage: Affine, parity: Value, bytes: int) -> None:
        """Copies of so many bytes may begin, when there is room."""
        self.await_empty(b, stage, parity)
        b.emit(BarrierExpect(barrier=self.full, barrier_index=(stage,), bytes=bytes))

    def await_empty(self, b: Builder, stage: Affine, parity: Value) -> None:
        b.emit(BarrierWait(barrier=self.empty, barrier_index=(stage,), parity=self._flipped(b, parity)))

    def free(self, b: Builder, stage: Affine) -> None:
        """This warpgroup has read the stage; all blocks that write to it are told."""
        for rank in range(self.cluster):
            other = b.const(rank, "i32") if self.cluster > 1 else None
            b.emit(BarrierArrive(barrier=self.empty, barrier_index=(stage,), rank=other))

    def _flipped(self, b: Builder, parity: Value) -> Value:
        return b.op("xor", parity, b.const(1, "i32"))


class TileTurns:
    """Whose tile's stages come next, of two warpgroups with tiles of their own: one that waited for its stages too early would take a
    barrier's phase for another."""

    def __init__(self, b: Builder) -> None:
        self.turn = b.emit(BarrierMake(type=Barrier(2)), "turn").result

    def counts(self) -> list[tuple[Value, int, int]]:
        return [(self.turn, number, 1) for number in range(2)]

    def await_turn(self, b: Builder, team: Affine, number: Value) -> None:
        """The first tile's warpgroup waits for nobody."""
        passed = Affine.of(number.name).floordiv(2) + team + 1
        b.emit(BarrierWait(barrier=self.turn, barrier_index=(team,), parity=b.cast(b.index(passed % 2), "i32")))

    def pass_turn(self, b: Builder, team: Affine) -> None:
        b.emit(BarrierArrive(barrier=self.turn, barrier_index=(team * -1 + 1,)))


def initialise(b: Builder, counts: list[tuple[Value, int, int]], together: bool = False) -> None:
    """One thread makes the barriers ready; `together`: bulk copies and other blocks know of all of them from the last one on."""
    for number, (barrier, position, count) in enumerate(counts, 1):
        known = not together or number == len(counts)
        b.emit(BarrierInit(barrier=barrier, barrier_index=(Affine.of(position),), count=count, known=known))
