"""Steps of a product at whose terms a bound ends: elements of its operands outside of the bound are made zeros where they have been copied
to, before they are multiplied. All other steps, of which all terms take part, are multiplied as they come."""

from collections.abc import Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import FenceAsync, SyncThreads
from compiler.hir.instruction import Value
from compiler.hir.types import bytes_of
from compiler.schedule.gpu.block_tiles import BlockTiles
from compiler.schedule.gpu.boxed_operands import BoxedOperand
from compiler.schedule.gpu.boxed_tiles import BoxedTiles
from compiler.schedule.gpu.indices import thread_index
from compiler.schedule.gpu.warpgroup import MultiplyingWarpgroup
from compiler.schedule.gpu.warpgroup_operands import WarpgroupProduct
from compiler.schedule.gpu.warpgroup_tiles import ROWS, WARPGROUP
from compiler.schedule.gpu.workspaces import holding
from compiler.schedule.region import TileRegion

CHUNK = 16
"""Bytes that a thread has at a time."""
TOGETHER = 3
"""The barrier of all warpgroups that multiply."""


class BoundedSteps:
    """The steps of a tile, from the first one that is multiplied on."""

    def __init__(
        self, placing: BlockTiles, group: MultiplyingWarpgroup, product: WarpgroupProduct, region: TileRegion, first: Value
    ) -> None:
        self.placing, self.group, self.product, self.region, self.first = placing, group, product, region, first

    def cleared(self, b: Builder, turn: Value, stage: Affine, stages: Mapping[BoxedOperand, BoxedTiles]) -> None:
        """Zeros for the elements of a stage that take no part: of a warpgroup's own rows, and its share of the columns."""
        region = self.region.inside(b, ())
        start = b.named((Affine.of(self.first.name) + turn.name) * self.product.depth)
        whole = holding(b, [self.least(form, start, region) for form in self.product.bounds])
        assert whole is not None
        with b.branch(whole) as (_, edge, _):
            for side in self.product.sides:
                own = {axis for form in self.product.bounds for axis in form.names} & {*side.axes}
                forms = [form for form in self.product.bounds if own.intersection(form.names)]
                if forms:
                    self.zeros(edge, side, forms, start, stage, stages[side])
            edge.emit(FenceAsync())
            if self.product.tiling.groups > 1:
                edge.emit(SyncThreads(id=TOGETHER, count=WARPGROUP * self.product.tiling.groups))
            else:
                self.group.meet(edge)

    def least(self, form: Affine, start: Affine, region: TileRegion) -> Affine:
        """What a form is at least, of all terms of the step."""
        corner = region.inside(region.builder, ())
        tile = {axis: extent for side in self.product.sides for axis, extent in zip(side.axes, side.tile, strict=True)}
        starts = {**{axis: region.starts[axis] for axis in tile}, self.product.sum: start}
        for axis, extent in {**tile, self.product.sum: self.product.depth}.items():
            corner.forms[axis] = starts[axis] + (extent - 1 if form.coefficient(axis) < 0 else 0)
        return self.placing.form(form, corner)

    def zeros(self, b: Builder, side: BoxedOperand, forms: Sequence[Affine], start: Affine, stage: Affine, tiles: BoxedTiles) -> None:
        """Of the warpgroup's rows, or of columns, which all warpgroups share."""
        product, group = self.product, self.group
        lanes, wide = CHUNK // bytes_of(side.mem.dtype), tiles.wide
        is_rows = side.axes == product.a.axes
        own, first = (product.tiling.blocks * ROWS, group.first_row(0)) if is_rows else (side.extent, Affine())
        lines = -(-own // wide) * product.depth if side.across else own
        chunks, simd = wide // lanes, Affine.of(self.lanes(lanes))
        thread, threads = Affine.of(thread_index(b).name), WARPGROUP * (1 if is_rows else product.tiling.groups)
        begin = b.named(thread % WARPGROUP if is_rows else thread - WARPGROUP)
        with b.loop("chunk", begin, lines * chunks, threads) as (body, loop):
            number = Affine.of(loop.variable.name)
            line, place = body.named(number.floordiv(chunks)), body.named(number % chunks * lanes) + simd
            inner = self.region.inside(body, (product.sum,))
            if side.across:
                box, line = body.named(line.floordiv(product.depth) + first.floordiv(wide)), body.named(line % product.depth)
                inner.forms[side.axis], inner.forms[product.sum] = inner.starts[side.axis] + box * wide + place, start + line
            else:
                box, line = Affine(), line + first
                inner.forms[side.axis], inner.forms[product.sum] = inner.starts[side.axis] + line, start + place
            holds = holding(body, [self.placing.form(form, inner) for form in forms])
            assert holds is not None
            index = (stage, box, line, place)
            kept = body.load(tiles.memory, index)
            body.store(tiles.memory, body.select(holds, kept, body.const(0.0, kept.type)), index)

    def lanes(self, count: int) -> str:
        """The axis of a chunk."""
        name = f"simd_of_{count}"
        return name if name in self.placing.out.function.axes else self.placing.out.axis(name, count)
