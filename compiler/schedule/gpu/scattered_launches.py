"""Launches of sums that data scatter. Every thread takes iterations, and changes elements by atomics, whose order ints, least and greatest
elements don't depend on. Where a memory is small, each block has copies of it in its shared memory, and adds these up in the end; elements
that are too narrow for atomics are put together in a wider memory."""

from collections.abc import Callable, Sequence
from math import prod

from attrs import evolve

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import Atomic, SharedAlloc, SyncThreads
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.types import DTYPES, Mem, Slot, Space, bytes_of, is_float, is_signed
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.indices import small_digits
from compiler.schedule.gpu.number_bits import from_bits
from compiler.schedule.gpu.scattered import ScatterCopy, ScatteredSums, ScatteredUpdate
from compiler.schedule.gpu.sorting import taken
from compiler.schedule.launches import Launch
from compiler.schedule.stages import Around, Group, Start, iterations
from compiler.schedule.threads import BLOCK
from runtime.records import frozen

STAGED_BYTES = 32 << 10
"""Of shared memory for copies of small memories."""
COPIES = 32
"""Of a small memory in a block, at most: each lane of a warp has its own, so that no two meet."""
STAGED_THREADS = 1024
"""Of a block with such copies: one such block a multiprocessor clears and adds up the fewest copies."""
EACH = 4
"""Iterations that each thread should have before another block is worth it."""
PIECES = 2
"""Of 16 bytes that a thread reads before it uses the first."""
FEW = 24
"""Instructions of an iteration that is written out for neighbours."""
RESIDENT = 8
"""Blocks of a multiprocessor that share a large memory."""


@frozen(eq=False)
class ScatterTarget:
    """Where the updates of one memory are put together: the memory itself, or a wider one (`apart`) that is joined with it later; `copies`
    of it in shared memory before that, 0 for none."""

    mem: Value
    monoid: str
    dtype: str
    apart: Value | None
    copies: int

    @property
    def cells(self) -> tuple[Affine, ...]:
        return mem_of(self.mem).dims

    @property
    def nothing(self) -> float | int:
        """What changes nothing: of the memory's own type, in which the sum ends."""
        (identity,) = identity_of(self.monoid, [mem_of(self.mem).dtype])
        return identity


def targets_of(sums: ScatteredSums, facts: Facts) -> tuple[ScatterTarget, ...]:
    made: list[ScatterTarget] = []
    left = STAGED_BYTES
    for mem, monoid in sums.memories.items():
        dtype = mem_of(mem).dtype
        wide = dtype if DTYPES[dtype] >= 32 else "f32" if is_float(dtype) else "i32" if is_signed(dtype) else "u32"
        apart = None if wide == dtype else Value(f"{mem.name}_wide", Mem(wide, mem_of(mem).dims, align=64))
        most = most_elements(mem_of(mem).dims, facts)
        copies = 0
        if most is not None and most * bytes_of(wide) <= left:
            copies = COPIES
            while copies * most * bytes_of(wide) > left:
                copies //= 2
            left -= copies * most * bytes_of(wide)
        made.append(ScatterTarget(mem, monoid, wide, apart, copies))
    return tuple(made)


def wide_loads(sums: ScatteredSums, facts: Facts) -> tuple[Load, ...]:
    """Loads of the innermost loop that read neighbours in iterations side by side, and begin at multiples of 16 bytes."""
    loop = sums.nest.outer
    if len(sums.nest.loops) > 1 or loop.step != 1 or loop.low != Affine() or sum(1 for _ in loop.walk()) > FEW:
        return ()
    loads = [op for op in loop.body.body if isinstance(op, Load) and op.where is None and op.index == (Affine.of(loop.variable.name),)]
    return tuple(op for op in loads if mem_of(op.mem).readonly and mem_of(op.mem).strides is None and op.mem.name in facts.aligned)


def lanes_of(wide: Sequence[Load]) -> int:
    """Neighbours that a thread takes at once: 16 bytes of the narrowest."""
    return max(ALIGNMENT // bytes_of(mem_of(op.mem).dtype) for op in wide)


def turns_of(b: Builder, count: Value, number: Value, stride: Value) -> Value:
    """How many of `number`, `number + stride` and so on lie below the count."""
    left = b.op("max", b.sub(count, number), b.const(0, "index"))
    return b.op("div", b.add(left, b.sub(stride, b.const(1, "index"))), stride, name="turns")


def most_elements(dims: Sequence[Affine], facts: Facts) -> int | None:
    """Elements at most; None where nothing is known of an extent."""
    known = dict(facts.magnitudes)
    if any(factor < 0 or not isinstance(symbol, str) or symbol not in known for dim in dims for symbol, factor in dim.terms):
        return None
    return prod(max(0, dim.evaluate(known.__getitem__)) for dim in dims)


@frozen
class Scattering:
    """The launches of one nest that scatters."""

    around: Around
    group: Group
    number: int
    sums: ScatteredSums
    targets: tuple[ScatterTarget, ...]
    own: tuple[Value, ...]
    """Slots and scratch memories that each iteration has for itself."""
    facts: Facts

    def launches(self) -> list[Launch]:
        apart = [target for target in self.targets if target.apart is not None]
        cleared = [self.each_cell(target, "cleared", self.clear) for target in apart]
        joined = [self.each_cell(target, "joined", self.join) for target in apart]
        return [*cleared, self.scatter(), *joined]

    def words(self) -> str:
        names = ", ".join(loop.variable.name for loop in self.sums.nest.loops)
        small = [target.mem.name for target in self.targets if target.copies]
        staged = f", of {', '.join(small)} first in copies that each block has in shared memory" if small else ""
        return f"{names}: threads change elements by atomics{staged}"

    # ---- all iterations ----

    def scatter(self) -> Launch:
        staged = any(target.copies for target in self.targets)
        start = Start(self.around, f"{self.number}", (STAGED_THREADS if staged else BLOCK, 1, 1))
        for parameter, value in start.values.items():
            if parameter.name in self.facts.aligned and isinstance(value.type, Mem):
                value.type = start.out.scope.types[value.name] = evolve(value.type, align=max(value.type.align, ALIGNMENT))
        b, loops = start.out.body, self.sums.nest.loops
        counts = [b.count(start.copy.form(iterations(loop))) for loop in loops]
        total = b.product(counts)
        wide = wide_loads(self.sums, self.facts) if staged else ()
        each = start.threads * (PIECES * lanes_of(wide) if wide else EACH)
        wanted = b.op("div", b.add(total, b.const(each - 1, "index")), b.const(each, "index"))
        most = b.const(self.facts.processors * (1 if staged else RESIDENT), "index")
        blocks = b.op("max", b.op("min", wanted, most), b.const(1, "index"), name="blocks")
        start.take(self.group, b)
        thread = b.index(start.thread, "thread")
        boxes = {target.mem: self.box(target, start, thread, b) for target in self.targets if target.copies}
        by_mem = {target.mem: target for target in self.targets}

        def put(at: Builder, update: ScatteredUpdate, added: Value) -> None:
            target = by_mem[update.store.mem]
            index = tuple(map(start.copy.form, update.store.index))
            self.change(at, start, target, boxes.get(target.mem), index, thread, added)

        copy = ScatterCopy(start.out, start.values, self.sums, put)
        for value in self.own:
            if isinstance(value.type, Slot):
                start.values[value] = b.slot(b.const(0, value.type.dtype), value.name)
            else:
                start.values[value] = b.alloc(mem_of(value), value.name)
        stride = b.mul(blocks, b.const(start.threads, "index"))
        self.iterate(start, copy, counts, stride, b, wide)
        if boxes:
            b.emit(SyncThreads())
        for mem, box in boxes.items():
            self.flush(by_mem[mem], start, box, thread, b)
        return start.finish((Affine.of(blocks.name),), 1)

    def iterate(self, start: Start, copy: ScatterCopy, counts: Sequence[Value], stride: Value, b: Builder, wide: Sequence[Load]) -> None:
        """A thread's iterations; where loads are `wide`, several neighbours at once, and two such pieces in flight."""
        number, total, outer = b.index(start.place, "place"), b.product(counts), self.sums.nest.outer
        if not wide:
            with b.loop("turn", 0, turns_of(b, total, number, stride).name) as (inner, loop):
                self.variables(start, inner.add(number, inner.mul(loop.variable, stride)), counts, inner)
                copy.all(self.sums.nest.between, inner)
                copy.all(self.sums.nest.inner.body.body, inner)
            return
        lanes = lanes_of(wide)
        axis = start.out.axis("item", lanes)
        pieces = b.op("div", total, b.const(lanes, "index"), name="pieces")
        turns = turns_of(b, pieces, number, stride)
        with b.loop("turn", 0, b.op("div", turns, b.const(PIECES, "index")).name) as (inner, loop):
            first = inner.add(number, inner.mul(inner.index(Affine.of(loop.variable.name) * PIECES), stride))
            second = inner.add(first, stride)
            read = [[inner.load(start.values[op.mem], [Affine.of(at.name) * lanes + axis]) for op in wide] for at in (first, second)]
            for at, tiles in zip((first, second), read, strict=True):
                self.neighbours(start, copy, Affine.of(at.name) * lanes, wide, tiles, axis, inner)
        with b.when(b.op("ne", b.op("rem", turns, b.const(PIECES, "index")), b.const(0, "index"))) as inner:
            last = inner.add(number, inner.mul(inner.sub(turns, inner.const(1, "index")), stride))
            tiles = [inner.load(start.values[op.mem], [Affine.of(last.name) * lanes + axis]) for op in wide]
            self.neighbours(start, copy, Affine.of(last.name) * lanes, wide, tiles, axis, inner)
        copy.there.clear()
        rest = b.index(Affine.of(pieces.name) * lanes + Affine.of(number.name))
        with b.when(b.op("lt", rest, total)) as inner:
            start.values[outer.variable] = inner.index(Affine.of(rest.name), outer.variable.name)
            copy.all(outer.body.body, inner)

    def neighbours(
        self, start: Start, copy: ScatterCopy, first: Affine, wide: Sequence[Load], tiles: Sequence[Value], axis: str, b: Builder
    ) -> None:
        """Iterations side by side, of which some loads are there."""
        outer = self.sums.nest.outer
        for item in range(lanes_of(wide)):
            start.values[outer.variable] = b.index(first + item, outer.variable.name)
            copy.there = {op: taken(b, tile, axis, item) for op, tile in zip(wide, tiles, strict=True)}
            copy.all(outer.body.body, b)

    def variables(self, start: Start, flat: Value, counts: Sequence[Value], b: Builder) -> None:
        """The variables of the loops, from the number of an iteration."""
        loops = self.sums.nest.loops
        few = most_elements([iterations(loop) for loop in loops], self.facts)
        split = small_digits if few is not None and few < 1 << 32 else Builder.digits
        for loop, digit in zip(loops, split(b, flat, counts[1:]), strict=True):
            start.values[loop.variable] = b.index(start.copy.form(loop.low) + Affine.of(digit.name) * loop.step, loop.variable.name)

    def change(
        self, b: Builder, start: Start, target: ScatterTarget, box: Value | None, index: tuple[Affine, ...], thread: Value, added: Value
    ) -> None:
        """One update of an element, where the block puts them together."""
        value = b.cast(added, target.dtype)
        if box is None:
            b.emit(Atomic(operation=target.monoid, mem=self.memory(target, start), index=index, value=value))
            return
        flat = b.index(0)
        for form, dim in zip(index, target.cells, strict=True):
            flat = b.add(b.mul(flat, b.index(start.copy.form(dim))), b.index(form))
        copy = b.op("and", thread, b.const(target.copies - 1, "index"))
        b.emit(Atomic(operation=target.monoid, mem=box, index=(Affine.of(flat.name), Affine.of(copy.name)), value=value, scope="block"))

    def memory(self, target: ScatterTarget, start: Start) -> Value:
        return start.values[target.mem] if target.apart is None else start.workspaces[self.around.others[target.apart]]

    # ---- copies in shared memory ----

    def box(self, target: ScatterTarget, start: Start, thread: Value, b: Builder) -> Value:
        """A block's copies of a small memory, with nothing in them yet."""
        most = most_elements(target.cells, self.facts)
        box = b.emit(SharedAlloc(type=Mem(target.dtype, (most or 1, target.copies), space=Space.SHARED, align=16)), "copies").result
        cells = b.product([b.index(start.copy.form(dim)) for dim in target.cells])
        words = b.mul(cells, b.const(target.copies, "index"))
        with b.loop("word", thread.name, words.name, start.threads) as (inner, loop):
            cell, copy = inner.digits(loop.variable, [inner.const(target.copies, "index")])
            inner.store(box, inner.const(target.nothing, target.dtype), [cell.name, copy.name])
        b.emit(SyncThreads())
        return box

    def flush(self, target: ScatterTarget, start: Start, box: Value, thread: Value, b: Builder) -> None:
        """What a block has put together goes to the memory of all."""
        dims = [b.index(start.copy.form(dim)) for dim in target.cells]
        nothing = b.const(target.nothing, target.dtype)
        with b.loop("cell", thread.name, b.product(dims).name, start.threads) as (inner, loop):
            with inner.loop("copy", 0, target.copies, carried=[nothing]) as (deep, copies):
                copy = deep.op("and", deep.add(copies.variable, thread), deep.const(target.copies - 1, "index"))
                read = deep.load(box, [loop.variable.name, copy.name])
                deep.yield_(deep.op(target.monoid, copies.carried[0], read))
            total = copies.results[0]
            with inner.when(inner.op("ne", total, nothing)) as some:
                index = [Affine.of(digit.name) for digit in some.digits(loop.variable, dims[1:])]
                some.emit(Atomic(operation=target.monoid, mem=self.memory(target, start), index=tuple(index), value=total))

    # ---- memories apart ----

    def each_cell(self, target: ScatterTarget, name: str, act: "Act") -> Launch:
        """A thread for each element of a memory."""
        start = Start(self.around, f"{self.number}_{target.mem.name}_{name}", (BLOCK, 1, 1))
        b = start.out.body
        dims = [b.count(start.copy.form(dim)) for dim in target.cells]
        number = b.index(start.place, "place")
        with b.when(b.op("lt", number, b.product(dims))) as inner:
            act(inner, start, target, [Affine.of(digit.name) for digit in inner.digits(number, dims[1:])])
        return start.finish(tuple(target.cells), BLOCK)

    def clear(self, b: Builder, start: Start, target: ScatterTarget, index: Sequence[Affine]) -> None:
        b.store(self.memory(target, start), b.const(target.nothing, target.dtype), index)

    def join(self, b: Builder, start: Start, target: ScatterTarget, index: Sequence[Affine]) -> None:
        mem, total = start.values[target.mem], b.load(self.memory(target, start), index)
        dtype = mem_of(mem).dtype
        total = from_bits(b, total, dtype) if dtype == "i1" else b.cast(total, dtype)
        b.store(mem, b.op(target.monoid, b.load(mem, index), total), index)


Act = Callable[[Builder, Start, ScatterTarget, Sequence[Affine]], None]
"""What the thread of an element does."""
