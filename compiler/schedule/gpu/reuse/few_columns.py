"""Sums whose terms join long rows with few columns, as a matrix by three vectors: time is what reading the rows takes. The columns, which
lie across, are copied first, each in one run; warps stand along the sum, and a thread has all columns of some rows."""

from collections.abc import Sequence
from functools import partial

from compiler.hir.affine import Affine
from compiler.hir.alignment import steps_by_one
from compiler.hir.build import Builder
from compiler.hir.core import Reduce
from compiler.hir.field_copy import FieldCopy, FreshNames
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.schedule.gpu.block_launches import launches_of_blocks
from compiler.schedule.gpu.cuts.workspaces import Copied, copied_before
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.lanes import lanes_along
from compiler.schedule.gpu.memory_order import permuted
from compiler.schedule.gpu.reuse.reuse import are_copied, axes_of, reused_terms
from compiler.schedule.gpu.rewrites.terms_of_products import terms_of_products
from compiler.schedule.gpu.tiles.distribute import Distributing
from compiler.schedule.gpu.tiles.taking_part import long_before_short
from compiler.schedule.launches import Launches
from compiler.schedule.materialise import common_axes
from compiler.schedule.table import AxisPlan, Table
from runtime.records import evolve

MOST_COLUMNS, MOST_WIDER = 16, 16
"""And how many bytes all columns may have for one of a row: the first cache gives 8 columns of f32 more slowly than memory a row of u8."""
LEAST_ROWS, LEAST_TERMS = 1024, 1024
ROWS, FLIGHT, SINGLE_FLIGHT = 2, 1, 4
"""Rows of a thread, and accesses of each that it has under way, of single elements too."""
THREADS, RESIDENT, FEW = 256, (3, 2), 8
"""Of a block; and blocks that a multiprocessor has at a time, of so few columns or more."""


def few_column_launches(field: HirFunction, facts: Facts) -> Launches | None:
    """None for a field that isn't such a sum."""
    field = terms_of_products(field)
    terms = reused_terms(field, facts.about)
    if terms is None or terms.columns is None or terms.later or len(terms.sums) > 1 or terms.sums[0].over != (terms.depth,):
        return None
    few, rows = sorted((terms.rows, terms.columns), key=lambda axis: facts.about(field.axes[axis]))
    if field.axes[few].value is None and are_copied(terms, facts.machine):
        return None  # what tiles share comes beside the computation there
    columns = facts.about(field.axes[few])
    is_long = facts.about(field.axes[rows]) >= LEAST_ROWS and facts.about(field.axes[terms.depth]) >= LEAST_TERMS
    if not is_long or not 1 < columns <= MOST_COLUMNS or {*common_axes(field)} != {few, rows}:
        return None
    loads = [op for op in field.body.body if isinstance(op, Load) and terms.depth in axes_of(op.result)]
    across = [op for op in loads if few in axes_of(op.result)]
    wide, narrow = (max((bytes_of(mem_of(op.mem).dtype) for op in loads if (op in across) is side), default=1) for side in (True, False))
    if columns * wide > MOST_WIDER * narrow or not all(op in across or steps_by_one(mem_of(op.mem), op.index, terms.depth) for op in loads):
        return None
    if (turning := _turned(field, across, terms.depth)) is None:
        return None
    reading, copies = turning
    launches = launches_of_blocks(_LongRowsFirst(reading, _table(reading, terms.depth, rows, few, columns, facts)).run())
    return copied_before(field, copies, facts, launches)


def _table(field: HirFunction, depth: str, rows: str, few: str, columns: int, facts: Facts) -> Table:
    lanes, warp = lanes_along(field, [depth]), facts.machine.lanes
    plans = [
        AxisPlan(rows, "block", ROWS, threads=THREADS // warp, dim=1),
        AxisPlan(few, "block", columns),
        AxisPlan(depth, "time", FLIGHT if lanes > 1 else SINGLE_FLIGHT, lanes, threads=warp),
    ]
    reasons = [f"rows along {rows} are read once: a warp has {ROWS} of them by all {columns} along {few}"]
    return Table(plans, reasons, (warp, THREADS // warp), RESIDENT[columns > FEW], machine=facts.machine)


class _LongRowsFirst(Distributing):
    def tile_of_turn(self, b: Builder, number: Value, total: Value, plans: Sequence[AxisPlan]) -> Value:
        bounds = [(form, op.over) for op in self.field.body.body if isinstance(op, Reduce) for form in self.terms_between(op)]
        return long_before_short(self.field, b, number, total, [plan.axis for plan in plans], bounds)


def _turned(field: HirFunction, loads: Sequence[Load], axis: str) -> tuple[HirFunction, list[Copied]] | None:
    """The field with copies, as further parameters, of what these loads read, in which an axis lies along the last dimension. None where
    there is nothing to copy, or no one dimension lies along the axis."""
    names = FreshNames(field)
    copies: dict[Value, tuple[Copied, tuple[int, ...]]] = {}
    for memory in dict.fromkeys(op.mem for op in loads):
        own = [op for op in loads if op.mem is memory]
        dims = {dim for op in own for dim, form in enumerate(op.index) if form.coefficient(axis)}
        if len(dims) != 1 or any(op.pad is not None and op.where is None for op in own):
            return None
        (last,) = dims
        order = (*(dim for dim in range(mem_of(memory).rank) if dim != last), last)
        copies[memory] = _copied(memory, order, names), order
    return (_reading(field, copies), [copy for copy, _ in copies.values()]) if copies else None


def _copied(memory: Value, order: tuple[int, ...], names: FreshNames) -> Copied:
    """A copy of a memory with its dimensions in another order, in rows that are filled up to whole accesses."""
    mem = mem_of(memory)
    each = ALIGNMENT // bytes_of(mem.dtype)
    axes = {dim: names.fresh(f"{memory.name}_{dim}") for dim in order}
    length = mem.dims[order[-1]]
    extents = [*(mem.dims[dim] for dim in order[:-1]), length.ceildiv(each) * each]
    inside = (length - 1 - Affine.of(axes[order[-1]]),) if length.divisor % each else ()
    index = tuple(Affine.of(axes[dim]) for dim in range(mem.rank))
    pairs = tuple((axes[dim], extent) for dim, extent in zip(order, extents, strict=True))
    return Copied(names.fresh(f"{memory.name}_turned"), memory, pairs, index, inside)


def _reading(field: HirFunction, copies: dict[Value, tuple[Copied, tuple[int, ...]]]) -> HirFunction:
    """The field with the copies, as further parameters, instead of what they are of."""
    reading = FieldCopy.whole(field)
    for memory, (copy, _) in copies.items():
        reading.parameter(memory, evolve(copy.mem, readonly=True), copy.name)
    return reading.viewed({memory: partial(permuted, order) for memory, (_, order) in copies.items()})
