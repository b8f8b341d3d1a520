"""Sums of products on the warpgroups of sm_90a. One warpgroup of a block copies boxes of both operands into a ring of stages in shared
memory, others multiply what has arrived, 64 rows each, and keep the sums in registers; what follows the sum is computed on these. The
blocks stay: each takes one tile after the other, so that copies for the next begin while the last is stored.

The way of working is the warp-specialised one of NVIDIA's CUTLASS (persistent, ping stages by mbarriers); what is multiplied, its layouts
and all that follows come from the field."""

from collections.abc import Callable, Iterable, Sequence
from itertools import product as choices

from compiler.hir.affine import Affine, AffineLike
from compiler.hir.build import Builder
from compiler.hir.gpu import ClusterSync, Fence, SyncThreads, WarpIndex
from compiler.hir.hopper import (
    WARPGROUP_KINDS,
    BulkWait,
    SetMaxRegisters,
    WarpgroupCommit,
    WarpgroupFence,
    WarpgroupWait,
)
from compiler.hir.instruction import Value
from compiler.hir.memory import Store
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile
from compiler.schedule.gpu.boxed_tiles import BoxedTiles, multiply
from compiler.schedule.gpu.distribute import Distributing
from compiler.schedule.gpu.indices import banded, lane_index, small, small_digits, thread_index, warp_index
from compiler.schedule.gpu.stage_ring import StageRing, TileTurns, initialise
from compiler.schedule.gpu.warpgroup import MultiplyingWarpgroup
from compiler.schedule.gpu.warpgroup_border import Border
from compiler.schedule.gpu.warpgroup_operands import LOW_SCALE, WarpgroupProduct
from compiler.schedule.gpu.warpgroup_results import result_boxes, store_boxes
from compiler.schedule.gpu.warpgroup_rounds import CutRounds, Leftovers, RoundPart, Rounds
from compiler.schedule.gpu.warpgroup_split import ClusterSums
from compiler.schedule.gpu.warpgroup_tiles import FEW_SUMS, WARPGROUP, TileRequests, digit
from compiler.schedule.region import NotPlaceable, Target, TileRegion
from compiler.schedule.table import AxisPlan, Table
from runtime.records import evolve

BAND = 2048
"""Rows that are taken together, so that what they read stays in the L2 cache."""
REGISTERS = 40, 232
"""Of a thread that copies, and of one that multiplies."""


class WarpgroupDistributing(Distributing):
    """Builds the one launch of such a field."""

    def __init__(self, field: HirFunction, product: WarpgroupProduct) -> None:
        axes = [*product.a.axes, product.b.axis]
        batch = [axis for axis in product.varying(field) if axis not in axes]
        plans = [AxisPlan(axis, "block") for axis in (*batch, *axes)] + [AxisPlan(axis) for axis in (*product.outer, product.sum)]
        super().__init__(field, Table(plans, block=(WARPGROUP * (product.tiling.warpgroups + 1),)))
        self.product, self.batch, self.own = product, batch, axes
        self.rank = Affine()
        """The block's, in its cluster."""

    def run(self) -> HirFunction:
        function = super().run()
        if self.product.tiling.warpgroups > 1 and function.kernel_info is not None:
            # what a program says of registers is for those that multiply
            function.kernel_info = evolve(function.kernel_info, max_registers=None)
        return function

    def idle(self, axes: Iterable[str]) -> list[int]:
        """Every thread that multiplies has elements of its own."""
        return []

    def shared_out(self, group: Sequence[Target], region: TileRegion) -> None:
        product = self.product
        if any(self.target_axes(target) != {*self.own, *self.batch} for target in group):
            raise NotPlaceable("a result that doesn't vary along all axes of a product")
        b = region.builder
        extents = [self.field.axes[axis] for axis in self.batch]
        for side in product.sides:
            extents += [self.field.axes[axis].ceildiv(tile) for axis, tile in zip(side.axes, side.tile, strict=True)]
        extents[len(self.batch)] = self.field.axes[product.a.axes[0]].ceildiv(product.a.tile[0] * product.tiling.cluster)
        counts = [b.index(extent) for extent in extents]
        total = b.op("max", counts[0], b.const(0, "index"))
        for count in counts[1:]:
            total = b.mul(total, b.op("max", count, b.const(0, "index")))
        teams = b.const(product.teams, "index")
        resident = b.op("min", b.mul(total, teams) if product.tiling.cut else total, teams)
        if product.together > 1:
            resident = b.mul(resident, b.const(product.together, "index"))
        self.split = ClusterSums(b, product)
        self.leftovers = Leftovers(b, product) if product.tiling.cut else None
        with self.blocks(resident, region, (), cluster=product.together) as (inner, block):
            if product.together > 1:
                self.rank = Affine.of(inner.builder.emit(WarpIndex(operator="cluster_rank")).result.name)
                block = small(inner.builder, "div", block, inner.builder.const(product.together, "index"))
            self.roles(group, inner, block, total, counts)

    def roles(self, group: Sequence[Target], region: TileRegion, block: Value, total: Value, counts: Sequence[Value]) -> None:
        b, product = region.builder, self.product
        depth, count = product.depth, product.tiling.stages
        self.stages = {side: BoxedTiles(b, side, count, side.tile, product.sum, depth) for side in product.copied}
        ring = StageRing(b, count, product.tiling.groups, product.tiling.cluster)
        self.turns_of_tiles = TileTurns(b) if product.tiling.turns > 1 else None
        thread = thread_index(b)
        first = b.op("eq", thread, b.const(0, "index"))
        self.border = Border(b, product)
        with b.when(first) as once:
            initialise(once, [*ring.counts(), *(self.turns_of_tiles.counts() if self.turns_of_tiles is not None else ())], together=True)
            self.border.begin(once)
            self.split.begin(b, once)
        b.emit(SyncThreads())
        if product.together > 1:
            b.emit(ClusterSync(writes=False))
        steps = b.index(self.field.axes[product.sum].ceildiv(product.depth), "steps")
        for axis in product.outer:
            steps = b.mul(steps, b.count(self.field.axes[axis]))
        first_step = b.const(0, "index")
        if product.tiling.pieces > 1:
            first_step, steps = self.split.range(b, steps, self.rank)
        self.rounds: Rounds | CutRounds
        if product.tiling.cut:
            self.rounds = CutRounds(b, product, block, total, steps)
        else:
            self.rounds = Rounds(b, product, block, total, first_step, steps)
        with b.branch(b.op("lt", thread, b.const(WARPGROUP, "index"))) as (copying, multiplying, _):
            wished = TileRequests.of(self.field.kernel_info).registers
            if product.tiling.warpgroups > 1 and (wished or product.sums > FEW_SUMS):
                few, many = REGISTERS
                copying.emit(SetMaxRegisters(direction="dec", registers=few))
                multiplying.emit(SetMaxRegisters(direction="inc", registers=wished or many))
            with copying.when(first) as leading:
                self.tiles(leading, region, (0, 1), counts, lambda inner, part: self.copied(inner, part, ring))
            number = Affine.of(thread.name)
            leader = multiplying.op("eq", multiplying.index(number % WARPGROUP), multiplying.index(0))
            self.warpgroup = MultiplyingWarpgroup(self.field, product, self.rank, leader)

            def multiplied(inner: TileRegion, part: RoundPart) -> None:
                self.multiplied(inner, part, block, ring, group)

            who = warp_index(multiplying).floordiv(4) + -1
            own = multiplying.index(who).name if product.tiling.turns > 1 else 0
            self.tiles(multiplying, region, (own, product.tiling.turns), counts, multiplied)
            with multiplying.when(leader) as last:
                last.emit(BulkWait(count=0, read=True))
        if product.together > 1:
            # what others send must find this block's memory
            b.emit(ClusterSync(writes=False))

    def tiles(
        self,
        b: Builder,
        region: TileRegion,
        rounds: tuple[AffineLike, int],
        counts: Sequence[Value],
        work: Callable[[TileRegion, RoundPart], None],
    ) -> None:
        """The block's tiles in turn, those of these rounds: every so many, in bands of rows."""
        product = self.product
        first, step = rounds
        with b.loop("round", first, self.rounds.count.name, step) as (body, loop):
            inner = region.inside(body, (*self.own, *self.batch))
            part = self.rounds.part(body, loop.variable)
            number = part.tile
            along, across = counts[len(self.batch) : -1], counts[-1]
            down = body.product(along)
            matrix = small(body, "rem", number, body.mul(down, across))
            rest = small(body, "div", number, body.mul(down, across))
            for axis, digit in zip(self.batch, small_digits(body, rest, counts[: len(self.batch)])[1:], strict=True):
                inner.forms[axis] = inner.starts[axis] = Affine.of(digit.name)
            row, column = banded(body, matrix, down, across, max(1, BAND // (product.rows * product.tiling.cluster)))
            row, *starts = small_digits(body, row, along[1:])
            for axis, start, tile in zip(product.a.axes[1:], starts, product.a.tile[1:], strict=True):
                inner.starts[axis] = Affine.of(start.name) * tile
            first = Affine.of(row.name) * product.tiling.cluster + (self.rank if product.tiling.cluster > 1 else 0)
            inner.starts[product.a.axes[0]] = first * product.a.tile[0]
            inner.starts[product.b.axis] = Affine.of(column.name) * product.columns
            work(inner, part)

    # ---- copying ----

    def copied(self, region: TileRegion, part: RoundPart, ring: StageRing) -> None:
        b, product = region.builder, self.product
        walked = [b.index(self.field.axes[axis]) for axis in product.outer]
        walked.append(b.index(self.field.axes[product.sum].ceildiv(product.depth)))
        with b.loop("copy", 0, part.steps.name, carried=[*ring.place(b, part.done), *self.digits_of(b, part.low, walked)]) as (body, loop):
            at, parity, *places = loop.carried
            stage = Affine.of(at.name)
            ring.fill(body, stage, parity, sum(tile.bytes for tile in self.stages.values()))
            inner = region.inside(body, (*product.outer, product.sum))
            inner.forms.update({axis: region.starts[axis] for axis in self.own})
            *outer, piece = places
            inner.forms.update({axis: Affine.of(variable.name) for axis, variable in zip(product.outer, outer, strict=True)})
            inner.forms[product.sum] = Affine.of(piece.name) * product.depth
            for side, tiles in self.stages.items():
                # blocks of a cluster have the same columns
                share = (self.rank, product.tiling.cluster if side.axes == product.b.axes else 1)
                tiles.load(self, inner, stage, ring.full, stage, share, product.rounded)
            body.yield_(*ring.next(body, at, parity), *counted_on(body, places, walked))

    def digits_of(self, b: Builder, low: Value, walked: Sequence[Value]) -> list[Value]:
        """The first step's place along each axis of the sum."""
        if self.product.tiling.pieces == 1 and not self.product.tiling.cut:
            return [b.const(0, "index") for _ in walked]
        return small_digits(b, low, walked[1:])

    # ---- multiplying ----

    def multiplied(self, region: TileRegion, part: RoundPart, team: Value, ring: StageRing, targets: Sequence[Target]) -> None:
        b, product = region.builder, self.product
        pair, eight = self.out.axis("column0", 2), self.out.axis("column1", product.columns // 8)
        own = self.out.axis("column2", product.width // 8) if product.tiling.pieces > 1 else eight
        half = self.out.axis("row0", 2)
        who = warp_index(b)
        group = self.warpgroup
        group.team, group.digits = who.floordiv(4) + -1, (pair, own, half)
        sums = Tile(product.to, ((pair, 2), (eight, product.columns // 8), (half, 2)))
        zero = b.const(0.0 if product.to == "f32" else 0, sums)
        if self.turns_of_tiles is not None:
            self.turns_of_tiles.await_turn(b, group.team, part.round)
        if product.stretch:
            complete = self.stretches(b, part.done, part.steps, zero, ring)
        else:
            complete = self.summed(b, part.done, part.steps, [zero] * product.accumulators, ring)
        if product.tiling.pieces > 1:
            complete = self.split.joined(group, b, team, part.round, complete, eight, own)
        if self.leftovers is None:
            self.finished_sums(region, b, part, complete, targets)
            return
        assert isinstance(self.rounds, CutRounds)
        with b.branch(b.op("gt", part.low, b.const(0, "index"))) as (leaving, finishing, _):
            self.leftovers.leave(group, leaving, self.rounds, complete)
            complete = self.leftovers.added(group, finishing, self.rounds, part, complete)
            self.finished_sums(region, finishing, part, complete, targets)

    def finished_sums(self, region: TileRegion, b: Builder, part: RoundPart, complete: Sequence[Value], targets: Sequence[Target]) -> None:
        """What follows the sums, of each block of rows."""
        product, group = self.product, self.warpgroup
        pair, own, half = group.digits
        who = warp_index(b)
        lane = lane_index(b)
        column = group.first_column + (lane % 4) * 2 + Affine.of(own) * 8 + pair
        for group.block in range(product.tiling.blocks):
            row = b.index(group.first_row(group.block) + (who % 4) * 16 + lane.floordiv(4))
            places = [digit(Affine.of(row.name), size, extent, product.rows, [(half, 8)]) for _, size, extent in product.a.digits]
            inner = group.at(region, b, places, column)
            for number, one in enumerate(product.summed, group.block * len(product.summed)):
                inner.made[one.target.results[0]] = complete[number]
            if product.may_repair:
                wrong = self.border.noted(group, complete[group.block], part.round, b)
            self.produce(targets, inner, {})
            if product.may_repair:
                with b.when(wrong) as again:
                    self.border.repaired(self, group, targets, region, part.round, again)

    def summed(self, b: Builder, done: Value, steps: Value, begun: Sequence[Value], ring: StageRing) -> list[Value]:
        """The sums of the products of so many stages, after so many turns of the ring: of each block of rows, for each sum that a ring's
        operands make. They are added to those that have begun; of a stretch, whose begin is those of the stretch before, they take their
        place."""
        product, group, leader = self.product, self.warpgroup, self.warpgroup.leader
        kind = WARPGROUP_KINDS[product.a.mem.dtype]
        begin = ring.place(b, done)
        with b.loop("step", 0, steps.name, carried=[*begin, begin[0], *begun]) as (body, loop):
            at, parity, earlier, *totals = loop.carried
            stage = Affine.of(at.name)
            ring.await_full(body, stage, parity)
            body.emit(WarpgroupFence())
            always = body.const(True, "i1")
            later = body.op("gt", loop.variable, body.const(0, "index")) if product.stretch else always
            for sum, pairs in enumerate(product.pairs):
                for part, pair, block in choices(range(0, product.depth, kind.depth), pairs, range(product.tiling.blocks)):
                    number = block * len(product.pairs) + sum
                    left, right = (self.stages[side] for side in pair)
                    factors = left.factor(stage, group.first_row(block), part), right.factor(stage, Affine(), part)
                    keep = later if part == 0 and pair is pairs[0] else always
                    totals[number] = multiply(body, totals[number], *factors, product.columns, kind.depth, keep)
            body.emit(WarpgroupCommit())
            waited = body.emit(WarpgroupWait(values=tuple(totals), count=1)).results
            before = body.op("and", leader, body.op("gt", loop.variable, body.const(0, "index")))
            with body.when(before) as freeing:
                ring.free(freeing, Affine.of(earlier.name))
            body.yield_(*ring.next(body, at, parity), at, *waited)
        _, _, last, *totals = loop.results
        if self.turns_of_tiles is not None:
            with b.when(leader) as passing:
                self.turns_of_tiles.pass_turn(passing, group.team)
        complete = b.emit(WarpgroupWait(values=tuple(totals), count=0)).results
        # the assembler moves what reads the sums above the wait where it is short of registers, but nothing above a fence
        b.emit(Fence(scope="block"))
        with b.when(b.op("and", leader, b.op("gt", steps, b.const(0, "index")))) as freeing:
            ring.free(freeing, Affine.of(last.name))
        return complete

    def stretches(self, b: Builder, done: Value, steps: Value, zero: Value, ring: StageRing) -> list[Value]:
        """The same, of stretches of the sum that are added up as floats are: tensor cores drop bits with every product. Warpgroups of a
        tile end theirs at different steps: while one adds, the tensor cores have the other's products."""
        product, own, sums = self.product, len(self.product.summed), len(self.product.pairs)
        accumulators = product.accumulators
        early = self.warpgroup.team * (product.stretch // product.tiling.groups)
        turns = (Affine.of(steps.name) + early).ceildiv(product.stretch)
        with b.loop("stretch", 0, turns, carried=[zero] * (product.tiling.blocks * (own + sums))) as (body, loop):
            first = Affine.of(loop.variable.name) * product.stretch - early
            before = body.count(first)
            count = body.sub(body.op("min", body.index(first + product.stretch), steps), before)
            sums_ = self.summed(body, body.add(done, before), count, loop.carried[accumulators:], ring)
            last = [block * sums + number for block in range(product.tiling.blocks) for number in range(sums - own, sums)]
            totals = [body.add(total, sums_[number]) for total, number in zip(loop.carried[:accumulators], last, strict=True)]
            if product.low:
                scale = body.const(1 / LOW_SCALE, zero.type)
                totals = [body.fma(sums_[block * sums], scale, total) for block, total in enumerate(totals)]
            body.yield_(*totals, *sums_)
        return loop.results[:accumulators]

    # ---- storing ----

    def finish_target(self, target: Target, region: TileRegion, result: dict[Target, list[Value]], begun: bool) -> None:
        if isinstance(target, Store) and not self.border.repairing and (boxes := result_boxes(target, self.field, self.product)):
            store_boxes(self, self.warpgroup, target, boxes, region)
        else:
            super().finish_target(target, region, result, begun)


def counted_on(b: Builder, places: Sequence[Value], counts: Sequence[Value]) -> list[Value]:
    """The places one further, the last one fastest: digits of a number, without the divisions, which would take longer than the copies
    that wait for them."""
    digits: list[Value] = []
    over: Value | None = None
    for position, count in zip(reversed(places[1:]), reversed(counts[1:]), strict=True):
        further = b.add(position, b.const(1, "index"))
        further = further if over is None else b.select(over, further, position)
        over = b.op("eq", further, count)
        digits.append(b.select(over, b.const(0, "index"), further))
    first = b.add(places[0], b.const(1, "index"))
    return [first if over is None else b.select(over, first, places[0]), *reversed(digits)]
