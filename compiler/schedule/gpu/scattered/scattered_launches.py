"""Launches of sums that data scatter: every thread takes iterations, and changes elements by atomics as `scatter_sums.py` says. Memories
beside a sum's own are cleared before, and joined with it after."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.instruction import Value
from compiler.hir.memory import Check, Load, mem_of
from compiler.hir.types import Slot, bytes_of
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.indices import small_digits
from compiler.schedule.gpu.library.sorting import taken
from compiler.schedule.gpu.nests.cooperate import turns_of
from compiler.schedule.gpu.nests.nest_units import BESIDE, divisor
from compiler.schedule.gpu.pieces import align, is_along, loads_in_pieces
from compiler.schedule.gpu.scattered.scatter_sums import ScatterSum
from compiler.schedule.gpu.scattered.scatter_targets import ScatterLaunch, ScatterTarget, memory_of, most_elements
from compiler.schedule.gpu.scattered.scattered import ScatterCopy, ScatteredChange, ScatteredSums
from compiler.schedule.launches import Launch
from compiler.schedule.stages import Around, Group, Start, iterations
from compiler.schedule.threads import BLOCK
from runtime.records import evolve, frozen

STAGED_THREADS = 1024
"""Of a block with such copies: one such block a multiprocessor clears and adds up the fewest copies."""
EACH = 4
"""Iterations of each thread of a block."""
PIECES = 2
"""Of 16 bytes that a thread reads before it uses the first."""
MOST_TERMS = 1 << 36
"""Of a sum, where loops inside decide how many there are: a terabyte wouldn't hold them."""
FEW = 24
"""Instructions of an iteration that is written out for neighbours."""


def wide_loads(sums: ScatteredSums, facts: Facts) -> tuple[Load, ...]:
    """Loads of the innermost loop that read neighbours in iterations side by side, and begin at multiples of 16 bytes. Where there are
    loops around it, its rows are whole pieces."""
    *around, inner = sums.nest.loops
    if any(loop.step != 1 or loop.low != Affine() for loop in sums.nest.loops) or sum(1 for _ in inner.walk()) > FEW:
        return ()
    if not around:
        return loads_in_pieces(inner, facts)
    loads = tuple(op for op in inner.body.body if isinstance(op, Load) and is_along(op, inner.variable.name, facts))
    if not loads or sums.nest.between:
        return ()
    rows = (iterations(inner), *(mem_of(op.mem).dims[-1] for op in loads))
    return loads if all(divisor(row, facts) % lanes_of(loads) == 0 for row in rows) else ()


def lanes_of(wide: Sequence[Load]) -> int:
    """Neighbours that a thread takes at once: 16 bytes of the narrowest."""
    return max(ALIGNMENT // bytes_of(mem_of(op.mem).dtype) for op in wide)


@frozen
class Scattering:
    """The launches of one nest that scatters."""

    around: Around
    group: Group
    number: int
    sums: ScatteredSums
    methods: tuple[ScatterSum, ...]
    own: tuple[Value, ...]
    """Slots and scratch memories that each iteration has for itself."""
    facts: Facts

    def launches(self) -> list[Launch]:
        apart = [method for method in self.methods if any(target.apart is not None for target in (*method.before, *method.targets))]
        cleared = [self.each_cell(method, "cleared", self.clear) for method in apart]
        joined = [self.each_cell(method, "joined", self.join) for method in apart]
        before = [self.scatter("before", True)] if self.looks_first else []
        return [*cleared, *before, self.scatter("", False), *joined]

    @property
    def looks_first(self) -> bool:
        """Whether a launch over all iterations comes before. It looks for the largest terms, and checks indices."""
        return any(method.before for method in self.methods)

    def words(self) -> str:
        names = ", ".join(loop.variable.name for loop in self.sums.nest.loops)
        small = [method.mem.name for method in self.methods if any(target.copies for target in method.targets)]
        whole = [method.mem.name for method in self.methods if method.before]
        words = f"{names}: threads change elements by atomics"
        words += f", of {', '.join(small)} first in copies that each block has in shared memory" if small else ""
        return words + (f"; sums of {', '.join(whole)} are of whole numbers, which lose no order" if whole else "")

    # ---- all iterations ----

    def scatter(self, name: str, before: bool) -> Launch:
        """A launch of threads that take iterations; `before`: the one that looks at what will be added."""
        targets = [target for method in self.methods for target in (method.before if before else method.targets)]
        staged = any(target.copies for target in targets)
        info = self.around.function.kernel_info
        block = (STAGED_THREADS if staged else BLOCK, 1, 1) if info is None or info.workgroup is None else info.workgroup
        start = Start(self.around, f"{self.number}_{name}" if name else f"{self.number}", block)
        align(start, self.facts)
        b = start.out.body
        counts = self.counts(start)
        wide = wide_loads(self.sums, self.facts) if staged else ()
        each = start.threads * (PIECES * lanes_of(wide) if wide else EACH)
        blocks = b.op("div", b.add(b.product(counts), b.const(each - 1, "index")), b.const(each, "index"))
        one, most = b.const(1, "index"), b.const(self.facts.processors, "index")
        capacity = next((target.capacity for target in targets if target.capacity is not None), None)
        ranges = None if capacity is None else self.ranges(start, targets[0], capacity)
        if staged:
            blocks = b.op("min", blocks, most if ranges is None else b.op("div", most, ranges))
        blocks = b.op("max", blocks, one, name="blocks" if ranges is None else "each")
        grid = blocks if ranges is None else b.op("mul", blocks, ranges, name="blocks")
        start.take(self.group, b)
        launch = ScatterLaunch(start, targets, self.facts)
        kept = [target for method in self.methods for target in method.before if target.kept and staged and not before]
        found = [evolve(target, copies=1, capacity=capacity) for target in kept]
        launch.begin(None if ranges is None else b.op("rem", b.index(Affine.of(start.number.name)), ranges), found)
        terms = self.terms(start)
        methods = {method.mem: method for method in self.methods}

        def put(at: Builder, changes: Sequence[ScatteredChange]) -> None:
            """Reads all first that it needs of memory."""
            every = [(change, methods[change.update.store.mem]) for change in changes]
            ahead = [method.ahead(at, launch, change.index, change.where, before) for change, method in every]
            for (change, method), seen in zip(every, ahead, strict=True):
                with at.when(change.where) if change.where is not None else nullcontext(at) as inner:
                    if before:
                        method.put_before(inner, launch, change.index, change.added, seen)
                    else:
                        method.put(inner, launch, change.index, change.added, seen, terms)

        copy = ScatterCopy(start.out, start.values, self.sums, put)
        if before:
            copy.skipped |= frozenset(self.sums.other_stores)
        copy.guarding = not before and self.looks_first and self.sums.checks is not None
        for value in self.own:
            if isinstance(value.type, Slot):
                start.values[value] = b.slot(b.const(0, value.type.dtype), value.name)
            else:
                start.values[value] = b.alloc(mem_of(value), value.name)
        if staged:
            own = start.number if ranges is None else b.op("div", b.index(Affine.of(start.number.name)), ranges)
            number = b.index(Affine.of(own.name) * start.threads + launch.thread.name, "place")
            self.iterate(start, copy, counts, number, b.mul(blocks, b.const(start.threads, "index")), b, wide)
        else:
            self.share(start, copy, launch.thread, counts, b)
        launch.finish()
        return start.finish((Affine.of(grid.name),), 1, launch.dynamic)

    def ranges(self, start: Start, target: ScatterTarget, capacity: int) -> Value:
        """How many ranges a memory has."""
        b, one = start.out.body, start.out.body.const(1, "index")
        cells = b.product([b.count(start.copy.form(dim)) for dim in target.cells])
        wanted = b.op("div", b.add(cells, b.const(capacity - 1, "index")), b.const(capacity, "index"))
        return b.op("max", wanted, one, name="ranges")

    def counts(self, start: Start) -> list[Value]:
        return [start.out.body.count(start.copy.form(iterations(loop))) for loop in self.sums.nest.loops]

    def terms(self, start: Start) -> Value:
        """How many terms there are at most."""
        b = start.out.body
        if not self.sums.bounded:
            return b.const(MOST_TERMS, "index")
        return b.mul(b.product(self.counts(start)), b.const(len(self.sums.updates), "index"))

    def iterate(
        self, start: Start, copy: ScatterCopy, counts: Sequence[Value], number: Value, stride: Value, b: Builder, wide: Sequence[Load]
    ) -> None:
        """A thread's iterations; where loads are `wide`, several neighbours at once, and two such pieces in flight."""
        total, outer = b.product(counts), self.sums.nest.outer
        if not wide:
            with b.loop("turn", 0, turns_of(b, total, number, stride).name) as (inner, loop):
                self.variables(start, inner.add(number, inner.mul(loop.variable, stride)), counts, inner)
                copy.iteration(inner)
            return
        lanes, loops = lanes_of(wide), self.sums.nest.loops
        axis = start.out.axis(BESIDE if len(loops) > 1 else "item", lanes)
        pieces = b.op("div", total, b.const(lanes, "index"), name="pieces")
        in_pieces = [*counts[:-1], b.op("div", counts[-1], b.const(lanes, "index"))]
        turns = turns_of(b, pieces, number, stride)

        def read(at: Value, inner: Builder) -> tuple[list[Value], list[Value]]:
            """The digits of a piece, and what is read of it."""
            digits = [at] if len(loops) == 1 else self.digits(at, in_pieces, inner)
            self.outside(start, digits, inner)
            first = Affine.of(digits[-1].name) * lanes
            indices = [[*map(start.copy.form, op.index[:-1]), first + axis] for op in wide]
            return digits, [inner.load(start.values[op.mem], index) for op, index in zip(wide, indices, strict=True)]

        with b.loop("turn", 0, turns.name, PIECES) as (inner, loop):
            first = inner.add(number, inner.mul(loop.variable, stride))
            further = inner.op("lt", inner.add(first, stride), pieces)
            every = [read(at, inner) for at in (first, inner.select(further, inner.add(first, stride), first))]
            self.neighbours(start, copy, *every[0], wide, axis, inner)
            with inner.when(further) as more:
                self.neighbours(start, copy, *every[1], wide, axis, more)
        copy.there.clear()
        if len(loops) == 1:
            rest = b.index(Affine.of(pieces.name) * lanes + Affine.of(number.name))
            with b.when(b.op("lt", rest, total)) as inner:
                start.values[outer.variable] = inner.index(Affine.of(rest.name), outer.variable.name)
                copy.iteration(inner)

    def share(self, start: Start, copy: ScatterCopy, thread: Value, counts: Sequence[Value], b: Builder) -> None:
        """A block's share of the iterations, `EACH` of a thread."""
        first = Affine.of(start.number.name) * (start.threads * EACH)
        last = b.op("min", b.index(first + start.threads * EACH), b.product(counts))
        places = [b.index(first + thread.name + turn * start.threads) for turn in range(EACH)]
        with b.branch(b.op("lt", places[-1], last)) as (whole, part, _):
            self.together(start, copy, [partial(self.variables, start, place, counts) for place in places], whole)
            with part.loop("place", places[0].name, last.name, start.threads) as (inner, loop):
                self.variables(start, loop.variable, counts, inner)
                copy.iteration(inner)

    def neighbours(
        self, start: Start, copy: ScatterCopy, digits: Sequence[Value], tiles: Sequence[Value], wide: Sequence[Load], axis: str, b: Builder
    ) -> None:
        """Iterations side by side, of which some loads are there."""
        self.outside(start, digits, b)
        variable, lanes = self.sums.nest.inner.variable, lanes_of(wide)

        def enter(item: int, at: Builder) -> None:
            start.values[variable] = at.index(Affine.of(digits[-1].name) * lanes + item, variable.name)
            copy.there = {op: taken(at, tile, axis, item) for op, tile in zip(wide, tiles, strict=True)}

        self.together(start, copy, [partial(enter, item) for item in range(lanes)], b)

    def together(self, start: Start, copy: ScatterCopy, entries: Sequence[Callable[[Builder], None]], b: Builder) -> None:
        """Iterations whose variables `entries` make known: they are checked together, and have read all before they change anything.
        Where a check fails, or they store elsewhere, they are done one by one."""
        body = [*self.sums.nest.between, *self.sums.nest.inner.body.body]
        guarding, known, checked = copy.guarding, list[dict[Value, Value]](), b.const(True, "i1")
        last = max((place for place, op in enumerate(body, 1) if isinstance(op, Check)), default=0)
        if any(op.regions for op in body) or self.sums.other_stores or self.own or not self.sums.updates.keys().isdisjoint(body[:last]):
            self.one_by_one(copy, entries, b)
            return
        for enter in entries:
            enter(b)
            copy.guarding, copy.guard = True, None
            copy.all([op for place, op in enumerate(body) if place < last or op in copy.there], b)
            checked = checked if copy.guard is None else b.both(checked, copy.guard)
            known.append(dict(start.values))
        copy.guarding, copy.guard = guarding, None
        with b.branch(checked) as (yes, no, _):
            changes, put = list[ScatteredChange](), copy.put
            copy.put = lambda at, more: changes.extend(more)
            for values in known:
                start.values.update(values)
                copy.all([op for op in body[last:] if op not in copy.there], yes)
            copy.put = put
            put(yes, changes)
            self.one_by_one(copy, entries, no)

    def one_by_one(self, copy: ScatterCopy, entries: Sequence[Callable[[Builder], None]], b: Builder) -> None:
        for enter in entries:
            enter(b)
            copy.iteration(b)

    def outside(self, start: Start, digits: Sequence[Value], b: Builder) -> None:
        """The variables of the loops around the innermost one."""
        for loop, digit in zip(self.sums.nest.loops[:-1], digits, strict=False):
            start.copy.variable(loop, digit, b)

    def variables(self, start: Start, flat: Value, counts: Sequence[Value], b: Builder) -> None:
        """The variables of the loops, from the number of an iteration."""
        for loop, digit in zip(self.sums.nest.loops, self.digits(flat, counts, b), strict=True):
            start.copy.variable(loop, digit, b)

    def digits(self, flat: Value, counts: Sequence[Value], b: Builder) -> list[Value]:
        few = most_elements([iterations(loop) for loop in self.sums.nest.loops], self.facts)
        return list((small_digits if few is not None and few < 1 << 32 else Builder.digits)(b, flat, counts[1:]))

    # ---- memories apart ----

    def each_cell(
        self, method: ScatterSum, name: str, act: Callable[[Builder, Start, ScatterSum, Sequence[Affine], Value], None]
    ) -> Launch:
        """A thread for each element of a memory."""
        start = Start(self.around, f"{self.number}_{method.mem.name}_{name}", (BLOCK, 1, 1))
        b, cells = start.out.body, mem_of(method.mem).dims
        dims = [b.count(start.copy.form(dim)) for dim in cells]
        number, terms = b.index(start.place, "place"), self.terms(start)
        with b.when(b.op("lt", number, b.product(dims))) as inner:
            act(inner, start, method, [Affine.of(digit.name) for digit in inner.digits(number, dims[1:])], terms)
        return start.finish(tuple(cells), BLOCK)

    def clear(self, b: Builder, start: Start, method: ScatterSum, index: Sequence[Affine], terms: Value) -> None:
        for target in (*method.before, *method.targets):
            b.store(memory_of(target, start), b.const(target.nothing, target.dtype), index)

    def join(self, b: Builder, start: Start, method: ScatterSum, index: Sequence[Affine], terms: Value) -> None:
        mem = start.values[method.mem]
        new = method.joined(b, b.load(mem, index), lambda target: b.load(memory_of(target, start), index), terms)
        b.store(mem, new, index)
