"""Attention as warps take it on every processor from sm_80 on, by products of registers, in the way of FlashAttention-2 (Dao, 2023): a
block's queries, 16 rows for each warp, stay in registers; tiles of keys and values come into a ring of stages in shared memory, the next
while this one is multiplied. The scores of a warp become weights in its registers, and are there the left operand of the second product.
Heads that share keys and values are rows beside each other where queries are few.

Warps that rows don't need share the keys of a tile, and blocks the tiles, where there would be too few of them: each has a maximum and
sums of its own, which are rescaled to the largest of the maxima and added up in the order of the parts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isqrt

from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.async_copy import AsyncCommit, AsyncWait
from compiler.hir.build import Builder
from compiler.hir.core import union_axes
from compiler.hir.gpu import SharedAlloc, SyncThreads
from compiler.hir.instruction import Value
from compiler.hir.lane_maps import WARP_KINDS
from compiler.hir.memory import Load
from compiler.hir.module import HirFunction
from compiler.hir.tensor_core import WarpMma
from compiler.hir.types import Mem, Space, Tile
from compiler.machines.gpu import Feature
from compiler.schedule.gpu.attention.field import AttendingUnit, AttentionField, Packed, attention_field
from compiler.schedule.gpu.attention.visible import Visible
from compiler.schedule.gpu.attention.walk import QueryTiles, Walk, shared_walk, walk_of
from compiler.schedule.gpu.attention.walking_block import BOTH
from compiler.schedule.gpu.attention.weights import AttendingBlock, over_lanes
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.indices import lane_index, small, thread_index, warp_index
from compiler.schedule.gpu.products.boxed_operands import BoxedOperand, divides
from compiler.schedule.gpu.products.results import taken
from compiler.schedule.gpu.products.shared_tiles import CHUNK, Place, SharedTile, padded
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from compiler.schedule.gpu.tiles.last_block import BlockPart, comes_last
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import SIMD
from runtime.records import evolve

WARP_ROWS = 16
"""Queries of a warp."""
WARP = AttendingUnit(WARP_ROWS, 32)
WARPS = 4
TERMS = ((128, 64), (256, 32))
"""Elements of a query or value, and keys of a tile: scores and sums are in registers."""
STAGES = 2
"""Tiles of keys and values that are on their way or in use."""
FEW = 64
"""Queries up to which heads are rows beside them."""
RESIDENT = 2
"""Blocks of a multiprocessor: so many registers a thread has, and so many blocks run at a time."""
JOINS = 2
"""Parts that the last block joins in the time that one takes for a tile: 2.6 on an H200. With the square root of so many tiles as parts,
walks and joins take least together."""


def attention_on_warps(field: HirFunction, facts: Facts) -> AttentionField | None:
    """The field as attention for warps; None where they don't take it."""
    if not facts.machine.has(Feature.ASYNC_COPIES) or (field.kernel_info is not None and field.kernel_info.tensor_cores is False):
        return None
    attention = attention_field(field, facts)
    kind = facts.machine.warp_kind(attention.dtype) if attention is not None else None
    if attention is None or kind is None or not kind.by_matrix:
        return None
    if any(not divides(CHUNK, field.axes[axis]) for axis in (attention.inner, attention.value.axis)):
        return None
    terms = next(number for most, number in TERMS if max(attention.depth, attention.width) <= most)
    queries = facts.about(field.axes[attention.query.axis])
    packed = _packed(field, attention) if queries <= FEW else None
    heads = 1 if packed is None else packed.together or facts.about(field.axes[packed.axis])
    rows = queries * heads
    down = next((n for n in (1, 2) if rows <= n * WARP_ROWS), WARPS)
    across = WARPS // down
    if attention.width % (8 * across) or terms // across < WARP_ROWS:
        down, across = WARPS, 1
    others = [axis for axis in field.axes if axis not in (attention.inner, attention.along, attention.query.axis, attention.value.axis)]
    blocks = -(-rows // (WARP_ROWS * down))
    for axis in others:
        blocks *= -(-facts.about(field.axes[axis]) // (heads if packed is not None and axis == packed.axis else 1))
    parts = min(RESIDENT * facts.processors // max(1, blocks), isqrt(JOINS * (facts.about(field.axes[attention.along]) // terms)))
    known = evolve(attention, unit=WARP, terms=terms, down=down, across=across, parts=max(1, parts))
    if packed is not None:
        known = evolve(known, packed=packed, visible=Visible((), tuple(attention.exponent.guards)))
    return known if _bytes(known) <= facts.machine.stage_shared else None


def _bytes(attention: AttentionField) -> int:
    tiles = attention.rows * padded(attention.depth) + STAGES * attention.terms * (padded(attention.depth) + padded(attention.width))
    return 2 * tiles + (4 * attention.across * attention.rows * (attention.width + CHUNK) if attention.across > 1 else 0)


def _packed(field: HirFunction, attention: AttentionField) -> Packed | None:
    """Heads whose keys and values are the same: an axis that neither has, or has only as a quotient by one number."""
    varying = {axis for value in (*attention.exponent.factors, *attention.exponent.divisors) for axis, _ in union_axes(value)}
    loads = (attention.key.load, attention.value.load)
    for axis in field.axes:
        if axis in (attention.inner, attention.along, attention.query.axis, attention.value.axis) or axis in varying:
            continue
        divisors = {number for load in loads for number in _divisors(load, axis)}
        if divisors == {0}:
            return Packed(axis, None)
        if len(divisors) == 1 and 1 < (together := next(iter(divisors))) <= FEW:
            return Packed(axis, together)
    return None


def _divisors(load: Load, axis: str) -> set[int]:
    """What an axis is divided by in an index; 0 where it isn't there, 1 where it is as it is."""
    divisors: set[int] = set()
    for form in load.index:
        for symbol, _ in form.terms:
            if symbol == axis:
                divisors.add(1)
            elif isinstance(symbol, FloorDiv) and axis in symbol.numerator.names:
                divisors.add(symbol.divisor if symbol.numerator == Affine.of(axis) else 1)
    return divisors or {0}


TOGETHER = 4
"""Parts whose sums are read at a time."""
GAP = 8
"""Numbers behind a row of sums in shared memory, so that rows begin in different banks."""
STEP = 16
"""Terms of a product."""


class WarpsBlock(AttendingBlock):
    """Each warp multiplies rows of its own, or keys of its own."""

    def __init__(self, placing: BlockTiles, attention: AttentionField, queries: QueryTiles, region: TileRegion) -> None:
        super().__init__(placing, attention, queries, region)
        self.terms = attention.terms // attention.across

    # ---- the walk ----

    def attended(self, group: Sequence[Target], block: Value, blocks: Value) -> None:
        b, region, attention = self.region.builder, self.region, self.attention
        parts = b.const(attention.parts, "index")
        own, number = small(b, "rem", block, parts), small(b, "div", block, parts)
        head, tile = self.queries.placed(b, number)
        part = BlockPart(own, parts, attention.parts, *self.queries.numbered(self.queries.enter(head, tile, region), tile, b))
        region.starts[attention.query.axis] = b.named(region.starts[attention.query.axis])
        thread = Affine.of(thread_index(b).name)
        self.lane = lane_index(b)
        warp = warp_index(b)
        self.team = b.named(warp.floordiv(attention.down))
        self.row = b.named((warp % attention.down) * WARP_ROWS)
        eight, half, row = (self.placing.out.axis(name, n) for name, n in (("column", self.terms // 8), ("half", 2), ("row", 1)))
        pair = self.placing.out.axis(SIMD, 2)
        down, self.across = WARP_KINDS[attention.dtype].total.position(self.lane, (0, Affine.of(half)))
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
        self.row_of_lane = self.row + down + Affine.of(row) * WARP_ROWS
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
        for low, high, compared in [(b.const(0, "index"), some, BOTH), *self.stretches(b, walk)]:
            with b.loop("turn", low.name, high.name, carried=state, unroll=1) as (body, loop):
                body.yield_(*self.step(body, inner, walk, loop.variable, loop.carried, compared, fragments))
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
            totals, output, first = self.joined_by_warps(region.builder, totals, output)
        if attention.parts == 1:
            self.followed(group, region, walk, totals, output, first)
        else:
            with self.joined_by_blocks(region, part, totals, output, first) as (last, partials, joined):
                self.followed(group, last, walk, partials, joined, first)

    def speaks(self, b: Builder) -> Value:
        """Of the first warp of those that share keys."""
        first = super().speaks(b)
        return first if self.attention.across == 1 else b.op("and", first, b.op("eq", b.index(self.team), b.const(0, "index")))

    def start(self, walk: Walk, turn: Value) -> Affine:
        return super().start(walk, turn) + self.team * self.terms

    def step(
        self,
        b: Builder,
        region: TileRegion,
        walk: Walk,
        number: Value,
        state: Sequence[Value],
        compared: tuple[bool, ...],
        queries: Sequence[Value],
    ) -> list[Value]:
        """A turn: the next tile is asked for, this one's scores are multiplied, and its weights with its values."""
        *before, output = state
        attention = self.attention
        b.emit(AsyncWait(count=0))
        b.emit(SyncThreads())
        self.bring(b, walk, b.add(number, b.const(1, "index")))
        stage = self.stage(b, Affine.of(number.name))
        turn = self.turned(region, b, walk, number, compared)
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

    # ---- parts joined ----

    def joined_by_warps(self, b: Builder, totals: Sequence[Value], output: Value) -> tuple[list[Value], Value, Affine]:
        """The sums of the warps that share a tile's keys, through shared memory: each has then all of some features, from the first that is
        given."""
        attention, row = self.attention, self.row_of_lane
        rows, width, each = attention.rows, attention.width, attention.width // attention.across
        sums = b.emit(SharedAlloc(type=Mem("f32", (attention.across, rows, width + GAP), space=Space.SHARED, align=16)), "sums").result
        few = b.emit(SharedAlloc(type=Mem("f32", (attention.across, len(totals), rows), space=Space.SHARED, align=16)), "totals").result
        pair, feature = self.features
        b.store(sums, output, [self.team, row, self.across + Affine.of(feature) * 8 + Affine.of(pair)])
        for number, total in enumerate(totals):
            b.store(few, total, [self.team, Affine.of(number), row])
        b.emit(SyncThreads())
        own = self.placing.out.axis("feature", each // 8)
        first = b.named(self.team * each)
        sum: list[Value] = []
        for other in range(attention.across):
            warp = Affine.of(other)
            there = [b.load(few, [warp, Affine.of(number), row]) for number in range(len(totals))]
            there.append(b.load(sums, [warp, row, first + self.across + Affine.of(own) * 8 + Affine.of(pair)]))
            sum = self.joined(b, sum, there) if sum else there
        self.features = (pair, own)
        return sum[:-1], sum[-1], first

    def joined(self, b: Builder, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        """Two parts as one: maximum, sums of weights, sums of values."""
        most = b.op("max", left[0], right[0])
        base = self.based(b, most)
        bases = [self.scaled(b, side[0]) for side in (left, right)]
        grown = [b.op("exp2", b.sub(side, base), flags=("afn", "ftz")) for side in bases]
        flags = ("reassoc", "contract")
        return [most, *(b.add(b.mul(a, grown[0]), b.mul(c, grown[1]), flags=flags) for a, c in zip(left[1:], right[1:], strict=True))]

    @contextmanager
    def joined_by_blocks(
        self, region: TileRegion, part: BlockPart, totals: Sequence[Value], output: Value, first: Affine
    ) -> Iterator[tuple[TileRegion, list[Value], Value]]:
        """`with joined_by_blocks(...) as (last, totals, output):` what the block does that comes last, with the sums of all."""
        b, attention, row = region.builder, self.attention, self.row_of_lane
        most = Affine.of(part.most)
        dims = (Affine.of(attention.rows), Affine.of(attention.width))
        sums = self.placing.workspace("sums", Mem("f32", (*part.tiles, most, *dims), align=64))
        few = self.placing.workspace("totals", Mem("f32", (*part.tiles, most, Affine.of(len(totals)), dims[0]), align=64))
        pair, feature = self.features
        column = first + self.across + Affine.of(feature) * 8 + Affine.of(pair)

        def there(number: Affine) -> tuple[list[Affine], list[list[Affine]]]:
            return [*part.tile, number, row, column], [[*part.tile, number, Affine.of(n), row] for n in range(len(totals))]

        at, others = there(Affine.of(part.number.name))
        b.store(sums, output, at)
        for value, index in zip(totals, others, strict=True):
            b.store(few, value, index)
        with comes_last(self.placing, part, region) as last:
            deep = last.builder
            nothing = self.tile_of_rows("f32")
            start = [deep.const(float("-inf"), nothing), *(deep.const(0.0, nothing) for _ in totals[1:]), deep.const(0.0, output.type)]
            with deep.loop("part", 0, part.count.name, carried=start, unroll=TOGETHER) as (body, loop):
                at, others = there(Affine.of(loop.variable.name))
                read = [body.load(few, index) for index in others]
                body.yield_(*self.joined(body, loop.carried, [*read, body.load(sums, at)]))
            *sums_, result = loop.results
            yield last.inside(deep, region.axes), sums_, result

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
