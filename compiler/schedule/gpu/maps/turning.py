"""Maps that read along one axis and write along another. A block has a square of both, or a rectangle: its threads read rows of it side by
side, put them in shared memory, wait, and each takes the column that it writes.

Rows of 128 bytes lie there as eight pieces of 16, exchanged between rows (the swizzle of bulk copies); shorter ones a word apart. Rows
whose elements one thread takes together lie some lines apart, so that threads side by side read different pieces: no two of a warp meet in
a bank."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.alignment import steps_by_one
from compiler.hir.gpu import SharedAlloc, SyncThreads
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Space, bytes_of
from compiler.schedule.gpu.facts import ALIGNMENT
from compiler.schedule.gpu.indices import thread_index
from compiler.schedule.gpu.tiles.distribute import Distributing
from compiler.schedule.gpu.tiles.skewed import element_offset
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import SIMD, AxisPlan, Table

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
        self.shift = Affine()
        """How many elements behind the first line of a square a thread's own begin, those of threads before it left out."""
        self.thread: Affine = Affine()
        self.filled: dict[Load, tuple[Value, list[Affine], Affine]] = {}
        """Shared memories that are filled already, and where a thread's elements lie there."""

    def reach(self, plan: AxisPlan) -> Affine:
        return super().reach(plan) + (plan.lanes - 1 if plan is self.skewed else 0)

    def stand_skewed(self, plan: AxisPlan, region: TileRegion) -> None:
        """Rows of results begin at several offsets from 16 bytes, and a thread's stores where 16 bytes do: so many elements before its
        square's, whose first line lies as far before as any row's."""
        b, start, own = region.builder, region.starts[plan.axis], self.threads[plan.dim]
        store = next(op for op in self.field.body.body if isinstance(op, Store))
        offset = self.offset(store, region, start, region.starts[self.across.axis] + self.threads[self.across.dim].name)
        shift = b.sub(b.const(plan.lanes, "index"), b.op("and", offset, b.const(plan.lanes - 1, "index")))
        self.shift = Affine.of(shift.name)
        self.thread = Affine.of(b.op("min", own, b.const(plan.threads - 2, "index")).name)
        region.forms[plan.axis] = Affine.of(b.index(start - plan.lanes + shift.name + Affine.of(own.name) * plan.lanes).name) + SIMD

    def offset(self, op: Load | Store, region: TileRegion, along: Affine, across: Affine) -> Value:
        """How many elements into its memory an access is at a place."""
        inside = region.inside(region.builder, ())
        inside.forms |= {self.along.axis: along, self.across.axis: across}
        return element_offset(region.builder, op.mem, self.index(op.index, op.mem, inside), lambda form: self.form(form, region))

    def in_block(self, group: Sequence[Target], region: TileRegion, ragged: Sequence[AxisPlan]) -> None:
        plan = self.skewed
        if plan is None:
            super().in_block(group, region, ragged)
            return
        b, start = region.builder, region.starts[plan.axis]
        inside = b.op("ge", b.index(start), b.const(plan.overlap, "index"))
        for each in (plan, *ragged):
            fits = b.op("le", b.index(region.starts[each.axis] + each.tile), b.index(self.field.axes[each.axis]))
            inside = b.both(inside, fits)
        axes = [each.axis for each in (plan, *ragged)]
        with b.branch(inside) as (yes, no, _):
            self.produce(group, region.inside(yes, axes), {})
            end = region.inside(no, axes)
            end.masks.update({axis: self.field.axes[axis] for axis in axes})
            self.produce(group, end, {})

    def finish_target(self, target: Target, region: TileRegion, result: dict[Target, list[Value]], begun: bool) -> None:
        """A thread stores all of its elements at once where all of them are inside, row by row: values of all rows would take too many
        registers."""
        plan = self.skewed
        if plan is None or not isinstance(target, Store):
            super().finish_target(target, region, result, begun)
            return
        for op in self.field.body.body:
            if crosses(op, plan.axis, self.across.axis):
                assert isinstance(op, Load)
                self.filled[op] = self.square(op, region)
        across = self.across
        with region.builder.loop("row", 0, across.registers, unroll=1) as (b, row):
            inner = region.inside(b, (across.axis,))
            own = Affine.of(row.variable.name) * across.threads + self.threads[across.dim].name
            inner.forms[across.axis] = inner.starts[across.axis] + own
            if plan.axis not in region.masks:
                self.store_aligned(target, inner)
                return
            first = region.forms[plan.axis].without(SIMD)
            behind = b.op("le", b.index(first + plan.lanes), b.index(self.field.axes[plan.axis]))
            with b.branch(b.op("and", b.op("ge", b.index(first), b.const(0, "index")), behind)) as (yes, no, _):
                whole = inner.inside(yes, ())
                del whole.masks[plan.axis]
                self.store_aligned(target, whole)
                super().finish_target(target, inner.inside(no, ()), result, begun)

    def store_aligned(self, target: Store, region: TileRegion) -> None:
        super().finish_target(target, region, {}, False)
        stored = region.builder.region.body[-1]
        assert isinstance(stored, Store)
        stored.align = ALIGNMENT

    def make(self, op: Instruction, value: Value, region: TileRegion) -> Value:
        if not isinstance(op, Load) or not crosses(op, self.along.axis, self.across.axis):
            return super().make(op, value, region)
        square, index, before = self.filled.get(op) or self.square(op, region)
        mine = region.forms[self.across.axis] - region.starts[self.across.axis]
        region.made[value] = region.builder.load(square, [*index, mine + before])
        return region.made[value]

    def before(self, op: Load, region: TileRegion, line: Value) -> Value:
        """How many elements before a square a line's aligned loads begin; in 32 bits, since lines are many."""
        b, start = region.builder, region.starts[self.along.axis] - self.along.overlap
        first, second = (self.offset(op, region, start + number, region.starts[self.across.axis]) for number in range(2))
        further = b.mul(b.cast(line, "u32"), b.cast(b.sub(second, first), "u32"))
        return b.cast(b.op("and", b.add(b.cast(first, "u32"), further), b.const(self.along.lanes - 1, "u32")), "index")

    def square(self, op: Load, region: TileRegion) -> tuple[Value, list[Affine], Affine]:
        """Reads a square of a memory; gives the shared memory that it is in then, and where a thread's own elements are."""
        b, along, across = region.builder, self.along, self.across
        thread = thread_index(b)
        wide = across.tile + (across.threads if along.overlap else 0)
        reading = b.const(wide // along.lanes, "index")
        high = self.table.threads // (wide // along.lanes)
        line, piece = b.op("div", thread, reading), b.op("rem", thread, reading)
        lane = Affine.of(SIMD) if along.lanes > 1 else Affine()
        column = Affine.of(piece.name) * along.lanes + lane
        turns = along.run // high
        further = Affine.of(self.out.axis(f"{along.axis}_t", turns)) if turns > 1 else Affine()
        spread = region.inside(b, (along.axis, across.axis))
        spread.forms[along.axis] = region.starts[along.axis] - along.overlap + line.name + further * high
        spread.forms[across.axis] = region.starts[across.axis] + column
        if along.overlap:
            begin = b.sub(b.index(region.starts[across.axis]), self.before(op, region, line))
            first = b.index(Affine.of(begin.name) + Affine.of(piece.name) * along.lanes)
            outside = b.op("ge", first, b.index(self.field.axes[across.axis]))
            spread.forms[across.axis] = Affine.of(b.select(outside, begin, first).name) + SIMD
            spread.masks.pop(across.axis, None)
        dtype = mem_of(op.mem).dtype
        own = Affine.of(self.threads[along.dim].name)
        before = Affine()
        padded = wide + max(1, WORD // bytes_of(dtype))
        if along.lanes > 1:
            lanes = b.const(along.lanes, "index")
            group = Affine.of(b.op("div", line, lanes).name) + further * (high // along.lanes)
            there = [Affine.of(b.op("rem", line, lanes).name), group, column]
            moved = lane + self.shift
            index = [lane, own]
            if along.overlap:
                before = Affine.of(self.before(op, region, b.index(moved)).name)
                index = [moved % along.lanes, moved.floordiv(along.lanes) + self.thread]
            type = Mem(dtype, (along.lanes, along.run // along.lanes + (along.overlap > 0), padded), space=Space.SHARED, align=ALIGNMENT)
            if along.lanes * bytes_of(dtype) == ALIGNMENT and along.tile == across.tile == along.lanes * CHUNKS:
                type = Mem(dtype, (along.lanes, CHUNKS, across.tile), space=Space.SHARED, align=ALIGNMENT * CHUNKS, swizzle="128B")
        else:
            there = [spread.forms[along.axis] - region.starts[along.axis], column]
            index = [own]
            type = Mem(dtype, (along.tile, padded), space=Space.SHARED, align=ALIGNMENT)
        square = b.emit(SharedAlloc(type=type), "square").result
        read = super().make(op, op.result, spread)
        if along.overlap and isinstance(read.source, Load):
            read.source.align = ALIGNMENT
        b.store(square, read, there)
        b.emit(SyncThreads())
        return square, index, before
