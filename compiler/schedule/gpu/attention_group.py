"""The warpgroups of attention: where a thread stands among those that multiply, and the barriers at which they meet and take turns."""

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import SyncThreads
from compiler.hir.instruction import Value
from compiler.schedule.gpu.indices import lane_index, warp_index
from compiler.schedule.gpu.warpgroup_tiles import ROWS, WARPGROUP

ALL_GROUPS, MEETING, TURNS = 1, 2, 5
"""Barriers: of all that multiply; the first of those of one warpgroup; the first of those that a warpgroup waits at for its turn."""


class AttentionGroup:
    """One of `count` warpgroups: its number, its first `row` in the block's tile; the thread's warp and lane, and the first column that the
    lane has."""

    def __init__(self, b: Builder, count: int, thread: Value) -> None:
        self.count = count
        warp = warp_index(b)
        self.lane = lane_index(b)
        self.number = b.named(warp.floordiv(4) + -1)
        self.row = self.number * ROWS
        self.warp = warp % 4
        self.column = (self.lane % 4) * 2
        number = Affine.of(thread.name)
        self.leader = b.op("eq", b.index(number % WARPGROUP), b.index(0))

    def _is(self, b: Builder, number: int) -> Value:
        return b.op("eq", b.index(self.number), b.index(number))

    def meet(self, b: Builder) -> None:
        """The threads of each warpgroup wait for each other."""
        for number in range(self.count):
            with b.when(self._is(b, number)) as own:
                own.emit(SyncThreads(id=MEETING + number, count=WARPGROUP))

    def begin_turns(self, b: Builder) -> None:
        """The last lets the first go."""
        with b.when(self._is(b, self.count - 1)) as own:
            own.emit(SyncThreads(id=TURNS, count=2 * WARPGROUP, arrive=True))

    def await_turn(self, b: Builder) -> None:
        """Waits until the warpgroup before has asked for its products: what the tensor cores have of one is under way while the others
        compute weights."""
        for number in range(self.count):
            with b.when(self._is(b, number)) as own:
                own.emit(SyncThreads(id=TURNS + number, count=2 * WARPGROUP))

    def pass_turn(self, b: Builder) -> None:
        for number in range(self.count):
            with b.when(self._is(b, number)) as own:
                own.emit(SyncThreads(id=TURNS + (number + 1) % self.count, count=2 * WARPGROUP, arrive=True))
