"""Which terms take part in a reduction: those of `k in i..j + 1` are between bounds that other axes give."""

from collections.abc import Mapping, Sequence

from compiler.analysis.accesses import constraints_of
from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.build import Builder
from compiler.hir.core import Cast, Const, Contract, Reduce, Select
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction


def bounds_of(target: Reduce | Contract) -> list[Affine]:
    """Forms that are at least 0 wherever something takes part in a reduction."""
    if isinstance(target, Contract):
        return [form for value in (target.a, target.b) for form in _guarded(value)]
    return _guarded(target.values[0]) if len(target.values) == 1 and target.monoid == "add" else []


def long_before_short(
    field: HirFunction, b: Builder, number: Value, total: Value, axes: Sequence[str], bounds: Sequence[tuple[Affine, Sequence[str]]]
) -> Value:
    """The tile of a turn in the order of the axes, or backwards where sums along axes that forms bound grow all along the first of them
    that bounds one."""
    for beside in axes:
        for form, over in bounds:
            growth = form.coefficient(beside)
            if growth and any(form.coefficient(axis) and _is_as_long(field, axis, beside) for axis in over):
                return b.sub(b.sub(total, b.const(1, "index")), number) if growth > 0 else number
    return number


def restricting(forms: Sequence[Affine], axes: Mapping[str, Affine]) -> list[Affine]:
    """Those of the forms that aren't at least 0 everywhere: sizes are, and axes, which end before their extents."""

    def least(form: Affine) -> Affine:
        for axis, coefficient in form.terms:
            if coefficient < 0 and isinstance(axis, str) and axis in axes:
                form = form.without(axis) + (axes[axis] - 1) * coefficient
        return form

    bounds = [(form, least(form)) for form in forms]
    return [form for form, low in bounds if low.constant < 0 or any(coefficient < 0 for _, coefficient in low.terms)]


def uneven_bounds(field: HirFunction, forms: Sequence[Affine], axis: str) -> tuple[Affine, ...]:
    """Those of the forms that bound a sum along the axis so that sums grow all along another."""
    sizes = {parameter.name for parameter in field.parameters}
    return tuple(
        form
        for form in forms
        if abs(form.coefficient(axis)) == 1
        and all(name in field.axes or name in sizes for name in form.names)
        and any(_is_as_long(field, axis, name) for name in form.names if name in field.axes and name != axis)
    )


def unevenness(bounds: Sequence[Affine], axis: str) -> int:
    """How many times as long as a sum in the mean the longest is: `k <= i` leaves half of the terms, `i <= k <= j` a sixth."""
    return (1, 2, 6)[min(2, sum(1 for form in bounds if form.coefficient(axis) and len(form.names) > 1))]


def steps_between(
    b: Builder,
    forms: Sequence[Affine],
    axis: str,
    width: int,
    tile: Mapping[str, tuple[Affine, int]],
    steps: tuple[Affine, Affine],
    throughout: bool = False,
) -> tuple[Affine, Affine]:
    """Of the `steps` of so many terms from one to before another, those from the first to behind the last in which a form may be at least
    0, in a tile: where it begins along its axes, and how many elements it has; or `throughout` which all are, all over the tile."""
    low, high = steps
    for form in forms:
        factor, rest = form.coefficient(axis), form.without(axis)
        most = Affine((), rest.constant)
        for name in rest.names:
            times = rest.coefficient(name)
            start, extent = tile.get(name, (Affine.of(name), 1))
            most += (start + (extent - 1 if (times > 0) != throughout else 0)) * times
        if factor > 0:
            first = Affine.of(b.op("max", b.index(-most), b.const(0, "index")).name)
            step = first.ceildiv(factor * width) if throughout else first.floordiv(factor * width)
            low = Affine.of(b.op("max", b.index(low), b.index(step)).name)
        else:
            behind = b.op("max", b.index(most - factor * (1 if throughout else width)), b.const(0, "index"))
            high = Affine.of(b.op("min", b.index(high), b.index(Affine.of(behind.name).floordiv(-factor * width))).name)
    if throughout:
        low = Affine.of(b.op("min", b.index(low), b.index(steps[1])).name)
        high = Affine.of(b.op("max", b.index(low), b.index(high)).name)
    return low, high


def guard_of(value: Value) -> Value | None:
    """The condition of what is 0 where that doesn't hold."""
    match value.source:
        case Select(condition=condition, otherwise=Value(source=Const(value=number))) if number == 0:
            return condition
        case Cast(value=inner):
            return guard_of(inner)
        case _:
            return None


def _is_as_long(field: HirFunction, axis: str, other: str) -> bool:
    """Whether an axis is surely about as long as another: a window is short, and its sums grow at the border only."""
    own, beside = _unfilled(field.axes[axis]), _unfilled(field.axes[other])
    return (own - beside).value is not None and (own.value is None or 2 * own.value >= (beside.value or 0))


def _unfilled(extent: Affine) -> Affine:
    """About the extent that was filled up to a multiple."""
    for symbol, count in extent.terms:
        if isinstance(symbol, FloorDiv) and count == symbol.divisor:
            extent += symbol.numerator - Affine(((symbol, count),))
    return extent


def _guarded(value: Value) -> list[Affine]:
    guard = guard_of(value)
    return [] if guard is None else constraints_of(guard) or []
