"""The roles of a block of a product: one thread copies tiles of operands into a ring of stages, as its turns come; warpgroups multiply
what has arrived, keep the sums in registers, and compute what follows them."""

from collections.abc import Mapping, Sequence
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
                block.stages[side].load(placing, inner, stage, ring.full, stage, product.rounded)
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
        if product.stretch:
            complete = self.stretches(region, b, part, zero)
        elif product.a.packed is not None:
            ready, end = self.first_rows(b, part), b.add(part.done, part.steps)
            complete, _ = self.summed_of_bytes(b, part.done, part.steps, end, [zero] * product.accumulators, ready)
        else:
            complete = self.summed(region, b, Affine.of(part.low.name), part.done, part.steps, [zero] * product.accumulators)
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
        self, region: TileRegion, b: Builder, first: Affine, done: Value, steps: Value, begun: Sequence[Value]
    ) -> list[Value]:
        """The sums of the products of so many stages, from the first step on, after so many turns of the ring: of each block of rows, for
        each sum that a ring's operands make. They are added to those that have begun; of a stretch, whose begin is those of the stretch
        before, they take their place."""
        block, group, product, ring = self.block, self.group, self.block.product, self.block.ring
        begin = ring.place(b, done)
        with b.loop("step", 0, steps.name, carried=[*begin, begin[0], *begun]) as (body, loop):
            at, parity, earlier, *totals = loop.carried
            stage = Affine.of(at.name)
            ring.await_full(body, stage, parity)
            if product.bounds and not product.has_zeros:
                step = first + loop.variable.name
                BoundedSteps(block.placing, group, product, region).cleared(body, step, stage, block.stages)
            if product.tiling.makes_low:
                prepare(body, block.placing, group, stage, block.stages)
            always = body.const(True, "i1")
            later = body.op("gt", loop.variable, body.const(0, "index")) if product.stretch else always
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
        _, _, last, *totals = loop.results
        return self.all_summed(b, totals, last, steps)

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
        self, b: Builder, done: Value, steps: Value, end: Value, begun: Sequence[Value], ready: Sequence[Value]
    ) -> tuple[list[Value], list[Value]]:
        """The same of rows that are made of bytes: those of the next products are ready when they are asked for, and others are made while
        these are under way. `end`: the turn behind the tile's last."""
        product, ring = self.block.product, self.block.ring
        batches = self.batches()
        begin, count, ahead = ring.place(b, done), len(begun), AHEAD * len(batches[0])
        with b.loop("step", 0, steps.name, carried=[*begin, begin[0], *begun, *ready]) as (body, loop):
            at, parity, earlier, *totals = loop.carried
            rows = [*totals[count:]]
            totals = totals[:count]
            following = ring.next(body, at, parity)
            is_last = body.op("ge", body.index(Affine.of(done.name) + loop.variable.name + 1), end)
            coming = [body.select(is_last, now, next) for now, next in zip((at, parity), following, strict=True)]
            stage, always = Affine.of(at.name), body.const(True, "i1")
            later = body.op("gt", loop.variable, body.const(0, "index")) if product.stretch else always
            for number, products in enumerate(batches):
                own = rows[number * len(products) : (number + 1) * len(products)]
                self.ask_for(body, stage, products, [(each, (), False) for each in own], totals, later)
                totals = list(body.emit(WarpgroupWait(values=tuple(totals), count=AHEAD)).results)
                after = number + AHEAD
                if after == len(batches):
                    stage_after = Affine.of(coming[0].name)
                    ring.await_full(body, stage_after, coming[1])
                rows += self.rows_of(body, stage if after < len(batches) else stage_after, batches[after % len(batches)])
            self.free(body, loop.variable, earlier)
            body.yield_(*following, at, *totals, *rows[-ahead:])
        _, _, last, *results = loop.results
        return self.all_summed(b, results[:count], last, steps), results[count:]

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

    def stretches(self, region: TileRegion, b: Builder, part: RoundPart, zero: Value) -> list[Value]:
        """The same, of stretches of the sum that are added up as floats are: tensor cores drop bits with every product. Warpgroups of a
        tile end theirs at different steps: while one adds, the tensor cores have the other's products. Stretches with a scale are its
        groups of terms."""
        product, done, steps = self.block.product, part.done, part.steps
        own, sums = len(product.targets), len(product.pairs)
        accumulators = product.accumulators
        early = self.group.number * (product.stretch // product.tiling.groups)
        if product.scale is not None:
            early = b.named(Affine.of(part.low.name) % product.stretch)
        turns = (Affine.of(steps.name) + early).ceildiv(product.stretch)
        count = product.tiling.blocks * (own + sums)
        of_bytes = product.a.packed is not None
        ready, end = (self.first_rows(b, part), b.add(done, steps)) if of_bytes else ([], done)
        with b.loop("stretch", 0, turns, carried=[*[zero] * count, *ready]) as (body, loop):
            ready = loop.carried[count:]
            first = Affine.of(loop.variable.name) * product.stretch - early
            before = body.count(first)
            length = body.sub(body.op("min", body.index(first + product.stretch), steps), before)
            scales = self.scales(region, body, part, first) if product.scale is not None else []
            if product.takes_turns:
                self.group.await_turn(body)
            begin, begun = body.add(done, before), loop.carried[accumulators:count]
            if of_bytes:
                sums_, ready = self.summed_of_bytes(body, begin, length, end, begun, ready)
            else:
                sums_ = self.summed(region, body, Affine.of(part.low.name) + before.name, begin, length, begun)
            last = [block * sums + number for block in range(product.tiling.blocks) for number in range(sums - own, sums)]
            totals = [
                body.fma(sums_[number], scales[number], total) if scales else body.add(total, sums_[number])
                for total, number in zip(loop.carried[:accumulators], last, strict=True)
            ]
            if product.low:
                scale = body.const(1 / LOW_SCALE, zero.type)
                totals = [body.fma(sums_[block * sums], scale, total) for block, total in enumerate(totals)]
            body.yield_(*totals, *sums_, *ready)
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
