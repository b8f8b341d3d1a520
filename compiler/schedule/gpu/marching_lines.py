"""Marches of a line a thread, where lines lie along memory: what neighbouring threads read at a step lies far apart. A block copies some
steps of all its lines to shared memory and back, neighbours along each line side by side, and each thread goes along its own line
there. The operations and their order stay as they are."""

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For, Yield
from compiler.hir.gpu import SharedAlloc, SyncThreads
from compiler.hir.instruction import Effect, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.types import Mem, Slot, Space, bytes_of
from compiler.schedule.gpu.cooperate import Cooperation, counts_of
from compiler.schedule.gpu.marching import March, one_step, rest, whole_steps
from compiler.schedule.gpu.spread import Spread
from compiler.schedule.stages import Start
from runtime.records import frozen

TILE_BYTES = 48 << 10
"""Shared memory of a block."""

MOST_STEPS, LEAST_STEPS = 32, 8
"""Of a line that a block copies at once."""


@frozen(eq=False)
class MarchAlongLines:
    """A march whose `stores` lie along memory, as its loads do, and how many `steps` of each line a block has in shared memory."""

    march: March
    stores: tuple[Store, ...]
    steps: int


def along_lines(nest: Spread, march: March, threads: int) -> MarchAlongLines | None:
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
    width = sum(bytes_of(mem_of(op.mem).dtype) for op in accesses)
    steps = MOST_STEPS
    while threads * (steps + 1) * width > TILE_BYTES and steps >= LEAST_STEPS:
        steps //= 2
    return MarchAlongLines(march, tuple(stores), steps) if steps >= LEAST_STEPS else None


def _is_along(op: Load | Store, loop: For, made: set[str]) -> bool:
    """Whether an access is of the next element in each step, with all else known before the loop."""
    mem, step = mem_of(op.mem), loop.variable.name
    if op.where is not None or (mem.strides is not None and mem.strides[-1] != Affine((), 1)) or isinstance(op.mem.type, Slot):
        return False
    *others, last = op.index
    fixed = not made.intersection(op.symbols) and all(not form.coefficient(step) for form in others)
    return fixed and last.coefficient(step) == 1 and step not in last.without(step).names


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
    accesses: list[Load | Store] = [*march.loads, *plan.stores]
    tiles = {
        op: out.emit(SharedAlloc(type=Mem(mem_of(op.mem).dtype, (threads, steps + 1), space=Space.SHARED)), "lines").result
        for op in accesses
    }

    def line(number: Value, body: Builder) -> None:
        work.digits(nest, number, [total], body)

    def each(first: Value, body: Builder) -> list[tuple[Value, Affine, Affine]]:
        """The lines of which a thread copies an element: their numbers in the grid and in the block, and the step in the tile."""
        thread = Affine.of(work.thread.name)
        step, row = body.index(thread % steps), body.index(thread.floordiv(steps))
        apart = threads // steps
        return [
            (
                body.index(Affine.of(first.name) + Affine.of(row.name) + apart * turn),
                Affine.of(row.name) + apart * turn,
                Affine.of(step.name),
            )
            for turn in range(steps)
        ]

    first = b.index(Affine.of(start.number.name) * threads)
    rows = each(first, b)
    ops = [*nest.between, *nest.inner.body.body]
    line(b.op("min", place, behind), b)
    own = start.values[nest.outer.variable]
    copy.all(ops[: ops.index(loop)], b)
    low, high, _, _, full = whole_steps(loop, steps, copy, b)
    with b.loop(loop.variable.name, low.name, full.name, steps, [copy.value(value) for value in loop.carried], unroll=1) as (inner, walked):
        read: list[tuple[Load, Affine, Affine, Value]] = []
        for number, row, step in rows:
            line(inner.op("min", number, behind), inner)
            start.values[loop.variable] = inner.index(Affine.of(walked.variable.name) + step)
            for op in march.loads:
                read.append((op, row, step, inner.load(copy.value(op.mem), tuple(map(copy.form, op.index)))))
        for op, row, step, value in read:
            inner.store(tiles[op], value, [row, step])
        inner.emit(SyncThreads())
        start.values[nest.outer.variable] = own
        carried = walked.carried
        places = [(work.thread.name, Affine((), turn)) for turn in range(steps)]
        known = [[inner.load(tiles[op], place) for op in march.loads] for place in places]
        for turn, (there, values) in enumerate(zip(places, known, strict=True)):
            at = inner.index(Affine.of(walked.variable.name) + turn)
            carried = one_step(march, copy, at, carried, values, inner, tiles, there)
        inner.emit(SyncThreads())
        for number, row, step in rows:
            with inner.when(inner.op("lt", number, total)) as some:
                line(number, some)
                start.values[loop.variable] = some.index(Affine.of(walked.variable.name) + step)
                for store in plan.stores:
                    some.store(copy.value(store.mem), some.load(tiles[store], [row, step]), tuple(map(copy.form, store.index)))
        inner.yield_(*carried)
    start.values[nest.outer.variable] = own
    with b.when(inside) as last:
        rest(march, copy, full, high, walked.results, last)
