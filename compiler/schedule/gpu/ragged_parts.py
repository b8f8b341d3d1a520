"""Rows of a ragged axis that are too long for one block: the launch that finds them leaves an entry for each part of them, and a launch
behind it has blocks take these. The block that does the last part of a row joins them all, in their order, and does what follows, so every
run gives the same bits. Where there is no room for a row's entries, since rows share elements, one block does it."""

from collections.abc import Callable, Mapping, Sequence

from compiler.analysis.dependence import NestFacts
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For
from compiler.hir.gpu import Atomic, Fence, SharedAlloc, SyncThreads
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Check, Load
from compiler.hir.types import Mem, Space
from compiler.schedule.gpu.at_once import AtOnce, overlaps
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.reduction import block_reduced, combined, identities, slots
from compiler.schedule.gpu.spread import Spread
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
class RowParts:
    """The loop of rows that may be shared by blocks, with what a row does before and after it, and the memories that launches share."""

    spread: Spread
    before: tuple[Instruction, ...]
    after: tuple[Instruction, ...]
    part: int
    """Elements of a part."""
    room: Affine
    """How many entries there may be."""
    rows: Value
    """The row of each entry; -1 where there was no room for all entries of a row."""
    numbers: Value
    """Which of its row's parts an entry is."""
    totals: tuple[Value, ...]
    """What each part comes to, by cells."""
    taken: Value
    """How many parts of a row are done, at its first entry; behind all entries how many blocks are done, and how many entries are wanted.
    Zeros before and after."""

    @property
    def memories(self) -> dict[Value, Mem]:
        return {value: value.type for value in (self.rows, self.numbers, *self.totals, self.taken) if isinstance(value.type, Mem)}


def row_parts(
    body: Sequence[Instruction], spreads: Mapping[For, Spread], extents: Sequence[Affine], facts: NestFacts, known: Facts, threads: int
) -> RowParts | None:
    """None where rows do more than one loop, or all of them are few elements. `extents`: of what the loop walks along; `threads`: of the
    block that finds long rows."""
    sizes = {parameter.name for parameter in facts.nest.function.parameters}
    extents = [extent for extent in extents if sizes.issuperset(extent.names)]
    if len(spreads) != 1 or not extents:
        return None
    ((loop, spread),) = spreads.items()
    extent = min(extents, key=known.about)
    if loop not in body or not overlaps(spread) or known.about(extent) < FEWEST:
        return None
    place = body.index(loop)
    before, after = tuple(body[:place]), tuple(body[place + 1 :])
    if any(op.regions or not (op.effects is Effect.PURE or isinstance(op, Load | Check)) for op in before):
        return None
    part = EACH * threads
    room = extent.floordiv(part) * 2 + 1
    totals = [Value("totals", Mem(dtype, (room,))) for fold in spread.folds for dtype in fold.dtypes]
    rows, numbers = (Value(name, Mem("i64", (room,))) for name in ("rows", "numbers"))
    return RowParts(spread, before, after, part, room, rows, numbers, tuple(totals), Value("taken", Mem("u32", (room + 2,))))


class RowsInParts:
    """What launches do about such rows. `memories`: those of the launch."""

    def __init__(self, parts: RowParts, work: AtOnce, around: Around) -> None:
        self.parts, self.work, self.start = parts, work, work.start
        b = self.start.out.body
        memory = {value: self.start.workspaces[around.others[value]] for value in parts.memories}
        self.rows, self.numbers, self.taken = (memory[value] for value in (parts.rows, parts.numbers, parts.taken))
        self.totals = [memory[value] for value in parts.totals]
        self.room = b.index(work.copy.form(parts.room))
        self.done, self.wanted = Affine.of(self.room.name), Affine.of(self.room.name) + 1
        self.box = b.emit(SharedAlloc(type=Mem("u32", (1,), space=Space.SHARED)), "box").result

    def ends(self, b: Builder) -> tuple[Value, Value, Value]:
        """Where the row begins and ends, and how many parts it has."""
        low, high = (b.index(form) for form in self.work.ends(self.parts.spread.outer, b))
        return low, high, b.index(Affine.of(b.sub(high, low).name).ceildiv(self.parts.part))

    def changed(self, operation: str, place: Affine, value: Value, b: Builder) -> Value:
        """What an element of `taken` held before an atomic change."""
        return b.emit(Atomic(operation=operation, mem=self.taken, index=(place,), value=value)).result

    def leave(self, row: Value, b: Builder) -> None:
        """A row whose variables are known: its entries where it is so long, else all of it."""
        work, parts = self.work, self.parts
        work.all(parts.before, b)
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
            work.all((parts.spread.outer, *parts.after), alone)

    def launch(self, row: Callable[[Value, Builder], None], blocks: int) -> Launch:
        """The launch behind: each block takes entries. `row` makes the variables of a row known."""
        start, b = self.start, self.start.out.body
        zero = b.const(0, "index")
        there = b.op("min", b.cast(b.load(self.taken, [self.wanted]), "index"), self.room)
        with b.when(b.op("lt", zero, there)) as some:
            with some.loop("entry", start.number.name, there.name, blocks, unroll=1) as (inner, at):
                number = inner.cast(inner.load(self.rows, [at.variable.name]), "index")
                with inner.when(inner.op("le", zero, number)) as own:
                    row(number, own)
                    self.part(at.variable, own)
            some.emit(SyncThreads())
            with some.when(self.work.first) as last:
                last.emit(Fence(scope="device"))
                end = last.const(blocks - 1, "u32")
                with last.when(last.op("eq", self.changed("inc", self.done, end, last), end)) as clearing:
                    clearing.emit(Fence(scope="device"))
                    clearing.store(self.taken, clearing.const(0, "u32"), [self.wanted])
        return start.finish((Affine((), blocks),), 1)

    def part(self, entry: Value, b: Builder) -> None:
        """An entry; behind the last one of its row all that is left of it."""
        work, parts = self.work, self.parts
        work.all(parts.before, b)
        low, high, count = self.ends(b)
        number = b.cast(b.load(self.numbers, [entry.name]), "index")
        first, begin = b.sub(entry, number), b.index(Affine.of(low.name) + Affine.of(number.name) * parts.part)
        work.range = Affine.of(begin.name), Affine.of(b.op("min", high, b.index(Affine.of(begin.name) + parts.part)).name)
        mine = [value for values in work.share(parts.spread, work.thread, self.start.threads, b) for value in values]
        work.range = None
        totals = self.joined(mine, b)
        end = b.cast(b.sub(count, b.const(1, "index")), "u32")
        with b.when(work.first) as one:
            for memory, total in zip(self.totals, totals, strict=True):
                one.store(memory, total, [entry.name])
            one.emit(Fence(scope="device"))
            one.store(self.box, self.changed("inc", Affine.of(first.name), end, one), [0])
        b.emit(SyncThreads())
        with b.when(b.op("eq", b.load(self.box, [0]), end)) as last:
            last.emit(Fence(scope="device"))
            nothing = [value for fold in parts.spread.folds for value in identities(last, fold.monoid, fold.dtypes)]
            with last.loop("part", work.thread.name, count.name, self.start.threads, nothing, unroll=1) as (inner, walked):
                place = Affine.of(first.name) + Affine.of(walked.variable.name)
                inner.yield_(*self.combined(walked.carried, [inner.load(memory, [place]) for memory in self.totals], inner))
            outside = [work.before(cell, parts.spread, last) for fold in parts.spread.folds for cell in fold.cells]
            whole = iter(self.combined(outside, self.joined(walked.results, last), last))
            for fold in parts.spread.folds:
                work.after(fold, parts.spread, [next(whole) for _ in fold.cells], last)
            work.all(parts.after, last)
        b.emit(SyncThreads())

    def joined(self, values: Sequence[Value], b: Builder) -> list[Value]:
        """What all threads' values make together, by cells."""
        threads, left, made = self.start.threads, iter(values), list[Value]()
        for fold in self.parts.spread.folds:
            through = slots(self.start.out.body, threads, fold.dtypes, self.work.lanes)
            own = [next(left) for _ in fold.cells]
            made += block_reduced(b, fold.monoid, own, self.work.thread, threads, through, self.work.lanes)
        return made

    def combined(self, first: Sequence[Value], second: Sequence[Value], b: Builder) -> list[Value]:
        made, one, other = list[Value](), iter(first), iter(second)
        for fold in self.parts.spread.folds:
            made += combined(b, fold.monoid, [next(one) for _ in fold.cells], [next(other) for _ in fold.cells])
        return made
