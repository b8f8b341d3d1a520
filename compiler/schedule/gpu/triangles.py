"""Products of triangles as products of tiles: of `k in i..j + 1`, `k >= i` makes zeros of elements of the first operand, `k <= j` of the
second. Where the other's element is infinite or NaN, such a zero makes NaN of a sum, which is then computed once more as it is written
(`windows.py`). Tiles in which no term takes part are left out (`taking_part.py`)."""

from collections.abc import Sequence

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
from compiler.schedule.gpu.windows import WindowProduct


def triangle_product(function: HirFunction) -> WindowProduct | None:
    """The field with its one sum of products, over part of an axis, as a contraction of operands with zeros; None where its conditions
    aren't each of one operand, or its terms have an order to keep."""
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
    owned = [(form, _side(form, function, (a, b))) for form in forms]
    if any(side is None for _, side in owned):
        return None
    out = FieldCopy(function)
    out.parameters()
    out.axes()
    exact, product = None, None
    for op in function.body.body:
        if op is target:
            exact = out.body.emit(out.rebuilt(op), "exact")
            left, right = (_with_zeros(out.values[side], [f for f, own in owned if own is side], out.body) for side in (a, b))
            product = Contract(a=left, b=right, over=target.over, to=dtype, flags=target.flags, span=op.span)
            out.emit(op, product)
        else:
            out.copy(op)
    assert product is not None and isinstance(exact, Reduce)
    field = out.finish()
    field.body.body = [op for op in field.body.body if op is not exact]
    return WindowProduct(field, product, exact if is_float(dtype) else None, tuple(forms))


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
