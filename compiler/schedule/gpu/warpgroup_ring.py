"""The ring of a product on warpgroups: stages in shared memory that one warpgroup fills with boxes of the operands and others read, and the
barriers that say which are full and which are empty."""

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import SharedAlloc
from compiler.hir.hopper import BarrierArrive, BarrierMake, BarrierWait
from compiler.hir.instruction import Value
from compiler.hir.types import Barrier, Mem, Space
from compiler.schedule.gpu.boxed_operands import BoxedOperand, wide_of
from compiler.schedule.gpu.stage_ring import StageRing, initialise
from compiler.schedule.gpu.warpgroup_operands import WarpgroupProduct


def view(side: BoxedOperand, stage: Affine, own: Affine, part: int) -> tuple[Affine, ...]:
    """Where a matrix of 64 rows (or all columns) begins in a stage, at a place along the sum."""
    if not side.across:
        return stage, own, Affine.of(part)
    wide = wide_of(side.mem)
    return stage, own.floordiv(wide), Affine.of(part), Affine()


class ProductRing(StageRing):
    """The stages of both operands; what blocks of a cluster share, each of them frees for all."""

    def __init__(self, b: Builder, product: WarpgroupProduct) -> None:
        self.memories = {side: b.emit(SharedAlloc(type=stage_memory(side, product)), "stage").result for side in product.copied}
        super().__init__(b, product.stages, product.groups * product.cluster)
        self.cluster, self.turns = product.cluster, product.turns
        assert self.turns <= 2
        self.turn = b.emit(BarrierMake(type=Barrier(self.turns)), "turn").result if self.turns > 1 else None
        """Whose tile's stages come next: warpgroups that waited for theirs too early would take a barrier's phase for another."""

    def begin(self, b: Builder) -> None:
        turns = [(self.turn, number, 1) for number in range(self.turns)] if self.turn is not None else []
        initialise(b, [*self.counts(), *turns], together=True)

    def await_turn(self, b: Builder, team: Affine, number: Value) -> None:
        """The first tile's warpgroup waits for nobody."""
        if self.turn is not None:
            passed = Affine.of(number.name).floordiv(self.turns) + team + 1
            parity = b.cast(b.index(passed % 2), "i32")
            b.emit(BarrierWait(barrier=self.turn, barrier_index=(team,), parity=parity))

    def pass_turn(self, b: Builder, team: Affine) -> None:
        if self.turn is not None:
            b.emit(BarrierArrive(barrier=self.turn, barrier_index=(team * -1 + 1,)))

    def place(self, b: Builder, turn: Value) -> tuple[Value, Value]:
        """The stage of a turn, and how often it was filled before, odd or even."""
        return self.stage_of(b, turn), self.parity_of(b, turn)

    def next(self, b: Builder, stage: Value, parity: Value) -> tuple[Value, Value]:
        """Of the turn after: without a division, which would take longer than small tiles' products."""
        further = b.add(stage, b.const(1, "index"))
        over = b.op("eq", further, b.const(self.stages, "index"))
        return b.select(over, b.const(0, "index"), further), b.select(over, self.flipped(b, parity), parity)

    def free(self, b: Builder, stage: Affine) -> None:
        """This warpgroup has read the stage; all blocks that write to it are told."""
        if self.cluster == 1:
            super().free(b, stage)
        else:
            for rank in range(self.cluster):
                b.emit(BarrierArrive(barrier=self.empty, barrier_index=(stage,), rank=b.const(rank, "i32")))


def stage_dims(side: BoxedOperand, product: WarpgroupProduct) -> tuple[int, ...]:
    if side.across:
        return product.stages, -(-side.extent // wide_of(side.mem)), product.depth, wide_of(side.mem)
    return product.stages, side.extent, product.depth


def stage_memory(side: BoxedOperand, product: WarpgroupProduct) -> Mem:
    return Mem(side.mem.dtype, stage_dims(side, product), space=Space.SHARED, align=1024, swizzle="128B")
