"""A matrix unit: a table of the products that one instruction makes."""

from collections.abc import Mapping
from enum import Enum

from compiler.hir.lane_maps import REGISTER_UNITS, WarpKind
from runtime.records import frozen

Shape = tuple[int, int, int]
"""Rows, columns, depth."""


class Issue(Enum):
    """Who issues a product, and where its operands are."""

    FRAGMENTS = "wmma"
    """A warp, of fragments whose registers the hardware lays out."""
    REGISTERS = "mma.sync"
    """A warp, of registers whose elements are known."""
    WARPGROUP = "wgmma"
    """Four warps, of operands in shared memory."""


@frozen(eq=False)
class MatrixUnit:
    """`shapes`: of one instruction, by the dtype of the operands. `name`: of a unit that multiplies from registers, whose lanes
    `compiler.hir.lane_maps` describes."""

    issue: Issue
    shapes: Mapping[str, tuple[Shape, ...]]
    name: str = ""

    def multiplies(self, dtype: str) -> bool:
        return dtype in self.shapes

    def kind(self, dtype: str) -> WarpKind | None:
        """How a warp holds operands of this dtype and their sums in registers."""
        return REGISTER_UNITS[self.name][dtype] if self.multiplies(dtype) else None

    def piece(self, dtype: str, shape: Shape) -> Shape:
        """The instruction that products of this shape are made of: the same, if there is one, else the smallest."""
        return shape if shape in self.shapes[dtype] else self.shapes[dtype][-1]
