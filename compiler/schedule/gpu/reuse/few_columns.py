"""Sums whose terms join long rows with few columns, as a matrix by three vectors: time is what reading the rows takes. The columns, which
lie across, are copied first, each in one run; warps stand along the sum, and a thread has all columns of some rows."""

from collections.abc import Sequence

from compiler.hir.alignment import steps_by_one
from compiler.hir.build import Builder
from compiler.hir.core import Reduce
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.schedule.gpu.block_launches import launches_of_blocks
from compiler.schedule.gpu.cuts.workspaces import copied_before
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.lanes import lanes_along
from compiler.schedule.gpu.reuse.reuse import are_copied, axes_of, reused_terms
from compiler.schedule.gpu.rewrites.terms_of_products import terms_of_products
from compiler.schedule.gpu.rewrites.turned_operands import turned
from compiler.schedule.gpu.tiles.distribute import Distributing
from compiler.schedule.gpu.tiles.taking_part import long_before_short
from compiler.schedule.launches import Launches
from compiler.schedule.materialise import common_axes
from compiler.schedule.table import AxisPlan, Table

MOST_COLUMNS, MOST_WIDER = 8, 16
"""And how many bytes all columns may have for one of a row: the first cache gives 8 columns of f32 more slowly than memory a row of u8."""
LEAST_ROWS, LEAST_TERMS = 1024, 1024
ROWS, FLIGHT, SINGLE_FLIGHT = 2, 1, 4
"""Rows of a thread, and accesses of each that it has under way, of single elements too."""
THREADS, RESIDENT = 256, 3
"""Of a block; and blocks that a multiprocessor has at a time."""


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
    if (turning := turned(field, across, terms.depth)) is None:
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
    return Table(plans, reasons, (warp, THREADS // warp), RESIDENT, machine=facts.machine)


class _LongRowsFirst(Distributing):
    def tile_of_turn(self, b: Builder, number: Value, total: Value, plans: Sequence[AxisPlan]) -> Value:
        bounds = [(form, op.over) for op in self.field.body.body if isinstance(op, Reduce) for form in self.terms_between(op)]
        return long_before_short(self.field, b, number, total, [plan.axis for plan in plans], bounds)
