"""Maps that read along one axis and write along another. A block has a square of both, or a rectangle: its threads read rows of it side by
side, put them in shared memory, wait, and each takes the column that it writes.

Rows of 128 bytes lie there as eight pieces of 16, exchanged between rows (the swizzle of bulk copies); shorter ones a word apart. Rows
whose elements one thread takes together lie some lines apart, so that threads side by side read different pieces: no two of a warp meet in
a bank."""


from compiler.hir.affine import Affine
from compiler.hir.alignment import steps_by_one
from compiler.hir.gpu import SharedAlloc, SyncThreads
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Space, bytes_of
from compiler.schedule.gpu.facts import ALIGNMENT
from compiler.schedule.gpu.indices import thread_index
from compiler.schedule.gpu.tiles.distribute import Distributing
from compiler.schedule.region import TileRegion
from compiler.schedule.table import SIMD, Table

CHUNKS = 8
"""Accesses of 16 bytes that make a row of a square: 128 bytes, a line of the cache."""

WORD = 4
"""Bytes of a bank of shared memory."""


def crosses(op: Instruction, along: str, across: str) -> bool:
    """Whether a load is contiguous along `across` and varies along the other axis too."""
    if not isinstance(op, Load) or not steps_by_one(mem_of(op.mem), op.index, across):
        return False
    return any(form.coefficient(along) for form in op.index)


class Turning(Distributing):
    """A map whose table has squares: threads with lanes along `along`, threads and registers along `across`."""

    def __init__(self, field: HirFunction, table: Table, along: str, across: str) -> None:
        super().__init__(field, table)
        self.along, self.across = table[along], table[across]

    def make(self, op: Instruction, value: Value, region: TileRegion) -> Value:
        if not isinstance(op, Load) or not crosses(op, self.along.axis, self.across.axis):
            return super().make(op, value, region)
        square, index = self.square(op, region)
        region.made[value] = region.builder.load(square, [*index, region.forms[self.across.axis] - region.starts[self.across.axis]])
        return region.made[value]

    def square(self, op: Load, region: TileRegion) -> tuple[Value, list[Affine]]:
        """Reads a square of a memory; gives the shared memory that it is in then, and where a thread's own elements are."""
        b, along, across = region.builder, self.along, self.across
        thread = thread_index(b)
        wide = across.tile
        reading = b.const(wide // along.lanes, "index")
        high = self.table.threads // (wide // along.lanes)
        line, piece = b.op("div", thread, reading), b.op("rem", thread, reading)
        lane = Affine.of(SIMD) if along.lanes > 1 else Affine()
        column = Affine.of(piece.name) * along.lanes + lane
        turns = along.run // high
        further = Affine.of(self.out.axis(f"{along.axis}_t", turns)) if turns > 1 else Affine()
        spread = region.inside(b, (along.axis, across.axis))
        spread.forms[along.axis] = region.starts[along.axis] + line.name + further * high
        spread.forms[across.axis] = region.starts[across.axis] + column
        dtype = mem_of(op.mem).dtype
        own = Affine.of(self.threads[along.dim].name)
        padded = wide + max(1, WORD // bytes_of(dtype))
        if along.lanes > 1:
            lanes = b.const(along.lanes, "index")
            group = Affine.of(b.op("div", line, lanes).name) + further * (high // along.lanes)
            there = [Affine.of(b.op("rem", line, lanes).name), group, column]
            index = [lane, own]
            type = Mem(dtype, (along.lanes, along.run // along.lanes, padded), space=Space.SHARED, align=ALIGNMENT)
            if along.lanes * bytes_of(dtype) == ALIGNMENT and along.tile == across.tile == along.lanes * CHUNKS:
                type = Mem(dtype, (along.lanes, CHUNKS, across.tile), space=Space.SHARED, align=ALIGNMENT * CHUNKS, swizzle="128B")
        else:
            there = [spread.forms[along.axis] - region.starts[along.axis], column]
            index = [own]
            type = Mem(dtype, (along.tile, padded), space=Space.SHARED, align=ALIGNMENT)
        square = b.emit(SharedAlloc(type=type), "square").result
        read = super().make(op, op.result, spread)
        b.store(square, read, there)
        b.emit(SyncThreads())
        return square, index
