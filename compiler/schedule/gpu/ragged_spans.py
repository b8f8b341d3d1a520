"""Rows of a ragged axis that lie behind each other: `for k in ptr[r]..ptr[r + 1]`. A block has neighbouring rows, and reads what they hold
from the first to the last in pieces of 16 bytes, wherever rows begin: each warp an equal part of it, each lane a piece after the other.

A lane joins its elements one after the other. Where a row ends, as shared memory says for each element, it leaves what there is for the
row; what is left behind the last end goes on to the next lane by a scan, and to the next warp through shared memory. Then each thread
does what else is to do for a row. Who joins what depends on where the rows of the block begin alone: every run gives the same bits.

Where rows turn out not to lie behind each other, or a check of an element fails, a thread does a row."""

from collections.abc import Mapping, Sequence

from compiler.analysis.dependence import NestFacts
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For, Yield
from compiler.hir.core import dtype_of
from compiler.hir.gpu import SharedAlloc, Shuffle, SyncThreads, Vote
from compiler.hir.instruction import Effect, Instruction, Region, Value
from compiler.hir.memory import Check, Load, Store, mem_of
from compiler.hir.module import LaunchBounds
from compiler.hir.types import Mem, Slot, Space, Tile, bytes_of
from compiler.schedule.gpu.barriers import Barriers
from compiler.schedule.gpu.cooperate import Cooperation, counts_of
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.need import depending, read_names
from compiler.schedule.gpu.pieces import align, loads_in_pieces
from compiler.schedule.gpu.reduction import combined, identities
from compiler.schedule.gpu.sorting import taken
from compiler.schedule.gpu.spread import Spread
from compiler.schedule.launches import Launch
from compiler.schedule.stages import Around, Group, Start
from compiler.schedule.threads import BLOCK
from runtime.records import evolve, frozen

TURN_BYTES = 32
"""That a lane has under way at once."""

MOST_ITEMS = 64
"""Elements of a lane, at most: each has its row's number in shared memory, in two bytes."""

FILLED = 3, 4
"""The part of what a block reads at once that its rows should hold: many blocks would read twice if it were all of it."""

PASSES = 4
"""Times that a lane has so much under way, at most."""

MOST_ROWS = 1024
"""Of a block: each has what it comes to in shared memory."""

RESIDENT = 4
"""Blocks of a multiprocessor for which there are registers."""


@frozen(eq=False)
class RaggedSpans:
    """A leading nest whose rows lie behind each other: `before` and `after` is what a row does around its loop, of which `loads` are read
    in pieces of `across` elements, `turns` of these at once, so many times."""

    nest: Spread
    spread: Spread
    before: tuple[Instruction, ...]
    after: tuple[Instruction, ...]
    loads: tuple[Load, ...]
    across: int
    turns: int
    passes: int
    guarded: bool
    """Whether elements of other rows must not be looked at: their loop reads where data say, or checks."""

    def words(self, name: str) -> str:
        share = f"{self.turns} pieces of {self.across} elements" if self.turns > 1 else f"{self.across} elements"
        return f"{name}: a block has rows behind each other, of which each thread reads {share} at once wherever they begin"


def ragged_spans(nest: Spread, spreads: Mapping[For, Spread], facts: NestFacts, known: Facts) -> RaggedSpans | None:
    """None where rows don't lie behind each other, do more than one loop, or have an element do what depends on its row."""
    body, threads = [*nest.between, *nest.inner.body.body], known.machine.lanes
    if len(nest.loops) > 1 or nest.outer.step != 1 or len(spreads) != 1 or BLOCK % threads:
        return None
    (spread,) = spreads.values()
    if spread.outer not in body or spread.private or not overlaps(spread):
        return None
    place = body.index(spread.outer)
    before, after = body[:place], body[place + 1 :]
    if any(op.regions or not (op.effects is Effect.PURE or isinstance(op, Load | Check)) for op in before):
        return None
    if any(op.regions or not (op.effects is Effect.PURE or isinstance(op, Load | Check | Store)) for op in after):
        return None
    stored = {op.mem for op in after if isinstance(op, Store)}
    barriers = Barriers(facts, spreads)
    barriers.place(Region([], body))
    if barriers.before or any(isinstance(op, Load) and op.mem in stored for top in body for op in top.walk()):
        return None
    own, bounds = depending([nest.outer.variable], before), {*spread.outer.low.names, *spread.outer.high.names}
    if any(own & read_names(op) for op in spread.outer.body.body):
        return None
    starts = [op for op in before if isinstance(op, Load) and op.result.name in own]
    if not bounds <= own or len(starts) < 2 or len({op.mem for op in starts}) > 1:
        return None
    loads = loads_in_pieces(spread.outer, known)
    if not loads or any(isinstance(op, Load | Check) for op in joining(spread)):
        return None
    across = max(ALIGNMENT // bytes_of(mem_of(op.mem).dtype) for op in loads)
    wide = across * sum(bytes_of(mem_of(op.mem).dtype) for op in loads)
    guarded = any(isinstance(op, Load | Check) and op not in loads for op in spread.outer.body.body)
    turns = max(1, TURN_BYTES // wide)
    passes = max(1, min(PASSES, MOST_ITEMS // (across * turns)))
    return RaggedSpans(nest, spread, tuple(before), tuple(after), loads, across, turns, passes, guarded)


def overlaps(spread: Spread) -> bool:
    """Whether iterations do nothing but compute what is joined."""
    loop = spread.outer
    cells = [cell for fold in spread.folds for cell in fold.cells]
    if len(spread.loops) > 1 or not cells or loop.step != 1 or any(isinstance(cell.type, Slot) for cell in cells):
        return False
    return all(isinstance(op, Load | Check | Yield) or (op.effects is Effect.PURE and not op.regions) for op in loop.body.body)


def joining(spread: Spread) -> list[Instruction]:
    """What the loop does with what the cells hold."""
    ops = spread.outer.body.body[:-1]
    names = depending([cell for fold in spread.folds for cell in fold.cells], ops)
    return [op for op in ops if any(result.name in names for result in op.results)]


def span_launch(spans: RaggedSpans, around: Around, group: Group, name: str, known: Facts, facts: NestFacts) -> Launch:
    start = Start(around, name, (BLOCK, 1, 1))
    align(start, known)
    start.take(group, start.out.body)
    return _Block(spans, start, known, facts).launch()


class _Block(Cooperation):
    """The work of a block."""

    def __init__(self, spans: RaggedSpans, start: Start, known: Facts, facts: NestFacts) -> None:
        super().__init__(start, {spans.spread.outer: spans.spread}, Barriers(facts, {}), known.machine.lanes)
        self.spans, self.rows_loop, b = spans, spans.spread, start.out.body
        self.warps, self.across = start.threads // self.lanes, spans.across
        self.capacity = start.threads * spans.across * spans.turns * spans.passes
        self.item = start.out.axis("item", self.across)
        self.zero, self.one_ = b.const(0, "index"), b.const(1, "index")
        self.lane = b.op("rem", self.thread, b.const(self.lanes, "index"), name="lane")
        self.warp = b.op("div", self.thread, b.const(self.lanes, "index"), name="warp")
        self.cells = [(fold, cell) for fold in self.rows_loop.folds for cell in fold.cells]
        self.joining = joining(spans.spread)
        dtypes = [dtype_of(cell) for _, cell in self.cells]
        self.ends = self.memory_of("u16", self.capacity + self.across, "ends")
        """For each element that a row ends with, 1 and the row's number in the block; 0 for others."""
        self.totals = [self.memory_of(dtype, MOST_ROWS + 2, "totals") for dtype in dtypes]
        self.firsts = self.memory_of("i32", self.warps, "firsts")
        """The row that ends first in a warp's part, as `ends` has it."""
        self.lefts = [self.memory_of(dtype, self.warps, "lefts") for dtype in dtypes]
        """What a warp has behind the last end in its part, or all of it."""
        self.words = self.memory_of("i32", self.warps, "words")

    def memory_of(self, dtype: str, extent: int, name: str) -> Value:
        type = Mem(dtype, (extent,), space=Space.SHARED, align=ALIGNMENT)
        return self.start.out.body.emit(SharedAlloc(type=type), name).result

    def launch(self) -> Launch:
        b, spans, copy = self.start.out.body, self.spans, self.start.copy
        (rows,) = counts_of(spans.nest, copy, b)
        extents = list(dict.fromkeys(copy.form(mem_of(op.mem).dims[0]) for op in spans.loads))
        extent = b.index(extents[0])
        self.whole = b.index(extents[0].floordiv(self.across) * self.across)
        """What can be read in pieces."""
        for further in extents[1:]:
            extent = b.op("min", extent, b.index(further))
            self.whole = b.op("min", self.whole, b.index(further.floordiv(self.across) * self.across))
        filled, of = FILLED
        blocks = b.index(Affine.of(extent.name).ceildiv(self.capacity * filled // of))
        blocks = b.op("max", blocks, b.index(Affine.of(rows.name).ceildiv(MOST_ROWS)))
        blocks = b.op("max", b.op("min", blocks, rows), self.one_, name="blocks")
        each = b.op("div", b.add(rows, b.sub(blocks, self.one_)), blocks, name="each")
        self.row = b.mul(self.start.number, each)
        self.count = b.op("min", each, b.sub(rows, self.row), name="count")
        with b.when(b.op("lt", self.zero, self.count)) as inner:
            self.block(inner)
        launch = self.start.finish((Affine.of(blocks.name),), 1)
        info = launch.function.kernel_info
        if info is not None:
            launch.function.kernel_info = evolve(info, launch_bounds=LaunchBounds(self.start.threads, RESIDENT))
        return launch

    # ---- rows ----

    def bounds(self, place: Value, b: Builder) -> tuple[Value, Value]:
        """Where the row at a place of the block begins and ends."""
        self.variable(self.spans.nest.outer, b.add(self.row, place), b)
        self.copy.all(self.spans.before, b)
        return b.index(self.copy.form(self.rows_loop.outer.low)), b.index(self.copy.form(self.rows_loop.outer.high))

    def block(self, b: Builder) -> None:
        last = b.sub(self.count, self.one_)
        low, _ = self.bounds(self.zero, b)
        _, high = self.bounds(last, b)
        begin = b.index(Affine.of(low.name).floordiv(self.across) * self.across)
        reach = b.op("min", high, self.whole)
        chunks = b.index(Affine.of(b.sub(reach, begin).name).ceildiv(self.capacity))
        zero, apart, self.failed = b.const(0, "i32"), b.slot(b.const(0, "i32")), b.slot(b.const(False, "i1"))
        self.agree(apart, self.lie_apart(last, b), b)
        chunks = b.select(b.op("eq", b.get(apart), zero), b.op("max", chunks, self.one_), self.zero)
        with b.loop("chunk", 0, chunks.name, 1, self.nothing(b), unroll=1) as (inner, walked):
            base = inner.index(Affine.of(begin.name) + Affine.of(walked.variable.name) * self.capacity)
            self.clear(inner)
            inner.emit(SyncThreads())
            self.mark(base, low, reach, inner)
            inner.emit(SyncThreads())
            count = inner.op("min", inner.sub(reach, base), inner.const(self.capacity, "index"))
            some = inner.op("lt", self.zero, count)
            with inner.when(some) as stream:
                self.stream(base, low, high, count, stream)
            inner.emit(SyncThreads())
            slots = [inner.slot(value) for value in walked.carried]
            with inner.when(inner.both(some, self.first)) as warps:
                self.join(slots, warps)
            is_last = inner.op("eq", inner.add(walked.variable, self.one_), chunks)
            with inner.when(inner.both(is_last, self.first)) as rest:
                self.rest(slots, low, reach, high, rest)
            inner.yield_(*(inner.get(slot) for slot in slots))
        b.emit(SyncThreads())
        if self.spans.guarded:
            self.agree(apart, b.get(self.failed), b)
        good = b.op("eq", b.get(apart), zero)
        with b.loop("own", self.thread.name, self.count.name, self.start.threads, unroll=1) as (inner, rows):
            begins, ends = self.bounds(rows.variable, inner)
            some, nothing = inner.op("lt", begins, ends), self.nothing(inner)
            with inner.branch(good) as (behind, by_itself, _):
                totals = [behind.load(mem, [Affine.of(rows.variable.name) + 1], some) for mem in self.totals]
                totals = [behind.select(some, total, none) for total, none in zip(totals, nothing, strict=True)]
                self.finish_row(totals, behind)
                self.copy.all([self.rows_loop.outer, *self.spans.after], by_itself)

    def agree(self, apart: Value, mine: Value, b: Builder) -> None:
        """Sets a slot to something else than 0 if it holds for any thread."""
        b.store(self.words, b.cast(b.emit(Vote(operation="any", predicate=mine)).result, "i32"), [self.warp.name])
        b.emit(SyncThreads())
        for warp in range(self.warps):
            b.set(apart, b.op("or", b.get(apart), b.load(self.words, [warp])))

    def finish_row(self, totals: Sequence[Value], b: Builder) -> None:
        loop, left = self.rows_loop.outer, list(totals)
        self.values.update((result, self.values[old]) for result, old in zip(loop.results, loop.carried, strict=True))
        for fold in self.rows_loop.folds:
            own, left = left[: len(fold.cells)], left[len(fold.cells) :]
            outside = [self.before(cell, self.rows_loop, b) for cell in fold.cells]
            self.after(fold, self.rows_loop, combined(b, fold.monoid, outside, own), b)
        self.copy.all(self.spans.after, b)

    # ---- where rows end ----

    def clear(self, b: Builder) -> None:
        none = b.const(0, Tile("u16", ((self.item, self.across),)))
        for turn in range(self.spans.turns * self.spans.passes):
            place = Affine.of(self.thread.name) * self.across + turn * self.start.threads * self.across
            b.store(self.ends, none, [place + Affine.of(self.item)])
        with b.when(self.first) as inner:
            inner.store(self.ends, none, [Affine.of(self.item) + self.capacity])

    def lie_apart(self, last: Value, b: Builder) -> Value:
        """Whether a row of this thread doesn't end where the next begins, or before it begins, or begins before the first element."""
        with b.loop("own", self.thread.name, self.count.name, self.start.threads, [b.const(False, "i1")], unroll=1) as (inner, rows):
            following = inner.op("min", inner.add(rows.variable, self.one_), last)
            after, _ = self.bounds(following, inner)
            begins, ends = self.bounds(rows.variable, inner)
            after = inner.select(inner.op("eq", following, rows.variable), ends, after)
            wrong = inner.op("or", inner.op("lt", ends, begins), inner.op("ne", ends, after))
            wrong = inner.op("or", wrong, inner.op("lt", begins, self.zero))
            inner.yield_(inner.op("or", rows.carried[0], wrong))
        return rows.results[0]

    def mark(self, base: Value, low: Value, reach: Value, b: Builder) -> None:
        """Marks the ends of rows, and of what lies before the first."""
        small = b.op("lt", self.thread, b.const(self.warps, "index"))
        b.store(self.firsts, b.const(0, "i32"), [self.thread.name], small)
        before = b.sub(b.sub(low, base), self.one_)
        own = b.both(self.first, b.op("le", self.zero, before))
        b.store(self.ends, b.const(MOST_ROWS + 1, "u16"), [before.name], own)
        with b.loop("own", self.thread.name, self.count.name, self.start.threads, unroll=1) as (inner, rows):
            begins, ends = self.bounds(rows.variable, inner)
            item = inner.sub(ends, self.one_)
            place, behind = inner.sub(item, base), inner.sub(item, reach)
            there = inner.both(inner.op("le", self.zero, place), inner.op("lt", place, inner.const(self.capacity, "index")))
            is_rest = inner.op("le", self.zero, behind)
            place = inner.select(is_rest, inner.add(behind, inner.const(self.capacity, "index")), place)
            there = inner.both(inner.op("lt", begins, ends), inner.op("or", is_rest, there))
            inner.store(self.ends, inner.cast(inner.add(rows.variable, self.one_), "u16"), [place.name], there)

    # ---- elements ----

    def stream(self, base: Value, low: Value, high: Value, count: Value, b: Builder) -> None:
        """Each lane its part of a chunk, piece by piece."""
        spans, item, most = self.spans, Affine.of(self.item), b.const(self.capacity, "index")
        edges = [b.op("max", b.op("min", edge, most), self.zero) for edge in (b.sub(low, base), b.sub(high, base), count)]
        low, high, count = (b.cast(edge, "i32") for edge in edges)
        pieces = self.quotient(count, self.across, b)
        part = self.quotient(pieces, self.start.threads, b)
        first = b.mul(b.cast(self.thread, "i32"), part)
        stop = b.op("min", b.add(first, part), pieces)
        last = b.sub(pieces, b.const(1, "i32"))
        begin = self.piece_of(base, b)
        started = [*self.nothing(b), b.const(0, "u16")]
        turns = spans.turns
        with b.loop("piece", self.wide(first, b).name, self.wide(stop, b).name, turns, started, unroll=1) as (inner, walked):
            at = [inner.add(inner.cast(walked.variable, "i32"), inner.const(turn, "i32")) for turn in range(turns)]
            inside = [self.wide(inner.op("min", place, last) if turn else place, inner) for turn, place in enumerate(at)]
            read = [
                [inner.load(self.values[op.mem], [(begin + Affine.of(place.name)) * self.across + item]) for op in spans.loads]
                for place in inside
            ]
            *values, earliest = walked.carried
            for turn, (place, tiles) in enumerate(zip(inside, read, strict=True)):
                marks = inner.load(self.ends, [Affine.of(place.name) * self.across + item])
                own = inner.op("lt", at[turn], stop) if turn else None
                within = self.elements_inside(inner.mul(at[turn], inner.const(self.across, "i32")), low, high, inner)
                position = (begin + Affine.of(place.name)) * self.across
                known = dict(zip(spans.loads, tiles, strict=True))
                values, earliest = self.piece(position, known, marks, own, within, values, earliest, inner)
            inner.yield_(*values, earliest)
        self.hand_on(walked.results[:-1], walked.results[-1], b)

    def quotient(self, number: Value, by: int, b: Builder) -> Value:
        """Rounded up."""
        return b.op("div", b.add(number, b.const(by - 1, "i32")), b.const(by, "i32"))

    def wide(self, number: Value, b: Builder) -> Value:
        return b.cast(number, "index")

    def piece_of(self, place: Value, b: Builder) -> Affine:
        """The number of the piece that holds an element."""
        return Affine.of(b.op("shr", place, b.const(self.across.bit_length() - 1, "index")).name)

    def piece(
        self,
        position: Affine,
        tiles: Mapping[Load, Value],
        marks: Value,
        own: Value | None,
        insides: Sequence[Value | None],
        values: Sequence[Value],
        earliest: Value,
        b: Builder,
    ) -> tuple[list[Value], Value]:
        """What a lane has behind the last end, and which row has ended first there, with one more piece; `own`: where there is one."""
        items, nothing, none = range(self.across), self.nothing(b), b.const(0, "u16")
        known = {op: [taken(b, tile, self.item, item) for item in items] for op, tile in tiles.items()}
        each = self.computed([b.index(position + item) for item in items], known, insides, b)
        first, before = none, values
        for item in items:
            values, end = self.element(each[item], values, insides[item], b), taken(b, marks, self.item, item)
            is_end, row = b.op("ne", end, none), b.cast(end, "index")
            is_end = is_end if own is None else b.both(is_end, own)
            for mem, value in zip(self.totals, values, strict=True):
                b.store(mem, value, [row.name], is_end)
            values = [b.select(is_end, old, value) for value, old in zip(values, nothing, strict=True)]
            first = b.select(b.op("eq", first, none), end, first)
        if own is not None:
            values = [b.select(own, value, old) for value, old in zip(values, before, strict=True)]
            first = b.select(own, first, none)
        return list(values), b.select(b.op("eq", earliest, none), first, earliest)

    def hand_on(self, values: Sequence[Value], first: Value, b: Builder) -> None:
        """What a lane has behind its last end, to the row that ends first behind it, in its warp; `first`: the row that ends first in the
        lane's part."""
        zero, one = b.const(0, "u32"), b.const(1, "u32")
        some, row = b.op("ne", first, b.const(0, "u16")), b.cast(first, "index")
        lanes = b.cast(b.emit(Vote(operation="ballot", predicate=some)).result, "u32")
        below = b.op("and", lanes, b.sub(b.op("shl", one, b.cast(self.lane, "u32")), one))
        b.store(self.firsts, b.cast(first, "i32"), [self.warp.name], b.both(some, b.op("eq", below, zero)))
        values = self.scanned(values, b.op("or", lanes, one), b)
        with b.when(b.op("eq", self.lane, b.const(self.lanes - 1, "index"))) as inner:
            for mem, value in zip(self.lefts, values, strict=True):
                inner.store(mem, value, [self.warp.name])
        handed = [b.emit(Shuffle(mode="up", value=value, lane=b.const(1, "i32"))).result for value in values]
        with b.when(b.both(some, b.op("lt", self.zero, self.lane))) as inner:
            there = [inner.load(mem, [row.name]) for mem in self.totals]
            for mem, value in zip(self.totals, self.joined(handed, there, inner), strict=True):
                inner.store(mem, value, [row.name])

    def scanned(self, values: Sequence[Value], ends: Value, b: Builder) -> list[Value]:
        """What lanes have from the last one with an end on, to each lane; `ends`: a bit for each with one."""
        above = b.op("shl", ends, b.sub(b.const(self.lanes - 1, "u32"), b.cast(self.lane, "u32")))
        distance = 1
        while distance < self.lanes:
            others = [b.emit(Shuffle(mode="up", value=value, lane=b.const(distance, "i32"))).result for value in values]
            open_ = b.op("lt", above, b.const(1 << (32 - distance), "u32"))
            both = self.joined(others, values, b)
            values = [b.select(open_, value, old) for value, old in zip(both, values, strict=True)]
            distance *= 2
        return list(values)

    def computed(
        self, variables: Sequence[Value], known: Mapping[Load, Sequence[Value]], insides: Sequence[Value | None], b: Builder
    ) -> list[dict[Value, Value]]:
        """What elements come to but for what the cells hold, instruction by instruction, so that all their loads are on their way before
        the first is used. Where `insides` don't hold, nothing is read and nothing checked. That a check has failed is kept: rows do it
        once more by themselves then, and say which."""
        loop = self.rows_loop.outer
        own = [{loop.variable: variable} for variable in variables]
        guards, yes = list(insides), b.const(True, "i1")
        for op in loop.body.body[:-1]:
            if op in self.joining:
                continue
            b.span = op.span
            if isinstance(op, Load) and op in known:
                for values, value in zip(own, known[op], strict=True):
                    values[op.result] = value
                continue
            for number, values in enumerate(own):
                self.values.update(values)
                guard = guards[number]
                if isinstance(op, Load) and guard is not None:
                    where = guard if op.where is None else b.both(guard, self.values[op.where])
                    values[op.result] = b.load(self.values[op.mem], [self.copy.form(form) for form in op.index], where, op.pad)
                elif isinstance(op, Check):
                    holds, inside = self.values[op.condition], insides[number]
                    guards[number] = b.both(guard, holds)
                    fails = b.op("xor", holds, yes)
                    b.set(self.failed, b.op("or", b.get(self.failed), fails if inside is None else b.both(inside, fails)))
                else:
                    self.copy.one(op, b)
                    values.update((result, self.values[result]) for result in op.results)
        return own

    def element(self, own: Mapping[Value, Value], cells: Sequence[Value], inside: Value | None, b: Builder) -> list[Value]:
        """What the cells hold with an element."""
        loop = self.rows_loop.outer
        self.values.update(own)
        self.values.update(zip(loop.body.parameters[1:], (self.values[old] for old in loop.carried), strict=True))
        self.values.update(zip((cell for _, cell in self.cells), cells, strict=True))
        for op in loop.body.body[:-1]:
            if op in self.joining:
                b.span = op.span
                self.copy.one(op, b)
        given = dict(zip(loop.body.parameters[1:], loop.body.body[-1].operand_values, strict=True))
        new = [self.values[given[cell]] for _, cell in self.cells]
        return new if inside is None else [b.select(inside, value, old) for value, old in zip(new, cells, strict=True)]

    def elements_inside(self, place: Value, low: Value, high: Value, b: Builder) -> list[Value | None]:
        """For each element of the piece at a place of the chunk, whether it lies from `low` to below `high`; None where that is no
        matter."""
        if not self.spans.guarded:
            return [None] * self.across
        one, zero, across = b.const(1, "u32"), b.const(0, "i32"), b.const(self.across, "i32")
        before = b.op("min", b.op("max", b.sub(low, place), zero), across)
        upto = b.op("max", b.op("min", b.sub(high, place), across), before)
        mask = b.sub(b.op("shl", one, b.cast(upto, "u32")), b.op("shl", one, b.cast(before, "u32")))
        bits = [b.op("and", mask, b.const(1 << item, "u32")) for item in range(self.across)]
        return [b.op("ne", bit, b.const(0, "u32")) for bit in bits]

    # ---- one thread, for all warps ----

    def join(self, slots: Sequence[Value], b: Builder) -> None:
        """What warps left handed to the first row that ends in the parts behind theirs."""
        values = [b.get(slot) for slot in slots]
        firsts = [b.load(self.firsts, [warp]) for warp in range(self.warps)]
        lefts = [[b.load(mem, [warp]) for mem in self.lefts] for warp in range(self.warps)]
        for first, left in zip(firsts, lefts, strict=True):
            some, row = b.op("ne", first, b.const(0, "i32")), b.cast(first, "index")
            there = [b.load(mem, [row.name], some) for mem in self.totals]
            for mem, value in zip(self.totals, self.joined(values, there, b), strict=True):
                b.store(mem, value, [row.name], some)
            values = [b.select(some, new, both) for new, both in zip(left, self.joined(values, left, b), strict=True)]
        for slot, value in zip(slots, values, strict=True):
            b.set(slot, value)

    def rest(self, slots: Sequence[Value], low: Value, reach: Value, high: Value, b: Builder) -> None:
        """The elements behind the last whole piece of a memory."""
        first = b.op("max", low, reach)
        with b.loop("rest", first.name, high.name, 1, [b.get(slot) for slot in slots], unroll=1) as (inner, walked):
            (own,) = self.computed([walked.variable], {}, [None], inner)
            values = self.element(own, walked.carried, None, inner)
            end = inner.load(self.ends, [Affine.of(walked.variable.name) - Affine.of(reach.name) + self.capacity])
            some, row = inner.op("ne", end, inner.const(0, "u16")), inner.cast(end, "index")
            for mem, value in zip(self.totals, values, strict=True):
                inner.store(mem, value, [row.name], some)
            inner.yield_(*(inner.select(some, none, value) for value, none in zip(values, self.nothing(inner), strict=True)))
        for slot, value in zip(slots, walked.results, strict=True):
            b.set(slot, value)

    # ---- monoids ----

    def nothing(self, b: Builder) -> list[Value]:
        return [value for fold in self.rows_loop.folds for value in identities(b, fold.monoid, fold.dtypes)]

    def joined(self, first: Sequence[Value], second: Sequence[Value], b: Builder) -> list[Value]:
        """Cells of all folds."""
        made: list[Value] = []
        for fold in self.rows_loop.folds:
            place, width = len(made), len(fold.cells)
            made += combined(b, fold.monoid, first[place : place + width], second[place : place + width])
        return made
