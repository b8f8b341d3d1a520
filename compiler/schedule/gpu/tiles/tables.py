"""Tables for fields on blocks of threads, derived from the field alone: which axes are blocks, which lie along the threads of a block,
what is in registers.

* Reductions: threads along the summed axis where memory is contiguous along it, a few rows a block, in registers where they fit
  (`rows.py`); else along the contiguous axis, with rows of threads that share the sum.
* Reductions of everything: all threads of all blocks along the sum.

Maps have tables of their own (`maps.py`)."""

from math import prod

from compiler.analysis.written_order import axes_in_written_order
from compiler.hir.core import Const, Contract, Index, Reduce, Scan, Unary, dtype_of, union_axes
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.machines.gpu import Feature
from compiler.schedule.field import axes_contiguous
from compiler.schedule.gpu.facts import ALIGNMENT, NOTHING, Facts
from compiler.schedule.gpu.lanes import contiguous_where_most_is, lanes_along, power_of_two
from compiler.schedule.gpu.tiles.one_pass import is_joined
from compiler.schedule.gpu.tiles.rows import column_table, is_chain, row_table, shared_lanes
from compiler.schedule.gpu.tiles.skewed import skewed_lanes
from compiler.schedule.materialise import common_axes
from compiler.schedule.table import AxisPlan, LoopSplit, Table
from runtime.records import evolve, frozen

THREADS = 256
BLOCKS = 512
"""Blocks of a reduction that fill a large GPU."""

LINE_BLOCKS = 1024
"""The same where all threads of the last block join their parts at once, so that more cost no turns: those of the last round are few."""

RESIDENT = 3
"""Blocks of lines, or of columns, that a multiprocessor has at a time: enough loads under way."""

WHOLE_RESIDENT, WHOLE_WORDS = 4, 48
"""The same of a reduction of everything: as many as share it (`distribute.py`), or some of them would wait for all others to end; and the
words of loads and of sums that a thread has room for then."""

LONG_THREADS = 1024
"""Threads for a long row that is read again: with one block on a multiprocessor the rows under way stay in the cache."""

LONG_REGISTERS = 16
"""Elements of it that each of them has under way, at most: so many threads have 64 registers each."""

REDUCTION_REGISTERS = 4
"""Loads in flight of a reduction."""

WORD = 4

COLUMNS_ANYWHERE = {1: 4, 2: 4}
"""Elements of so many bytes of neighbouring columns that are read at once from any address."""

IN_FLIGHT, MOST_IN_FLIGHT = 64, 16
"""Bytes, and loads, that a thread has under way down columns."""

WIDE = 16
"""Blocks for each multiprocessor from which on they rather stand farther across than along a reduction: memory is read in longer runs."""

MANY_ROWS = 1 << 14
"""Rows that keep all warps of a large GPU at work, one a warp."""

SHARING, FULL, SHARING_RESIDENT = (4, 2), 4, 3
"""Rows of a thread that read the same elements, the best first; blocks for each multiprocessor that there are then, at least; and blocks
that it has at a time."""

SHORT_ROW = 1024
"""Elements of a row below which a block has little to share."""

SHORT_SUM = 256
"""Terms of a sum that a thread adds up by itself where there are many such sums: a window, a short column."""

RESULTS = 2
"""Registers of such a thread along the axis across."""

MOST_OPERATIONS = 3000
"""Operations, on words of 32 bits, that a thread's elements of one turn have, about: with more their code leaves the cache of instructions,
and their values leave the registers."""


@frozen
class _BlockTableFacts:
    common: tuple[str, ...]
    reduced: frozenset[str]
    ordered: frozenset[str]
    contiguous: frozenset[str]


def block_table(field: HirFunction, facts: Facts = NOTHING) -> Table | None:
    """The table of places for a field on blocks of threads, for launches of which these facts hold; None where one thread an element
    does as well."""
    if any(isinstance(op, Scan) for op in field.body.body):
        return None
    seen = _look(field)
    if not seen.reduced:
        return None
    table = _rows_table(field, seen, facts) if seen.common and not _is_whole(field, seen) else _whole_table(field, seen, facts)
    return None if table is None else _with_room(field, seen, table)


def _with_room(field: HirFunction, facts: _BlockTableFacts, table: Table) -> Table:
    """The table with fewer elements of a thread at once, where each of them takes many operations."""
    ops = [op for op in field.body.body if not isinstance(op, Load | Store | Const | Index) and op.results]
    varying = [op for op in ops if any(axis in facts.reduced for axis, _ in union_axes(*op.operand_values))]
    each = sum(max(1, bytes_of(dtype_of(result)) // 4) for op in varying for result in op.results)
    while each * prod(plan.registers * plan.lanes for plan in table.plans) > MOST_OPERATIONS:
        most = max((plan for plan in table.plans if plan.place == "time"), key=lambda plan: plan.registers, default=None)
        if most is None or most.registers == 1:
            break
        fewer = evolve(most, registers=most.registers // 2)
        table = evolve(table, plans=[fewer if plan.axis == most.axis else plan for plan in table.plans])
    return table


def _is_whole(field: HirFunction, facts: _BlockTableFacts) -> bool:
    """Whether nothing that is reduced varies along the results' axes."""
    reduced = {axis for op in field.body.body if isinstance(op, Reduce | Contract) for axis, _ in union_axes(*op.operand_values)}
    return reduced.isdisjoint(facts.common)


def _look(field: HirFunction) -> _BlockTableFacts:
    reductions = [op for op in field.body.body if isinstance(op, Reduce | Contract)]
    reduced = {axis for op in reductions for axis in op.over}
    common = tuple(axis for axis in common_axes(field) if axis not in reduced)
    ordered = frozenset(axes_in_written_order(field))
    return _BlockTableFacts(common, frozenset(reduced), ordered, frozenset(axes_contiguous(field)))


def _whole_table(field: HirFunction, facts: _BlockTableFacts, launch: Facts) -> Table | None:
    """No axis is every result's, or those that are don't vary what is summed: the longest summed axis is cut in chunks, a block each."""
    if facts.ordered:
        return None
    axes = [axis for axis in field.axes if axis not in facts.common]
    inner = [axis for axis in axes if axis in facts.contiguous] or axes[-1:]
    along = inner[-1]
    lanes = lanes_along(field, [along])
    wide = max(launch.machine.lanes, min(THREADS, power_of_two(-(-launch.about(field.axes[along]) // lanes))))
    outer = [axis for axis in axes if axis != along]
    cut = max(outer, key=lambda axis: launch.about(field.axes[axis]), default=along)
    if not outer or launch.about(field.axes[along]) > (THREADS // wide) * launch.about(field.axes[cut]):
        cut, wide = along, THREADS
    plans = {axis: AxisPlan(axis) for axis in outer}
    words = _words_of_turn(field, lanes)
    registers = next((each for each in (REDUCTION_REGISTERS, 2) if each * words <= WHOLE_WORDS), 1)
    plans[along] = AxisPlan(along, "time", registers, lanes, threads=wide)
    if cut != along and wide < THREADS:
        plans[cut] = AxisPlan(cut, threads=THREADS // wide, dim=1)
    plans[cut] = evolve(plans[cut], place="block")
    reasons = [f"{along} lies along the threads: memory is contiguous along it", f"{cut} is cut in chunks: a block each"]
    block = (wide,) if wide == THREADS else (wide, THREADS // wide)
    results = [AxisPlan(axis, "block", threads=wide if axis == facts.common[-1] else 1) for axis in facts.common]
    resident = None if words > WHOLE_WORDS or _is_wide(field) else WHOLE_RESIDENT
    return Table([*results, plans.pop(cut), *plans.values()], reasons, block, resident=resident, machine=launch.machine)


def _words_of_turn(field: HirFunction, lanes: int) -> int:
    """Registers that a thread's loads of so many lanes and its sums take; those of 64 bits take as many again to be added up."""
    sizes = [bytes_of(dtype_of(result)) for op in field.body.body if isinstance(op, Load) for result in op.results]
    sums = [bytes_of(dtype_of(result)) for op in field.body.body if isinstance(op, Reduce | Contract) for result in op.results]
    return sum(-(-lanes * size // 4) for size in sizes) + sum(lanes * max(1, size // 4) ** 2 for size in sums)


def _is_wide(field: HirFunction) -> bool:
    """Whether numbers of 64 bits are added up or functions computed of them: they take the registers that more blocks would want."""
    computed = [op for op in field.body.body if isinstance(op, Reduce | Contract | Unary)]
    return any(bytes_of(dtype_of(result)) > 4 for op in computed for result in op.results)


def _rows_table(field: HirFunction, facts: _BlockTableFacts, launch: Facts) -> Table:
    """Every result varies along the common axes; the rest is reduced, or walked again after a reduction. A row gets a warp where there
    are enough rows for all warps of a large GPU, or rows are short; else a block."""
    inside = [axis for axis in field.axes if axis not in facts.common]
    if facts.ordered:
        written = axes_in_written_order(field)
        inside.sort(key=lambda axis: written.index(axis) if axis in written else -1)
    free = [axis for axis in inside if axis not in facts.ordered]
    most = contiguous_where_most_is(field)
    candidates = [axis for axis in free if axis in facts.contiguous and (axis in most or most.isdisjoint(facts.common))]
    along = candidates[-1] if candidates else None
    others = [axis for axis in inside if axis != along]
    table = row_table(field, facts.common, along, launch, others) if along is not None and len(free) == len(inside) else None
    if table is not None:
        return table
    if along is not None and others and len(free) == len(inside) and prod(launch.about(field.axes[axis]) for axis in inside) >= SHORT_ROW:
        return _lines_table(field, facts, launch, along, others)
    if along is not None:
        many = prod(launch.about(field.axes[axis]) for axis in facts.common) >= MANY_ROWS
        length, lanes = launch.about(field.axes[along]), lanes_along(field, [along])
        warp = launch.machine.lanes
        wide = warp if many or length < SHORT_ROW else min(THREADS, length // REDUCTION_REGISTERS)
        threads, registers = THREADS, REDUCTION_REGISTERS
        if is_chain(field, along) and length > LONG_THREADS * REDUCTION_REGISTERS * lanes:
            wide = threads = LONG_THREADS
            registers = max(1, min(REDUCTION_REGISTERS, LONG_REGISTERS // lanes))
        rows, each = facts.common[-1], 1
        resident = None
        if 0 < (narrow := shared_lanes(field, facts.common, along)) < lanes:  # neighbouring lanes read 16 bytes each of that
            beside = prod(launch.about(field.axes[axis]) for axis in facts.common) * wide // threads
            each = next((each for each in SHARING if beside >= each * FULL * launch.processors), 1)
            lanes, resident = narrow, SHARING_RESIDENT
        plans = [AxisPlan(axis, "block") for axis in facts.common[:-1]]
        plans.append(AxisPlan(rows, "block", each, threads=threads // wide, dim=1))
        plans += [AxisPlan(axis) for axis in inside if axis != along]
        plans.append(AxisPlan(along, "time", registers, lanes, threads=wide))
        who = "the lanes of a warp" if wide == warp else f"{wide} threads"
        reasons = [f"{along} lies along {who}: memory is contiguous along it"]
        return _split(field, facts, launch, Table(plans, reasons, (wide, threads // wide), resident, machine=launch.machine))
    columns = next((axis for axis in reversed(facts.common) if axis in facts.contiguous), facts.common[-1])
    if len(inside) == 1 and free == inside and (kept := column_table(field, facts.common, columns, inside[0], launch)) is not None:
        return kept
    plans = [AxisPlan(axis, "block") for axis in facts.common if axis != columns]
    joined = any(is_joined(op) for op in field.body.body)  # rows of threads join as many means as they have lanes
    lanes = lanes_along(field, [columns], anywhere={} if joined else COLUMNS_ANYWHERE)
    wide = min(launch.machine.lanes, power_of_two(-(-launch.about(field.axes[columns]) // lanes)))
    alone = wide == launch.machine.lanes and inside == free and len(inside) == 1
    skewed = skewed_lanes(field, columns, inside[0], THREADS // wide) if alone else 0
    if 2 * launch.about(field.axes[columns]) < wide * skewed:
        skewed = 0
    lanes = skewed or lanes
    plans.append(AxisPlan(columns, "block", lanes=lanes, threads=wide, overlap=skewed))
    reasons = [f"{columns} lies along the threads: memory is contiguous along it"]
    below = [axis for axis in facts.common if axis != columns]
    if below and _short(field, facts.common, inside, launch):
        plans = [AxisPlan(axis, "block") for axis in below[:-1]]
        plans.append(AxisPlan(below[-1], "block", RESULTS if lanes > 1 else 1, threads=THREADS // wide, dim=1))
        plans.append(AxisPlan(columns, "block", lanes=lanes, threads=wide))
        reasons.append(f"few are summed, and each thread has its own: neighbours along {below[-1]}")
        return Table([*plans, *(AxisPlan(axis) for axis in inside)], reasons, (wide, THREADS // wide), machine=launch.machine)
    shared = free[0] if free else None
    across = prod(launch.about(field.axes[axis]) for axis in facts.common) // max(1, 2 * lanes * WIDE * launch.processors)
    while shared is not None and not skewed and wide < THREADS and wide <= across and wide * lanes < launch.about(field.axes[columns]):
        wide *= 2
    plans[-1] = evolve(plans[-1], threads=wide)
    registers = _in_flight(field, lanes, launch.about(field.axes[shared]) // (THREADS // wide), 2) if shared is not None else 1
    for axis in sorted(inside, key=lambda axis: axis != shared):
        plans.append(AxisPlan(axis, "time", registers, threads=THREADS // wide, dim=1) if axis == shared else AxisPlan(axis))
    if shared is None:
        return Table(plans, reasons, (wide,), machine=launch.machine)
    reasons.append(f"{shared} is shared by rows of threads")
    if skewed:
        reasons.append("rows begin at several offsets: each row of threads stands where its loads are aligned")
    return _split(field, facts, launch, Table(plans, reasons, (wide, THREADS // wide), resident=RESIDENT, machine=launch.machine))


def _in_flight(field: HirFunction, lanes: int, turns: int, more: int = 1) -> int:
    """Loads of a thread at once: as many bytes as hide their latency, of no more turns than there are. `more`: times as many where loads
    are wide; of narrow ones there are as many as there may be anyway."""
    loads = [op for op in field.body.body if isinstance(op, Load)]
    width = max((bytes_of(mem_of(op.mem).dtype) for op in loads), default=1)
    if any(is_joined(op) for op in field.body.body):
        width = max(width, WORD)  # they are held until their own mean is known
    wide = width * lanes >= ALIGNMENT // 2 and (width > 1 or lanes == ALIGNMENT)
    bytes = IN_FLIGHT * more if wide else IN_FLIGHT
    most = max(REDUCTION_REGISTERS, min(MOST_IN_FLIGHT, bytes // (lanes * width * max(1, len(loads)))))
    return max(REDUCTION_REGISTERS, min(most, power_of_two(turns + 1) // 2))


def _lines_table(field: HirFunction, facts: _BlockTableFacts, launch: Facts, along: str, others: list[str]) -> Table:
    """Every result is reduced along several axes: a block's threads stand along the one that memory is contiguous along, as many as it
    fills, and side by side along the longest of the others."""
    lanes = lanes_along(field, [along])
    chain = any(is_chain(field, axis) for axis in (along, *others))
    threads = LONG_THREADS if chain else THREADS
    wide = min(threads, power_of_two(-(-launch.about(field.axes[along]) // lanes)))
    beside = max(others, key=lambda axis: launch.about(field.axes[axis]))
    plans = [AxisPlan(axis, "block") for axis in facts.common]
    plans += [AxisPlan(axis) for axis in others if axis != beside]
    turns = launch.about(field.axes[beside]) * wide // threads
    most = min(_in_flight(field, lanes, turns), LONG_REGISTERS // 2 if chain else MOST_IN_FLIGHT)
    registers = min(most, max(1, turns))
    plans.append(AxisPlan(beside, "time", registers, threads=threads // wide, dim=1))
    plans.append(AxisPlan(along, "time", lanes=lanes, threads=wide))
    lines = f"{threads // wide} lines along {beside} side by side" if threads > wide else f"lines along {beside} one after the other"
    reasons = [f"{along} lies along {wide} threads: memory is contiguous along it; {lines}"]
    resident = RESIDENT if threads == THREADS else None
    table = Table(plans, reasons, (wide, threads // wide), resident=resident, machine=launch.machine)
    return _split(field, facts, launch, table, LINE_BLOCKS)


def _split(field: HirFunction, facts: _BlockTableFacts, launch: Facts, table: Table, blocks: int = BLOCKS) -> Table:
    """The table with more blocks for each tile of results, where tiles are too few for a large GPU and nothing reads the rows again. They
    share the longest loop, which becomes the outermost."""
    inside = set(field.axes) - set(facts.common)
    reductions = [op for op in field.body.body if isinstance(op, Reduce | Contract)]
    stores = [op for op in field.body.body if isinstance(op, Store)]
    alone = all(set(op.over) == inside for op in reductions) and not any(is_chain(field, axis) for axis in inside)
    ordered = facts.ordered or not launch.machine.has(Feature.BLOCK_ORDER)
    if ordered or not alone or any(inside.intersection(axis for axis, _ in union_axes(op.value)) for op in stores):
        return table
    turns = {plan: -(-launch.about(field.axes[plan.axis]) // plan.tile) for plan in table.plans if plan.axis in inside}
    outermost = max(turns, key=lambda plan: min(turns[plan], blocks))
    tiles = prod(-(-launch.about(field.axes[plan.axis]) // plan.tile) for plan in table.plans if plan.place == "block")
    parts = min(power_of_two(-(-blocks // max(1, tiles))), power_of_two(turns[outermost]) // 2)
    if parts <= 1:
        return table
    reason = f"up to {parts} blocks share each sum along {outermost.axis}, the last of them joins their parts"
    plans = sorted(table.plans, key=lambda plan: 2 if plan in turns and plan is not outermost else int(plan in turns))
    return evolve(table, plans=plans, split=LoopSplit(outermost.axis, parts), reasons=(*table.reasons, reason))


def _short(field: HirFunction, common: tuple[str, ...], inside: list[str], launch: Facts) -> bool:
    """Whether sums are so short, and so many, that threads share none."""
    each = prod(launch.about(field.axes[axis]) for axis in inside)
    return each <= SHORT_SUM and prod(launch.about(field.axes[axis]) for axis in common) >= launch.processors * THREADS
