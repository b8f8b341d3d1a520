"""Marches of few lines, and of lines that lie along memory, by two kinds of threads: a line's own thread does nothing but its steps, in the
written order, on what lies in shared memory; the helpers of a block copy what all of its lines read there, many steps ahead, and store what
they leave there. So a step takes about as long as its arithmetic, and blocks may have few lines each: all multiprocessors work, and enough
of memory is under way. Helpers take neighbouring steps of a line that lies along memory, whose own thread would read each by itself."""

from collections.abc import Mapping, Sequence

from compiler.hir.affine import Affine, AffineLike
from compiler.hir.async_copy import AsyncCommit, AsyncCopy, AsyncWait
from compiler.hir.build import Builder
from compiler.hir.control import For, Yield
from compiler.hir.core import Stack
from compiler.hir.gpu import SharedAlloc, SyncThreads
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Check, Load, Store, mem_of
from compiler.hir.types import Mem, Slot, Space, bytes_of
from compiler.machines.gpu import Feature
from compiler.schedule.gpu.cooperate import Cooperation, counts_of
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.lanes import power_of_two
from compiler.schedule.gpu.library.sorting import taken
from compiler.schedule.gpu.marching import March, one_step, whole_steps
from compiler.schedule.gpu.marching_lines import WORD, lanes_of_lines
from compiler.schedule.gpu.nest_units import BESIDE, divisor
from compiler.schedule.gpu.pieces import align
from compiler.schedule.gpu.spread import Spread
from compiler.schedule.launches import Launch
from compiler.schedule.stages import Group, Start, iterations
from runtime.records import frozen

HELPERS = 128
"""Threads of a block that copy and store."""

SECTOR = 32
"""Bytes of memory that are read together: so many of neighbouring lines a block has at least, or half as many where some multiprocessors
would have no block."""

MOST_LINES = 128
"""Of a block."""

ALONG_LINES = 32
"""Of a block, where many lie along memory: its parts have long runs of each then."""

COPIED = 4, 8, 16
"""Bytes that an asynchronous copy has."""

PART_BYTES, RING_BYTES = 4096, 32768
"""Shared memory of a part, which helpers copy between two barriers, and of all parts. Parts along memory are twice as long."""

MOST_STEPS, FEW_STEPS = 128, 64
"""Of a part: what helpers do for one takes about as long for a short one. Lines of few parts have shorter ones."""

AT_ONCE = 8
"""Steps whose elements a line's thread reads before it does those before them, as many at a time as 16 bytes hold."""

BANKS = 128
"""Bytes of shared memory that are read together."""


@frozen(eq=False)
class MarchAhead:
    """A march of blocks of so many `lines`: `steps` of each are a part, of which shared memory holds `parts`. `along`: lines lie along
    memory, so that helpers take neighbouring steps rather than neighbouring lines, so many `lanes` at once."""

    march: March
    stores: tuple[Store, ...]
    lines: int
    steps: int
    parts: int
    along: bool
    lanes: int

    @property
    def steps_beside(self) -> bool:
        """Whether steps lie side by side in shared memory, rather than lines."""
        return self.along or self.lines < 32

    @property
    def threads(self) -> int:
        return max(self.lines, 32) + HELPERS


def ahead(nest: Spread, march: March, total: int, known: Facts) -> MarchAhead | None:
    """The march of each iteration of leading loops, of which there are so many; None where there are too many that don't lie along memory,
    or where helpers can't know what it reads and stores. Of many lines of elements shorter than a word, squares are copied."""
    loop, many = march.loop, total > MOST_LINES * known.processors
    ops = [*nest.between, *nest.inner.body.body]
    inside = [op for op in loop.body.body if isinstance(op, Load | Store)]
    stores = tuple(op for op in inside if isinstance(op, Store))
    along = all(op.index and op.index[-1].coefficient(loop.variable.name) == 1 for op in inside)
    if not known.machine.has(Feature.ASYNC_COPIES) or loop not in ops or not stores:
        return None
    if len(inside) != len(march.loads) + len(stores) or len(march.early) > len(march.loads):
        return None
    made = {result.name for op in (*ops, *loop.body.body) for result in op.results} | {value.name for value in loop.body.parameters[1:]}
    if any(op.where is not None or isinstance(op.mem.type, Slot) or made.intersection(op.symbols) for op in inside):
        return None
    bounds = {*loop.low.names, *loop.high.names}
    if bounds & (made | {outer.variable.name for outer in nest.loops}) or not _all_apart(stores, march) or not only_reads(ops, loop):
        return None
    widths = [bytes_of(mem_of(op.mem).dtype) for op in inside]
    if many and (not along or min(widths) < WORD):
        return None
    each = power_of_two(-(-total // known.processors))
    sector = SECTOR // min(widths)
    lines = ALONG_LINES if many else min(MOST_LINES, max(sector // 2, min(sector, each), each // 2))
    steps = min(MOST_STEPS, max(AT_ONCE, PART_BYTES * (1 + along) // (lines * sum(widths[: len(march.loads)]))))
    length = (loop.high - loop.low).value
    steps = 1 << (min(steps, MOST_STEPS if length is None else max(AT_ONCE if many else FEW_STEPS, length // 4)).bit_length() - 1)
    parts = RING_BYTES // (steps * lines * sum(bytes_of(mem_of(op.mem).dtype) for op in march.loads))
    if parts < 3 or lines * steps < HELPERS or (length is not None and length < 2 * steps):
        return None
    lanes = lanes_of_lines([*march.loads, *stores], loop, known) if along else 1
    if divisor(loop.high - loop.low, known) % lanes or lines * steps < lanes * HELPERS:
        lanes = 1
    if any(lanes * bytes_of(mem_of(op.mem).dtype) not in COPIED for op in march.loads):
        return None
    return MarchAhead(march, stores, lines, steps, min(parts, 8), along, lanes)


def _all_apart(stores: Sequence[Store], march: March) -> bool:
    """Whether each step of each line stores to an element of its own, so that nobody minds who stores it when: the analysis of the leading
    loops says so for lines, and each step moves on."""
    step = march.loop.variable.name
    moves = [any(form.coefficient(step) and step not in form.without(step).names for form in op.index) for op in stores]
    return len({op.mem for op in stores}) == len(stores) and all(moves)


def only_reads(ops: Sequence[Instruction], loop: For) -> bool:
    """Whether what stands before the loop may be done by threads without a line, too: it reads what no line stores."""
    before = ops[: ops.index(loop)]
    stored = {inside.mem for op in ops for inside in op.walk() if isinstance(inside, Store)}
    if any(op.regions or not (op.effects is Effect.PURE or isinstance(op, Load | Check)) for op in before):
        return False
    return not any(isinstance(op, Load) and op.mem in stored for op in before)


def launch_ahead(plan: MarchAhead, nest: Spread, work: Cooperation, start: Start, group: Group, known: Facts) -> Launch:
    align(start, known)
    start.take(group, start.out.body)
    return AheadLaunch(plan, nest, work, start).write()


class AheadLaunch:
    """The launch of such marches."""

    def __init__(self, plan: MarchAhead, nest: Spread, work: Cooperation, start: Start) -> None:
        self.plan, self.nest, self.work, self.start, self.copy = plan, nest, work, start, start.copy
        march, lines, out = plan.march, plan.lines, start.out.body
        self.rings = [self.shared(op, plan.parts) for op in march.loads]
        self.left = {op: self.shared(op, 2) for op in plan.stores}
        self.axes: dict[int, str] = {}
        self.counts = counts_of(nest, self.copy, out)
        self.total = out.product(self.counts)
        self.block_first = out.index(Affine.of(start.number.name) * lines)

    def shared(self, op: Load | Store, parts: int) -> Value:
        """So many parts of each line, its steps side by side; lines begin in different banks. Or of so many lines that a warp has a step
        of, which lie side by side."""
        dtype, lines, steps = mem_of(op.mem).dtype, self.plan.lines, parts * self.plan.steps
        apart = max(ALIGNMENT, BANKS // lines) // bytes_of(dtype)
        extents = (lines, steps + apart) if self.plan.steps_beside else (steps, lines)
        return self.start.out.body.emit(SharedAlloc(type=Mem(dtype, extents, space=Space.SHARED, align=ALIGNMENT)), "ring").result

    def place(self, line: AffineLike, step: Affine) -> tuple[AffineLike, AffineLike]:
        """In a ring."""
        return (line, step) if self.plan.steps_beside else (step, line)

    def line(self, number: Affine, b: Builder) -> Value:
        """Makes a line's variables known; whether there is such a line."""
        behind = b.op("max", b.sub(self.total, b.const(1, "index")), b.const(0, "index"))
        place = b.index(Affine.of(self.block_first.name) + number)
        self.work.digits(self.nest, b.op("min", place, behind), self.counts, b)
        return b.op("lt", place, self.total)

    def write(self) -> Launch:
        plan, start, b, copy = self.plan, self.start, self.start.out.body, self.copy
        march, steps = plan.march, plan.steps
        loop = march.loop
        own = b.op("lt", self.work.thread, b.const(plan.lines, "index"))  # no other lane: shared memory is read in quarters of a warp
        self.places = self.helped(b)
        mine = b.op("min", self.work.thread, b.const(plan.lines - 1, "index"))
        there = b.both(self.line(Affine.of(mine.name), b), b.op("lt", self.work.thread, b.const(plan.lines, "index")))
        ops = [*self.nest.between, *self.nest.inner.body.body]
        place = ops.index(loop)
        copy.all(ops[:place], b)
        self.variables = {one.variable: start.values[one.variable] for one in self.nest.loops}
        _, high, _, whole, full = whole_steps(loop, steps, copy, b)
        self.low, self.high = copy.form(loop.low), high
        helping = b.op("le", b.const(max(plan.lines, 32), "index"), self.work.thread)
        with b.when(helping) as inner, inner.loop("part", 0, plan.parts - 1, 1, unroll=1) as (body, part):
            self.begin(Affine.of(part.variable.name), part.variable, body)
        zero, one = b.const(0, "index"), b.const(1, "index")
        initial = [copy.value(value) for value in loop.carried]
        types = [value.type for value in initial]
        state = [*initial, zero, b.const(plan.parts - 1, "index"), zero]
        with b.loop("part", 0, whole.name, 1, state, unroll=1) as (inner, walked):
            *carried, at, before, side = walked.carried
            number = Affine.of(walked.variable.name)
            inner.emit(AsyncWait(count=plan.parts - 2))
            inner.emit(SyncThreads())
            with inner.branch(own, types) as (yes, no, both):
                self.at(self.variables)
                yes.yield_(*self.stepped(number, at, side, mine, carried, yes))
                with no.when(helping) as helper:
                    self.leave(number - 1, helper.sub(one, side), helper)
                    self.begin(number + (plan.parts - 1), before, helper)
                no.yield_(*carried)
            after = inner.add(at, one)
            around = inner.op("lt", after, inner.const(plan.parts, "index"))
            inner.yield_(*both.results, inner.select(around, after, zero), at, inner.sub(one, side))
        *carried, at, before, side = walked.results
        b.emit(AsyncWait(count=0))
        b.emit(SyncThreads())
        with b.branch(own, types) as (yes, no, both):
            self.at(self.variables)
            with yes.loop(loop.variable.name, full.name, high.name, 1, carried, unroll=1) as (inner, last):
                step = Affine.of(last.variable.name) - Affine.of(full.name)
                values = [inner.load(memory, self.place(mine.name, Affine.of(at.name) * steps + step)) for memory in self.rings]

                def put(store: Store, value: Value) -> None:
                    inner.store(self.left[store], value, self.place(mine.name, Affine.of(side.name) * steps + step))

                inner.yield_(*one_step(march, copy, last.variable, last.carried, values, inner, put))
            yes.yield_(*last.results)
            with no.when(helping) as helper:
                self.leave(Affine.of(whole.name) - 1, helper.sub(one, side), helper)
            no.yield_(*carried)
        b.emit(SyncThreads())
        with b.when(helping) as inner:
            self.leave(Affine.of(whole.name), side, inner)
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
        across = min(plan.steps // plan.lanes, HELPERS) if plan.along else min(plan.lines, HELPERS)
        near, far = b.named(helper % across), b.named(helper.floordiv(across))
        count = HELPERS // across
        found = list[tuple[Affine, Affine, Value, dict[Value, Value]]]()
        for turn in range(max(1, plan.steps * plan.lines // (plan.lanes * HELPERS))):
            if plan.along:
                step, line = near * plan.lanes, far + count * turn
            else:
                step, line = far + count * turn, near
            inside = self.line(line, b)
            found.append((step, line, inside, {one.variable: self.copy.values[one.variable] for one in self.nest.loops}))
        return found

    def begin(self, number: Affine, part: Value, b: Builder) -> None:
        """A helper's copies of a part, by its number, to its place in the rings."""
        march, copy = self.plan.march, self.copy
        for step, line, inside, variables in self.places:
            self.at(variables)
            at = self.low + number * self.plan.steps + step
            there = b.both(inside, b.op("lt", b.index(at), self.high))
            for load, ring in zip(march.loads, self.rings, strict=True):
                b.emit(
                    AsyncCopy(
                        destination=ring,
                        destination_index=tuple(map(Affine.of, self.place(line, Affine.of(part.name) * self.plan.steps + step))),
                        source=copy.value(load.mem),
                        source_index=self.index(load, at, b),
                        bytes=self.plan.lanes * bytes_of(mem_of(load.mem).dtype),
                        where=there,
                    )
                )
        b.emit(AsyncCommit())

    def leave(self, number: Affine, side: Value, b: Builder) -> None:
        """Stores what lines have left of a part, by its number, where that is one of the loop."""
        copy, lanes = self.copy, self.plan.lanes
        beside = Affine.of(self.axis(lanes)) if lanes > 1 else Affine()
        for step, line, inside, variables in self.places:
            self.at(variables)
            form = self.low + number * self.plan.steps + step
            at = b.index(form)
            there = b.both(inside, b.both(b.op("le", b.index(self.low), at), b.op("lt", at, self.high)))
            for store in self.plan.stores:
                value = b.load(self.left[store], self.place(line, Affine.of(side.name) * self.plan.steps + step + beside), there, 0)
                b.store(copy.value(store.mem), value, self.index(store, form + beside, b), there)

    def index(self, op: Load | Store, at: Affine, b: Builder) -> tuple[Affine, ...]:
        """Where the step is read or stored that stands at a place of the loop."""
        step = self.plan.march.loop.variable
        if any(step.name in form.without(step.name).names for form in op.index):
            self.copy.values[step] = b.index(at)
            return tuple(map(self.copy.form, op.index))
        return tuple(self.copy.form(form.without(step.name)) + at * form.coefficient(step.name) for form in op.index)

    def stepped(self, number: Affine, part: Value, side: Value, line: Value, carried: Sequence[Value], b: Builder) -> list[Value]:
        """The steps of a whole part: what those that follow read is on its way meanwhile."""
        steps, left = self.plan.steps, {store: list[Value]() for store in self.plan.stores}
        values, known = list(carried), self.elements(part, 0, line, b)
        for turn in range(0, steps, AT_ONCE):
            following = self.elements(part, turn + AT_ONCE, line, b) if turn + AT_ONCE < steps else []
            for step, elements in enumerate(known, turn):
                place = b.index(self.low + number * steps + step)

                def put(store: Store, value: Value, at: Affine = Affine.of(side.name) * steps + step) -> None:
                    left[store].append(value)
                    if len(left[store]) == self.wide(store):
                        self.put(store, left[store], at, line, b)

                values = one_step(self.plan.march, self.copy, place, values, elements, b, put)
            known = following
        return values

    def put(self, store: Store, values: list[Value], last: Affine, line: Value, b: Builder) -> None:
        """Leaves what a line has of some steps, up to the last."""
        wide = len(values)
        if wide == 1:
            b.store(self.left[store], values[0], self.place(line.name, last))
        else:
            beside = b.emit(Stack(values=tuple(values), axis=self.axis(wide))).result
            b.store(self.left[store], beside, self.place(line.name, last - (wide - 1) + self.axis(wide)))
        values.clear()

    def elements(self, part: Value, turn: int, line: Value, b: Builder) -> list[list[Value]]:
        """What the next few steps of a line read, step by step."""
        first, loads = Affine.of(part.name) * self.plan.steps + turn, self.plan.march.loads
        if not self.plan.steps_beside:
            return [[b.load(ring, self.place(line.name, first + step)) for ring in self.rings] for step in range(AT_ONCE)]
        read = list[list[Value]]()
        for load, ring in zip(loads, self.rings, strict=True):
            wide, own = self.wide(load), list[Value]()
            for step in range(0, AT_ONCE, wide):
                tile = b.load(ring, self.place(line.name, first + step + self.axis(wide)))
                own += [taken(b, tile, self.axis(wide), item) for item in range(wide)]
            read.append(own)
        return [list(elements) for elements in zip(*read, strict=True)]

    def wide(self, op: Load | Store) -> int:
        return min(AT_ONCE, ALIGNMENT // bytes_of(mem_of(op.mem).dtype)) if self.plan.steps_beside else 1

    def axis(self, wide: int) -> str:
        """Steps side by side."""
        if wide not in self.axes:
            self.axes[wide] = self.start.out.axis(BESIDE, wide)
        return self.axes[wide]
