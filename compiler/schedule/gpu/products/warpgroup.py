"""Warpgroups of a block that multiply: how the threads of one, or of all, wait for each other, and how they ask for products by turns."""

from collections.abc import Iterable

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import SyncThreads
from compiler.schedule.gpu.products.tiling import WARPGROUP

ALL_GROUPS, MEETING, TURNS = 1, 2, 5
"""Barriers: of all that multiply a tile; the first of those of one warpgroup; the first of those that a warpgroup waits at for its turn."""


class Warpgroup:
    """That of this number, of `count`."""

    def __init__(self, count: int, number: Affine) -> None:
        self.count, self.number = count, number

    def meet(self, b: Builder) -> None:
        """The threads of each warpgroup wait for each other."""
        self.at_barriers(b, MEETING, WARPGROUP)

    def begin_turns(self, b: Builder) -> None:
        """The last lets the first go."""
        self.at_barriers(b, TURNS, 2 * WARPGROUP, 1, (self.count - 1,))

    def await_turn(self, b: Builder) -> None:
        """Waits until the warpgroup before has asked for its products: what the tensor cores have of one is under way while the others
        compute."""
        self.at_barriers(b, TURNS, 2 * WARPGROUP)

    def pass_turn(self, b: Builder) -> None:
        self.at_barriers(b, TURNS, 2 * WARPGROUP, 1)

    def at_barriers(self, b: Builder, first: int, together: int, further: int = 0, among: Iterable[int] | None = None) -> None:
        """Each warpgroup (`among` some) waits at its barrier, of those from the first on, for so many threads; or, `further`, only arrives
        at that of the next."""
        for number in range(self.count) if among is None else among:
            with b.when(b.op("eq", b.index(self.number), b.index(number))) as own:
                own.emit(SyncThreads(id=first + (number + further) % self.count, count=together, arrive=further > 0))
