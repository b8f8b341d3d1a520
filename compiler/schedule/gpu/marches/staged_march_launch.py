"""The launch of a march with helpers. All threads of a block meet at a barrier before each part. Behind it, lines do the steps of one part;
helpers put what they have loaded of the part after the next into shared memory, load one some parts ahead in its place, and store what
lines have left of the part before."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import product
from math import gcd, prod

from compiler.hir.affine import Affine, AffineLike
from compiler.hir.async_copy import AsyncCommit, AsyncCopy, AsyncWait
from compiler.hir.build import Builder
from compiler.hir.control import Yield
from compiler.hir.core import Stack, dtype_of, union_axes
from compiler.hir.gpu import SharedAlloc, SyncThreads
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.types import INDEX, Mem, Space, bytes_of
from compiler.hir.words import WORD, LoadWords, StoreWords
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.library.sorting import taken
from compiler.schedule.gpu.marches.marching import whole_steps
from compiler.schedule.gpu.marches.staged_march import BROUGHT, LEFT, SharedRow, StagedMarch
from compiler.schedule.gpu.nests.cooperate import Cooperation, counts_of
from compiler.schedule.gpu.nests.nest_units import BESIDE
from compiler.schedule.gpu.nests.spread import Spread
from compiler.schedule.gpu.pieces import align
from compiler.schedule.launches import Launch
from compiler.schedule.stages import Group, Start, iterations
from runtime.records import evolve, frozen

BANKS = 128
"""Bytes of shared memory that are read together."""


@frozen(eq=False)
class Access:
    """What a helper takes at once of a part: from which step and line on, how many `lanes`, whether there is such a line, the variables of
    that, and where it stands along the innermost of the leading loops."""

    step: Affine
    line: Affine
    lanes: int
    inside: Value
    variables: Mapping[Value, Value]
    inner: Affine


def launch_staged(plan: StagedMarch, nest: Spread, work: Cooperation, start: Start, group: Group, known: Facts) -> Launch:
    align(start, known)
    start.take(group, start.out.body)
    launch = StagedLaunch(plan, nest, work, start).write()
    blocks = max(1, known.machine.resident_blocks(plan.threads, plan.registers, plan.shared))
    info = launch.function.kernel_info
    assert info is not None and info.launch_bounds is not None
    launch.function.kernel_info = evolve(info, launch_bounds=evolve(info.launch_bounds, min_blocks_per_sm=blocks))
    return launch


class StagedLaunch:
    """The launch of such marches."""

    def __init__(self, plan: StagedMarch, nest: Spread, work: Cooperation, start: Start) -> None:
        self.plan, self.nest, self.work, self.start, self.copy = plan, nest, work, start, start.copy
        out = start.out.body
        self.brought = {value: self.shared(value, plan.slots) for value in plan.work.brought}
        self.left = [self.shared(value, LEFT) for value in plan.work.left]
        self.raw = dict[Load, Value]()
        for op, lanes, turns in plan.copied:
            self.raw[op] = self.part(mem_of(op.mem).dtype, turns, plan.ahead * plan.helpers, lanes)
        self.rows = [self.part(mem_of(row.load.mem).dtype, BROUGHT * plan.steps, row.width) for row in plan.rows]
        self.axes: dict[int, str] = {}
        self.counts = counts_of(nest, self.copy, out)
        self.inner = self.counts[-1]
        if plan.padded > 1:
            self.counts[-1] = out.index(Affine.of(self.counts[-1].name).ceildiv(plan.padded) * plan.padded)

    def shared(self, value: Value, parts: int) -> Value:
        """So many parts of each line, its steps side by side; lines begin in different banks. Or of so many lines that a warp has a step
        of, which lie side by side."""
        dtype, lines, steps = dtype_of(value), self.plan.lines, parts * self.plan.steps
        apart = max(ALIGNMENT, BANKS // lines) // bytes_of(dtype)
        return self.part(dtype, lines, steps + apart) if self.plan.steps_beside else self.part(dtype, steps, lines)

    def part(self, dtype: str, *extents: int) -> Value:
        return self.start.out.body.emit(SharedAlloc(type=Mem(dtype, extents, space=Space.SHARED, align=ALIGNMENT)), "part").result

    def write(self) -> Launch:
        plan, start, b, copy = self.plan, self.start, self.start.out.body, self.copy
        loop, steps, thread = plan.loop, plan.steps, self.work.thread
        self.helper = b.named(Affine.of(b.op("max", b.index(Affine.of(thread.name) - plan.own_threads), b.const(0, "index")).name))
        self.helping = b.op("le", b.const(plan.own_threads, "index"), thread)
        self.accesses = self.accesses_of(plan.lanes, b)
        self.stored = self.accesses if plan.stored == plan.lanes or not self.left else self.accesses_of(plan.stored, b)
        self.full = self.line(Affine((), plan.lines - 1), 1, b)[0]
        self.mine = b.op("min", thread, b.const(plan.lines - 1, "index"))
        own = b.op("lt", thread, b.const(plan.lines, "index"))  # no other lane: shared memory is read in quarters of a warp
        own = b.both(self.line(Affine.of(self.mine.name), 1, b)[0], own)
        ops = [*self.nest.between, *self.nest.inner.body.body]
        place = ops.index(loop)
        copy.all(ops[:place], b)
        variables = {one.variable: start.values[one.variable] for one in self.nest.loops}
        low, high, _, whole, full = whole_steps(loop, steps, copy, b)
        self.low, self.high = copy.form(loop.low), high
        self.pieces = b.op("div", b.sub(high, low), b.const(plan.lanes if plan.along else 1, "index"))
        some = b.op("lt", low, high)
        copy.values.update({op.result: b.load(copy.value(op.mem), tuple(map(copy.form, op.index)), some) for op in plan.same})
        initial = [copy.value(value) for value in loop.carried]
        with b.when(self.helping) as inner:
            for part in range(plan.ahead):
                self.fetch(Affine((), part), inner)
            for part in range(BROUGHT - 1):
                self.next_part(Affine((), part), inner)
        b.emit(SyncThreads())
        known = self.elements(Affine(), b)
        state = [*initial, *known]
        with b.loop("part", 0, whole.name, 1, state, unroll=1) as (inner, walked):
            carried, known = walked.carried[: len(initial)], walked.carried[len(initial) :]
            number = Affine.of(walked.variable.name)
            with inner.branch(own, [value.type for value in [*initial, *known]]) as (yes, no, both):
                copy.values.update(variables)
                yes.yield_(*self.stepped(number, carried, known, yes))
                with no.when(self.helping) as helper:
                    self.next_part(number + (BROUGHT - 1), helper)
                    self.leave(number - 1, helper)
                no.yield_(*carried, *known)
            inner.emit(SyncThreads())
            inner.yield_(*both.results)
        carried = walked.results[: len(initial)]
        number, side = Affine.of(whole.name), b.named(Affine.of(whole.name) % LEFT * steps)
        with b.branch(own, [value.type for value in initial]) as (yes, no, last):
            copy.values.update(variables)
            with yes.loop(loop.variable.name, full.name, high.name, 1, carried, unroll=1) as (inner, walked):
                step = Affine.of(walked.variable.name) - Affine.of(full.name)
                here = self.place(self.mine.name, self.slot(number, plan.slots, b) + step)
                values = [inner.load(memory, here) for memory in self.brought.values()]
                after, left = self.one_step(walked.variable, self.slot(number, BROUGHT, b) + step, walked.carried, values, inner)
                for memory, value in zip(self.left, left, strict=True):
                    inner.store(memory, value, self.place(self.mine.name, side + step))
                inner.yield_(*after)
            yes.yield_(*walked.results)
            with no.when(self.helping) as helper:
                self.leave(number - 1, helper)
            no.yield_(*carried)
        b.emit(SyncThreads())
        with b.when(self.helping) as inner:
            if plan.ahead:
                inner.emit(AsyncWait(count=0))
            self.leave(number, inner)
        copy.values.update(variables)
        copy.values.update(zip(loop.results, last.results, strict=True))
        with b.when(own) as inner:
            copy.all([op for op in ops[place + 1 :] if not isinstance(op, Yield)], inner)
        counts = [iterations(one) for one in self.nest.loops]
        counts[-1] = counts[-1].ceildiv(plan.padded) * plan.padded
        return start.finish((*counts[:-1], counts[-1].ceildiv(plan.lines)), 1) if plan.rows else start.finish(tuple(counts), plan.lines)

    # ---- helpers ----

    def line(self, number: Affine, lanes: int, b: Builder) -> tuple[Value, Affine]:
        """Makes the variables of a line known, or of the last one where there is no such line, by the number of a line, or of so many
        neighbours, in the block: whether there is one, and where it stands along the innermost loop. Lines that read the same rows share
        the iterations of the other loops."""
        lines, one, zero = self.plan.lines // lanes, b.const(1, "index"), b.const(0, "index")
        counts = [*self.counts[:-1], b.op("div", self.counts[-1], b.const(lanes, "index"))] if lanes > 1 else self.counts
        count, block, first = b.product(counts), self.start.number, zero
        if self.plan.rows:
            count = counts[-1]
            blocks = b.op("max", b.index(Affine.of(count.name).ceildiv(lines)), one)
            first, block = b.mul(b.op("div", block, blocks), count), b.op("rem", block, blocks)
        place = b.index(Affine.of(block.name) * lines + number)
        digits = b.digits(b.add(first, b.op("min", place, b.op("max", b.sub(count, one), zero))), counts[1:])
        first, there = b.index(Affine.of(digits[-1].name) * lanes), b.op("lt", place, count)
        if self.plan.padded > 1:
            there, first = b.both(there, b.op("lt", first, self.inner)), b.op("min", first, b.sub(self.inner, one))
        self.work.variables(self.nest, [*digits[:-1], first], b)
        return there, self.copy.form(self.nest.inner.low) + Affine.of(first.name)

    def accesses_of(self, lanes: int, b: Builder) -> list[Access]:
        """Those of one helper, by its number, of so many lanes."""
        plan = self.plan
        along, across = (lanes, 1) if plan.along else (1, lanes)
        pieces = (plan.steps if plan.along else plan.lines) // lanes
        side = min(pieces, plan.helpers)
        near, far, found = b.named(self.helper % side), b.named(self.helper.floordiv(side)), list[Access]()
        for turn in range(plan.steps * plan.lines // (lanes * plan.helpers)):
            item = turn * plan.helpers
            first, second = near + item % pieces, far + item // pieces
            step, line = (first, second) if plan.along else (second, first)
            if found and line * across == found[0].line:
                found.append(evolve(found[0], step=step * along))
                continue
            inside, inner = self.line(line, across, b)
            variables = {one.variable: self.copy.values[one.variable] for one in self.nest.loops}
            found.append(Access(step * along, line * across, lanes, inside, variables, inner))
        return found

    def pieces_of(self, row: SharedRow, b: Builder) -> list[tuple[Affine, Affine, Value | None]]:
        """Those of a row that a helper takes of a part: step and column, and whether there is such a piece, if some helpers have none."""
        across, found = row.width // row.lanes, list[tuple[Affine, Affine, Value | None]]()
        items = self.plan.steps * across
        for begin in range(0, items, self.plan.helpers):
            item, there = self.helper + begin, None
            if begin + self.plan.helpers > items:
                there = b.op("lt", b.index(item), b.const(items, "index"))
                item = Affine.of(b.op("min", b.index(item), b.const(items - 1, "index")).name)
            found.append((b.named(item.floordiv(across)), b.named(item % across * row.lanes), there))
        return found

    def slot(self, number: Affine, slots: int, b: Builder) -> Affine:
        """Where a part begins, of so many in shared memory."""
        return b.named(number % slots * self.plan.steps)

    def next_part(self, number: Affine, b: Builder) -> None:
        """Puts a part into shared memory as lines want it, where it comes from memory, or from what was copied ahead."""
        if self.plan.ahead:
            b.emit(AsyncWait(count=self.plan.ahead - 1))
            place = b.named(number % self.plan.ahead * self.plan.helpers + self.helper)
            held = [b.load(raw, (turn, place, self.axis_form(lanes))) for raw, turn, lanes in self.raw_pieces()]
            self.put(number, held, b)
            self.fetch(number + self.plan.ahead, b)
        else:
            there = b.op("lt", b.index(self.low + number * self.plan.steps), self.high)
            held = list[Value]()
            for memory, index, _, where in self.pieces_in_memory(number, b, True):
                held += self.loaded(memory, index, there if where is None else where, b)
            self.put(number, held, b)

    def loaded(self, memory: Value, index: tuple[Affine, ...], where: Value, b: Builder) -> Sequence[Value]:
        """What is in memory: elements, or words where `where` says how many elements there are."""
        if where.type != INDEX:
            return [b.load(memory, index, where)]
        count = self.plan.lanes * bytes_of(mem_of(memory).dtype) // WORD
        return b.emit(LoadWords(mem=memory, index=index, valid=where, count=count)).results

    def raw_pieces(self) -> Iterator[tuple[Value, int, int]]:
        """What a helper has copied of a part: where it lies, and how many elements that are."""
        own, rows = self.plan.copies[: len(self.plan.loads)], self.plan.copies[len(self.plan.loads) :]
        if not self.plan.direct:
            yield from ((self.raw[op], turn, lanes) for turn in range(len(self.accesses)) for op, lanes, _ in own)
        yield from ((self.raw[op], turn, lanes) for op, lanes, turns in rows for turn in range(turns))

    def fetch(self, number: Affine, b: Builder) -> None:
        """Begins to copy what the helper has of a part."""
        place = b.named(number % self.plan.ahead * self.plan.helpers + self.helper)
        targets: list[tuple[Value, tuple[Affine, ...]]] = [(raw, (Affine((), turn), place, Affine())) for raw, turn, _ in self.raw_pieces()]
        if self.plan.direct:
            slot = self.slot(number, self.plan.slots, b)
            lines = [(self.brought[load.result], access) for access in self.accesses for load in self.plan.loads]
            targets = [(memory, tuple(map(Affine.of, self.place(one.line, slot + one.step)))) for memory, one in lines] + targets
        pieces = self.pieces_in_memory(number, b, False)
        for (target, at), (source, index, lane, there) in zip(targets, pieces, strict=True):
            bytes = max(1, prod(extent.value or 1 for axis in lane.names for extent in [self.start.out.scope.axes[axis]]))
            bytes *= bytes_of(mem_of(source).dtype)
            begin = (*index[:-1], index[-1] - lane)
            ends = {"destination": target, "destination_index": at, "source": source, "source_index": begin}
            b.emit(AsyncCopy(**ends, bytes=bytes, hint="l2", where=there))
        b.emit(AsyncCommit())

    def pieces_in_memory(
        self, number: Affine, b: Builder, clamped: bool
    ) -> Iterator[tuple[Value, tuple[Affine, ...], Affine, Value | None]]:
        """What a helper has of a part in memory: where, the lanes' form in that, and whether it is there, or how many elements of words
        are. `clamped`: behind the last step, and of a line that isn't there, what the last one has: nobody looks at that."""
        plan, copy = self.plan, self.copy
        lanes = plan.lanes if plan.along else 1
        beside = Affine() if plan.words else self.axis_form(plan.lanes)
        one = b.const(1, "index")
        for access in self.accesses:
            at = self.low + number * plan.steps + access.step
            there: Value | None = b.both(access.inside, b.op("lt", b.index(at), self.high))
            if plan.words:
                end = Affine.of(self.high.name) - at if plan.along else copy.form(self.nest.inner.high) - access.inner
                there = b.select(there, b.index(end), b.const(0, "index")) if there is not None else b.index(end)
            elif clamped:
                there, piece = None, b.index(number * (plan.steps // lanes) + access.step.floordiv(lanes))
                at = self.low + Affine.of(b.op("min", piece, b.sub(self.pieces, one)).name) * lanes
            for load in plan.loads:
                yield copy.value(load.mem), self.index(load, access, at, b, beside), beside, there
        copy.values.update(self.accesses[0].variables)
        for row in plan.rows:
            beside = self.axis_form(row.lanes)
            for step, column, _ in self.pieces_of(row, b):
                place = b.index(self.low + number * plan.steps + step)
                there = None if clamped else b.op("lt", place, self.high)
                copy.values[plan.loop.variable] = b.op("min", place, b.sub(self.high, one)) if clamped else place
                *outer, last = map(copy.form, row.load.index)
                yield copy.value(row.load.mem), (*outer, last + column + beside), beside, there

    def put(self, number: Affine, held: Sequence[Value], b: Builder) -> None:
        plan, copy, tiles = self.plan, self.copy, iter(held)
        begin = self.slot(number, BROUGHT, b)
        for access, load in product(self.accesses, plan.loads) if plan.words else ():
            at = self.place(access.line, begin + access.step)
            values = tuple(next(tiles) for _ in range(plan.words_of(load)))
            b.emit(StoreWords(mem=self.brought[load.result], index=tuple(map(Affine.of, at)), values=values))
        for access in self.accesses if not plan.direct else ():
            loaded = {op: self.items(next(tiles), b) for op in plan.loads}
            found: dict[Value, list[Value]] = {value: [] for value in self.brought}
            for lane in range(plan.lanes):
                for op in plan.work.early:
                    if isinstance(op, Load):
                        copy.values[op.result] = loaded[op][lane]
                    else:
                        copy.one(op, b)
                for value, elements in found.items():
                    elements.append(copy.values[value])
            for value, elements in found.items():
                self.exchange(self.brought[value], access, begin, b, elements)
        for row, memory in zip(plan.rows, self.rows, strict=True):
            beside = self.axis_form(row.lanes)
            for step, column, there in self.pieces_of(row, b):
                with b.when(there) if there is not None else nullcontext(b) as inner:
                    inner.store(memory, next(tiles), (begin + step, column + beside))

    def leave(self, number: Affine, b: Builder) -> None:
        """Stores what lines have left of a part, by its number, where that is one of the loop. Of a whole part of whole blocks, all is read
        before the first is stored."""
        if not self.left:
            return
        side, low, steps = b.named((number + LEFT) % LEFT * self.plan.steps), self.low, self.plan.steps
        places = [low + number * steps + access.step for access in self.stored]
        begun = b.op("le", b.const(0, "index"), b.index(number))
        whole = b.both(begun, b.both(self.full, b.op("le", b.index(low + number * steps + steps), self.high)))
        with b.branch(whole) as (yes, no, _):
            left = [self.left_of(access, side, yes) for access in self.stored]
            for access, at, values in zip(self.stored, places, left, strict=True):
                self.store(access, at, values, yes)
            yes.yield_()
            for access, at in zip(self.stored, places, strict=True):
                there = no.both(no.both(begun, access.inside), no.op("lt", no.index(at), self.high))
                with no.when(there) as some:
                    self.store(access, at, self.left_of(access, side, some), some)
            no.yield_()

    def left_of(self, access: Access, side: Affine, b: Builder) -> list[list[Value]]:
        return [self.exchange(memory, access, side, b) for memory in self.left]

    def store(self, access: Access, at: Affine, left: Sequence[Sequence[Value]], b: Builder) -> None:
        work, copy = self.plan.work, self.copy
        for store, value, late, elements in zip(work.stores, work.left, work.late, left, strict=True):
            stored = list[Value]()
            for element in elements:
                copy.values[value] = element
                copy.all(late, b)
                stored.append(copy.value(store.value))
            index = self.index(store, access, at, b, self.axis_form(access.lanes))
            b.store(copy.value(store.mem), self.beside(stored, b), index)

    def exchange(self, memory: Value, access: Access, begin: Affine, b: Builder, values: Sequence[Value] | None = None) -> list[Value]:
        """Reads what an access has of a part in shared memory, or writes it there: as wide as it lies side by side."""
        plan = self.plan
        along = plan.along == plan.steps_beside
        wide = min(access.lanes, ALIGNMENT // bytes_of(mem_of(memory).dtype)) if along else 1
        read = list[Value]()
        for lane in range(0, access.lanes, wide):
            beside = lane + self.axis_form(wide)
            step, line = begin + access.step, access.line
            at = self.place(line, step + beside) if plan.along else self.place(line + beside, step)
            if values is not None:
                b.store(memory, self.beside(values[lane : lane + wide], b), at)
                continue
            tile = b.load(memory, at)
            read += self.items(tile, b)
        return read

    def index(self, op: Load | Store, access: Access, at: Affine, b: Builder, beside: Affine) -> tuple[Affine, ...]:
        """Where an access reads or stores the step that stands at a place of the loop, of as many lanes as a helper has."""
        copy = self.copy
        copy.values.update(access.variables)
        places, index = {self.plan.loop.variable: at, self.nest.inner.variable: access.inner}, list[Affine]()
        if any(value.name in form.without(value.name).names for form in op.index for value in places):
            copy.values[self.plan.loop.variable] = b.index(at)
            places = {}
        for form in op.index:
            known = sum((place * form.coefficient(value.name) for value, place in places.items()), Affine())
            for value in places:
                form = form.without(value.name)
            index.append(copy.form(form) + known)
        return (*index[:-1], index[-1] + beside)

    # ---- lines ----

    def stepped(self, number: Affine, carried: Sequence[Value], known: Sequence[Value], b: Builder) -> list[Value]:
        """The steps of a whole part: what those that follow read is on its way meanwhile. What is carried, and what is known of the next
        part."""
        steps, several = self.plan.steps, self.plan.at_once
        now, following = (self.slot(part, self.plan.slots, b) for part in (number, number + 1))
        rows, values = self.slot(number, BROUGHT, b), [*carried, *known]
        if self.plan.written_out:
            for begin in range(0, steps, several):
                after = following if begin + several == steps else now + begin + several
                values = self.several(number, Affine((), begin), rows, after, values, b)
            return values
        with b.loop("turn", 0, steps, several, values, unroll=1) as (inner, walked):
            turn = Affine.of(walked.variable.name)
            last = inner.op("eq", inner.index(turn + several), inner.const(steps, "index"))
            after = Affine.of(inner.select(last, inner.index(following), inner.index(now + turn + several)).name)
            inner.yield_(*self.several(number, turn, rows, after, walked.carried, inner))
        return list(walked.results)

    def several(self, number: Affine, turn: Affine, rows: Affine, after: Affine, values: Sequence[Value], b: Builder) -> list[Value]:
        """Steps from one of a part on, and what is known of those after them."""
        plan, each = self.plan, len(self.plan.work.brought)
        carried, known = list(values[: len(plan.loop.carried)]), values[len(plan.loop.carried) :]
        following, kept = self.elements(after, b), [list[Value]() for _ in self.left]
        side = b.named(number % LEFT * plan.steps + turn)
        for step in range(plan.at_once):
            at = b.index(self.low + number * plan.steps + turn + step)
            carried, left = self.one_step(at, rows + turn + step, carried, known[step * each :][:each], b)
            for memory, value, own in zip(self.left, left, kept, strict=True):
                own.append(value)
                if len(own) == (wide := self.wide(value)):
                    first = side + (step + 1 - wide) + self.axis_form(wide)
                    b.store(memory, self.beside(own, b), self.place(self.mine.name, first))
                    own.clear()
        return [*carried, *following]

    def one_step(
        self, at: Value, slot: Affine, carried: Sequence[Value], read: Sequence[Value], b: Builder
    ) -> tuple[list[Value], list[Value]]:
        """What a step carries on, and what it leaves."""
        plan, copy = self.plan, self.copy
        copy.values[plan.loop.variable] = at
        copy.values.update(zip(plan.loop.body.parameters[1:], carried, strict=True))
        copy.values.update(zip(plan.work.brought, read, strict=True))
        rows = [self.row(row, memory, slot, b) for row, memory in zip(plan.rows, self.rows, strict=True)]
        copy.values.update({load.result: rows[row][column] for load, (row, column) in plan.places.items()})
        copy.all(plan.work.own, b)
        return [copy.value(value) for value in plan.loop.body.body[-1].operand_values], [copy.value(value) for value in plan.work.left]

    def row(self, row: SharedRow, memory: Value, at: Affine, b: Builder) -> list[Value]:
        wide = gcd(row.width, ALIGNMENT // bytes_of(mem_of(memory).dtype))
        beside = self.axis_form(wide)
        return [item for column in range(0, row.width, wide) for item in self.items(b.load(memory, (at, beside + column)), b)]

    def elements(self, first: Affine, b: Builder) -> list[Value]:
        """What a few steps of the thread's line read, from one in shared memory on, step by step."""
        read = list[list[Value]]()
        for value, memory in self.brought.items():
            wide = self.wide(value)
            steps = range(0, self.plan.at_once, wide)
            tiles = [b.load(memory, self.place(self.mine.name, first + step + self.axis_form(wide))) for step in steps]
            read.append([item for tile in tiles for item in self.items(tile, b)])
        return [value for elements in zip(*read, strict=True) for value in elements]

    def items(self, tile: Value, b: Builder) -> list[Value]:
        axes = union_axes(tile)
        return [taken(b, tile, axis, item) for axis, extent in axes for item in range(extent.value or 0)] if axes else [tile]

    # ---- shared memory ----

    def place(self, line: AffineLike, step: Affine) -> tuple[AffineLike, AffineLike]:
        return (line, step) if self.plan.steps_beside else (step, line)

    def wide(self, value: Value) -> int:
        """Steps of a line that lie side by side in 16 bytes."""
        return min(self.plan.at_once, ALIGNMENT // bytes_of(dtype_of(value))) if self.plan.steps_beside else 1

    def beside(self, values: Sequence[Value], b: Builder) -> Value:
        return values[0] if len(values) == 1 else b.emit(Stack(values=tuple(values), axis=self.axis(len(values)))).result

    def axis_form(self, wide: int) -> Affine:
        """Where each of so many elements side by side stands."""
        return Affine.of(self.axis(wide)) if wide > 1 else Affine()

    def axis(self, wide: int) -> str:
        if wide not in self.axes:
            self.axes[wide] = self.start.out.axis(BESIDE, wide)
        return self.axes[wide]
