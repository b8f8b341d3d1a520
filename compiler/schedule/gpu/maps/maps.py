"""Tables for maps, fields that reduce nothing: each thread has one access of 16 bytes, along the axis in which results are contiguous.
What is contiguous along another axis is turned: a square of both axes goes through shared memory, read along the one and written
along the other."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from compiler.hir.alignment import steps_by_one
from compiler.hir.core import Binary, Contract, Reduce, Scan, Unary, union_axes
from compiler.hir.instruction import Instruction
from compiler.hir.memory import Alloc, Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.schedule.gpu.block_launches import field_launches, launches_of_blocks
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.lanes import ANYWHERE, lanes_along
from compiler.schedule.gpu.loop_wishes import in_maps, with_tile, with_wishes
from compiler.schedule.gpu.maps.flat import FlatDistributing, flat_table
from compiler.schedule.gpu.maps.one_row import OneRow
from compiler.schedule.gpu.maps.turning import CHUNKS, Turning, crosses
from compiler.schedule.interior import bounds_of
from compiler.schedule.launches import Launches
from compiler.schedule.materialise import common_axes
from compiler.schedule.table import AxisPlan, Table
from compiler.schedule.tile_sizes import tile_of
from runtime.records import evolve

THREADS = 256

ROW_THREADS = 128
"""Of a block without shared memory: small ones follow each other closest."""

SCALAR_SQUARE, NARROW_SQUARE = 32, 64
"""Elements of a side of a square where accesses are of one element; of at most two bytes, of which a warp's access is short."""

SQUARES = 3
"""Blocks of a multiprocessor at a time that turn single elements, whose addresses would take all registers of two or one."""

MANY_TILES = 16
"""Tiles along an axis of which a last one that is mostly empty doesn't count."""

MOST_EMPTY = 1.2
"""How many times as many elements threads may have as there are, so that each has several."""

LONGER = 4
"""Rows that are written of what is turned, to those that are read, where accesses are narrow."""

PLAIN = ("neg", "abs", "not", "floor", "ceil", "round", "trunc")
"""Functions of an instruction or two."""

WORD = 4
MOVED, HELD = 128, 128
"""Bytes that a thread moves of several rows, and of registers that hold what it computes of them, at most."""

LANES = partial(lanes_along, anywhere=ANYWHERE)
"""How many elements a thread takes at once."""

SHORTEST = 8
"""Elements along an axis for which its memory order is worth something."""


def map_launches(field: HirFunction, facts: Facts, lanes: Callable[[HirFunction, Sequence[str]], int] = LANES) -> Launches | None:
    """The launches of a map, one; None where something is reduced, or results don't vary along the same axes. `lanes`: how many elements
    a thread takes at once. Raises `NotPlaceable`."""
    ops = field.body.body
    if any(isinstance(op, Reduce | Contract | Scan | Alloc) for op in ops) or not field.axes:
        return None
    if set(common_axes(field)) != set(field.axes):
        return None
    along = next((axis for op in ops if isinstance(op, Store) and (axis := _along(op, field)) is not None), None)
    if along is None:
        return None
    if in_maps(field):
        table, heeded = with_wishes(field, _rows(field, along, lanes(field, [along]), facts), along)
        table, tiled = with_tile(field, evolve(_narrowed(table, tile_of(field)), machine=facts.machine))
        return evolve(field_launches(field, table), heeded=heeded | tiled)
    across = _crossing(field, along, facts)
    if across is None:
        width = lanes(field, [along])
        table = _rows(field, along, width, facts)
        if len(field.axes) == 1 and any(isinstance(op, Binary) and op.operator in ("div", "rem") for op in ops):
            return launches_of_blocks(OneRow(field, table, facts).run())
        if _fills(field, table, along, facts):
            return field_launches(field, _several(field, table, along, facts))
        others = _others(field, along)
        rows = _rows_at_once(field, along, width, facts.about(field.axes[others[-1]])) if others else 1
        return launches_of_blocks(FlatDistributing(field, flat_table([*others, along], width, rows), facts).run())
    return launches_of_blocks(Turning(field, _squares(field, along, across, lanes(field, [along, across]), facts), along, across).run())


def reads_across(field: HirFunction, facts: Facts) -> bool:
    """Whether something is read along another axis than results are written along."""
    along = next((axis for op in field.body.body if isinstance(op, Store) and (axis := _along(op, field)) is not None), None)
    return along is not None and _crossing(field, along, facts) is not None


def _rows_at_once(field: HirFunction, along: str, lanes: int, most: int) -> int:
    """Rows of which a thread has an access at once, where one would leave it waiting: for functions, for data that say what it loads, or,
    if it loads nothing, for its block, which takes longer to begin."""
    ops = [op for op in field.body.body if along in _varying(op)]
    accesses = [op for op in ops if isinstance(op, Load | Store)]
    loads = [op for op in accesses if isinstance(op, Load)]
    computes = any(isinstance(op, Unary) and op.operator not in PLAIN for op in ops)
    if loads and not computes and not any(_waits(op, field) for op in accesses):
        return 1
    moved = sum(lanes * bytes_of(mem_of(op.mem).dtype) for op in accesses)
    held = sum(lanes * max(WORD, bytes_of(mem_of(op.mem).dtype)) for op in loads) if len(accesses) < len(ops) else 0
    return 1 << max(0, min(MOVED // moved, HELD // max(1, held), most).bit_length() - 1)


def _waits(op: Load | Store, field: HirFunction) -> bool:
    """Whether an access has a condition of anything else than axes and sizes."""
    known = {*field.axes, *(parameter.name for parameter in field.parameters)}
    forms = None if op.where is None else bounds_of(op.where)
    return op.where is not None and (forms is None or any(not known.issuperset(form.names) for form in forms))


def _varying(op: Instruction) -> set[str]:
    """The axes along which an instruction does something else for each element."""
    names = {name for form in op.index for name in form.names} if isinstance(op, Load | Store) else set()
    return names | {name for name, _ in union_axes(*op.results)}


def _narrowed(table: Table, sizes: Mapping[str, int]) -> Table:
    """With fewer threads across rows, where a tile has fewer rows."""
    plans = [
        evolve(plan, threads=sizes[plan.axis]) if plan.dim == 1 and sizes.get(plan.axis, plan.threads) < plan.threads else plan
        for plan in table.plans
    ]
    return evolve(table, plans=plans, block=(table.block[0], *(plan.threads for plan in plans if plan.dim == 1)))


def _along(op: Load | Store, field: HirFunction) -> str | None:
    """The axis along which an access is contiguous."""
    return next((axis for axis in field.axes if steps_by_one(mem_of(op.mem), op.index, axis)), None)


def _crossing(field: HirFunction, along: str, facts: Facts) -> str | None:
    """The axis along which a load is contiguous that steps further along the results' own axis."""
    for op in field.body.body:
        other = _along(op, field) if isinstance(op, Load) else None
        if other is None or other == along or not crosses(op, along, other):
            continue
        if min(facts.about(field.axes[axis]) for axis in (along, other)) >= SHORTEST:
            return other
    return None


def _rows(field: HirFunction, along: str, lanes: int, facts: Facts) -> Table:
    """Threads along the contiguous axis, as many as it fills; the rest along the axis next to it."""
    others = _others(field, along)
    wide = ROW_THREADS
    while others and wide > 1 and (wide // 2) * lanes >= facts.about(field.axes[along]):
        wide //= 2
    plans = [AxisPlan(axis, "block") for axis in others]
    block: tuple[int, ...] = (wide,)
    if wide < ROW_THREADS:
        plans[-1] = AxisPlan(others[-1], "block", threads=ROW_THREADS // wide, dim=1)
        block = (wide, ROW_THREADS // wide)
    plans.append(AxisPlan(along, "block", lanes=lanes, threads=wide))
    width = f"{lanes} elements" if lanes > 1 else "an element"
    return Table(plans, [f"a thread has {width} along {along}, which lie side by side in memory"], block)


def _several(field: HirFunction, table: Table, along: str, facts: Facts) -> Table:
    """With as many elements a thread as have 16 bytes, where each is an access, so that several are on their way: those of a warp still
    lie side by side. Accesses of several elements are of several rows."""
    plan, extent = table[along], facts.about(field.axes[along])
    accesses = [op for op in field.body.body if isinstance(op, Load | Store) and any(form.coefficient(along) for form in op.index)]
    widest = max(bytes_of(mem_of(op.mem).dtype) for op in accesses)
    each = ALIGNMENT // widest if plan.lanes == 1 else 1
    while each > 1 and -(-extent // (plan.tile * each)) * plan.tile * each > MOST_EMPTY * extent:
        each //= 2
    others = _others(field, along)
    rows = _rows_at_once(field, along, plan.lanes, facts.about(field.axes[others[-1]])) if others and plan.lanes > 1 else 1
    registers = {along: each} | dict.fromkeys(others[-1:], rows)
    return evolve(table, plans=[evolve(other, registers=registers.get(other.axis, 1)) for other in table.plans])


def _others(field: HirFunction, along: str) -> list[str]:
    """The other axes, those first along which results lie farthest apart."""
    return sorted((axis for axis in field.axes if axis != along), key=lambda axis: _step(field, axis), reverse=True)


def _fills(field: HirFunction, table: Table, along: str, facts: Facts) -> bool:
    """Whether the threads along an axis, and those beside them, nearly all have something to do."""
    extent, tile = field.axes[along], table[along].tile
    for plan in table.plans:
        about = facts.about(field.axes[plan.axis])
        if plan.axis != along and -(-about // plan.tile) * plan.tile > MOST_EMPTY * about:
            return False
    return len(field.axes) == 1 or extent.divisor % tile == 0 or facts.about(extent) >= MANY_TILES * tile


def _step(field: HirFunction, axis: str) -> int:
    """In which dimension of the results the axis runs, from the last."""
    store = next(op for op in field.body.body if isinstance(op, Store))
    return next((stride for stride, form in enumerate(reversed(store.index)) if form.coefficient(axis)), 0)


def _squares(field: HirFunction, along: str, across: str, lanes: int, facts: Facts) -> Table:
    """Accesses that are narrower than 16 bytes are more for each thread, which writes longer rows than it reads. Short axes have short
    sides."""
    store = next(op for op in field.body.body if isinstance(op, Store))
    size = bytes_of(mem_of(store.mem).dtype)
    side = CHUNKS * lanes if lanes > 1 else NARROW_SQUARE if size <= 2 else SCALAR_SQUARE
    length = side * LONGER if lanes > 1 and lanes * size < ALIGNMENT else side
    wide = length // lanes
    high = min(side, THREADS // wide)
    plans = [AxisPlan(axis, "block") for axis in field.axes if axis not in (along, across)]
    plans.append(AxisPlan(across, "block", side // high, threads=high, dim=1))
    plans.append(AxisPlan(along, "block", lanes=lanes, threads=wide))
    reason = f"{across} is read and {along} written along memory: squares of {side} x {length} are turned in shared memory"
    return Table(plans, [reason], (wide, high), resident=SQUARES if lanes == 1 else None)
