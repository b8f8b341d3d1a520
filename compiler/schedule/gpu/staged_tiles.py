"""Tiles of operands in shared memory. An operand is put there by threads spread so that neighbours read neighbouring elements; one that is
computed from a reduction along the summed axis (the weights of attention) is computed where its parts are, and put there from those
registers."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Contract, Reduce, dtype_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load
from compiler.hir.types import Mem, bytes_of
from compiler.schedule.gpu.block_tiles import BlockTiles
from compiler.schedule.gpu.indices import thread_index
from compiler.schedule.region import TileRegion

PADDING = 1
"""Elements between rows of a shared tile, so that a column of it lies in different banks."""

ROW_BYTES = 16
"""The same for tensor cores and wide reads, which want rows at multiples of that."""


class Staged:
    """A tile of an operand in shared memory: for threads, summed axes first and the operand's own axes fastest, so that neighbours read
    neighbouring elements; for tensor cores, which take either, as it lies in memory."""

    def __init__(self, placing: BlockTiles, side: str, operand: Value, over: Sequence[str], region: TileRegion, whole: bool) -> None:
        names = placing.axes([operand])
        along = [axis for axis in over if axis in names]
        own = sorted((a for a in names if a not in over and placing.plan(a, region).tile > 1), key=placing.table.order)
        self.dtype = dtype_of(operand)
        self.sum_fastest = whole and contiguous(operand, along[-1]) > contiguous(operand, own[-1])
        self.axes = own + along if self.sum_fastest else along + own
        extents = [placing.plan(axis, region).tile for axis in self.axes]
        if len(extents) > 1:
            last = placing.plan(self.axes[-1], region)
            wide = whole or last.lanes > 1 or last.beside
            extents[-1] += ROW_BYTES // bytes_of(self.dtype) if wide else PADDING
        self.memory = placing.shared_memory(side, dtype_of(operand), extents or [1])
        if depends_on_reduction(operand, along) or placing.lookup(operand, region) is not None:
            self.spread, self.where = region, placing.one_of(placing.idle(self.axes), region.builder)
        else:
            self.spread, self.where = side_by_side(placing, operand, self.axes, region)
        self.value = placing.masked(placing.value(operand, self.spread), 0, along, self.spread)

    def put(self, b: Builder) -> None:
        """This thread's part of the tile, to shared memory."""
        b.store(self.memory, self.value, [self.spread.forms[axis] - self.spread.starts[axis] for axis in self.axes] or [0], self.where)

    def read(self, b: Builder, places: dict[str, Affine], region: TileRegion) -> Value:
        """The registers of this thread at a place along the summed axes."""
        index = [places[axis] if axis in places else region.forms[axis] - region.starts[axis] for axis in self.axes]
        return b.load(self.memory, index or [0])


def depends_on_reduction(value: Value, over: Sequence[str]) -> bool:
    """Whether the value is computed from a reduction that varies along one of the axes itself."""
    waiting, seen = [value], set()
    while waiting:
        value_ = waiting.pop()
        if value_ in seen or value_.source is None:
            continue
        seen.add(value_)
        if isinstance(value_.source, Reduce | Contract):
            if set(over).intersection(getattr(value_.type, "axis_names", ())):
                return True
            continue
        waiting += value_.source.operand_values
    return False


def side_by_side(placing: BlockTiles, operand: Value, axes: Sequence[str], region: TileRegion) -> tuple[TileRegion, Value | None]:
    """The body as threads see it that share out the elements of a tile among all of them, the axis contiguous in memory fastest; and
    when a thread has a part, if not all have."""
    b = region.builder
    spread = region.inside(b, axes)
    rest = thread_index(b)
    left = placing.table.threads
    for axis in sorted(axes, key=lambda axis: -contiguous(operand, axis)):
        extent = placing.plan(axis, region).tile
        threads = min(extent, left)
        registers = extent // threads
        position = Affine()
        if threads > 1:
            thread = rest if threads == left else b.op("rem", rest, b.const(threads, "index"))
            rest = b.op("div", rest, b.const(threads, "index")) if threads < left else b.const(0, "index")
            position = Affine.of(thread.name)
            left //= threads
        if registers > 1:
            position = position + Affine.of(placing.out.axis(f"{axis}_c", registers)) * threads
        spread.forms[axis] = spread.starts[axis] + position
    return spread, (b.op("eq", rest, b.const(0, "index")) if left > 1 else None)


def contiguous(operand: Value, axis: str) -> int:
    """How many loads behind an operand step to the next element along the axis, less those that step further."""
    votes = 0
    waiting: list[Instruction | None] = [operand.source]
    seen: set[int] = set()
    while waiting:
        op = waiting.pop()
        if op is None or id(op) in seen or isinstance(op, Reduce | Contract):
            continue
        seen.add(id(op))
        if isinstance(op, Load):
            steps = [form.coefficient(axis) for form in op.index]
            mem = op.mem.type
            assert isinstance(mem, Mem)
            unit = mem.strides is None or mem.strides[-1].value == 1
            if any(steps):
                votes += 1 if unit and steps[-1] == 1 and not any(steps[:-1]) else -1
        waiting += [value.source for value in op.operand_values]
    return votes
