"""A sum cut in pieces, where there are too few tiles for a machine: the blocks of a cluster multiply a piece each, write what they have to
memory that all of them see, and each adds up, piece after piece in order, its part of the tile's columns, and finishes that. One launch,
the same bits in every run."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.hopper import BarrierArrive, BarrierInit, BarrierMake, BarrierWait
from compiler.hir.instruction import Value
from compiler.hir.types import Barrier, Mem
from compiler.schedule.gpu.indices import thread_index
from compiler.schedule.gpu.warpgroup import MultiplyingWarpgroup
from compiler.schedule.gpu.warpgroup_operands import WarpgroupProduct

TURNS = 2
"""Tiles whose sums have memory of their own: a warpgroup may be one tile ahead of others."""


class ClusterSums:
    """`sums`: of each cluster, turn, piece, 64 rows, 8 columns: four neighbouring elements a thread."""

    def __init__(self, b: Builder, product: WarpgroupProduct) -> None:
        self.product = product
        self.sums: Value | None = None
        self.written: Value | None = None
        if product.tiling.pieces > 1:
            blocks, eights = product.tiling.groups * product.accumulators, product.columns // 8
            dims = (product.teams, TURNS, product.tiling.pieces, blocks, eights, 128, 2, 2)
            self.sums = b.alloc(Mem(product.to, dims, align=64), "sums")

    def begin(self, b: Builder, leading: Builder) -> None:
        """The barriers, made in the block and initialised by one thread: one for each warpgroup, that waits for its like."""
        if self.sums is not None:
            self.written = b.emit(BarrierMake(type=Barrier(self.product.tiling.groups)), "written").result
            for number in range(self.product.tiling.groups):
                leading.emit(BarrierInit(barrier=self.written, barrier_index=(Affine.of(number),), count=self.product.tiling.pieces))

    def range(self, b: Builder, steps: Value, rank: Affine) -> tuple[Value, Value]:
        """Where the block's piece of so many steps begins, and how long it is."""
        pieces = b.index(Affine.of(steps.name).ceildiv(self.product.tiling.pieces))
        low = b.op("min", steps, b.mul(pieces, b.index(rank)))
        return low, b.op("min", pieces, b.sub(steps, low))

    def joined(
        self, group: MultiplyingWarpgroup, b: Builder, cluster: Value, number: Value, parts: Sequence[Value], eight: str, own: str
    ) -> list[Value]:
        """The sums of the block's own columns, along the axis `own`, of sums of all columns, along `eight`."""
        product = self.product
        assert self.sums is not None and self.written is not None
        pair, _, half = group.digits
        thread = Affine.of(thread_index(b).name)
        turn = Affine.of(number.name)
        begin = [Affine.of(cluster.name), turn % TURNS]

        def place(piece: Affine, number: int, column: Affine) -> list[Affine]:
            rows = group.team * product.accumulators + number
            lane = thread % 128
            return [*begin, piece, rows, column, lane, Affine.of(half), Affine.of(pair)]

        for own_number, part in enumerate(parts):
            b.store(self.sums, part, place(group.rank, own_number, Affine.of(eight)))
        group.meet(b)
        with b.when(group.leader) as leading:
            for piece in range(product.tiling.pieces):
                there = leading.const(piece, "i32")
                leading.emit(BarrierArrive(barrier=self.written, barrier_index=(group.team,), rank=there, scope="cluster"))
        parity = b.cast(b.index(begin[1]), "i32")
        b.emit(BarrierWait(barrier=self.written, barrier_index=(group.team,), parity=parity, scope="cluster"))
        totals = []
        for own_number in range(len(parts)):
            column = group.rank * (product.columns // 8 // product.tiling.pieces) + Affine.of(own)
            read = [b.load(self.sums, place(Affine.of(piece), own_number, column)) for piece in range(product.tiling.pieces)]
            total = read[0]
            for more in read[1:]:
                total = b.add(total, more)
            totals.append(total)
        return totals
