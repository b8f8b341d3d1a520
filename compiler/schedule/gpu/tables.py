"""Tables for fields on blocks of threads, derived from the field alone: which axes are blocks, which lie along the threads of a block,
what is in registers.

* Sums of products with rows and columns: tiles of both, threads in a square, the sum in steps through shared memory.
* Reductions: threads along the summed axis where memory is contiguous along it, a few rows a block, in registers where they fit
  (`rows.py`); else along the contiguous axis, with rows of threads that share the sum.
* Reductions of everything: all threads of all blocks along the sum.

Maps have tables of their own (`maps.py`)."""

from math import prod

from compiler.analysis.recognise import ProductSum, product_sum
from compiler.analysis.written_order import axes_in_written_order
from compiler.hir.core import Contract, Reduce, Scan, Unary, dtype_of, union_axes
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.machines.gpu import Feature
from compiler.schedule.field import axes_contiguous
from compiler.schedule.gpu.facts import ALIGNMENT, NOTHING, Facts
from compiler.schedule.gpu.lanes import contiguous_where_most_is, lanes_along, power_of_two
from compiler.schedule.gpu.rows import column_table, is_chain, row_table
from compiler.schedule.gpu.tensor_cores import chosen
from compiler.schedule.materialise import common_axes
from compiler.schedule.table import AxisPlan, LoopSplit, Table
from runtime.records import evolve, frozen

THREADS = 256
SQUARE = 16
"""Threads along rows and along columns of a product's tile."""

PRODUCT_REGISTERS = 4
"""Rows and columns of a product that a thread has: 16 accumulators, 8 reads of shared memory for 16 products."""

TALL_REGISTERS = 8
"""The same in large products: larger tiles, each element of them used more often. Where tensor cores multiply, of rows only."""

PRODUCTS_RESIDENT = 2
"""Blocks of a large product that a multiprocessor has at a time: one copies while the other multiplies."""

SHARED_LANES = 4
"""Columns, and rows, of a large product that a thread reads from shared memory at a time: 16 bytes."""

SUM_STEP = 16
"""Elements of a summed axis that are in shared memory at a time."""

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

IN_FLIGHT, MOST_IN_FLIGHT = 64, 16
"""Bytes, and loads, that a thread has under way down columns."""

WIDE = 16
"""Blocks for each multiprocessor from which on they rather stand farther across than along a reduction: memory is read in longer runs."""

MANY_ROWS = 1 << 14
"""Rows that keep all warps of a large GPU at work, one a warp."""

SHORT_ROW = 1024
"""Elements of a row below which a block has little to share."""

SHORT_SUM = 256
"""Terms of a sum that a thread adds up by itself where there are many such sums: a window, a short column."""

RESULTS = 2
"""Registers of such a thread along the axis across."""

WIDEST_RESULT = 8
"""Registers along a result's axis that not all sums know: those others are computed again for each of its tiles, so these are wide."""


@frozen
class _BlockTableFacts:
    common: tuple[str, ...]
    written: frozenset[str]
    """Axes that every result varies along, and that nothing is reduced along."""
    reduced: frozenset[str]
    ordered: frozenset[str]
    contiguous: frozenset[str]
    products: tuple[ProductSum, ...]


def block_table(field: HirFunction, facts: Facts = NOTHING) -> Table | None:
    """The table of places for a field on blocks of threads, for launches of which these facts hold; None where one thread an element
    does as well."""
    if any(isinstance(op, Scan) for op in field.body.body):
        return None
    seen = _look(field)
    if seen.products:
        return _product_table(field, seen, facts)
    if not seen.reduced:
        return None
    return _rows_table(field, seen, facts) if seen.common and not _is_whole(field, seen) else _whole_table(field, seen, facts)


def _is_whole(field: HirFunction, facts: _BlockTableFacts) -> bool:
    """Whether nothing that is reduced varies along the results' axes."""
    reduced = {axis for op in field.body.body if isinstance(op, Reduce | Contract) for axis, _ in union_axes(*op.operand_values)}
    return reduced.isdisjoint(facts.common)


def _look(field: HirFunction) -> _BlockTableFacts:
    reductions = [op for op in field.body.body if isinstance(op, Reduce | Contract)]
    reduced = {axis for op in reductions for axis in op.over}
    contracts = [op for op in reductions if isinstance(op, Contract)]
    products = [product for op in contracts if (product := product_sum(op)) is not None and product.m and product.n]
    common = tuple(axis for axis in common_axes(field) if axis not in reduced)
    scope = field.scope()
    indices = [{axis for axis, _ in scope.axes_of(*op.index)} for op in field.body.body if isinstance(op, Store)]
    written = frozenset(set.intersection(*indices) - reduced) if indices else frozenset()
    ordered = frozenset(axes_in_written_order(field))
    return _BlockTableFacts(common, written, frozenset(reduced), ordered, frozenset(axes_contiguous(field)), tuple(products))


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
        rows = facts.common[-1]
        plans = [AxisPlan(axis, "block") for axis in facts.common[:-1]]
        plans.append(AxisPlan(rows, "block", threads=threads // wide, dim=1))
        plans += [AxisPlan(axis) for axis in inside if axis != along]
        plans.append(AxisPlan(along, "time", registers, lanes, threads=wide))
        who = "the lanes of a warp" if wide == warp else f"{wide} threads"
        reasons = [f"{along} lies along {who}: memory is contiguous along it"]
        return _split(field, facts, launch, Table(plans, reasons, (wide, threads // wide), machine=launch.machine))
    columns = next((axis for axis in reversed(facts.common) if axis in facts.contiguous), facts.common[-1])
    if len(inside) == 1 and free == inside and (kept := column_table(field, facts.common, columns, inside[0], launch)) is not None:
        return kept
    plans = [AxisPlan(axis, "block") for axis in facts.common if axis != columns]
    lanes = lanes_along(field, [columns])
    wide = min(launch.machine.lanes, power_of_two(-(-launch.about(field.axes[columns]) // lanes)))
    plans.append(AxisPlan(columns, "block", lanes=lanes, threads=wide))
    reasons = [f"{columns} lies along the threads: memory is contiguous along it"]
    below = [axis for axis in facts.common if axis != columns]
    if below and _short(field, facts.common, inside, launch):
        lanes = lanes_along(field, [columns])
        wide = max(1, min(launch.machine.lanes, power_of_two(-(-launch.about(field.axes[columns]) // lanes))))
        plans = [AxisPlan(axis, "block") for axis in below[:-1]]
        plans.append(AxisPlan(below[-1], "block", RESULTS if lanes > 1 else 1, threads=THREADS // wide, dim=1))
        plans.append(AxisPlan(columns, "block", lanes=lanes, threads=wide))
        reasons.append(f"few are summed, and each thread has its own: neighbours along {below[-1]}")
        return Table([*plans, *(AxisPlan(axis) for axis in inside)], reasons, (wide, THREADS // wide), machine=launch.machine)
    shared = free[0] if free else None
    across = prod(launch.about(field.axes[axis]) for axis in facts.common) // max(1, 2 * lanes * WIDE * launch.processors)
    while shared is not None and wide < THREADS and wide <= across and wide * lanes < launch.about(field.axes[columns]):
        wide *= 2
    plans[-1] = evolve(plans[-1], threads=wide)
    resident, flying = _columns_at_once(field, lanes)
    registers = _in_flight(field, lanes, launch.about(field.axes[shared]) // (THREADS // wide), flying) if shared is not None else 1
    for axis in sorted(inside, key=lambda axis: axis != shared):
        plans.append(AxisPlan(axis, "time", registers, threads=THREADS // wide, dim=1) if axis == shared else AxisPlan(axis))
    if shared is None:
        return Table(plans, reasons, (wide,), machine=launch.machine)
    reasons.append(f"{shared} is shared by rows of threads")
    return _split(field, facts, launch, Table(plans, reasons, (wide, THREADS // wide), resident=resident, machine=launch.machine))


def _columns_at_once(field: HirFunction, lanes: int) -> tuple[int, int]:
    """Blocks of columns that a multiprocessor has at a time, and bytes that a thread has under way: fewer blocks have room for more of
    them, but bytes take registers as they are widened, and loads that are narrower than a vector are as many as there may be anyway."""
    widths = [bytes_of(mem_of(op.mem).dtype) for op in field.body.body if isinstance(op, Load)]
    width = max(widths, default=1)
    return (RESIDENT - 1, 2 * IN_FLIGHT) if width > 1 and width * lanes >= ALIGNMENT else (RESIDENT, IN_FLIGHT)


def _in_flight(field: HirFunction, lanes: int, turns: int, bytes: int = IN_FLIGHT) -> int:
    """Loads of a thread at once: as many bytes as hide their latency, of no more turns than there are."""
    loads = [op for op in field.body.body if isinstance(op, Load)]
    width = max((bytes_of(mem_of(op.mem).dtype) for op in loads), default=1)
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
    """The table with more blocks for each tile of results, where tiles are too few for a large GPU and nothing reads the rows again."""
    inside = set(field.axes) - set(facts.common)
    reductions = [op for op in field.body.body if isinstance(op, Reduce | Contract)]
    stores = [op for op in field.body.body if isinstance(op, Store)]
    alone = all(set(op.over) == inside for op in reductions) and not any(is_chain(field, axis) for axis in inside)
    ordered = facts.ordered or not launch.machine.has(Feature.BLOCK_ORDER)
    if ordered or not alone or any(inside.intersection(axis for axis, _ in union_axes(op.value)) for op in stores):
        return table
    outermost = next(plan for plan in table.plans if plan.axis in inside)
    tiles = prod(-(-launch.about(field.axes[plan.axis]) // plan.tile) for plan in table.plans if plan.place == "block")
    turns = -(-launch.about(field.axes[outermost.axis]) // outermost.tile)
    parts = min(power_of_two(-(-blocks // max(1, tiles))), power_of_two(turns) // 2)
    if parts <= 1:
        return table
    reason = f"up to {parts} blocks share each sum along {outermost.axis}, the last of them joins their parts"
    return evolve(table, split=LoopSplit(outermost.axis, parts), reasons=(*table.reasons, reason))


def _short(field: HirFunction, common: tuple[str, ...], inside: list[str], launch: Facts) -> bool:
    """Whether sums are so short, and so many, that threads share none."""
    each = prod(launch.about(field.axes[axis]) for axis in inside)
    return each <= SHORT_SUM and prod(launch.about(field.axes[axis]) for axis in common) >= launch.processors * THREADS


def _product_table(field: HirFunction, facts: _BlockTableFacts, launch: Facts) -> Table | None:
    """Rows and columns of every product on a square of threads."""
    rightmost = {
        axis
        for op in field.body.body
        if isinstance(op, Store)
        for axis, _ in union_axes(op.value)
        if op.index and op.index[-1].coefficient(axis) == 1
    }
    sides: dict[str, int] = {}
    for product in facts.products:
        m, n = _chosen(product.m, field, sides), _chosen(product.n, field, sides)
        if m in sides or n in sides:
            dim = sides[m] if m in sides else 1 - sides[n]
        else:
            dim = 0 if m in rightmost and n not in rightmost else 1
        if sides.setdefault(m, dim) != dim or sides.setdefault(n, 1 - dim) != 1 - dim:
            return None
    plans: dict[str, AxisPlan] = {}
    tensor_cores = chosen(field, facts.products, launch.machine)
    large = not tensor_cores and len(facts.products) == 1 and _fills(field, facts.products[0], set(sides), launch)
    for axis, dim in sides.items():
        block = axis in facts.common or axis in facts.written
        tall = tensor_cores and dim == 1 and len(facts.products) == 1
        registers = TALL_REGISTERS if tall or large else PRODUCT_REGISTERS
        if axis not in facts.common and axis not in facts.reduced:
            registers = WIDEST_RESULT
        lanes = SHARED_LANES if large and dim == 0 else 1
        if not tensor_cores:
            registers = _fitting(launch.about(field.axes[axis]), registers)
        beside = large and dim == 1 and registers % SHARED_LANES == 0
        plans[axis] = AxisPlan(axis, "block" if block else "time", registers // lanes, lanes, threads=SQUARE, dim=dim, beside=beside)
    for product in facts.products:
        free = [axis for axis in product.k if axis not in plans]
        if free:
            along = max(free, key=lambda axis: (axis in facts.contiguous, field.axes[axis].value or THREADS))
            plans[along] = AxisPlan(along, "time", 2 * SUM_STEP if tensor_cores else SUM_STEP)
    for axis in field.axes:
        plans.setdefault(axis, AxisPlan(axis, "block" if axis in facts.common else "time"))
    own = set(sides)
    summed = {axis for product in facts.products for axis in product.k}

    def rank(axis: str) -> tuple[bool, bool, bool, bool]:
        plan = plans[axis]
        return plan.place != "block", axis in summed, axis in summed and axis not in own, axis in summed and plan.registers > 1

    order = sorted(field.axes, key=rank)
    reasons = [f"rows and columns {', '.join(own)} are tiles of a block; the sum goes through shared memory"]
    if tensor_cores:
        reasons.append("tensor cores multiply: products of these types are exact, and summed as the nest sums them")
    # rows of both operands along the sum are pointers in registers, which that many blocks would have to spill
    resident = PRODUCTS_RESIDENT if large and not all(last in product.k for last in (product.last_a, product.last_b)) else None
    return Table([plans[axis] for axis in order], reasons, (SQUARE, SQUARE), tensor_cores, resident, machine=launch.machine)


def _fills(field: HirFunction, product: ProductSum, sides: set[str], launch: Facts) -> bool:
    """Whether a product of 32-bit numbers has so many tiles of eight rows and columns a thread that all multiprocessors get one."""
    tiles = [-(-launch.about(field.axes[axis]) // (SQUARE * TALL_REGISTERS if axis in sides else 1)) for axis in (*product.m, *product.n)]
    numbers = {dtype_of(value) for value in (product.a, product.b, product.result)}
    return numbers <= {"f32", "i32", "u32"} and prod(tiles) >= launch.processors and min(tiles) > 1


def _chosen(axes: tuple[str, ...], field: HirFunction, sides: dict[str, int]) -> str:
    """The axis of one side of a product that makes its tile: one that has a side already, else the longest known, else the last."""
    known = [axis for axis in axes if axis in sides]
    return known[0] if known else max(axes, key=lambda axis: (field.axes[axis].value or THREADS, axes.index(axis)))


def _fitting(extent: int, registers: int) -> int:
    """No more registers than an extent of about this size fills."""
    while registers > 1 and (registers // 2) * SQUARE >= extent:
        registers //= 2
    return registers
