"""Marches of a line a thread, where lines lie along memory: what neighbouring threads read at a step lies far apart. A block copies some
steps of all its lines to shared memory and back, neighbours along each line side by side, and each thread goes along its own line
there. The operations and their order stay as they are."""

from collections.abc import Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.alignment import alignment
from compiler.hir.build import Builder
from compiler.hir.control import For, Yield
from compiler.hir.core import Stack
from compiler.hir.gpu import SharedAlloc, SyncThreads
from compiler.hir.instruction import Effect, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.types import Mem, Slot, Space, bytes_of
from compiler.schedule.gpu.cooperate import Cooperation, counts_of
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.library.sorting import taken
from compiler.schedule.gpu.marching import March, one_step, rest, whole_steps
from compiler.schedule.gpu.nest_units import BESIDE, with_units
from compiler.schedule.gpu.pieces import align
from compiler.schedule.gpu.spread import Spread
from compiler.schedule.launches import Launch
from compiler.schedule.stages import Group, Start, iterations
from runtime.records import frozen

TILE_BYTES = 48 << 10
"""Shared memory of a block."""

MOST_STEPS, LEAST_STEPS = 64, 8
"""Of a line that a block copies at once."""

RUN, WORD = 128, 4
"""Bytes of a line that are copied at once, at most; bytes of a bank of shared memory."""


@frozen(eq=False)
class MarchAlongLines:
    """A march whose `stores` lie along memory, as its loads do, and how many `steps` of each line a block has in shared memory. What is
    stored takes the place there of what was loaded, `tiles` says of which load; threads copy so many `lanes` at once."""

    march: March
    stores: tuple[Store, ...]
    steps: int
    tiles: Mapping[Load | Store, Load | Store]
    lanes: int


def along_lines(nest: Spread, march: March, threads: int, known: Facts) -> MarchAlongLines | None:
    """The march of each iteration of a leading loop, where all that it reads and stores lies along its steps; None for others."""
    loop, (leading, *further) = march.loop, nest.loops
    ops = [*nest.between, *nest.inner.body.body]
    stores = [op for op in loop.body.body if isinstance(op, Store)]
    if further or not stores or any(isinstance(op, Store) for op in ops) or len(march.early) > len(march.loads):
        return None
    if any(op is not loop and not isinstance(op, Load | Yield) and (op.effects is not Effect.PURE or op.regions) for op in ops):
        return None
    accesses: list[Load | Store] = [*march.loads, *stores]
    made = {result.name for op in (*ops, *loop.body.body) for result in op.results} | {value.name for value in loop.body.parameters[1:]}
    if any(isinstance(op, Load) and op not in march.loads for op in loop.body.body) or not all(
        _is_along(op, loop, made) for op in accesses
    ):
        return None
    if {leading.variable.name, *made}.intersection((*loop.low.names, *loop.high.names)):
        return None
    tiles: dict[Load | Store, Load | Store] = {op: op for op in march.loads}
    for store in stores:
        free = (op for op in march.loads if op not in [tiles.get(other) for other in stores] and _size(op) == _size(store))
        tiles[store] = next(free, store)
    widths = [_size(op) for op in set(tiles.values())]
    steps = min(MOST_STEPS, RUN // min(widths))
    while threads * sum(steps * width + max(WORD, width) for width in widths) > TILE_BYTES and steps >= LEAST_STEPS:
        steps //= 2
    lanes = lanes_of_lines(accesses, loop, known)
    return MarchAlongLines(march, tuple(stores), steps, tiles, min(lanes, steps)) if steps >= LEAST_STEPS else None


def _size(op: Load | Store) -> int:
    return bytes_of(mem_of(op.mem).dtype)


def lanes_of_lines(accesses: Sequence[Load | Store], loop: For, known: Facts) -> int:
    """Steps of a line that a thread may copy at once: 16 bytes of the widest elements, where all that is read and stored begins there."""
    lanes = ALIGNMENT // max(map(_size, accesses))
    for op in accesses:
        mem = with_units(op.mem, known)
        at = {loop.variable.name: loop.low + Affine.of(loop.variable.name) * lanes}
        if alignment(mem, [form.substitute(at) for form in op.index]) % (lanes * _size(op)):
            return 1
    return lanes


def _is_along(op: Load | Store, loop: For, made: set[str]) -> bool:
    """Whether an access is of the next element in each step, with all else known before the loop."""
    mem, step = mem_of(op.mem), loop.variable.name
    if op.where is not None or (mem.strides is not None and mem.strides[-1] != Affine((), 1)) or isinstance(op.mem.type, Slot):
        return False
    *others, last = op.index
    fixed = not made.intersection(op.symbols) and all(not form.coefficient(step) for form in others)
    return fixed and last.coefficient(step) == 1 and step not in last.without(step).names


def launch_along_lines(plan: MarchAlongLines, nest: Spread, work: Cooperation, start: Start, group: Group, known: Facts) -> Launch:
    align(start, known)
    start.take(group, start.out.body)
    march_along_lines(plan, nest, work, start, start.out.body)
    return start.finish(tuple(iterations(loop) for loop in nest.loops), start.threads)


def march_along_lines(plan: MarchAlongLines, nest: Spread, work: Cooperation, start: Start, b: Builder) -> None:
    """All that a block does."""
    march, steps, copy = plan.march, plan.steps, start.copy
    loop, threads = march.loop, start.threads
    total = b.product(counts_of(nest, copy, b))
    one = b.const(1, "index")
    place = b.index(start.place, "place")
    inside = b.op("lt", place, total)
    behind = b.op("max", b.sub(total, one), b.const(0, "index"))
    out = start.out.body
    shared: dict[Load | Store, Value] = {}
    for op in dict.fromkeys(plan.tiles.values()):
        type = Mem(mem_of(op.mem).dtype, (threads, steps + max(1, WORD // _size(op))), space=Space.SHARED, align=WORD)
        shared[op] = out.emit(SharedAlloc(type=type), "lines").result
    tiles = {op: shared[tile] for op, tile in plan.tiles.items()}
    side = Affine.of(start.out.axis(BESIDE, plan.lanes)) if plan.lanes > 1 else Affine()

    def line(number: Value, body: Builder) -> None:
        work.digits(nest, number, [total], body)

    def each(first: Value, body: Builder) -> list[tuple[Value, Affine, Affine]]:
        """The lines of which a thread copies an element: their numbers in the grid and in the block, and the step in the tile."""
        thread, pieces = Affine.of(work.thread.name), steps // plan.lanes
        step, row = body.index(thread % pieces), body.index(thread.floordiv(pieces))
        apart = threads // pieces
        return [
            (
                body.index(Affine.of(first.name) + Affine.of(row.name) + apart * turn),
                Affine.of(row.name) + apart * turn,
                Affine.of(step.name) * plan.lanes,
            )
            for turn in range(pieces)
        ]

    first = b.index(Affine.of(start.number.name) * threads)
    rows = each(first, b)
    ops = [*nest.between, *nest.inner.body.body]
    line(b.op("min", place, behind), b)
    own = start.values[nest.outer.variable]
    copy.all(ops[: ops.index(loop)], b)
    _, high, _, whole, full = whole_steps(loop, steps, copy, b)
    begin = copy.form(loop.low)

    def index(op: Load | Store, at: Affine) -> tuple[Affine, ...]:
        *others, last = op.index
        return (*map(copy.form, others), copy.form(last.without(loop.variable.name)) + begin + at + side)

    with b.loop("tile", 0, whole.name, 1, [copy.value(value) for value in loop.carried], unroll=1) as (inner, walked):
        ahead = Affine.of(walked.variable.name) * steps
        read: list[tuple[Load, Affine, Affine, Value]] = []
        for number, row, step in rows:
            line(inner.op("min", number, behind), inner)
            read += [(op, row, step, inner.load(copy.value(op.mem), index(op, ahead + step))) for op in march.loads]
        for op, row, step, value in read:
            inner.store(tiles[op], value, [row, step + side])
        inner.emit(SyncThreads())
        start.values[nest.outer.variable] = own
        carried = list(walked.carried)
        known = [Words(tiles[op], work.thread, start).read(steps, inner) for op in march.loads]
        left = {store: list[Value]() for store in plan.stores}
        for turn, values in enumerate(zip(*known, strict=True)):
            at = inner.index(begin + ahead + turn)
            carried = one_step(march, copy, at, carried, values, inner, lambda store, value: left[store].append(value))
        for store, results in left.items():
            Words(tiles[store], work.thread, start).write(results, inner)
        inner.emit(SyncThreads())
        for number, row, step in rows:
            with inner.when(inner.op("lt", number, total)) as some:
                line(number, some)
                for store in plan.stores:
                    some.store(copy.value(store.mem), some.load(tiles[store], [row, step + side]), index(store, ahead + step))
        inner.emit(SyncThreads())
        inner.yield_(*carried)
    start.values[nest.outer.variable] = own
    with b.when(inside) as last:
        rest(march, copy, full, high, walked.results, last)


class Words:
    """A line of a tile in shared memory, of which its thread reads and writes whole words."""

    def __init__(self, tile: Value, line: Value, start: Start) -> None:
        self.tile, self.line = tile, line
        self.wide = max(1, WORD // bytes_of(mem_of(tile).dtype))
        self.axis = start.out.axis("word", self.wide) if self.wide > 1 else ""

    def read(self, steps: int, b: Builder) -> list[Value]:
        if self.wide == 1:
            return [b.load(self.tile, [self.line.name, step]) for step in range(steps)]
        words = [b.load(self.tile, [self.line.name, Affine.of(self.axis) + step]) for step in range(0, steps, self.wide)]
        return [taken(b, word, self.axis, item) for word in words for item in range(self.wide)]

    def write(self, values: Sequence[Value], b: Builder) -> None:
        for step in range(0, len(values), self.wide):
            word = values[step] if self.wide == 1 else b.emit(Stack(values=tuple(values[step : step + self.wide]), axis=self.axis)).result
            b.store(self.tile, word, [self.line.name, Affine.of(self.axis) + step if self.axis else step])
