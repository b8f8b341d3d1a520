"""The work of a block as the code of one of its threads. All threads walk through it together: they compute the same values from the
same numbers, take their share of the iterations of spread loops, and leave to thread 0 what else writes memory. So every branch and
loop outside of spread ones goes the same way in all threads, and barriers may stand in it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod

from compiler.hir.affine import Affine
from compiler.hir.build import Builder, LoopHandle
from compiler.hir.control import For
from compiler.hir.core import dtype_of
from compiler.hir.gpu import DynamicShared, SharedAlloc, SyncThreads
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Alloc, Store, mem_of
from compiler.hir.types import Mem, Slot, Space, bytes_of
from compiler.schedule.gpu.nests.barriers import Barriers, hands_over, slots_changed
from compiler.schedule.gpu.nests.spread import JoinedCells, Spread, dtype_in, is_plain, is_single
from compiler.schedule.gpu.tiles.reduction import block_reduced, combined, identities, slots
from compiler.schedule.launches import LONG, SHARED_ALIGN, LaunchSizedShared
from compiler.schedule.stages import InstructionCopy, Start, iterations
from compiler.schedule.threads import BLOCK

THREAD_BYTES = 16 * 1024
"""Scratch memory that a thread may have: with more, its block has it."""


class Cooperation(InstructionCopy):
    """Writes a block's work into the function that `start` began: branches and loops in which there is something to share are taken by all
    threads together."""

    def __init__(self, start: Start, spreads: Mapping[For, Spread], barriers: Barriers, lanes: int) -> None:
        """`lanes`: of a warp."""
        super().__init__(start.out, start.values)
        self.start, self.spreads, self.barriers, self.lanes, self.copy = start, spreads, barriers, lanes, start.copy
        self.thread = start.out.body.index(start.thread, "thread")
        self.dynamic: list[LaunchSizedShared] = []
        self.behind = Affine()
        self.first = start.out.body.op("eq", self.thread, start.out.body.const(0, "index"), name="first")

    def one(self, op: Instruction, b: Builder) -> None:
        b.span = op.span or b.span
        if op in self.barriers.before:
            b.emit(SyncThreads())
        if isinstance(op, For) and op in self.spreads:
            self.spread(self.spreads[op], b)
        elif is_single(op, self.spreads):
            self.single(op, b)
        elif op.regions and not is_plain(op, self.spreads):
            super().one(op, b)
        elif isinstance(op, Store):
            with b.when(self.first) as inner:
                self.copy.one(op, inner)
        elif isinstance(op, Alloc):
            self.values[op.result] = self.memory(op.result)
        else:
            self.copy.one(op, b)

    def own(self, values: Sequence[Value], b: Builder) -> None:
        """Slots and scratch memories that each iteration of the leading nest has for itself."""
        for value in values:
            if isinstance(value.type, Slot):
                self.values[value] = b.slot(b.const(0, value.type.dtype), value.name)
            else:
                self.values[value] = self.memory(value)

    def memory(self, value: Value) -> Value:
        """Memory of the block. What has an extent that only the launch knows lies behind the rest."""
        out, mem = self.start.out.body, mem_of(value)
        dims = [self.copy.form(dim) for dim in mem.dims]
        type = Mem(mem.dtype, dims, space=Space.SHARED)
        if all(dim.value is not None for dim in dims):
            return out.emit(SharedAlloc(type=type), value.name).result
        offset = self.behind
        self.dynamic.append(LaunchSizedShared(value.name, type.dims, bytes_of(mem.dtype)))
        size = out.const(bytes_of(mem.dtype), "index")
        for dim in dims:
            size = out.mul(size, out.index(dim))
        self.behind = offset + Affine.of(size.name).ceildiv(SHARED_ALIGN) * SHARED_ALIGN
        return out.emit(DynamicShared(offset=offset, type=type), value.name).result

    # ---- one thread ----

    def single(self, op: Instruction, b: Builder) -> None:
        """Thread 0 does it; what comes of it goes to all through shared memory."""
        changed = slots_changed(op)
        boxes = [self.box(dtype_of(result)) for result in op.results] + [self.box(dtype_in(slot)) for slot in changed]
        if op in self.barriers.handing:
            b.emit(SyncThreads())
        with b.when(self.first) as inner:
            self.copy.one(op, inner)
            finals = [self.values[result] for result in op.results] + [inner.get(self.values[slot]) for slot in changed]
            for box, value in zip(boxes, finals, strict=True):
                inner.store(box, value, [0])
        if not hands_over(op):
            return
        b.emit(SyncThreads())
        read = [b.load(box, [0]) for box in boxes]
        for result, value in zip(op.results, read, strict=False):
            self.values[result] = value
        for slot, value in zip(changed, read[len(op.results) :], strict=True):
            b.set(self.values[slot], value)

    def box(self, dtype: str) -> Value:
        return self.start.out.body.emit(SharedAlloc(type=Mem(dtype, (1,), space=Space.SHARED)), "box").result

    # ---- all threads, each its share ----

    def spread(self, spread: Spread, b: Builder) -> None:
        """Each thread's iterations, then what a monoid joins joined over the block, and with what was there before."""
        before = [[self.before(cell, spread, b) for cell in fold.cells] for fold in spread.folds]
        own = self.share(spread, self.thread, self.start.threads, b)
        if not spread.folds:
            return
        throughs = [slots(self.start.out.body, self.start.threads, fold.dtypes, self.lanes) for fold in spread.folds]
        if spread.outer in self.barriers.handing:
            b.emit(SyncThreads())
        for fold, through, values, outside in zip(spread.folds, throughs, own, before, strict=True):
            total = block_reduced(b, fold.monoid, values, self.thread, self.start.threads, through, self.lanes)
            self.after(fold, spread, combined(b, fold.monoid, outside, total), b)

    def before(self, cell: Value, spread: Spread, b: Builder) -> Value:
        """What a cell holds before the loop."""
        if isinstance(cell.type, Slot):
            return b.get(self.values[cell])
        return self.values[spread.outer.carried[spread.outer.body.parameters.index(cell) - 1]]

    def after(self, fold: JoinedCells, spread: Spread, values: Sequence[Value], b: Builder) -> None:
        """What the fold's cells hold after the loop."""
        for cell, value in zip(fold.cells, values, strict=True):
            if isinstance(cell.type, Slot):
                b.set(self.values[cell], value)
            else:
                self.values[spread.outer.results[spread.outer.body.parameters.index(cell) - 1]] = value

    def share(self, spread: Spread, number: Value, stride: Value | int, b: Builder) -> list[list[Value]]:
        """The iterations of number `number`, `number + stride` and so on, from the identities on; what they make, by fold."""
        outer, parameters = spread.outer, spread.outer.body.parameters[1:]
        with self.walk(spread, number, stride, self.started(spread, b), b) as (inner, walked):
            for mem in spread.private:
                self.values[mem] = inner.alloc(mem_of(mem), mem.name)
            for loop in spread.loops:
                self.values.update(zip(loop.body.parameters[1:], walked.carried, strict=True))
            self.copy.all(spread.between, inner)
            self.copy.all(spread.inner.body.body, inner)
        self.values.update(zip(outer.results, walked.results, strict=True))
        totals = dict(zip(parameters, walked.results, strict=True))
        return [[totals[cell] if cell in totals else b.get(self.values[cell]) for cell in fold.cells] for fold in spread.folds]

    def started(self, spread: Spread, b: Builder) -> list[Value]:
        """What the loop carries to a thread's first iteration: of what a monoid joins, nothing yet."""
        nothing: dict[Value, Value] = {}
        for fold in spread.folds:
            nothing.update(zip(fold.cells, identities(b, fold.monoid, fold.dtypes), strict=True))
        for cell, value in nothing.items():
            if isinstance(cell.type, Slot):
                b.set(self.values[cell], value)
        outer = spread.outer
        return [nothing.get(cell, self.values[old]) for cell, old in zip(outer.body.parameters[1:], outer.carried, strict=True)]

    def ends(self, loop: For, b: Builder) -> tuple[Affine, Affine]:
        """Where a loop begins and ends for the threads that share it."""
        return self.form(loop.low), self.form(loop.high)

    @contextmanager
    def walk(
        self, spread: Spread, number: Value, stride: Value | int, carried: Sequence[Value], b: Builder
    ) -> Iterator[tuple[Builder, LoopHandle]]:
        """The loop over a thread's iterations, with the variables of the spread loops."""
        if len(spread.loops) == 1 and isinstance(stride, int):
            loop = spread.outer
            low, high = self.ends(loop, b)
            with b.loop(loop.variable.name, low + Affine.of(number.name) * loop.step, high, loop.step * stride, carried) as (inner, outer):
                self.values[loop.variable] = outer.variable
                yield inner, outer
            return
        counts = counts_of(spread, self.copy, b)
        total = b.product(counts)
        if isinstance(stride, int):
            with b.loop("turn", number.name, total.name, stride, carried) as (inner, outer):
                self.digits(spread, outer.variable, counts, inner)
                yield inner, outer
            return
        with b.loop("turn", 0, turns_of(b, total, number, stride).name, 1, carried) as (inner, outer):
            self.digits(spread, inner.add(number, inner.mul(outer.variable, stride)), counts, inner)
            yield inner, outer

    def digits(self, spread: Spread, flat: Value, counts: Sequence[Value], b: Builder) -> None:
        """The variables of loops taken as one, from the number of an iteration."""
        for loop, count in reversed(list(zip(spread.loops[1:], counts[1:], strict=True))):
            self.variable(loop, b.op("rem", flat, count), b)
            flat = b.op("div", flat, count)
        self.variable(spread.outer, flat, b)

    def variables(self, spread: Spread, digits: Sequence[Value], b: Builder) -> dict[Value, Value]:
        """The variables of loops, from the numbers of their iterations, and what they are."""
        for loop, digit in zip(spread.loops, digits, strict=True):
            self.variable(loop, digit, b)
        return {loop.variable: self.values[loop.variable] for loop in spread.loops}


def counts_of(spread: Spread, copy: InstructionCopy, b: Builder) -> list[Value]:
    """How many iterations each of the loops has, not below 0."""
    zero = b.const(0, "index")
    return [b.op("max", b.index(copy.form(iterations(loop))), zero) for loop in spread.loops]


def turns_of(b: Builder, count: Value, number: Value, stride: Value) -> Value:
    """How many of `number`, `number + stride` and so on lie below the count."""
    left = b.op("max", b.sub(count, number), b.const(0, "index"))
    return b.op("div", b.add(left, b.sub(stride, b.const(1, "index"))), stride, name="turns")


# ---- what a thread or a block is enough for ----


def fits_a_thread(memories: Sequence[Value]) -> bool:
    """Whether each thread can have memories like these of its own."""
    types = [mem_of(mem) for mem in memories]
    extents = [dim.value for type in types for dim in type.dims]
    return None not in extents and sum(bytes_of(t.dtype) * prod(dim.value or 0 for dim in t.dims) for t in types) <= THREAD_BYTES


def are_long(extents: Sequence[Affine]) -> bool:
    """Whether extents are surely worth a block's threads."""
    return all((extent.value or 0) >= LONG for extent in extents)


def threads_for_loops(lengths: Sequence[int | None], lanes: int) -> int:
    """Threads for loops of these lengths, of which None is any: no more warps of so many lanes than the longest fills."""
    longest = max((BLOCK if length is None else length for length in lengths), default=BLOCK)
    return min(BLOCK, max(lanes, -(-longest // lanes) * lanes))


def in_words(spreads: Mapping[For, Spread]) -> str:
    """The spread loops in words, each name once."""
    names = (", ".join(loop.written for loop in spread.loops) for spread in spreads.values())
    return f"the loop over {'; '.join(dict.fromkeys(names))}"
