"""Nests that keep their loops, as launches of blocks. A leading nest of parallel loops becomes the grid: a block an iteration, whose
threads share the loops inside (`cooperate.py`), or a thread an iteration where there is little to share. A reduction at the top is
shared by a grid of threads, whose blocks leave a partial result each; one block joins those in order. All else is the work of one
block, or of one thread where nothing in it can be shared.

Who does what depends on sizes alone: the same sizes give the same bits on every device."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod

from compiler.analysis.dependence import LoopKind, NestFacts, analyse
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For
from compiler.hir.core import dtype_of
from compiler.hir.instruction import Region, Value
from compiler.hir.library import Sort
from compiler.hir.memory import Alloc, MakeSlot, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Slot
from compiler.schedule.chunks import chunked_loops
from compiler.schedule.copying import privately
from compiler.schedule.disjoint_rows import marked_in, with_disjoint_rows
from compiler.schedule.gpu.facts import NOTHING, Facts
from compiler.schedule.gpu.library.sort_launches import SortMethod, sort_stage, way_of
from compiler.schedule.gpu.library.sort_source import SortNest, nest_of
from compiler.schedule.gpu.marches.marching import march_of, marched
from compiler.schedule.gpu.marches.staged_march import staged_march
from compiler.schedule.gpu.marches.staged_march_launch import launch_staged
from compiler.schedule.gpu.nests.barriers import Barriers
from compiler.schedule.gpu.nests.cooperate import Cooperation, are_long, counts_of, fits_a_thread, in_words, threads_for_loops
from compiler.schedule.gpu.nests.disjoint_launches import DisjointLaunches, mark_memory, where_not_late
from compiler.schedule.gpu.nests.nest_units import counted_in_units
from compiler.schedule.gpu.nests.spread import Spread, extents_of, is_contiguous, leading_of, spread_of, spreads_in
from compiler.schedule.gpu.nests.turns import in_turns, turns_of
from compiler.schedule.gpu.nests.workgroup_tiles import Tiles
from compiler.schedule.gpu.pieces import align
from compiler.schedule.gpu.ragged.flat_rows import with_flat_rows
from compiler.schedule.gpu.ragged.ragged import RowShape, mean_row, row_shape, walked_extents
from compiler.schedule.gpu.ragged.ragged_launches import RaggedRows
from compiler.schedule.gpu.ragged.ragged_parts import RowParts, row_parts
from compiler.schedule.gpu.ragged.ragged_running import running_rows
from compiler.schedule.gpu.ragged.staged_rows import StagedRows, staged_rows
from compiler.schedule.gpu.scattered.scatter_sums import ScatterSum
from compiler.schedule.gpu.scattered.scattered import ScatteredSums, is_relaxed, scattered_sums
from compiler.schedule.gpu.scattered.scattered_launches import Scattering
from compiler.schedule.gpu.scattered.sorted_row_sums import SortedRowNest, SortedRowSums, left_of_shares, runs_of_rows
from compiler.schedule.gpu.scattered.sorted_rows import methods_of, rows_to_sort, with_sorted_rows
from compiler.schedule.gpu.tiles.reduction import block_reduced, combined, identities, slots
from compiler.schedule.launches import LONG, MANY, Either, Launch, Launches, Stage
from compiler.schedule.region import NotPlaceable
from compiler.schedule.stages import Around, Dims, Group, Start, iterations, stages_of
from compiler.schedule.threads import BLOCK
from runtime.records import Factory, define

ALONE = 1024
"""Threads of a block that does everything there is to do."""
PARTS = 256
"""Partial results of a reduction, at most: blocks enough for a large GPU, and one turn of the block that joins them."""
EACH = 4
"""Iterations of a reduction that each thread does before another block is worth it."""


def nest_launches(nest: HirFunction, facts: NestFacts, known: Facts = NOTHING) -> Launches:
    """The launches of a nest in form A; `known`: of the launch's sizes. Raises `NotPlaceable` for what no thread can do."""
    nest, facts = with_flat_rows(nest, facts, known)
    marked, known_facts = with_disjoint_rows(nest, facts, once=True)
    if marked is not nest:
        scheduling = _Scheduling(marked, known_facts, known)
        with suppress(NotPlaceable):
            launches = scheduling.run()
            if all(op in scheduling.marks for op in marked.body.body if marked_in(op) is not None):
                return launches
    sorted_: dict[For, SortedRowNest] = {}
    for op in [op for op in nest.body.body if isinstance(op, For)]:
        if (found := rows_to_sort(op, nest, facts, known)) is not None:
            nest, keys, rows = with_sorted_rows(nest, found)
            sorted_[op] = SortedRowNest(found, keys, rows, left_of_shares(found, known), runs_of_rows(found, known))
    return _Scheduling(nest, analyse(nest) if sorted_ else facts, known, sorted=sorted_).run()


@define(eq=False)
class _Scheduling:
    nest: HirFunction
    facts: NestFacts
    known: Facts
    words: list[str] = Factory(list)
    scattered: dict[For, ScatteredSums] = Factory(dict)
    """Loops whose iterations meet in elements that data name."""
    shapes: dict[For, RowShape] = Factory(dict)
    staged: dict[For, StagedRows] = Factory(dict)
    parted: dict[For, RowParts | None] = Factory(dict)
    """Leading loops whose rows data bound, and how."""
    methods: dict[For, tuple[ScatterSum, ...]] = Factory(dict)
    sorted: dict[For, SortedRowNest] = Factory(dict)
    """Those whose rows are sorted first."""
    marks: dict[For, Value] = Factory(dict)
    """What says that rows of a leading loop aren't disjoint."""

    def run(self) -> Launches:
        alone = {op: spread for op in self.nest.body.body if isinstance(op, For) and (spread := self.on_grid(op)) is not None}
        around = self.groups(alone)
        if self.mixes_slots(around, alone):
            alone = {}
            self.scattered.clear()
            self.marks.clear()
            around = self.groups(alone)
            if self.mixes_slots(around, alone):
                raise NotPlaceable("a variable that is used before and after a sort")
        stages: list[Stage] = []
        for number, group in enumerate(around.groups):
            if group.sort is not None:
                nest = self.filling(around, number, alone)
                fill = [stage for stage in (stages.pop(),) if isinstance(stage, Launch | Either)] if nest is not None else []
                stages.append(sort_stage(around, group, number, self.known, nest, fill))
                if nest is not None:
                    self.words.append("what is sorted is computed where it is read first")
                self.words.append(way_of(group.sort, self.known).value)
            elif group.loop is None:
                stages.append(self.rest(around, group, number))
            elif group.loop in self.scattered:
                stages += self.scattering(around, group, number)
            elif self.is_reduction(group.loop):
                stages += self.reduction(around, group, number, alone[group.loop])
            else:
                stages += self.leading(around, group, number, alone[group.loop])
        counts = (*(parts.taken for parts in self.parted.values() if parts is not None), *self.marks.values())
        zeros = frozenset(around.others[value] for value in counts if value in around.others)
        words = "the nest as written", *self.words
        whole = frozenset(rows.found.target.name for rows in self.sorted.values() if rows.found.whole)
        launches = Launches(tuple(stages), tuple(around.memories), words, zeros=zeros, covered=whole)
        return counted_in_units(launches, self.nest, self.known)

    def filling(self, around: Around, number: int, alone: Mapping[For, Spread]) -> SortNest | None:
        """The nest in front of a sort, where it does nothing but compute the elements."""
        sort, before = around.groups[number].sort, around.groups[number - 1] if number else None
        if sort is None or before is None or before.loop is None or before.body != [before.loop] or before.again:
            return None
        if before.loop not in alone or before.loop in self.scattered or way_of(sort, self.known) is SortMethod.MERGED:
            return None
        known = {*self.nest.parameters, *(op.result for op in around.shared), *(result for op in around.pure for result in op.results)}
        return nest_of(sort, alone[before.loop], known)

    # ---- which launches ----

    def on_grid(self, op: For) -> Spread | None:
        """The loops at the top that blocks or threads of a grid share; None where there are none."""
        sums = scattered_sums(op, self.facts)
        if sums is not None and fits_a_thread(self.memories_in(sums.nest)):
            self.scattered[op] = sums
            return sums.nest
        if not self.is_reduction(op):
            return leading_of(op, self.facts)
        spread = spread_of(op, self.facts)
        cells = [cell for fold in spread.folds for cell in fold.cells] if spread is not None else []
        return None if any(isinstance(cell.type, Slot) for cell in cells) else spread

    def is_reduction(self, op: For) -> bool:
        return self.facts.loops[op].kind is LoopKind.REDUCTION and op not in self.scattered

    def groups(self, alone: Mapping[For, Spread]) -> Around:
        def partial(op: For) -> dict[Value, Mem]:
            if op in self.sorted:
                return self.sorted[op].memories
            if op in self.scattered:
                targets = (target for method in self.methods[op] for target in (*method.before, *method.targets))
                return {target.apart: mem_of(target.apart) for target in targets if target.apart is not None}
            if not self.is_reduction(op):
                parts, marks = self.ragged(alone[op]), [self.marks.setdefault(op, mark_memory())] if marked_in(op) is not None else []
                return {**(parts.memories if parts is not None else {}), **{mark: mem_of(mark) for mark in marks}}
            return {cell: Mem(dtype_of(cell), (PARTS,)) for fold in alone[op].folds for cell in fold.cells}

        def in_place(sort: Sort) -> bool:
            return way_of(sort, self.known) is SortMethod.BLOCK

        relaxed = is_relaxed(self.nest)
        for op, sums in self.scattered.items():
            self.methods[op] = methods_of(sums, relaxed, self.known)
        return stages_of(self.nest, alone.__contains__, self.is_reduction, partial, in_place)

    def mixes_slots(self, around: Around, alone: Mapping[For, Spread]) -> bool:
        """Whether a variable of the top level lives in two launches."""
        slots = [op.result for op in self.nest.body.body if isinstance(op, MakeSlot)]
        return any(
            slot not in privately_in(group, alone, self.facts) and not group.defines(slot) and group.uses(slot)
            for slot in slots
            for group in around.groups
        )

    def scattering(self, around: Around, group: Group, number: int) -> list[Launch]:
        assert group.loop is not None
        sums = self.scattered[group.loop]
        if group.loop in self.sorted:
            rows = SortedRowSums(around, number, sums, self.sorted[group.loop], self.known)
            self.words.append(rows.words())
            return rows.launches()
        scattering = Scattering(around, group, number, sums, self.methods[group.loop], tuple(self.own(sums.nest)), self.known)
        self.words.append(scattering.words())
        return scattering.launches()

    # ---- a leading nest ----

    def ragged(self, nest: Spread) -> RowParts | None:
        """Looks how threads share rows whose bounds data decide; the memories of rows that blocks share."""
        if nest.outer not in self.parted:
            body, parts = [*nest.between, *nest.inner.body.body], None
            spreads = {**spreads_in(nest.inner.body, self.facts), **running_rows(body, self.facts)}
            bounded = not spreads or extents_of(spreads, self.facts, nest.loops) is not None
            shape = None
            if not bounded and fits_a_thread(self.memories_in(nest)) and self.block(BLOCK) == (BLOCK, 1, 1):
                shape = row_shape(nest, spreads, self.facts, self.known)
            if shape is not None and (staged := staged_rows(nest, spreads, shape, self.known)) is not None:
                shape, self.staged[nest.outer] = staged
            if shape is not None:
                self.shapes[nest.outer] = shape
                if (shape.long is not None or shape.by_block) and not self.own(nest):
                    walked = [extent for spread in spreads.values() for _, extent in walked_extents(spread, self.facts)]
                    parts = row_parts(body, spreads, walked, self.facts, self.known, shape.threads)
            self.parted[nest.outer] = parts
        return self.parted[nest.outer]

    def leading(self, around: Around, group: Group, number: int, nest: Spread) -> Sequence[Launch | Either]:
        """The iterations of a leading nest, where rows have to be disjoint behind a look whether they are."""
        stages, loop = self.independent(around, group, number, nest), marked_in(nest.outer)
        if loop is None:
            return stages
        self.words.append(f"where a row of {loop.written} ends behind the beginning of the next one, which is looked at before: one block")
        disjoint = DisjointLaunches(loop, self.marks[nest.outer], around, group, self.facts, self.known.machine.lanes)
        behind, shape = disjoint.in_order(f"{number}_in_order"), self.shapes.get(nest.outer)
        stages = [where_not_late(stage, disjoint) for stage in stages] if shape is None or shape.by_block else stages
        return [disjoint.looking(f"{number}_looking"), *stages, behind]

    def independent(self, around: Around, group: Group, number: int, nest: Spread) -> Sequence[Launch | Either]:
        """A block an iteration or a thread an iteration; where sizes decide, both."""
        names = ", ".join(loop.variable.name for loop in nest.loops)
        body = nest.inner.body
        spreads = spreads_in(body, self.facts)
        threadable = fits_a_thread(self.memories_in(nest))
        if not spreads and threadable and nest.outer not in self.shapes:
            self.words.append(f"{names}: a thread an iteration")
            return [self.threads(around, group, f"{number}", nest)]
        if (shape := self.shapes.get(nest.outer)) is not None:
            spreads |= running_rows(body.body, self.facts)
            self.words.append(shape.words(names, in_words(spreads)))
            staged, own = self.staged.get(nest.outer), tuple(self.own(nest))
            parts, late = self.parted[nest.outer], self.marks.get(nest.outer)
            rows = RaggedRows(nest, spreads, shape, parts, staged, own, self.facts, self.known, late)
            return rows.launches(around, group, f"{number}")
        extents = extents_of(spreads, self.facts, nest.loops)
        contiguous = is_contiguous(spreads, nest.loops, self.facts)
        inner = in_words(spreads)
        if not threadable or extents is None or (contiguous and are_long(extents)):
            self.words.append(f"{names}: a block an iteration, its threads share {inner}")
            return [self.blocks(around, group, f"{number}", nest, spreads)]
        if all(e.value is not None and e.value < LONG for e in extents):
            self.words.append(f"{names}: a thread an iteration, because {inner} is short")
            return [self.threads(around, group, f"{number}", nest)]
        many = "" if contiguous else f", or from {MANY} iterations on, since memory is contiguous along {nest.inner.variable.name}"
        self.words.append(
            f"{names}: a block an iteration, its threads share {inner}; a thread an iteration where that is shorter than {LONG}{many}"
        )
        blocks = self.blocks(around, group, f"{number}", nest, spreads)
        return [Either(blocks, self.threads(around, group, f"{number}_threads", nest), tuple(extents), contiguous)]

    def memories_in(self, nest: Spread) -> list[Value]:
        own = [op.result for op in nest.outer.walk() if isinstance(op, Alloc)]
        return [*own, *(value for value in self.own(nest) if isinstance(value.type, Mem))]

    def own(self, nest: Spread) -> list[Value]:
        """Slots and scratch memories that each iteration has for itself."""
        return list(dict.fromkeys(value for loop in nest.loops for value in privately(self.facts.loops[loop])))

    def blocks(
        self, around: Around, group: Group, name: str, nest: Spread, spreads: Mapping[For, Spread]
    ) -> Launch:
        start = Start(around, name, self.block(threads_for_loops(self.lengths(nest, spreads), self.known.machine.lanes)))
        align(start, self.known)
        b, body = start.out.body, nest.inner.body
        start.take(group, b)
        work = self.cooperation(start, Region([], [*nest.between, *body.body]), spreads)
        work.digits(nest, start.number, counts_of(nest, start.copy, b), b)
        work.own(self.own(nest), b)
        work.all([*nest.between, *body.body], b)
        return start.finish(tuple(iterations(loop) for loop in nest.loops), 1, work.dynamic)

    def lengths(self, nest: Spread, spreads: Mapping[For, Spread]) -> list[int | None]:
        """How long loops are that threads share: at most, or about twice the mean where data bound them; None of those of which nothing is
        known."""
        sizes, lengths = dict(self.known.magnitudes), list[int | None]()
        for loop, spread in spreads.items():
            extents = extents_of({loop: spread}, self.facts, nest.loops)
            if extents is None:
                lengths.append(2 * mean_row(nest, spread, self.facts, self.known))
            else:
                lengths.append(self.known.about(extents[0]) if sizes.keys() >= set(extents[0].names) else None)
        return lengths

    def threads(self, around: Around, group: Group, name: str, nest: Spread) -> Launch:
        few = self.threads_for(nest)
        marches = {march.loop: march for op in nest.inner.body.body if (march := march_of(op, 4 * few <= BLOCK)) is not None}
        free = not self.own(nest) and self.block(BLOCK) == (BLOCK, 1, 1)
        march = next(iter(marches.values()), None)
        if free and (plan := staged_march(nest, march, few, self.known)) is not None:
            start = Start(around, name, (plan.threads, 1, 1))
            rows = ", and rows that lines share" if plan.rows else ""
            self.words.append(f"blocks of {plan.lines} lines, whose other threads bring {plan.steps} steps at once{rows}")
            return launch_staged(plan, nest, self.cooperation(start, Region(), {}), start, group, self.known)
        turns = turns_of(nest, self.facts, self.known) if self.block(BLOCK) == (BLOCK, 1, 1) and not self.own(nest) else None
        threads = few if marches else BLOCK
        start = Start(around, name, self.block(threads))
        b = start.out.body
        work = self.cooperation(start, Region(), {})
        if turns is not None:
            self.words.append(turns.words())
            return in_turns(work, turns, start, group, counts_of(nest, start.copy, b), b)
        tiles = Tiles(nest, start.block) if len(nest.loops) > 1 and start.block[1:] != (1, 1) else None
        counts = counts_of(nest, start.copy, b)
        number = b.index(start.place, "place")
        inside = b.op("lt", number, b.product(counts)) if tiles is None else tiles.inside(work, counts, b)
        with b.when(inside) as inner:
            start.take(group, inner)
            if tiles is None:
                work.digits(nest, number, counts, inner)
            for value in self.own(nest):
                if isinstance(value.type, Slot):
                    start.values[value] = inner.slot(inner.const(0, value.type.dtype), value.name)
                else:
                    start.values[value] = inner.alloc(mem_of(value), value.name)
            start.copy.all(nest.between, inner)
            for op in nest.inner.body.body:
                if isinstance(op, For) and op in marches:
                    marched(marches[op], start.copy, inner)
                else:
                    start.copy.one(op, inner)
        if tiles is not None:
            return start.finish(tiles.blocks, 1)
        return start.finish(tuple(iterations(loop) for loop in nest.loops), start.threads)

    # ---- a reduction at the top ----

    def reduction(self, around: Around, group: Group, number: int, nest: Spread) -> list[Launch | Either]:
        names = ", ".join(loop.variable.name for loop in nest.loops)
        join = "a partial result a block, which one block joins in order"
        spreads = spreads_in(nest.inner.body, self.facts)
        extents = extents_of(spreads, self.facts, nest.loops)
        if not spreads or (extents is not None and all(e.value is not None and e.value < LONG for e in extents)):
            self.words.append(f"{names}: shared by a grid of threads, {join}")
            parts: Launch | Either = self.parts(around, group, f"{number}_parts", nest, EACH)
            return [parts, self.joined(around, group, f"{number}_joined", nest, EACH)]
        parts = self.parts_of_blocks(around, group, f"{number}_parts", nest, spreads)
        contiguous = is_contiguous(spreads, nest.loops, self.facts)
        choice = ""
        if fits_a_thread(self.memories_in(nest)) and extents is not None and not (contiguous and are_long(extents)):
            choice = f", or threads where that is shorter than {LONG}"
            parts = Either(parts, self.parts(around, group, f"{number}_parts_threads", nest, 0), tuple(extents), contiguous)
        self.words.append(f"{names}: shared by blocks whose threads share {in_words(spreads)}{choice}; {join}")
        return [parts, self.joined(around, group, f"{number}_joined", nest, 0)]

    def parts_of_blocks(
        self, around: Around, group: Group, name: str, nest: Spread, spreads: Mapping[For, Spread]
    ) -> Launch:
        """Each block takes iterations as a whole."""
        start = Start(around, name, self.block(threads_for_loops(self.lengths(nest, spreads), self.known.machine.lanes)))
        b = start.out.body
        blocks = self.shares(start, nest, 0, b)
        start.take(Group([nest.outer], again=group.again), b)
        work = self.cooperation(start, Region([], [nest.outer]), spreads)
        work.own(self.own(nest), b)
        with work.walk(nest, start.number, blocks, work.started(nest, b), b) as (inner, outer):
            for loop in nest.loops:
                start.values.update(zip(loop.body.parameters[1:], outer.carried, strict=True))
            work.all([*nest.between, *nest.inner.body.body], inner)
        with b.when(work.first) as inner:
            for cell, value in zip(nest.outer.body.parameters[1:], outer.results, strict=True):
                if cell in around.others:
                    inner.store(start.workspaces[around.others[cell]], value, [start.number.name])
        return start.finish((Affine.of(blocks.name),), 1, work.dynamic)

    def parts(self, around: Around, group: Group, name: str, nest: Spread, each: int) -> Launch:
        """Each thread takes iterations."""
        start = Start(around, name, self.block(BLOCK))
        b = start.out.body
        blocks = self.shares(start, nest, each, b)
        start.take(Group([nest.outer], again=group.again), b)
        work = self.cooperation(start, Region(), {})
        start.values.update((cell, start.values[old]) for cell, old in zip(nest.outer.body.parameters[1:], nest.outer.carried, strict=True))
        stride = b.mul(blocks, b.const(start.threads, "index"))
        totals = work.share(nest, b.index(start.place, "place"), stride, b)
        for fold, values in zip(nest.folds, totals, strict=True):
            through = slots(b, start.threads, fold.dtypes, work.lanes)
            total = block_reduced(b, fold.monoid, values, work.thread, start.threads, through, work.lanes)
            with b.when(work.first) as inner:
                for cell, value in zip(fold.cells, total, strict=True):
                    inner.store(start.workspaces[around.others[cell]], value, [start.number.name])
        return start.finish((Affine.of(blocks.name),), 1)

    def joined(self, around: Around, group: Group, name: str, nest: Spread, each: int) -> Launch:
        """The partial results joined in order, then what follows the loop."""
        start = Start(around, name, self.block(BLOCK))
        b = start.out.body
        blocks = self.shares(start, nest, each, b)
        start.take(group, b)
        rest = group.body[1:]
        spreads = spreads_in(Region([], rest), self.facts)
        work = self.cooperation(start, Region([], rest), spreads)
        for cell, old, result in zip(nest.outer.body.parameters[1:], nest.outer.carried, nest.outer.results, strict=True):
            start.values[cell] = start.values[result] = start.values[old]
        for fold in nest.folds:
            nothing = identities(b, fold.monoid, fold.dtypes)
            with b.loop("part", work.thread.name, blocks.name, start.threads, nothing) as (inner, outer):
                read = [inner.load(start.workspaces[around.others[cell]], [outer.variable.name]) for cell in fold.cells]
                inner.yield_(*combined(inner, fold.monoid, outer.carried, read))
            through = slots(b, start.threads, fold.dtypes, work.lanes)
            total = block_reduced(b, fold.monoid, outer.results, work.thread, start.threads, through, work.lanes)
            work.after(fold, nest, combined(b, fold.monoid, [start.values[cell] for cell in fold.cells], total), b)
        work.all(rest, b)
        start.give(group, b, work.first)
        return start.finish((Affine((), 1),), 1, work.dynamic)

    def shares(self, start: Start, nest: Spread, each: int, b: Builder) -> Value:
        """How many blocks share the loops, one partial result each: as many as give each thread `each` iterations, or (0) a block for each
        iteration, up to the most there are."""
        total = b.product(counts_of(nest, start.copy, b))
        share = start.threads * each if each else 1
        wanted = b.op("div", b.add(total, b.const(share - 1, "index")), b.const(share, "index"))
        return b.op("max", b.op("min", wanted, b.const(PARTS, "index")), b.const(1, "index"), name="blocks")

    # ---- what is left ----

    def rest(self, around: Around, group: Group, number: int) -> Launch:
        spreads = spreads_in(Region([], group.body), self.facts)
        if not spreads and any(isinstance(op, For) and chunked_loops(op, self.facts) is not None for op in group.body):
            raise NotPlaceable("a reduction into memory, of which each chunk gets a copy")
        if not spreads:
            return self.one_thread(around, group, f"{number}")
        self.words.append(f"what is left: one block, its threads share {in_words(spreads)}")
        start = Start(around, f"{number}", self.block(ALONE))
        b = start.out.body
        start.take(group, b)
        work = self.cooperation(start, Region([], group.body), spreads)
        work.all(group.body, b)
        start.give(group, b, work.first)
        return start.finish((Affine((), 1),), 1, work.dynamic)

    def one_thread(self, around: Around, group: Group, name: str) -> Launch:
        start = Start(around, name, self.block(1))
        b = start.out.body
        with b.when(b.op("eq", b.index(start.place), b.const(0, "index"))) as inner:
            start.take(group, inner)
            start.copy.all(group.body, inner)
            start.give(group, inner)
        return start.finish((Affine((), 1),), 1)

    # ---- helpers ----

    def cooperation(self, start: Start, region: Region, spreads: Mapping[For, Spread]) -> Cooperation:
        barriers = Barriers(self.facts, spreads)
        barriers.place(region)
        return Cooperation(start, spreads, barriers, self.known.machine.lanes)

    def threads_for(self, nest: Spread) -> int:
        """Threads of a block that leave blocks for all multiprocessors, where there are few iterations."""
        total = prod(max(1, self.known.about(self.facts.nest.of_loop(loop).extent)) for loop in nest.loops)
        threads = BLOCK
        while threads > self.known.machine.lanes and total < 2 * threads * self.known.processors:
            threads //= 2
        return threads

    def block(self, threads: int) -> Dims:
        """The threads of a block: the program's `@workgroup`, or as many as suit."""
        info = self.nest.kernel_info
        return info.workgroup if info is not None and info.workgroup is not None else (threads, 1, 1)


def privately_in(group: Group, alone: Mapping[For, Spread], facts: NestFacts) -> set[Value]:
    """What each iteration of a group's loop has for itself."""
    loops = alone[group.loop].loops if group.loop is not None and group.loop in alone else ()
    return {value for loop in loops for value in privately(facts.loops[loop])}
