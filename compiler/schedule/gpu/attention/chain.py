"""Chained products on the warpgroups of sm_90a, in the way of attention (`on_warpgroups.py`), without a maximum: a block has 64 rows
for each warpgroup that multiplies, whose operands stay in shared memory; one more copies tiles of the terms into a ring. What the first
products come to is in registers, where weights are computed from it; as left operands of the second products they stay there.

Terms that a guard hides weigh 0. Where the value of one is infinite or NaN that isn't enough: sums with a NaN are computed once more, term
by term."""

from collections.abc import Sequence
from math import prod

from compiler.analysis.recognise import instructions_below
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import union_axes
from compiler.hir.gpu import SyncThreads
from compiler.hir.hopper import WARPGROUP_KINDS, SetMaxRegisters, WarpgroupCommit, WarpgroupFence
from compiler.hir.instruction import Value
from compiler.hir.memory import Load
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile, bytes_of
from compiler.machines.units.unit import Issue
from compiler.schedule.gpu.attention.chained_products import ChainedField, WeighedSum, chained_products
from compiler.schedule.gpu.attention.field import rounded_from
from compiler.schedule.gpu.attention.walk import QueryTiles, Walk, walk_of
from compiler.schedule.gpu.attention.walking_block import BOTH
from compiler.schedule.gpu.attention.warpgroup import REGISTERS, UNIT, AttentionGroup, WarpgroupWalk
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.indices import thread_index
from compiler.schedule.gpu.products.boxed_operands import BoxedOperand
from compiler.schedule.gpu.products.boxed_tiles import BoxedTiles, multiply
from compiler.schedule.gpu.products.stage_ring import StageRing, initialise
from compiler.schedule.gpu.products.tiling import ROWS, SHARED_BYTES, WARPGROUP
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from compiler.schedule.region import Target, TileRegion
from runtime.records import evolve

TERMS = (64, 32)
"""Of a tile, the first whose sums and scores are in registers."""
GROUPS, SUMS = 2, 176
"""Warpgroups that multiply, and sums and scores of a thread that registers are enough for. Three with fewer are no faster: derivatives by
queries of causal attention take 124 us on an H200 in blocks of two and 137 in blocks of three."""
HANDING = 1
"""Blocks of a multiprocessor: from that the assembler knows how many registers threads have before they hand some over."""
STAGES = 4
"""Tiles of terms that are on their way or in use, at most."""
WORTH = 1 << 24
"""Products below which a launch for each sum is no slower."""


def product_chain(field: HirFunction, facts: Facts) -> ChainedField | None:
    """The field as chained products for warpgroups; None where they don't take it."""
    if facts.machine.unit(Issue.WARPGROUP) is None or (field.kernel_info is not None and field.kernel_info.tensor_cores is False):
        return None
    for terms in TERMS:
        chain = chained_products(field, facts, terms)
        if chain is None or facts.about(field.axes[chain.query.axis]) < ROWS:
            continue
        if prod(facts.about(extent) for extent in field.axes.values()) < WORTH:
            return None
        each = (len(chain.sums) * chain.width + len(chain.scores) * terms) // 2
        known = evolve(chain, unit=UNIT, down=GROUPS)
        if each <= SUMS and _stages(known) >= 2:
            return known
    return None


def place_of(side: BoxedOperand, elements: str) -> tuple[object, ...]:
    """Which elements an operand is, whatever the axis along the elements of a row is called."""
    return side.load.mem, tuple(form.substitute({elements: "element"}) for form in side.load.index)


def _stages(chain: ChainedField) -> int:
    """Tiles of terms that there is room for."""
    rows = {place_of(score.row, score.inner): score.depth for score in chain.scores}
    terms = {place_of(score.term, score.inner): score.depth for score in chain.scores}
    terms |= {place_of(sum.value, sum.value.axis): chain.width for sum in chain.sums}
    row, term = (sum(-(-depth // 64) * 64 for depth in tiles.values()) * bytes_of(chain.dtype) for tiles in (rows, terms))
    return min(STAGES, (SHARED_BYTES - chain.rows * row) // (chain.terms * term))


class ChainMemory:
    """The rows' operands, which come once, and the ring of the terms'. Operands that are the same elements have one memory."""

    def __init__(self, b: Builder, chain: ChainedField) -> None:
        self.rows, self.terms = StageRing(b, 1, chain.down), StageRing(b, _stages(chain), chain.down)
        self.copied_rows: list[BoxedTiles] = []
        self.copied_terms: list[BoxedTiles] = []
        self.row_tiles: list[BoxedTiles] = []
        self.term_tiles: list[BoxedTiles] = []
        self.value_tiles: list[BoxedTiles] = []
        known: dict[tuple[object, ...], BoxedTiles] = {}

        def tiles(side: BoxedOperand, own: int, sum: str, terms: int, copied: list[BoxedTiles]) -> BoxedTiles:
            place = (copied is self.copied_rows, *place_of(side, side.axis if side.across else sum))
            stages = 1 if copied is self.copied_rows else self.terms.stages
            made = BoxedTiles(b, side, stages, (own,), sum, terms, known.get(place))
            if place not in known:
                known[place] = made
                copied.append(made)
            return made

        for score in chain.scores:
            self.row_tiles.append(tiles(score.row, chain.rows, score.inner, score.depth, self.copied_rows))
            self.term_tiles.append(tiles(score.term, chain.terms, score.inner, score.depth, self.copied_terms))
        for sum in chain.sums:
            self.value_tiles.append(tiles(sum.value, chain.width, chain.along, chain.terms, self.copied_terms))

    def begin(self, b: Builder) -> None:
        initialise(b, [*self.rows.counts(), *self.terms.counts()])


class ChainBlock(WarpgroupWalk):
    """A tile of rows for each block."""

    def __init__(self, placing: BlockTiles, chain: ChainedField, queries: QueryTiles, region: TileRegion) -> None:
        super().__init__(placing, chain, queries, region)
        self.chain, self.memory = chain, ChainMemory(region.builder, chain)
        self.result_memory = self.memory.row_tiles[0]

    def attended(self, group: Sequence[Target], block: Value, blocks: Value) -> None:
        b, region, memory, chain = self.region.builder, self.region, self.memory, self.chain
        self.queries.enter(*self.queries.placed(b, block), region)
        region.starts[chain.query.axis] = b.named(region.starts[chain.query.axis])
        walk = walk_of(self.placing, chain, region)
        thread = thread_index(b)
        first = b.op("eq", thread, b.const(0, "index"))
        with b.when(first) as once:
            memory.begin(once)
        b.emit(SyncThreads())
        copies, multiplies = REGISTERS[chain.down]
        with b.branch(b.op("lt", thread, b.const(WARPGROUP, "index"))) as (copying, multiplying, _):
            copying.emit(SetMaxRegisters(direction="dec", registers=copies))
            with copying.when(first) as leading:
                self.brought(leading, region.inside(leading, ()), walk)
            multiplying.emit(SetMaxRegisters(direction="inc", registers=multiplies))
            self.group = AttentionGroup(multiplying, chain.down, thread)
            inner = region.inside(multiplying, (chain.query.axis, chain.value.axis, *self.queries.batch))
            self.chained(multiplying, inner, walk, group)

    def brought(self, b: Builder, region: TileRegion, walk: Walk) -> None:
        memory, rows, along = self.memory, self.chain.query.axis, self.chain.along
        memory.rows.fill(b, Affine(), b.const(0, "i32"), sum(tiles.bytes for tiles in memory.copied_rows))
        for tiles in memory.copied_rows:
            self.load(b, tiles, region, rows, region.starts[rows], Affine(), memory.rows.full)
        with b.loop("turn", 0, walk.turns.name) as (body, loop):
            place, odd = memory.terms.place(body, loop.variable)
            stage = Affine.of(place.name)
            memory.terms.fill(body, stage, odd, sum(tiles.bytes for tiles in memory.copied_terms))
            for tiles in memory.copied_terms:
                self.load(body, tiles, region, along, self.tile(walk, loop.variable) * self.terms, stage, memory.terms.full)

    def chained(self, b: Builder, inner: TileRegion, walk: Walk, group: Sequence[Target]) -> None:
        chain, memory, standing, out = self.chain, self.memory, self.group, self.placing.out
        pair, eight, half = out.axis("column0", 2), out.axis("column1", self.terms // 8), out.axis("row0", 2)
        feature, features = out.axis("feature0", 2), out.axis("feature1", chain.width // 8)
        self.columns, self.half, self.rows, self.features = (pair, eight), half, (half,), (feature, features)
        self.lane, self.stage = standing.lane, Affine()
        row, self.across = standing.position(half)
        self.queries.place_row(row, inner)
        self.scores = Tile("f32", ((pair, 2), (eight, self.terms // 8), (half, 2)))
        for op in dict.fromkeys(op for each in chain.sums for op in instructions_below(each.weight)):
            if isinstance(op, Load) and op not in [score.row.load for score in chain.scores] and self.is_of_rows(op):
                self.placing.value(op.results[0], inner)
        memory.rows.await_full(b, Affine(), b.const(0, "i32"))
        nothing = b.const(0.0, Tile("f32", ((feature, 2), (features, chain.width // 8), (half, 2))))
        none = b.const(0, Tile("u32", ((eight, self.terms // 8), (half, 2))))
        some = b.op("min", walk.turns, b.const(1, "index"))
        with b.loop("first", 0, some.name, carried=[none] * len(chain.sums)) as (body, first):
            stage = self.awaited(body, first.variable)
            scores = self.waited(body, self.scored(body, stage, self.tied(body, [])[0]), 0)
            weights = self.weights(self.turned(inner, body, walk, first.variable, BOTH), scores)
            body.yield_(*(self.packed(body, each) for each in weights))
        state = [*first.results, *[nothing] * len(chain.sums)]
        for low, high, compared in self.stretches(b, walk):
            with b.loop("turn", low.name, high.name, carried=state) as (body, loop):
                body.yield_(*self.step(body, inner, walk, loop.variable, loop.carried, compared))
            state = loop.results
        words, sums = state[: len(chain.sums)], state[len(chain.sums) :]
        with b.loop("last", 0, some.name, carried=sums) as (body, last):
            place, _ = memory.terms.place(body, body.index(Affine.of(walk.turns.name) - 1))
            ready = self.waited(body, [*last.carried, *words], 0)
            body.emit(WarpgroupFence())
            results = self.weighed(body, Affine.of(place.name), ready[len(sums) :], ready[: len(sums)])
            results = self.waited(body, results, 0)
            self.given_back(body, memory.terms, Affine.of(place.name))
            body.yield_(*results)
        self.summed(group, inner, walk, last.results)

    def is_of_rows(self, op: Load) -> bool:
        """Whether a load has no terms."""
        return {axis for axis, _ in union_axes(op.results[0])}.isdisjoint(self.chain.walked)

    def awaited(self, b: Builder, number: Value) -> Affine:
        """The stage of a turn, when its tiles have come."""
        place, parity = self.memory.terms.place(b, number)
        self.memory.terms.await_full(b, Affine.of(place.name), parity)
        return Affine.of(place.name)

    def tied(self, b: Builder, values: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """What scores begin with, and values that products read or add to; then the fence. All are tied to a wait, so that no register is
        written behind it."""
        ready = self.waited(b, [*(b.const(0.0, self.scores) for _ in self.chain.scores), *values], 0)
        b.emit(WarpgroupFence())
        return ready[: len(self.chain.scores)], ready[len(self.chain.scores) :]

    def scored(self, b: Builder, stage: Affine, nothing: Sequence[Value]) -> list[Value]:
        """The products for the scores of a stage, on their way."""
        memory, step, scores = self.memory, WARPGROUP_KINDS[self.chain.dtype].depth, list[Value]()
        for product, total, rows, terms in zip(self.chain.scores, nothing, memory.row_tiles, memory.term_tiles, strict=True):
            for part in range(0, product.depth, step):
                factors = rows.factor(Affine(), self.group.row, part), terms.factor(stage, Affine(), part)
                total = multiply(b, total, *factors, self.terms, step, b.const(part > 0, "i1"))
            scores.append(total)
        b.emit(WarpgroupCommit())
        return scores

    def weighed(self, b: Builder, stage: Affine, words: Sequence[Value], sums: Sequence[Value]) -> list[Value]:
        """The products of a stage's weights with its values, on their way."""
        step, results = WARPGROUP_KINDS[self.chain.dtype].depth, list[Value]()
        for total, each, tiles in zip(sums, words, self.memory.value_tiles, strict=True):
            for part in range(0, self.terms, step):
                factors = (each, (Affine.of(part // 8),), False), tiles.factor(stage, Affine(), part)
                total = multiply(b, total, *factors, self.chain.width, step, b.const(True, "i1"))
            results.append(total)
        b.emit(WarpgroupCommit())
        return results

    def weights(self, turn: TileRegion, scores: Sequence[Value]) -> list[Value]:
        """What weights are rounded from, 0 where they are hidden."""
        for product, score in zip(self.chain.scores, scores, strict=True):
            turn.made[product.op.results[0]] = score
        return [self.hidden(turn, self.placing.value(rounded_from(each.weight), turn), 0.0) for each in self.chain.sums]

    def step(
        self, b: Builder, region: TileRegion, walk: Walk, number: Value, state: Sequence[Value], compared: tuple[bool, ...]
    ) -> list[Value]:
        """A turn: its scores and weights, while the products of the last turn's weights with its values are under way."""
        count = len(self.chain.sums)
        turn = self.turned(region, b, walk, number, compared)
        stage = self.awaited(b, number)
        place, _ = self.memory.terms.place(b, b.index(Affine.of(number.name) - 1))
        before = Affine.of(place.name)
        nothing, ready = self.tied(b, state)
        scores = self.scored(b, stage, nothing)
        sums = self.weighed(b, before, ready[:count], ready[count:])
        weights = self.weights(turn, self.waited(b, scores, 1))
        # the words that products under way read can't be written: those of the next come after
        done = self.waited(b, [*sums, *weights], 0)
        self.given_back(b, self.memory.terms, before)
        return [*(self.packed(b, each) for each in done[count:]), *done[:count]]

    # ---- behind the sums ----

    def summed(self, group: Sequence[Target], region: TileRegion, walk: Walk, sums: Sequence[Value]) -> None:
        chain, column, (pair, feature) = self.chain, self.chain.value.axis, self.features
        region.forms[column] = self.across + Affine.of(feature) * 8 + pair
        if self.placing.field.axes[column].value != chain.width:
            region.masks[column] = self.placing.field.axes[column]
        for each, total in zip(chain.sums, sums, strict=True):
            region.made[each.op.results[0]] = self.repaired(region, walk, each, total) if each.guards else total
        self.placing.produce(group, region, {})

    def repaired(self, region: TileRegion, walk: Walk, each: WeighedSum, sum: Value) -> Value:
        """A sum, or where it is NaN that of the terms that are there and that no guard hides."""

        def weighed(term: TileRegion) -> tuple[Value, Value]:
            for score in self.chain.scores:
                term.made[score.op.results[0]] = self.score(term, score.row, score.term, score.inner)
            return self.placing.value(each.weight, term), self.placing.value(each.value.load.results[0], term)

        return self.summed_again(region, walk, sum, each.guards, weighed)
