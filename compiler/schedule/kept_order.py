"""Whether a table keeps the order of sums that have a written one."""

from compiler.analysis.written_order import in_written_order
from compiler.hir.module import HirFunction
from compiler.schedule.table import Table


def breach(field: HirFunction, table: Table) -> str:
    """Where a table would change such an order, in words; empty where it doesn't."""
    order = [plan.axis for plan in table.plans]
    for op in in_written_order(field):
        for axis in op.over:
            plan = next((plan for plan in table.plans if plan.axis == axis), None)
            if plan is not None and (plan.place not in ("time", "once") or plan.tile != 1):
                return f"the sum along `{axis}` keeps its order"
        if [axis for axis in order if axis in op.over] != [axis for axis in op.over if axis in order]:
            return f"the sum along {' and '.join(f'`{axis}`' for axis in op.over)} keeps its order"
    return ""
