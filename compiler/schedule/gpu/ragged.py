"""Rows of a ragged axis on lanes: `for k in ptr[r]..ptr[r + 1]`. Each row has some neighbouring lanes of a warp, as many as suit a row of
the mean length, so that a block does many rows. A lane takes several elements a turn, whose loads are all on their way before the first is
used. Which lane adds what depends on the row's length alone: every run gives the same bits."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod

from compiler.analysis.dependence import NestFacts
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For, If, While, Yield
from compiler.hir.gpu import SharedAlloc, Shuffle, SyncThreads, Vote
from compiler.hir.instruction import Effect, Instruction, Region, Value
from compiler.hir.memory import Check, GetSlot, Load, MakeSlot, SetSlot, Store, mem_of
from compiler.hir.types import Mem, Slot, Space, bytes_of
from compiler.schedule.gpu.barriers import Barriers
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.lanes import power_of_two
from compiler.schedule.gpu.overlapping import Overlapping, pieces_of
from compiler.schedule.gpu.reduction import combined, over_lanes
from compiler.schedule.gpu.spread import Spread, is_single
from compiler.schedule.stages import Start
from runtime.records import frozen

TURNS = 4
"""Elements that a lane has under way at once, at most; twice as many of 8 or 16 bits."""

LONG_ROW = 2048
"""Elements of a mean row from which a block is worth it, however many rows there are."""

FEW = 512
"""Threads of a multiprocessor below which there are few rows, one a warp."""

RESIDENT, CHECKED, LARGE_PIECES, SEVERAL_PIECES = 8, 5, 6, 5
"""Blocks of a multiprocessor whose lanes share rows, as many as have registers: without checks in their loops, with checks, with pieces of
many elements or of wide ones, and with several pieces under way."""

LONG_TURNS = 16
"""Turns of the lanes of a row that are as slow as the block's work on it."""

ACROSS = 8
"""Neighbours along a leading loop that read enough side by side: 32 bytes of f32."""

UNKNOWN_ROW = 32
"""Elements of a mean row where a launch says nothing."""


_TAKEN = (Load, Store, Check, GetSlot, SetSlot, MakeSlot, For, While, If, Yield)
"""What has effects, and may stand beside loops that lanes share."""


PIECES = 2
"""Pieces of a row that each of its lanes has: fewer lanes wait longer, more join more."""

MANY_PIECES = 4
"""Pieces that a lane has of rows for which all lanes of a warp are few: it has two under way at once, of elements of up to four bytes."""

MOST_ACROSS = 8
"""Elements of a piece for which a quarter of a lane's most registers are enough."""

LONG_PIECES = 16
"""Turns of the lanes of a row that are as slow as the block's work on it, in pieces."""


@frozen
class RowShape:
    """`lanes` of a warp share a row, and each takes so many elements a turn, or pieces of `across` elements."""

    lanes: int
    turns: int
    across: int = 1
    long: int | None = None
    """Elements of a row from which on its block does it, where that is possible."""
    resident: int = RESIDENT
    """Blocks of a multiprocessor, then."""

    def words(self, names: str, over: str) -> str:
        who = "a thread an iteration" if self.lanes == 1 else f"{self.lanes} lanes an iteration, which share {over}"
        long = "" if self.long is None else f"; rows of more than {self.long} go to the block"
        pieces = "elements" if self.across == 1 else f"pieces of {self.across} elements"
        return f"{names}: {who}, {self.turns} {pieces} a turn{long}"


def row_shape(nest: Spread, spreads: Mapping[For, Spread], facts: NestFacts, known: Facts) -> RowShape | None:
    """How lanes share the loops of each iteration of a leading nest, whose bounds data decide; None where a block should do an iteration,
    or has to."""
    body = Region([], [*nest.between, *nest.inner.body.body])
    barriers = Barriers(facts, spreads)
    barriers.place(body)
    if barriers.before or _reads_what_it_stores(body) or not all(_takes(op, spreads) for op in body.body):
        return None
    mean = max(_mean_row(nest, spread, facts, known) for spread in spreads.values())
    if _is_across(nest, spreads, facts, known):
        return RowShape(1, 1)
    rows = prod(max(1, known.about(facts.nest.of_loop(loop).extent)) for loop in nest.loops)
    few = rows * known.machine.lanes < known.processors * FEW
    if mean >= (4 * known.machine.lanes if few else LONG_ROW):
        return None
    reads = [pieces_of(spread, known) for spread in spreads.values()]
    if all(reads):
        across = max(pieces.across for pieces in reads if pieces is not None)
        count = -(-mean // across)
        lanes = min(known.machine.lanes, power_of_two(-(-count // PIECES)))
        turns = 2 if count >= MANY_PIECES * known.machine.lanes and _widest(spreads, facts) <= 4 else 1
        long = LONG_PIECES * lanes * turns * across if _may_wait(body, spreads) else None
        large = across > MOST_ACROSS or _widest(spreads, facts) > 4
        return RowShape(lanes, turns, across, long, SEVERAL_PIECES if turns > 1 else LARGE_PIECES if large else RESIDENT)
    most = TURNS if _widest(spreads, facts) >= 4 else 2 * TURNS
    lanes = min(known.machine.lanes, power_of_two(-(-mean // most)))
    turns = min(most, power_of_two(-(-mean // lanes)))
    checked = any(isinstance(op, Check) for spread in spreads.values() for op in spread.outer.walk())
    return RowShape(lanes, turns, 1, LONG_TURNS * lanes * turns if _may_wait(body, spreads) else None, CHECKED if checked else RESIDENT)


def _reads_what_it_stores(body: Region) -> bool:
    """Whether a row reads memory that rows write: all lanes would read it, also those behind the last row, while the first one writes."""
    ops = [inside for op in body.body for inside in op.walk()]
    stored = {op.mem for op in ops if isinstance(op, Store)}
    return any(isinstance(op, Load) and op.mem in stored for op in ops)


def _takes(op: Instruction, spreads: Mapping[For, Spread]) -> bool:
    """Whether lanes can do it: a loop that they share, or what each does alike, and the first stores."""
    if isinstance(op, For) and op in spreads:
        return len(spreads[op].loops) == 1 and not spreads[op].private and not any(isinstance(inside, Store) for inside in op.walk())
    return all(isinstance(inside, _TAKEN) or inside.effects is Effect.PURE for inside in op.walk()) and not any(
        is_single(inside, spreads) or (isinstance(inside, For) and inside in spreads) for inside in op.walk()
    )


def _widest(spreads: Mapping[For, Spread], facts: NestFacts) -> int:
    """Bytes of the widest element that the loops read."""
    loops = {facts.nest.of_loop(spread.inner) for spread in spreads.values()}
    return max((bytes_of(mem_of(access.mem).dtype) for access in facts.nest.accesses if loops.intersection(access.loops)), default=4)


def _is_across(nest: Spread, spreads: Mapping[For, Spread], facts: NestFacts, known: Facts) -> bool:
    """Whether lanes had better stand along the last leading loop, each with loops of its own: what each of its iterations reads lies side
    by side, and the rest of what the loops read is the same for them all."""
    across = facts.nest.of_loop(nest.inner)
    shared = {facts.nest.of_loop(spread.inner) for spread in spreads.values()}
    along = [access for access in facts.nest.accesses if shared.intersection(access.loops)]
    if known.about(across.extent) < ACROSS or nest.inner in {op for spread in spreads.values() for op in _leading(nest, spread, facts)}:
        return False
    return any(bool(access.index) and abs(access.index[-1].coefficient(across.axis)) == 1 for access in along)


def _may_wait(body: Region, spreads: Mapping[For, Spread]) -> bool:
    """Whether a row's loops may be left out, to be done later: nothing is stored before them, and nothing that follows could fail for
    what they come to without iterations."""
    results, begun = set[str](), False
    for op in body.body:
        if isinstance(op, For) and op in spreads:
            begun = True
            bounds = {*op.low.names, *op.high.names}
            if bounds & results or any(isinstance(cell.type, Slot) for fold in spreads[op].folds for cell in fold.cells):
                return False
            results |= {result.name for result in op.results}
            continue
        if not begun and any(isinstance(inside, Store) for inside in op.walk()):
            return False
        for inside in op.walk():
            names = {*(value.name for value in inside.operand_values), *inside.symbols}
            if not names & results:
                continue
            if op.regions or isinstance(inside, Check | Load):
                return False
            results |= {result.name for result in inside.results}
    return begun


def _mean_row(nest: Spread, spread: Spread, facts: NestFacts, known: Facts) -> int:
    """About how many iterations a spread loop has: of the shortest memory that it walks along, an equal part for each row."""
    loop = facts.nest.of_loop(spread.inner)
    extents = [
        mem_of(access.mem).dims[place]
        for access in facts.nest.accesses
        if loop in access.loops
        for place, form in enumerate(access.index)
        if abs(form.coefficient(loop.axis)) == 1
    ]
    magnitudes = dict(known.magnitudes)
    counted = [known.about(extent) for extent in extents if set(extent.names) <= magnitudes.keys()]
    rows = prod(max(1, known.about(facts.nest.of_loop(op).extent)) for op in _leading(nest, spread, facts))
    return max(1, min(counted) // rows) if counted else UNKNOWN_ROW


def _leading(nest: Spread, spread: Spread, facts: NestFacts) -> list[For]:
    """The leading loops that the bounds of the loop depend on."""
    names, reached = [*spread.inner.low.names, *spread.inner.high.names], set[str]()
    while names:
        name = names.pop()
        if name in reached:
            continue
        reached.add(name)
        source = facts.nest.definitions[name].source if name in facts.nest.definitions else None
        if source is not None:
            names += [*(value.name for value in source.operand_values), *source.symbols]
    return [loop for loop in nest.loops if loop.variable.name in reached]


class LaneCooperation(Overlapping):
    """The work of rows as the code of one thread, which is one of the lanes of a row."""

    def __init__(self, start: Start, spreads: Mapping[For, Spread], barriers: Barriers, shape: RowShape, rows: Value, known: Facts) -> None:
        """`rows`: how many there are. Lanes of rows behind the last one do the last one again, and store nothing."""
        super().__init__(start, spreads, barriers, shape.lanes, shape.turns, known)
        b = start.out.body
        self.shape, self.warp = shape, known.machine.lanes
        place, lanes, one = b.index(start.place, "place"), b.const(shape.lanes, "index"), b.const(1, "index")
        self.lane = b.op("rem", place, lanes, name="lane")
        row = b.op("div", place, lanes)
        self.inside = b.op("lt", row, rows, name="inside")
        self.row = b.op("min", row, b.op("max", b.sub(rows, one), b.const(0, "index")), name="row")
        self.leading = b.op("eq", self.lane, b.const(0, "index"))
        self.first = b.both(self.inside, self.leading)
        self.long: Value | None = None
        """Whether the row is left to the block, once that is known."""

    def spread(self, spread: Spread, b: Builder) -> None:
        """Each lane's iterations, then what a monoid joins joined over the lanes of the row, and with what was there before."""
        if self.shape.long is not None and self.long is None:
            loop = spread.outer
            length = b.index(self.copy.form(loop.high) - self.copy.form(loop.low))
            self.long = b.op("lt", b.const(self.shape.long, "index"), length, name="long")
            self.first = b.both(self.first, b.op("xor", self.long, b.const(True, "i1")))
        before = [[self.before(cell, spread, b) for cell in fold.cells] for fold in spread.folds]
        own = self.share(spread, self.lane, self.shape.lanes, b)
        for fold, values, outside in zip(spread.folds, own, before, strict=True):
            total = over_lanes(b, fold.monoid, values, self.shape.lanes)
            if self.shape.lanes > 1:
                lane = b.const(0, "i32")
                total = [b.emit(Shuffle(mode="idx", value=value, lane=lane, width=self.shape.lanes)).result for value in total]
            self.after(fold, spread, combined(b, fold.monoid, outside, total), b)

    def end(self, spread: Spread, b: Builder) -> Value:
        """At once, in a long row."""
        high = super().end(spread, b)
        return high if self.long is None else b.select(self.long, b.index(self.copy.form(spread.outer.low)), high)

    @contextmanager
    def long_rows(self, b: Builder) -> Iterator[tuple[Builder, Value]]:
        """A loop of the block over the long rows among its own, and the number of the row."""
        assert self.long is not None
        out, warp, threads = self.start.out.body, self.warp, self.start.threads
        count = threads // self.shape.lanes
        flags, words = (out.emit(SharedAlloc(type=Mem("i32", (n,), space=Space.SHARED))).result for n in (count, threads // warp))
        own = b.both(self.long, self.inside)
        place = b.op("div", self.thread, b.const(self.shape.lanes, "index"))
        b.store(flags, b.cast(own, "i32"), [place.name], self.leading)
        some = b.cast(b.emit(Vote(operation="any", predicate=own)).result, "i32")
        b.store(words, some, [b.op("div", self.thread, b.const(warp, "index")).name])
        b.emit(SyncThreads())
        total = b.load(words, [0])
        for number in range(1, threads // warp):
            total = b.op("or", total, b.load(words, [number]))
        zero = b.const(0, "i32")
        first = b.index(Affine.of(self.start.number.name) * count)
        with b.when(b.op("ne", total, zero)) as inner, inner.loop("long", 0, count) as (body, loop):
            flag = body.op("ne", body.load(flags, [loop.variable.name]), zero)
            with body.when(flag) as row:
                yield row, row.add(first, loop.variable)
                row.emit(SyncThreads())
