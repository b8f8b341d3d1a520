"""Tiles of a block of threads: where a thread stands, which elements it has, and the memories that the block's threads share."""

from collections.abc import Hashable, Iterable, Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Cast, dtype_of
from compiler.hir.gpu import SharedAlloc, SyncThreads
from compiler.hir.instruction import Value
from compiler.hir.memory import Alloc, Load
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Space
from compiler.schedule.gpu.indices import thread_index
from compiler.schedule.interior import bounds_of
from compiler.schedule.place import Placing
from compiler.schedule.region import NotPlaceable, TileRegion
from compiler.schedule.table import AxisPlan, Table


class BlockTiles(Placing):
    outer = "block"
    all_have_own = False
    """Whether every thread of a block has elements of its own, whatever the table says."""

    def __init__(self, field: HirFunction, table: Table) -> None:
        super().__init__(field, table)
        self.threads: list[Value] = []
        """The thread's place along each dimension of the block, in the launch that is being built."""
        self.body: Builder | None = None
        self.memories: dict[Hashable, Value] = {}
        """Shared memories of this launch, by what they are for."""
        self.passed: dict[tuple[Value, TileRegion], Value] = {}
        """Shared memories of values that threads passed on, by where they were made."""
        self.member: Value | None = None
        """The block's place in its cluster, in the launch that is being built."""
        self.begun = False
        """Whether it is known in that launch that all blocks of a cluster have begun."""
        self.turns: dict[str, Affine] = {}
        """The turn of the loop over an axis, where the code that is being built stands."""
        self.workspaces: dict[Hashable, Value] = {}

    def stand(self, b: Builder) -> None:
        """The thread's place in its block."""
        self.threads = []
        rest = thread_index(b)
        for extent in self.table.block[:-1]:
            self.threads.append(b.op("rem", rest, b.const(extent, "index")))
            rest = b.op("div", rest, b.const(extent, "index"))
        self.threads.append(rest)

    def enter(self, plan: AxisPlan, loop: Affine, region: TileRegion) -> None:
        super().enter(plan, loop, region)
        self.turns[plan.axis] = loop
        if plan.threads > 1:
            if not self.threads:
                raise NotPlaceable(f"`{plan.axis}` is for the threads of a block, and no block stands around it")
            region.forms[plan.axis] += Affine.of(self.threads[plan.dim].name) * plan.step

    def masked(self, value: Value, number: float, axes: Iterable[str], region: TileRegion) -> Value:
        """As in all tiles; what a load leaves out is 0 already."""
        ragged = [axis for axis in axes if axis in region.masks]
        if number == 0 and _is_zero_outside(value, self.mask(region, ragged, None)):
            return value
        return super().masked(value, number, ragged, region)

    def require_distinct(self, axes: Iterable[str]) -> None:
        """Two axes of one value can't lie along the same threads."""
        dims = [self.table[axis].dim for axis in axes if self.table[axis].threads > 1]
        if len(dims) != len(set(dims)):
            raise NotPlaceable("two axes of a result lie along the same threads")

    def idle(self, axes: Iterable[str]) -> list[int]:
        """Dimensions of the block along which nothing with these axes varies."""
        used = {self.table[axis].dim for axis in axes if self.table[axis].threads > 1}
        return [] if self.all_have_own else [dim for dim, extent in enumerate(self.table.block) if extent > 1 and dim not in used]

    def one_of(self, dims: Iterable[int], b: Builder, where: Value | None = None) -> Value | None:
        """True in one thread of the block along these dimensions, and only where `where` holds."""
        for dim in dims:
            first = b.op("eq", self.threads[dim], b.const(0, "index"))
            where = b.both(where, first)
        return where

    def shared_memory(self, purpose: Hashable, dtype: str, extents: Sequence[int]) -> Value:
        """The block's memory for a purpose. Uses that barriers keep apart get the same."""
        key = (purpose, dtype, tuple(extents))
        if key not in self.memories:
            assert self.body is not None
            type = Mem(dtype, extents, space=Space.SHARED, align=32)
            self.memories[key] = self.body.emit(SharedAlloc(type=type), "shared").result
        return self.memories[key]

    def pass_on(self, value: Value, tile: Value, axes: Sequence[str], home: TileRegion) -> Value:
        """Shared memory with a value's tile, for threads that need other elements of it than their own."""
        b = home.builder
        memory = self.shared_memory(("passed", value), dtype_of(tile), [self.plan(axis, home).tile for axis in axes])
        b.emit(SyncThreads())
        b.store(memory, tile, [home.forms[axis] - home.starts[axis] for axis in axes], self.one_of(self.idle(axes), b))
        b.emit(SyncThreads())
        return memory

    def lookup(self, value: Value, region: TileRegion) -> tuple[Value, TileRegion] | None:
        """What was made of a value around here, and where."""
        home: TileRegion | None = region
        while home is not None:
            if value in home.made:
                return home.made[value], home
            home = home.parent
        return None

    def workspace(self, purpose: Hashable, type: Mem, zeros: bool = False) -> Value:
        """A memory that all blocks of a launch, or launches behind it, see."""
        key = (self.body, purpose)
        if key not in self.workspaces:
            self.workspaces[key] = self.out.body.emit(Alloc(type=type, zeros=zeros), "shared").result
        return self.workspaces[key]


def _is_zero_outside(value: Value, where: Value | None) -> bool:
    """Whether a value is what a load gives, which leaves out all for which a condition doesn't hold."""
    op = value.source
    while isinstance(op, Cast):
        op = op.value.source
    if where is None or not isinstance(op, Load) or op.where is None or op.pad:
        return False
    outside, left_out = bounds_of(where), bounds_of(op.where)
    return outside is not None and left_out is not None and set(outside) <= set(left_out)
