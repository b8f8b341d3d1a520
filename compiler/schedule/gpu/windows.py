"""Windows with a border as products of tiles: `if inside: s += a * b` is a contraction of elements that are zeros outside. A weight that is
infinite or NaN makes NaN of such a zero, so a thread whose sums have a NaN adds them up once more, term by term as the nest is written,
and stores them again."""

from collections.abc import Callable, Mapping, Sequence
from math import prod

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Contract, Reduce, union_axes
from compiler.hir.field_copy import FieldCopy
from compiler.hir.module import HirFunction
from compiler.schedule.gpu.distribute import Distributing
from compiler.schedule.gpu.product_sums import sum_of_loads
from compiler.schedule.region import Target, TileRegion
from runtime.records import frozen


@frozen(eq=False)
class WindowProduct:
    """A field whose one sum is of products that count everywhere; and the sum as it was written, where its weights may make a
    difference."""

    field: HirFunction
    target: Contract | Reduce
    exact: Reduce | None
    bounds: tuple[Affine, ...] = ()
    """What is at least 0 wherever a term takes part; elsewhere operands are zeros."""


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


def added_again(
    placing: Distributing,
    window: WindowProduct,
    group: Sequence[Target],
    first: TileRegion,
    element: Callable[[Builder, Mapping[str, Affine]], TileRegion],
) -> None:
    """Where one of the sums that a thread has in `first` is NaN, all of its elements once more, one after the other. `element`: the body
    at one place of its digits."""
    if window.exact is None:
        return
    b, sums = first.builder, first.find(window.target.results[0])
    assert sums is not None
    digits = union_axes(sums)
    wrong = b.isnan(sums)
    if digits:
        (wrong,) = b.reduce("or", wrong, over=[axis for axis, _ in digits])
    extents = [extent.value or 1 for _, extent in digits]
    with b.when(wrong) as again, again.loop("again", 0, prod(extents)) as (body, loop):
        rest, places = Affine.of(loop.variable.name), dict[str, Affine]()
        for (axis, _), extent in zip(digits, extents, strict=True):
            places[axis] = body.named(rest % extent)
            rest = rest.floordiv(extent)
        one = element(body, places)
        placing.produce([window.exact], one, {})
        one.made[window.target.results[0]] = one.made[window.exact.results[0]]
        placing.produce(group, one, {})
