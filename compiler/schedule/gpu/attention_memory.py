"""Shared memory of attention on warpgroups: the tile of queries, the rings of keys and of values, and their barriers."""

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import SharedAlloc
from compiler.hir.hopper import BarrierInit, BarrierMake
from compiler.hir.instruction import Value
from compiler.hir.types import Barrier, Mem, Space, bytes_of
from compiler.schedule.gpu.warpgroup_attention import WarpgroupAttention
from compiler.schedule.gpu.warpgroup_operands import SHARED_BYTES, SWIZZLED, wide_of
from runtime.records import frozen

STAGES = 2
"""Tiles of keys, and of values, that are on their way or in use."""


@frozen(eq=False)
class Ring:
    memory: Value
    full: Value
    empty: Value


class Memory:
    """The tile of queries, and the rings of keys and of values. `depth`, `width`: elements of their rows, of whole boxes."""

    def __init__(self, b: Builder, attention: WarpgroupAttention) -> None:
        wide = wide_of(attention.query.mem)
        self.groups = attention.groups

        def shared(*dims: int) -> Value:
            type = Mem(attention.dtype, (*dims, wide), space=Space.SHARED, align=1024, swizzle="128B")
            return b.emit(SharedAlloc(type=type), "tile").result

        def ring(elements: int) -> Ring:
            barriers = [b.emit(BarrierMake(type=Barrier(STAGES)), name).result for name in ("full", "empty")]
            return Ring(shared(STAGES, elements // wide, attention.terms), *barriers)

        self.depth, self.width = (-(-elements // wide) * wide for elements in (attention.depth, attention.width))
        self.query = shared(self.depth // wide, attention.rows)
        self.keys, self.values = ring(self.depth), ring(self.width)
        self.asked = b.emit(BarrierMake(type=Barrier(1)), "asked").result
        size = bytes_of(attention.dtype) * (attention.rows * self.depth + STAGES * attention.terms * (self.depth + self.width))
        assert size <= SHARED_BYTES and wide * bytes_of(attention.dtype) == SWIZZLED

    def begin(self, b: Builder) -> None:
        b.emit(BarrierInit(barrier=self.asked, barrier_index=(Affine(),), count=1))
        for ring in (self.keys, self.values):
            for stage in range(STAGES):
                b.emit(BarrierInit(barrier=ring.full, barrier_index=(Affine.of(stage),), count=1))
                b.emit(BarrierInit(barrier=ring.empty, barrier_index=(Affine.of(stage),), count=self.groups))

    def place(self, b: Builder, turn: Value) -> tuple[Affine, Value]:
        """The stage of a turn, and how often it was filled before, odd or even."""
        form = Affine.of(turn.name)
        filled = form.floordiv(STAGES)
        parity = b.cast(b.index(filled % 2), "i32")
        return b.named(form - filled * STAGES), parity
