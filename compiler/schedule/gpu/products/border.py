"""Terms that take no part in sums on warpgroups.

Steps of a product at whose terms a bound ends: elements of its operands outside of the bound are made zeros where they have been copied to,
before they are multiplied. All other steps, of which all terms take part, are multiplied as they come.

The border of windows: outside of a picture bulk copies put zeros, so that products with finite weights count nothing, as the nest says; a
weight that is infinite or NaN makes NaN of a zero. So whenever that happens it shows: a NaN among the sums. A warpgroup whose tile has one,
and reaches over the border, computes the tile once more, term by term as the nest is written, and writes it again. What a tile costs
without any is one look at its sums."""

from collections.abc import Mapping, Sequence

from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.build import Builder
from compiler.hir.core import Contract, IsNan, Take
from compiler.hir.gpu import FenceAsync, SharedAlloc
from compiler.hir.hopper import BulkWait
from compiler.hir.instruction import Value
from compiler.hir.types import Mem, Space, Tile, bytes_of
from compiler.schedule.gpu.indices import thread_index
from compiler.schedule.gpu.products.boxed_operands import BoxedOperand, divides
from compiler.schedule.gpu.products.boxed_product import BoxedProduct
from compiler.schedule.gpu.products.boxed_tiles import BoxedTiles
from compiler.schedule.gpu.products.multiplying import MultiplyingWarpgroup
from compiler.schedule.gpu.products.tiling import ROWS, WARPGROUP, digit
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from compiler.schedule.region import Target, TileRegion


class BoundedSteps:
    """The steps of a tile."""

    def __init__(self, placing: BlockTiles, group: MultiplyingWarpgroup, product: BoxedProduct, region: TileRegion) -> None:
        self.placing, self.group, self.product, self.region = placing, group, product, region

    def cleared(self, b: Builder, step: Affine, stage: Affine, stages: Mapping[BoxedOperand, BoxedTiles]) -> None:
        """Zeros for the elements of a stage that take no part: of a warpgroup's own rows, and its share of the columns."""
        region = self.region.inside(b, ())
        start = b.named(step * self.product.depth)
        whole = b.none_negative(self.least(form, start, region) for form in self.product.bounds)
        assert whole is not None
        with b.branch(whole) as (_, edge, _):
            for side in self.product.copied:
                own = {axis for form in self.product.bounds for axis in form.names} & {*side.axes}
                forms = [form for form in self.product.bounds if own.intersection(form.names)]
                if forms:
                    self.zeros(edge, side, forms, start, stage, stages[side])
            edge.emit(FenceAsync())
            self.group.meet_all(edge)

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
        lanes, wide = tiles.chunk, tiles.wide
        is_rows = side.axes == product.a.axes
        own, first = (product.tiling.blocks * ROWS, group.first_row(0)) if is_rows else (side.extent, Affine())
        lines = -(-own // wide) * product.depth if side.across else own
        chunks, simd = wide // lanes, tiles.lanes(self.placing)
        thread, threads = Affine.of(thread_index(b).name), WARPGROUP * (1 if is_rows else product.tiling.groups)
        begin = b.named(thread % WARPGROUP if is_rows else thread - WARPGROUP)
        with b.loop("chunk", begin, lines * chunks, threads) as (body, loop):
            number = Affine.of(loop.variable.name)
            line, place = body.named(number.floordiv(chunks)), body.named(number % chunks) * lanes + simd
            inner = self.region.inside(body, (product.sum,))
            if side.across:
                box, line = body.named(line.floordiv(product.depth) + first.floordiv(wide)), body.named(line % product.depth)
                inner.forms[side.axis], inner.forms[product.sum] = inner.starts[side.axis] + box * wide + place, start + line
            else:
                box, line = Affine(), line + first
                inner.forms[side.axis], inner.forms[product.sum] = inner.starts[side.axis] + line, start + place
            holds = body.none_negative(self.placing.form(form, inner) for form in forms)
            assert holds is not None
            index = (stage, Affine(), box * product.depth + line, place) if side.turned else (stage, box, line, place)
            kept = body.load(tiles.memory, index)
            body.store(tiles.memory, body.select(holds, kept, body.const(0.0, kept.type)), index)


OWN, OWN_GUARDED = 8, 4
"""Columns of a tile that is computed again that a thread has, at most; and where each term has a condition, which takes registers too."""
TURNS = 2
"""Tiles that have a note of their own: threads may be one tile apart."""


class Border:
    """In shared memory: of each warpgroup, whether the sums of a tile have a NaN."""

    repairing = False

    def __init__(self, b: Builder, product: BoxedProduct) -> None:
        self.product = product
        self.notes: Value | None = None
        if product.may_repair:
            self.notes = b.emit(SharedAlloc(type=Mem("i32", (product.tiling.warpgroups, TURNS), space=Space.SHARED)), "notes").result

    def begin(self, b: Builder) -> None:
        if self.notes is not None:
            for number in range(self.product.tiling.warpgroups):
                for turn in range(TURNS):
                    b.store(self.notes, b.const(0, "i32"), [number, turn])

    def noted(self, group: MultiplyingWarpgroup, sums: Value, number: Value, b: Builder) -> Value:
        """Whether any thread of the warpgroup has a NaN in its sums of this tile, or, of sums in parts, an infinity."""
        assert self.notes is not None
        index = self.place(group, number)
        strange = b.sub(sums, sums) if self.product.repairs_all else sums
        (any_strange,) = b.reduce("or", b.emit(IsNan(value=strange)).result, over=group.digits)
        with b.when(any_strange) as noting:
            noting.store(self.notes, noting.const(1, "i32"), index)
        group.meet(b)
        return b.op("ne", b.load(self.notes, index), b.const(0, "i32"))

    def place(self, group: MultiplyingWarpgroup, number: Value) -> list[Affine]:
        turn = Affine.of(number.name).floordiv(self.product.tiling.turns) * self.product.tiling.blocks + group.block
        return [group.number, turn % TURNS]

    def repaired(
        self, placing: BlockTiles, group: MultiplyingWarpgroup, targets: Sequence[Target], region: TileRegion, number: Value, b: Builder
    ) -> None:
        """Where the tile reaches over the border, or is of sums in parts: all of it once more, an element a thread and turn, over what
        was written."""
        assert self.notes is not None
        with b.when(group.leader) as leading:
            leading.emit(BulkWait(count=0))
        group.meet(b)
        with b.when(self.outside(placing, region, b)) as again:
            self.repairing = True
            self.recomputed(placing, group, targets, region, again)
            self.repairing = False
        with b.when(group.leader) as leading:
            leading.store(self.notes, leading.const(0, "i32"), self.place(group, number))
        group.meet(b)

    def recomputed(
        self, placing: BlockTiles, group: MultiplyingWarpgroup, targets: Sequence[Target], region: TileRegion, b: Builder
    ) -> None:
        """Each thread has rows and columns of the tile in registers, so that what it reads counts for several sums."""
        columns, rows = group.width, self.product.rows
        across = 16 if columns % 16 == 0 else 8
        most = OWN if isinstance(self.product.target, Contract) else OWN_GUARDED
        own = next(number for number in range(most, 0, -1) if columns // across % number == 0)
        down = [(placing.out.axis("below", 2), step) for step in (8, 16, 32) if step >= WARPGROUP // across]
        aside = placing.out.axis("aside", own)
        thread = Affine.of(thread_index(b).name)
        lane, warp = thread % 32, thread.floordiv(32) - thread.floordiv(WARPGROUP) * (WARPGROUP // 32)
        warps = across // 8
        first = group.first_row(group.block) + lane.floordiv(8) + warp.floordiv(warps) * 4
        left = lane % 8 + (warp % warps) * 8
        with b.loop("again", 0, columns // (across * own)) as (body, loop):
            row = body.named(first)
            places = [digit(row, size, extent, rows, down) for _, size, extent in self.product.a.digits]
            column = group.first_column + left + (Affine.of(loop.variable.name) * own + aside) * across
            inner = group.at(region, body, places, column)
            tile = Tile(self.product.to, (*((axis, 2) for axis, _ in down), (aside, own)))
            inner.made[self.product.target.results[0]] = self.summed(placing, inner, body.const(0.0, tile))
            placing.produce(targets, inner, {})

    def summed(self, placing: BlockTiles, region: TileRegion, zero: Value) -> Value:
        """The sums of products as the nest has them, in its order along each axis."""
        product, target = self.product, self.product.target
        lanes = 16 // bytes_of(product.a.dtype) if isinstance(target, Contract) else 1
        last = placing.out.axis("simd", lanes)

        def walked(axes: Sequence[str], around: TileRegion, begun: Value) -> Value:
            axis, *inner = axes
            step = 1 if inner else lanes
            extent = placing.field.axes[axis]
            with around.builder.loop(axis, 0, extent.ceildiv(step), carried=[begun]) as (b, loop):
                region, (total,) = around.inside(b, (axis,)), loop.carried
                region.forms[axis] = Affine.of(loop.variable.name) * step + (Affine.of(last) if step > 1 else 0)
                if not divides(step, extent):
                    region.masks[axis] = extent
                if inner:
                    total = walked(inner, region, total)
                elif isinstance(target, Contract):
                    factors = [placing.masked(placing.value(factor, region), 0.0, [axis], region) for factor in (target.a, target.b)]
                    for lane in range(lanes):
                        a, c = (b.emit(Take(value=factor, axis=last, at=Affine.of(lane))).result for factor in factors)
                        total = b.emit(Contract(a=a, b=c, accumulator=total, over=(), to=target.to, flags=target.flags)).result
                else:
                    (total,) = placing.accumulate(target, [total], region)
                b.yield_(total)
            return loop.results[0]

        return walked((*product.outer, product.sum), region, zero)

    def outside(self, placing: BlockTiles, region: TileRegion, b: Builder) -> Value:
        """Whether any product of the tile lies outside of the guard."""
        if self.product.repairs_all:
            return b.const(True, "i1")
        product, lowest = self.product, b.const(0, "index")
        extents = {axis: placing.field.axes[axis] for axis in (*product.outer, product.sum)}
        ends = {axis: Affine.of(tile) for side in product.sides for axis, tile in zip(side.axes, side.tile, strict=True)}
        corner = region.inside(b, ())
        for form in product.guard:
            for axis, extent in {**extents, **ends}.items():
                first = region.starts[axis] if axis in ends else Affine()
                corner.forms[axis] = first + (extent - 1 if _slope(form, axis) < 0 else 0)
            lowest = b.op("min", lowest, b.index(placing.form(form, corner)))
        return b.op("lt", lowest, b.const(0, "index"))


def _slope(form: Affine, axis: str) -> int:
    """Which way a form goes along an axis, inside of quotients too."""
    inner = ((symbol, coefficient) for symbol, coefficient in form.terms if isinstance(symbol, FloorDiv))
    return form.coefficient(axis) + sum(coefficient * _slope(symbol.numerator, axis) for symbol, coefficient in inner)
