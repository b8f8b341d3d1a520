"""Attention on the warpgroups of sm_90a: which fields they take, and the launch. A block has 64 rows of queries for each warpgroup that
multiplies; one more copies keys and values into rings. Scores come into registers, where what stands between the products is computed; as
the left operand of the second product they stay there. The sums are rescaled as the maximum grows (`field.py`).

The shape is that of FlashAttention-3 (Shah and others, 2024): while a warpgroup computes the weights of a turn its products with the
values of the turn before are under way, and warpgroups take turns in asking for products. Keys are walked from the last that the rows
see to the first; only tiles that a guard cuts hide anything."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import Atomic, FenceAsync, SharedAlloc, Shuffle, SyncThreads
from compiler.hir.hopper import WARPGROUP_KINDS, BarrierArrive, BulkWait, SetMaxRegisters, WarpgroupCommit, WarpgroupFence
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Space, Tile
from compiler.machines.units.unit import Issue
from compiler.passes.whole_axes import elements_of
from compiler.schedule.gpu.attention.field import AttentionField, attention_field, ends
from compiler.schedule.gpu.attention.seen_by_data import WORD, SeenTiles, TileSearch, compared_numbers
from compiler.schedule.gpu.attention.walk import QueryTiles, Walk, walk_of
from compiler.schedule.gpu.attention.walking_block import BOTH
from compiler.schedule.gpu.attention.warpgroup import REGISTERS, SEARCHING, UNIT, AttentionGroup, WarpgroupWalk
from compiler.schedule.gpu.attention.weights import AttendingBlock, over_lanes
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.indices import lane_index, thread_index, warp_index
from compiler.schedule.gpu.products.boxed_operands import divides, wide_of
from compiler.schedule.gpu.products.boxed_tiles import BoxedTiles, multiply
from compiler.schedule.gpu.products.stage_ring import StageRing, initialise
from compiler.schedule.gpu.products.tiling import ROWS, SHARED_BYTES, WARPGROUP
from compiler.schedule.gpu.products.warpgroup import ALL_GROUPS
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from compiler.schedule.region import Target, TileRegion
from runtime.records import evolve

TERMS = ((128, 128), (256, 64))
"""Elements of a query or value, and keys of a tile: two tiles of keys and two of values go beside the queries into shared memory, and the
scores of a tile beside the sums into registers."""
GROUPS = ((64, 3), (256, 2))
"""Elements of a query or value, and warpgroups that multiply: as many as registers are enough for."""
SHARE = {2: 1.0, 3: 0.85}
"""What a row takes of a turn in blocks of so many warpgroups: on an H200 full attention of 16 x 12 x 1,024 queries with 64 elements takes
135 us with two, and 123 with three, which have an eighth more rows."""
REACH = 256
"""Elements that a box reaches over along a dim, at most."""


def attention_on_warpgroups(field: HirFunction, facts: Facts) -> AttentionField | None:
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
    if groups > 2 and attention.visible.bounds:
        groups = min((2, groups), key=lambda number: _work(ROWS * number, terms, facts.about(field.axes[query.axis])) * SHARE[number])
    if groups < 2 or any(max(side.steps, default=1) * terms > REACH for side in (key, value)):
        return None
    return _in_tiles(field, attention, terms, groups, facts)


def _in_tiles(field: HirFunction, attention: AttentionField, terms: int, groups: int, facts: Facts) -> AttentionField:
    value, along = attention.value, attention.along
    compared = compared_numbers(attention.visible.others, attention.query.axis, along)
    strict = attention.strict or not (divides(terms, field.axes[along]) or ends(value, along, field))
    return evolve(attention, unit=UNIT, terms=terms, down=groups, strict=strict, resident=facts.processors, compared=compared)


def read_roles(roles: HirFunction, facts: Facts) -> tuple[HirFunction, AttentionField]:
    """The field of what each element is that roles compute, and the attention that it is, in their tiles."""
    elements = elements_of(roles)
    attention = attention_field(elements.field, facts)
    assert attention is not None
    walk = elements.loops[attention.along]
    assert walk.mark("rotated") is not None
    terms, rows = (roles.axes[axis].constant for axis in (attention.along, attention.query.axis))
    known = _in_tiles(elements.field, attention, terms, rows // ROWS, facts)
    stages = {name: ring.stages for name, ring in elements.rings.items()}
    return elements.field, evolve(known, stages=stages, compared=known.compared if walk.mark("searched") else ())


def _work(rows: int, terms: int, length: int) -> int:
    """Rows times keys of tiles where a row sees keys up to a bound: tiles of fewer rows have fewer that are cut."""
    return -(-length // rows) * rows * (length + rows + terms)


FOUND = 2
"""Tiles of queries that are found: the one that is attended, and the next. A block that took more could be left with them when others
have none."""


class AttentionMemory:
    """The rings of queries, of keys and of values, and one of what is found of tiles of queries before they come: whose matrix a tile is
    of, its number there, the tiles of keys that data say it sees, and whether scores may begin with their slope."""

    def __init__(self, b: Builder, attention: AttentionField) -> None:
        inner, along, rows, terms = attention.inner, attention.along, (attention.rows,), (attention.terms,)
        queries, keys, values = (attention.stages[ring] for ring in ("queries", "keys", "values"))
        self.queries = StageRing(b, queries, attention.down)
        self.found = StageRing(b, FOUND, attention.down)
        self.words = 2 + (4 if attention.compared else 0) + (attention.slope is not None)
        self.numbers = b.emit(SharedAlloc(type=Mem("u32", (FOUND, self.words), space=Space.SHARED, align=16)), "numbers").result
        self.query = BoxedTiles(b, attention.query, queries, rows, inner, attention.depth)
        self.keys = StageRing(b, keys, attention.down)
        self.key_tiles = BoxedTiles(b, attention.key, keys, terms, inner, attention.depth)
        self.values = StageRing(b, values, attention.down)
        self.value_tiles = BoxedTiles(b, attention.value, values, (attention.width,), along, attention.terms)
        assert queries * self.query.bytes + keys * self.key_tiles.bytes + values * self.value_tiles.bytes <= SHARED_BYTES

    def begin(self, b: Builder) -> None:
        initialise(b, [*self.found.counts(), *self.queries.counts(), *self.keys.counts(), *self.values.counts()])

    def place(self, b: Builder, ring: StageRing, turn: Value) -> tuple[Affine, Value]:
        """The stage of a turn in a ring, and how often it was filled before, odd or even."""
        stage, parity = ring.place(b, turn)
        return Affine.of(stage.name), parity


def widened(b: Builder, number: Value, alike: bool) -> Value:
    """A number of 32 bits as an index; one that all lanes of a warp have `alike` comes from one of them, so that the assembler knows:
    products' addresses are the warp's then."""
    return b.cast(b.emit(Shuffle(mode="idx", value=number, lane=b.const(0, "i32"))).result if alike else number, "index")


class WarpgroupBlock(AttendingBlock, WarpgroupWalk):
    """One warpgroup copies, others multiply. As many blocks as multiprocessors take tiles of queries until there are none."""

    round: Value
    """Tiles of queries before, a slot."""

    further: list[Value]
    """What else was found of a tile of queries."""

    def __init__(self, placing: BlockTiles, attention: AttentionField, queries: QueryTiles, region: TileRegion) -> None:
        super().__init__(placing, attention, queries, region)
        self.memory = AttentionMemory(region.builder, attention)
        self.result_memory, self.waits = self.memory.query, self.memory.queries.stages == 1

    # ---- roles ----

    def attended(self, group: Sequence[Target], block: Value, blocks: Value) -> None:
        b, region, attention = self.region.builder, self.region, self.attention
        thread = thread_index(b)
        first = b.op("eq", thread, b.const(0, "index"))
        with b.when(first) as once:
            self.memory.begin(once)
        b.emit(SyncThreads())
        copies, multiplies = (SEARCHING if attention.compared else REGISTERS)[attention.down]
        with b.branch(b.op("lt", thread, b.const(WARPGROUP, "index"))) as (copying, multiplying, _):
            copying.emit(SetMaxRegisters(direction="dec", registers=copies))
            with copying.when(first) as leading:
                self.brought(leading, region)
            second = copying.op("eq", copying.index(warp_index(copying)), copying.const(1, "index"))
            finding = second if attention.compared else copying.op("eq", thread, copying.const(WORD, "index"))
            with copying.when(finding) as searching:
                self.searched(searching, region, block, blocks, searching.op("eq", thread, searching.const(WORD, "index")))
            multiplying.emit(SetMaxRegisters(direction="inc", registers=multiplies))
            self.group = AttentionGroup(multiplying, attention.down, thread)
            self.multiplied(multiplying, region, group)

    # ---- copying ----

    def searched(self, b: Builder, region: TileRegion, block: Value, blocks: Value, leader: Value) -> None:
        """Which tiles of queries the block takes, the first of its own number, the others whichever comes next among all; behind the last a
        matrix that isn't there. The warp's first thread, `leader`, tells."""
        memory, total = self.memory, self.queries.total
        taken = self.placing.workspace(("taken",), Mem("u32", (1,), align=64), zeros=True)
        number, round = b.slot(block, "number"), b.slot(b.const(0, "index"), "round")

        def told(b: Builder, *words: Value) -> None:
            stage, _ = memory.place(b, memory.found, b.get(round))
            with b.when(leader) as one:
                for place, word in enumerate(words):
                    one.store(memory.numbers, one.cast(word, "u32"), [stage, Affine.of(place)])
                one.emit(BarrierArrive(barrier=memory.found.full, barrier_index=(stage,)))

        with b.repeat() as (before, body):
            before.condition(before.op("lt", before.get(number), total))
            inner = region.inside(body, (self.attention.query.axis, self.attention.value.axis, *self.queries.batch))
            head, tile = self.queries.placed(body, body.get(number))
            self.queries.enter(head, tile, inner)
            told(body, head, tile, *self.looked_for(inner))
            body.set(round, body.add(body.get(round), body.const(1, "index")))
            memory.found.await_empty(body, *memory.place(body, memory.found, body.get(round)))
            other = body.slot(body.const(0, "u32"), "other")
            with body.when(leader) as one:
                most = one.cast(one.sub(total, one.const(1, "index")), "u32")
                one.set(other, one.emit(Atomic(operation="inc", mem=taken, index=(Affine(),), value=most)).result)
            body.set(number, body.add(blocks, widened(body, body.get(other), bool(self.attention.compared))))
        told(b, self.queries.heads, *[b.const(0, "index")] * (memory.words - 1))

    @contextmanager
    def tiles(self, b: Builder, region: TileRegion, ring: StageRing) -> Iterator[tuple[TileRegion, Walk, Affine, Value]]:
        """`with tiles(...) as (inner, walk, stage, parity):` a loop over the tiles of queries that are found, each known when its stage of
        a ring is full; with the turns of its keys, and its stage among the queries."""
        memory = self.memory
        alike = ring is memory.queries
        round, begun = b.slot(b.const(0, "index"), "round"), b.slot(b.const(0, "index"), "begun")
        words = [b.slot(b.const(0, "index"), "word") for _ in range(memory.words)]

        def awaited(b: Builder) -> None:
            ring.await_full(b, *memory.place(b, ring, b.get(round)))
            at, _ = memory.place(b, memory.found, b.get(round))
            for place, word in enumerate(words):
                b.set(word, widened(b, b.load(memory.numbers, [at, Affine.of(place)]), alike))

        awaited(b)
        with b.repeat() as (before, body):
            before.condition(before.op("lt", before.get(words[0]), self.queries.heads))
            inner = region.inside(body, (self.attention.query.axis, self.attention.value.axis, *self.queries.batch))
            head, tile, *self.further = [body.get(word) for word in words]
            self.queries.enter(head, tile, inner)
            seen = SeenTiles(*self.further[:4]) if self.attention.compared else None
            walk = walk_of(self.placing, self.attention, inner, body.get(begun), seen)
            self.round = round
            yield inner, walk, *memory.place(body, memory.queries, body.get(round))
            body.set(begun, widened(body, body.cast(body.add(walk.begun, walk.turns), "u32"), alike))
            body.set(round, widened(body, body.cast(body.add(body.get(round), body.const(1, "index")), "u32"), alike))
            awaited(body)

    def brought(self, b: Builder, region: TileRegion) -> None:
        """The tiles of queries, with their keys and values; behind the last nothing, so that those who wait see that there is none."""
        memory, rows = self.memory, self.attention.query.axis
        with self.tiles(b, region, memory.found) as (inner, walk, stage, parity):
            memory.queries.fill(inner.builder, stage, parity, memory.query.bytes)
            self.load(inner.builder, memory.query, inner, rows, inner.starts[rows], stage, memory.queries.full)
            self.copied(inner.builder, inner, walk)
        stage, parity = memory.place(b, memory.queries, b.get(self.round))
        memory.queries.await_empty(b, stage, parity)
        b.emit(BarrierArrive(barrier=memory.queries.full, barrier_index=(stage,)))

    def looked_for(self, region: TileRegion) -> list[Value]:
        """The tiles of keys that data say the block's rows see, and whether scores may begin with their slope."""
        attention, b, placing = self.attention, region.builder, self.placing
        found = list[Value]()
        if attention.compared:
            lane = lane_index(b)
            own, theirs = placing.out.axis("own", attention.rows // WORD), placing.out.axis("other", attention.terms // WORD)
            rows = region.inside(b, (attention.query.axis,))
            self.queries.place_row(lane + Affine.of(own) * WORD, rows)
            walk = walk_of(placing, attention, region)
            search = TileSearch(placing, attention.compared, lane, (own, theirs), attention.query.axis, attention.along, attention.terms)
            seen = search.seen(rows, b.sub(walk.last, walk.turns), walk.last)
            found += [seen.first, seen.end, seen.whole, seen.whole_end]
        if attention.slope is not None:
            found.append(self.may_begin(region, attention.slope))
        return found

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

    # ---- multiplying ----

    def multiplied(self, b: Builder, region: TileRegion, group: Sequence[Target]) -> None:
        memory = self.memory
        self.group.begin_turns(b)
        with self.tiles(b, region, memory.queries) as (inner, walk, self.stage, _):
            body = inner.builder
            # what is found is given back by one thread, when the others have read it
            self.group.meet(body)
            self.tile_multiplied(body, inner, walk, group)
            if self.waits:
                self.given_back(body, memory.queries, self.stage)
            self.given_back(body, memory.found, memory.place(body, memory.found, body.get(self.round))[0])
        if not self.waits:
            with b.when(self.group.leader) as leading:
                leading.emit(BulkWait(count=0, read=True))

    def tile_multiplied(self, b: Builder, inner: TileRegion, walk: Walk, group: Sequence[Target]) -> None:
        attention, memory, standing, out = self.attention, self.memory, self.group, self.placing.out
        pair, eight, half = out.axis("column0", 2), out.axis("column1", self.terms // 8), out.axis("row0", 2)
        feature, features = out.axis("feature0", 2), out.axis("feature1", attention.width // 8)
        self.columns, self.half, self.rows, self.features = (pair, eight), half, (half,), (feature, features)
        self.lane = standing.lane
        row, self.across = standing.position(half)
        self.queries.place_row(row, inner)
        state = [*self.at_first(b), b.const(0, Tile("u32", ((eight, self.terms // 8), (half, 2))))]
        output = b.const(0.0, Tile("f32", ((feature, 2), (features, attention.width // 8), (half, 2))))
        self.scores = Tile("f32", ((pair, 2), (eight, self.terms // 8), (half, 2)))
        none, some = b.const(0, "index"), b.op("min", walk.turns, b.const(1, "index"), name="some")
        begins = None if attention.slope is None else b.op("ne", self.further[-1], none)
        self.factor = self.factored(b, inner, self.turn_queries, begins)
        for end in self.ways(b, inner, some, none, begins):
            with b.loop("first", 0, end.name, carried=state) as (body, first):
                body.yield_(*self.first_step(body, inner, walk, first.variable, first.carried))
            state = first.results
        if not self.waits:
            self.given_back_before(b)
        carried = [*state, output]
        for low, high, compared in self.stretches(b, walk):
            for end in self.ways(b, inner, high, low, begins):
                with b.loop("turn", low.name, end.name, carried=carried) as (body, loop):
                    body.yield_(*self.step(body, inner, walk, loop.variable, loop.carried, compared))
                carried = loop.results
        *totals, words, output = carried
        with b.loop("last", 0, some.name, carried=[output]) as (body, last):
            ending, _ = memory.place(body, memory.values, body.index(Affine.of(walk.begun.name) + walk.turns.name - 1))
            body.emit(WarpgroupFence())
            (total,) = self.waited(body, [self.weighted(body, ending, words, last.carried[0])], 0)
            self.given_back(body, memory.values, ending)
            body.yield_(total)
        (output,) = last.results
        maximum, *others = totals
        self.followed(group, inner, walk, [maximum, *(over_lanes(b, "add", total) for total in others)], output, Affine())

    def given_back_before(self, b: Builder) -> None:
        """The stage of the queries before, from which copies have read results while this tile began."""
        round, unit = b.get(self.round), b.const(1, "index")
        with b.when(b.op("and", self.group.leader, b.op("gt", round, b.const(0, "index")))) as freeing:
            freeing.emit(BulkWait(count=0, read=True))
            self.memory.queries.free(freeing, self.memory.place(freeing, self.memory.queries, freeing.sub(round, unit))[0])

    def ways(self, b: Builder, region: TileRegion, end: Value, begin: Value, begins: Value | None) -> Iterator[Value]:
        """Where turns end: if scores begin with their slope, and if it is added to them."""
        slope = self.attention.slope
        if slope is not None and begins is not None:
            self.exponent, self.incline = slope.exponent, self.inclined(region, slope)
            yield b.select(begins, end, begin)
            self.exponent, self.incline = self.attention.exponent, None
            end = b.select(begins, begin, end)
        yield end

    def first_step(self, b: Builder, region: TileRegion, walk: Walk, number: Value, state: Sequence[Value]) -> list[Value]:
        """The first turn, of which there are no products of weights before."""
        memory = self.memory
        turn = self.turned(region, b, walk, number, BOTH)
        stage = memory.place(b, memory.keys, walk.begun)
        memory.keys.await_full(b, *stage)
        nothing = self.beginning(turn)
        b.emit(WarpgroupFence())
        asked = self.scored(b, stage[0], nothing)
        self.foreseen(turn)
        (scores,) = self.waited(b, [asked], 0)
        self.given_back(b, memory.keys, stage[0])
        _, _, *after, weights = self.softened(turn, scores, state[:-1])
        memory.values.await_full(b, *memory.place(b, memory.values, walk.begun))
        return [*after, self.packed(b, weights)]

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
        own = b.add(walk.begun, number)
        keys = memory.place(b, memory.keys, own)
        values, _ = memory.place(b, memory.values, b.index(Affine.of(walk.begun.name) + number.name - 1))
        nothing = self.beginning(turn)
        memory.keys.await_full(b, *keys)
        self.group.await_turn(b)
        b.emit(WarpgroupFence())
        asked = self.scored(b, keys[0], nothing)
        total = self.weighted(b, values, weights, total)
        self.group.pass_turn(b)
        self.foreseen(turn)
        (scores,) = self.waited(b, [asked], 1)
        self.given_back(b, memory.keys, keys[0])
        growth, grown, *after, weights = self.softened(turn, scores, before)
        # a loop, above which ptxas takes no wait for products: it would be before the exponentials
        memory.values.await_full(b, *memory.place(b, memory.values, own))
        # the words that products under way read can't be written: those of the next come after
        total, weights = self.waited(b, [total, weights], 0)
        self.given_back(b, memory.values, values)
        return [*after, self.packed(b, weights), self.rescaled(b, total, grown, growth)]

    def foreseen(self, turn: TileRegion) -> None:
        """Reads the numbers of keys that a turn's conditions compare, while its scores are on their way."""
        for each in self.attention.compared if self.compared[turn] else ():
            self.placing.value(each.key, turn)

    # ---- products ----

    def beginning(self, turn: TileRegion) -> Value:
        """What a turn's scores begin with, tied to waits: they are written before the fence, and not kept from one turn to the next."""
        b, nothing = turn.builder, turn.builder.const(0.0, self.scores)
        if self.incline is None or self.attention.slope is None:
            return nothing
        (incline,) = self.waited(b, [self.incline], 0)
        return self.waited(b, [self.begun(turn, self.attention.slope, nothing, incline)], 0)[0]

    def scored(self, b: Builder, stage: Affine, total: Value) -> Value:
        """The products for a turn's scores, on their way."""
        attention = self.attention
        step = WARPGROUP_KINDS[attention.dtype].depth
        for part in range(0, attention.depth, step):
            factors = self.memory.query.factor(self.stage, self.group.row, part), self.memory.key_tiles.factor(stage, Affine(), part)
            total = multiply(b, total, *factors, self.terms, step, b.const(part > 0 or self.incline is not None, "i1"))
        b.emit(WarpgroupCommit())
        return total

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
