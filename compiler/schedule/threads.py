"""A kernel as a sequence of launches with one thread for each iteration: the GPU's schedule of first resort, which any field or
nest has. A loop that is shared out to threads becomes a launch; what stands between such loops becomes a launch of one thread."""

from compiler.analysis.written_order import axes_in_written_order
from compiler.hir.affine import Affine
from compiler.hir.control import For
from compiler.hir.core import Contract, Reduce, Scan
from compiler.hir.library import Sort
from compiler.hir.memory import mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import INDEX
from compiler.schedule.field import axes_contiguous
from compiler.schedule.gpu.loop_wishes import turns_of
from compiler.schedule.launches import Launch, Launches, SortPasses
from compiler.schedule.materialise import common_axes
from compiler.schedule.merge_sort import merge_pass
from compiler.schedule.region import NotPlaceable
from compiler.schedule.stages import Around, Group, Start, iterations, stages_of
from compiler.schedule.table import AxisPlan, Table

BLOCK = 256
"""Threads of a block: enough warps to hide latency, few enough that any register count fits."""


def thread_table(field: HirFunction) -> Table:
    """A thread for each element of the results, neighbours along contiguous memory; what is reduced runs in time."""
    reduced = {axis for op in field.body.body if isinstance(op, Reduce | Contract | Scan) for axis in op.over}
    written = axes_in_written_order(field)
    common = [axis for axis in common_axes(field) if axis not in reduced and axis not in written]
    common.sort(key=lambda axis: axis in axes_contiguous(field))
    rest = [*(axis for axis in field.axes if axis not in common and axis not in written), *written]
    plans = [AxisPlan(axis, "thread") for axis in common]
    shared = not common and rest[:1] != list(written[:1])
    plans += [AxisPlan(axis, "thread" if shared and number == 0 else "time") for number, axis in enumerate(rest)]
    unrolled = [(plan.axis, turns) for plan in plans if plan.place == "time" and (turns := turns_of(field, plan.axis)) is not None]
    return Table(plans, ["one thread an element, neighbours along contiguous memory"], unrolled=tuple(unrolled))


def launches_of(function: HirFunction) -> Launches:
    """The launches of a scheduled function (form A or B, of scalars). Raises `NotPlaceable` for what no thread can do alone."""
    around = stages_of(function, lambda op: isinstance(op, For) and op.place == "thread")
    stages = [
        _launch(around, group, number) if group.sort is None else sort_passes(around, group.sort, number)
        for number, group in enumerate(around.groups)
    ]
    return Launches(tuple(stages), tuple(around.memories))


def sort_passes(around: Around, sort: Sort, number: int) -> SortPasses:
    """A sort as merges of ever longer runs, a thread an element."""
    there, back = (_sort_pass(around, sort, f"{number}_{direction}", direction == "back") for direction in ("there", "back"))
    return SortPasses(there, back, mem_of(sort.keys).dims[sort.axis])


def _sort_pass(around: Around, sort: Sort, name: str, back: bool) -> Launch:
    start = Start(around, name, (BLOCK, 1, 1))
    b = start.out.body
    memories = [sort.keys, *sort.payload]
    sources = [start.values[memory] for memory in memories]
    there = [start.workspaces[around.others[memory]] for memory in memories]
    dims = mem_of(sort.keys).dims
    width = start.out.parameter("width", INDEX)
    total = b.const(1, "index")
    for dim in dims:
        total = b.mul(total, b.index(start.copy.form(dim)))
    position = b.index(start.place)
    with b.when(b.op("lt", position, total)) as inner:
        merge_pass(inner, position, width, there if back else sources, sources if back else there, sort.axis, sort.descending)
    return start.finish(tuple(dims), BLOCK)


def _launch(around: Around, group: Group, number: int) -> Launch:
    start = Start(around, str(number), (BLOCK, 1, 1))
    b, copy, position = start.out.body, start.copy, start.place
    loop = group.loop
    if loop is not None and loop.carried:
        raise NotPlaceable("a loop over threads that carries values")
    length = Affine((), 1) if loop is None else iterations(loop)
    with b.when(b.inbounds(position, copy.form(length))) as inner:
        start.take(group, inner)
        if loop is None:
            copy.all(group.body, inner)
        else:
            start.values[loop.variable] = inner.index(copy.form(loop.low) + position * loop.step, loop.variable.name)
            copy.all(loop.body.body, inner)
        start.give(group, inner)
    return start.finish((length,), BLOCK)
