"""The two roles of a block that multiplies on warpgroups: one warpgroup copies boxes of the operands into a ring of stages, others
multiply what has arrived, 64 rows each, keep the sums in registers, and compute on these what follows."""

from collections.abc import Mapping, Sequence
from itertools import product as choices

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import Fence
from compiler.hir.hopper import WARPGROUP_KINDS, WarpgroupCommit, WarpgroupFence, WarpgroupWait
from compiler.hir.instruction import Value
from compiler.hir.types import Tile
from compiler.schedule.gpu.block_tiles import BlockTiles
from compiler.schedule.gpu.boxed_operands import BoxedOperand
from compiler.schedule.gpu.boxed_tiles import BoxedTiles, multiply
from compiler.schedule.gpu.indices import counted_on, lane_index, small_digits, warp_index
from compiler.schedule.gpu.stage_ring import StageRing, TileTurns
from compiler.schedule.gpu.warpgroup import MultiplyingWarpgroup
from compiler.schedule.gpu.warpgroup_border import Border
from compiler.schedule.gpu.warpgroup_bounds import BoundedSteps
from compiler.schedule.gpu.warpgroup_operands import LOW_SCALE, WarpgroupProduct
from compiler.schedule.gpu.warpgroup_results import TurnedSums, is_turned
from compiler.schedule.gpu.warpgroup_rounds import AnyRounds, CutRounds, Leftovers, RoundPart
from compiler.schedule.gpu.warpgroup_split import ClusterSums
from compiler.schedule.gpu.warpgroup_tiles import digit
from compiler.schedule.region import Target, TileRegion
from runtime.records import frozen


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
            ring.fill(body, stage, parity, sum(tile.bytes for tile in block.stages.values()))
            inner = region.inside(body, (*product.outer, product.sum))
            inner.forms.update({axis: region.starts[axis] for axis in (*product.a.axes, product.b.axis)})
            *outer, piece = places
            inner.forms.update({axis: Affine.of(variable.name) for axis, variable in zip(product.outer, outer, strict=True)})
            inner.forms[product.sum] = Affine.of(piece.name) * product.depth
            for side, tiles in block.stages.items():
                # blocks of a cluster have the same columns
                share = (block.rank, product.tiling.cluster if side.axes == product.b.axes else 1)
                tiles.load(placing, inner, stage, ring.full, stage, share, product.rounded)
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
            complete = self.stretches(b, part.done, part.steps, zero)
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
                wrong = block.border.noted(group, complete[group.block], part.round, b)
            if is_turned(placing.field, product):
                self.turned(region, b, complete[group.block])
            else:
                placing.produce(self.targets, inner, {})
            if product.may_repair:
                with b.when(wrong) as again:
                    block.border.repaired(placing, group, self.targets, region, part.round, again)

    def turned(self, region: TileRegion, b: Builder, complete: Value) -> None:
        """What follows the sums of a block of rows, where results lie along the rows."""
        product, group, placing = self.block.product, self.group, self.block.placing
        turned = TurnedSums(placing, group)
        row = b.index(group.first_row(group.block) + lane_index(b))
        places = [digit(Affine.of(row.name), size, extent, product.rows, [turned.second]) for _, size, extent in product.a.digits]
        for part in turned.parts():
            inner = group.at(region, b, places, group.first_column + turned.column(b) + part)
            inner.made[product.target.results[0]] = turned.turned(b, complete, part)
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
            body.emit(WarpgroupFence())
            always = body.const(True, "i1")
            later = body.op("gt", loop.variable, body.const(0, "index")) if product.stretch else always
            for sum, pairs in enumerate(product.pairs):
                for part, pair, rows in choices(range(0, product.depth, kind.depth), pairs, range(product.tiling.blocks)):
                    number = rows * len(product.pairs) + sum
                    left, right = (block.stages[side] for side in pair)
                    factors = left.factor(stage, group.first_row(rows), part), right.factor(stage, Affine(), part)
                    keep = later if part == 0 and pair is pairs[0] else always
                    totals[number] = multiply(body, totals[number], *factors, product.columns, kind.depth, keep)
            body.emit(WarpgroupCommit())
            waited = body.emit(WarpgroupWait(values=tuple(totals), count=1)).results
            before = body.op("and", leader, body.op("gt", loop.variable, body.const(0, "index")))
            with body.when(before) as freeing:
                ring.free(freeing, Affine.of(earlier.name))
            body.yield_(*ring.next(body, at, parity), at, *waited)
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

    def stretches(self, b: Builder, done: Value, steps: Value, zero: Value) -> list[Value]:
        """The same, of stretches of the sum that are added up as floats are: tensor cores drop bits with every product. Warpgroups of a
        tile end theirs at different steps: while one adds, the tensor cores have the other's products."""
        product = self.block.product
        own, sums = len(product.summed), len(product.pairs)
        accumulators = product.accumulators
        early = self.group.team * (product.stretch // product.tiling.groups)
        turns = (Affine.of(steps.name) + early).ceildiv(product.stretch)
        with b.loop("stretch", 0, turns, carried=[zero] * (product.tiling.blocks * (own + sums))) as (body, loop):
            first = Affine.of(loop.variable.name) * product.stretch - early
            before = body.count(first)
            count = body.sub(body.op("min", body.index(first + product.stretch), steps), before)
            sums_ = self.summed(body, body.add(done, before), count, loop.carried[accumulators:])
            last = [block * sums + number for block in range(product.tiling.blocks) for number in range(sums - own, sums)]
            totals = [body.add(total, sums_[number]) for total, number in zip(loop.carried[:accumulators], last, strict=True)]
            if product.low:
                scale = body.const(1 / LOW_SCALE, zero.type)
                totals = [body.fma(sums_[block * sums], scale, total) for block, total in enumerate(totals)]
            body.yield_(*totals, *sums_)
        return loop.results[:accumulators]
