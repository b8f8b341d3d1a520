"""Marches whose lines read the same rows: `B[t, 0..16]` for all lines, beside `x[t, line]`. The threads of a block copy the rows of later
steps to shared memory; each thread reads what its own line needs some steps ahead, and does its steps in the written order. Threads past
the last line take part, too, since all threads meet at barriers; they store nothing."""

from collections.abc import Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.alignment import alignment
from compiler.hir.async_copy import AsyncCommit, AsyncCopy, AsyncWait
from compiler.hir.build import Builder
from compiler.hir.control import For, Yield
from compiler.hir.core import Binary, Unary
from compiler.hir.gpu import SharedAlloc, SyncThreads
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.types import Mem, Space, bytes_of
from compiler.machines.gpu import Feature
from compiler.schedule.gpu.cooperate import Cooperation, counts_of
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.library.sorting import taken
from compiler.schedule.gpu.maps import PLAIN
from compiler.schedule.gpu.marching import (
    March,
    is_only_read,
    march_of_loads,
    one_step,
    read_ahead,
    rest,
    stepping_loads,
    whole_steps,
    words_of,
)
from compiler.schedule.gpu.staged_march import only_reads
from compiler.schedule.gpu.nest_units import BESIDE, divisor, with_units
from compiler.schedule.gpu.pieces import align
from compiler.schedule.gpu.spread import Spread
from compiler.schedule.launches import Launch
from compiler.schedule.stages import Group, Start, iterations
from runtime.records import frozen

STEPS, OWN_WORDS = 8, 32
"""Whose rows are copied between two barriers, at most: those whose own elements fit in so many registers."""

MOST_INSTRUCTIONS = 1024
"""Of those steps, which are written out, about: one warp alone waits for its code where no cache holds that."""

PARTS = 4
"""Of so many steps each, in shared memory at a time."""

FUNCTION = 20
"""Instructions of a function of floats."""

MOST_BYTES = 2048
"""Of the rows of a step."""


@frozen(eq=False)
class SharedRow:
    """Elements of a memory side by side, which all lines read in a step: `width` from `low` on, copied `lanes` at once."""

    load: Load
    low: int
    width: int
    lanes: int


@frozen(eq=False)
class MarchRows:
    """A march of `own` loads, of loads of rows (which row each reads, and at which place), and of what is the `same` in all steps."""

    march: March
    own: March
    rows: tuple[SharedRow, ...]
    places: Mapping[Load, tuple[int, int]]
    same: tuple[Load, ...]


def march_rows(nest: Spread, known: Facts) -> MarchRows | None:
    """The nest's loop as such a march; None where lines share no rows, or too little else is known."""
    ops = [*nest.between, *nest.inner.body.body]
    loops = [op for op in nest.inner.body.body if isinstance(op, For)]
    if len(loops) != 1 or not known.machine.has(Feature.ASYNC_COPIES) or nest.inner.step != 1 or not only_reads(ops, loops[0]):
        return None
    (op,) = loops
    loads = stepping_loads(op)
    varying = {result.name for inside in (*ops, *op.body.body) for result in inside.results}
    varying |= {nest.inner.variable.name, *(value.name for value in op.body.parameters[1:])}
    if varying.intersection((*op.low.names, *op.high.names)):
        return None
    shared = [load for load in loads if load.where is None and not varying.intersection(load.symbols)]
    own = [load for load in loads if load not in shared]
    steps, slots = STEPS, sum(_slots(inside) for inside in op.body.body)
    while steps > 1 and (steps * words_of(own) > OWN_WORDS or steps * slots > MOST_INSTRUCTIONS):
        steps //= 2
    length = (op.high - op.low).value
    found = _rows(shared, known)
    if found is None or steps * words_of(own) > OWN_WORDS or (length is not None and length < 2 * steps):
        return None
    rows, places = found
    alone = march_of_loads(op, own, steps)
    made = {value.name for value in op.body.parameters} | {result.name for inside in op.body.body for result in inside.results}
    same = [inside for inside in op.body.body if isinstance(inside, Load) and is_only_read(inside) and inside.where is None]
    same = [load for load in same if not made.intersection(load.symbols)]
    return MarchRows(March(op, alone.early, (*alone.loads, *places, *same), steps), alone, rows, places, tuple(same))


def _slots(op: Instruction) -> int:
    """Instructions that one becomes, about."""
    function = (isinstance(op, Unary) and op.operator not in PLAIN) or (isinstance(op, Binary) and op.operator in ("div", "pow"))
    return FUNCTION if function else 1


def _rows(shared: Sequence[Load], known: Facts) -> tuple[tuple[SharedRow, ...], dict[Load, tuple[int, int]]] | None:
    """The rows in which these loads lie, those side by side together."""
    groups: dict[tuple[object, ...], list[Load]] = {}
    for load in shared:
        if not load.index:
            return None
        last = load.index[-1]
        groups.setdefault((load.mem, *load.index[:-1], last - last.constant), []).append(load)
    rows, places = list[SharedRow](), dict[Load, tuple[int, int]]()
    for group in groups.values():
        mem, columns = with_units(group[0].mem, known), [load.index[-1].constant for load in group]
        low, width, size = min(columns), max(columns) - min(columns) + 1, bytes_of(mem.dtype)
        if width > 2 * len(set(columns)) or (mem.strides is not None and mem.strides[-1].value != 1):
            return None
        first = next(load for load in group if load.index[-1].constant == low)
        at_once = ALIGNMENT
        while at_once > size and (alignment(mem, first.index) % at_once or width * size % at_once):
            at_once //= 2
        if at_once < 4:
            return None
        places.update({load: (len(rows), load.index[-1].constant - low) for load in group})
        rows.append(SharedRow(first, low, width, at_once // size))
    total = sum(row.width * bytes_of(mem_of(row.load.mem).dtype) for row in rows)
    return (tuple(rows), places) if rows and total <= MOST_BYTES else None


def launch_rows(plan: MarchRows, nest: Spread, work: Cooperation, start: Start, group: Group, known: Facts) -> Launch:
    align(start, known)
    start.take(group, start.out.body)
    return RowsLaunch(plan, nest, work, start, known).write()


class RowsLaunch:
    """The launch of such a march: blocks lie along the last of the leading loops, so that their lines share the others' iterations."""

    def __init__(self, plan: MarchRows, nest: Spread, work: Cooperation, start: Start, known: Facts) -> None:
        self.plan, self.nest, self.work, self.start, self.copy = plan, nest, work, start, start.copy
        self.steps, self.threads = plan.march.steps, start.threads
        self.is_full = divisor(iterations(nest.loops[-1]), known) % start.threads == 0
        """Whether every thread has a line."""
        self.axes: dict[int, str] = {}
        self.rings = [self.ring(row) for row in plan.rows]

    def ring(self, row: SharedRow) -> Value:
        type = Mem(mem_of(row.load.mem).dtype, (PARTS * self.steps, row.width), space=Space.SHARED, align=ALIGNMENT)
        return self.start.out.body.emit(SharedAlloc(type=type), "rows").result

    def write(self) -> Launch:
        nest, copy, b = self.nest, self.copy, self.start.out.body
        loop = self.plan.march.loop
        there = self.line(b)
        ops = [*nest.between, *nest.inner.body.body]
        place = ops.index(loop)
        copy.all(ops[:place], b)
        low, high, each, whole, full = whole_steps(loop, self.steps, copy, b)
        initial = [copy.value(value) for value in loop.carried]
        with b.branch(b.op("lt", b.const(0, "index"), whole), [value.type for value in initial]) as (some, none, chosen):
            some.yield_(*self.walk(initial, low, full, each, high, there, some))
            none.yield_(*initial)
        with b.when(there) as inner:
            rest(self.plan.march, copy, full, high, chosen.results, inner)
            copy.all([op for op in ops[place + 1 :] if not isinstance(op, Yield)], inner)
        outer = (iterations(one) for one in nest.loops[:-1])
        return self.start.finish((*outer, iterations(nest.loops[-1]).ceildiv(self.threads)), 1)

    def line(self, b: Builder) -> Value:
        """Makes the variables of the thread's line known, or those of the last one where there is none; whether there is one."""
        counts = counts_of(self.nest, self.copy, b)
        count, zero, wide = counts[-1], b.const(0, "index"), b.const(self.threads, "index")
        tiles = b.op("max", b.op("div", b.add(count, b.const(self.threads - 1, "index")), wide), b.const(1, "index"))
        block = self.start.number
        along = b.add(b.mul(b.op("rem", block, tiles), wide), self.work.thread)
        inside = b.op("min", along, b.op("max", b.sub(count, b.const(1, "index")), zero))
        self.work.digits(self.nest, b.add(b.mul(b.op("div", block, tiles), count), inside), counts, b)
        return b.op("lt", along, count)

    def walk(
        self, initial: Sequence[Value], low: Value, full: Value, each: Value, high: Value, there: Value, b: Builder
    ) -> Sequence[Value]:
        """All whole parts; what they carry on."""
        plan, loop, steps = self.plan, self.plan.march.loop, self.steps
        for part in range(PARTS - 1):
            self.begin(Affine.of(low.name) + part * steps, Affine((), part), high, b)
        self.copy.all(plan.same, b)
        same = [self.copy.values[load.result] for load in plan.same]
        ahead = read_ahead(plan.own, self.copy, low, b)
        zero, one, last = b.const(0, "index"), b.const(1, "index"), b.sub(full, each)
        state = [*initial, *ahead, zero, b.const(PARTS - 1, "index")]
        with b.loop(loop.variable.name, low.name, full.name, steps, state) as (inner, walked):
            *values, at, before = walked.carried
            inner.emit(AsyncWait(count=PARTS - 2))
            inner.emit(SyncThreads())
            self.begin(Affine.of(walked.variable.name) + (PARTS - 1) * steps, Affine.of(before.name), high, inner)
            following = read_ahead(plan.own, self.copy, inner.op("min", inner.add(walked.variable, each), last), inner)
            carried, own = values[: len(initial)], values[len(initial) :]
            for step in range(steps):
                shared = self.rows_of(Affine.of(at.name) * steps + step, inner)
                read = [*own[step * len(plan.own.loads) :][: len(plan.own.loads)], *shared, *same]
                position = inner.index(Affine.of(walked.variable.name) + step)

                def put(op: Store, value: Value) -> None:
                    self.put(op, value, there, inner)

                carried = one_step(plan.march, self.copy, position, carried, read, inner, put)
            after = inner.add(at, one)
            around = inner.op("lt", after, inner.const(PARTS, "index"))
            inner.yield_(*carried, *following, inner.select(around, after, zero), at)
        b.emit(AsyncWait(count=0))
        return walked.results[: len(initial)]

    def put(self, op: Store, value: Value, there: Value, b: Builder) -> None:
        where = None if op.where is None else self.copy.value(op.where)
        where = where if self.is_full else b.both(where, there)
        b.store(self.copy.value(op.mem), value, tuple(map(self.copy.form, op.index)), where)

    def begin(self, first: Affine, part: Affine, high: Value, b: Builder) -> None:
        """Copies the rows of the steps from the first on to their part of the rings, the zeros of none past the last."""
        for row, ring in zip(self.plan.rows, self.rings, strict=True):
            across = row.width // row.lanes
            items = self.steps * across
            for turn in range(-(-items // self.threads)):
                item = Affine.of(self.work.thread.name) + turn * self.threads
                if (turn + 1) * self.threads <= items:
                    self.copy_item(row, ring, item, across, first, part, high, b)
                    continue
                with b.when(b.op("lt", b.index(item), b.const(items, "index"))) as some:
                    self.copy_item(row, ring, item, across, first, part, high, some)
        b.emit(AsyncCommit())

    def copy_item(
        self, row: SharedRow, ring: Value, item: Affine, across: int, first: Affine, part: Affine, high: Value, b: Builder
    ) -> None:
        step, column = b.named(item.floordiv(across)), b.named((item % across) * row.lanes)
        position = b.index(first + step)
        self.copy.values[self.plan.march.loop.variable] = position
        *outer, last = map(self.copy.form, row.load.index)
        b.emit(
            AsyncCopy(
                destination=ring,
                destination_index=(part * self.steps + step, column),
                source=self.copy.value(row.load.mem),
                source_index=(*outer, last + column),
                bytes=row.lanes * bytes_of(mem_of(row.load.mem).dtype),
                where=b.op("lt", position, high),
            )
        )

    def rows_of(self, at: Affine, b: Builder) -> list[Value]:
        """What a step reads of its rows."""
        read: dict[tuple[int, int], Value] = {}
        for number, (row, ring) in enumerate(zip(self.plan.rows, self.rings, strict=True)):
            wide = ALIGNMENT // bytes_of(mem_of(row.load.mem).dtype)
            while row.width % wide:
                wide //= 2
            for column in range(0, row.width, wide):
                if wide == 1:
                    read[number, column] = b.load(ring, (at, Affine((), column)))
                    continue
                axis = self.axis(wide)
                tile = b.load(ring, (at, Affine.of(axis) + column))
                read.update({(number, column + item): taken(b, tile, axis, item) for item in range(wide)})
        return [read[place] for place in self.plan.places.values()]

    def axis(self, wide: int) -> str:
        """Elements side by side."""
        if wide not in self.axes:
            self.axes[wide] = self.start.out.axis(BESIDE, wide)
        return self.axes[wide]
