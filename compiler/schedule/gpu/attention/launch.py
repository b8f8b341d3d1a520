"""The one launch of a field that is attention, or whose products are chained: blocks take tiles of queries, or rows, and walk along keys,
or terms (`on_warps.py`, `on_warpgroups.py`, `chain.py`)."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Store
from compiler.hir.module import HirFunction
from compiler.schedule.gpu.attention.field import WalkedField
from compiler.schedule.gpu.attention.walk import QueryTiles
from compiler.schedule.gpu.attention.walking_block import WalkingBlock
from compiler.schedule.gpu.products.matrix_blocks import MatrixBlocks
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from compiler.schedule.region import NotPlaceable, Target, TileRegion

Field = TypeVar("Field", bound=WalkedField)


class AttentionLaunch(MatrixBlocks, Generic[Field]):
    """`block_of`: what a block does."""

    def __init__(
        self,
        field: HirFunction,
        attention: Field,
        block_of: Callable[[BlockTiles, Field, QueryTiles, TileRegion], WalkingBlock],
        resident: int | None = None,
    ) -> None:
        own = attention.query.axis, attention.value.axis
        super().__init__(field, own, attention.walked, attention.threads, attention.words, resident)
        self.attention, self.block_of = attention, block_of
        self.block: WalkingBlock | None = None
        """Whose code is built."""

    def tiles_of_blocks(self, group: Sequence[Target], region: TileRegion) -> None:
        attention, b, axes = self.attention, region.builder, {*self.own, *self.batch}
        queries = QueryTiles(self.field, attention, self.batch, b)
        parts = b.const(attention.parts, "index")
        blocks = b.mul(queries.total, parts)
        if attention.resident is not None:
            blocks = b.op("min", blocks, b.const(attention.resident, "index"))
        with self.blocks(blocks, region, axes) as (inner, block):
            self.block = self.block_of(self, attention, queries, inner)
            self.block.attended(group, block, blocks)

    def make(self, op: Instruction, value: Value, region: TileRegion) -> Value:
        made = self.block.make(op, region) if self.block is not None else None
        return super().make(op, value, region) if made is None else made

    def shared_out(self, group: Sequence[Target], region: TileRegion) -> None:
        """Also results that each row has one of."""
        whole = {*self.own, *self.batch}
        if any(self.target_axes(target) not in (whole, whole - {self.attention.value.axis}) for target in group):
            raise NotPlaceable("a result that varies along the keys, or is the same for several rows")
        self.tiles_of_blocks(group, region)

    def stored_where(self, target: Store, axes: Sequence[str], region: TileRegion) -> Value | None:
        where = super().stored_where(target, axes, region)
        if self.block is None or self.attention.value.axis in axes:
            return where
        return region.builder.both(where, self.block.speaks(region.builder))

    def finish_target(self, target: Target, region: TileRegion, result: dict[Target, list[Value]], begun: bool) -> None:
        if self.block is None or not isinstance(target, Store) or not self.block.stored(target, region):
            super().finish_target(target, region, result, begun)
