"""Rows of a ragged axis on lanes: `for k in ptr[r]..ptr[r + 1]`. Each row has some neighbouring lanes of a warp, as many as suit a row of
the mean length, so that a block does many rows; a lane has several elements under way. Rows that are far longer than the mean are left to
the block, which does them one after the other, or shares them out (`ragged_parts.py`). Which lane adds what depends on the row's length
alone: every run gives the same bits."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import cast

from compiler.analysis.accesses import NestAccess
from compiler.analysis.dependence import NestFacts
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For, If, While, Yield
from compiler.hir.gpu import SharedAlloc, Shuffle, SyncThreads, Vote
from compiler.hir.instruction import Effect, Instruction, Region, Value
from compiler.hir.memory import Check, GetSlot, Load, MakeSlot, SetSlot, Store, mem_of
from compiler.hir.types import Mem, Slot, Space
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.lanes import power_of_two
from compiler.schedule.gpu.need import depending, read_names
from compiler.schedule.gpu.nests.at_once import Pieces, is_running, overlaps, pieces_of, stores
from compiler.schedule.gpu.nests.barriers import Barriers
from compiler.schedule.gpu.nests.spread import JoinedCells, Spread, is_single
from compiler.schedule.gpu.ragged.flat_rows import ENTRY
from compiler.schedule.gpu.ragged.ragged_running import RowWork, before_lane, run_along
from compiler.schedule.gpu.tiles.reduction import combined, over_lanes
from compiler.schedule.stages import Start
from compiler.schedule.threads import BLOCK
from runtime.records import Factory, frozen

TURNS = 4
"""Elements that a lane has under way; twice as many where data don't say which are read. Pieces of 16 bytes, where it reads these."""

WIDE, NARROW = 16, 4
"""Pieces of a mean row from which on lanes read pieces: where data say which elements are read, and where elements are narrower than 4
bytes."""

LANES_BLOCK = 64
"""Threads of a block of lanes: rows end at different times, and a block only when all of its rows have."""

LONG_ROW = 2048
"""Elements of a mean row from which a block is worth it, however many rows there are."""

MOST_HELD = 16
"""Elements that a thread keeps, at most, for loops that go over the same."""

FEW = 512
"""Threads of a multiprocessor below which there are few rows, one a warp."""

LONG, LEAST = 12, 16
"""Means, or turns of a row's lanes, from which on a row is left to the block; elements of a mean row below which a row isn't long because
the mean one is short."""

RESIDENT, LOOKING_UP = 1536, 1280
"""Threads of a multiprocessor for which there are registers; the second where data say which elements are read."""

ACROSS = 8
"""Neighbours along a leading loop that read enough side by side: 32 bytes of f32."""

UNKNOWN_ROW = 32
"""Elements of a mean row where a launch says nothing."""


_TAKEN = (Load, Store, Check, GetSlot, SetSlot, MakeSlot, For, While, If, Yield)
"""What has effects, and may stand beside loops that lanes share."""


@frozen
class RowShape:
    """`lanes` threads of a block of so many `threads` share a row, of which each has so many elements under way; `resident`: threads of a
    processor that have registers. `long`: iterations from which on a row is left to the block; None where lanes do all of them. `pieces`:
    what blocks read in pieces, and lanes where they are `wide`."""

    lanes: int
    turns: int
    resident: int
    threads: int = BLOCK
    long: int | None = None
    pieces: Mapping[For, Pieces] = Factory(dict)
    wide: bool = False
    mean: int = 0
    """Iterations of a mean row."""
    across: bool = False
    together: bool = False
    """Whether lanes stand across rows, each with one; whether a block's threads have as many elements each of all of its rows."""
    held: tuple[int, ...] = ()
    """Numbers of iterations of which a thread keeps what it reads for the loops behind, the least first."""

    @property
    def by_block(self) -> bool:
        return self.lanes == self.threads

    def words(self, names: str, over: str) -> str:
        if self.together:
            who = "a thread" if self.lanes == 1 else f"{self.lanes} lanes"
            return f"{names}: {who} an iteration, from what its block copies of all of its iterations, in pieces of 16 bytes"
        who = "a thread" if self.lanes == 1 else "a block" if self.by_block else f"{self.lanes} lanes"
        long = "" if self.long is None else f"; where {over} is longer than {self.long}, the block"
        pieces = ", in pieces of 16 bytes" if self.pieces and (self.wide or self.by_block) else ""
        how = f"{self.turns} of {over} at once{pieces}"
        if self.held:
            how += f", what up to {self.held[-1]} of each read stays in registers"
        return f"{names}: {who} an iteration, {how}{long}"


def row_shape(nest: Spread, spreads: Mapping[For, Spread], facts: NestFacts, known: Facts) -> RowShape | None:
    """How threads share the loops of each iteration of a leading nest, whose bounds data decide; None where a block has to do an
    iteration."""
    body = Region([], [*nest.between, *nest.inner.body.body])
    barriers = row_barriers(body.body, spreads, facts)
    if barriers.before or not all(_takes(op, spreads) for op in body.body):
        return None
    if _reads_what_it_stores(body) and not (any(map(stores, spreads)) and _may_wait(body, spreads)):
        return None
    mean = max(mean_row(nest, spread, facts, known) for spread in spreads.values())
    found = any(map(looked_up, spreads))
    turns, resident = (TURNS, LOOKING_UP) if found else (2 * TURNS, RESIDENT)
    if _is_across(nest, spreads, facts, known):
        # a thread that does nothing but run along its line reads further ahead
        return None if all(map(is_running, spreads)) else RowShape(1, turns, resident, across=True)
    pieces = {loop: piece for loop in spreads if (piece := pieces_of(loop, known)).loads}
    width = max((piece.width for piece in pieces.values()), default=1)
    rows = prod(max(1, known.about(facts.nest.of_loop(loop).extent)) for loop in nest.loops)
    few = rows * known.machine.lanes < known.processors * FEW
    if any(map(stores, spreads)):
        return _storing_shape(body, spreads, mean, few, resident, known)
    at_once = max(1, min(TURNS // 2 if found else TURNS, power_of_two(-(-mean // width)) // 2)) * width
    if mean >= (4 * known.machine.lanes if few else LONG_ROW):
        return RowShape(BLOCK, max(turns, at_once), resident, BLOCK, None, pieces)
    wide = width > 1 and mean >= width * (WIDE if found else NARROW if width > NARROW else 1)
    each = at_once if wide else turns if found else 2 * turns
    enough = max(-(-2 * mean // (3 * each)), min(-(-mean // turns), -(-known.processors * resident // rows)))
    lanes, turns = min(known.machine.lanes, power_of_two(enough)), at_once if wide else turns
    long = LONG * max(mean, lanes * turns, LEAST) if _may_wait(body, spreads) else None
    return RowShape(lanes, turns, resident, LANES_BLOCK, long, pieces, wide, mean)


def row_barriers(body: Sequence[Instruction], spreads: Mapping[For, Spread], facts: NestFacts) -> Barriers:
    """Where the threads of a row meet; what its bounds are is decided once."""
    barriers = Barriers(facts, spreads, frozenset(result.name for op in body for result in op.results))
    barriers.place(Region([], list(body)))
    return barriers


def _storing_shape(body: Region, spreads: Mapping[For, Spread], mean: int, few: bool, resident: int, known: Facts) -> RowShape:
    """The shape of rows that store elements: a thread has few of them, as neighbours store side by side. Where several loops go over the
    same, what is read stays in registers."""
    again = len(spreads) > 1 and len({(loop.low, loop.high) for loop in spreads}) == 1 and all(map(overlaps, spreads.values()))
    lanes = min(known.machine.lanes, power_of_two(-(-mean // TURNS)))
    threads = LANES_BLOCK
    if mean > (4 if few else MOST_HELD) * lanes:
        lanes = threads = BLOCK if few or mean > TURNS * BLOCK // 2 else BLOCK // 2
    least = min(MOST_HELD, max(TURNS, power_of_two(-(-mean // lanes))))
    held = tuple(each for each in (least, 2 * least) if each <= MOST_HELD) if again else ()
    long = LONG * max(mean, lanes * TURNS) if threads != lanes and _may_wait(body, spreads) else None
    return RowShape(lanes, TURNS, resident, threads, long, mean=mean, held=held)


def _reads_what_it_stores(body: Region) -> bool:
    """Whether a row reads memory that rows write: all lanes would read it, also those behind the last row, while the first one writes."""
    ops = [inside for op in body.body for inside in op.walk()]
    stored = {op.mem for op in ops if isinstance(op, Store)}
    return any(isinstance(op, Load) and op.mem in stored for op in ops)


def _takes(op: Instruction, spreads: Mapping[For, Spread]) -> bool:
    """Whether lanes can do it: a loop that they share, or what each does alike, and the first stores."""
    if isinstance(op, For) and op in spreads:
        return len(spreads[op].loops) == 1 and not spreads[op].private and (not stores(op) or overlaps(spreads[op]))
    return all(isinstance(inside, _TAKEN) or inside.effects is Effect.PURE for inside in op.walk()) and not any(
        is_single(inside, spreads) or (isinstance(inside, For) and inside in spreads) for inside in op.walk()
    )


def looked_up(loop: For) -> list[Load]:
    """What it reads where other elements say."""
    ops = [op for op in loop.walk() if op is not loop]
    names = depending([op.result for op in ops if isinstance(op, Load)], ops)
    return [op for op in ops if isinstance(op, Load) and not names.isdisjoint(op.symbols)]


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
            begun, cells = True, [cell for fold in spreads[op].folds for cell in fold.cells]
            if results & {*op.low.names, *op.high.names} or any(isinstance(cell.type, Slot) for cell in cells):
                return False
            results |= {result.name for result in op.results}
            continue
        if not begun and any(isinstance(inside, Store) for inside in op.walk()):
            return False
        for inside in op.walk():
            if results & read_names(inside):
                if op.regions or isinstance(inside, Check | Load):
                    return False
                results |= {result.name for result in inside.results}
    return begun


def walked_extents(spread: Spread, facts: NestFacts) -> list[tuple[NestAccess, Affine]]:
    """Of the memories that a spread loop walks along, counted in its iterations, with the accesses."""
    loop = facts.nest.of_loop(spread.inner)
    entry, each = cast(tuple[str, int], spread.inner.mark(ENTRY, ("", 1)))
    return [
        (access, mem_of(access.mem).dims[place] * (1 if along else each))
        for access in facts.nest.accesses
        if loop in access.loops
        for place, form in enumerate(access.index)
        if (along := abs(form.coefficient(loop.axis)) == 1) or abs(form.coefficient(entry)) == 1
    ]


def mean_row(nest: Spread, spread: Spread, facts: NestFacts, known: Facts) -> int:
    """About how many iterations a spread loop has: of the shortest memory that it walks along, an equal part for each row; half of what
    each row has for itself."""
    sizes = {name: most if name in known.exact else most * 3 // 4 for name, most in known.magnitudes}
    leading = [facts.nest.of_loop(op) for op in _leading(nest, spread, facts)]
    means = []
    for access, extent in walked_extents(spread, facts):
        if sizes.keys() >= set(extent.names):
            shared = [loop for loop in leading if all(loop.axis not in form.names for form in access.index)]
            rows = prod(max(1, loop.extent.evaluate(lambda name: sizes.get(name, known.about(Affine.of(name))))) for loop in shared)
            means.append(extent.evaluate(sizes.__getitem__) // (rows if shared else 2))
    return max(1, min(means)) if means else UNKNOWN_ROW


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
            names += read_names(source)
    return [loop for loop in nest.loops if loop.variable.name in reached]


class LaneCooperation(RowWork):
    """The work of rows as the code of one thread, which is one of the lanes of a row."""

    def __init__(self, start: Start, spreads: Mapping[For, Spread], barriers: Barriers, shape: RowShape, warp: int) -> None:
        super().__init__(start, spreads, barriers, warp, shape.turns, shape.pieces if shape.wide else {})
        self.shape, self.rereads, b = shape, _reads_what_it_stores(Region([], list(spreads))), start.out.body
        self.lane = b.op("rem", self.thread, b.const(shape.lanes, "index"), name="lane")
        self.leading = b.op("eq", self.lane, b.const(0, "index"))

    def begin(self, first: Value, each: Value, own: Value, rows: Value, b: Builder) -> None:
        """The first row of the block, rows of `each` warp, the `own` one of the thread among those of the block, and how many there are in
        all. Lanes of rows behind the last one do the last one again, and store nothing."""
        self.first_row, self.each, self.long, one = first, each, None, b.const(1, "index")
        row = b.add(first, own)
        self.inside = b.op("lt", row, rows, name="inside")
        self.row = b.op("min", row, b.op("max", b.sub(rows, one), b.const(0, "index")), name="row")
        self.first = b.both(self.inside, self.leading)

    def only_where(self, condition: Value, b: Builder) -> None:
        """Nothing is stored elsewhere."""
        self.inside = b.both(self.inside, condition)
        self.first = b.both(self.inside, self.leading)

    long: Value | None
    """Whether the row is left to the block, once that is known."""

    def spread(self, spread: Spread, b: Builder) -> None:
        """Each lane's iterations, then what a monoid joins joined over the lanes of the row, and with what was there before."""
        lanes = self.shape.lanes
        self.begins(spread.outer, b)
        if is_running(spread.outer):
            run_along(self, spread, self.lane, lanes, b)
            return
        before = [[self.before(cell, spread, b) for cell in fold.cells] for fold in spread.folds]
        own = self.share(spread, self.lane, lanes, b)
        for fold, values, outside in zip(spread.folds, own, before, strict=True):
            total = over_lanes(b, fold.monoid, values, lanes)
            if lanes > 1:
                total = [b.emit(Shuffle(mode="idx", value=value, lane=b.const(0, "i32"), width=lanes)).result for value in total]
            self.after(fold, spread, combined(b, fold.monoid, outside, total), b)

    def begins(self, loop: For, b: Builder) -> None:
        if self.shape.long is not None and self.long is None:
            length = b.index(self.form(loop.high) - self.form(loop.low))
            self.long = b.op("lt", b.const(self.shape.long * loop.step, "index"), length, name="long")
            self.first = b.both(self.first, b.op("xor", self.long, b.const(True, "i1")))

    def everywhere(self, condition: Value, b: Builder) -> Value:
        """The rows of a warp branch together."""
        return b.emit(Vote(operation="all", predicate=condition)).result

    def ends(self, loop: For, b: Builder) -> tuple[Affine, Affine]:
        """Long rows end at once, and those behind the last one where rows read what they store."""
        low, high = super().ends(loop, b)
        if self.long is not None:
            high = Affine.of(b.select(self.long, b.index(low), b.index(high)).name)
        if self.rereads:
            high = Affine.of(b.select(self.inside, b.index(high), b.index(low)).name)
        return low, high

    def most(self, count: Value, b: Builder) -> Value:
        """Of all rows of a warp."""
        return over_lanes(b, "max", [count], self.lanes)[0]

    def before_own(self, fold: JoinedCells, value: Value, b: Builder) -> tuple[Value, Value]:
        return before_lane(fold, value, self.lane, self.shape.lanes, b)

    def late_one(self, op: Instruction, where: Value | None, b: Builder) -> None:
        """Rows behind the last one store nothing."""
        super().late_one(op, b.both(where, self.inside) if isinstance(op, Store) else where, b)

    @contextmanager
    def long_rows(self, b: Builder) -> Iterator[tuple[Builder, Value]]:
        """A loop of the block over the long ones of its rows, and the number of the row: each warp leaves a bit for each of its lanes that
        is the first one of such a row."""
        assert self.long is not None
        count, lanes = self.start.threads // self.lanes, self.shape.lanes
        words = self.start.out.body.emit(SharedAlloc(type=Mem("u32", (count,), space=Space.SHARED)), "words").result
        own = b.both(self.long, b.both(self.inside, self.leading))
        ballot = b.cast(b.emit(Vote(operation="ballot", predicate=own)).result, "u32")
        if self.shape.together:
            b.emit(SyncThreads())  # those of the last batch are still read
        b.store(words, ballot, [b.op("div", self.thread, b.const(self.lanes, "index")).name])
        b.emit(SyncThreads())
        found, zero, one = b.const(0, "u32"), b.const(0, "u32"), b.const(1, "u32")
        for number in range(count):
            found = b.op("or", found, b.load(words, [number]))
        rows = self.lanes // lanes
        with b.when(b.op("ne", found, zero)) as some, some.loop("warp", 0, count, unroll=1) as (each, warp):
            word = each.load(words, [warp.variable.name])
            with each.when(each.op("ne", word, zero)) as its, its.loop("group", 0, rows, unroll=1) as (body, group):
                shift = body.cast(body.mul(group.variable, body.const(lanes, "index")), "u32")
                with body.when(body.op("ne", body.op("and", body.op("shr", word, shift), one), zero)) as row:
                    yield row, row.add(row.add(self.first_row, row.mul(warp.variable, self.each)), group.variable)
                    row.emit(SyncThreads())
