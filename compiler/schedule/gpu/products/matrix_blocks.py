"""Launches of products and of attention: each block takes tiles of matrices, and its threads have as many elements of them as whatever
multiplies leaves them."""

from collections.abc import Iterable, Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.schedule.gpu.tiles.distribute import Distributing
from compiler.schedule.gpu.tiles.taking_part import steps_between
from compiler.schedule.region import NotPlaceable, Target, TileRegion
from compiler.schedule.table import AxisPlan, Table


class MatrixBlocks(Distributing):
    """Builds the one launch of such a field. `own`: the axes of results that tiles lie along; `walked`: those of sums. Along all others,
    `batch`, there are matrices beside each other."""

    all_have_own = True

    def __init__(
        self,
        field: HirFunction,
        own: Sequence[str],
        walked: Sequence[str],
        threads: int,
        reasons: Sequence[str] = (),
        resident: int | None = None,
    ) -> None:
        self.own = tuple(own)
        self.batch = [axis for axis in field.axes if axis not in (*own, *walked)]
        plans = [AxisPlan(axis, "block") for axis in (*self.batch, *own)] + [AxisPlan(axis) for axis in walked]
        super().__init__(field, Table(plans, reasons, block=(threads,), resident=resident))

    def shared_out(self, group: Sequence[Target], region: TileRegion) -> None:
        if any(self.target_axes(target) != {*self.own, *self.batch} for target in group):
            raise NotPlaceable("a result that doesn't vary along all axes of matrices")
        self.tiles_of_blocks(group, region)

    def tiles_of_blocks(self, group: Sequence[Target], region: TileRegion) -> None:
        """The loop over blocks, and what each does."""
        raise NotImplementedError

    def enter_matrix(self, region: TileRegion, digits: Iterable[Value]) -> None:
        """The place of a block's matrix."""
        for axis, digit in zip(self.batch, digits, strict=True):
            region.forms[axis] = region.starts[axis] = Affine.of(digit.name)

    def taking_part(
        self, region: TileRegion, bounds: Sequence[Affine], axis: str, depth: int, own: Mapping[str, tuple[Affine, int]]
    ) -> tuple[Affine, Value]:
        """The first of the steps of so many terms in which any takes part, and how many there are, in a tile: where it begins along its own
        axes, and how many elements it has."""
        b = region.builder
        tile = {name: (Affine.of(self.symbol(name, region)), 1) for form in bounds for name in form.names}
        tile |= {axis: (region.starts[axis], 1) for axis in self.batch} | {**own}
        low, high = steps_between(b, bounds, axis, depth, tile, (Affine(), self.field.axes[axis].ceildiv(depth)))
        first = b.named(low)
        return first, b.op("max", b.index(high - first), b.const(0, "index"))
