"""Tables for fields whose results share axes, with one more axis along which the rest lies: sums of rows, and chains that read a row
again after its reduction (softmax, norms, whatever else). Where a row fits, each thread keeps its part of it in registers: it is read
once and written once, however many reductions stand between."""

from collections.abc import Mapping, Sequence
from math import prod

from compiler.hir.alignment import alignment
from compiler.hir.core import Contract, Reduce, Scan, dtype_of, union_axes
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.machines.gpu import Feature, GpuMachine
from compiler.machines.nvidia import PORTABLE
from compiler.schedule.field import axes_contiguous
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.lanes import lanes_along, power_of_two
from compiler.schedule.gpu.products.product_sums import sum_of_loads
from compiler.schedule.materialise import common_axes
from compiler.schedule.table import AxisPlan, Table

THREADS = 256
"""Threads that a multiprocessor has several blocks of; more that wait for each other wait longer."""

MOST_THREADS = 512

LONGEST = 49152
"""Elements of a row that a block's registers hold."""

KEPT_BYTES = 128
"""What a thread keeps of a row: enough accesses in flight to hide their latency. Of rows too long for that, twice or three times as
much."""

THREAD_BYTES = 4 * 255
"""Registers that a thread can have."""

REGISTER_BYTES = 4 * 65536
"""Registers of a multiprocessor."""

OTHER_BYTES = 4 * 40
"""What a thread needs beside the row."""

TIGHT_BYTES = 4 * 32
"""The same where two blocks of many threads shall be on a multiprocessor: while one waits, the other computes."""

FLIGHT = 4
"""Accesses that a thread of a short row has under way, in several of them."""

SHARING = 4
MOST_SHARED = 64
"""Rows of a thread that read the same elements, and elements of these rows that it has at most."""

MANY = 1 << 14
"""Blocks of short rows from which on fewer with more to do each are faster."""

COLUMN_SHAPES = ((THREADS, KEPT_BYTES), (MOST_THREADS, KEPT_BYTES), (MOST_THREADS, 2 * KEPT_BYTES), (2 * MOST_THREADS, KEPT_BYTES))
"""Threads of a block that keeps columns, and bytes of these that each has: few of both rather, so that blocks take turns."""

SHORT_COLUMN = 32
"""Bytes of a column up to which one thread has it, where it reads elements one by one: several wait for each other more than they read. On
an H200 columns of 3 and 8 f32 are 1.19 and 1.09 times as fast then, and those of 21 and 32 take 1.11 and 1.8 times as long."""

COLUMN_LANES = 2
"""Columns of a thread where as many as 16 bytes hold are too many."""

MOST_RESIDENT = 16

WORD = 4
"""Bytes of elements that are kept as they are in memory."""

ROUNDING_BYTES = 4 * 16
"""What a thread needs besides where it rounds by integer arithmetic."""


def row_table(field: HirFunction, common: tuple[str, ...], along: str, facts: Facts, others: Sequence[str] = ()) -> Table | None:
    """The table that keeps rows along an axis, and along `others` of constant extents, in registers, `common` being all other axes; None
    where they are too long, or nothing reads them again and a loop does as well."""
    lanes, length = lanes_along(field, [along]), facts.about(field.axes[along])
    lines = prod(field.axes[axis].value or 0 for axis in others)
    if not lines:
        return None
    read = _read(field, common, along)
    width = max([4, *(bytes_of(dtype_of(op.result)) for op in read)])
    rounding = not facts.machine.has(Feature.NARROW_FLOATS) and any(dtype_of(op.result) in ("f16", "bf16") for op in read)
    chain, shared = is_chain(field, along), shared_lanes(field, common, along)
    if 0 < shared < lanes and length > facts.machine.lanes * MOST_SHARED:
        return None  # a warp reads what all rows read, turn by turn, for several of them
    if shared and field.axes[along].value is not None:
        warp = facts.machine.lanes
        lanes = min((each for each in (16, 8, 4, 2, 1) if each <= lanes), key=lambda each: -(-length // (each * warp)) * each)
    words = len(read) == 1 and bytes_of(mem_of(read[0].mem).dtype) == WORD
    blocks = facts.machine.cluster if chain and not others else 1
    cluster, values = cut(length * lines, KEPT_BYTES // width, blocks, MOST_THREADS if words else THREADS)
    part, values = -(-length // cluster), max(lanes, values)
    threads = power_of_two(max(min(facts.machine.lanes, -(-part // lanes)), -(-part * lines // values)))
    if others:
        values = max(1, -(-part // (threads * lanes))) * lanes * lines
    spared = OTHER_BYTES - TIGHT_BYTES if words and threads > THREADS else 0
    needed = max(1, len(read)) * values * width + OTHER_BYTES - spared + (ROUNDING_BYTES if rounding else 0)
    if threads > (MOST_THREADS if chain else THREADS) or needed > THREAD_BYTES or threads * needed > REGISTER_BYTES:
        return None
    registers = max(1, -(-part // (threads * lanes)))
    if not chain and values > KEPT_BYTES // width and any(not _begins_anew(op, along) for op in read):
        return None  # accesses short enough to begin anywhere would be more than a thread has under way, with few threads beside it
    beside = max(1, THREADS // threads) if cluster == 1 else 1
    values = registers * lanes * lines
    rows, inner = _rows_beside(field, common, beside, values, facts)
    each = _rows_each(values, facts.about(field.axes[rows]), beside, shared > 0) if threads <= facts.machine.lanes and not inner else 1
    plans = [AxisPlan(axis, "block", inner.get(axis, 1)) for axis in common if axis != rows]
    plans.append(AxisPlan(rows, "block", each, threads=beside, dim=1))
    plans += [AxisPlan(axis, "once", field.axes[axis].value or 0) for axis in others]
    plans.append(AxisPlan(along, "once", registers, lanes, threads=threads))
    reason = f"rows along {along} stay in registers of {threads} threads: they are read once"
    if cluster > 1:
        reason = f"rows along {along} stay in registers of {cluster} blocks of {threads} threads, a cluster: they are read once"
    resident = max(1, REGISTER_BYTES // (threads * beside * needed))
    return Table(plans, [reason], (threads, beside), resident=resident, machine=facts.machine, cluster=cluster)


def column_table(field: HirFunction, common: tuple[str, ...], columns: str, along: str, facts: Facts) -> Table | None:
    """The table that keeps columns along an axis in registers, `columns` being the one of all other axes along which memory is contiguous:
    a warp stands across, and rows of threads have some elements of each column, or a thread has a column that is short, where columns
    can't be read side by side; None where they are too long, or nothing reads them again."""
    read, length = _read(field, common, along), field.axes[along].value
    if length is None or not read or not is_chain(field, along):
        return None
    width = max([WORD, *(bytes_of(dtype_of(op.result)) for op in read)])
    across, most = facts.about(field.axes[columns]), lanes_along(field, [columns])
    others = prod(facts.about(field.axes[axis]) for axis in common if axis != columns)
    for threads, kept in COLUMN_SHAPES:
        for lanes in dict.fromkeys((most, min(most, COLUMN_LANES), 1)):
            alone = lanes == 1 and len(read) * length * width <= SHORT_COLUMN and others * across >= threads * facts.processors
            wide = min(threads if alone else facts.machine.lanes, power_of_two(-(-across // lanes)))
            if lanes > 1 and others * -(-across // (wide * lanes)) < facts.processors:
                continue
            tall = min(threads // wide, power_of_two(length))
            registers = -(-length // tall)
            needed = len(read) * registers * lanes * width
            if needed > kept or (needed + OTHER_BYTES) * wide * tall > REGISTER_BYTES:
                continue
            plans = [AxisPlan(axis, "block") for axis in common if axis != columns]
            plans += [AxisPlan(columns, "block", lanes=lanes, threads=wide), AxisPlan(along, "once", registers, threads=tall, dim=1)]
            reason = f"columns along {along} stay in registers of {tall} threads each: they are read once"
            resident = max(1, REGISTER_BYTES // ((needed + OTHER_BYTES) * wide * tall))
            return Table(plans, [reason], (wide, tall), resident=min(resident, MOST_RESIDENT), machine=facts.machine)
    return None


def _rows_beside(
    field: HirFunction, common: Sequence[str], beside: int, values: int, facts: Facts
) -> tuple[str, dict[str, int]]:
    """The axis along which rows stand beside each other in a block, and how many rows a thread has along others. The innermost, unless it
    is too short for so many; it is a thread's own then, where registers hold as many more."""
    rows = common[-1]
    if facts.about(field.axes[rows]) * 2 > beside:
        return rows, {}
    longest = max(common, key=lambda axis: facts.about(field.axes[axis]))
    extent = field.axes[rows].value
    return longest, {rows: extent} if longest != rows and extent and extent * values <= MOST_SHARED else {}


def _rows_each(values: int, rows: int, beside: int, shared: bool) -> int:
    """Rows that a thread has of short ones, of which it has so many values each, where there are many of them: several where they are
    `shared`, combined with elements that all rows read, as of a matrix and a vector."""
    return max(1, min(SHARING, MOST_SHARED // values) if shared else FLIGHT // values) if rows >= MANY * beside else 1


def cut(length: int, values: int, blocks: int, threads: int = THREADS) -> tuple[int, int]:
    """Blocks that share a row, of so many at most, and elements of it that a thread keeps: `values`, where so many threads a block are
    enough for that, else twice or three times as many. Blocks are fewer rather than threads' parts small, since blocks of a cluster
    begin and end together."""
    cluster = min(blocks, power_of_two(-(-length // (2 * values * THREADS))))
    if length <= cluster * values * threads:
        return cluster, values
    return cluster, 2 * values if length <= cluster * 2 * values * MOST_THREADS else 3 * values


def row_lengths(field: HirFunction, sizes: Mapping[str, int], machine: GpuMachine = PORTABLE) -> tuple[tuple[str, int], ...]:
    """The sizes that a kernel for chains of rows is made for: lengths of rows that registers hold, by their names."""
    longest = LONGEST * machine.cluster
    reductions = [op for op in field.body.body if isinstance(op, Reduce | Contract | Scan)]
    over = {frozenset(op.over) for op in reductions if union_axes(*op.results) or len(reductions) == 1}
    if len(over) != 1 or any(not isinstance(op, Reduce) for op in reductions):
        return ()
    (inside,) = over
    names = {name for axis in inside for name in field.axes[axis].names}
    if not any(is_chain(field, axis) for axis in inside) or not names <= sizes.keys():
        return ()
    length = prod(max(0, field.axes[axis].evaluate(sizes.__getitem__)) for axis in inside)
    return tuple(sorted((name, sizes[name]) for name in names)) if 0 < length <= longest else ()


def single_lengths(field: HirFunction, sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The sizes that a kernel for sums of rows is made for where rows are no multiples of a vector, as elements go one by one then, and
    numbers spare each its condition; or where all of them read the same elements, too, so that no lane of a warp is idle."""
    over = {op.over for op in field.body.body if isinstance(op, Reduce | Contract | Scan)}
    along = next(iter(over))[0] if len(over) == 1 else ""
    names = {*field.axes[along].names} if along in axes_contiguous(field) else set()
    if over != {(along,)} or not names or not names <= sizes.keys() or is_chain(field, along) or sum_of_loads(field):
        return ()
    length = field.axes[along].evaluate(sizes.__getitem__)
    rows = [bytes_of(mem_of(op.mem).dtype) * length for op in field.body.body if isinstance(op, Load) and along in _names(op)]
    odd = shared_lanes(field, common_axes(field), along) > 0 or any(row % ALIGNMENT for row in rows)
    return tuple(sorted((name, sizes[name]) for name in names)) if odd and 0 < length <= THREADS * KEPT_BYTES // WORD else ()


def shared_lanes(field: HirFunction, common: Sequence[str], along: str) -> int:
    """Elements that 16 bytes hold of what sums of rows read that is the same for all of them, as of a matrix and a vector; 0 where nothing
    is."""
    loads = [] if is_chain(field, along) else [op for op in field.body.body if isinstance(op, Load)]
    sizes = [bytes_of(mem_of(op.mem).dtype) for op in loads if along in _names(op) and _names(op).isdisjoint(common)]
    return ALIGNMENT // max(sizes) if sizes else 0


def _begins_anew(op: Load, along: str) -> bool:
    """Whether each row begins at a multiple of 16 bytes, as far as that is known."""
    return alignment(mem_of(op.mem), [form.without(along) for form in op.index]) % ALIGNMENT == 0


def _names(op: Load) -> set[str]:
    return {name for name, _ in union_axes(op.result)}


def _read(field: HirFunction, common: tuple[str, ...], along: str) -> list[Load]:
    """Loads of rows: what varies along the axis and another."""
    loads = [op for op in field.body.body if isinstance(op, Load)]
    return [op for op in loads if along in (names := {name for name, _ in union_axes(op.result)}) and names.intersection(common)]


def is_chain(field: HirFunction, along: str) -> bool:
    """Whether something that varies along the axis is computed from a reduction along it."""
    behind: set[Value] = set()
    for op in field.body.body:
        later = behind.intersection(op.operand_values)
        varies = {name for name, _ in union_axes(*op.operand_values)} if isinstance(op, Reduce | Contract | Store) else set()
        if later and along in varies:
            return True
        if later or (isinstance(op, Reduce | Contract) and along in op.over):
            behind.update(op.results)
    return False
