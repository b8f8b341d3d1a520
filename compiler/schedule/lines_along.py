"""Lines that take steps of floats one after the other and lie along memory, each by itself: a step waits for the one before it longer than
it takes. So several lines go at once, each in a lane of vectors. What they read is brought to the order of steps in squares that are turned
in registers, and what they store is brought back. The last lines reach back over those before them, which are computed twice."""

from collections.abc import Sequence

from compiler.analysis.dependence import NestFacts
from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder, declared
from compiler.hir.clone import rebuilt
from compiler.hir.control import For, Yield
from compiler.hir.core import Const, dtype_of
from compiler.hir.instruction import Instruction, Region, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Tile, bytes_of, is_float
from compiler.machines.cpu import CpuMachine
from compiler.schedule.lines import are_apart, marches
from runtime.records import evolve

LINE, STEPS = 64, 16
"""Bytes of a line of the cache, of which each line has at least one brought at once, and steps: those of a square of the widest vectors."""

ROWS = 2
"""Vectors of lines that take their steps at once."""

LEAST_LANES, NEAR = 4, 4 << 20
"""Lines of a vector, at least; and bytes up to which these pay for whatever goes through buffers."""

FAR = {1: (1, 1 << 62), 2: (1, 1 << 62), 4: (128, 1 << 62), 8: (512, 16 << 20)}
"""Steps from which on they pay in more memory, and up to how many bytes of it, by bytes of an element: lines of few steps are read one by
one as fast as processors fetch ahead, since the next one begins before the one before is done."""

MOST_MEMORIES = 4
"""Accesses that are brought: more buffers would leave the registers."""


def lines_along(nest: HirFunction, facts: NestFacts, machine: CpuMachine) -> tuple[HirFunction, tuple[str, ...]]:
    """The nest with such lines where it has enough of them, and what was done in words."""
    owner = declared(nest)
    body: list[Instruction] = []
    words: list[str] = []
    for op in nest.body.body:
        step = _step_of(op, facts) if isinstance(op, For) else None
        if step is None or not isinstance(op, For) or machine.lanes(dtype_of(step.carried[0])) < LEAST_LANES:
            body.append(op)
            continue
        region = Region()
        b = Builder(owner, region)
        lines = _LinesAlong(op, step, machine.lanes(dtype_of(step.carried[0])), owner)
        count, steps = b.index(op.high - op.low), b.index(step.high - step.low)
        enough = b.op("ge", steps, b.index(lines.steps))
        moved = [bytes_of(mem_of(access.mem).dtype) for access in lines.brought]
        elements = b.mul(count, steps)
        near, (least, most) = b.op("le", elements, b.index(NEAR // sum(moved))), FAR[max(moved)]
        far = b.op("and", b.op("ge", steps, b.index(least)), b.op("le", elements, b.index(most // sum(moved))))
        enough = b.op("and", enough, b.op("or", near, far))
        with b.branch(b.op("and", b.op("ge", count, b.index(lines.width)), enough)) as (then, otherwise, _):
            lines.append_to(then, count)
            otherwise.region.body.append(op)
        body += region.body
        words.append(f"{op.written}: thread, {lines.width} lines along memory at once where steps are many")
    return (evolve(nest, body=Region([], body), axes=dict(owner.function.axes)) if words else nest), tuple(words)


def _step_of(op: For, facts: NestFacts) -> For | None:
    """The loop of the steps of lines, where a loop over lines has nothing else that loops."""
    if not are_apart(op, facts) or not all(marches(inner) for inner in op.body.body):
        return None
    steps = [inner for inner in op.body.body if isinstance(inner, For)]
    if len(steps) != 1 or op.body.body[-1] is not steps[0] or steps[0].step != 1 or any(isinstance(i, For) for i in steps[0].body.body):
        return None
    (step,) = steps
    inner = [*(i for i in op.body.body if i is not step), *step.body.body]
    made = [value for i in inner if not isinstance(i, Const) for value in i.results]
    loads, stores = ([i for i in inner if isinstance(i, kind)] for kind in (Load, Store))
    memories = {load.mem for load in loads}
    bounds, own = {*step.low.names, *step.high.names}, {op.variable.name, *(value.name for value in made)}
    if any(dtype_of(value) == "index" for value in made) or bounds & own:
        return None
    if not step.carried or not all(isinstance(v.source, Const) and is_float(dtype_of(v)) for v in step.carried):
        return None
    brought = [access for access in (*loads, *stores) if _is_along(access, op, step)]
    if not stores or not all(store in brought and store.mem not in memories for store in stores) or len(brought) > MOST_MEMORIES:
        return None
    if any(load.where is not None or not mem_of(load.mem).noalias for load in loads) or any(store.where is not None for store in stores):
        return None
    return step


def _is_along(access: Load | Store, line: For, step: For) -> bool:
    """Whether a step goes to the next element, and a line to another row."""
    mem, at = mem_of(access.mem), [form.coefficient(step.variable.name) for form in access.index]
    across = [form.coefficient(line.variable.name) for form in access.index]
    dense = mem.strides is None or mem.strides[-1].value == 1
    return dense and not any(at[:-1]) and at[-1] == 1 and any(across[:-1]) and not across[-1]


class _LinesAlong:
    def __init__(self, line: For, step: For, lanes: int, owner: FunctionBuilder) -> None:
        self.line, self.step, self.width = line, step, ROWS * lanes
        self.rows, self.lanes = owner.axis("row", ROWS), owner.axis("simd", lanes)
        self.within = Affine.of(self.rows) * lanes + Affine.of(self.lanes)
        self.axes = ((self.rows, ROWS), (self.lanes, lanes))
        inner = [i for i in step.body.body if isinstance(i, Load | Store) and _is_along(i, line, step)]
        self.brought: list[Load | Store] = inner
        self.steps = max(STEPS, *(LINE // bytes_of(mem_of(op.mem).dtype) for op in inner))
        self.turns = owner.axis("turn", self.steps)

    def append_to(self, b: Builder, count: Value) -> None:
        line, step = self.line, self.step
        panels = Affine.of(count.name).ceildiv(self.width)
        with b.loop("panel", 0, panels, place="thread") as (inner, panel):
            start = inner.op("min", inner.index(Affine.of(panel.variable.name) * self.width), inner.sub(count, inner.index(self.width)))
            self.forms = {line.variable.name: line.low + start.name + self.within}
            self.values: dict[Value, Value] = {}
            self.emit([op for op in line.body.body if op is not step], inner)
            types = {op: Mem(mem_of(op.mem).dtype, (2 * self.steps, self.width), align=64) for op in self.brought}
            buffers = {op: inner.alloc(type, "brought") for op, type in types.items()}
            begin = [inner.const(v.source.value, Tile(dtype_of(v), self.axes)) for v in step.carried if isinstance(v.source, Const)]
            whole = (step.high - step.low).floordiv(self.steps)
            with inner.loop("part", 0, whole, carried=begin) as (body, part):
                first = step.low + Affine.of(part.variable.name) * self.steps
                body.yield_(*self.part(body, first, first, Affine.of(self.steps), Affine(), part.carried, buffers))
            # what is left comes with the last of the steps before, whose results are still there
            rest = inner.index(step.high - step.low - whole * self.steps)
            with inner.when(inner.op("gt", rest, inner.index(0))) as body:
                left = Affine.of(rest.name)
                self.part(body, step.high - self.steps, step.high - left, left, left, part.results, buffers)

    def part(
        self,
        b: Builder,
        low: Affine,
        first: Affine,
        count: Affine,
        row: Affine,
        carried: Sequence[Value],
        buffers: dict[Load | Store, Value],
    ) -> list[Value]:
        """`count` steps from `first` on; what is brought are all from `low` on, into rows of the buffers from `row` on."""
        rows = [row + self.turns, self.within]
        for op, buffer in buffers.items():
            if isinstance(op, Load):
                b.store(buffer, b.load(op.mem, self.index(op, low + self.turns)), rows)
        with b.loop("step", 0, count, carried=carried) as (turn, each):
            number = Affine.of(each.variable.name)
            turn.yield_(*self.one(turn, first + number, each.carried, buffers, first - low + row + number))
        for op, buffer in buffers.items():
            if isinstance(op, Store):
                b.store(op.mem, b.load(buffer, rows), self.index(op, low + self.turns))
        return list(each.results)

    def index(self, op: Load | Store, at: Affine) -> list[Affine]:
        forms = {**self.forms, self.step.variable.name: at}
        return [form.substitute(forms) for form in op.index]

    def one(self, b: Builder, at: Affine, carried: Sequence[Value], buffers: dict[Load | Store, Value], turn: Affine) -> list[Value]:
        """One step of all lines, at `at`; what is in buffers is read and stored there, at `turn`. Gives what goes on."""
        *ops, last = self.step.body.body
        before = self.forms, self.values
        self.forms = {**self.forms, self.step.variable.name: at}
        self.values = {**self.values, **dict(zip(self.step.body.parameters[1:], carried, strict=True))}
        for op in ops:
            if isinstance(op, Load) and op in buffers:
                self.values[op.result] = b.load(buffers[op], [turn, self.within])
            elif isinstance(op, Store) and op in buffers:
                b.store(buffers[op], self.value(op.value, b), [turn, self.within])
            else:
                self.emit([op], b)
        after = [self.value(value, b) for value in last.operand_values]
        self.forms, self.values = before
        return after

    def emit(self, ops: Sequence[Instruction], b: Builder) -> None:
        for op in ops:
            if not isinstance(op, Const | Yield):
                copy = b.emit(rebuilt(op, lambda value: self.value(value, b), lambda form: form.substitute(self.forms)))
                self.values.update(zip(op.results, copy.results, strict=True))

    def value(self, old: Value, b: Builder) -> Value:
        match old.source:
            case Const(value=number) if old not in self.values:
                return b.const(number, old.type)
            case _:
                return self.values.get(old, old)
