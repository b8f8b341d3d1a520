"""Windows with a border, and triangles, as products of tiles: `if inside: s += a * b` is a contraction of elements that are zeros outside.
A factor that is infinite or NaN makes NaN of such a zero, so a thread whose sums have a NaN adds them up once more, term by term as the
nest is written, and stores them again."""

from collections.abc import Callable, Mapping, Sequence
from math import prod

from compiler.analysis.accesses import constraints_of
from compiler.analysis.recognise import product_sum
from compiler.analysis.written_order import in_written_order
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Binary, Const, Contract, Reduce, Scan, Select, dtype_of, union_axes
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.hir.types import INDEX, is_float
from compiler.schedule.gpu.products.product_sums import sum_of_loads
from compiler.schedule.gpu.tiles.distribute import Distributing
from compiler.schedule.region import Target, TileRegion
from runtime.records import evolve, frozen


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
    factors = product.a.results[0], product.b.results[0]
    return _contracted(function, product.target, factors, {}, ("reassoc", "contract"), bool(product.guard))


def _contracted(
    function: HirFunction,
    target: Reduce,
    factors: tuple[Value, Value],
    zeros: Mapping[Value, Sequence[Affine]],
    flags: tuple[str, ...],
    inexact: bool,
) -> WindowProduct:
    """The field with a sum of products of these factors as a contraction: each is zeros where one of its forms is negative. `inexact`:
    whether the sum as it was written may differ from that."""
    out = FieldCopy.whole(function)
    b, exact, product = out.body, None, None
    for op in function.body.body:
        if op is target:
            exact = b.emit(out.rebuilt(op), "exact")
            left, right = (_with_zeros(out.values[factor], zeros.get(factor, ()), b) for factor in factors)
            product = Contract(a=left, b=right, over=target.over, to=dtype_of(target.values[0]), flags=flags, span=op.span)
            out.emit(op, product)
        else:
            out.copy(op)
    assert product is not None and isinstance(exact, Reduce)
    field = out.finish()
    field.body.body = [op for op in field.body.body if op is not exact]
    return WindowProduct(field, product, exact if inexact else None)


def triangle_product(function: HirFunction) -> WindowProduct | None:
    """The field with its one sum of products, over part of an axis, as a contraction of operands with zeros: of `k in i..j + 1`, `k >= i`
    makes zeros of elements of the first operand, `k <= j` of the second. Tiles in which no term takes part are left out
    (`taking_part.py`). None where its conditions aren't each of one operand, or its terms have an order to keep."""
    sums = [op for op in function.body.body if isinstance(op, Reduce | Contract | Scan)]
    if len(sums) != 1 or not isinstance(sums[0], Reduce) or sums[0].monoid != "add" or in_written_order(function):
        return None
    (target,) = sums
    assert isinstance(target, Reduce)
    match target.values[0].source:
        case Select(condition=condition, then=Value(source=Binary(operator="mul", left=a, right=b, flags=flags)), otherwise=other):
            pass
        case _:
            return None
    whole = product_sum(target)
    if whole is None or not (whole.m and whole.n):
        return None
    forms, dtype = constraints_of(condition), dtype_of(target.values[0])
    if not (isinstance(other.source, Const) and other.source.value == 0 and forms) or (is_float(dtype) and "contract" not in flags):
        return None
    sides = [_side(form, function, (a, b)) for form in forms]
    if None in sides:
        return None
    zeros = {operand: [form for form, side in zip(forms, sides, strict=True) if side is operand] for operand in (a, b)}
    return evolve(_contracted(function, target, (a, b), zeros, target.flags, is_float(dtype)), bounds=tuple(forms))


def _side(form: Affine, function: HirFunction, operands: Sequence[Value]) -> Value | None:
    """The operand along whose axes a form varies alone."""
    axes = {name for name in form.names if name in function.axes}
    sizes = {parameter.name for parameter in function.parameters}
    if not set(form.names) <= axes | sizes:
        return None
    return next((operand for operand in operands if axes <= {axis for axis, _ in union_axes(operand)}), None)


def _with_zeros(value: Value, forms: Sequence[Affine], b: Builder) -> Value:
    """The operand where the forms are at least 0, zeros elsewhere."""
    held: Value | None = None
    for form in forms:
        held = b.both(held, b.op("le", b.const(0, INDEX), b.index(form)))
    if held is None:
        return value
    return b.select(held, value, b.const(0.0 if is_float(dtype_of(value)) else 0, dtype_of(value)))


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
    b, sums = first.builder, first.known(window.target.results[0])
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
