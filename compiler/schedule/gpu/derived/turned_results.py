"""Results that lie along another axis than what is read: lanes stand along the reading, so each would write far from its neighbours. A
block puts a tile of them in shared memory, and its threads write that row by row."""

from collections.abc import Iterator, Mapping, Sequence
from math import gcd, prod

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import SharedAlloc, SyncThreads
from compiler.hir.instruction import Value
from compiler.hir.memory import Store, mem_of
from compiler.hir.types import Mem, Space, bytes_of
from compiler.machines.access import ALIGNMENT, WORD
from compiler.schedule.gpu.derived.accesses import widest_vector
from compiler.schedule.gpu.derived.instances import Part, StoredElement, ThreadInstances
from compiler.schedule.gpu.derived.nest import ThreadNest
from compiler.schedule.gpu.derived.table import ThreadTable
from compiler.schedule.stages import Start
from runtime.records import evolve

MOST_TILE = 32 << 10
"""Bytes of a block's tile."""


def can_turn(nest: ThreadNest) -> bool:
    """Whether all results are stored in any case, each axis along a dimension of its own."""
    stores = [(number, op) for number, op in enumerate(nest.ops) if isinstance(op, Store)]
    forms = [form for number, _ in stores for form in nest.forms[number]]
    plain = all(len(terms) <= 1 and all(coefficient == 1 for _, coefficient in terms) for terms, _ in forms)
    return plain and all(op.where is None for _, op in stores) and len({op.mem for _, op in stores}) == len(stores)


def tiles_of(nest: ThreadNest, table: ThreadTable) -> Mapping[int, Mem]:
    """The tile of each memory of results, by number. Rows end in an unused bank or access, so that lanes with a row each meet in none."""
    tiles = {}
    for number, op in enumerate(nest.ops):
        if isinstance(op, Store):
            mem, shape = mem_of(op.mem), _shape(nest, table, number)
            size, own = bytes_of(mem.dtype), gcd(ALIGNMENT, bytes_of(mem.dtype) * _along(nest, table, number))
            shape[-1] += max(WORD, own) // min(size, max(WORD, own))
            tiles[nest.memories.index(op.mem)] = Mem(mem.dtype, tuple(shape), space=Space.SHARED, align=ALIGNMENT)
    return tiles


def fits(nest: ThreadNest, table: ThreadTable) -> bool:
    """Whether the nest has whole tiles that a block has room for."""
    if any(tile > extent for tile, extent in zip(table.tile, nest.extents, strict=False)):
        return False
    return sum(bytes_of(mem.dtype) * prod(dim.constant for dim in mem.dims) for mem in tiles_of(nest, table).values()) <= MOST_TILE


def _shape(nest: ThreadNest, table: ThreadTable, store: int) -> list[int]:
    return [table.tile[terms[0][0]] if terms else 1 for terms, _ in nest.forms[store]]


def _along(nest: ThreadNest, table: ThreadTable, store: int) -> int:
    """Elements of a thread along a row."""
    terms, _ = nest.forms[store][-1]
    return table.registers[terms[0][0]] if terms else 1


def row_lanes(nest: ThreadNest, table: ThreadTable, store: int) -> int:
    """Elements of a row that a thread writes at once."""
    op = nest.ops[store]
    assert isinstance(op, Store)
    parts = [tuple((axis, table.tile_unit(nest, axis)) for axis, _ in terms) for terms, _ in nest.forms[store]]
    return gcd(widest_vector(mem_of(op.mem), parts), _shape(nest, table, store)[-1], prod(table.registers))


def moved_lanes(nest: ThreadNest, table: ThreadTable, memory: int) -> tuple[int, int, int]:
    """Elements of a thread's accesses to a tile as it is filled, as it is read and of its rows in memory."""
    store = next(number for number, op in enumerate(nest.ops) if isinstance(op, Store) and op.mem is nest.memories[memory])
    size = bytes_of(mem_of(nest.memories[memory]).dtype)
    rows = row_lanes(nest, table, store)
    return gcd(ALIGNMENT, size * _along(nest, table, store)) // size, rows, rows


def vector_axis(start: Start, count: int) -> str:
    """The axis of a vector of so many elements."""
    name = f"simd_of_{count}"
    return name if name in start.out.function.axes else start.out.axis(name, count)


class TurnedResults:
    """The tiles in a block's kernel. `firsts`: of each axis the tile's first element, in units."""

    def __init__(self, start: Start, nest: ThreadNest, table: ThreadTable, firsts: Sequence[Value]) -> None:
        self.start, self.nest, self.table, self.firsts = start, nest, table, firsts
        emit = start.out.body.emit
        self.mems = tiles_of(nest, table)
        self.tiles = {number: emit(SharedAlloc(type=mem), "tile").result for number, mem in self.mems.items()}

    def elements(self, instances: ThreadInstances) -> Iterator[StoredElement]:
        """A thread's results where they lie in the tiles, whose digits are those of threads in their block, numbered behind the others.
        Rows of neighbouring lanes are next to each other, a thread's own as far apart as there are lanes."""
        nest, table = self.nest, self.table
        for element in instances.stores:
            parts, at = list[Part](), []
            for dim, ((terms, constant), own) in enumerate(zip(nest.forms[element.op], element.at, strict=True)):
                axis, last = terms[0][0] if terms else 0, dim == len(element.at) - 1
                span, threads = instances.spans[axis], table.threads[axis]
                register = own - constant - (span.unit * span.low if terms and span.low == span.high else 0)
                parts.append(((nest.outputs + axis, table.registers[axis] if last else 1),) if terms and threads > 1 else ())
                at.append(register if last or not terms else register * threads)
            yield evolve(element, parts=tuple(parts), at=tuple(at))

    def write(self, b: Builder) -> None:
        """Writes the tiles that all threads have filled."""
        b.emit(SyncThreads())
        nest, table = self.nest, self.table
        thread = b.cast(b.index(self.start.thread), "u32")
        for number, op in enumerate(nest.ops):
            if not isinstance(op, Store):
                continue
            shape, wide = _shape(nest, table, number), row_lanes(nest, table, number)
            pieces = shape[-1] // wide
            further = Affine.of(vector_axis(self.start, wide)) if wide > 1 else Affine()
            starts = [Affine((), constant) for _, constant in nest.forms[number]]
            for dim, (terms, _) in enumerate(nest.forms[number]):
                for axis, _ in terms:
                    starts[dim] = starts[dim] + Affine.of(b.cast(self.firsts[axis], "index").name) * table.tile_unit(nest, axis)
            moved = []
            for turn in range(prod(table.registers) // wide):
                if turn == 0 or table.block % pieces:
                    place = b.add(thread, _number(b, turn * table.block)) if turn else thread
                    line, piece = b.op("div", place, _number(b, pieces)), b.op("rem", place, _number(b, pieces))
                    left = line
                else:
                    left = b.add(line, _number(b, turn * table.block // pieces))
                column = Affine.of(b.cast(piece, "index").name) * wide + further
                index, own = [column], [column]
                for dim in range(len(shape) - 2, -1, -1):
                    row = b.op("rem", left, _number(b, shape[dim])) if dim else left
                    left = b.op("div", left, _number(b, shape[dim])) if dim else left
                    index.insert(0, Affine.of(b.cast(row, "index").name))
                    own.insert(0, self.row(b, row, number, dim))
                moved.append((own, b.load(self.tiles[nest.memories.index(op.mem)], index)))
            for own, value in moved:
                b.store(self.start.values[op.mem], value, [first + place for first, place in zip(starts, own, strict=True)])

    def row(self, b: Builder, row: Value, store: int, dim: int) -> Affine:
        """Which of the results' rows a row of a tile is."""
        terms, _ = self.nest.forms[store][dim]
        registers, threads = (self.table.registers[terms[0][0]], self.table.threads[terms[0][0]]) if terms else (1, 1)
        if registers > 1 and threads > 1:
            lane, register = b.op("rem", row, _number(b, threads)), b.op("div", row, _number(b, threads))
            row = b.add(b.mul(lane, _number(b, registers)), register)
        return Affine.of(b.cast(row, "index").name)


def _number(b: Builder, number: int) -> Value:
    return b.const(number, "u32")
