"""Rows of a ragged axis that are too long for one block: the launch that finds them leaves an entry for each part of them, and a launch
behind it has blocks take these. The block that does the last part of a row joins them all, in their order, and does what follows, so every
run gives the same bits. Where there is no room for a row's entries, since rows share elements, one block does it."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from compiler.analysis.dependence import NestFacts
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For
from compiler.hir.gpu import Atomic, Fence, SharedAlloc, SyncThreads
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Check, Load
from compiler.hir.types import Mem, Space
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.nests.at_once import is_running, overlaps, stores
from compiler.schedule.gpu.nests.spread import JoinedCells, Spread
from compiler.schedule.gpu.ragged.ragged_running import RowWork, run_along
from compiler.schedule.gpu.tiles.reduction import block_reduced, combined, identities, slots
from compiler.schedule.launches import Launch
from compiler.schedule.stages import Around
from runtime.records import frozen

EACH = 32
"""Elements of a part, for each thread of the block that finds the row. Rows of more than two parts are shared by blocks."""

FEWEST = 1 << 16
"""Elements of all rows below which it isn't worth a launch."""

BLOCKS = 2
"""That take parts, of each multiprocessor."""


@frozen(eq=False)
class PartedLoop:
    """A loop of a row, with what the row does between the loop before and this one, and the memories of what its parts and the whole of it
    come to, by cells. A loop with running values is there twice: first its parts are summed, then it `runs`."""

    spread: Spread
    before: tuple[Instruction, ...]
    totals: tuple[Value, ...]
    wholes: tuple[Value, ...]
    runs: bool = False


@frozen(eq=False)
class RowParts:
    """The loops of rows that may be shared by blocks, a launch for each, with what a row does after them, and the memories that launches
    share."""

    loops: tuple[PartedLoop, ...]
    after: tuple[Instruction, ...]
    part: int
    """Elements of a part."""
    room: Affine
    """How many entries there may be."""
    rows: Value
    """The row of each entry; -1 where there was no room for all entries of a row."""
    numbers: Value
    """Which of its row's parts an entry is."""
    taken: Value
    """How many parts of a row are done, at its first entry; behind all entries how many blocks are done, and how many entries are wanted.
    Zeros before and after."""

    @property
    def memories(self) -> dict[Value, Mem]:
        own = [value for loop in self.loops if not loop.runs for value in (*loop.totals, *loop.wholes)]
        return {value: value.type for value in (self.rows, self.numbers, *own, self.taken) if isinstance(value.type, Mem)}


def row_parts(
    body: Sequence[Instruction], spreads: Mapping[For, Spread], extents: Sequence[Affine], facts: NestFacts, known: Facts, threads: int
) -> RowParts | None:
    """None where loops of rows don't go over the same, or are several that store nothing, or all of them are few elements. `extents`: of
    what the loops walk along; `threads`: of the block that finds long rows."""
    sizes = {parameter.name for parameter in facts.nest.function.parameters}
    extents = [extent for extent in extents if sizes.issuperset(extent.names)]
    if not spreads or len({(loop.low, loop.high) for loop in spreads}) != 1 or not extents:
        return None
    if len(spreads) > 1 and not any(map(stores, spreads)):
        return None
    extent = min(extents, key=known.about)
    if not all(loop in body and overlaps(spread) for loop, spread in spreads.items()) or known.about(extent) < FEWEST:
        return None
    part = EACH * threads
    room = extent.floordiv(part) * 2 + 1
    loops, begin = list[PartedLoop](), 0
    for place, op in enumerate(body):
        if isinstance(op, For) and op in spreads:
            cells = [dtype for fold in spreads[op].folds for dtype in fold.dtypes]
            totals, wholes = (tuple(Value(name, Mem(dtype, (room,))) for dtype in cells) for name in ("totals", "wholes"))
            last = len(spreads) == 1 and not is_running(op)
            loops.append(PartedLoop(spreads[op], tuple(body[begin:place]), totals, () if last else wholes))
            if is_running(op):
                loops.append(PartedLoop(spreads[op], (), totals, wholes, runs=True))
            begin = place + 1
    between = [op for loop in loops for op in loop.before]
    if any(op.regions or not (op.effects is Effect.PURE or isinstance(op, Load | Check)) for op in between):
        return None
    rows, numbers = (Value(name, Mem("i64", (room,))) for name in ("rows", "numbers"))
    return RowParts(tuple(loops), tuple(body[begin:]), part, room, rows, numbers, Value("taken", Mem("u32", (room + 2,))))


class RowsInParts:
    """What launches do about such rows. `memories`: those of the launch."""

    def __init__(self, parts: RowParts, work: RowWork, around: Around) -> None:
        self.parts, self.work, self.start = parts, work, work.start
        b = self.start.out.body
        memory = {value: self.start.workspaces[around.others[value]] for value in parts.memories}
        self.rows, self.numbers, self.taken = (memory[value] for value in (parts.rows, parts.numbers, parts.taken))
        self.memory = memory
        self.room = b.index(work.copy.form(parts.room))
        self.done, self.wanted = Affine.of(self.room.name), Affine.of(self.room.name) + 1
        self.box = b.emit(SharedAlloc(type=Mem("u32", (1,), space=Space.SHARED)), "box").result

    def ends(self, b: Builder) -> tuple[Value, Value, Value]:
        """Where the row begins and ends, and how many parts it has."""
        low, high = (b.index(form) for form in self.work.ends(self.parts.loops[0].spread.outer, b))
        return low, high, b.index(Affine.of(b.sub(high, low).name).ceildiv(self.parts.part))

    def changed(self, operation: str, place: Affine, value: Value, b: Builder) -> Value:
        """What an element of `taken` held before an atomic change."""
        return b.emit(Atomic(operation=operation, mem=self.taken, index=(place,), value=value)).result

    def leave(self, row: Value, body: Sequence[Instruction], held: Sequence[int], b: Builder) -> None:
        """A row whose variables are known: its entries where it is so long, else all of it. `held`: as for any row of a block."""
        work, parts = self.work, self.parts
        before = parts.loops[0].before
        work.all(before, b)
        low, high, count = self.ends(b)
        mine = b.slot(b.const(True, "i1"))
        with b.when(b.op("lt", b.const(2 * parts.part, "index"), b.sub(high, low))) as far:
            with far.when(work.first) as one:
                one.store(self.box, self.changed("max", self.wanted, one.const(0, "u32"), one), [0])
                with one.when(one.op("le", one.cast(one.load(self.box, [0]), "index"), self.room)) as free:
                    more = free.op("min", count, free.add(self.room, free.const(1, "index")))
                    free.store(self.box, self.changed("add", self.wanted, free.cast(more, "u32"), free), [0])
            far.emit(SyncThreads())
            first = far.cast(far.load(self.box, [0]), "index")
            behind = far.add(first, count)
            fits = far.op("le", behind, self.room)
            far.set(mine, far.op("xor", fits, far.const(True, "i1")))
            entry = far.select(fits, row, far.const(-1, "index"))
            end = far.op("min", behind, self.room)
            own = Affine.of(first.name) + Affine.of(work.thread.name)
            with far.loop("entry", own, end.name, self.start.threads, unroll=1) as (inner, at):
                inner.store(self.rows, inner.cast(entry, "i64"), [at.variable.name])
                inner.store(self.numbers, inner.cast(inner.sub(at.variable, first), "i64"), [at.variable.name])
        with b.when(b.get(mine)) as alone:
            work.all_of_row(body[len(before) :], held, self.start.threads, alone)

    def launch(self, number: int, row: Callable[[Value, Builder], None], blocks: int) -> Launch:
        """The launch behind for the loop of this number: each block takes entries. `row` makes the variables of a row known."""
        start, b = self.start, self.start.out.body
        zero = b.const(0, "index")
        there = b.op("min", b.cast(b.load(self.taken, [self.wanted]), "index"), self.room)
        with b.when(b.op("lt", zero, there)) as some:
            with some.loop("entry", start.number.name, there.name, blocks, unroll=1) as (inner, at):
                its = inner.cast(inner.load(self.rows, [at.variable.name]), "index")
                with inner.when(inner.op("le", zero, its)) as own:
                    row(its, own)
                    self.part(number, at.variable, own)
            if number == len(self.parts.loops) - 1:
                self.clear(blocks, some)
        return start.finish((Affine((), blocks),), 1)

    def clear(self, blocks: int, b: Builder) -> None:
        """The last block has no entries left for the next call."""
        b.emit(SyncThreads())
        with b.when(self.work.first) as last:
            last.emit(Fence(scope="device"))
            end = last.const(blocks - 1, "u32")
            with last.when(last.op("eq", self.changed("inc", self.done, end, last), end)) as clearing:
                clearing.emit(Fence(scope="device"))
                clearing.store(self.taken, clearing.const(0, "u32"), [self.wanted])

    def part(self, turn: int, entry: Value, b: Builder) -> None:
        """An entry of the loop of this number; behind the last one of its row what all of them come to, and behind the last loop what is
        left of the row."""
        work, parts, loop = self.work, self.parts, self.parts.loops[turn]
        work.all(parts.loops[0].before, b)
        low, high, count = self.ends(b)
        number = b.cast(b.load(self.numbers, [entry.name]), "index")
        first, begin = b.sub(entry, number), b.index(Affine.of(low.name) + Affine.of(number.name) * parts.part)
        for earlier, later in pairwise(parts.loops[: turn + 1]):
            self.known(earlier, [b.load(self.memory[value], [first.name]) for value in earlier.wholes], b)
            work.all(later.before, b)
        work.range = Affine.of(begin.name), Affine.of(b.op("min", high, b.index(Affine.of(begin.name) + parts.part)).name)
        mine = self.run(loop, first, number, b) if loop.runs else self.summed(loop, b)
        work.range = None
        last = turn == len(parts.loops) - 1
        if not mine and not (last and parts.after):
            return
        totals = self.joined(loop.spread, mine, b) if mine else []
        end = b.cast(b.sub(count, b.const(1, "index")), "u32")
        with b.when(work.first) as one:
            for memory, total in zip(loop.totals if mine else (), totals, strict=True):
                one.store(self.memory[memory], total, [entry.name])
            one.emit(Fence(scope="device"))
            one.store(self.box, self.changed("inc", Affine.of(first.name), end, one), [0])
        b.emit(SyncThreads())
        with b.when(b.op("eq", b.load(self.box, [0]), end)) as rest:
            rest.emit(Fence(scope="device"))
            if loop.runs:
                self.known(loop, [rest.load(self.memory[value], [first.name]) for value in loop.wholes], rest)
            else:
                self.known(loop, self.until(loop, first, count, rest), rest)
            with rest.when(work.first) as one:
                cells = [cell for fold in loop.spread.folds for cell in fold.cells]
                for cell, memory in () if loop.runs else zip(cells, loop.wholes, strict=False):
                    one.store(self.memory[memory], work.values[_result(cell, loop.spread)], [first.name])
            if last:
                work.all(parts.after, rest)
        b.emit(SyncThreads())

    def summed(self, loop: PartedLoop, b: Builder) -> list[Value]:
        """What the thread's elements come to, by cells; of a loop with running values nothing is stored yet."""
        self.work.silent = is_running(loop.spread.outer)
        mine = [value for values in self.work.share(loop.spread, self.work.thread, self.start.threads, b) for value in values]
        self.work.silent = False
        return mine

    def run(self, loop: PartedLoop, first: Value, number: Value, b: Builder) -> list[Value]:
        """Running values from what the parts before come to."""
        outer = loop.spread.outer
        started = [self.work.values[value] for value in outer.carried]
        self.work.values.update(zip(outer.carried, self.until(loop, first, number, b), strict=True))
        run_along(self.work, loop.spread, self.work.thread, self.start.threads, b)
        self.work.values.update(zip(outer.carried, started, strict=True))
        return []

    def known(self, loop: PartedLoop, values: Sequence[Value], b: Builder) -> None:
        """What the cells hold behind a loop."""
        left = iter(values)
        for fold in loop.spread.folds:
            self.work.after(fold, loop.spread, [next(left) for _ in fold.cells], b)

    def until(self, loop: PartedLoop, first: Value, count: Value, b: Builder) -> list[Value]:
        """What the first parts of a row come to, in their order, with what was there before."""
        folds = loop.spread.folds
        if not folds:
            return []
        nothing = [value for fold in folds for value in identities(b, fold.monoid, fold.dtypes)]
        with b.loop("part", self.work.thread.name, count.name, self.start.threads, nothing, unroll=1) as (inner, walked):
            place = Affine.of(first.name) + Affine.of(walked.variable.name)
            read = [inner.load(self.memory[value], [place]) for value in loop.totals]
            inner.yield_(*_combined(folds, walked.carried, read, inner))
        outside = [self.work.before(cell, loop.spread, b) for fold in folds for cell in fold.cells]
        return _combined(folds, outside, self.joined(loop.spread, walked.results, b), b)

    def joined(self, spread: Spread, values: Sequence[Value], b: Builder) -> list[Value]:
        """What all threads' values make together, by cells."""
        threads, left, made = self.start.threads, iter(values), list[Value]()
        for fold in spread.folds:
            through = slots(self.start.out.body, threads, fold.dtypes, self.work.lanes)
            own = [next(left) for _ in fold.cells]
            made += block_reduced(b, fold.monoid, own, self.work.thread, threads, through, self.work.lanes)
        return made


def _combined(folds: Sequence[JoinedCells], first: Sequence[Value], second: Sequence[Value], b: Builder) -> list[Value]:
    made, one, other = list[Value](), iter(first), iter(second)
    for fold in folds:
        made += combined(b, fold.monoid, [next(one) for _ in fold.cells], [next(other) for _ in fold.cells])
    return made


def _result(cell: Value, spread: Spread) -> Value:
    """What a cell holds behind its loop."""
    return spread.outer.results[spread.outer.body.parameters.index(cell) - 1]
