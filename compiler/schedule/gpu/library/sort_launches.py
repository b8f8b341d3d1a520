"""The launches of a sort: a block a line where that fits, passes over all lines by digits where they are long, merges where they are very
short; which, and for how many elements, is known from the launch's sizes."""

from collections.abc import Callable, Sequence
from enum import Enum

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.instruction import Value
from compiler.hir.library import Sort
from compiler.hir.memory import mem_of
from compiler.hir.types import DTYPES, INDEX
from compiler.machines.gpu import Feature
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.indices import thread_index
from compiler.schedule.gpu.lanes import power_of_two
from compiler.schedule.gpu.library.sort_block import LONGEST, RESIDENT, SHORTEST, BlockSort, shape_of
from compiler.schedule.gpu.library.sort_pass import Pass
from compiler.schedule.gpu.library.sort_source import SortNest, SortSource, Stored
from compiler.schedule.gpu.library.sorting import (
    COUNTED,
    DIGIT,
    DIGITS,
    FEWEST,
    PASS_THREADS,
    THREADS,
    TURNS,
    WARP,
    SortedLines,
    count_digits,
    items_of,
    line_of,
    shifts,
)
from compiler.schedule.gpu.scattered.scatter_targets import most_elements
from compiler.schedule.launches import CountedSort, Either, Launch, SortPasses
from compiler.schedule.stages import Around, Group, Start
from compiler.schedule.threads import sort_passes
from runtime.records import evolve, frozen

BLOCKS = 2
"""Blocks that a multiprocessor holds at once, at least: while one waits another works."""

FEW_THREADS = 1024
"""Threads of a multiprocessor up to which registers aren't kept to several blocks of a sort."""

Build = Callable[[Start, Builder, SortedLines, Value, Value], None]
"""Builds a launch: its beginning, its body, the line of the block, the block's number in the line and the thread's in the block."""


class SortMethod(Enum):
    """How lines are sorted, and the words that say so."""

    MERGED = "lines are merged"
    BLOCK = "a block sorts a line"
    DIGITS = "lines are sorted by digits"
    EITHER = f"lines of {FEWEST} elements or more are sorted by digits, shorter ones merged"


def way_of(sort: Sort, facts: Facts) -> SortMethod:
    if facts.machine.lanes != WARP or not facts.machine.has(Feature.BLOCK_ORDER):
        return SortMethod.MERGED
    most = longest(sort, facts)
    if most is None:
        return SortMethod.EITHER
    return SortMethod.MERGED if most <= SHORTEST else SortMethod.BLOCK if most <= LONGEST else SortMethod.DIGITS


def longest(sort: Sort, facts: Facts) -> int | None:
    """Elements of a line at most, a power of two; None where nothing is known of its extent."""
    extent = mem_of(sort.keys).dims[sort.axis]
    known = dict(facts.magnitudes)
    if any(not isinstance(symbol, str) or factor < 0 or symbol not in known for symbol, factor in extent.terms):
        return None
    return 1 << max(0, extent.evaluate(known.__getitem__) - 1).bit_length()


def sort_stage(
    around: Around, group: Group, number: int, facts: Facts, nest: SortNest | None, fill: Sequence[Launch | Either]
) -> CountedSort | SortPasses | Launch:
    """The stage of a group that sorts; `nest`: where the elements come from, where `fill` needn't have stored them."""
    assert group.sort is not None
    most = most_elements(mem_of(group.sort.keys).dims, facts)
    turns = TURNS if most is None else max(1, min(TURNS, power_of_two(most // (COUNTED * THREADS * facts.processors))))
    making = _Making(around, group.sort, group.counts, number, nest, facts.machine.threads > FEW_THREADS, turns, most)
    match way_of(group.sort, facts):
        case SortMethod.MERGED:
            return sort_passes(around, group.sort, number)
        case SortMethod.BLOCK:
            return making.by_blocks(longest(group.sort, facts) or 1)
        case SortMethod.DIGITS:
            return making.counted((), None)
        case _:
            return making.counted(fill, sort_passes(around, group.sort, number))


@frozen
class _Making:
    """The launches of one sort."""

    around: Around
    sort: Sort
    counts: Value | None
    number: int
    nest: SortNest | None
    late: bool
    """Whether several blocks of a sort fit a multiprocessor."""
    turns: int
    """How often a block counts."""
    most: int | None
    """Elements of all lines, at most."""

    @property
    def memories(self) -> list[Value]:
        return [self.sort.keys, *self.sort.payload]

    @property
    def dims(self) -> tuple[Affine, ...]:
        return mem_of(self.sort.keys).dims

    @property
    def extent(self) -> Affine:
        return self.dims[self.sort.axis]

    def launch(self, name: str, each: Affine, build: Build, threads: int = THREADS, resident: int | None = None) -> Launch:
        """A launch of as many blocks as `each` says for each line."""
        start = Start(self.around, f"{self.number}_{name}" if name else str(self.number), (threads, 1, 1))
        b = start.out.body
        known = None if self.counts is None else start.workspaces[self.around.others[self.counts]]
        thread = thread_index(b)
        blocks = b.index(start.copy.form(each))
        lines, block = line_of(b, self.sort, known, start.values[self.sort.keys], start.number, blocks)
        build(start, b, lines, block, thread)
        launch = start.finish((*(dim for axis, dim in enumerate(self.dims) if axis != self.sort.axis), each), 1)
        info = launch.function.kernel_info
        assert info is not None and info.launch_bounds is not None
        bounds = evolve(info.launch_bounds, min_blocks_per_sm=resident if self.late else None)
        launch.function.kernel_info = evolve(info, launch_bounds=bounds)
        return launch

    def source(self, start: Start) -> SortSource:
        if self.nest is None:
            return Stored([start.values[memory] for memory in self.memories])
        return self.nest.from_values(start.values, start.copy.form)

    # ---- a block a line ----

    def by_blocks(self, most: int) -> Launch:
        threads, items = shape_of(most)

        def build(start: Start, b: Builder, lines: SortedLines, block: Value, thread: Value) -> None:
            there = [start.values[memory] for memory in self.memories]
            BlockSort(b, lines, self.source(start), there, thread, threads, start.out.axis("item", items), items).build()

        return self.launch("", Affine((), 1), build, threads, RESIDENT // threads)

    # ---- passes over all lines ----

    def counted(self, fill: Sequence[Launch | Either], merges: SortPasses | None) -> CountedSort:
        assert DIGITS == THREADS and self.counts is not None
        passes = shifts(self.sort)
        if self.nest is not None and -(-(self.sort.bits or DTYPES[mem_of(self.sort.keys).dtype]) // DIGIT) % 2:
            passes = passes[:-1]  # the first pass may go either way
        odd = len(passes) % 2
        return CountedSort(
            self.extent,
            tuple(fill),
            merges,
            self.launch("clear", mem_of(self.counts).dims[-2], _clear),
            self.launch("count", self.extent.ceildiv(self.turns * COUNTED * THREADS), self.count),
            self.moved("only" if odd else "first"),
            self.moved("there" if odd else "back") if len(passes) > 1 else None,
            self.moved("back" if odd else "there") if len(passes) > 2 else None,
            passes,
            FEWEST,
        )

    def count(self, start: Start, b: Builder, lines: SortedLines, block: Value, thread: Value) -> None:
        count_digits(b, lines, self.source(start), block, thread, start.out.axis("item", COUNTED), self.turns)

    def moved(self, direction: str) -> Launch:
        """A pass from the source (`only` one, or the first of an odd number; `first` of an even one), or one way between the sorted
        memories and their second ones."""
        items = items_of(self.sort, self.most)

        def build(start: Start, b: Builder, lines: SortedLines, block: Value, thread: Value) -> None:
            own = [start.values[memory] for memory in self.memories]
            second = [start.workspaces[self.around.others[memory]] for memory in self.memories]
            turn, shift = start.out.parameter("turn", INDEX), start.out.parameter("shift", INDEX)
            here = self.source(start) if direction in ("first", "only") else Stored(second if direction == "back" else own)
            there = own if direction in ("back", "only") else second
            Pass(b, lines, here, there, turn, shift, thread, start.out.axis("item", items), items).build()

        return self.launch(f"digits_{direction}", self.extent.ceildiv(PASS_THREADS * items), build, PASS_THREADS, BLOCKS)


def _clear(start: Start, b: Builder, lines: SortedLines, block: Value, thread: Value) -> None:
    b.store(lines.counts, b.const(0, "u64"), lines.count(Affine.of(block.name), Affine.of(thread.name)))
