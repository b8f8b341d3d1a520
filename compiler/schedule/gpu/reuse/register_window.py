"""Tiles of results in registers of a window with a border."""

from collections.abc import Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Contract, Reduce
from compiler.hir.memory import Store
from compiler.schedule.gpu.reuse.register_walk import RegisterDistributing
from compiler.schedule.gpu.reuse.reuse import ReusedTerms
from compiler.schedule.gpu.rewrites.windows import WindowProduct, added_again
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import AxisPlan, Table


class RegisterWindow(RegisterDistributing):
    """The same of a window with a border."""

    def __init__(self, window: WindowProduct, terms: ReusedTerms, table: Table, processors: int) -> None:
        super().__init__(window.field, terms, table, processors)
        self.window = window
        self.own = [plan.axis for plan in table.plans if plan.place == "block"]
        self.block: TileRegion | None = None

    def terms_between(self, target: Reduce | Contract) -> Sequence[Affine]:
        return self.window.bounds or super().terms_between(target)

    def in_block(self, group: Sequence[Target], region: TileRegion, ragged: Sequence[AxisPlan]) -> None:
        if self.window.exact is None:
            super().in_block(group, region, ragged)
            return
        region.masks.update({plan.axis: self.field.axes[plan.axis] for plan in ragged})
        self.block = region
        first = region.inside(region.builder, self.own)
        even = self.even_part(first)
        if even is None:
            self.produce(group, first, {})
        else:
            with region.builder.when(even) as into:
                self.produce(group, first.inside(into, ()), {})
        if self.part is None:
            added_again(self, self.window, group, first, self.element)

    def last_words(self, group: Sequence[Target], region: TileRegion, last: TileRegion) -> set[Target]:
        left = super().last_words(group, region, last)
        if self.window.exact is not None:
            part, self.part = self.part, None  # no other block sums these again
            added_again(self, self.window, [op for op in self.field.body.body if isinstance(op, Store)], last, self.element)
            self.part = part
        return left

    def element(self, b: Builder, places: Mapping[str, Affine]) -> TileRegion:
        """The block's body at one place of a thread's digits."""
        assert self.block is not None
        one = self.block.inside(b, self.own)
        one.forms = {axis: form.substitute(places) for axis, form in one.forms.items()}
        one.narrow.update({axis: AxisPlan(axis, "block") for axis in self.own})
        return one
