"""Axes that indices take apart: of `s[i, k / 64]` beside `q[i, k]` the axis k is 64 times one axis and another, of extent 64, so that all
indices are affine. So a group's scale is read once for all its elements, and neighbours of an enlarged picture share what they read."""

from collections.abc import Iterator

from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.core import Contract, Reduce, Scan
from compiler.hir.field_copy import FieldCopy, FreshNames
from compiler.hir.memory import Load, Store
from compiler.hir.module import HirFunction


def with_digits_of_axes(field: HirFunction) -> HirFunction:
    """The field (form F) with two axes for each such one; itself where it has none whose extent is a number that the divisor divides."""
    while (digits := next(_divided(field), None)) is not None:
        field = _split(field, *digits)
    return field


def divided_axes(field: HirFunction) -> set[str]:
    """The axes of results that indices of loads and stores divide."""
    reduced = {axis for op in field.body.body if isinstance(op, Reduce | Contract | Scan) for axis in op.over}
    return {axis for form in _indices(field) for axis, _ in _quotients(form) if axis in field.axes and axis not in reduced}


def _indices(field: HirFunction) -> list[Affine]:
    return [form for op in field.body.body if isinstance(op, Load | Store) for form in op.index]


def _quotients(form: Affine) -> Iterator[tuple[str, int]]:
    """The names that are divided by themselves, and by what."""
    for symbol, _ in form.terms:
        if isinstance(symbol, FloorDiv):
            name, *others = symbol.numerator.names
            if not others and symbol.numerator == Affine.of(name):
                yield name, symbol.divisor


def _divided(field: HirFunction) -> Iterator[tuple[str, int]]:
    """Axes with the least divisor of each."""
    divided = [quotient for form in _indices(field) for quotient in _quotients(form)]
    for axis in divided_axes(field):
        least = min(divisor for name, divisor in divided if name == axis)
        extent = field.axes[axis].value
        if extent is not None and extent % least == 0 and 1 < least < extent:
            yield axis, least


class _Splitting(FieldCopy):
    """`low`: the axis of the low digit, whose quotients are 0."""

    def __init__(self, field: HirFunction, axis: str, high: str, low: str, divisor: int) -> None:
        super().__init__(field, {axis: Affine.of(high) * divisor + low})
        self.low, self.divisor = low, divisor

    def form(self, old: Affine) -> Affine:
        new = super().form(old)
        for symbol, coefficient in new.terms:
            if isinstance(symbol, FloorDiv) and symbol.numerator.coefficient(self.low) == 1:
                numerator = symbol.numerator.without(self.low)
                whole = symbol.divisor % self.divisor == 0 and numerator.divisor % self.divisor == 0
                if whole and self.low not in numerator.names:
                    quotient = _over(numerator, self.divisor).floordiv(symbol.divisor // self.divisor)
                    new = new - Affine(((symbol, coefficient),)) + quotient * coefficient
        return new


def _over(form: Affine, divisor: int) -> Affine:
    """The form divided by what divides it."""
    return Affine(tuple((symbol, coefficient // divisor) for symbol, coefficient in form.terms), form.constant // divisor)


def _split(field: HirFunction, axis: str, divisor: int) -> HirFunction:
    names = FreshNames(field)
    high, low = names.fresh(f"{axis}_high"), names.fresh(f"{axis}_low")
    out = _Splitting(field, axis, high, low, divisor)
    for name, extent in field.axes.items():
        if name == axis:
            out.function.axis(high, extent.floordiv(divisor))
            out.function.axis(low, Affine.of(divisor))
        else:
            out.function.axis(name, out.form(extent))
    out.parameters()
    for op in field.body.body:
        out.copy(op)
    return out.finish()
