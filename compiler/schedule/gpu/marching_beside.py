"""Marches of neighbouring lines by one thread each: of elements shorter than a word, so many lines that one access has a word of them.
Twice as much is on its way then. The operations of each line and their order stay as they are."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.alignment import alignment, steps_by_one
from compiler.hir.build import Builder
from compiler.hir.core import Stack
from compiler.hir.instruction import Effect, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.types import Slot, bytes_of
from compiler.machines.access import WORD
from compiler.schedule.gpu.cooperate import Cooperation
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.library.sorting import taken
from compiler.schedule.gpu.marching import March, one_step, rest, several_at_once
from compiler.schedule.gpu.nest_units import BESIDE, divisor, with_units
from compiler.schedule.gpu.pieces import align
from compiler.schedule.gpu.spread import Spread
from compiler.schedule.launches import Launch
from compiler.schedule.stages import Group, Start, iterations


def lines_beside(nest: Spread, march: March, known: Facts) -> int:
    """Lines that lie side by side along the last leading loop, of which a thread takes a word; 1 where they don't, or are longer."""
    loop, inner = march.loop, nest.inner
    outside = [op for op in (*nest.between, *inner.body.body) if op is not loop]
    accesses = [op for op in loop.body.body if isinstance(op, Load | Store)]
    lanes = max(1, WORD // min(bytes_of(mem_of(op.mem).dtype) for op in accesses))
    made = {result.name for op in outside for result in op.results} | {inner.variable.name}
    if lanes == 1 or inner.step != 1 or made.intersection((*loop.low.names, *loop.high.names)) or len(march.early) > len(march.loads):
        return 1
    if divisor(inner.low, known) % lanes or divisor(inner.high - inner.low, known) % lanes or any(op.regions for op in outside):
        return 1
    if any(isinstance(op, Load) and op not in march.loads for op in accesses) or not any(isinstance(op, Store) for op in accesses):
        return 1
    if any(op.effects is not Effect.PURE and not isinstance(op, Load | Store) for op in outside[:-1]):
        return 1
    for op in accesses:
        mem = with_units(op.mem, known)
        place = {inner.variable.name: Affine.of(inner.variable.name) * lanes}
        if op.where is not None or isinstance(op.mem.type, Slot) or not steps_by_one(mem, op.index, inner.variable.name):
            return 1
        if alignment(mem, [form.substitute(place) for form in op.index]) % (lanes * bytes_of(mem.dtype)):
            return 1
    return lanes


def launch_beside(
    nest: Spread, marches: Sequence[March], known: Facts, work: Cooperation, start: Start, group: Group, counts: Sequence[Value]
) -> Launch | None:
    """The launch of one such march; None where lines don't lie so."""
    if len(marches) != 1 or (lanes := lines_beside(nest, marches[0], known)) == 1:
        return None
    b = start.out.body
    align(start, known)
    start.take(group, b)
    place = b.index(start.place, "place")
    with b.when(b.op("lt", place, b.op("div", b.product(counts), b.const(lanes, "index")))) as inner:
        MarchBeside(marches[0], lanes, nest, work, start).write(counts, place, inner)
    return start.finish(tuple(iterations(loop) for loop in nest.loops), start.threads * lanes)


class MarchBeside:
    """What a thread does with its lines: `counts` of the leading loops, `place` the number of the thread."""

    def __init__(self, march: March, lanes: int, nest: Spread, work: Cooperation, start: Start) -> None:
        self.march, self.lanes, self.nest, self.work, self.start, self.copy = march, lanes, nest, work, start, start.copy
        self.axis = start.out.axis(BESIDE, lanes)
        self.lines: list[dict[Value, Value]] = []
        """What each line has before the loop."""
        self.first = Affine()
        """The first line's place along the last leading loop."""

    def write(self, counts: Sequence[Value], place: Value, b: Builder) -> None:
        nest, march, copy, loop = self.nest, self.march, self.copy, self.march.loop
        pieces = [*counts[:-1], b.op("div", counts[-1], b.const(self.lanes, "index"))]
        digits = b.digits(place, pieces[1:])
        self.first = copy.form(nest.inner.low) + Affine.of(digits[-1].name) * self.lanes
        ops = [*nest.between, *nest.inner.body.body]
        before, behind = ops[: ops.index(loop)], ops[ops.index(loop) + 1 : -1]
        initial = list[Value]()
        for lane in range(self.lanes):
            self.work.variables(nest, digits, b)
            copy.values[nest.inner.variable] = b.index(self.first + lane)
            copy.all(before, b)
            self.lines.append({value: copy.values[value] for value in (*(one.variable for one in nest.loops), *_results(before))})
            initial += [copy.value(value) for value in loop.carried]
        full, high, carried = several_at_once(march, copy, initial, self.read, self.step, b)
        for lane, line in enumerate(self.lines):
            copy.values.update(line)
            rest(march, copy, full, high, self.of_line(carried, lane), b)
            copy.all(behind, b)

    def of_line(self, carried: Sequence[Value], lane: int) -> Sequence[Value]:
        each = len(self.march.loop.carried)
        return carried[lane * each : (lane + 1) * each]

    def index(self, op: Load | Store) -> tuple[Affine, ...]:
        """Of all lines at a step that is known."""
        *others, along = op.index
        form = self.copy.form(along.without(self.nest.inner.variable.name))
        return (*map(self.copy.form, others), form + self.first + Affine.of(self.axis))

    def read(self, first: Value, b: Builder) -> list[Value]:
        """What the steps from the first on read, of all lines together."""
        read = list[Value]()
        self.copy.values.update(self.lines[0])
        for step in range(self.march.steps):
            self.copy.values[self.march.loop.variable] = b.index(Affine.of(first.name) + step)
            read += [b.load(self.copy.value(op.mem), self.index(op)) for op in self.march.loads]
        return read

    def step(self, at: Value, carried: Sequence[Value], read: Sequence[Value], b: Builder) -> list[Value]:
        """A step of all lines."""
        left: dict[Store, list[Value]] = {}
        after = list[Value]()
        for lane, line in enumerate(self.lines):
            self.copy.values.update(line)
            elements = [taken(b, tile, self.axis, lane) for tile in read]

            def put(store: Store, value: Value) -> None:
                left.setdefault(store, []).append(value)

            after += one_step(self.march, self.copy, at, self.of_line(carried, lane), elements, b, put)
        self.copy.values[self.march.loop.variable] = at
        for store, values in left.items():
            beside = b.emit(Stack(values=tuple(values), axis=self.axis)).result
            b.store(self.copy.value(store.mem), beside, self.index(store))
        return after


def _results(ops: Sequence[object]) -> list[Value]:
    return [result for op in ops for result in getattr(op, "results", ())]
