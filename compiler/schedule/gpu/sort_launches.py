"""The launches of a sort: by digits where lines are long, by merges where they are short."""

from collections.abc import Callable, Sequence

from attrs import evolve

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import GridIndex
from compiler.hir.instruction import Value
from compiler.hir.memory import mem_of
from compiler.hir.types import INDEX
from compiler.schedule.gpu.sort_pass import Pass
from compiler.schedule.gpu.sort_source import Nest, Source, Stored
from compiler.schedule.gpu.sorting import (
    COUNTED,
    DIGITS,
    FEWEST,
    PASS_THREADS,
    THREADS,
    TURNS,
    Lines,
    count_digits,
    items_of,
    line_of,
    shifts,
)
from compiler.schedule.launches import CountedSort, Either, Launch
from compiler.schedule.stages import Around, Group, Start
from compiler.schedule.threads import sort_passes

RESIDENT = 2
"""Blocks that a multiprocessor holds at once, at least: while one waits another works."""

Build = Callable[[Start, Builder, Lines, Value, Value], None]
"""Builds a launch: its beginning, its body, the line of the block, the block's number in the line and the thread's in the block."""


def counted_sort(around: Around, group: Group, number: int, nest: Nest | None = None, fill: Sequence[Launch | Either] = ()) -> CountedSort:
    """The stage of a group that sorts; `nest`: where the elements come from, if `fill` needn't have stored them."""
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
        count_digits(b, lines, source(start), place, thread, start.out.axis("item", COUNTED))

    def source(start: Start) -> Source:
        if nest is None:
            return Stored([start.values[memory] for memory in memories])
        return nest.from_values(start.values, start.copy.form)

    def moved(way: str) -> Launch:
        """A pass from the source, or one way between the memories that are sorted and their second ones."""

        def build(start: Start, b: Builder, lines: Lines, place: Value, thread: Value) -> None:
            own = [start.values[memory] for memory in memories]
            second = [start.workspaces[around.others[memory]] for memory in memories]
            turn, shift = start.out.parameter("turn", INDEX), start.out.parameter("shift", INDEX)
            axis = start.out.axis("item", items)
            here = source(start) if way == "first" else Stored(second if way == "back" else own)
            Pass(b, lines, here, own if way == "back" else second, turn, shift, thread, axis, items).build()

        return launch(f"digits_{way}", extent.ceildiv(PASS_THREADS * items), build, PASS_THREADS, RESIDENT)

    assert DIGITS == THREADS
    return CountedSort(
        tuple(fill),
        sort_passes(around, sort, number),
        launch("clear", mem_of(counts).dims[-2], clear),
        launch("count", extent.ceildiv(TURNS * COUNTED * THREADS), count),
        moved("first"),
        moved("back"),
        moved("there") if len(shifts(mem_of(sort.keys).dtype)) > 2 else None,
        shifts(mem_of(sort.keys).dtype),
        FEWEST,
    )
