"""Maps over axes of which none fills a block's threads: all of them as one row of accesses, whose number each thread takes apart. No thread
is without work, whatever the extents; for that each divides once an axis."""

from collections.abc import Sequence
from math import prod

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.module import HirFunction
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.indices import small_digits, thread_index
from compiler.schedule.gpu.tiles.distribute import Distributing
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import AxisPlan, Table

THREADS = 128

FEW = 1 << 31
"""Accesses whose numbers are taken apart in 32 bits."""


def flat_table(axes: Sequence[str], lanes: int, rows: int = 1) -> Table:
    """The axes outermost first; `lanes` elements of the last are an access, of which a thread has so many along the axis before it."""
    plans = [AxisPlan(axis, "block", registers=rows if axis == axes[-2] else 1) for axis in axes[:-1]]
    plans.append(AxisPlan(axes[-1], "block", lanes=lanes))
    return Table(plans, [f"threads stand along {', '.join(axes)} as one row: none of these alone fills a block"], (THREADS,))


class FlatDistributing(Distributing):
    """Builds the launch of such a map."""

    all_have_own = True

    def __init__(self, field: HirFunction, table: Table, facts: Facts) -> None:
        super().__init__(field, table)
        counts = [facts.about(field.axes[plan.axis]) for plan in table.plans]
        names = {name for plan in table.plans for name in field.axes[plan.axis].names}
        self.few = names <= dict(facts.magnitudes).keys() and prod(counts) + THREADS <= FEW

    def shared_out(self, group: Sequence[Target], region: TileRegion) -> None:
        b, plans = region.builder, self.table.plans
        counts = [b.count(self.field.axes[plan.axis].ceildiv(plan.tile)) for plan in plans]
        total = b.product(counts)
        blocks = b.op("div", b.add(total, b.const(THREADS - 1, "index")), b.const(THREADS, "index"))
        with self.blocks(blocks, region, ()) as (inner, block):
            body = inner.builder
            thread = thread_index(body)
            number = body.index(Affine.of(block.name) * THREADS + thread.name)
            with body.when(body.op("lt", number, total)) as deep:
                own = inner.inside(deep, [plan.axis for plan in plans])
                digits = (small_digits if self.few else Builder.digits)(deep, number, counts[1:])
                for plan, digit in zip(plans, digits, strict=True):
                    self.enter(plan, Affine.of(digit.name), own)
                    if self.field.axes[plan.axis].divisor % plan.tile:
                        own.masks[plan.axis] = self.field.axes[plan.axis]
                self.produce(group, own, {})
