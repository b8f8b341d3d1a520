"""Attention on the warpgroups of sm_90a: which fields they take, and the launch. A block has 64 rows of queries for each warpgroup that
multiplies; one more copies keys and values into rings. Scores come into registers, where what stands between the products is computed; as
the left operand of the second product they stay there. The sums are rescaled as the maximum grows (`rescaling.py`).

The shape is that of FlashAttention-3 (Shah and others, 2024): while a warpgroup computes the weights of a turn its products with the
values of the turn before are under way, and warpgroups take turns in asking for products. Keys are walked from the last that the rows
see to the first; only tiles that a guard cuts hide anything."""

from collections.abc import Iterable, Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Pack2
from compiler.hir.gpu import Atomic, FenceAsync, SharedAlloc, Shuffle, SyncThreads
from compiler.hir.hopper import (
    WARPGROUP_KINDS,
    BarrierArrive,
    BulkCommit,
    BulkStore,
    BulkWait,
    SetMaxRegisters,
    WarpgroupCommit,
    WarpgroupFence,
    WarpgroupWait,
)
from compiler.hir.instruction import Value
from compiler.hir.memory import Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Space, Tile
from compiler.machines.units.unit import Issue
from compiler.schedule.gpu.attention_field import AttendingUnit, AttentionField, attention_field, ends
from compiler.schedule.gpu.attention_walk import QueryTiles, Walk, walk_of
from compiler.schedule.gpu.attention_weights import BOTH, AttendingBlock, over_lanes
from compiler.schedule.gpu.block_tiles import BlockTiles
from compiler.schedule.gpu.boxed_operands import divides, stored_dims, wide_of
from compiler.schedule.gpu.boxed_tiles import BoxedTiles, multiply
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.indices import lane_index, thread_index, warp_index
from compiler.schedule.gpu.stage_ring import StageRing, initialise
from compiler.schedule.gpu.warpgroup_results import put_matrices
from compiler.schedule.gpu.warpgroup_tiles import ROWS, SHARED_BYTES, WARPGROUP
from compiler.schedule.region import Target, TileRegion
from runtime.records import evolve

TERMS = ((128, 128), (256, 64))
"""Elements of a query or value, and keys of a tile: two tiles of keys and two of values go beside the queries into shared memory, and the
scores of a tile beside the sums into registers."""
GROUPS = ((64, 3), (256, 2))
"""Elements of a query or value, and warpgroups that multiply: as many as registers are enough for."""
REACH = 256
"""Elements that a box reaches over along a dim, at most."""


UNIT = AttendingUnit(ROWS, WARPGROUP, copying=WARPGROUP)


def warpgroup_attention(field: HirFunction, facts: Facts) -> AttentionField | None:
    """The field as attention for warpgroups; None where they don't take it."""
    attention = attention_field(field, facts) if facts.machine.unit(Issue.WARPGROUP) is not None else None
    if attention is None or facts.about(field.axes[attention.query.axis]) < ROWS:
        return None
    query, key, value = attention.query, attention.key, attention.value
    if any(field.axes[attention.inner].value != attention.depth and not ends(side, attention.inner, field) for side in (query, key)):
        return None
    largest = max(attention.depth, attention.width)
    terms, groups = (next(number for most, number in table if largest <= most) for table in (TERMS, GROUPS))
    groups = min(groups, REACH // (ROWS * max(query.steps, default=1)))
    if groups < 2 or any(max(side.steps, default=1) * terms > REACH for side in (key, value)):
        return None
    strict = attention.strict or not (divides(terms, field.axes[attention.along]) or ends(value, attention.along, field))
    return evolve(attention, unit=UNIT, terms=terms, down=groups, strict=strict, resident=facts.processors)


ALL_GROUPS, MEETING, TURNS = 1, 2, 5
"""Barriers: of all that multiply; the first of those of one warpgroup; the first of those that a warpgroup waits at for its turn."""


class AttentionGroup:
    """One of `count` warpgroups: its number, its first `row` in the block's tile; the thread's warp and lane, and the first column that the
    lane has."""

    def __init__(self, b: Builder, count: int, thread: Value) -> None:
        self.count = count
        warp = warp_index(b)
        self.lane = lane_index(b)
        self.number = b.named(warp.floordiv(4) + -1)
        self.row = self.number * ROWS
        self.warp = warp % 4
        self.column = (self.lane % 4) * 2
        number = Affine.of(thread.name)
        self.leader = b.op("eq", b.index(number % WARPGROUP), b.index(0))

    def at_barriers(self, b: Builder, first: int, together: int, further: int = 0, among: Iterable[int] | None = None) -> None:
        """Each warpgroup (`among` some) waits at its barrier, of those from the first on, for so many threads; or, `further`, only arrives
        at that of the next."""
        for number in range(self.count) if among is None else among:
            with b.when(b.op("eq", b.index(self.number), b.index(number))) as own:
                own.emit(SyncThreads(id=first + (number + further) % self.count, count=together, arrive=further > 0))

    def meet(self, b: Builder) -> None:
        """The threads of each warpgroup wait for each other."""
        self.at_barriers(b, MEETING, WARPGROUP)

    def begin_turns(self, b: Builder) -> None:
        """The last lets the first go."""
        self.at_barriers(b, TURNS, 2 * WARPGROUP, 1, (self.count - 1,))

    def await_turn(self, b: Builder) -> None:
        """Waits until the warpgroup before has asked for its products: what the tensor cores have of one is under way while the others
        compute weights."""
        self.at_barriers(b, TURNS, 2 * WARPGROUP)

    def pass_turn(self, b: Builder) -> None:
        self.at_barriers(b, TURNS, 2 * WARPGROUP, 1)


REGISTERS = {2: (24, 240), 3: (32, 160)}
"""Of a thread that copies, and of one that multiplies, by the warpgroups that do."""

STAGES = 2
"""Tiles of keys, and of values, that are on their way or in use."""
TWICE = 128
"""Elements of a query or value of which there is room for two tiles of queries."""


class AttentionMemory:
    """The rings of queries, of keys and of values. Of each tile of queries there is whose matrix it is and its number there, too."""

    def __init__(self, b: Builder, attention: AttentionField) -> None:
        inner, along, rows, terms = attention.inner, attention.along, (attention.rows,), (attention.terms,)
        stages = STAGES if max(attention.depth, attention.width) <= TWICE else 1
        self.queries = StageRing(b, stages, attention.down)
        self.numbers = b.emit(SharedAlloc(type=Mem("u32", (stages, 2), space=Space.SHARED, align=16)), "numbers").result
        self.query = BoxedTiles(b, attention.query, stages, rows, inner, attention.depth)
        self.keys = StageRing(b, STAGES, attention.down)
        self.key_tiles = BoxedTiles(b, attention.key, STAGES, terms, inner, attention.depth)
        self.values = StageRing(b, STAGES, attention.down)
        self.value_tiles = BoxedTiles(b, attention.value, STAGES, (attention.width,), along, attention.terms)
        assert stages * self.query.bytes + STAGES * (self.key_tiles.bytes + self.value_tiles.bytes) <= SHARED_BYTES

    def begin(self, b: Builder) -> None:
        initialise(b, [*self.queries.counts(), *self.keys.counts(), *self.values.counts()])

    def place(self, b: Builder, ring: StageRing, turn: Value) -> tuple[Affine, Value]:
        """The stage of a turn in a ring, and how often it was filled before, odd or even."""
        stage, parity = ring.place(b, turn)
        return Affine.of(stage.name), parity


def alike(b: Builder, number: Value) -> Value:
    """A number that all lanes of a warp have the same of, said so that the assembler knows it: products' addresses are the warp's then."""
    return b.cast(b.emit(Shuffle(mode="idx", value=number, lane=b.const(0, "i32"))).result, "index")


class WarpgroupBlock(AttendingBlock):
    """One warpgroup copies, others multiply."""

    def __init__(self, placing: BlockTiles, attention: AttentionField, queries: QueryTiles, region: TileRegion) -> None:
        super().__init__(placing, attention, queries, region)
        self.memory = AttentionMemory(region.builder, attention)

    # ---- roles ----

    def attended(self, group: Sequence[Target], block: Value, blocks: Value) -> None:
        b, region, attention = self.region.builder, self.region, self.attention
        thread = thread_index(b)
        first = b.op("eq", thread, b.const(0, "index"))
        with b.when(first) as once:
            self.memory.begin(once)
        b.emit(SyncThreads())
        copies, multiplies = REGISTERS[attention.down]
        with b.branch(b.op("lt", thread, b.const(WARPGROUP, "index"))) as (copying, multiplying, _):
            copying.emit(SetMaxRegisters(direction="dec", registers=copies))
            with copying.when(first) as leading:
                self.brought(leading, region, block, blocks)
            multiplying.emit(SetMaxRegisters(direction="inc", registers=multiplies))
            self.group = AttentionGroup(multiplying, attention.down, thread)
            self.group.begin_turns(multiplying)
            self.multiplied(multiplying, region, group)

    # ---- copying ----

    def brought(self, b: Builder, region: TileRegion, block: Value, blocks: Value) -> None:
        """Tiles of queries, the first of the block's number, the others whichever comes next among all; with their keys and values. Behind
        the last there is a matrix that isn't there."""
        memory, rows, total = self.memory, self.attention.query.axis, self.queries.total
        taken = self.placing.workspace(("taken",), Mem("u32", (1,), align=64), zeros=True)
        number, round, begun = b.slot(block, "number"), b.slot(b.const(0, "index"), "round"), b.slot(b.const(0, "index"), "begun")

        def told(b: Builder, *numbers: Value) -> Affine:
            stage, parity = memory.place(b, memory.queries, b.get(round))
            memory.queries.await_empty(b, stage, parity)
            for place, own in enumerate(numbers):
                b.store(memory.numbers, b.cast(own, "u32"), [stage, Affine.of(place)])
            return stage

        with b.repeat() as (before, body):
            before.condition(before.op("lt", before.get(number), total))
            inner = region.inside(body, (self.attention.query.axis, self.attention.value.axis, *self.queries.batch))
            head, tile = self.queries.placed(body, body.get(number))
            stage = told(body, head, tile)
            self.queries.enter(head, tile, inner)
            memory.queries.expect(body, stage, memory.query.bytes)
            self.load(body, memory.query, inner, rows, inner.starts[rows], stage, memory.queries.full)
            most = body.cast(body.sub(total, body.const(1, "index")), "u32")
            other = body.emit(Atomic(operation="inc", mem=taken, index=(Affine(),), value=most)).result
            walk = walk_of(self.placing, self.attention, inner, body.get(begun))
            self.copied(body, inner, walk)
            body.set(begun, body.add(walk.begun, walk.turns))
            body.set(round, body.add(body.get(round), body.const(1, "index")))
            body.set(number, body.add(blocks, body.cast(other, "index")))
        stage = told(b, self.queries.heads, b.const(0, "index"))
        b.emit(BarrierArrive(barrier=memory.queries.full, barrier_index=(stage,)))

    def copied(self, b: Builder, region: TileRegion, walk: Walk) -> None:
        memory = self.memory
        with b.loop("copy", 0, Affine.of(walk.turns.name) + 1) as (body, loop):
            with body.when(body.op("lt", loop.variable, walk.turns)) as coming:
                self.bring(coming, region, memory.keys, memory.key_tiles, walk, loop.variable)
            with body.when(body.op("gt", loop.variable, body.const(0, "index"))) as coming:
                before = coming.sub(loop.variable, coming.const(1, "index"))
                self.bring(coming, region, memory.values, memory.value_tiles, walk, before)

    def bring(self, b: Builder, region: TileRegion, ring: StageRing, tiles: BoxedTiles, walk: Walk, number: Value) -> None:
        """A turn's tile of keys, or of values, into its ring, when there is room."""
        stage, parity = self.memory.place(b, ring, b.add(walk.begun, number))
        ring.fill(b, stage, parity, tiles.bytes)
        self.load(b, tiles, region, self.attention.along, self.tile(walk, number) * self.terms, stage, ring.full)

    def load(self, b: Builder, tiles: BoxedTiles, region: TileRegion, rows: str, start: Affine, stage: Affine, barrier: Value) -> None:
        """The copies of a tile whose rows begin at a place: whole rows."""
        inner = region.inside(b, ())
        inner.forms.update({axis: Affine() for axis in (*tiles.side.axes, tiles.sum)} | {rows: start})
        tiles.load(self.placing, inner, stage, barrier, stage, (Affine(), 1), False)

    # ---- multiplying ----

    def multiplied(self, b: Builder, region: TileRegion, group: Sequence[Target]) -> None:
        """The tiles of queries that are brought, until there is a matrix that isn't there."""
        memory = self.memory
        round, begun = b.slot(b.const(0, "index"), "round"), b.slot(b.const(0, "index"), "begun")
        head, tile = b.slot(b.const(0, "index"), "head"), b.slot(b.const(0, "index"), "tile")

        def awaited(b: Builder) -> None:
            stage, parity = memory.place(b, memory.queries, b.get(round))
            memory.queries.await_full(b, stage, parity)
            for place, slot in enumerate((head, tile)):
                b.set(slot, alike(b, b.load(memory.numbers, [stage, Affine.of(place)])))

        awaited(b)
        with b.repeat() as (before, body):
            before.condition(before.op("lt", before.get(head), self.queries.heads))
            inner = region.inside(body, (self.attention.query.axis, self.attention.value.axis, *self.queries.batch))
            self.queries.enter(body.get(head), body.get(tile), inner)
            walk = walk_of(self.placing, self.attention, inner, body.get(begun))
            self.stage, _ = memory.place(body, memory.queries, body.get(round))
            self.tile_multiplied(body, inner, walk, group)
            self.given_back(body, memory.queries, self.stage)
            body.set(begun, alike(body, body.cast(body.add(walk.begun, walk.turns), "u32")))
            body.set(round, alike(body, body.cast(body.add(body.get(round), body.const(1, "index")), "u32")))
            awaited(body)

    def tile_multiplied(self, b: Builder, inner: TileRegion, walk: Walk, group: Sequence[Target]) -> None:
        attention, memory, standing = self.attention, self.memory, self.group
        pair, eight, half = (
            self.placing.out.axis("column0", 2),
            self.placing.out.axis("column1", self.terms // 8),
            self.placing.out.axis("row0", 2),
        )
        feature, features = self.placing.out.axis("feature0", 2), self.placing.out.axis("feature1", attention.width // 8)
        self.columns, self.half, self.rows, self.features = (pair, eight), half, (half,), (feature, features)
        self.lane, self.across = standing.lane, standing.column
        self.queries.place_row(standing.row + standing.warp * 16 + self.lane.floordiv(4) + Affine.of(half) * 8, inner)
        state = [*self.at_first(b), b.const(0, Tile("u32", ((eight, self.terms // 8), (half, 2))))]
        output = b.const(0.0, Tile("f32", ((feature, 2), (features, attention.width // 8), (half, 2))))
        self.scores = Tile("f32", ((pair, 2), (eight, self.terms // 8), (half, 2)))
        self.factor = self.factored(b, inner, self.turn_queries)
        some = b.op("min", walk.turns, b.const(1, "index"), name="some")
        with b.loop("first", 0, some.name, carried=state) as (body, first):
            turn = self.turned(inner, body, walk, first.variable, BOTH)
            stage = memory.place(body, memory.keys, walk.begun)
            memory.keys.await_full(body, *stage)
            body.emit(WarpgroupFence())
            (scores,) = self.waited(body, [self.scored(body, stage[0])], 0)
            self.given_back(body, memory.keys, stage[0])
            _, _, *after, weights = self.softened(turn, scores, first.carried[:-1])
            memory.values.await_full(body, *stage)
            body.yield_(*after, self.packed(body, weights))
        carried = [*first.results, output]
        for low, high, compared in self.stretches(b, walk):
            with b.loop("turn", low.name, high.name, carried=carried) as (body, loop):
                body.yield_(*self.step(body, inner, walk, loop.variable, loop.carried, compared))
            carried = loop.results
        *totals, words, output = carried
        with b.loop("last", 0, some.name, carried=[output]) as (body, last):
            ending, _ = memory.place(body, memory.keys, body.index(Affine.of(walk.begun.name) + walk.turns.name - 1))
            body.emit(WarpgroupFence())
            (total,) = self.waited(body, [self.weighted(body, ending, words, last.carried[0])], 0)
            self.given_back(body, memory.values, ending)
            body.yield_(total)
        (output,) = last.results
        maximum, *others = totals
        self.followed(group, inner, walk, [maximum, *(over_lanes(b, "add", total) for total in others)], output, Affine())

    def turn_queries(self, b: Builder, sign: Value) -> None:
        """The warpgroup's queries times a sign."""
        wide, depth = wide_of(self.attention.query.mem), self.attention.depth
        with b.loop("element", 0, ROWS * depth // WARPGROUP) as (body, loop):
            number = Affine.of(loop.variable.name) * WARPGROUP + self.group.warp * 32 + self.lane
            row, column = number.floordiv(depth), number % depth
            at = (self.stage, column.floordiv(wide), self.group.row + row, column % wide)
            self.signed(body, self.memory.query.memory, at, sign)
        b.emit(FenceAsync())
        b.emit(SyncThreads(id=ALL_GROUPS, count=WARPGROUP * self.attention.down))

    def step(
        self, b: Builder, region: TileRegion, walk: Walk, number: Value, state: Sequence[Value], compared: tuple[bool, ...]
    ) -> list[Value]:
        """A turn: its scores and weights, while the products of the last turn's weights with its values are under way."""
        *before, weights, total = state
        memory = self.memory
        turn = self.turned(region, b, walk, number, compared)
        keys = memory.place(b, memory.keys, b.add(walk.begun, number))
        values, _ = memory.place(b, memory.keys, b.index(Affine.of(walk.begun.name) + number.name - 1))
        memory.keys.await_full(b, *keys)
        self.group.await_turn(b)
        b.emit(WarpgroupFence())
        asked = self.scored(b, keys[0])
        total = self.weighted(b, values, weights, total)
        self.group.pass_turn(b)
        (scores,) = self.waited(b, [asked], 1)
        self.given_back(b, memory.keys, keys[0])
        growth, grown, *after, weights = self.softened(turn, scores, before)
        # a loop, above which ptxas takes no wait for products: it would be before the exponentials
        memory.values.await_full(b, *keys)
        # the words that products under way read can't be written: those of the next come after
        total, weights = self.waited(b, [total, weights], 0)
        self.given_back(b, memory.values, values)
        return [*after, self.packed(b, weights), self.rescaled(b, total, grown, growth)]

    # ---- storing ----

    def is_boxed(self, store: Store) -> bool:
        """Whether bulk copies write the result's tile, from where the queries were: numbers of their type, that end in memory where the
        axes do."""
        mem, attention = mem_of(store.mem), self.attention
        tile = {attention.query.axis: attention.rows, attention.value.axis: wide_of(mem)}
        fits = mem.dtype == attention.dtype and attention.width <= attention.depth
        dims = stored_dims(self.placing.field, store, tile) if fits else None
        return dims is not None and dims[1] == mem.rank - 1

    def stored(self, store: Store, region: TileRegion) -> bool:
        """The tile through the shared memory of the warpgroup's queries."""
        if not self.is_boxed(store):
            return False
        b, attention, group, memory = region.builder, self.attention, self.group, self.memory.query.memory
        wide = wide_of(attention.query.mem)
        feature, features = self.features
        packed = b.emit(Pack2(value=self.placing.value(store.value, region), over=feature)).result
        row = group.row + group.warp * 16 + group.lane % 16
        group.meet(b)
        places = [(self.stage, Affine.of(n // wide), row, group.lane.floordiv(16) * 8 + n % wide) for n in range(0, attention.width, 16)]
        put_matrices(b, packed, (features, self.half), 0, memory, places)
        b.emit(FenceAsync())
        group.meet(b)
        target = region.find(store.mem)
        assert target is not None
        rows, columns = attention.query.axis, attention.value.axis
        box = tuple(ROWS if rows in form.names else wide if columns in form.names else 1 for form in store.index)
        with b.when(group.leader) as leading:
            inside = region.inside(leading, ())
            inside.forms[rows] = region.starts[rows] + group.row
            for part in range(-(-attention.width // wide)):
                inside.forms[columns] = Affine.of(part * wide)
                at = (self.stage, Affine.of(part), group.row, Affine())
                there = tuple(self.placing.form(form, inside) for form in store.index)
                leading.emit(BulkStore(shared=memory, shared_index=at, tensor=target, tensor_index=there, box=box))
            leading.emit(BulkCommit())
            leading.emit(BulkWait(count=0, read=True))
        return True

    # ---- products ----

    def scored(self, b: Builder, stage: Affine) -> Value:
        """The products for a turn's scores, on their way."""
        attention = self.attention
        total = b.const(0.0, self.scores)
        step = WARPGROUP_KINDS[attention.dtype].depth
        for part in range(0, attention.depth, step):
            factors = self.memory.query.factor(self.stage, self.group.row, part), self.memory.key_tiles.factor(stage, Affine(), part)
            total = multiply(b, total, *factors, self.terms, step, b.const(part > 0, "i1"))
        b.emit(WarpgroupCommit())
        return total

    def waited(self, b: Builder, values: Sequence[Value], count: int) -> list[Value]:
        """The values when all products but those of the last groups are done."""
        return b.emit(WarpgroupWait(values=tuple(values), count=count)).results

    def given_back(self, b: Builder, ring: StageRing, stage: Affine) -> None:
        with b.when(self.group.leader) as freeing:
            ring.free(freeing, stage)

    def weighted(self, b: Builder, stage: Affine, words: Value, output: Value) -> Value:
        """The products of a turn's weights with its values, on their way."""
        attention = self.attention
        step = WARPGROUP_KINDS[attention.dtype].depth
        total = output
        for part in range(0, self.terms, step):
            factors = (words, (Affine.of(part // 8),), False), self.memory.value_tiles.factor(stage, Affine(), part)
            total = multiply(b, total, *factors, attention.width, step, b.const(True, "i1"))
        b.emit(WarpgroupCommit())
        return total
