"""Marches of few lines, by two kinds of threads: a line's own thread does nothing but its steps, in the written order, on what lies in
shared memory; the helpers of a block copy what all of its lines read there, many steps ahead, and store what they leave there. So a step
takes about as long as its arithmetic, and blocks may have few lines each: all multiprocessors work, and enough of memory is under way."""

from collections.abc import Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.async_copy import AsyncCommit, AsyncCopy, AsyncWait
from compiler.hir.build import Builder
from compiler.hir.control import Yield
from compiler.hir.gpu import SharedAlloc, SyncThreads
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Check, Load, Store, mem_of
from compiler.hir.types import Mem, Slot, Space, bytes_of
from compiler.machines.gpu import Feature
from compiler.schedule.gpu.cooperate import Cooperation, counts_of
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.lanes import power_of_two
from compiler.schedule.gpu.marching import March, one_step, whole_steps
from compiler.schedule.gpu.spread import Spread
from compiler.schedule.launches import Launch
from compiler.schedule.stages import Start, iterations
from runtime.records import frozen

HELPERS = 128
"""Threads of a block that copy and store."""

SECTOR = 32
"""Bytes of memory that are read together: so many lines a block has at least, where neighbours lie side by side."""

MOST_LINES = 128
"""Of a block."""

PART_BYTES, RING_BYTES = 4096, 32768
"""Shared memory of a part, which helpers copy between two barriers, and of all parts."""

MOST_STEPS = 64
"""Of a part."""

AT_ONCE = 8
"""Steps whose elements a line's thread reads before it does those before them."""


@frozen(eq=False)
class MarchAhead:
    """A march of blocks of so many `lines`: `steps` of each are a part, of which shared memory holds `parts`. `along`: lines lie along
    memory, so that helpers take neighbouring steps rather than neighbouring lines."""

    march: March
    stores: tuple[Store, ...]
    lines: int
    steps: int
    parts: int
    along: bool

    @property
    def threads(self) -> int:
        return max(self.lines, 32) + HELPERS


def ahead(nest: Spread, march: March, total: int, known: Facts) -> MarchAhead | None:
    """The march of each iteration of leading loops, of which there are so many; None where there are too many, or where helpers can't know
    what it reads and stores."""
    loop, machine = march.loop, known.machine
    ops = [*nest.between, *nest.inner.body.body]
    inside = [op for op in loop.body.body if isinstance(op, Load | Store)]
    stores = tuple(op for op in inside if isinstance(op, Store))
    if not machine.has(Feature.ASYNC_COPIES) or total > MOST_LINES * known.processors or loop not in ops or not stores:
        return None
    if len(inside) != len(march.loads) + len(stores) or len(march.early) > len(march.loads):
        return None
    made = {result.name for op in (*ops, *loop.body.body) for result in op.results} | {value.name for value in loop.body.parameters[1:]}
    if any(op.where is not None or isinstance(op.mem.type, Slot) or made.intersection(op.symbols) for op in inside):
        return None
    bounds = {*loop.low.names, *loop.high.names}
    if bounds & (made | {outer.variable.name for outer in nest.loops}) or not _all_apart(stores, march) or not _only_reads(ops, march):
        return None
    widths = [bytes_of(mem_of(op.mem).dtype) for op in inside]
    if not {bytes_of(mem_of(op.mem).dtype) for op in march.loads} <= {4, 8}:
        return None
    lines = min(MOST_LINES, max(SECTOR // min(widths), power_of_two(-(-total // known.processors)) // 2))
    steps = min(MOST_STEPS, max(AT_ONCE, PART_BYTES // (lines * sum(widths[: len(march.loads)]))))
    steps = 1 << (steps.bit_length() - 1)
    parts = RING_BYTES // (steps * lines * sum(bytes_of(mem_of(op.mem).dtype) for op in march.loads))
    length = (loop.high - loop.low).value
    if parts < 3 or lines * steps < HELPERS or (length is not None and length < 2 * steps):
        return None
    along = all(op.index and op.index[-1].coefficient(loop.variable.name) == 1 for op in inside)
    return MarchAhead(march, stores, lines, steps, min(parts, 8), along)


def _all_apart(stores: Sequence[Store], march: March) -> bool:
    """Whether each step of each line stores to an element of its own, so that nobody minds who stores it when: the analysis of the leading
    loops says so for lines, and each step moves on."""
    step = march.loop.variable.name
    moves = [any(form.coefficient(step) and step not in form.without(step).names for form in op.index) for op in stores]
    return len({op.mem for op in stores}) == len(stores) and all(moves)


def _only_reads(ops: Sequence[Instruction], march: March) -> bool:
    """Whether what stands before the loop may be done by threads without a line, too: it reads what no line stores."""
    before = ops[: ops.index(march.loop)]
    stored = {inside.mem for op in ops for inside in op.walk() if isinstance(inside, Store)}
    if any(op.regions or not (op.effects is Effect.PURE or isinstance(op, Load | Check)) for op in before):
        return False
    return not any(isinstance(op, Load) and op.mem in stored for op in before)


class AheadLaunch:
    """The launch of such marches."""

    def __init__(self, plan: MarchAhead, nest: Spread, work: Cooperation, start: Start) -> None:
        self.plan, self.nest, self.work, self.start, self.copy = plan, nest, work, start, start.copy
        march, lines, out = plan.march, plan.lines, start.out.body
        pad = 1 if plan.along else 0
        self.rings = [self.shared(op, plan.parts * plan.steps, lines + pad) for op in march.loads]
        self.left: dict[Load | Store, Value] = {op: self.shared(op, 2 * plan.steps, lines + pad) for op in plan.stores}
        self.counts = counts_of(nest, self.copy, out)
        self.total = out.product(self.counts)
        self.block_first = out.index(Affine.of(start.number.name) * lines)

    def shared(self, op: Load | Store, steps: int, lines: int) -> Value:
        memory = Mem(mem_of(op.mem).dtype, (steps, lines), space=Space.SHARED)
        return self.start.out.body.emit(SharedAlloc(type=memory), "ring").result

    def line(self, number: Affine, b: Builder) -> Value:
        """Makes a line's variables known; whether there is such a line."""
        behind = b.op("max", b.sub(self.total, b.const(1, "index")), b.const(0, "index"))
        place = b.index(Affine.of(self.block_first.name) + number)
        self.work.digits(self.nest, b.op("min", place, behind), self.counts, b)
        return b.op("lt", place, self.total)

    def write(self) -> Launch:
        plan, start, b, copy = self.plan, self.start, self.start.out.body, self.copy
        march, steps, ring = plan.march, plan.steps, plan.parts * plan.steps
        loop = march.loop
        own = b.op("lt", self.work.thread, b.const(max(plan.lines, 32), "index"))
        self.places = self.helped(b)
        mine = b.op("min", self.work.thread, b.const(plan.lines - 1, "index"))
        there = b.both(self.line(Affine.of(mine.name), b), b.op("lt", self.work.thread, b.const(plan.lines, "index")))
        ops = [*self.nest.between, *self.nest.inner.body.body]
        place = ops.index(loop)
        copy.all(ops[:place], b)
        self.variables = {one.variable: start.values[one.variable] for one in self.nest.loops}
        low, high, each, _, full = whole_steps(loop, steps, copy, b)
        self.high = high
        helping = b.op("xor", own, b.const(True, "i1"))
        with b.when(helping) as inner, inner.loop("part", 0, ring - steps, steps, unroll=1) as (body, part):
            self.begin(body.add(low, part.variable), Affine.of(part.variable.name), body)
        front, back = b.const(0, "index"), b.const(ring - steps, "index")
        initial = [copy.value(value) for value in loop.carried]
        half = b.const(steps, "index")
        types = [value.type for value in initial]
        state = [*initial, front, back, front]
        with b.loop(loop.variable.name, low.name, full.name, steps, state, unroll=1) as (inner, walked):
            *carried, at, before, side = walked.carried
            inner.emit(AsyncWait(count=plan.parts - 2))
            inner.emit(SyncThreads())
            with inner.branch(own, types) as (yes, no, both):
                self.at(self.variables)
                yes.yield_(*self.stepped(walked.variable, at, side, mine, carried, yes))
                self.leave(no.sub(walked.variable, each), no.sub(half, side), low, no)
                self.begin(no.add(walked.variable, no.const(ring - steps, "index")), Affine.of(before.name), no)
                no.yield_(*carried)
            after = inner.add(at, each)
            around = inner.op("lt", after, inner.const(ring, "index"))
            inner.yield_(*both.results, inner.select(around, after, front), at, inner.sub(half, side))
        *carried, at, before, side = walked.results
        b.emit(AsyncWait(count=0))
        b.emit(SyncThreads())
        with b.branch(own, types) as (yes, no, both):
            self.at(self.variables)
            with yes.loop(loop.variable.name, full.name, high.name, 1, carried, unroll=1) as (inner, last):
                step = Affine.of(last.variable.name) - Affine.of(full.name)
                values = [inner.load(memory, [Affine.of(at.name) + step, mine.name]) for memory in self.rings]
                places = Affine.of(side.name) + step, mine.name
                inner.yield_(*one_step(march, copy, last.variable, last.carried, values, inner, self.left, places))
            yes.yield_(*last.results)
            self.leave(no.sub(full, each), no.sub(half, side), low, no)
            no.yield_(*carried)
        b.emit(SyncThreads())
        with b.when(helping) as inner:
            self.leave(full, side, low, inner)
        self.at(self.variables)
        copy.values.update(zip(loop.results, both.results, strict=True))
        with b.when(there) as inner:
            copy.all([op for op in ops[place + 1 :] if not isinstance(op, Yield)], inner)
        return start.finish(tuple(iterations(one) for one in self.nest.loops), plan.lines)

    def at(self, variables: Mapping[Value, Value]) -> None:
        self.copy.values.update(variables)

    def helped(self, b: Builder) -> list[tuple[Affine, Affine, Value, dict[Value, Value]]]:
        """What a helper copies of each part: its steps and lines, whether there is such a line, and the variables of that."""
        plan = self.plan
        helper = Affine.of(self.work.thread.name) - max(plan.lines, 32)
        across = min(plan.steps, HELPERS) if plan.along else min(plan.lines, HELPERS)
        near, far = b.named(helper % across), b.named(helper.floordiv(across))
        count = HELPERS // across
        found = list[tuple[Affine, Affine, Value, dict[Value, Value]]]()
        for turn in range(max(1, plan.steps * plan.lines // HELPERS)):
            if plan.along:
                step, line = near, far + count * turn
            else:
                step, line = far + count * turn, near
            inside = self.line(line, b)
            found.append((step, line, inside, {one.variable: self.copy.values[one.variable] for one in self.nest.loops}))
        return found

    def begin(self, first: Value, place: Affine, b: Builder) -> None:
        """A helper's copies of a part that begins with a step, to its place in the rings."""
        march, copy = self.plan.march, self.copy
        for step, line, inside, variables in self.places:
            self.at(variables)
            at = copy.values[march.loop.variable] = b.index(Affine.of(first.name) + step)
            there = b.both(inside, b.op("lt", at, self.high))
            for load, ring in zip(march.loads, self.rings, strict=True):
                b.emit(
                    AsyncCopy(
                        destination=ring,
                        destination_index=(place + step, line),
                        source=copy.value(load.mem),
                        source_index=tuple(copy.form(form) for form in load.index),
                        bytes=bytes_of(mem_of(load.mem).dtype),
                        where=there,
                    )
                )
        b.emit(AsyncCommit())

    def leave(self, first: Value, side: Value, low: Value, b: Builder) -> None:
        """Stores what lines have left of the part that begins with a step, where that is one of the loop."""
        copy, variable = self.copy, self.plan.march.loop.variable
        for step, line, inside, variables in self.places:
            self.at(variables)
            at = copy.values[variable] = b.index(Affine.of(first.name) + step)
            there = b.both(inside, b.both(b.op("le", low, at), b.op("lt", at, self.high)))
            for store in self.plan.stores:
                value = b.load(self.left[store], [Affine.of(side.name) + step, line], there, 0)
                b.store(copy.value(store.mem), value, [copy.form(form) for form in store.index], there)

    def stepped(self, first: Value, at: Value, side: Value, line: Value, carried: Sequence[Value], b: Builder) -> list[Value]:
        """The steps of a whole part: what those that follow read is on its way meanwhile."""

        def read(turn: int) -> list[list[Value]]:
            steps = range(turn, min(turn + AT_ONCE, self.plan.steps))
            return [[b.load(ring, [Affine.of(at.name) + step, line.name]) for ring in self.rings] for step in steps]

        values, known = list(carried), read(0)
        for turn in range(0, self.plan.steps, AT_ONCE):
            following = read(turn + AT_ONCE)
            for number, elements in enumerate(known):
                step = turn + number
                place, left = b.index(Affine.of(first.name) + step), (Affine.of(side.name) + step, line.name)
                values = one_step(self.plan.march, self.copy, place, values, elements, b, self.left, left)
            known = following
        return values
