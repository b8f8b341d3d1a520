"""Shared memory of attention on warpgroups: the tile of queries, the rings of keys and of values, and their barriers."""

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import SharedAlloc
from compiler.hir.hopper import BarrierMake
from compiler.hir.instruction import Value
from compiler.hir.types import Barrier, Mem, Space, bytes_of
from compiler.schedule.gpu.boxed_operands import wide_of
from compiler.schedule.gpu.stage_ring import StageRing, initialise
from compiler.schedule.gpu.warpgroup_attention import WarpgroupAttention
from compiler.schedule.gpu.warpgroup_tiles import SHARED_BYTES, SWIZZLED

STAGES = 2
"""Tiles of keys, and of values, that are on their way or in use."""


class AttentionMemory:
    """The tile of queries, and the rings of keys and of values. `depth`, `width`: elements of their rows, of whole boxes."""

    def __init__(self, b: Builder, attention: WarpgroupAttention) -> None:
        wide = wide_of(attention.query.mem)

        def shared(*dims: int) -> Value:
            type = Mem(attention.dtype, (*dims, wide), space=Space.SHARED, align=1024, swizzle="128B")
            return b.emit(SharedAlloc(type=type), "tile").result

        def ring(elements: int) -> tuple[StageRing, Value]:
            return StageRing(b, STAGES, attention.groups), shared(STAGES, elements // wide, attention.terms)

        self.depth, self.width = (-(-elements // wide) * wide for elements in (attention.depth, attention.width))
        self.query = shared(self.depth // wide, attention.rows)
        self.keys, self.key_tiles = ring(self.depth)
        self.values, self.value_tiles = ring(self.width)
        self.asked = b.emit(BarrierMake(type=Barrier(1)), "asked").result
        size = bytes_of(attention.dtype) * (attention.rows * self.depth + STAGES * attention.terms * (self.depth + self.width))
        assert size <= SHARED_BYTES and wide * bytes_of(attention.dtype) == SWIZZLED

    def begin(self, b: Builder) -> None:
        initialise(b, [(self.asked, 0, 1), *self.keys.counts(), *self.values.counts()])

    def place(self, b: Builder, turn: Value) -> tuple[Affine, Value]:
        """The stage of a turn in both rings, and how often it was filled before, odd or even."""
        parity = self.keys.parity_of(b, turn)
        return Affine.of(self.keys.stage_of(b, turn).name), parity
