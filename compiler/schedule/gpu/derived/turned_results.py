"""Results that lie along another axis than what is read: lanes stand along the reading, so each would write far from its neighbours. A
block puts a tile of them in shared memory, and its threads write that row by row."""

from collections.abc import Iterator, Mapping, Sequence
from math import gcd, prod

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Stack
from compiler.hir.gpu import SharedAlloc, SyncThreads
from compiler.hir.instruction import Value
from compiler.hir.memory import Store, mem_of
from compiler.hir.types import Mem, Space, bytes_of
from compiler.machines.access import ALIGNMENT, WORD
from compiler.schedule.gpu.derived.accesses import strides_of, widest_vector
from compiler.schedule.gpu.derived.instances import Part, StoredElement, ThreadInstances
from compiler.schedule.gpu.derived.nest import ThreadNest
from compiler.schedule.gpu.derived.table import ThreadTable
from compiler.schedule.stages import Start
from runtime.records import evolve

MOST_TILE = 32 << 10
"""Bytes of a block's tiles."""


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
            size, terms = bytes_of(mem.dtype), nest.forms[number][-1][0]
            own = gcd(ALIGNMENT, size * table.registers[terms[0][0]] if terms else size)
            shape[-1] += max(WORD, own) // min(size, max(WORD, own))
            tiles[nest.memories.index(op.mem)] = Mem(mem.dtype, tuple(shape), space=Space.SHARED, align=ALIGNMENT)
    return tiles


def _shape(nest: ThreadNest, table: ThreadTable, store: int) -> list[int]:
    return [table.tile[terms[0][0]] if terms else 1 for terms, _ in nest.forms[store]]


def row_lanes(nest: ThreadNest, table: ThreadTable, store: Store) -> tuple[int, bool]:
    """Elements of a row that a thread writes at once, and whether they are words of rows that begin anywhere."""
    number, mem = nest.ops.index(store), mem_of(store.mem)
    parts = [tuple((axis, table.tile_unit(nest, axis)) for axis, _ in terms) for terms, _ in nest.forms[number]]
    length, each = _shape(nest, table, number)[-1], WORD // min(WORD, bytes_of(mem.dtype))
    lanes = gcd(widest_vector(mem, parts), length, prod(table.registers))
    words = lanes < each and not (length % each or prod(table.registers) % each or (mem.align or 0) % WORD) and strides_of(mem)[-1] == 1
    return each if words else lanes, words


def number_of(b: Builder, number: int) -> Value:
    return b.const(number, "u32")


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
        for number, op in enumerate(self.nest.ops):
            if isinstance(op, Store):
                self.rows(b, number, op)

    def rows(self, b: Builder, number: int, op: Store) -> None:
        """Writes a tile in vectors; in words where its rows begin anywhere, and before their first word and behind their last each element
        by itself."""
        memory, tile = self.start.values[op.mem], self.tiles[self.nest.memories.index(op.mem)]
        length = _shape(self.nest, self.table, number)[-1]
        (wide, words), starts = row_lanes(self.nest, self.table, op), [Affine((), constant) for _, constant in self.nest.forms[number]]
        for dim, (terms, _) in enumerate(self.nest.forms[number]):
            for axis, _ in terms:
                starts[dim] = starts[dim] + Affine.of(b.cast(self.firsts[axis], "index").name) * self.table.tile_unit(self.nest, axis)
        strides = strides_of(mem_of(op.mem))
        simd = Affine.of(vector_axis(self.start, wide)) if wide > 1 else Affine()

        def at(own: Sequence[Affine]) -> list[Affine]:
            return [first + place for first, place in zip(starts, own, strict=True)]

        def ahead(own: Sequence[Affine]) -> Affine:
            """Elements of a row before its first word."""
            offset = sum((form * (-stride % wide) for form, stride in zip(at([*own, Affine()]), strides, strict=True)), Affine())
            return Affine.of(b.cast(b.op("and", b.cast(b.index(offset), "u32"), number_of(b, wide - 1)), "index").name)

        for piece, index, own in self.places(b, number, length // wide):
            if not words:
                column = piece * wide + simd
                b.store(memory, b.load(tile, [*index, column]), at([*own, column]))
                continue
            column = piece * wide + ahead(own)
            with b.when(b.op("le", b.index(column), b.const(length - wide, "index"))) as inner:
                values = tuple(inner.load(tile, [*index, column + element]) for element in range(wide))
                word = inner.emit(Stack(values=values, axis=vector_axis(self.start, wide))).result
                inner.store(memory, word, at([*own, column + simd])).align = WORD
        for piece, index, own in self.places(b, number, wide) if words else ():
            before = ahead(own)
            behind = b.op("ge", b.index(piece), b.index(before))
            column = Affine.of(b.select(behind, b.index(piece + length - wide), b.index(piece)).name)
            with b.when(b.op("gt", b.index(before), b.const(0, "index"))) as inner:
                inner.store(memory, inner.load(tile, [*index, column]), at([*own, column]))

    def places(self, b: Builder, number: int, pieces: int) -> Iterator[tuple[Affine, list[Affine], list[Affine]]]:
        """A thread's pieces of a tile's rows, one after the other: which of a row's, and the row's index in the tile and in the results."""
        shape, block = _shape(self.nest, self.table, number), self.table.block
        thread, count = b.cast(b.index(self.start.thread), "u32"), prod(shape[:-1]) * pieces
        for turn in range(-(-count // block)):
            last = (turn + 1) * block > count
            if turn == 0 or block % pieces or last:
                place = b.add(thread, number_of(b, turn * block)) if turn else thread
                place = b.op("min", place, number_of(b, count - 1)) if last else place
                line, piece = b.op("div", place, number_of(b, pieces)), b.op("rem", place, number_of(b, pieces))
                left = line
            else:
                left = b.add(line, number_of(b, turn * block // pieces))
            index, own = list[Affine](), list[Affine]()
            for dim in range(len(shape) - 2, -1, -1):
                row = b.op("rem", left, number_of(b, shape[dim])) if dim else left
                left = b.op("div", left, number_of(b, shape[dim])) if dim else left
                index.insert(0, Affine.of(b.cast(row, "index").name))
                own.insert(0, self.row(b, row, number, dim))
            yield Affine.of(b.cast(piece, "index").name), index, own

    def row(self, b: Builder, row: Value, store: int, dim: int) -> Affine:
        """Which of the results' rows a row of a tile is."""
        terms, _ = self.nest.forms[store][dim]
        registers, threads = (self.table.registers[terms[0][0]], self.table.threads[terms[0][0]]) if terms else (1, 1)
        if registers > 1 and threads > 1:
            lane, register = b.op("rem", row, number_of(b, threads)), b.op("div", row, number_of(b, threads))
            row = b.add(b.mul(lane, number_of(b, registers)), register)
        return Affine.of(b.cast(row, "index").name)
