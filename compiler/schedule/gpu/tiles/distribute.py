"""A field on blocks of threads: `place` with a digit more. An axis of a block's tile is threads side by side and registers of each;
the thread's digit is a scalar of the function, the registers stay an axis of the values. What that adds to tiles:

* a reduction is combined over the threads along its axes too (`combine.py`);
* a store that doesn't vary along a dimension of the block is done by one thread of that dimension;
* a reduction that nothing stands around is cut in chunks, a block each, and a last block joins them."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from math import prod
from typing import Any

from compiler.analysis.accesses import constraints_of
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Cast, Contract, InBounds, Reduce, Select, dtype_of
from compiler.hir.gpu import WarpIndex
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, bytes_of
from compiler.machines.gpu import Feature
from compiler.schedule.gpu.loop_wishes import turns_of
from compiler.schedule.gpu.tiles.best import best_so_far, counts_turns, indexed, nothing_found
from compiler.schedule.gpu.tiles.combine import combine_over_cluster, combine_over_threads
from compiler.schedule.gpu.tiles.last_block import BlockPart, in_last_block, reading
from compiler.schedule.gpu.tiles.one_pass import is_joined, joined, nothing_joined, tile_joined
from compiler.schedule.gpu.tiles.skewed import NARROW, Skew, combine_skewed, skew_of
from compiler.schedule.gpu.tiles.taking_part import guard_of
from compiler.schedule.gpu.tiles.tiles_taking_part import Summed, TilesTakingPart
from compiler.schedule.gpu.tiles.unread import end_of_needed, needed_where
from compiler.schedule.interior import bounds_of as bounds_of_condition
from compiler.schedule.region import Accumulators, NotPlaceable, Target, TileLoop, TileRegion
from compiler.schedule.table import SIMD, AxisPlan, Table

MOST_SUMS = 32
"""Words of accumulators down columns that a thread has, besides what it reads."""
WORD = 4

CHUNKS = 528
"""Blocks that share a whole reduction, at most: four for each multiprocessor of a large GPU."""


def distribute(field: HirFunction, table: Table) -> HirFunction:
    """The field (form F) as loops over blocks, each iteration the code of one thread of the block. Raises `NotPlaceable`."""
    return Distributing(field, table).run()


class Distributing(TilesTakingPart):
    def __init__(self, field: HirFunction, table: Table) -> None:
        super().__init__(field, table)
        self.needed = needed_where(field)
        self.part: BlockPart | None = None
        """The block's part of reductions that several blocks share."""
        self.left: dict[Value, Value] = {}
        """Memories of one element with whole reductions that later launches read."""
        self.behind: set[Value] = set()
        """What is computed from these, in each block that needs it."""
        self.resting: dict[TileRegion, set[Value]] = {}
        """Values that are computed in a region although they don't vary there: what they read is only known there."""
        self.fewer: dict[TileRegion, tuple[set[Value], InBounds]] = {}
        """Where only the first registers of a row are needed: by which conditions, and which registers."""
        self.wanted: dict[Load, Value] = {}
        """Where elements are read that are zeros elsewhere."""
        self.finished: set[tuple[Target, TileRegion]] = set()
        """Targets that the last block of a launch has finished, and the region whose they are."""
        self.skewed = next((plan for plan in reversed(table.plans) if plan.overlap), None)
        """Columns whose rows begin at other offsets each."""
        self.skew: Skew | None = None
        """Where their loads begin, in the launch that is being built."""

    # ---- blocks and threads ----

    def shared_out(self, group: Sequence[Target], region: TileRegion) -> None:
        needed = set.intersection(*[self.target_axes(target) for target in group])
        plans = [plan for plan in self.table.plans if plan.place == "block" and plan.axis in needed]
        extents = [self.reach(plan) for plan in plans]
        b = region.builder
        counts = [b.count(e.ceildiv(p.tile)) for e, p in zip(extents, plans, strict=True)]
        total = b.product(counts)
        parts = self.parts(b) if self.table.split is not None else None
        cluster = self.table.cluster
        grid = total if parts is None else b.mul(total, parts)
        if cluster > 1:
            grid = b.mul(grid, b.const(cluster, "index"))
        with self.blocks(grid, region, [plan.axis for plan in plans], cluster) as (inner, block):
            body = inner.builder
            if cluster > 1:
                self.member = body.emit(WarpIndex(operator="cluster_rank")).result
                block = body.op("div", block, body.const(cluster, "index"))
            block = self.turn(body, block)
            if parts is not None:
                part, block = body.op("div", block, total, name="part"), body.op("rem", block, total)
            block = self.tile_of_turn(body, block, total, plans)
            tile = [Affine.of(digit.name) for digit in body.digits(block, counts[1:], [f"{plan.axis}0" for plan in plans[1:]])]
            for plan, digit in zip(plans, tile, strict=True):
                self.enter(plan, digit, inner)
            if parts is not None and self.table.split is not None:
                tiles = [e.ceildiv(p.tile) for e, p in zip(extents, plans, strict=True)]
                self.part = BlockPart(part, parts, self.table.split.parts, tile, tiles)
            if self.skewed is not None:
                self.stand_skewed(self.skewed, inner)
            self.in_block(group, inner, [p for e, p in zip(extents, plans, strict=True) if p is not self.skewed and p.is_ragged(e)])

    def reach(self, plan: AxisPlan) -> Affine:
        """The extent of an axis of blocks."""
        return self.field.axes[plan.axis]

    def stand_skewed(self, plan: AxisPlan, region: TileRegion) -> None:
        """Where the threads of a block stand that shift along an axis."""
        region.masks[plan.axis] = self.field.axes[plan.axis]
        self.skew = skew_of(self, plan, self.table.plans[-1], region)

    def blocks(self, count: Value, region: TileRegion, axes: Iterable[str], cluster: int = 1) -> "_Blocks":
        """`with self.blocks(...) as (inner, number):` a loop of `count` blocks, so many of them a cluster; the body is what each thread
        does."""
        return _Blocks(self, count, region, axes, cluster)

    def turn(self, b: Builder, number: Value) -> Value:
        """Which part of the work is the block's, of this number in the grid."""
        return number

    def tile_of_turn(self, b: Builder, number: Value, total: Value, plans: Sequence[AxisPlan]) -> Value:
        """Which tile of results comes at a turn: in the order of the axes."""
        return number

    def in_block(self, group: Sequence[Target], region: TileRegion, ragged: Sequence[AxisPlan]) -> None:
        """The block's part: without masks where its tiles lie inside. Products are masked as they are staged."""
        self.enter_once(region)
        if not ragged:
            self.as_far_as_needed(group, region)
            return
        axes = [plan.axis for plan in ragged]
        if any(isinstance(op, Contract) for op in self.field.body.body):
            region.masks.update({axis: self.field.axes[axis] for axis in axes})
            self.produce(group, region, {})
            return
        b = region.builder
        inside: Value | None = None
        for plan in ragged:
            fits = b.op("le", b.index(region.starts[plan.axis] + plan.tile), b.index(self.field.axes[plan.axis]))
            inside = b.both(inside, fits)
        assert inside is not None
        with b.branch(inside) as (yes, no, _):
            self.as_far_as_needed(group, region.inside(yes, axes))
            end = region.inside(no, axes)
            end.masks.update({axis: self.field.axes[axis] for axis in axes})
            self.produce(group, end, {})

    def as_far_as_needed(self, group: Sequence[Target], region: TileRegion) -> None:
        """The block's part. Where conditions leave something to do to the first of a row's registers alone, as before a diagonal, with code
        for these."""
        b, end = region.builder, end_of_needed(self, region)
        if end is None:
            self.produce(group, region, {})
            return
        conditions, plan, last = end
        begun, counts = self.begun, sorted({-(-plan.registers * quarter // 4) for quarter in range(1, 4)} - {plan.registers})
        with ExitStack() as branches:
            for count in counts:
                inside = b.op("lt", b.index(last), b.const(count * plan.lanes * plan.threads, "index"))
                then, b, _ = branches.enter_context(b.branch(inside))
                few, self.begun = region.inside(then, self.once), begun
                self.fewer[few] = conditions, InBounds(of=Affine.of(plan.digits()[0][0]), below=Affine.of(count))
                self.produce(group, few, {})
            self.begun = begun
            self.produce(group, region.inside(b, self.once), {})

    def make(self, op: Instruction, value: Value, region: TileRegion) -> Value:
        if isinstance(op, Select) and (load := self.left_out(op, value, region)) is not None:
            self.wanted[load] = self.value(op.condition, region)
            made = self.value(op.then, region)
            del self.wanted[load]
            return made
        made = super().make(op, value, region)
        if self.skew is not None and isinstance(made.source, Load) and self.skew.first.name in made.source.symbols:
            made.source.align = self.skew.bytes_of(made)
        conditions, few = self.fewer.get(region, ((), None))
        return made if few is None or value not in conditions else region.builder.op("and", made, region.builder.emit(few).result)

    def left_out(self, op: Select, value: Value, region: TileRegion) -> Load | None:
        """The load of narrow elements, several at a time, that are summed where a condition of their places holds: to leave others out of
        their words takes less time than to select each. None for all else."""
        load = op.then.source.value.source if isinstance(op.then.source, Cast) else op.then.source
        if not isinstance(load, Load) or load.where is not None or bytes_of(mem_of(load.mem).dtype) > NARROW:
            return None
        readers = [user for user in self.field.body.body if not {op.then, load.result, value}.isdisjoint(user.operand_values)]
        summed = guard_of(value) is op.condition and all(user in (op, op.then.source) or isinstance(user, Reduce) for user in readers)
        lanes = [axis for axis in self.field.axes if axis in self.table and self.plan(axis, region).lanes > 1]
        steps = {abs(form.coefficient(axis)) for form in constraints_of(op.condition) or () for axis in lanes}
        return load if summed and op.condition not in region.certain | region.refuted and max(steps, default=2) <= 1 else None

    def marks(self, plan: AxisPlan) -> dict[str, Any]:
        """Wide accesses of several registers are enough in flight: unrolling would only cost blocks their registers."""
        if (turns := turns_of(self.field, plan.axis)) is not None:
            return {"unroll": turns or True}
        if plan.axis in self.table.written_out:
            return {"unroll": True}
        return {"unroll": 1} if plan.registers > 1 and any(axis_plan.lanes > 1 for axis_plan in self.table.plans) else {}

    def enter_once(self, region: TileRegion) -> None:
        """Axes of which the block has the whole: their values are computed once, and stay in registers from one reduction to the next."""
        for axis in self.once:
            plan, extent = self.table[axis], self.field.axes[axis]
            self.enter(plan, Affine() if self.member is None else Affine.of(self.member.name), region)
            if extent.value != plan.tile * self.table.cluster:
                region.masks[axis] = extent
        region.axes |= self.once

    def inside(self, axis: str, region: TileRegion) -> Value:
        """As in all tiles; where the lanes of a vector are inside or outside together, one condition for all of them."""
        form, below = region.forms[axis], region.masks[axis]
        lanes = self.out.function.axes[SIMD].value if SIMD in form.names else None
        if lanes is not None and form.without(SIMD).divisor % lanes == 0 and below.divisor % lanes == 0:
            form = form.without(SIMD)
        return region.builder.inbounds(form, below)

    def read_where(self, op: Load, region: TileRegion, copied: int = 1) -> Value | None:
        """Where an element is needed, too: a vector by what is known of its block, single elements by where they stand themselves, unless
        they are so short that the condition takes longer than what it saves. `copied`: how many a copy brings that begins there."""
        b = region.builder
        where = b.both(super().read_where(op, region), self.wanted[op]) if op in self.wanted else super().read_where(op, region)
        wide = any(SIMD in self.form(form, region).names for form in op.index)
        if copied > 1 or not (wide or bytes_of(mem_of(op.mem).dtype) >= WORD):
            return where
        own_names = {name for form in op.index for name in form.names} | {parameter.name for parameter in self.field.parameters}
        known = {form for condition in region.certain for form in bounds_of_condition(condition) or ()}
        for form in sorted(self.needed.get(op.result, frozenset()) - known, key=str):
            if not wide and not own_names.issuperset(form.names):
                continue
            own = self.form(form, region)
            step = own.coefficient(SIMD)
            lanes = self.out.function.axes[SIMD].value if step else 1
            own = own.without(SIMD) + max(0, step) * ((lanes or 1) - 1)
            if SIMD not in own.names:
                where = b.both(where, b.op("ge", b.index(own), b.const(0, "index")))
        return where

    # ---- targets ----

    def stored_where(self, target: Store, axes: Sequence[str], region: TileRegion) -> Value | None:
        """Which elements of a tile are stored; None for all of them."""
        where, b = self.mask(region, axes, target.where), region.builder
        if self.skewed is None or self.skewed.axis not in axes:
            return where
        last = b.const(self.skewed.threads - 1, "index")
        return b.both(where, b.op("lt", self.threads[self.skewed.dim], last))

    def finish_target(self, target: Target, region: TileRegion, result: dict[Target, list[Value]], begun: bool) -> None:
        if (target, region) in self.finished:
            return
        if not isinstance(target, Store) or not self.threads or region.parent is None:
            super().finish_target(target, region, result, begun)
            return
        b = region.builder
        axes = [axis for axis, _ in self.scope.axes_of(*target.index) if axis in self.table]
        self.require_distinct(axes)
        where = self.one_of(self.idle(axes), b, self.stored_where(target, axes, region))
        if self.member is not None and self.once.isdisjoint(axes):
            first = b.op("eq", self.member, b.const(0, "index"))
            where = b.both(where, first)
        b.store(region.known(target.mem), self.value(target.value, region), self.index(target.index, target.mem, region), where)

    def identity(self, target: Reduce | Contract, region: TileRegion) -> list[Value]:
        self.require_distinct(sorted(self.target_axes(target), key=self.table.order))
        if isinstance(target, Reduce) and is_joined(target):
            return nothing_joined(self, target, region)
        if isinstance(target, Reduce) and counts_turns(self, target):
            return nothing_found(self, target, region)
        return super().identity(target, region)

    def accumulate(self, target: Reduce | Contract, accumulators: list[Value], region: TileRegion) -> list[Value]:
        if isinstance(target, Reduce) and is_joined(target):
            return tile_joined(self, target, accumulators, region)
        if isinstance(target, Reduce) and self.brings_all(target, region):
            return self.brought(target, region)
        if isinstance(target, Reduce) and counts_turns(self, target):
            return best_so_far(self, target, accumulators, region)
        if isinstance(target, Reduce) and (early := self.early(target, region)):
            brought = self.combine_along(target, self.brought(target, region), early, region)
            return self.combined(target, accumulators, brought, region.builder)
        return super().accumulate(target, accumulators, region)

    def digits_of(self, target: Reduce, region: TileRegion) -> tuple[tuple[str, int], ...]:
        early = self.early(target, region)
        return tuple(digit for digit in super().digits_of(target, region) if digit[0] not in early)

    def early(self, target: Reduce, region: TileRegion) -> list[str]:
        """The digits along which a turn combines what it brings to columns, since registers don't hold an accumulator for each."""
        if is_joined(target) or counts_turns(self, target) or not self.once.isdisjoint(target.over):
            return []
        over = self.tile_axes((axis for axis in target.over if axis in self.table), region)
        own = prod(extent for _, extent in self.tile_axes(self.axes(target.values) - {*target.over}, region))
        words = sum(max(1, bytes_of(dtype_of(value)) // WORD) for value in target.values)
        many = own > 1 and own * words * prod(extent for _, extent in over) > MOST_SUMS
        return [name for name, _ in over] if many else []

    def brings_all(self, target: Reduce, region: TileRegion) -> bool:
        """Whether a reduction is of one tile whose elements are all its own: nothing needs to be there before."""
        digits = {name for name, _ in self.tile_axes(target.over, region)}
        varying = [{name for name, _ in self.tile_axes(self.axes([value]), region)} for value in target.values]
        return self.once.issuperset(target.over) and all(digits <= names for names in varying)

    def combine_digits(self, target: Reduce | Contract, accumulators: list[Value], region: TileRegion) -> list[Value]:
        if isinstance(target, Reduce) and counts_turns(self, target):
            accumulators = indexed(self, target, accumulators, region)
        values = accumulators
        if not is_joined(target) and not (isinstance(target, Reduce) and self.early(target, region)):
            values = super().combine_digits(target, accumulators, region)
        dims = {self.table[axis].dim: self.table[axis].threads for axis in target.over if self.table[axis].threads > 1}
        if dims and not self.threads:
            raise NotPlaceable("a reduction by threads, and no block stands around it")
        if self.skew is not None:
            return combine_skewed(self, target, values, self.skew, region.builder)
        if self.member is None or self.once.isdisjoint(target.over):
            return combine_over_threads(self, target, values, sorted(dims), region.builder, region.depth)
        return combine_over_cluster(self, target, values, sorted(dims), region.builder)

    def combined(self, target: Target, left: list[Value], right: list[Value], b: Builder) -> list[Value]:
        if isinstance(target, Reduce) and is_joined(target):
            return joined(b, target, left, right)
        return super().combined(target, left, right, b)

    # ---- values ----

    def value(self, value: Value, region: TileRegion) -> Value:
        """As in all tiles; a value that other threads of the block have is passed on through shared memory."""
        known = self.lookup(value, region)
        if known is None and value in self.left:
            home = region
            while home.parent is not None and home.parent.parent is not None:
                home = home.parent
            home.made[value] = home.builder.load(self.left[value], [0])
            return home.made[value]
        if known is None:
            return super().value(value, region)
        existing, home = known
        axes = [axis for axis in sorted(self.axes([value]), key=self.table.order) if self.table[axis].tile > 1]
        if all(home.forms.get(axis) == region.forms.get(axis) for axis in axes):
            return existing
        passed = self.passed.get((value, home))
        if passed is None:
            passed = self.passed[value, home] = self.pass_on(value, existing, axes, home)
        region.made[value] = region.builder.load(passed, [region.forms[axis] - region.starts[axis] for axis in axes])
        return region.made[value]

    def one_loop(self, loop: TileLoop, region: TileRegion, result: Accumulators) -> list[Value]:
        if self.skew is not None and self.skew.columns.axis in region.masks:
            region = region.inside(region.builder, ())
            region.forms |= self.skew.forms()
            del region.masks[self.skew.columns.axis]
        return super().one_loop(loop, region, result)

    # ---- reductions that blocks share ----

    def share_of_blocks(
        self, plan: AxisPlan, part: BlockPart, group: Sequence[Target], region: TileRegion
    ) -> list[tuple[Summed, list[Value]]]:
        """What the block's tiles make: every so many, since what blocks read at a time should lie together. Which ones they are depends on
        sizes alone."""
        b = region.builder
        extent = self.field.axes[plan.axis]
        full, end = b.index(extent.floordiv(plan.tile)), b.index(extent.ceildiv(plan.tile))
        ahead = b.op("max", b.sub(full, part.number), b.const(0, "index"))
        after = b.index(Affine.of(part.number.name) + Affine.of(ahead.name).ceildiv(part.most) * part.most, "after")
        parts = [(part.number, full, False), (after, end, True)]
        carrying = [t for t in group if isinstance(t, Reduce | Contract)]
        own: dict[Target, list[Value]] = {t: self.identity(t, region) for t in carrying}
        for low, high, ragged in parts if plan.is_ragged(extent) else parts[:1]:
            loop = TileLoop(plan, Affine.of(low.name), Affine.of(high.name), ragged, group, carrying, step=part.most)
            self.one_loop(loop, region, own)
        return [(t, self.combine_digits(t, own[t], region)) for t in carrying]

    def whole(self, plan: AxisPlan, group: Sequence[Target], region: TileRegion) -> None:
        """A reduction of everything, shared by all blocks, whose parts the last of them joins; there is one block where blocks don't see
        each other's writes. What something else than a result reads is left in a memory of one element."""
        b = region.builder
        tiles = b.index(self.field.axes[plan.axis].ceildiv(plan.tile), "tiles")
        most = CHUNKS if self.table.machine.has(Feature.BLOCK_ORDER) else 1
        count = b.op("max", b.op("min", tiles, b.const(most, "index")), b.const(1, "index"))
        with self.blocks(count, region, ()) as (inner, number):
            part = BlockPart(number, count, most)
            with in_last_block(self, part, self.share_of_blocks(plan, part, group, inner), inner) as last:
                rest = self.last_words(group, region, last)
                for value in (value for target in group for value in target.results if rest.intersection(reading(self, [value])[1])):
                    self.left[value] = self.workspace(("box", value), Mem(dtype_of(value), (1,), align=64))
                    last.builder.store(self.left[value], last.made[value], [0], self.one_of(range(len(self.threads)), last.builder))
        self.behind |= reading(self, list(self.left))[0]

    def last_words(self, group: Sequence[Target], region: TileRegion, last: TileRegion) -> set[Target]:
        """The results that wait for nothing but the group, finished in the last block; the other targets that read the group."""
        behind, readers = reading(self, [result for target in group for result in target.results])
        self.resting[last] = behind
        for target in [op for op in self.field.body.body if op in readers]:
            alone = isinstance(target, Store) and target.mem not in self.sources and self.target_axes(target) <= region.looped
            if alone and set(self.prerequisites(target, region)) <= set(group):
                self.finish_target(target, last, {}, begun=False)
                self.finished.add((target, region))
        return {target for target in readers if (target, region) not in self.finished}

    def parts(self, b: Builder) -> Value:
        """How many blocks share each tile of results."""
        split = self.table.split
        assert split is not None
        tiles = b.index(self.field.axes[split.axis].ceildiv(self.table[split.axis].tile), "tiles")
        return b.op("max", b.op("min", tiles, b.const(split.parts, "index")), b.const(1, "index"))

    def part_of(self, part: BlockPart, plan: AxisPlan, group: Sequence[Target], region: TileRegion) -> None:
        """The block's part of reductions that several blocks share; the last of them finishes all results of the tile."""
        if any(isinstance(target, Store) for target in group):
            raise NotPlaceable("blocks share a reduction beside something else")
        totals = self.share_of_blocks(plan, part, group, region)
        with in_last_block(self, part, totals, region) as last:
            if self.last_words(group, region, last):
                raise NotPlaceable("blocks share a reduction that is read again")

    def prerequisites(self, target: Target, region: TileRegion) -> list[Target]:
        if (target, region) in self.finished:
            return []
        return [op for op in super().prerequisites(target, region) if not self.left.keys() >= set(op.results) or not op.results]

    def reads_local(self, op: Instruction, home: TileRegion) -> bool:
        return super().reads_local(op, home) or not self.resting.get(home, set()).isdisjoint(op.results)

    def loop_over(
        self, axis: str, group: Sequence[Target], region: TileRegion, result: dict[Target, list[Value]], state: dict[Target, list[Value]]
    ) -> None:
        plan = self.table[axis]
        carrying = [t for t in group if isinstance(t, Reduce | Contract)]
        if self.part is not None and self.table.split is not None and axis == self.table.split.axis:
            self.part_of(self.part, plan, group, region)
            return
        if region.parent is None and plan.place != "block" and carrying:
            raise NotPlaceable("a whole reduction along an axis that lies within blocks")
        if region.parent is not None or plan.place != "block" or not carrying:
            super().loop_over(axis, group, region, result, state)
            return
        if any(isinstance(t, Store) for t in group) or any(set(self.target_axes(t)) - set(t.over) for t in carrying):
            raise NotPlaceable("a whole reduction beside something else")
        self.whole(plan, group, region)


class _Blocks:
    """A launch being built: the loop over its blocks, and the thread's place."""

    def __init__(self, placing: Distributing, count: Value, region: TileRegion, axes: Iterable[str], cluster: int) -> None:
        self.placing, self.region, self.axes = placing, region, axes
        table = placing.table
        marks: dict[str, Any] = {} if table.resident is None else {"resident": table.resident}
        if cluster > 1:
            marks["cluster"] = cluster
        self.context = region.builder.loop("block", 0, count.name, place="block", threads=table.threads, **marks)

    def __enter__(self) -> tuple[TileRegion, Value]:
        body, loop = self.context.__enter__()
        self.placing.body, self.placing.memories, self.placing.passed = body, {}, {}
        self.placing.stand(body)
        inside = self.region.inside(body, self.axes)
        self.placing.resting[inside] = self.placing.behind
        return inside, loop.variable

    def __exit__(self, *error: object) -> None:
        self.placing.threads, self.placing.member, self.placing.begun, self.placing.skew = [], None, False, None
        self.context.__exit__(*error)  # type: ignore[arg-type]
