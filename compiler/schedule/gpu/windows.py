"""Windows with a border as products of tiles: `if inside: s += a * b` is a contraction of elements that are zeros outside. A weight that is
infinite or NaN makes NaN of such a zero, so a thread whose sums have a NaN adds them up once more, term by term as the nest is written,
and stores them again."""

from collections.abc import Sequence
from math import prod

from compiler.analysis.recognise import product_sum
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Contract, Reduce, union_axes
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.schedule.gpu.distribute import Distributing
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.product_sums import sum_of_loads
from compiler.schedule.gpu.taking_part import longest_first
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import AxisPlan, Table
from runtime.records import frozen

LEAST_SIDE = 2


@frozen(eq=False)
class WindowProduct:
    """A field whose one sum is of products that count everywhere; and the sum as it was written, where its weights may make a
    difference."""

    field: HirFunction
    target: Contract | Reduce
    exact: Reduce | None


def window_product(function: HirFunction) -> WindowProduct | None:
    """The field with the guarded sum of products that it has as a contraction."""
    product = sum_of_loads(function)
    if product is None or not isinstance(product.target, Reduce):
        return None
    out = FieldCopy(function)
    out.parameters()
    out.axes()
    exact, target = None, None
    for op in function.body.body:
        if op is product.target:
            a, b = (out.values[load.results[0]] for load in (product.a, product.b))
            exact = out.body.emit(out.rebuilt(op), "exact")
            target = Contract(a=a, b=b, over=product.target.over, to=product.to, span=op.span)
            out.emit(op, target)
        else:
            out.copy(op)
    assert target is not None and isinstance(exact, Reduce)
    field = out.finish()
    field.body.body = [op for op in field.body.body if op is not exact]
    return WindowProduct(field, target, exact if product.guard else None)


def has_sides(field: HirFunction, target: Contract | Reduce, facts: Facts) -> bool:
    """Whether a product has several rows and several columns: a matrix by a vector isn't one of tiles."""
    product = product_sum(target)
    sides = () if product is None else (product.m, product.n)
    return all(prod(facts.about(field.axes[axis]) for axis in axes) >= LEAST_SIDE for axes in sides)


class WindowDistributing(Distributing):
    """Builds the launch of such a field."""

    def __init__(self, window: WindowProduct, table: Table) -> None:
        super().__init__(window.field, table)
        self.window = window

    def tile_of_turn(self, b: Builder, number: Value, total: Value, plans: Sequence[AxisPlan]) -> Value:
        return longest_first(self.field, b, number, total, plans)

    def in_block(self, group: Sequence[Target], region: TileRegion, ragged: Sequence[AxisPlan]) -> None:
        exact = self.window.exact
        if exact is None:
            super().in_block(group, region, ragged)
            return
        b, axes = region.builder, [plan.axis for plan in self.table.plans if plan.place == "block"]
        region.masks.update({plan.axis: self.field.axes[plan.axis] for plan in ragged})
        first = region.inside(b, axes)
        self.produce(group, first, {})
        sums = first.find(self.window.target.results[0])
        assert sums is not None
        digits = union_axes(sums)
        wrong = b.isnan(sums)
        if digits:
            (wrong,) = b.reduce("or", wrong, over=[axis for axis, _ in digits])
        with b.when(wrong) as again:
            self.recomputed(group, exact, digits, region, again)

    def recomputed(
        self, group: Sequence[Target], exact: Reduce, digits: Sequence[tuple[str, Affine]], region: TileRegion, b: Builder
    ) -> None:
        """The thread's elements once more, one after the other."""
        extents = [extent.value or 1 for _, extent in digits]
        with b.loop("again", 0, prod(extents)) as (body, loop):
            rest, places = Affine.of(loop.variable.name), {}
            for (axis, _), extent in zip(digits, extents, strict=True):
                places[axis] = body.named(rest % extent)
                rest = rest.floordiv(extent)
            own = [plan.axis for plan in self.table.plans if plan.place == "block"]
            element = region.inside(body, own)
            element.forms = {axis: form.substitute(places) for axis, form in element.forms.items()}
            element.narrow.update({axis: AxisPlan(axis, "block") for axis in own})
            self.produce([exact], element, {})
            element.made[self.window.target.results[0]] = element.made[exact.results[0]]
            self.produce(group, element, {})
