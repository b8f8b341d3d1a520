"""Tiles of operands in shared memory as bulk copies leave them and warpgroups read them: boxes of 128 bytes of what memory is contiguous
along, one beside the other, each of them line after line."""

from math import prod

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import SharedAlloc
from compiler.hir.hopper import BulkLoad, WarpgroupMma
from compiler.hir.instruction import Value
from compiler.hir.types import Mem, Space, bytes_of
from compiler.schedule.gpu.products.boxed_operands import BoxedOperand, wide_of
from compiler.schedule.gpu.products.tiling import ROWS, SWIZZLED
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from compiler.schedule.region import TileRegion

CHUNK = 16
"""Bytes."""

Factor = tuple[Value, tuple[Affine, ...], bool]
"""A matrix of an operand: the memory or the registers, its begin there, and whether it lies across."""


class BoxedTiles:
    """`stages` tiles of an operand: so many rows (or columns) along its own axes, `terms` along the axis `sum`; in memory that another
    operand has too, `like`, of which they are the same boxes."""

    def __init__(
        self, b: Builder, side: BoxedOperand, stages: int, own: tuple[int, ...], sum: str, terms: int, like: "BoxedTiles | None" = None
    ) -> None:
        self.side, self.own, self.sum, self.terms, self.wide = side, own, sum, terms, wide_of(side.mem)
        self.deep = terms if side.packed is None else terms // side.packed.each
        across, self.lines = (prod(own), self.deep) if side.across else (terms, prod(own))
        self.boxes = -(-across // self.wide)
        dims = (stages, 1, self.boxes * self.lines, self.wide) if side.turned else (stages, self.boxes, self.lines, self.wide)
        type = Mem(side.mem.dtype, dims, space=Space.SHARED, align=1024, swizzle="128B")
        self.memory: Value = b.emit(SharedAlloc(type=type), "tile").result if like is None else like.memory

    @property
    def bytes(self) -> int:
        """Of one tile."""
        return self.boxes * self.lines * SWIZZLED

    @property
    def chunk(self) -> int:
        """Elements of 16 bytes, which a thread has at a time."""
        return CHUNK // bytes_of(self.side.mem.dtype)

    def lanes(self, placing: BlockTiles) -> Affine:
        """The axis of a chunk."""
        name = f"simd_of_{self.chunk}"
        return Affine.of(name if name in placing.out.function.axes else placing.out.axis(name, self.chunk))

    def factor(self, stage: Affine, own: Affine, term: int) -> Factor:
        """The matrix at a place along the own axes, counted through all of them, and along the sum."""
        return self.memory, self.element(stage, own, Affine.of(term)), self.side.across and not self.side.turned

    def element(self, stage: Affine, own: Affine, term: Affine) -> tuple[Affine, ...]:
        """Where one is; of squares that are turned, afterwards."""
        if self.side.across and not self.side.turned:
            return stage, own.floordiv(self.wide), term, own % self.wide
        return stage, term.floordiv(self.wide), own, term % self.wide

    def load(
        self, placing: BlockTiles, region: TileRegion, stage: Affine, barrier: Value, at: Affine, share: tuple[Affine, int], rounded: bool
    ) -> None:
        """The copies of a tile that begins at the places which the region has of the operand's axes. Of blocks that share it each copies
        some of the lines, to all of them: `share` is the block's number among so many."""
        side, (rank, sharing) = self.side, share
        inner = region.inside(region.builder, ())
        extents = {**dict(zip(side.dims, self.own, strict=True)), side.along: self.deep, side.mem.rank - 1: self.wide}
        first, slow, fast = Affine(), *((self.sum, side.axis) if side.across else (side.axes[-1], self.sum))
        if sharing > 1:
            lines = self.lines // sharing
            first = rank * lines
            inner.forms[slow] = inner.forms[slow] + first
            extents[side.along if side.across else side.dims[-1]] = lines
        start, mem = inner.forms[fast], region.known(side.load.mem)
        for number in range(self.boxes):
            inner.forms[fast] = start + number * self.wide
            box, line = (Affine(), first + number * self.lines) if side.turned else (Affine.of(number), first)
            region.builder.emit(
                BulkLoad(
                    shared=self.memory,
                    shared_index=(stage, box, line, Affine()),
                    tensor=mem,
                    tensor_index=tuple(placing.form(form, inner) for form in side.load.index),
                    barrier=barrier,
                    barrier_index=(at,),
                    box=tuple(extents.get(dim, 1) for dim in range(side.mem.rank)),
                    step=side.steps,
                    rounded=rounded,
                    multicast=(1 << sharing) - 1 if sharing > 1 else 0,
                )
            )


def multiply(
    b: Builder, total: Value, left: Factor, right: Factor, columns: int, depth: int, keep: Value, negated: bool = False
) -> Value:
    """Sums of 64 rows with the products of two matrices, or without these, which are on their way; without what they were where `keep` is
    false."""
    (a, a_index, a_across), (c, c_index, c_across) = left, right
    return b.emit(
        WarpgroupMma(
            accumulator=total,
            a=a,
            a_index=a_index,
            b=c,
            b_index=c_index,
            keep=keep,
            shape=(ROWS, columns, depth),
            transpose_a=a_across,
            transpose_b=c_across,
            negated=negated,
        )
    ).result
