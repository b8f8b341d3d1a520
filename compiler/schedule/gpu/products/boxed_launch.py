"""Sums of products on the warpgroups of sm_90a. One warpgroup of a block copies boxes of both operands into a ring of stages in shared
memory, others multiply what has arrived, 64 rows each, and keep the sums in registers; what follows the sum is computed on these. The
blocks stay: each takes one tile after the other, so that copies for the next begin while the last is stored.

The way of working is the warp-specialised one of NVIDIA's CUTLASS (persistent, ping stages by mbarriers); what is multiplied, its layouts
and all that follows come from the field."""

from collections.abc import Callable, Sequence

from compiler.hir.affine import Affine, AffineLike
from compiler.hir.build import Builder
from compiler.hir.gpu import ClusterSync, SyncThreads, WarpIndex
from compiler.hir.hopper import BulkWait, SetMaxRegisters
from compiler.hir.instruction import Value
from compiler.hir.memory import Store
from compiler.hir.module import HirFunction
from compiler.schedule.gpu.indices import banded, small, small_digits, thread_index, warp_index
from compiler.schedule.gpu.products.border import Border
from compiler.schedule.gpu.products.boxed_product import BoxedProduct
from compiler.schedule.gpu.products.boxed_tiles import BoxedTiles
from compiler.schedule.gpu.products.matrix_blocks import MatrixBlocks
from compiler.schedule.gpu.products.multiplying import MultiplyingWarpgroup
from compiler.schedule.gpu.products.results import result_boxes, store_boxes
from compiler.schedule.gpu.products.roles import CopyingRole, MultiplyingRole, ProductBlock
from compiler.schedule.gpu.products.rounds import AnyRounds, ClusterSums, CutRounds, Leftovers, RoundPart, Rounds, UnevenRounds
from compiler.schedule.gpu.products.stage_ring import StageRing, TileTurns, initialise
from compiler.schedule.gpu.products.tiling import FEW_SUMS, WARPGROUP, TileRequests
from compiler.schedule.gpu.tiles.taking_part import long_before_short
from compiler.schedule.region import Target, TileRegion
from runtime.records import evolve

BAND = 2048
"""Rows that are taken together, so that what they read stays in the L2 cache."""
REGISTERS = {False: (40, 232), True: (24, 240)}
"""Of a thread that copies, and of one that multiplies, by whether this has rows in registers."""


class BoxedProductLaunch(MatrixBlocks):
    def __init__(self, field: HirFunction, product: BoxedProduct) -> None:
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
            if tiling.warpgroups > 1 and (wished or product.sums > FEW_SUMS or product.scale is not None):
                few, many = REGISTERS[product.in_registers]
                copying.emit(SetMaxRegisters(direction="dec", registers=few))
                multiplying.emit(SetMaxRegisters(direction="inc", registers=wished or many))
            with copying.when(first) as leading:
                self.tiles(leading, region, block, (0, 1), counts, CopyingRole(block).copied)
            leader = multiplying.op("eq", multiplying.index(Affine.of(thread.name) % WARPGROUP), multiplying.index(0))
            own = warp_index(multiplying).floordiv(4) + -1
            warpgroup = MultiplyingWarpgroup(self.field, product, own, rank, leader)
            self.multiplying = MultiplyingRole(block, warpgroup, group)
            if product.takes_turns:
                warpgroup.begin_turns(multiplying)
            first_round = multiplying.index(own).name if tiling.turns > 1 else 0
            self.tiles(multiplying, region, block, (first_round, tiling.turns), counts, self.multiplying.multiplied)
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
            if product.bounds:
                own = {axis: (inner.starts[axis], size) for side in product.sides for axis, size in zip(side.axes, side.tile, strict=True)}
                low, steps = self.taking_part(inner, product.bounds, product.sum, product.depth, own)
                part = evolve(part, low=body.index(low), steps=steps)
            work(inner, part)

    # ---- storing ----

    def finish_target(self, target: Target, region: TileRegion, result: dict[Target, list[Value]], begun: bool) -> None:
        role = self.multiplying
        boxes = result_boxes(target, self.field, self.product) if isinstance(target, Store) else None
        if role is not None and isinstance(target, Store) and boxes is not None and not role.block.border.repairing:
            store_boxes(self, role.group, target, boxes, region)
        else:
            super().finish_target(target, region, result, begun)
