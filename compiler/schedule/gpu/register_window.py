"""Tiles of results in registers of a window with a border."""

from collections.abc import Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Contract, Reduce
from compiler.schedule.gpu.register_walk import RegisterDistributing
from compiler.schedule.gpu.reuse import ReusedTerms
from compiler.schedule.gpu.windows import WindowProduct, added_again
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import AxisPlan, Table


class RegisterWindow(RegisterDistributing):
    """The same of a window with a border."""

    def __init__(self, window: WindowProduct, terms: ReusedTerms, table: Table, processors: int) -> None:
        super().__init__(window.field, terms, table, processors)
        self.window = window

    def terms_between(self, target: Reduce | Contract) -> Sequence[Affine]:
        return self.window.bounds or super().terms_between(target)

    def in_block(self, group: Sequence[Target], region: TileRegion, ragged: Sequence[AxisPlan]) -> None:
        if self.window.exact is None:
            super().in_block(group, region, ragged)
            return
        own = [plan.axis for plan in self.table.plans if plan.place == "block"]
        region.masks.update({plan.axis: self.field.axes[plan.axis] for plan in ragged})

        def element(b: Builder, places: Mapping[str, Affine]) -> TileRegion:
            one = region.inside(b, own)
            one.forms = {axis: form.substitute(places) for axis, form in one.forms.items()}
            one.narrow.update({axis: AxisPlan(axis, "block") for axis in own})
            return one

        first = region.inside(region.builder, own)
        self.produce(group, first, {})
        added_again(self, self.window, group, first, element)
