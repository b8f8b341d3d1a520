"""Axes that indices and conditions take apart: of `s[i, k / 64]` beside `q[i, k]` the axis k is 64 times one axis and another, of extent
64, so that all indices are affine. So a group's scale is read once for all its elements, and neighbours of an enlarged picture share what
they read. Where `d < 64` decides what an element of 128 reads, it is the same for all elements that a thread takes side by side."""

from collections.abc import Iterator
from typing import Any

from compiler.analysis.accesses import affine_value, constraints_of
from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.core import Compare, Contract, Index, Reduce, Scan, Select
from compiler.hir.field_copy import FieldCopy, FreshNames
from compiler.hir.instruction import Instruction
from compiler.hir.memory import Load, Store
from compiler.hir.module import HirFunction


def with_digits_of_axes(field: HirFunction) -> HirFunction:
    """The field (form F) with two axes for each such one; itself where it has none whose extent is a number that the divisor divides."""
    while (digits := next(_divided(field), None)) is not None:
        field = _split(field, *digits)
    return field


def divided_axes(field: HirFunction) -> set[str]:
    """The axes of results that indices of loads and stores divide."""
    return {axis for form in _indices(field) for axis, _ in _quotients(form)} & _axes_of_results(field)


def _axes_of_results(field: HirFunction) -> set[str]:
    return set(field.axes) - {axis for op in field.body.body if isinstance(op, Reduce | Contract | Scan) for axis in op.over}


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
    for op in field.body.body:
        if isinstance(op, Compare):
            divided += _bounds(op)
            divided += [quotient for side in (op.left, op.right) for quotient in _quotients(affine_value(side) or Affine())]
    for axis in {axis for axis, _ in divided} & _axes_of_results(field):
        least = min(divisor for name, divisor in divided if name == axis)
        extent = field.axes[axis].value
        if extent is not None and 1 < least < extent and extent % least == 0:
            yield axis, least


def _bounds(op: Compare) -> Iterator[tuple[str, int]]:
    """The name that is below a number where the condition holds, or where it doesn't, and the number."""
    for form in constraints_of(op.result) or ():
        name = form.names[0] if len(form.names) == 1 and op.operator not in ("eq", "ne") else ""
        step = form.coefficient(name)
        if abs(step) == 1 and form == Affine.of(name) * step + form.constant:
            yield name, form.constant + 1 if step < 0 else -form.constant


class _Splitting(FieldCopy):
    """`low`: the axis of the low digit, whose quotients are 0."""

    def __init__(self, field: HirFunction, axis: str, high: str, low: str, divisor: int) -> None:
        super().__init__(field, {axis: Affine.of(high) * divisor + low})
        self.high, self.low, self.divisor = high, low, divisor

    def copy(self, op: Instruction, **changes: Any) -> Instruction:
        match op:
            case Compare() if (quotient := self.compared(op)) is not None:
                return self.emit(op, Compare(operator="ge", left=self.body.index(quotient), right=self.body.index(Affine())))
            case Select() if (form := self.selected(op)) is not None:
                self.names[op.result.name] = form
                return self.emit(op, Index(of=form))
        return super().copy(op, **changes)

    def compared(self, op: Compare) -> Affine | None:
        """The form of the high digit alone that is at least 0 where the condition holds."""
        forms = [self.form(form) for form in constraints_of(op.result) or ()]
        if len(forms) != 1 or abs(step := forms[0].coefficient(self.low)) != 1:
            return None
        rest = forms[0].without(self.low) if step > 0 else forms[0].without(self.low) - (self.divisor - 1)
        return _over(rest, self.divisor) if rest.divisor % self.divisor == 0 and self.low not in rest.names else None

    def selected(self, op: Select) -> Affine | None:
        """The one form of both indices, where a condition on a high digit of two numbers selects between them."""
        then, otherwise = (affine_value(self.values[value]) for value in (op.then, op.otherwise))
        forms = constraints_of(self.values[op.condition]) or ()
        if then is None or otherwise is None or len(forms) != 1 or self.function.function.axes[self.high].value != 2:
            return None
        signs = [forms[0].substitute({self.high: Affine.of(digit)}).value for digit in (0, 1)]
        held = [digit for digit, sign in enumerate(signs) if sign is not None and sign >= 0]
        if None in signs or len(held) != 1:
            return None
        form = then.substitute({self.high: Affine.of(held[0])})
        return form if form == otherwise.substitute({self.high: Affine.of(1 - held[0])}) else None

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
