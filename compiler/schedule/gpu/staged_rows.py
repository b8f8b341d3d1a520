"""Rows of a ragged axis whose elements say what else is read, through shared memory. The rows of a block mostly lie behind each other, so
that all its threads take their elements in turn, whatever the rows' lengths: lookups keep all lanes busy. What is computed of an element,
but for its row, is left in shared memory, where a thread a row joins it. Where a block's rows lie elsewhere, or are far more than they
should be, or a check fails, lanes read their rows by themselves."""

from collections.abc import Mapping, Sequence
from math import prod

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For
from compiler.hir.core import dtype_of
from compiler.hir.gpu import SharedAlloc, SyncThreads
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Check, Load, mem_of
from compiler.hir.types import Mem, Space, bytes_of
from compiler.schedule.gpu.at_once import Piece, overlaps, stores
from compiler.schedule.gpu.barriers import Barriers
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.lanes import power_of_two
from compiler.schedule.gpu.need import depending, read_names
from compiler.schedule.gpu.ragged import LONG, LaneCooperation, RowShape, looked_up
from compiler.schedule.gpu.spread import Spread
from compiler.schedule.stages import Start
from runtime.records import evolve, frozen

SHORT = 32
"""Elements of a mean row from which on its lanes read it as fast by themselves."""

LEAST = 8
"""Elements of a mean row below which a row isn't long because the mean one is short."""

THREADS = 128
"""Of a block, each with a row."""

TABLES = 128 << 10
"""Bytes of what is looked up, at most: the first cache has them, so that instructions take the time, of which lanes without an element
waste many. On an H200 rows of 9 to 14 became 1.5 to 1.8 times as fast with tables of up to 40 KB, and rows of 16 and 3 with neighbouring
columns in tables of 8 and 32 MB 0.76 and 0.65 times."""

BYTES = 16384
"""Of shared memory that a block has, at most."""

UNDER_WAY = 4
"""Elements of what is looked up that a thread has under way."""

FULL = 4
"""Times the memory from which on a block's rows are too many."""


@frozen(eq=False)
class StagedRows:
    """`early`: what is computed of an element, whatever its row, and `kept` of it; `late`: what a row does with that. `elements`: how many
    the memory holds; `extents`: of what the loop reads."""

    early: tuple[Instruction, ...]
    late: tuple[Instruction, ...]
    kept: tuple[Value, ...]
    elements: int
    extents: tuple[Affine, ...]


def staged_rows(nest: Spread, spreads: Mapping[For, Spread], shape: RowShape, known: Facts) -> tuple[RowShape, StagedRows] | None:
    """How threads take such rows, one each; None where rows are no such ones."""
    if len(spreads) != 1 or shape.by_block or shape.across or shape.mean >= SHORT:
        return None
    ((loop, spread),) = spreads.items()
    if stores(loop):
        return None
    body = [*nest.between, *nest.inner.body.body]
    tables = {op.mem for op in looked_up(loop)}
    if loop not in body or not tables or sum(_size(mem_of(table), known) for table in tables) > TABLES:
        return None
    before = body[: body.index(loop)]
    given = [*(outer.variable for outer in nest.loops), *(result for op in before for result in op.results)]
    staged = _staged(spread, given, shape.mean * THREADS * 5 // 4)
    if staged is None:
        return None
    turns, long = min(shape.turns, UNDER_WAY), shape.long and LONG * max(shape.mean, LEAST)
    return evolve(shape, lanes=1, turns=turns, threads=THREADS, wide=False, staged=True, long=long), staged


def _size(memory: Mem, known: Facts) -> int:
    return bytes_of(memory.dtype) * prod(known.about(dim) for dim in memory.dims)


def _staged(spread: Spread, given: Sequence[Value], elements: int) -> StagedRows | None:
    """`given`: what a row has before its loop; `elements`: of a block's rows, about."""
    loop = spread.outer
    if not overlaps(spread):
        return None
    ops = loop.body.body[:-1]
    own = depending([*given, *loop.body.parameters[1:]], ops)
    late = {op for op in ops if any(result.name in own for result in op.results)}
    early = [op for op in ops if op not in late]
    if any(isinstance(op, Load | Check) for op in late) or any(own & read_names(op) for op in early):
        return None
    walked = [op for op in early if isinstance(op, Load) and loop.variable.name in op.symbols]
    if not walked or any(op.index != (Affine.of(loop.variable.name),) for op in walked):
        return None
    made = {result for op in early for result in op.results}
    used = [value for op in (*ops, loop.body.body[-1]) if op not in early for value in op.operand_values]
    kept = tuple(dict.fromkeys(value for value in used if value in made))
    if not kept:
        return None
    room = power_of_two(BYTES // sum(bytes_of(dtype_of(value)) for value in kept) + 1) // 2
    extents = tuple(mem_of(op.mem).dims[0] for op in walked)
    return StagedRows(tuple(early), tuple(op for op in ops if op in late), kept, min(room, power_of_two(elements)), extents)


class StagedCooperation(LaneCooperation):
    """The work of such rows as the code of one thread."""

    def __init__(
        self, start: Start, spreads: Mapping[For, Spread], barriers: Barriers, shape: RowShape, rows: Value, warp: int, staged: StagedRows
    ) -> None:
        super().__init__(start, spreads, barriers, shape, rows, warp)
        self.staged = staged
        out = start.out.body
        memory = [Mem(dtype_of(value), (staged.elements,), space=Space.SHARED) for value in staged.kept]
        self.memories = [out.emit(SharedAlloc(type=type), "staged").result for type in memory]
        self.bounds = out.emit(SharedAlloc(type=Mem("i64", (2,), space=Space.SHARED)), "bounds").result
        self.wrong = out.emit(SharedAlloc(type=Mem("u32", (1,), space=Space.SHARED)), "wrong").result

    def early(self, loop: For) -> Sequence[Instruction]:
        return self.staged.early

    def late(self, loop: For) -> Sequence[Instruction]:
        return self.staged.late

    def share(self, spread: Spread, number: Value, stride: Value | int, b: Builder) -> list[list[Value]]:
        loop, parameters = spread.outer, spread.outer.body.parameters[1:]
        cells = self.started(spread, b)
        begin, end = self.range_of_block(loop, b)
        low, high, whole = (b.cast(b.sub(b.index(place), begin), "u64") for place in (*self.ends(loop, b), Affine.of(end.name)))
        inside = b.both(b.op("le", low, high), b.op("le", high, whole))
        fits = b.both(b.op("le", b.const(0, "index"), begin), b.op("le", whole, b.const(FULL * self.staged.elements, "u64")))
        for extent in self.staged.extents:
            fits = b.both(fits, b.op("le", end, b.index(self.copy.form(extent))))
        types = [value.type for value in cells]
        with b.branch(fits, types) as (some, none, both):
            own = [some.select(inside, some.cast(place, "i32"), some.const(0, "i32")) for place in (low, high)]
            some.yield_(*self.joined(loop, (begin, end), (own[0], own[1]), cells, some))
            none.yield_(*cells)
        right = b.both(b.both(fits, inside), b.op("eq", b.load(self.wrong, [0]), b.const(0, "u32")))
        wanted = [cell for fold in spread.folds for cell in fold.cells]
        totals = dict(zip(parameters, both.results, strict=True))
        with b.branch(right, [cell.type for cell in wanted]) as (there, alone, either):
            there.yield_(*(totals[cell] for cell in wanted))
            alone.yield_(*(value for values in super().share(spread, number, stride, alone) for value in values))
        results = iter(either.results)
        return [[next(results) for _ in fold.cells] for fold in spread.folds]

    def range_of_block(self, loop: For, b: Builder) -> tuple[Value, Value]:
        """Where the first row of the block begins, and the last one ends."""
        for place, (thread, form) in enumerate(((0, loop.low), (self.start.threads - 1, loop.high))):
            with b.when(b.op("eq", self.thread, b.const(thread, "index"))) as one:
                one.store(self.bounds, one.cast(one.index(self.form(form)), "i64"), [place])
                if not place:
                    one.store(self.wrong, one.const(0, "u32"), [0])
        b.emit(SyncThreads())
        begin, end = (b.cast(b.load(self.bounds, [place]), "index") for place in range(2))
        return begin, end

    def joined(self, loop: For, block: tuple[Value, Value], row: tuple[Value, Value], cells: Sequence[Value], b: Builder) -> list[Value]:
        """What the cells hold with the elements of the row: where the block's elements begin and end, and those of the row behind that."""
        (begin, end), (low, high) = block, row
        with b.loop("chunk", begin.name, end.name, self.staged.elements, cells, unroll=1) as (inner, walked):
            chunk = walked.variable
            stop = inner.op("min", inner.index(Affine.of(chunk.name) + self.staged.elements), end)
            self.computed_first(loop, chunk, stop, inner)
            inner.emit(SyncThreads())
            passed, held = (inner.cast(inner.sub(*ends), "i32") for ends in ((chunk, begin), (stop, chunk)))
            first = inner.op("max", inner.sub(low, passed), inner.const(0, "i32"))
            behind = inner.op("min", inner.sub(high, passed), held)
            results = self.joined_chunk(loop, chunk, first, behind, walked.carried, inner)
            inner.emit(SyncThreads())
            inner.yield_(*results)
        return list(walked.results)

    def computed_first(self, loop: For, chunk: Value, stop: Value, b: Builder) -> None:
        """What is kept of the chunk's elements, several a thread at once."""
        checked = any(isinstance(op, Check) for op in self.staged.early)
        failed = b.slot(b.const(False, "i1")) if checked else None
        last = b.sub(stop, b.const(1, "index"))
        with b.loop("base", chunk.name, stop.name, self.start.threads * UNDER_WAY, unroll=1) as (inner, base):
            first = Affine.of(base.variable.name) + Affine.of(self.thread.name)
            places = [inner.index(first + self.start.threads * turn) for turn in range(UNDER_WAY)]
            items = [Piece(inner.op("min", place, last), 1) for place in places]
            for place, (values,) in zip(places, self.computed(loop, items, failed, inner), strict=True):
                with inner.when(inner.op("lt", place, stop)) as there:
                    for value, memory in zip(self.staged.kept, self.memories, strict=True):
                        there.store(memory, values[value], [Affine.of(place.name) - Affine.of(chunk.name)])
        if failed is not None:
            with b.when(b.get(failed)) as again:
                again.store(self.wrong, again.const(1, "u32"), [0])

    def joined_chunk(self, loop: For, chunk: Value, first: Value, end: Value, cells: Sequence[Value], b: Builder) -> list[Value]:
        """What the cells hold with those of the row's elements that lie in the chunk, from one there to another: several loads before the
        first use."""
        count, start = b.op("max", b.sub(end, first), b.const(0, "i32")), Affine.of(b.cast(first, "index").name)
        several = b.cast(b.op("and", count, b.const(-UNDER_WAY, "i32")), "index")
        values = list(cells)
        for begin, behind, each in ((b.const(0, "index"), several, UNDER_WAY), (several, b.cast(count, "index"), 1)):
            with b.loop("turn", begin.name, behind.name, each, values, unroll=1) as (inner, walked):
                read = list[dict[Value, Value]]()
                for turn in range(each):
                    place = start + Affine.of(walked.variable.name) + turn
                    loaded = [inner.load(memory, [place]) for memory in self.memories]
                    own = inner.index(place + Affine.of(chunk.name))
                    read.append({loop.variable: own, **dict(zip(self.staged.kept, loaded, strict=True))})
                inner.yield_(*self.with_all(loop, read, walked.carried, None, inner))
            values = list(walked.results)
        return values
