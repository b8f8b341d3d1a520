"""Numbers with a unit, and those in the place of a price, quantity or amount, which lie on its grid."""

from fractions import Fraction

from compiler.typed_ast import nodes
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import Type
from quantdsl import types as qt
from quantdsl.check.checker import QuantChecker, infers
from quantdsl.check.exact import I64, neighbours, shown

DURATIONS = {"ns": 1, "us": 1_000, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_COUNTS = {"ticks": qt.TicksType(), "lots": qt.QtyType()}
_RATIOS = ("bps", "pct")


@infers(nodes.UnitNumber)
def unit_number(checker: QuantChecker, node: nodes.UnitNumber, scope: Scope, expected: Type | None, used: bool) -> Type:
    value = Fraction(node.text)
    if node.unit in DURATIONS:
        return _whole(checker, value * DURATIONS[node.unit], qt.DURATION, "nanoseconds", node)
    if node.unit in _COUNTS:
        return _whole(checker, value, _COUNTS[node.unit], node.unit, node)
    if node.unit in _RATIOS:
        return qt.RATIO
    if node.unit in checker.own.world.currencies:
        return on_grid(checker, node, value, qt.MoneyType(node.unit))
    known = [*DURATIONS, *_COUNTS, *_RATIOS, *checker.own.world.currencies]
    hint = did_you_mean(node.unit, known) or f"suffixes known are {', '.join(f'`{unit}`' for unit in known)}"
    return checker.report("0106", f"unknown suffix `{node.unit}` of the number `{node.text}`", node.span, hint=hint)


def _whole(checker: QuantChecker, value: Fraction, type_: Type, unit: str, node: nodes.UnitNumber) -> Type:
    if value.denominator != 1:
        return checker.report("0702", f"`{node.text}{node.unit}` is no whole number of {unit}", node.span)
    if int(value) not in I64:
        return checker.report("0705", f"`{node.text}{node.unit}` doesn't fit 64 bits", node.span)
    return type_


def on_grid(checker: QuantChecker, node: nodes.Expression, value: Fraction, place: qt.Exact) -> Type:
    """An exact literal is a multiple of its instrument's tick or lot, or of its currency's unit."""
    if place.of is None:
        return place
    world = checker.own.world
    if isinstance(place, qt.MoneyType):
        step, what = world.currencies[place.of].unit if place.of in world.currencies else None, "unit"
    else:
        instrument = world.instruments.get(place.of)
        price = isinstance(place, qt.PriceType)
        step, what = (instrument.tick if price else instrument.lot) if instrument else None, "tick" if price else "lot"
    if step is None:
        return place
    if (value / step).denominator != 1:
        below, above = neighbours(value, step)
        hint = f"the nearest are {shown(below)} and {shown(above)}"
        return checker.report("0702", f"{shown(value)} is no multiple of the {what} {shown(step)} of `{place.of}`", node.span, hint=hint)
    if int(value / step) not in I64:
        return checker.report("0705", f"{shown(value)} doesn't fit `{place}`", node.span, hint="it has more than 63 bits of smallest units")
    return place
