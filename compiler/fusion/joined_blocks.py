"""What plans and runs chains of blocks on the way through the program, as seen by who launches them by machine code."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from runtime.records import frozen

if TYPE_CHECKING:
    from compiler.fusion.plan import Joined
    from compiler.fusion.waiting import ChainBlock

CHAINS_REMEMBERED = 256


@frozen(eq=False)
class JoinedBlocks:
    """What the blocks of a chain become: kernels, None where each block is one. `by_extents`: others where extents or whole numbers are
    others."""

    groups: "Sequence[Joined] | None"
    by_extents: bool = False


class ChainRun(Protocol):
    def __call__(self, blocks: "Sequence[ChainBlock]") -> dict[int, Any]:
        """Runs a chain like the one that was planned; the values of its blocks by their numbers. Raises ZyntaxError."""


class PlannedChains(Protocol):
    def run_of(self, blocks: "Sequence[ChainBlock]") -> ChainRun:
        """What runs the blocks, and all chains of these blocks whose values lie the same, and whose ints are the same. Raises
        ZyntaxError."""

    def joined(self, blocks: "Sequence[ChainBlock]") -> JoinedBlocks:
        """What the blocks become. Raises ZyntaxError."""

    def results(self, blocks: "Sequence[ChainBlock]") -> dict[int, Any]:
        """Runs the blocks; the values by their numbers. Raises ZyntaxError."""
