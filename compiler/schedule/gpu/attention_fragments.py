"""The launch of attention on warps, in the way of FlashAttention-2 (Dao, 2023): a block's queries stay in registers; tiles of keys and
values come into a ring of stages in shared memory, the next while this one is multiplied. The scores of a warp become weights in its
registers, and are there the left operand of the second product.

Where warps share the keys of a tile, or blocks the tiles, each has a maximum and sums of its own, which are rescaled to the largest of the
maxima and added up in order (`attention_joins.py`)."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.async_copy import AsyncCommit, AsyncWait
from compiler.hir.build import Builder
from compiler.hir.gpu import SyncThreads
from compiler.hir.instruction import Value
from compiler.hir.tensor_core import WarpMma
from compiler.hir.types import Tile
from compiler.schedule.gpu.attention_joins import joined_by_blocks, joined_by_warps
from compiler.schedule.gpu.attention_repair import followed
from compiler.schedule.gpu.attention_walk import Walk, shared_walk, walk_of
from compiler.schedule.gpu.attention_weights import AttendingBlock, over_lanes
from compiler.schedule.gpu.block_tiles import BlockTiles
from compiler.schedule.gpu.boxed_operands import BoxedOperand, divides
from compiler.schedule.gpu.fragment_attention import STAGES, WARP_ROWS, FragmentAttention
from compiler.schedule.gpu.indices import lane_index, thread_index, warp_index
from compiler.schedule.gpu.last_block import BlockPart
from compiler.schedule.gpu.query_tiles import QueryTiles
from compiler.schedule.gpu.shared_tiles import Place, SharedTile
from compiler.schedule.gpu.warpgroup_results import taken
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import SIMD

STEP = 16
"""Terms of a product."""


class WarpsBlock(AttendingBlock):
    """Each warp multiplies rows of its own, or keys of its own."""

    def __init__(self, placing: BlockTiles, attention: FragmentAttention, queries: QueryTiles, region: TileRegion) -> None:
        super().__init__(placing, attention, queries, region)
        self.attention: FragmentAttention = attention
        self.terms = attention.terms // attention.across

    # ---- the walk ----

    def attended(self, group: Sequence[Target], part: BlockPart) -> None:
        b, region, attention = self.region.builder, self.region, self.attention
        region.starts[attention.query.axis] = b.named(region.starts[attention.query.axis])
        thread = Affine.of(thread_index(b).name)
        self.lane = lane_index(b)
        warp = warp_index(b)
        self.team = b.named(warp.floordiv(attention.down))
        self.row = b.named((warp % attention.down) * WARP_ROWS)
        self.across = (self.lane % 4) * 2
        eight, half, row = (self.placing.out.axis(name, n) for name, n in (("column", self.terms // 8), ("half", 2), ("row", 1)))
        pair = self.placing.out.axis(SIMD, 2)
        self.columns, self.half, self.rows = (pair, eight), half, (half, row)
        self.scores = Tile("f32", ((eight, self.terms // 8), (half, 2), (row, 1), (pair, 2)))
        whole = walk_of(self.placing, attention, region)
        walk = whole if attention.parts == 1 else shared_walk(whole, part.number, attention.parts, b)
        queries, keys, values = (
            SharedTile(b, attention.dtype, stages, lines, elements)
            for stages, lines, elements in (
                (1, attention.rows, attention.depth),
                (STAGES, attention.terms, attention.depth),
                (STAGES, attention.terms, attention.width),
            )
        )
        self.rings = [
            (side, tile, tile.shared_out(thread, attention.threads, b)) for side, tile in ((attention.key, keys), (attention.value, values))
        ]
        self.bring_queries(region, queries, thread)
        self.bring(b, walk, b.const(0, "index"))
        b.emit(AsyncWait(count=1))
        b.emit(SyncThreads())
        inner = region.inside(b, (attention.query.axis, attention.value.axis, *self.queries.batch))
        self.row_of_lane = self.row + self.lane.floordiv(4) + Affine.of(half) * 8 + Affine.of(row) * WARP_ROWS
        self.queries.place_row(self.row_of_lane, inner)
        self.factor = self.factored(b, inner, lambda body, sign: self.turn_queries(body, queries, thread, sign))
        places = queries.matrices(b, self.lane, self.row, True, range(0, queries.depth, STEP))
        fragments = [value for position in places for value in queries.read(b, Affine(), position)]
        first = b.named(self.team * self.terms)
        self.key_places = keys.matrices(b, self.lane, first, False, range(0, keys.depth, STEP))
        self.value_places = values.matrices_across(b, self.lane, (first, Affine()), False, range(0, values.depth, STEP))
        feature = self.placing.out.axis("feature", attention.width // 8)
        self.features = (pair, feature)
        output = b.const(0.0, Tile("f32", ((feature, attention.width // 8), (half, 2), (row, 1), (pair, 2))))
        state = [*self.at_first(b), output]
        some = b.op("min", walk.turns, b.const(1, "index"))
        for low, high, unhidden in [(b.const(0, "index"), some, False), *self.stretches(b, walk)]:
            with b.loop("turn", low.name, high.name, carried=state, unroll=1) as (body, loop):
                body.yield_(*self.step(body, inner, walk, loop.variable, loop.carried, unhidden, fragments))
            state = loop.results
        b.emit(AsyncWait(count=0))
        maximum, *totals, output = state
        self.produced(group, inner, whole, part, [maximum, *(over_lanes(b, "add", total) for total in totals)], output)

    def produced(
        self, group: Sequence[Target], region: TileRegion, walk: Walk, part: BlockPart, totals: list[Value], output: Value
    ) -> None:
        """Results of the sums, when those of all warps and blocks are joined."""
        attention, first = self.attention, Affine()
        if attention.across > 1:
            totals, output, first = joined_by_warps(self, attention, region.builder, self.row_of_lane, self.team, totals, output)
        if attention.parts == 1:
            followed(self, group, region, walk, totals, output, first)
        else:
            with joined_by_blocks(self, attention, region, self.row_of_lane, part, totals, output, first) as (last, partials, joined):
                followed(self, group, last, walk, partials, joined, first)

    def start(self, walk: Walk, turn: Value) -> Affine:
        return super().start(walk, turn) + self.team * self.terms

    def step(
        self,
        b: Builder,
        region: TileRegion,
        walk: Walk,
        number: Value,
        state: Sequence[Value],
        unhidden: bool,
        queries: Sequence[Value],
    ) -> list[Value]:
        """A turn: the next tile is asked for, this one's scores are multiplied, and its weights with its values."""
        *before, output = state
        attention = self.attention
        b.emit(AsyncWait(count=0))
        b.emit(SyncThreads())
        self.bring(b, walk, b.add(number, b.const(1, "index")))
        stage = self.stage(b, Affine.of(number.name))
        turn = self.turned(region, b, walk, number, unhidden)
        (_, keys, _), (_, values, _) = self.rings
        scores = b.const(0.0, self.scores)
        for part in range(attention.depth // STEP):
            position = self.key_places[part]
            operands = [value for below in range(0, self.terms, 16) for value in keys.read(b, stage, position, below)]
            scores = self.multiplied(b, scores, queries[4 * part : 4 * part + 4], operands, self.terms)
        growth, grown, *after, weights = self.softened(turn, scores, before)
        output = self.rescaled(b, output, grown, growth)
        packed, eight = self.packed(b, weights), self.columns[1]
        for part in range(self.terms // STEP):
            places = [(2 * part, 0), (2 * part, 1), (2 * part + 1, 0), (2 * part + 1, 1)]
            words = [taken(b, packed, {eight: column, self.half: row, self.rows[1]: 0}) for column, row in places]
            operands = [value for position in self.value_places for value in values.read(b, stage, position, STEP * part, True)]
            output = self.multiplied(b, output, words, operands, attention.width)
        return [*after, output]

    def multiplied(self, b: Builder, sums: Value, left: Sequence[Value], right: Sequence[Value], columns: int) -> Value:
        product = WarpMma(accumulator=sums, values=(*left, *right), shape=(WARP_ROWS, columns, STEP), dtype=self.attention.dtype)
        return b.emit(product).result

    # ---- copies ----

    def stage(self, b: Builder, turn: Affine) -> Affine:
        return b.named(turn % STAGES)

    def bring_queries(self, region: TileRegion, tile: SharedTile, thread: Affine) -> None:
        b, side = region.builder, self.attention.query

        def source(line: Affine, along: Affine) -> Place:
            inside = region.inside(b, (side.axis, *self.queries.batch))
            self.queries.place_row(line, inside)
            return self.element(side, inside, self.attention.inner, along)

        tile.filled(b, Affine(), tile.shared_out(thread, self.attention.threads, b), source)
        b.emit(AsyncCommit())

    def bring(self, b: Builder, walk: Walk, number: Value) -> None:
        """Copies of a turn's keys and values begin, where there is such a turn."""
        attention = self.attention
        stage, start = self.stage(b, Affine.of(number.name)), self.tile(walk, number) * attention.terms
        with b.when(b.op("lt", number, walk.turns)) as coming:
            for side, tile, pieces in self.rings:
                axis = attention.inner if side is attention.key else side.axis

                def source(line: Affine, along: Affine, side: BoxedOperand = side, axis: str = axis) -> Place:
                    inside = self.region.inside(coming, ())
                    inside.forms[attention.along] = start + line
                    if not divides(attention.terms, self.placing.field.axes[attention.along]):
                        inside.masks[attention.along] = self.placing.field.axes[attention.along]
                    return self.element(side, inside, axis, along)

                tile.filled(coming, stage, pieces, source)
        b.emit(AsyncCommit())

    def element(self, side: BoxedOperand, region: TileRegion, axis: str, along: Affine) -> Place:
        """Where an element of a row lies, and whether there is one."""
        region.forms[axis] = along
        if self.placing.field.axes[axis].value != (self.attention.depth if axis == self.attention.inner else self.attention.width):
            region.masks[axis] = self.placing.field.axes[axis]
        mem = region.find(side.load.mem)
        assert mem is not None
        where = self.placing.mask(region, [name for form in side.load.index for name in form.names], None)
        return mem, tuple(self.placing.form(form, region) for form in side.load.index), where

    def turn_queries(self, b: Builder, tile: SharedTile, thread: Affine, sign: Value) -> None:
        """The block's queries times a sign."""
        attention = self.attention
        with b.loop("element", thread, attention.rows * attention.depth, step=attention.threads) as (body, loop):
            number = Affine.of(loop.variable.name)
            line = number.floordiv(attention.depth)
            at = (Affine(), Affine.of(tile.place(line, number - line * attention.depth, body).name))
            self.signed(body, tile.memory, at, sign)
        b.emit(SyncThreads())
