"""Loops over the tiles of a reduction, only from the first to the last in which any term takes part; those in which all do need no
condition."""

from collections.abc import Sequence

from compiler.analysis.accesses import constraints_of
from compiler.hir.affine import Affine
from compiler.hir.core import Contract, Reduce
from compiler.hir.instruction import Value
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from compiler.schedule.gpu.tiles.taking_part import bounds_of, guard_of, steps_between
from compiler.schedule.region import Accumulators, TileLoop, TileRegion
from compiler.schedule.table import AxisPlan
from runtime.records import evolve

Summed = Reduce | Contract

WRITTEN_OUT = 64
"""Elements of an axis whose loop runs over all of them, as a window's does: its turns are written out."""


class TilesTakingPart(BlockTiles):
    def one_loop(self, loop: TileLoop, region: TileRegion, result: Accumulators) -> list[Value]:
        """As in all tiles; those are left out in which nothing takes part in the one reduction that the loop is for."""
        number = self.field.axes[loop.plan.axis].value
        short = number is not None and number <= WRITTEN_OUT
        alone = loop.group[0] if len(loop.group) == 1 else None
        if not isinstance(alone, Reduce | Contract) or loop.scans or short:
            return super().one_loop(loop, region, result)
        low, high = self.tiles_between(loop.plan, alone, loop.low, loop.high, region)
        loop = evolve(loop, low=_in_turn(loop, low), high=high)
        guard = guard_of(alone.values[0]) if isinstance(alone, Reduce) and not loop.ragged else None
        forms = [] if guard is None or not bounds_of(alone) else constraints_of(guard) or []
        if guard is None or not forms or forms != self.forms_along(loop.plan, forms, region):
            return super().one_loop(loop, region, result)
        first, behind = self.steps(loop.plan, forms, loop.low, high, region, True)
        first = _in_turn(loop, first)
        behind = _in_turn(evolve(loop, low=first), behind)
        for begin, end, certain in (loop.low, first, False), (first, behind, True), (behind, high, False):
            inner = region.inside(region.builder, ())
            inner.certain |= {guard} if certain else set()
            super().one_loop(evolve(loop, low=begin, high=end), inner, result)
        return []

    def terms_between(self, target: Summed) -> Sequence[Affine]:
        """What is at least 0 wherever something takes part in a reduction."""
        return bounds_of(target)

    def tiles_between(self, plan: AxisPlan, target: Summed, low: Affine, high: Affine, region: TileRegion) -> tuple[Affine, Affine]:
        """The tiles of a reduced axis from the first to behind the last one in which something takes part."""
        return self.steps(plan, self.forms_along(plan, self.terms_between(target), region), low, high, region, False)

    def forms_along(self, plan: AxisPlan, forms: Sequence[Affine], region: TileRegion) -> list[Affine]:
        """Those of the forms that say something of an axis's tiles, by what is known in the region."""
        known = {*region.starts, plan.axis, *(parameter.name for parameter in self.field.parameters)}
        return [form for form in forms if form.coefficient(plan.axis) and all(symbol in known for symbol, _ in form.terms)]

    def steps(
        self, plan: AxisPlan, forms: Sequence[Affine], low: Affine, high: Affine, region: TileRegion, throughout: bool
    ) -> tuple[Affine, Affine]:
        """The tiles of an axis in which forms hold, anywhere or all over."""
        tile = {name: (start, self.table[name].tile) for name, start in region.starts.items()}
        sizes = {parameter.name for parameter in self.field.parameters}
        tile |= {name: (Affine.of(self.symbol(name, region)), 1) for form in forms for name in form.names if name in sizes}
        return steps_between(region.builder, forms, plan.axis, plan.tile, tile, (low, high), throughout)


def _in_turn(loop: TileLoop, place: Affine) -> Affine:
    """The first turn of the loop at a place, or behind it: turns keep their distance from the first one."""
    return place if loop.step == 1 or place == loop.low else loop.low + (place - loop.low).ceildiv(loop.step) * loop.step
