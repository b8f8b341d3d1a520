"""Rows of a ragged axis that lie behind each other, by the threads of a block: it copies what all of its rows read into shared memory, 16
bytes at a time, and a thread a row reads there what its row has. Where a block's rows lie elsewhere, or are far more than they should be,
threads read their rows by themselves (Greathouse and Daga, Efficient sparse matrix-vector multiplication on GPUs using the CSR storage
format, 2014). Rows that look up what data say keep their lanes: small blocks have more of these reads under way."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from compiler.hir.affine import Affine
from compiler.hir.async_copy import AsyncCommit, AsyncCopy, AsyncWait
from compiler.hir.build import Builder
from compiler.hir.control import For
from compiler.hir.gpu import SharedAlloc, SyncThreads
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.types import Mem, Space, bytes_of
from compiler.machines.gpu import Feature
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.indices import small
from compiler.schedule.gpu.lanes import power_of_two
from compiler.schedule.gpu.nests.at_once import overlaps, stores
from compiler.schedule.gpu.nests.barriers import Barriers
from compiler.schedule.gpu.nests.spread import Spread
from compiler.schedule.gpu.pieces import loads_in_pieces
from compiler.schedule.gpu.ragged.ragged import LEAST, LONG, TURNS, LaneCooperation, RowShape, looked_up
from compiler.schedule.gpu.scattered.scatter_targets import most_elements
from compiler.schedule.stages import Start, iterations
from runtime.records import evolve, frozen

SHORT = 32
"""Elements of a mean row from which on its lanes read it as fast by themselves."""

THREADS, RESIDENT = 256, 1536
"""Of a block, and of a multiprocessor."""

BYTES = 16 * 1024
"""Of shared memory that a block has for what it copies."""

FILLED = 4 / 5
"""How much of its copies the rows of a block should fill."""


@frozen(eq=False)
class StagedRows:
    """`loads`: what is read of the rows' elements, of which a block copies so many; `before`: what a row does before its loop; `blocks`:
    that the device holds, about. `small`: whether there are fewer than 2^32 rows and elements; `copies`: whether copies go on by
    themselves."""

    loads: tuple[Load, ...]
    elements: int
    before: tuple[Instruction, ...]
    blocks: int
    small: bool
    copies: bool


def staged_rows(nest: Spread, spreads: Mapping[For, Spread], shape: RowShape, known: Facts) -> tuple[RowShape, StagedRows] | None:
    """How threads take such rows; None where rows are no such ones."""
    if len(spreads) != 1 or shape.by_block or shape.across:
        return None
    ((loop, spread),) = spreads.items()
    body = [*nest.between, *nest.inner.body.body]
    if stores(loop) or loop not in body or not overlaps(spread) or shape.mean >= SHORT or looked_up(loop):
        return None
    before = body[: body.index(loop)]
    loads = loads_in_pieces(loop, known)
    walked = [op for op in loop.body.body if isinstance(op, Load) and loop.variable.name in op.symbols]
    if set(walked) != set(loads) or not loads or any(not isinstance(op, Load) and op.effects is not Effect.PURE for op in before):
        return None
    sizes = [bytes_of(mem_of(op.mem).dtype) for op in loads]
    elements = BYTES // sum(sizes) // ALIGNMENT * ALIGNMENT
    most = [most_elements(dims, known) for dims in ([mem_of(loads[0].mem).dims[0]], [iterations(outer) for outer in nest.loops])]
    copies, blocks = known.machine.has(Feature.ASYNC_COPIES), power_of_two(known.processors * RESIDENT // THREADS)
    few = all(count is not None and count < 1 << 32 for count in most)
    staged = StagedRows(loads, elements, tuple(before), blocks, few, copies)
    long = shape.long and LONG * max(shape.mean, LEAST)
    return evolve(shape, lanes=1, threads=THREADS, resident=RESIDENT, turns=TURNS, wide=False, together=True, long=long), staged


class StagedCooperation(LaneCooperation):
    """The work of such rows as the code of one thread."""

    singly = True

    def __init__(
        self, start: Start, spreads: Mapping[For, Spread], barriers: Barriers, shape: RowShape, warp: int, staged: StagedRows
    ) -> None:
        super().__init__(start, spreads, barriers, shape, warp)
        self.staged, self.group, ((self.loop, _),) = staged, start.threads // shape.lanes, spreads.items()
        self.copied = {load.mem: self._shared(mem_of(load.mem).dtype, staged.elements) for load in staged.loads}
        self.marks, self.inside_tile = self._shared("u32", 1), False

    def _shared(self, dtype: str, count: int) -> Value:
        return self.start.out.body.emit(SharedAlloc(type=Mem(dtype, (count,), space=Space.SHARED, align=ALIGNMENT)), "staged").result

    def blocks(self, rows: Value, b: Builder) -> Value:
        """How many blocks there are, each of which has as many rows as should fit, and as few as give every multiprocessor some."""
        one, most = b.const(1, "index"), b.count(self.copy.form(mem_of(self.staged.loads[0].mem).dims[0]))
        tiles = b.op("max", b.index(Affine.of(most.name).floordiv(int(self.staged.elements * FILLED))), one)
        fit = (small if self.staged.small else Builder.op)(b, "div", rows, tiles)
        share = b.index(Affine.of(rows.name).ceildiv(self.staged.blocks * self.group) * self.group)
        fit = b.op("max", b.op("min", fit, share), one)
        whole = b.index(Affine.of(fit.name).floordiv(self.group) * self.group)
        self.each = b.op("max", whole, b.op("min", fit, b.const(self.group, "index")))
        return b.op("div", b.add(rows, b.sub(self.each, one)), self.each, name="blocks")

    def stage(self, row: Callable[[Value, Builder], None], rows: Value, b: Builder) -> None:
        """Copies what the block's rows read. `row`: makes the variables of a row known."""
        first = b.mul(self.start.number, self.each)
        self.begin_row, self.end_row = first, b.op("min", b.add(first, self.each), rows)
        ends = []
        for number in (first, b.sub(self.end_row, b.const(1, "index"))):
            row(number, b)
            self.all(self.staged.before, b)
            ends.append([b.index(self.form(form)) for form in (self.loop.low, self.loop.high)])
        (low, _), (_, high) = ends
        width = ALIGNMENT // min(bytes_of(mem_of(load.mem).dtype) for load in self.staged.loads)
        self.begin_at = b.index(Affine.of(low.name).floordiv(width) * width)
        self.low, self.end_at = low, high
        fits = b.both(b.op("le", b.const(0, "index"), low), b.op("le", low, high))
        fits = b.both(fits, b.op("le", b.sub(high, self.begin_at), b.const(self.staged.elements, "index")))
        for load in self.staged.loads:
            fits = b.both(fits, b.op("le", high, b.index(self.copy.form(mem_of(load.mem).dims[0]))))
        with b.when(self.first) as one:
            one.store(self.marks, one.const(0, "u32"), [0])
        with b.when(fits) as some:
            for load in self.staged.loads:
                self.copy_all(load, some)
            if self.staged.copies:
                some.emit(AsyncCommit())
                some.emit(AsyncWait())
        b.emit(SyncThreads())
        self.fits = fits

    def copy_all(self, load: Load, b: Builder) -> None:
        """The elements of a memory: in pieces, but for those behind its last whole one."""
        source, shared, width = self.values[load.mem], self.copied[load.mem], ALIGNMENT // bytes_of(mem_of(load.mem).dtype)
        behind, threads = b.index(self.begin_at.name), self.start.threads
        if self.staged.copies:
            whole = b.index(self.copy.form(mem_of(load.mem).dims[0]).floordiv(width) * width)
            behind = b.op("min", b.index(Affine.of(self.end_at.name).ceildiv(width) * width), whole)
            first = Affine.of(self.begin_at.name) + Affine.of(self.thread.name) * width
            with b.loop("piece", first, behind.name, threads * width) as (inner, walked):
                place = Affine.of(walked.variable.name)
                ends = {"destination_index": (place - self.begin_at.name,), "source_index": (place,)}
                inner.emit(AsyncCopy(destination=shared, source=source, **ends, bytes=ALIGNMENT, hint="l2"))
        with b.loop("left", Affine.of(behind.name) + Affine.of(self.thread.name), self.end_at.name, threads, unroll=1) as (inner, walked):
            place = Affine.of(walked.variable.name)
            inner.store(shared, inner.load(source, [place]), [place - self.begin_at.name])

    def guarded(self, op: Instruction, guard: Value | None, failed: Value | None, b: Builder) -> Value | None:
        """What is copied is read there."""
        if not self.inside_tile or not isinstance(op, Load) or op not in self.staged.loads:
            return super().guarded(op, guard, failed, b)
        self.values[op.result] = b.load(self.copied[op.mem], [self.copy.form(op.index[0]) - self.begin_at.name])
        return guard

    @contextmanager
    def batches(self, b: Builder) -> Iterator[Builder]:
        """The block's rows, as many at a time as it has groups of lanes."""
        each, lanes = (b.const(number, "index") for number in (self.lanes // self.shape.lanes, self.shape.lanes))
        own = b.op("div", self.thread, lanes)
        with b.loop("batch", self.begin_row.name, self.end_row.name, self.group, unroll=1) as (inner, walked):
            self.begin(walked.variable, each, own, self.end_row, inner)
            yield inner

    def leave(self, b: Builder) -> None:
        """Has the block know where a row is left to it."""
        with b.when(b.both(self.long, self.inside)) as left:
            left.store(self.marks, left.const(1, "u32"), [0])

    @contextmanager
    def when_left(self, b: Builder) -> Iterator[Builder]:
        b.emit(SyncThreads())
        with b.when(b.op("ne", b.load(self.marks, [0]), b.const(0, "u32"))) as some:
            yield some

    def begins(self, loop: For, b: Builder) -> None:
        super().begins(loop, b)
        low, high = (b.index(self.form(form)) for form in (loop.low, loop.high))
        there = b.both(b.op("le", self.low, low), b.op("le", high, self.end_at))
        self.here = self.everywhere(b.both(self.fits, b.op("or", there, b.op("le", high, low))), b)

    def share(self, spread: Spread, number: Value, stride: Value | int, b: Builder) -> list[list[Value]]:
        places = [[spread.outer.body.parameters.index(cell) - 1 for cell in fold.cells] for fold in spread.folds]
        with b.branch(self.here, [value.type for value in spread.outer.body.parameters[1:]]) as (near, far, both):
            for inside, branch in ((True, near), (False, far)):
                self.inside_tile = inside
                super().share(spread, number, stride, branch)
                branch.yield_(*(self.values[result] for result in spread.outer.results))
        self.inside_tile = False
        return [[both.results[place] for place in own] for own in places]
