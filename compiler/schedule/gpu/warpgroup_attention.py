"""Two products of warpgroups joined by a maximum and its sums: attention, on sm_90a. A block has 128 rows of queries; one warpgroup
copies keys and values into rings, two others keep 64 rows each. Scores come into registers, where what stands between the products is
computed; as the left operand of the second product they stay there. The sums are rescaled as the maximum grows (`rescaling.py`).

The shape is that of FlashAttention-3 (Shah and others, 2024): while a warpgroup computes the weights of a turn its products with the
values of the turn before are under way. Everything between the products is the field's: scales, masks, caps."""

from collections.abc import Sequence

from attrs import frozen

from compiler.analysis.recognise import product_sum
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Cast, Contract, Pack2, Reduce, Scan, Unary, dtype_of
from compiler.hir.gpu import GridIndex, SharedAlloc, SyncThreads, WarpIndex
from compiler.hir.hopper import (
    WARPGROUP_KINDS,
    BarrierArrive,
    BarrierExpect,
    BarrierInit,
    BarrierMake,
    BarrierWait,
    BulkLoad,
    SetMaxRegisters,
    WarpgroupCommit,
    WarpgroupFence,
    WarpgroupMma,
    WarpgroupWait,
)
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Store
from compiler.hir.module import HirFunction
from compiler.hir.types import Barrier, Mem, Space, Tile, bytes_of
from compiler.passes.online import Online
from compiler.schedule.gpu.combine import exchanged
from compiler.schedule.gpu.distribute import Distributing
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.rescaling import LOWEST, rescaling_of
from compiler.schedule.gpu.warpgroup_operands import (
    GROUPS,
    ROWS,
    SHARED_BYTES,
    SWIZZLED,
    Side,
    divides,
    plain_load,
    side_of,
    wide_of,
)
from compiler.schedule.gpu.warpgroup_products import COPYING_REGISTERS, MULTIPLYING_REGISTERS, WARPGROUP, small
from compiler.schedule.place import NotPlaceable, Region, Target
from compiler.schedule.table import AxisPlan, Table

STAGES = 2
"""Tiles of keys, and of values, that are on their way or in use."""
DEPTHS = (64, 128)
"""Elements of a query, and of a value, that tiles have."""
TERMS = 128
"""Keys of a tile."""


@frozen(eq=False)
class WarpgroupAttention:
    """A field that is attention: scores of queries and keys, summed along `inner`; values, weighted along `along`. `depth` and `width`:
    elements of a query and of a value that a tile has."""

    rule: Online
    scores: Contract
    weighted: Contract
    query: Side
    key: Side
    value: Side
    inner: str
    along: str
    depth: int
    width: int

    @property
    def dtype(self) -> str:
        return self.query.mem.dtype


def warpgroup_attention(field: HirFunction, facts: Facts) -> WarpgroupAttention | None:
    """The field as attention for warpgroups; None where they don't take it."""
    rescaling = rescaling_of(field) if facts.architecture == "sm_90a" else None
    if rescaling is None:
        return None
    rule = rescaling.rule
    sums = [op for op in field.body.body if isinstance(op, Contract | Reduce | Scan)]
    products = [op for op in sums if isinstance(op, Contract)]
    weighted = [op for op in products if op in rule.rescaled]
    scores = [op for op in products if op not in rule.rescaled]
    if len(weighted) != 1 or len(scores) != 1 or any(op not in (rule.maximum, *rule.rescaled, *scores) for op in sums):
        return None
    first, second = product_sum(scores[0]), product_sum(weighted[0])
    if first is None or second is None or second.k != (rule.axis,) or len(first.k) != 1 or len(rule.maximum.over) != 1:
        return None
    if any(len(axes) != 1 for axes in (first.m, first.n, second.m, second.n)):
        return None
    sides = [side_of(plain_load(operand), first, first.k[0]) for operand in (scores[0].a, scores[0].b)]
    values = [side_of(plain_load(_uncast(operand)), second, rule.axis) for operand in (weighted[0].a, weighted[0].b)]
    key = next((side for side in sides if side is not None and side.axis == rule.axis), None)
    query = next((side for side in sides if side is not None and side.axis != rule.axis), None)
    found = [side for side in values if side is not None]
    if key is None or query is None or len(found) != 1:
        return None
    (value,) = found
    dtype = query.mem.dtype
    if dtype not in ("f16", "bf16") or {key.mem.dtype, value.mem.dtype} != {dtype} or {op.to for op in products} != {"f32"}:
        return None
    if query.across or key.across or not value.across or query.axis not in (*second.m, *second.n):
        return None
    depth, width = (_covering(facts, field, axis) for axis in (first.k[0], value.axis))
    stores = [op for op in field.body.body if isinstance(op, Store)]
    scope = field.scope()
    own = {query.axis, value.axis, *first.batch}
    if depth is None or width is None or any({axis for axis, _ in scope.axes_of(*op.index)} != own for op in stores):
        return None
    if set(first.batch) != set(second.batch) or facts.about(field.axes[query.axis]) < ROWS:
        return None
    return WarpgroupAttention(rule, scores[0], weighted[0], query, key, value, first.k[0], rule.axis, depth, width)


def _uncast(value: Value) -> Value:
    """The narrow number behind a widening, which loses nothing."""
    return value.source.value if isinstance(value.source, Cast) and value.source.to == "f32" else value


def _covering(facts: Facts, field: HirFunction, axis: str) -> int | None:
    return next((depth for depth in DEPTHS if depth >= facts.about(field.axes[axis])), None)


class AttentionDistributing(Distributing):
    """Builds the one launch of such a field."""

    def __init__(self, field: HirFunction, attention: WarpgroupAttention) -> None:
        self.attention = attention
        outer = [axis for axis in field.axes if axis not in (attention.inner, attention.along, attention.query.axis, attention.value.axis)]
        self.batch = outer
        plans = [AxisPlan(axis, "block") for axis in (*outer, attention.query.axis, attention.value.axis)]
        plans += [AxisPlan(attention.along), AxisPlan(attention.inner)]
        super().__init__(field, Table(plans, block=(WARPGROUP * (GROUPS + 1),)))

    def idle(self, axes: object) -> list[int]:
        """Every thread that multiplies has elements of its own."""
        return []

    def shared_out(self, group: Sequence[Target], region: Region) -> None:
        attention, b = self.attention, region.builder
        axes = {attention.query.axis, attention.value.axis, *self.batch}
        if any(not isinstance(target, Store) or self.target_axes(target) != axes for target in group):
            raise NotPlaceable("a result that doesn't vary as attention's do")
        extents = [*(self.field.axes[axis] for axis in self.batch), self.field.axes[attention.query.axis].ceildiv(ROWS * GROUPS)]
        counts = [b.op("max", b.index(extent), b.const(0, "index")) for extent in extents]
        total = counts[0]
        for count in counts[1:]:
            total = b.mul(total, count)
        with self.blocks(total, region, axes) as (inner, place):
            body = inner.builder
            for axis, count in reversed(list(zip(self.batch, counts[:-1], strict=True))):
                inner.forms[axis] = inner.starts[axis] = Affine.of(small(body, "rem", place, count).name)
                place = small(body, "div", place, count)
            inner.starts[attention.query.axis] = Affine.of(place.name) * (ROWS * GROUPS)
            inner.starts[attention.value.axis] = Affine()
            self.roles(group, inner)

    def roles(self, group: Sequence[Target], region: Region) -> None:
        b, attention = region.builder, self.attention
        memory = _Memory(b, attention)
        thread = b.emit(GridIndex(operator="thread_idx", dim="x")).result
        first = b.op("eq", thread, b.const(0, "index"))
        with b.when(first) as once:
            memory.begin(once)
        b.emit(SyncThreads())
        turns = b.index(self.field.axes[attention.along].ceildiv(TERMS), "turns")
        with b.branch(b.op("lt", thread, b.const(WARPGROUP, "index"))) as (copying, multiplying, _):
            copying.emit(SetMaxRegisters(direction="dec", registers=COPYING_REGISTERS))
            with copying.when(first) as one:
                self.copied(one, region, memory, turns)
            multiplying.emit(SetMaxRegisters(direction="inc", registers=MULTIPLYING_REGISTERS))
            place = Affine.of(thread.name)
            leader = multiplying.op("eq", multiplying.index(place - place.floordiv(WARPGROUP) * WARPGROUP), multiplying.index(0))
            self.multiplied(multiplying, region, memory, turns, leader, group)

    def make(self, op: Instruction, value: Value, region: Region) -> Value:
        """As everywhere; exponentials by the approximation that the hardware has, whose error is far below that of the 16 bits which the
        weights are rounded to."""
        if isinstance(op, Unary) and op.operator in ("exp", "exp2") and dtype_of(op.value) == "f32":
            return region.builder.op(op.operator, self.value(op.value, region), flags=(*op.flags, "afn"))
        return super().make(op, value, region)

    # ---- copying ----

    def copied(self, b: Builder, region: Region, memory: "_Memory", turns: Value) -> None:
        attention = self.attention
        query = region.inside(b, ())
        b.emit(BarrierExpect(barrier=memory.asked, barrier_index=(Affine(),), bytes=ROWS * GROUPS * attention.depth * 2))
        self.boxes(attention.query, ROWS * GROUPS, region.starts[attention.query.axis], memory.query, (), memory.asked, Affine(), query)
        with b.loop("copy", 0, turns.name) as (body, loop):
            inner = region.inside(body, ())
            stage, parity = memory.place(body, loop.variable)
            turned = body.op("xor", parity, body.const(1, "i32"))
            start = Affine.of(loop.variable.name) * TERMS
            for side, ring, elements in (
                (attention.key, memory.keys, attention.depth),
                (attention.value, memory.values, attention.width),
            ):
                body.emit(BarrierWait(barrier=ring.empty, barrier_index=(stage,), parity=turned))
                body.emit(BarrierExpect(barrier=ring.full, barrier_index=(stage,), bytes=TERMS * elements * 2))
                self.boxes(side, TERMS, start, ring.memory, (stage,), ring.full, stage, inner)

    def boxes(
        self, side: Side, extent: int, start: Affine, memory: Value, at: tuple[Affine, ...], barrier: Value, stage: Affine, region: Region
    ) -> None:
        """The copies of a tile of `extent` rows: boxes of 128 bytes of each row, side by side."""
        b, attention = region.builder, self.attention
        wide = wide_of(side.mem)
        rows, columns = (attention.along, side.axis) if side is attention.value else (side.axis, attention.inner)
        depth = attention.width if side is attention.value else attention.depth
        mem = region.find(side.load.mem)
        assert mem is not None
        for part in range(depth // wide):
            region.forms[rows], region.forms[columns] = start, Affine.of(part * wide)
            box = tuple(extent if rows in form.names else wide if columns in form.names else 1 for form in side.load.index)
            b.emit(
                BulkLoad(
                    shared=memory,
                    shared_index=(*at, Affine.of(part), Affine(), Affine()),
                    tensor=mem,
                    tensor_index=tuple(self.form(form, region) for form in side.load.index),
                    barrier=barrier,
                    barrier_index=(stage,),
                    box=box,
                )
            )

    # ---- multiplying ----

    def multiplied(self, b: Builder, region: Region, memory: "_Memory", turns: Value, leader: Value, group: Sequence[Target]) -> None:
        attention, rule = self.attention, self.attention.rule
        inner = region.inside(b, (attention.query.axis, attention.value.axis, *self.batch))
        pair, eight, half = self.out.axis("column0", 2), self.out.axis("column1", TERMS // 8), self.out.axis("row0", 2)
        feature, features = self.out.axis("feature0", 2), self.out.axis("feature1", attention.width // 8)
        warp = Affine.of(b.emit(WarpIndex(operator="warp")).result.name)
        lane = Affine.of(b.emit(WarpIndex(operator="lane")).result.name)
        team = warp.floordiv(4) + -1
        row = team * ROWS + (warp - warp.floordiv(4) * 4) * 16 + lane.floordiv(4) + Affine.of(half) * 8
        across = (lane - lane.floordiv(4) * 4) * 2
        rows = attention.query.axis
        inner.forms[rows] = region.starts[rows] + row
        if not divides(ROWS * GROUPS, self.field.axes[rows]):
            inner.masks[rows] = self.field.axes[rows]
        sums = [op for op in rule.rescaled if isinstance(op, Reduce)]
        maximum = dtype_of(rule.maximum.results[0])
        starts = [b.const(LOWEST[maximum], Tile(maximum, ((half, 2),)))]
        starts += [b.const(0.0, Tile(dtype_of(op.results[0]), ((half, 2),))) for op in sums]
        output = b.const(0.0, Tile("f32", ((feature, 2), (features, attention.width // 8), (half, 2))))
        words = b.const(0, Tile("u32", ((eight, TERMS // 8), (half, 2))))
        self.columns, self.across = (pair, eight), across
        scores = Tile("f32", ((pair, 2), (eight, TERMS // 8), (half, 2)))
        b.emit(BarrierWait(barrier=memory.asked, barrier_index=(Affine(),), parity=b.const(0, "i32")))
        some = b.op("min", turns, b.const(1, "index"), name="some")
        with b.loop("first", 0, some.name, carried=[*starts, words]) as (body, first):
            turn = self.turned(inner, body, Affine.of(first.variable.name))
            stage = memory.place(body, first.variable)
            self.arrived(body, memory.keys, *stage)
            body.emit(WarpgroupFence())
            (found,) = self.waited(body, [self.scored(body, memory, stage[0], team, scores)], 0)
            self.given_back(body, memory.keys, stage[0], leader)
            _, *after, weights = self.softened(turn, found, first.carried[:-1], sums)
            self.arrived(body, memory.values, *stage)
            body.yield_(*after, self.packed(body, weights))
        with b.loop("turn", 1, turns.name, carried=[*first.results, output]) as (body, loop):
            *before, weights, total = loop.carried
            turn = self.turned(inner, body, Affine.of(loop.variable.name))
            keys = memory.place(body, loop.variable)
            values, _ = memory.place(body, body.sub(loop.variable, body.const(1, "index")))
            self.arrived(body, memory.keys, *keys)
            body.emit(WarpgroupFence())
            asked = self.scored(body, memory, keys[0], team, scores)
            total = self.weighted(body, memory, values, weights, total)
            (found,) = self.waited(body, [asked], 1)
            self.given_back(body, memory.keys, keys[0], leader)
            growth, *after, weights = self.softened(turn, found, before, sums)
            # a loop, above which ptxas takes no wait for products: it would be before the exponentials
            self.arrived(body, memory.values, *keys)
            # the words that products under way read can't be written: those of the next come after
            total, weights = self.waited(body, [total, weights], 0)
            self.given_back(body, memory.values, values, leader)
            body.yield_(*after, self.packed(body, weights), body.mul(total, growth))
        *_, words, output = loop.results
        with b.loop("last", 0, some.name, carried=[output]) as (body, last):
            ending, _ = memory.place(body, body.sub(turns, body.const(1, "index")))
            body.emit(WarpgroupFence())
            (total,) = self.waited(body, [self.weighted(body, memory, ending, words, last.carried[0])], 0)
            self.given_back(body, memory.values, ending, leader)
            body.yield_(total)
        _, *totals = loop.results[: 1 + len(sums)]
        (output,) = last.results
        for op, total in zip(sums, totals, strict=True):
            inner.made[op.results[0]] = _over_lanes(b, "add", total)
        inner.made[attention.weighted.results[0]] = output
        column = attention.value.axis
        inner.forms[column] = across + Affine.of(features) * 8 + feature
        if self.field.axes[column].value != attention.width:
            inner.masks[column] = self.field.axes[column]
        self.produce(group, inner, {})

    def turned(self, region: Region, b: Builder, number: Affine) -> Region:
        """The scores of this turn: their places, and which exist."""
        along, (pair, eight) = self.attention.along, self.columns
        turn = region.inside(b, (along,))
        turn.starts[along] = number * TERMS
        turn.forms[along] = turn.starts[along] + self.across + Affine.of(eight) * 8 + pair
        if not divides(TERMS, self.field.axes[along]):
            turn.masks[along] = self.field.axes[along]
        return turn

    def arrived(self, b: Builder, ring: "_Ring", stage: Affine, parity: Value) -> None:
        """Waits for a tile. All waits come before the fence: between products they would part the threads."""
        b.emit(BarrierWait(barrier=ring.full, barrier_index=(stage,), parity=parity))

    def scored(self, b: Builder, memory: "_Memory", stage: Affine, team: Affine, type: Tile) -> Value:
        """The products for a turn's scores, on their way."""
        attention, ring = self.attention, memory.keys
        total = b.const(0.0, type)
        step, wide = WARPGROUP_KINDS[attention.dtype].depth, wide_of(attention.query.mem)
        for part in range(0, attention.depth, step):
            box, within = Affine.of(part // wide), Affine.of(part % wide)
            total = b.emit(
                WarpgroupMma(
                    accumulator=total,
                    a=memory.query,
                    a_index=(box, team * ROWS, within),
                    b=ring.memory,
                    b_index=(stage, box, Affine(), within),
                    keep=b.const(part > 0, "i1"),
                    shape=(ROWS, TERMS, step),
                )
            ).result
        b.emit(WarpgroupCommit())
        return total

    def waited(self, b: Builder, values: Sequence[Value], count: int) -> list[Value]:
        """The values when all products but those of the last groups are done."""
        return b.emit(WarpgroupWait(values=tuple(values), count=count)).results

    def given_back(self, b: Builder, ring: "_Ring", stage: Affine, leader: Value) -> None:
        with b.when(leader) as freeing:
            freeing.emit(BarrierArrive(barrier=ring.empty, barrier_index=(stage,)))

    def softened(self, turn: Region, scores: Value, before: Sequence[Value], sums: Sequence[Reduce]) -> tuple[Value, ...]:
        """What earlier sums are multiplied by; the maximum, the sums and the weights with this turn's scores."""
        turn.made[self.attention.scores.results[0]] = scores
        maximum, *totals = before
        after, growth = self.grown(turn, maximum, self.columns)
        added = [self.added(turn, op, total, growth, self.columns) for op, total in zip(sums, totals, strict=True)]
        return growth, after, *added, self.weights(turn)

    def grown(self, region: Region, before: Value, over: Sequence[str]) -> tuple[Value, Value]:
        """The maximum with this tile's scores, and what sums are multiplied by for that."""
        b, rule = region.builder, self.attention.rule
        maximum = dtype_of(before)
        value = self.masked(self.value(rule.maximum.values[0], region), float("-inf"), [rule.axis], region)
        after = b.op("max", before, _over_lanes(b, "max", b.reduce("max", value, over=over)[0]))
        region.made[rule.maximum.results[0]] = after
        difference = b.sub(before, after)
        if rule.scale is not None:
            difference = b.mul(difference, self.value(rule.scale, region))
        return after, b.op(rule.exponential, difference, flags=("afn",) if maximum == "f32" else ())

    def added(self, region: Region, op: Reduce, total: Value, growth: Value, over: Sequence[str]) -> Value:
        b = region.builder
        value = self.masked(self.value(op.values[0], region), 0.0, [self.attention.along], region)
        return b.add(b.mul(total, growth), b.reduce("add", value, over=over, flags=("reassoc",))[0], flags=("reassoc",))

    def weights(self, region: Region) -> Value:
        attention = self.attention
        target = attention.weighted
        weight = next(operand for operand in (target.a, target.b) if _uncast(operand).source is not attention.value.load)
        return self.masked(self.value(weight, region), 0.0, [attention.along], region)

    def packed(self, b: Builder, weights: Value) -> Value:
        """In pairs, as the left operand of the second product."""
        return b.emit(Pack2(value=b.cast(weights, self.attention.dtype), over=self.columns[0])).result

    def weighted(self, b: Builder, memory: "_Memory", stage: Affine, words: Value, output: Value) -> Value:
        """The products of a turn's weights with its values, on their way."""
        attention, ring = self.attention, memory.values
        step = WARPGROUP_KINDS[attention.dtype].depth
        total = output
        for part in range(0, TERMS, step):
            total = b.emit(
                WarpgroupMma(
                    accumulator=total,
                    a=words,
                    a_index=(Affine.of(part // 8),),
                    b=ring.memory,
                    b_index=(stage, Affine(), Affine.of(part), Affine()),
                    keep=b.const(True, "i1"),
                    shape=(ROWS, attention.width, step),
                    transpose_b=True,
                )
            ).result
        b.emit(WarpgroupCommit())
        return total


def _over_lanes(b: Builder, operator: str, value: Value) -> Value:
    """Joined over the four lanes that have a row."""
    flags = ("reassoc",) if operator == "add" else ()
    for distance in (1, 2):
        value = b.op(operator, value, exchanged(b, value, distance), flags=flags)
    return value


@frozen(eq=False)
class _Ring:
    memory: Value
    full: Value
    empty: Value


class _Memory:
    """The tile of queries, and the rings of keys and of values."""

    def __init__(self, b: Builder, attention: WarpgroupAttention) -> None:
        wide = wide_of(attention.query.mem)

        def shared(*dims: int) -> Value:
            type = Mem(attention.dtype, (*dims, wide), space=Space.SHARED, align=1024, swizzle="128B")
            return b.emit(SharedAlloc(type=type), "tile").result

        def ring(elements: int) -> _Ring:
            barriers = [b.emit(BarrierMake(type=Barrier(STAGES)), name).result for name in ("full", "empty")]
            return _Ring(shared(STAGES, elements // wide, TERMS), *barriers)

        self.query = shared(attention.depth // wide, ROWS * GROUPS)
        self.keys, self.values = ring(attention.depth), ring(attention.width)
        self.asked = b.emit(BarrierMake(type=Barrier(1)), "asked").result
        size = bytes_of(attention.dtype) * (ROWS * GROUPS * attention.depth + STAGES * TERMS * (attention.depth + attention.width))
        assert size <= SHARED_BYTES and wide * bytes_of(attention.dtype) == SWIZZLED

    def begin(self, b: Builder) -> None:
        b.emit(BarrierInit(barrier=self.asked, barrier_index=(Affine(),), count=1))
        for ring in (self.keys, self.values):
            for stage in range(STAGES):
                b.emit(BarrierInit(barrier=ring.full, barrier_index=(Affine.of(stage),), count=1))
                b.emit(BarrierInit(barrier=ring.empty, barrier_index=(Affine.of(stage),), count=GROUPS))

    def place(self, b: Builder, turn: Value) -> tuple[Affine, Value]:
        """The stage of a turn, and how often it was filled before, odd or even."""
        form = Affine.of(turn.name)
        filled = form.floordiv(STAGES)
        parity = b.cast(b.index(filled - filled.floordiv(2) * 2), "i32")
        return Affine.of(b.index(form - filled * STAGES).name), parity
