"""The roles of a block of a product: one thread copies tiles of operands into a ring of stages, as its turns come; warpgroups multiply
what has arrived, keep the sums in registers, and compute what follows them."""

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from itertools import product as choices

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import Fence
from compiler.hir.hopper import WARPGROUP_KINDS, WarpgroupCommit, WarpgroupFence, WarpgroupWait
from compiler.hir.instruction import Value
from compiler.hir.types import Tile
from compiler.schedule.gpu.indices import counted_on, lane_digits, small_digits
from compiler.schedule.gpu.products.border import Border, BoundedSteps
from compiler.schedule.gpu.products.boxed_operands import BoxedOperand
from compiler.schedule.gpu.products.boxed_product import BoxedProduct, FactorPair
from compiler.schedule.gpu.products.boxed_tiles import BoxedTiles, Factor, multiply
from compiler.schedule.gpu.products.multiplying import MultiplyingWarpgroup
from compiler.schedule.gpu.products.packed_rows import UnpackedRows
from compiler.schedule.gpu.products.results import MovedSums, moved_sums
from compiler.schedule.gpu.products.rounds import AnyRounds, ClusterSums, CutRounds, Leftovers, RoundPart
from compiler.schedule.gpu.products.stage_preparation import LOW_SCALE, RowsInRegisters, prepare
from compiler.schedule.gpu.products.stage_ring import StageRing, TileTurns
from compiler.schedule.gpu.products.tiling import digit
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from compiler.schedule.region import Target, TileRegion
from runtime.records import frozen

AHEAD, BATCH = 1, 2
"""Batches of products under way while rows of the next are made of bytes, and products of a batch, each of so many terms as an instruction
has."""


@frozen(eq=False)
class ProductBlock:
    """What the roles share: the block's `number` among those of its `rank` in a cluster; the stages of each operand, and the ring's
    barriers; which tiles come, and what is known of their sums elsewhere."""

    placing: BlockTiles
    product: BoxedProduct
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


FAR = 2.0**100
"""Times their unit that sums are kept where a scale is 0, which the products then don't change."""


def turned_units(b: Builder, unit: Value, before: Value, scale: Value) -> tuple[Value, Value]:
    """What sums are in units of where a stretch with this scale is added, behind one with that `before`, and what they are multiplied by.
    There is no unit, 0, as long as all scales were 0."""
    zero, one, far, near = (b.const(number, scale.type) for number in (0.0, 1.0, FAR, 1 / FAR))
    counts, counted = (b.op("ne", each, zero) for each in (scale, before))
    factor = b.select(counts, b.op("div", unit, scale, flags=("afn",)), b.select(counted, far, one))
    return b.select(counts, scale, b.mul(unit, b.select(counted, near, one))), factor


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
        group = self.group
        group.digits = (pair, own, half)
        sums = Tile(product.to, ((pair, 2), (eight, product.columns // 8), (half, 2)))
        zero = b.const(0.0 if product.to == "f32" else 0, sums)
        if block.turns is not None:
            block.turns.await_turn(b, group.number, part.round)
        if product.scale is not None:
            complete = self.scaled_stretches(region, b, part, zero)
        elif product.stretch:
            complete = self.stretches(b, part, zero, region)
        elif product.a.packed is not None:
            ready, end = self.first_rows(b, part), b.add(part.done, part.steps)
            place, begun = block.ring.place(b, part.done), [zero] * product.accumulators
            complete, _, _ = self.summed_of_bytes(b, part.done, part.steps, end, place, begun, ready)
        else:
            place, begun = block.ring.place(b, part.done), [zero] * product.accumulators
            complete, _ = self.summed(region, b, Affine.of(part.low.name), part.steps, place, begun)
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
            for number, target in enumerate(product.targets, group.block * len(product.targets)):
                inner.made[target.results[0]] = complete[number]
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
        down, across = group.lanes.position(lane_digits(b), (Affine.of(pair), 0))
        column = group.first_column + across + Affine.of(own) * 8
        row = b.index(group.first_row(group.block) + down)
        further = [(half, group.lanes.registers[1][1])]
        places = [digit(Affine.of(row.name), size, extent, product.rows, further) for _, size, extent in product.a.digits]
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

    def summed(
        self, region: TileRegion, b: Builder, first: Affine, steps: Value, place: Sequence[Value], begun: Sequence[Value]
    ) -> tuple[list[Value], list[Value]]:
        """The sums of the products of so many stages, from the first step and a place of the ring on, and the place behind them: of each
        block of rows, for each sum that a ring's operands make. They are added to those that have begun; of a stretch, whose begin is those
        of the stretch before, they take their place."""
        block, group, product, ring = self.block, self.group, self.block.product, self.block.ring
        with b.loop("step", 0, steps.name, carried=[*place, place[0], *begun]) as (body, loop):
            at, parity, earlier, *totals = loop.carried
            stage = Affine.of(at.name)
            ring.await_full(body, stage, parity)
            if product.bounds and not product.has_zeros:
                step = first + loop.variable.name
                BoundedSteps(block.placing, group, product, region).cleared(body, step, stage, block.stages)
            if product.tiling.makes_low:
                prepare(body, block.placing, group, stage, block.stages)
            always = body.const(True, "i1")
            later = always if product.scale is not None or not product.stretch else body.op("gt", loop.variable, body.const(0, "index"))
            fetched = RowsInRegisters(body, block.placing, group, stage) if product.in_registers else None
            groups = self.products_of(WARPGROUP_KINDS[product.a.dtype].depth)
            for products, following in zip(groups, [*groups[1:], []], strict=True):
                self.ask_for(body, stage, products, [self.left_factor(each, fetched, stage) for each in products], totals, later)
                if fetched is not None:
                    for each in following:
                        fetched.begun(block.stages[each.pair.a], group.first_row(each.rows), each.term)
                totals = list(body.emit(WarpgroupWait(values=tuple(totals), count=1)).results)
            self.free(body, loop.variable, earlier)
            body.yield_(*ring.next(body, at, parity), at, *totals)
        *place, last = loop.results[:3]
        return self.all_summed(b, loop.results[3:], last, steps), place

    def ask_for(
        self, b: Builder, stage: Affine, products: Sequence[StageProduct], lefts: Sequence[Factor], totals: list[Value], later: Value
    ) -> None:
        """These products of a stage are under way; the first of each sum replace what it was unless this is `later`."""
        product, always = self.block.product, b.const(True, "i1")
        b.emit(WarpgroupFence())
        for each, left in zip(products, lefts, strict=True):
            right, keep = self.block.stages[each.pair.b].factor(stage, Affine(), each.term), later if each.is_first else always
            depth, total = WARPGROUP_KINDS[product.a.dtype].depth, totals[each.number]
            totals[each.number] = multiply(b, total, left, right, product.columns, depth, keep, each.pair.negative)
        b.emit(WarpgroupCommit())

    def free(self, b: Builder, before: Value, stage: Value) -> None:
        """A stage is empty, if there was one before."""
        with b.when(b.op("and", self.group.leader, b.op("gt", before, b.const(0, "index")))) as freeing:
            self.block.ring.free(freeing, Affine.of(stage.name))

    def all_summed(self, b: Builder, totals: Sequence[Value], last: Value, steps: Value) -> list[Value]:
        """The sums when their products are done: another warpgroup may ask for its own, and stages are free."""
        block, group = self.block, self.group
        if block.turns is not None:
            with b.when(group.leader) as passing:
                block.turns.pass_turn(passing, group.number)
        if block.product.takes_turns:
            group.pass_turn(b)
        complete = b.emit(WarpgroupWait(values=tuple(totals), count=0)).results
        # the assembler moves what reads the sums above the wait where it is short of registers, but nothing above a fence
        b.emit(Fence(scope="block"))
        self.free(b, steps, last)
        return complete

    def summed_of_bytes(
        self, b: Builder, done: Value, steps: Value, end: Value, place: Sequence[Value], begun: Sequence[Value], ready: Sequence[Value]
    ) -> tuple[list[Value], list[Value], list[Value]]:
        """The same of rows that are made of bytes: those of the next products are ready when they are asked for, and others are made while
        these are under way. `done`: turns before, `end`: the one behind the tile's last."""
        ring, batches = self.block.ring, self.batches()
        count, ahead = len(begun), AHEAD * len(batches[0])
        with b.loop("step", 0, steps.name, carried=[*place, place[0], *begun, *ready]) as (body, loop):
            at, parity, earlier, *totals = loop.carried
            rows = [*totals[count:]]
            totals = totals[:count]
            following = ring.next(body, at, parity)
            is_last = body.op("ge", body.index(Affine.of(done.name) + loop.variable.name + 1), end)
            coming = [body.select(is_last, now, next) for now, next in zip((at, parity), following, strict=True)]
            stage, always = Affine.of(at.name), body.const(True, "i1")
            for number, products in enumerate(batches):
                own = rows[number * len(products) : (number + 1) * len(products)]
                self.ask_for(body, stage, products, [(each, (), False) for each in own], totals, always)
                totals = list(body.emit(WarpgroupWait(values=tuple(totals), count=AHEAD)).results)
                after = number + AHEAD
                if after == len(batches):
                    stage_after = Affine.of(coming[0].name)
                    ring.await_full(body, stage_after, coming[1])
                rows += self.rows_of(body, stage if after < len(batches) else stage_after, batches[after % len(batches)])
            self.free(body, loop.variable, earlier)
            body.yield_(*following, at, *totals, *rows[-ahead:])
        *place, last = loop.results[:3]
        return self.all_summed(b, loop.results[3 : 3 + count], last, steps), place, loop.results[3 + count :]

    def first_rows(self, b: Builder, part: RoundPart) -> list[Value]:
        """Of the first products of a tile."""
        stage, parity = self.block.ring.place(b, part.done)
        with b.when(b.op("gt", part.steps, b.const(0, "index"))) as some:
            self.block.ring.await_full(some, Affine.of(stage.name), parity)
        return [rows for products in self.batches()[:AHEAD] for rows in self.rows_of(b, Affine.of(stage.name), products)]

    def batches(self) -> list[list[StageProduct]]:
        """Products of a stage that are asked for at once."""
        pieces = self.products_of(WARPGROUP_KINDS[self.block.product.a.dtype].depth)
        return [[each for piece in pieces[first : first + BATCH] for each in piece] for first in range(0, len(pieces), BATCH)]

    def rows_of(self, b: Builder, stage: Affine, products: Sequence[StageProduct]) -> list[Value]:
        """Of the same terms' products, the rows of each block."""
        block, packed = self.block, self.block.product.a.packed
        assert packed is not None
        made = UnpackedRows(b, block.placing, packed, stage)
        return [made.rows(block.stages[each.pair.a], self.group.first_row(each.rows), each.term) for each in products]

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

    def stretches(self, b: Builder, part: RoundPart, zero: Value, region: TileRegion) -> list[Value]:
        """The same, of stretches of the sum that are added up as floats are: tensor cores drop bits with every product. Warpgroups of a
        tile end theirs at different steps: while one adds, the tensor cores have the other's products."""
        product = self.block.product
        own, sums, accumulators = len(product.targets), len(product.pairs), product.accumulators
        early = self.group.number * (product.stretch // product.tiling.groups)
        turns = (Affine.of(part.steps.name) + early).ceildiv(product.stretch)
        with b.loop("stretch", 0, turns, carried=[zero] * (product.tiling.blocks * (own + sums))) as (body, loop):
            first = Affine.of(loop.variable.name) * product.stretch - early
            step, done, length = self.steps_of(body, part, first)
            sums_, _ = self.summed(region, body, step, length, self.block.ring.place(body, done), loop.carried[accumulators:])
            last = [block * sums + number for block in range(product.tiling.blocks) for number in range(sums - own, sums)]
            totals = [body.add(total, sums_[number]) for total, number in zip(loop.carried[:accumulators], last, strict=True)]
            if product.low:
                scale = body.const(1 / LOW_SCALE, zero.type)
                totals = [body.fma(sums_[block * sums], scale, total) for block, total in enumerate(totals)]
            body.yield_(*totals, *sums_)
        return loop.results[:accumulators]

    def steps_of(self, b: Builder, part: RoundPart, first: Affine) -> tuple[Affine, Value, Value]:
        """Of a stretch that begins so many steps behind the part's first: its first step, the turns before, and how many steps it has."""
        before = b.count(first)
        length = b.sub(b.op("min", b.index(first + self.block.product.stretch), part.steps), before)
        return Affine.of(part.low.name) + before.name, b.add(part.done, before), length

    def scaled_stretches(self, region: TileRegion, b: Builder, part: RoundPart, zero: Value) -> list[Value]:
        """The same of stretches that have a scale each. Sums are in units of the stretch's scale: what was summed before is multiplied by
        the old unit over the new one, so that threads have no second sums to add to. The next scale is on its way beside products."""
        product, of_bytes = self.block.product, self.block.product.a.packed is not None
        early = b.named(Affine.of(part.low.name) % product.stretch)
        turns = (Affine.of(part.steps.name) + early).ceildiv(product.stretch)
        ready, end = (self.first_rows(b, part), b.add(part.done, part.steps)) if of_bytes else ([], part.done)
        scales, coming = (self.scales(region, b, part, number * product.stretch - early) for number in range(2))
        none = [b.const(0.0, scale.type) for scale in scales]
        turned = [turned_units(b, *each) for each in zip(none, none, scales, strict=True)]
        zeros, place = [zero] * product.accumulators, self.block.ring.place(b, part.done)
        carried: list[Sequence[Value]] = [place, zeros, ready, none, *zip(*turned, strict=True), scales, coming]
        ends = [sum(map(len, carried[:number])) for number in range(len(carried) + 1)]

        def apart(values: Sequence[Value]) -> list[Sequence[Value]]:
            return [values[begin:end] for begin, end in pairwise(ends)]

        with b.loop("stretch", 0, turns, carried=[*chain(*carried)]) as (body, loop):
            at, sums, rows, _, units, factors, scales_, coming_ = apart(loop.carried)
            begun = [body.mul(sum_, factor) for sum_, factor in zip(sums, factors, strict=True)]
            first = Affine.of(loop.variable.name) * product.stretch - early
            turned = [turned_units(body, *each) for each in zip(units, scales_, coming_, strict=True)]
            if product.takes_turns:
                self.group.await_turn(body)
            following = self.scales(region, body, part, first + 2 * product.stretch)
            step, done, length = self.steps_of(body, part, first)
            if of_bytes:
                sums, at, rows = self.summed_of_bytes(body, done, length, end, at, begun, rows)
            else:
                sums, at = self.summed(region, body, step, length, at, begun)
            body.yield_(*at, *sums, *rows, *units, *chain(*zip(*turned, strict=True)), *coming_, *following)
        _, sums, _, units, *_ = apart(loop.results)
        return [b.mul(sum_, unit) for sum_, unit in zip(sums, units, strict=True)]

    def scales(self, region: TileRegion, b: Builder, part: RoundPart, first: Affine) -> list[Value]:
        """What the sums of a stretch are multiplied by, or of the last one, of each block of rows."""
        product, placing, scales = self.block.product, self.block.placing, list[Value]()
        assert product.scale is not None
        last = self.block.placing.field.axes[product.sum].ceildiv(product.depth) - 1
        step = b.op("min", b.index(Affine.of(part.low.name) + first), b.index(last))
        start = b.named(Affine.of(step.name) * product.depth)
        for self.group.block in range(product.tiling.blocks):
            inner = self.standing(region, b).inside(b, (product.sum,))
            inner.forms[product.sum] = start
            scale, *others = (placing.value(value, inner) for value in product.scale.values)
            for other in others:
                scale = b.mul(scale, other)
            scales.append(scale)
        return scales
