"""The warpgroup that multiplies in the launch of a product: where its threads stand in a tile, and which sums they have."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import SyncThreads
from compiler.hir.instruction import Value
from compiler.hir.lane_maps import WARPGROUP_SUMS, with_neighbouring_rows
from compiler.hir.module import HirFunction
from compiler.schedule.gpu.products.boxed_operands import divides
from compiler.schedule.gpu.products.boxed_product import BoxedProduct
from compiler.schedule.gpu.products.tiling import ROWS, WARPGROUP
from compiler.schedule.gpu.products.warpgroup import ALL_GROUPS, Warpgroup
from compiler.schedule.region import TileRegion


class MultiplyingWarpgroup(Warpgroup):
    def __init__(self, field: HirFunction, product: BoxedProduct, number: Affine, rank: Affine, leader: Value) -> None:
        super().__init__(product.tiling.warpgroups, number)
        self.field, self.product = field, product
        self.lanes = WARPGROUP_SUMS if product.a.packed is None else with_neighbouring_rows(WARPGROUP_SUMS)
        """Which thread has which sums of 8 columns."""
        self.rank = rank
        """The block's, in its cluster."""
        self.leader = leader
        """Whether the thread is the warpgroup's first."""
        self.block = 0
        """Which of its blocks of 64 rows is computed."""
        self.digits = ("", "", "")
        """Axes of the sums: neighbouring columns, groups of 8 of them, rows 8 apart."""

    @property
    def width(self) -> int:
        """Columns of a tile that this block finishes."""
        return self.product.width

    @property
    def first_column(self) -> Affine:
        return self.rank * self.width if self.product.tiling.pieces > 1 else Affine()

    def first_row(self, block: int) -> Affine:
        """In the tile, of one of this warpgroup's blocks of 64."""
        return ((self.number if self.product.tiling.turns == 1 else Affine()) * self.product.tiling.blocks + block) * ROWS

    def at(self, region: TileRegion, b: Builder, rows: Sequence[Affine], column: Affine) -> TileRegion:
        """The tile at these places of the operands' own axes."""
        inner = region.inside(b, self.product.varying(self.field))
        for side, places in zip(self.product.sides, (rows, [column]), strict=True):
            for axis, position, tile in zip(side.axes, places, side.tile, strict=True):
                inner.forms[axis] = region.starts[axis] + position
                if not divides(tile * (self.product.tiling.cluster if axis == self.product.a.axes[0] else 1), self.field.axes[axis]):
                    inner.masks[axis] = self.field.axes[axis]
        return inner

    def meet_all(self, b: Builder) -> None:
        """The threads of all warpgroups that multiply a tile wait for each other."""
        if self.product.tiling.groups == 1:
            self.meet(b)
        else:
            b.emit(SyncThreads(id=ALL_GROUPS, count=WARPGROUP * self.product.tiling.groups))
