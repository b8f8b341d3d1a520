"""What a program says of its loops, on a GPU. `@serial` axes are loops of a thread: such fields have a thread for each element of what else
there is. `@unroll` writes turns of a thread's loop out, or gives a thread of a map so many accesses; `@vectorize` says how many elements of
a map an access has. `@parallel` axes are spread over blocks and threads, as all are that can be. What isn't followed is told, and why."""

import re
from collections.abc import Iterable, Iterator
from math import prod

from compiler.hir.control import For
from compiler.hir.core import Contract, Reduce, Scan
from compiler.hir.module import HirFunction, HirKernelInfo, LoopWish
from compiler.schedule.gpu.products.tiling import Impossible
from compiler.schedule.loop_wishes import no_unrolling, no_unrolling_of
from compiler.schedule.table import AxisPlan, Table, Unheeded
from compiler.schedule.tile_sizes import in_sizes, named, tile_of
from runtime.records import evolve

Heeded = frozenset[tuple[str, str]]
"""Annotations that a schedule follows, by name and axis."""


ROLES = ("roles", "")
"""Heeded by schedules in which some warps copy and others multiply."""


def is_serial(field: HirFunction) -> bool:
    return any(wish.serial for wish in field.loops)


def in_maps(field: HirFunction) -> bool:
    """Whether the program says how many elements a thread or a block has."""
    return bool(tile_of(field)) or any(wish.unroll is not None or wish.vectorize is not None for wish in field.loops)


def turns_of(field: HirFunction, axis: str) -> int | None:
    """Turns to be written out of the loop over an axis, 0: all of them; None: nothing is said, or it can't be."""
    wish = next((wish for wish in field.loops if wish.axis == axis), None)
    return None if wish is None or wish.unroll is None or _no_unrolling(field, wish) else wish.unroll


def _no_unrolling(field: HirFunction, wish: LoopWish, lanes: int = 1) -> str:
    extent = field.axes[wish.axis].value
    return no_unrolling(wish.unroll or (extent or 0) // lanes, extent, lanes)


def with_wishes(field: HirFunction, table: Table, along: str) -> tuple[Table, Heeded]:
    """The table of a map whose threads have accesses along one axis, as the program says; and what of that it follows."""
    plans: list[AxisPlan] = []
    heeded: set[tuple[str, str]] = set()
    for plan in table.plans:
        wish = next((wish for wish in field.loops if wish.axis == plan.axis), None)
        if wish is not None and wish.vectorize is not None and plan.axis == along and (wish.vectorize or plan.lanes) <= plan.lanes:
            plan = evolve(plan, lanes=wish.vectorize or plan.lanes)
            heeded.add(("vectorize", plan.axis))
        if wish is not None and wish.unroll is not None and not _no_unrolling(field, wish, plan.lanes):
            plan = evolve(plan, registers=wish.unroll or (field.axes[plan.axis].value or 1) // plan.lanes)
            heeded.add(("unroll", plan.axis))
        plans.append(plan)
    return evolve(table, plans=plans), frozenset(heeded)


def with_tile(field: HirFunction, table: Table) -> tuple[Table, Heeded]:
    """The table with the sizes that the program gives tiles. Raises `Impossible`."""
    table, left = in_sizes(field, table)
    for axis, possible in left.items():
        name = named(field, axis)
        message = f"`@tile({name}={tile_of(field)[axis]})` can't be done on `{table.machine}`"
        raise Impossible("0503", message, f"sizes along `{name}` can be {possible}")
    return table, frozenset(("tile", axis) for axis in tile_of(field) if axis in table and table[axis].place != "once")


def followed(table: Table) -> Heeded:
    """What a table follows: axes over blocks and threads are parallel, and so are accesses of several elements vectors."""
    spread = {("parallel", plan.axis) for plan in table.plans if plan.place in ("block", "thread") or plan.threads > 1}
    return frozenset(spread | {(f"vectorize {plan.lanes}", plan.axis) for plan in table.plans})


def unheeded_of(field: HirFunction, functions: Iterable[HirFunction], heeded: Heeded) -> Iterator[Unheeded]:
    """What launches of a field don't follow, and why."""
    reduced = {axis for op in field.body.body if isinstance(op, Reduce | Contract | Scan) for axis in op.over}
    functions = tuple(functions)
    loops = _loops(functions)
    info = field.kernel_info
    yield from _other_blocks(info, functions)
    if info is not None and ROLES not in heeded:
        given = {"warps": info.warps, "pipeline": info.stages, "cluster": info.cluster}
        for name in (name for name, number in given.items() if number is not None):
            yield Unheeded(name, "", "only products on warpgroups are cut so, and this block is none there")
    for wish in field.loops:
        if wish.parallel and wish.axis in reduced and ("parallel", wish.axis) not in heeded:
            yield Unheeded("parallel", wish.loop, "each thread has whole results, and adds up its own")
        if wish.unroll is not None and ("unroll", wish.axis) not in heeded:
            why = _no_unrolling(field, wish)
            named = re.compile(re.escape(wish.axis) + r"\d+")
            if why or not any(named.fullmatch(op.variable.name) and op.mark("unroll") == (wish.unroll or True) for op in loops):
                yield Unheeded("unroll", wish.loop, why or "no thread has a loop over it of one turn after the other")
        if wish.vectorize is not None and not heeded & {("vectorize", wish.axis), (f"vectorize {wish.vectorize}", wish.axis)}:
            why = "a thread accesses at most 16 bytes at a time, and those where memory is contiguous and aligned"
            yield Unheeded("vectorize", wish.loop, "its turns follow each other in a thread" if wish.serial else why)


def _other_blocks(info: HirKernelInfo | None, functions: Iterable[HirFunction]) -> Iterator[Unheeded]:
    """`@workgroup`, where no launch has blocks of so many threads."""
    infos = (function.kernel_info for function in functions)
    threads = [prod(each.workgroup) for each in infos if each is not None and each.workgroup is not None]
    if info is not None and info.workgroup is not None and prod(info.workgroup) not in threads:
        chosen = " and of ".join(dict.fromkeys(map(str, threads)))
        yield Unheeded("workgroup", "", f"its schedule is one of blocks of {chosen} threads, which share out its loops by themselves")


def unheeded_of_nest(nest: HirFunction, functions: Iterable[HirFunction]) -> Iterator[Unheeded]:
    """The same of a nest that keeps its loops."""
    functions = tuple(functions)
    yield from _other_blocks(nest.kernel_info, functions)
    if nest.kernel_info is not None and nest.kernel_info.tile:
        yield Unheeded("tile", "", "the nest keeps its loops")
    left = _loops(functions)
    for op in _loops([nest]):
        marks = {mark for mark in op.marks if mark[0] != "unroll"}
        inside = any(other.written == op.written and marks <= set(other.marks) for other in left)
        if op.mark("parallel") and inside:
            yield Unheeded("parallel", op.written, "the loops around it are spread over the threads")
        if op.mark("unroll") is not None and ((why := no_unrolling_of(op)) or not inside):
            yield Unheeded("unroll", op.written, why or "its turns are spread over threads")
        if op.mark("vectorize") is not None:
            yield Unheeded("vectorize", op.written, "a thread of a nest that keeps its loops has one turn after the other")


def _loops(functions: Iterable[HirFunction]) -> list[For]:
    return [op for function in functions for top in function.body.body for op in top.walk() if isinstance(op, For)]
