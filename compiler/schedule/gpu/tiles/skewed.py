"""Columns of rows that begin at other offsets from 16 bytes each: sums down them, whose loads begin where 16 bytes do all the same.

Rows that lie as far apart as a block has rows of threads begin at the same offset, so each row of threads has an offset of its own. Its
threads stand that many elements before the block's columns, where no load needs to be put together of two. So each has sums of columns that
are the block's or a neighbour's. The block adds up those of its own through shared memory: of each row of threads the elements that lie
its offset further on. Its last thread along a row has none of its own. The next block's first has the same columns."""

from collections.abc import Callable, Mapping, Sequence
from math import gcd

from compiler.hir.affine import Affine
from compiler.hir.alignment import alignment, steps_by_one, stride_divisors
from compiler.hir.build import Builder
from compiler.hir.core import JOINED_PASSES, Contract, Reduce, dtype_of, union_axes
from compiler.hir.gpu import SyncThreads
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Space, Tile, bytes_of
from compiler.schedule.gpu.facts import ALIGNMENT
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from compiler.schedule.region import NotPlaceable, TileRegion
from compiler.schedule.table import SIMD, AxisPlan
from runtime.records import frozen

OTHERS = ("argmin", "argmax", *JOINED_PASSES)
"""Reductions that aren't sums of a thread's own elements, or that have more to do with each column than its load takes (H200)."""

NARROW = 2
"""Bytes of elements that are worth it: accesses of longer ones are a word at least, wherever they begin."""


def skewed_lanes(field: HirFunction, columns: str, rows: str, tall: int) -> int:
    """Elements of a thread's load down columns, with so many rows of threads; 0 where every load begins at a multiple of 16 bytes anyway,
    or something else than sums along `rows` is made of columns."""
    loads = _loads(field, columns)
    if not loads or any(rows not in form_names(op) or op.index != loads[0].index for op in loads):
        return 0
    first, mem = loads[0], mem_of(loads[0].mem)
    size = bytes_of(mem.dtype)
    if any(mem_of(op.mem) != mem or op.where is not None or op.pad is not None for op in loads) or size > NARROW:
        return 0
    if mem.space is not Space.GLOBAL or (mem.align or 0) % ALIGNMENT or not steps_by_one(mem, first.index, columns):
        return 0
    if any(columns in op.symbols for op in field.body.body if op not in loads and not isinstance(op, Store)):
        return 0
    reductions = [op for op in field.body.body if isinstance(op, Reduce | Contract)]
    stored = [op for op in field.body.body if isinstance(op, Store) and rows in {name for name, _ in union_axes(op.value)}]
    if stored or any(isinstance(op, Contract) or op.over != (rows,) or op.monoid in OTHERS for op in reductions):
        return 0
    lanes = gcd(ALIGNMENT // size, tall * elements_between(first, rows))
    whole = [form.substitute({columns: Affine.of(columns) * lanes}) for form in first.index]
    return 0 if alignment(mem, whole) % min(ALIGNMENT, lanes * size) == 0 else lanes


def form_names(op: Load) -> set[str]:
    return {name for form in op.index for name in form.names}


def _loads(field: HirFunction, columns: str) -> list[Load]:
    return [op for op in field.body.body if isinstance(op, Load) and columns in form_names(op)]


def elements_between(op: Load | Store, rows: str) -> int:
    """What divides the elements from one row to the next."""
    return gcd(*(form.coefficient(rows) * stride for form, stride in zip(op.index, stride_divisors(mem_of(op.mem)), strict=True)))


def element_offset(b: Builder, memory: Value, index: Sequence[Affine], known: Callable[[Affine], Affine]) -> Value:
    """How many elements into a memory an index is; `known`: a form of the field as it is written here."""
    mem, total = mem_of(memory), b.const(0, "index")
    for number, form in enumerate(index):
        if mem.strides is not None:
            total = b.add(total, b.mul(b.index(form), b.index(known(mem.strides[number]))))
        else:
            total = b.add(b.mul(total, b.index(known(mem.dims[number]))), b.index(form))
    return total


@frozen(eq=False)
class Skew:
    """Where the loads of a block's threads begin. `offset`: of a row of threads, how many elements before the block's columns."""

    columns: AxisPlan
    rows: AxisPlan
    first: Value
    offset: Callable[[Affine, Builder], Value]

    def bytes_of(self, loaded: Value) -> int:
        """Of a load of a thread."""
        return self.columns.lanes * bytes_of(dtype_of(loaded))

    def forms(self) -> Mapping[str, Affine]:
        return {self.columns.axis: Affine.of(self.first.name) + SIMD}


def skew_of(placing: BlockTiles, columns: AxisPlan, rows: AxisPlan, region: TileRegion) -> Skew:
    """Where loads begin in the block that a region is. Raises `NotPlaceable` for tables whose rows of threads have no one offset."""
    first = _loads(placing.field, columns.axis)[0]
    extent, tall = placing.field.axes[columns.axis], placing.table.block[rows.dim]
    if rows.threads != tall or elements_between(first, rows.axis) * tall % columns.lanes or columns.threads % placing.table.machine.lanes:
        raise NotPlaceable("rows of threads whose rows begin at several offsets")
    b, start = region.builder, region.starts[columns.axis]
    own = placing.threads[rows.dim]

    def offset(row: Affine, b: Builder) -> Value:
        inside = region.inside(b, ())
        inside.forms |= {rows.axis: row, columns.axis: start}
        index = placing.index(first.index, first.mem, inside)
        total = element_offset(b, first.mem, index, lambda form: placing.form(form, region))
        return b.op("and", total, b.const(columns.lanes - 1, "index"))

    begin = b.index(start - offset(Affine.of(own.name), b).name)
    place = b.index(Affine.of(begin.name) + Affine.of(placing.threads[columns.dim].name) * columns.lanes)
    inside = b.op("lt", place, b.index(placing.form(extent, region)))
    return Skew(columns, rows, b.select(inside, place, begin), offset)


def combine_skewed(placing: BlockTiles, target: Reduce | Contract, values: Sequence[Value], skew: Skew, b: Builder) -> list[Value]:
    """The sums of all rows of threads, each moved back to the block's columns."""
    lanes, wide, tall = skew.columns.lanes, skew.columns.threads, skew.rows.threads
    across, down = placing.threads[skew.columns.dim], placing.threads[skew.rows.dim]
    memories = []
    for number, value in enumerate(values):
        assert isinstance(value.type, Tile)
        if value.type.axis_names != (SIMD,):
            raise NotPlaceable("several sums of a thread beside its columns")
        memories.append(placing.shared_memory(("skewed", number), value.type.dtype, (tall, lanes, wide)))
        b.store(memories[-1], value, [down.name, SIMD, across.name])
    b.emit(SyncThreads())
    near = b.op("min", across, b.const(wide - 2, "index"))

    def moved(row: Affine, b: Builder) -> list[Value]:
        on = Affine.of(SIMD) + skew.offset(row, b).name
        return [b.load(memory, [row, on % lanes, on.floordiv(lanes) + near.name]) for memory in memories]

    with b.loop("row", 1, tall, carried=moved(Affine(), b), unroll=1) as (deep, loop):
        deep.yield_(*placing.combined(target, loop.carried, moved(Affine.of(loop.variable.name), deep), deep))
    b.emit(SyncThreads())
    return list(loop.results)
