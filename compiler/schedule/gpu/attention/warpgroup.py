"""What blocks of sm_90a have in common that walk along tiles of terms (`on_warpgroups.py`, `chain.py`): the warpgroups
that multiply, copies of tiles, waits, and results that go out through the memory in which the rows came."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Pack2
from compiler.hir.gpu import FenceAsync
from compiler.hir.hopper import BulkCommit, BulkStore, BulkWait, WarpgroupWait
from compiler.hir.instruction import Value
from compiler.hir.lane_maps import WARPGROUP_SUMS
from compiler.hir.memory import Store, mem_of
from compiler.schedule.gpu.attention.field import AttendingUnit
from compiler.schedule.gpu.attention.walking_block import WalkingBlock
from compiler.schedule.gpu.indices import lane_index, warp_index
from compiler.schedule.gpu.products.boxed_operands import stored_dims, wide_of
from compiler.schedule.gpu.products.boxed_tiles import BoxedTiles
from compiler.schedule.gpu.products.results import put_matrices
from compiler.schedule.gpu.products.stage_ring import StageRing
from compiler.schedule.gpu.products.tiling import ROWS, WARPGROUP
from compiler.schedule.gpu.products.warpgroup import Warpgroup
from compiler.schedule.region import TileRegion

UNIT = AttendingUnit(ROWS, WARPGROUP, copying=WARPGROUP)


class AttentionGroup(Warpgroup):
    """Also its first `row` in the block's tile, and the thread's warp and lane."""

    def __init__(self, b: Builder, count: int, thread: Value) -> None:
        warp = warp_index(b)
        self.lane = lane_index(b)
        super().__init__(count, b.named(warp.floordiv(4) + -1))
        self.row = self.number * ROWS
        self.warp = warp % 4
        number = Affine.of(thread.name)
        self.leader = b.op("eq", b.index(number % WARPGROUP), b.index(0))

    def position(self, half: str) -> tuple[Affine, Affine]:
        """Of the sums that the thread has: their rows in the block's tile, eight apart along this axis, and the first column."""
        row, column = WARPGROUP_SUMS.position((self.lane % 4, self.lane.floordiv(4), self.warp), (0, Affine.of(half)))
        return self.row + row, column


REGISTERS = {2: (24, 240), 3: (32, 160)}
"""Of a thread that copies, and of one that multiplies, by the warpgroups that do."""
SEARCHING = {**REGISTERS, 2: (40, 232)}
"""The same, where one that copies also searches."""


class WarpgroupWalk(WalkingBlock):
    """One warpgroup copies, others multiply."""

    group: AttentionGroup
    stage: Affine
    """Of the rows' tile."""

    result_memory: BoxedTiles
    """Tiles of rows as wide as results, which go out through them."""

    waits = True
    """Whether results have been read from there when they are stored; else that is waited for later."""

    def load(self, b: Builder, tiles: BoxedTiles, region: TileRegion, rows: str, start: Affine, stage: Affine, barrier: Value) -> None:
        """The copies of a tile whose rows begin at a place: whole rows."""
        inner = region.inside(b, ())
        inner.forms.update({axis: Affine() for axis in (*tiles.side.axes, tiles.sum)} | {rows: start})
        tiles.load(self.placing, inner, stage, barrier, stage, (Affine(), 1), False)

    def waited(self, b: Builder, values: Sequence[Value], count: int) -> list[Value]:
        """The values when all products but those of the last groups are done."""
        return b.emit(WarpgroupWait(values=tuple(values), count=count)).results

    def given_back(self, b: Builder, ring: StageRing, stage: Affine) -> None:
        with b.when(self.group.leader) as freeing:
            ring.free(freeing, stage)

    # ---- storing ----

    def is_boxed(self, store: Store) -> bool:
        """Whether bulk copies write the result's tile, from where the queries were: numbers of their type, that end in memory where the
        axes do."""
        mem, walked = mem_of(store.mem), self.walked
        tile = {walked.query.axis: walked.rows, walked.value.axis: wide_of(mem)}
        fits = mem.dtype == walked.dtype and walked.width <= walked.depth
        dims = stored_dims(self.placing.field, store, tile) if fits else None
        return dims is not None and dims[1] == mem.rank - 1

    def stored(self, store: Store, region: TileRegion) -> bool:
        """The tile through the shared memory of the warpgroup's queries."""
        if not self.is_boxed(store):
            return False
        b, walked, group, memory = region.builder, self.walked, self.group, self.result_memory.memory
        wide = wide_of(walked.query.mem)
        feature, features = self.features
        packed = b.emit(Pack2(value=self.placing.value(store.value, region), over=feature)).result
        row = group.row + group.warp * 16 + group.lane % 16
        group.meet(b)
        places = [(self.stage, Affine.of(n // wide), row, group.lane.floordiv(16) * 8 + n % wide) for n in range(0, walked.width, 16)]
        put_matrices(b, packed, (features, self.half), 0, memory, places)
        b.emit(FenceAsync())
        group.meet(b)
        target = region.find(store.mem)
        assert target is not None
        rows, columns = walked.query.axis, walked.value.axis
        box = tuple(ROWS if rows in form.names else wide if columns in form.names else 1 for form in store.index)
        with b.when(group.leader) as leading:
            inside = region.inside(leading, ())
            inside.forms[rows] = region.starts[rows] + group.row
            for part in range(-(-walked.width // wide)):
                inside.forms[columns] = Affine.of(part * wide)
                at = (self.stage, Affine.of(part), group.row, Affine())
                there = tuple(self.placing.form(form, inside) for form in store.index)
                leading.emit(BulkStore(shared=memory, shared_index=at, tensor=target, tensor_index=there, box=box))
            leading.emit(BulkCommit())
            if self.waits:
                leading.emit(BulkWait(count=0, read=True))
        return True
