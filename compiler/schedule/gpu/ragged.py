"""Rows of a ragged axis on lanes: `for k in ptr[r]..ptr[r + 1]`. Each row has some neighbouring lanes of a warp, as many as suit a row of
the mean length, so that a block does many rows. Which lane adds what depends on the row's length alone: every run gives the same bits."""

from collections.abc import Mapping
from math import prod

from compiler.analysis.dependence import NestFacts
from compiler.hir.build import Builder
from compiler.hir.control import For, If, While, Yield
from compiler.hir.gpu import Shuffle
from compiler.hir.instruction import Effect, Instruction, Region, Value
from compiler.hir.memory import Check, GetSlot, Load, MakeSlot, SetSlot, Store, mem_of
from compiler.hir.types import bytes_of
from compiler.schedule.gpu.barriers import Barriers
from compiler.schedule.gpu.cooperate import Cooperation
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.lanes import power_of_two
from compiler.schedule.gpu.need import read_names
from compiler.schedule.gpu.reduction import combined, over_lanes
from compiler.schedule.gpu.spread import Spread, is_single
from compiler.schedule.stages import Start

TURNS = 4
"""Elements of a mean row that a lane has, at most; twice as many of 8 or 16 bits."""

LONG_ROW = 2048
"""Elements of a mean row from which a block is worth it, however many rows there are."""

FEW = 512
"""Threads of a multiprocessor below which there are few rows, one a warp."""

ACROSS = 8
"""Neighbours along a leading loop that read enough side by side: 32 bytes of f32."""

UNKNOWN_ROW = 32
"""Elements of a mean row where a launch says nothing."""


_TAKEN = (Load, Store, Check, GetSlot, SetSlot, MakeSlot, For, While, If, Yield)
"""What has effects, and may stand beside loops that lanes share."""


def row_words(lanes: int, names: str, over: str) -> str:
    return f"{names}: a thread an iteration" if lanes == 1 else f"{names}: {lanes} lanes an iteration, which share {over}"


def lanes_of_rows(nest: Spread, spreads: Mapping[For, Spread], facts: NestFacts, known: Facts) -> int | None:
    """How many lanes share the loops of each iteration of a leading nest, whose bounds data decide; None where a block should do an
    iteration, or has to."""
    body = Region([], [*nest.between, *nest.inner.body.body])
    barriers = Barriers(facts, spreads)
    barriers.place(body)
    if barriers.before or _reads_what_it_stores(body) or not all(_takes(op, spreads) for op in body.body):
        return None
    mean = max(_mean_row(nest, spread, facts, known) for spread in spreads.values())
    if _is_across(nest, spreads, facts, known):
        return 1
    rows = prod(max(1, known.about(facts.nest.of_loop(loop).extent)) for loop in nest.loops)
    few = rows * known.machine.lanes < known.processors * FEW
    if mean >= (4 * known.machine.lanes if few else LONG_ROW):
        return None
    most = TURNS if _widest(spreads, facts) >= 4 else 2 * TURNS
    return min(known.machine.lanes, power_of_two(-(-mean // most)))


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
            names += read_names(source)
    return [loop for loop in nest.loops if loop.variable.name in reached]


class LaneCooperation(Cooperation):
    """The work of rows as the code of one thread, which is one of the lanes of a row."""

    def __init__(self, start: Start, spreads: Mapping[For, Spread], barriers: Barriers, lanes_of_row: int, rows: Value) -> None:
        """`rows`: how many there are. Lanes of rows behind the last one do the last one again, and store nothing."""
        super().__init__(start, spreads, barriers, lanes_of_row)
        b = start.out.body
        self.lanes_of_row = lanes_of_row
        place, lanes, one = b.index(start.place, "place"), b.const(lanes_of_row, "index"), b.const(1, "index")
        self.lane = b.op("rem", place, lanes, name="lane")
        row = b.op("div", place, lanes)
        self.inside = b.op("lt", row, rows, name="inside")
        self.row = b.op("min", row, b.op("max", b.sub(rows, one), b.const(0, "index")), name="row")
        self.leading = b.op("eq", self.lane, b.const(0, "index"))
        self.first = b.both(self.inside, self.leading)

    def spread(self, spread: Spread, b: Builder) -> None:
        """Each lane's iterations, then what a monoid joins joined over the lanes of the row, and with what was there before."""
        before = [[self.before(cell, spread, b) for cell in fold.cells] for fold in spread.folds]
        own = self.share(spread, self.lane, self.lanes_of_row, b)
        for fold, values, outside in zip(spread.folds, own, before, strict=True):
            total = over_lanes(b, fold.monoid, values, self.lanes_of_row)
            if self.lanes_of_row > 1:
                lane = b.const(0, "i32")
                total = [b.emit(Shuffle(mode="idx", value=value, lane=lane, width=self.lanes_of_row)).result for value in total]
            self.after(fold, spread, combined(b, fold.monoid, outside, total), b)
