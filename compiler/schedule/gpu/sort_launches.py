"""The launches of a sort: by digits where lines are long, by merges where they are short."""

from collections.abc import Callable

from attrs import evolve

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import GridIndex
from compiler.hir.instruction import Value
from compiler.hir.memory import mem_of
from compiler.hir.types import INDEX
from compiler.schedule.gpu.sort_pass import Pass
from compiler.schedule.gpu.sorting import (
    PASS_THREADS,
    COUNTED,
    DIGITS,
    FEWEST,
    THREADS,
    TURNS,
    Lines,
    count_digits,
    items_of,
    line_of,
    shifts,
)
from compiler.schedule.launches import CountedSort, Launch
from compiler.schedule.stages import Around, Group, Start
from compiler.schedule.threads import sort_passes

import os
RESIDENT = int(os.environ.get('SORT_RESIDENT', '2'))
"""Blocks that a multiprocessor holds at once, at least: while one waits another works."""

Build = Callable[[Start, Builder, Lines, Value, Value], None]
"""Builds a launch: its beginning, its body, the line of the block, the block's number in the line and the thread's in the block."""


def counted_sort(around: Around, group: Group, number: int) -> CountedSort:
    """The stage of a group that sorts."""
    sort, counts = group.sort, group.counts
    assert sort is not None and counts is not None
    memories = [sort.keys, *sort.payload]
    extent = mem_of(sort.keys).dims[sort.axis]
    items = items_of(sort)

    def launch(name: str, each: Affine, build: Build, threads: int = THREADS, resident: int | None = None) -> Launch:
        """A launch of as many blocks as `each` says for each line."""
        start = Start(around, f"{number}_{name}", (threads, 1, 1))
        b = start.out.body
        known = start.workspaces[around.others[counts]]
        thread = b.emit(GridIndex(operator="thread_idx", dim="x")).result
        blocks = b.index(start.copy.form(each))
        lines, place = line_of(b, sort, known, start.values[sort.keys], start.number, blocks)
        build(start, b, lines, place, thread)
        lines_around = [dim for axis, dim in enumerate(mem_of(sort.keys).dims) if axis != sort.axis]
        made = start.finish((*lines_around, each), 1)
        info = made.function.kernel_info
        assert info is not None and info.launch_bounds is not None
        made.function.kernel_info = evolve(info, launch_bounds=evolve(info.launch_bounds, min_blocks_per_sm=resident))
        return made

    def clear(start: Start, b: Builder, lines: Lines, place: Value, thread: Value) -> None:
        b.store(lines.counts, b.const(0, "u64"), lines.count(Affine.of(place.name), Affine.of(thread.name)))

    def count(start: Start, b: Builder, lines: Lines, place: Value, thread: Value) -> None:
        count_digits(b, lines, start.values[sort.keys], place, thread, start.out.axis("item", COUNTED))

    def moved(back: bool) -> Build:
        def build(start: Start, b: Builder, lines: Lines, place: Value, thread: Value) -> None:
            here = [start.values[memory] for memory in memories]
            there = [start.workspaces[around.others[memory]] for memory in memories]
            turn, shift = start.out.parameter("turn", INDEX), start.out.parameter("shift", INDEX)
            axis = start.out.axis("item", items)
            ways = (there, here) if back else (here, there)
            Pass(b, lines, *ways, turn, shift, thread, axis, items).build()

        return build

    assert DIGITS == THREADS
    return CountedSort(
        sort_passes(around, sort, number),
        launch("clear", mem_of(counts).dims[-2], clear),
        launch("count", extent.ceildiv(TURNS * COUNTED * THREADS), count),
        launch("digits_there", extent.ceildiv(PASS_THREADS * items), moved(False), PASS_THREADS, RESIDENT),
        launch("digits_back", extent.ceildiv(PASS_THREADS * items), moved(True), PASS_THREADS, RESIDENT),
        shifts(mem_of(sort.keys).dtype),
        FEWEST,
    )
