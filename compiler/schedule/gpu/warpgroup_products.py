"""Sums of products on the warpgroups of sm_90a. One warpgroup of a block copies boxes of both operands into a ring of stages in shared
memory, others multiply what has arrived, 64 rows each, and keep the sums in registers; what follows the sum is computed on these. The
blocks stay: each takes one tile after the other, so that copies for the next begin while the last is stored.

The way of working is the warp-specialised one of NVIDIA's CUTLASS (persistent, ping stages by mbarriers); what is multiplied, its layouts
and all that follows come from the field."""

from collections.abc import Callable, Mapping, Sequence
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
from compiler.schedule.gpu.block_tiles import BlockTiles
from compiler.schedule.gpu.boxed_operands import BoxedOperand
from compiler.schedule.gpu.boxed_tiles import BoxedTiles, Factor, multiply
from compiler.schedule.gpu.indices import banded, counted_on, lane_index, small, small_digits, thread_index, warp_index
from compiler.schedule.gpu.matrix_blocks import MatrixBlocks
from compiler.schedule.gpu.stage_preparation import LOW_SCALE, RowsInRegisters, prepare
from compiler.schedule.gpu.stage_ring import StageRing, TileTurns, initialise
from compiler.schedule.gpu.taking_part import long_before_short, steps_between
from compiler.schedule.gpu.warpgroup import MultiplyingWarpgroup
from compiler.schedule.gpu.warpgroup_border import Border, BoundedSteps
from compiler.schedule.gpu.warpgroup_operands import FactorPair, WarpgroupProduct
from compiler.schedule.gpu.warpgroup_results import MovedSums, moved_sums, result_boxes, store_boxes
from compiler.schedule.gpu.warpgroup_rounds import AnyRounds, ClusterSums, CutRounds, Leftovers, RoundPart, Rounds, UnevenRounds
from compiler.schedule.gpu.warpgroup_tiles import FEW_SUMS, WARPGROUP, TileRequests, digit
from compiler.schedule.region import Target, TileRegion
from runtime.records import evolve, frozen


@frozen(eq=False)
class ProductBlock:
    """What the roles share: the block's `number` among those of its `rank` in a cluster; the stages of each operand, and the ring's
    barriers; which tiles come, and what is known of their sums elsewhere."""

    placing: BlockTiles
    product: WarpgroupProduct
    number: Value
    rank: Affine
    rounds: AnyRounds
    stages: Mapping[BoxedOperand, BoxedTiles]
    ring: StageRing
    turns: TileTurns | None
    border: Border
    split: ClusterSums
    leftovers: Leftovers | None


@frozen
class StageProduct:
    """Of 64 rows of a stage, from a term on, that is added to the sum of this number; whether it is the first that is."""

    number: int
    pair: FactorPair
    rows: int
    term: int
    is_first: bool


@frozen(eq=False)
class CopyingRole:
    block: ProductBlock

    def copied(self, region: TileRegion, part: RoundPart) -> None:
        """The copies of a tile's operands, stage after stage."""
        b, placing, block = region.builder, self.block.placing, self.block
        product, ring = block.product, block.ring
        walked = [b.index(placing.field.axes[axis]) for axis in product.outer]
        walked.append(b.index(placing.field.axes[product.sum].ceildiv(product.depth)))
        with b.loop("copy", 0, part.steps.name, carried=[*ring.place(b, part.done), *self.digits_of(b, part.low, walked)]) as (body, loop):
            at, parity, *places = loop.carried
            stage = Affine.of(at.name)
            ring.fill(body, stage, parity, sum(block.stages[side].bytes for side in product.copied))
            inner = region.inside(body, (*product.outer, product.sum))
            inner.forms.update({axis: region.starts[axis] for axis in (*product.a.axes, product.b.axis)})
            *outer, piece = places
            inner.forms.update({axis: Affine.of(variable.name) for axis, variable in zip(product.outer, outer, strict=True)})
            inner.forms[product.sum] = Affine.of(piece.name) * product.depth
            for side in product.copied:
                # blocks of a cluster have the same columns
                share = (block.rank, product.tiling.cluster if side.axes == product.b.axes else 1)
                block.stages[side].load(placing, inner, stage, ring.full, stage, share, product.rounded)
            body.yield_(*ring.next(body, at, parity), *counted_on(body, places, walked))

    def digits_of(self, b: Builder, low: Value, walked: Sequence[Value]) -> list[Value]:
        """The first step's place along each axis of the sum."""
        if self.block.product.tiling.pieces == 1 and not (self.block.product.tiling.cut or self.block.product.bounds):
            return [b.const(0, "index") for _ in walked]
        return small_digits(b, low, walked[1:])


@frozen(eq=False)
class MultiplyingRole:
    """`group`: where the thread stands; `targets`: what follows the sums."""

    block: ProductBlock
    group: MultiplyingWarpgroup
    targets: Sequence[Target]

    def multiplied(self, region: TileRegion, part: RoundPart) -> None:
        """A tile's sums, and what follows them."""
        b, block, out = region.builder, self.block, self.block.placing.out
        product = block.product
        pair, eight = out.axis("column0", 2), out.axis("column1", product.columns // 8)
        own = out.axis("column2", product.width // 8) if product.tiling.pieces > 1 else eight
        half = out.axis("row0", 2)
        who = warp_index(b)
        group = self.group
        group.team, group.digits = who.floordiv(4) + -1, (pair, own, half)
        sums = Tile(product.to, ((pair, 2), (eight, product.columns // 8), (half, 2)))
        zero = b.const(0.0 if product.to == "f32" else 0, sums)
        if block.turns is not None:
            block.turns.await_turn(b, group.team, part.round)
        bounded = BoundedSteps(block.placing, group, product, region, part.low) if product.bounds and not product.has_zeros else None
        if product.stretch:
            complete = self.stretches(region, b, part, zero)
        else:
            complete = self.summed(b, part.done, part.steps, [zero] * product.accumulators, bounded)
        if product.tiling.pieces > 1:
            complete = block.split.joined(group, b, block.number, part.round, complete, eight, own)
        if block.leftovers is None:
            self.finished_sums(region, b, part, complete)
            return
        assert isinstance(block.rounds, CutRounds)
        with b.branch(b.op("gt", part.low, b.const(0, "index"))) as (leaving, finishing, _):
            block.leftovers.leave(group, leaving, block.rounds, complete)
            complete = block.leftovers.added(group, finishing, block.rounds, part, complete)
            self.finished_sums(region, finishing, part, complete)

    def finished_sums(self, region: TileRegion, b: Builder, part: RoundPart, complete: Sequence[Value]) -> None:
        """What follows the sums, of each block of rows."""
        block, product, group, placing = self.block, self.block.product, self.group, self.block.placing
        for group.block in range(product.tiling.blocks):
            inner = self.standing(region, b)
            for number, one in enumerate(product.summed, group.block * len(product.summed)):
                inner.made[one.target.results[0]] = complete[number]
            if product.may_repair:
                wrong = block.border.noted(group, complete[group.block], part.round, b)
            if (moving := moved_sums(placing, group)) is not None:
                self.moved(region, b, complete[group.block], moving)
            else:
                placing.produce(self.targets, inner, {})
            if product.may_repair:
                with b.when(wrong) as again:
                    block.border.repaired(placing, group, self.targets, region, part.round, again)

    def standing(self, region: TileRegion, b: Builder) -> TileRegion:
        """The tile where the thread has sums of the warpgroup's block of rows."""
        group, product = self.group, self.block.product
        pair, own, half = group.digits
        lane = lane_index(b)
        column = group.first_column + (lane % 4) * 2 + Affine.of(own) * 8 + pair
        row = b.index(group.first_row(group.block) + (warp_index(b) % 4) * 16 + lane.floordiv(4))
        places = [digit(Affine.of(row.name), size, extent, product.rows, [(half, 8)]) for _, size, extent in product.a.digits]
        return group.at(region, b, places, column)

    def moved(self, region: TileRegion, b: Builder, complete: Value, moving: MovedSums) -> None:
        """What follows the sums of a block of rows, when other lanes have them."""
        product, group, placing = self.block.product, self.group, self.block.placing
        row = b.index(group.first_row(group.block) + moving.row(b))
        places = [digit(Affine.of(row.name), size, extent, product.rows, moving.further) for _, size, extent in product.a.digits]
        for part in moving.parts():
            inner = group.at(region, b, places, group.first_column + moving.column(b) + part)
            inner.made[product.target.results[0]] = moving.moved(b, complete, part)
            placing.produce(self.targets, inner, {})

    def summed(self, b: Builder, done: Value, steps: Value, begun: Sequence[Value], bounded: BoundedSteps | None = None) -> list[Value]:
        """The sums of the products of so many stages, after so many turns of the ring: of each block of rows, for each sum that a ring's
        operands make. They are added to those that have begun; of a stretch, whose begin is those of the stretch before, they take their
        place."""
        block, group, leader = self.block, self.group, self.group.leader
        product, ring = block.product, block.ring
        kind = WARPGROUP_KINDS[product.a.mem.dtype]
        begin = ring.place(b, done)
        with b.loop("step", 0, steps.name, carried=[*begin, begin[0], *begun]) as (body, loop):
            at, parity, earlier, *totals = loop.carried
            stage = Affine.of(at.name)
            ring.await_full(body, stage, parity)
            if bounded is not None:
                bounded.cleared(body, loop.variable, stage, block.stages)
            if product.tiling.makes_low:
                prepare(body, block.placing, group, stage, block.stages)
            always = body.const(True, "i1")
            later = body.op("gt", loop.variable, body.const(0, "index")) if product.stretch else always
            fetched = RowsInRegisters(body, block.placing, group, stage) if product.in_registers else None
            groups = self.products_of(kind.depth)
            for products, following in zip(groups, [*groups[1:], []], strict=True):
                left_factors = [self.left_factor(each, fetched, stage) for each in products]
                body.emit(WarpgroupFence())
                for each, left in zip(products, left_factors, strict=True):
                    right = block.stages[each.pair.b].factor(stage, Affine(), each.term)
                    keep = later if each.is_first else always
                    totals[each.number] = multiply(body, totals[each.number], left, right, product.columns, kind.depth, keep)
                body.emit(WarpgroupCommit())
                if fetched is not None:
                    for each in following:
                        fetched.begun(block.stages[each.pair.a], group.first_row(each.rows), each.term)
                totals = list(body.emit(WarpgroupWait(values=tuple(totals), count=1)).results)
            before = body.op("and", leader, body.op("gt", loop.variable, body.const(0, "index")))
            with body.when(before) as freeing:
                ring.free(freeing, Affine.of(earlier.name))
            body.yield_(*ring.next(body, at, parity), at, *totals)
        _, _, last, *totals = loop.results
        if block.turns is not None:
            with b.when(leader) as passing:
                block.turns.pass_turn(passing, group.team)
        complete = b.emit(WarpgroupWait(values=tuple(totals), count=0)).results
        # the assembler moves what reads the sums above the wait where it is short of registers, but nothing above a fence
        b.emit(Fence(scope="block"))
        with b.when(b.op("and", leader, b.op("gt", steps, b.const(0, "index")))) as freeing:
            ring.free(freeing, Affine.of(last.name))
        return complete

    def products_of(self, depth: int) -> list[list[StageProduct]]:
        """Those of a stage, so many terms deep each, of which each list is under way at a time: registers that rows come to are free when
        what reads them is done."""
        product = self.block.product
        terms, blocks = range(0, product.depth, depth), range(product.tiling.blocks)
        products = [
            StageProduct(rows * len(product.pairs) + sum, pair, rows, term, is_first=term == 0 and pair is pairs[0])
            for sum, pairs in enumerate(product.pairs)
            for term, pair, rows in choices(terms, pairs, blocks)
        ]
        return [[each for each in products if each.term == term] for term in terms] if product.in_registers else [products]

    def left_factor(self, each: StageProduct, fetched: RowsInRegisters | None, stage: Affine) -> Factor:
        """Of a product, in registers where rows come to those."""
        tiles, first = self.block.stages[each.pair.a], self.group.first_row(each.rows)
        return tiles.factor(stage, first, each.term) if fetched is None else fetched.factor(tiles, first, each.term, each.pair.left)

    def stretches(self, region: TileRegion, b: Builder, part: RoundPart, zero: Value) -> list[Value]:
        """The same, of stretches of the sum that are added up as floats are: tensor cores drop bits with every product. Warpgroups of a
        tile end theirs at different steps: while one adds, the tensor cores have the other's products. Stretches with a scale are its
        groups of terms."""
        product, done, steps = self.block.product, part.done, part.steps
        own, sums = len(product.summed), len(product.pairs)
        accumulators = product.accumulators
        early = self.group.team * (product.stretch // product.tiling.groups)
        if product.scale is not None:
            early = b.named(Affine.of(part.low.name) % product.stretch)
        turns = (Affine.of(steps.name) + early).ceildiv(product.stretch)
        with b.loop("stretch", 0, turns, carried=[zero] * (product.tiling.blocks * (own + sums))) as (body, loop):
            first = Affine.of(loop.variable.name) * product.stretch - early
            before = body.count(first)
            count = body.sub(body.op("min", body.index(first + product.stretch), steps), before)
            scales = self.scales(region, body, part, first) if product.scale is not None else []
            sums_ = self.summed(body, body.add(done, before), count, loop.carried[accumulators:])
            last = [block * sums + number for block in range(product.tiling.blocks) for number in range(sums - own, sums)]
            totals = [
                body.fma(sums_[number], scales[number], total) if scales else body.add(total, sums_[number])
                for total, number in zip(loop.carried[:accumulators], last, strict=True)
            ]
            if product.low:
                scale = body.const(1 / LOW_SCALE, zero.type)
                totals = [body.fma(sums_[block * sums], scale, total) for block, total in enumerate(totals)]
            body.yield_(*totals, *sums_)
        return loop.results[:accumulators]

    def scales(self, region: TileRegion, b: Builder, part: RoundPart, first: Affine) -> list[Value]:
        """What a stretch's sums are multiplied by, of each block of rows."""
        product, placing, scales = self.block.product, self.block.placing, list[Value]()
        assert product.scale is not None
        start = b.named((Affine.of(part.low.name) + first) * product.depth)
        for self.group.block in range(product.tiling.blocks):
            inner = self.standing(region, b).inside(b, (product.sum,))
            inner.forms[product.sum] = start
            scale, *others = (placing.value(value, inner) for value in product.scale.values)
            for other in others:
                scale = b.mul(scale, other)
            scales.append(scale)
        return scales


BAND = 2048
"""Rows that are taken together, so that what they read stays in the L2 cache."""
REGISTERS = {False: (40, 232), True: (24, 240)}
"""Of a thread that copies, and of one that multiplies, by whether this has rows in registers."""


class WarpgroupDistributing(MatrixBlocks):
    def __init__(self, field: HirFunction, product: WarpgroupProduct) -> None:
        own, walked = (*product.a.axes, product.b.axis), (*product.outer, product.sum)
        # with rows in registers the assembler lets roles hand registers to each other only where it knows with how many all begin
        resident = product.tiling.residents if product.in_registers else None
        super().__init__(field, own, walked, WARPGROUP * (product.tiling.warpgroups + 1), resident=resident)
        self.product = product
        self.multiplying: MultiplyingRole | None = None
        """The role whose code is built."""

    def run(self) -> HirFunction:
        function = super().run()
        if self.product.tiling.warpgroups > 1 and function.kernel_info is not None:
            # what a program says of registers is for those that multiply
            function.kernel_info = evolve(function.kernel_info, max_registers=None)
        return function

    def tiles_of_blocks(self, group: Sequence[Target], region: TileRegion) -> None:
        b, product = region.builder, self.product
        extents = [self.field.axes[axis] for axis in self.batch]
        for side in product.sides:
            extents += [self.field.axes[axis].ceildiv(tile) for axis, tile in zip(side.axes, side.tile, strict=True)]
        extents[len(self.batch)] = self.field.axes[product.a.axes[0]].ceildiv(product.a.tile[0] * product.tiling.cluster)
        counts = [b.index(extent) for extent in extents]
        total = b.op("max", counts[0], b.const(0, "index"))
        for count in counts[1:]:
            total = b.mul(total, b.op("max", count, b.const(0, "index")))
        teams = b.const(product.teams, "index")
        resident = total if product.bounds else b.op("min", b.mul(total, teams) if product.tiling.cut else total, teams)
        if product.together > 1:
            resident = b.mul(resident, b.const(product.together, "index"))
        split, leftovers, rank = ClusterSums(b, product), Leftovers(b, product) if product.tiling.cut else None, Affine()
        with self.blocks(resident, region, (), cluster=product.together) as (inner, block):
            if product.together > 1:
                rank = Affine.of(inner.builder.emit(WarpIndex(operator="cluster_rank")).result.name)
                block = small(inner.builder, "div", block, inner.builder.const(product.together, "index"))
            self.roles(group, inner, block, rank, total, counts, split, leftovers)

    def roles(
        self,
        group: Sequence[Target],
        region: TileRegion,
        number: Value,
        rank: Affine,
        total: Value,
        counts: Sequence[Value],
        split: ClusterSums,
        leftovers: Leftovers | None,
    ) -> None:
        b, product, tiling = region.builder, self.product, self.product.tiling
        stages = {side: BoxedTiles(b, side, tiling.stages, side.tile, product.sum, product.depth) for side in product.staged}
        ring = StageRing(b, tiling.stages, tiling.groups, tiling.cluster)
        turns = TileTurns(b) if tiling.turns > 1 else None
        thread = thread_index(b)
        first = b.op("eq", thread, b.const(0, "index"))
        border = Border(b, product)
        with b.when(first) as once:
            initialise(once, [*ring.counts(), *(turns.counts() if turns is not None else ())], together=True)
            border.begin(once)
            split.begin(b, once)
        b.emit(SyncThreads())
        if product.together > 1:
            b.emit(ClusterSync(writes=False))
        rounds = self.rounds(b, number, rank, total, split)
        block = ProductBlock(self, product, number, rank, rounds, stages, ring, turns, border, split, leftovers)
        with b.branch(b.op("lt", thread, b.const(WARPGROUP, "index"))) as (copying, multiplying, _):
            wished = TileRequests.of(self.field.kernel_info).registers
            if tiling.warpgroups > 1 and (wished or product.sums > FEW_SUMS):
                few, many = REGISTERS[product.in_registers]
                copying.emit(SetMaxRegisters(direction="dec", registers=few))
                multiplying.emit(SetMaxRegisters(direction="inc", registers=wished or many))
            with copying.when(first) as leading:
                self.tiles(leading, region, block, (0, 1), counts, CopyingRole(block).copied)
            leader = multiplying.op("eq", multiplying.index(Affine.of(thread.name) % WARPGROUP), multiplying.index(0))
            self.multiplying = MultiplyingRole(block, MultiplyingWarpgroup(self.field, product, rank, leader), group)
            who = warp_index(multiplying).floordiv(4) + -1
            own = multiplying.index(who).name if tiling.turns > 1 else 0
            self.tiles(multiplying, region, block, (own, tiling.turns), counts, self.multiplying.multiplied)
            with multiplying.when(leader) as last:
                last.emit(BulkWait(count=0, read=True))
        if product.together > 1:
            # what others send must find this block's memory
            b.emit(ClusterSync(writes=False))

    def rounds(self, b: Builder, number: Value, rank: Affine, total: Value, split: ClusterSums) -> AnyRounds:
        """Which tiles the block takes, and which steps of their sums."""
        product = self.product
        if product.bounds:
            bounds = [(form, (product.sum,)) for form in product.bounds]
            return UnevenRounds(b, long_before_short(self.field, b, number, total, self.own, bounds))
        steps = b.index(self.field.axes[product.sum].ceildiv(product.depth), "steps")
        for axis in product.outer:
            steps = b.mul(steps, b.count(self.field.axes[axis]))
        first = b.const(0, "index")
        if product.tiling.pieces > 1:
            first, steps = split.range(b, steps, rank)
        if product.tiling.cut:
            return CutRounds(b, product, number, total, steps)
        return Rounds(b, product, number, total, first, steps)

    def tiles(
        self,
        b: Builder,
        region: TileRegion,
        block: ProductBlock,
        rounds: tuple[AffineLike, int],
        counts: Sequence[Value],
        work: Callable[[TileRegion, RoundPart], None],
    ) -> None:
        """The block's tiles in turn, those of these rounds: every so many, in bands of rows."""
        product = self.product
        first, step = rounds
        with b.loop("round", first, block.rounds.count.name, step) as (body, loop):
            inner = region.inside(body, (*self.own, *self.batch))
            part = block.rounds.part(body, loop.variable)
            number = part.tile
            along, across = counts[len(self.batch) : -1], counts[-1]
            down = body.product(along)
            matrix = small(body, "rem", number, body.mul(down, across))
            rest = small(body, "div", number, body.mul(down, across))
            self.enter_matrix(inner, small_digits(body, rest, counts[: len(self.batch)])[1:])
            row, column = banded(body, matrix, down, across, max(1, BAND // (product.rows * product.tiling.cluster)))
            row, *starts = small_digits(body, row, along[1:])
            for axis, start, tile in zip(product.a.axes[1:], starts, product.a.tile[1:], strict=True):
                inner.starts[axis] = Affine.of(start.name) * tile
            first = Affine.of(row.name) * product.tiling.cluster + (block.rank if product.tiling.cluster > 1 else 0)
            inner.starts[product.a.axes[0]] = first * product.a.tile[0]
            inner.starts[product.b.axis] = Affine.of(column.name) * product.columns
            work(inner, self.taking_part(inner, part) if product.bounds else part)

    def taking_part(self, region: TileRegion, part: RoundPart) -> RoundPart:
        """With the steps of the tile's sum in which any term takes part."""
        b, product = region.builder, self.product
        tile = {name: (Affine.of(self.symbol(name, region)), 1) for form in product.bounds for name in form.names}
        tile |= {axis: (region.starts[axis], 1) for axis in self.batch}
        tile |= {axis: (region.starts[axis], extent) for side in product.sides for axis, extent in zip(side.axes, side.tile, strict=True)}
        steps = self.field.axes[product.sum].ceildiv(product.depth)
        low, high = steps_between(b, product.bounds, product.sum, product.depth, tile, (Affine(), steps))
        first = b.index(low)
        return evolve(part, low=first, steps=b.op("max", b.index(high - first.name), b.const(0, "index")))

    # ---- storing ----

    def finish_target(self, target: Target, region: TileRegion, result: dict[Target, list[Value]], begun: bool) -> None:
        role = self.multiplying
        boxes = result_boxes(target, self.field, self.product) if isinstance(target, Store) else None
        if role is not None and isinstance(target, Store) and boxes is not None and not role.block.border.repairing:
            store_boxes(self, role.group, target, boxes, region)
        else:
            super().finish_target(target, region, result, begun)
