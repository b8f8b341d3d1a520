"""Products of few columns: only these are copied, and rows are read in place, several at a time."""

from collections.abc import Sequence
from contextlib import ExitStack

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import dtype_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem
from compiler.schedule.packed import THIN_ROWS, Packing
from compiler.schedule.padded_windows import PlacingWindows, padded_windows
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import AxisPlan, Table

LEAST_DEPTH = 32
"""Terms of a sum from which copies of operands pay."""


class PlacingFewColumns(PlacingWindows):
    """Places a field once for each table of few columns, and otherwise as `of_many_columns` does."""

    def __init__(self, field: HirFunction, table: Table, packing: Packing) -> None:
        super().__init__(field, table, padded_windows(field, table))
        self.packing, self.product, self.summed = packing, packing.product, packing.summed
        self.copied: Value | None = None
        """Where few columns are."""
        for plan in (plan for _, few in packing.few for plan in few.plans):
            self.declare(plan)

    def begin(self, stores: Sequence[Target], root: TileRegion) -> None:
        table = self.table
        with ExitStack() as branches:
            for most, few in self.packing.few:
                then, otherwise, _ = branches.enter_context(root.builder.branch(self.has_few(most, root.builder)))
                self.table, region = few, TileRegion(then, made=dict(root.made))
                self.copied = self.copy_columns(most, region)
                column = few[self.packing.columns.plan.axis]
                if column.lanes > 1:
                    # one tile is all columns
                    region.axes = frozenset({column.axis})
                    region.forms[column.axis], region.masks[column.axis] = column.within(), self.field.axes[column.axis]
                self.produce(stores, region, {})
                self.table, self.copied, root = table, None, TileRegion(otherwise, made=dict(root.made))
            self.of_many_columns(stores, root)

    def of_many_columns(self, stores: Sequence[Target], root: TileRegion) -> None:
        raise NotImplementedError

    def has_few(self, most: int, b: Builder) -> Value:
        """Whether there are at most so many columns, and rows and terms enough to take several at a time."""
        extents = self.field.axes
        result = b.op("le", b.index(extents[self.packing.columns.plan.axis]), b.const(most, "index"))
        for axis, least in (self.summed, LEAST_DEPTH), (self.packing.rows.plan.axis, THIN_ROWS):
            result = b.both(result, b.op("ge", b.index(extents[axis]), b.const(least, "index")))
        return result

    def copy_columns(self, most: int, region: TileRegion) -> Value | None:
        """All columns, of which there are at most so many, as their vectors lie: along the sum, or across with zeros behind the last, so
        that none is masked term by term. None where they are others in each iteration of a loop around them."""
        b, columns = region.builder, self.packing.columns
        if self.product.batch or len(columns.axes) > 1 or dtype_of(columns.operand) != self.product.dtype:
            return None
        axis, plan = columns.plan.axis, self.table[columns.plan.axis]
        terms, extent = self.field.axes[self.summed], self.field.axes[axis]
        across = plan.lanes > 1
        copied = b.alloc(Mem(self.product.dtype, (terms, Affine.of(most)) if across else (Affine.of(most), terms), align=64), "columns")
        with ExitStack() as loops:
            inner = region.inside(b, (self.summed, axis))
            for name, high in [(self.summed, terms)] if across else [(axis, extent), (self.summed, terms)]:
                body, loop = loops.enter_context(inner.builder.loop(f"{name}0", 0, high))
                inner.builder, inner.forms[name], inner.narrow[name] = body, Affine.of(loop.variable.name), AxisPlan(name)
            if across:
                inner.forms[axis], inner.masks[axis] = plan.within(), extent
            place = [inner.forms[self.summed], inner.forms[axis]]
            inner.builder.store(copied, self.value(columns.operand, inner), place if across else place[::-1])
        return copied

    def make(self, op: Instruction, value: Value, region: TileRegion) -> Value:
        columns = self.packing.columns
        if self.copied is None or value is not columns.operand:
            return super().make(op, value, region)
        axis = columns.plan.axis
        if self.table[axis].lanes > 1:
            return region.builder.load(self.copied, [region.forms[self.summed], self.table[axis].within()])
        where = self.mask(region, [self.summed], None)
        return region.builder.load(self.copied, [region.forms[axis], region.forms[self.summed]], where)
