"""Literals: numbers take the type of their place, and exact ones lie on its grid."""

from fractions import Fraction

from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import place_of
from compiler.typed_ast.literal_numbers import decimal, is_literal
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import BOOL, ERROR, STRING, WEAK_FLOAT, WEAK_INT, DType, Scalar, Type
from compiler.typed_ast.weak_ints import lost_remainder, remainder_fault, weak_int
from quantdsl import types as qt
from quantdsl.check.checker import QuantChecker, infers
from quantdsl.check.exact import I64, neighbours, shown

DURATIONS = {"ns": 1, "us": 1_000, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_COUNTS = {"ticks": qt.TicksType(), "lots": qt.QtyType()}
_RATIOS = ("bps", "pct")


def is_weak(node: nodes.Expression) -> bool:
    """A number that takes the type of its place or neighbour: a literal, or arithmetic on int literals alone."""
    return is_literal(node) or weak_int(node) is not None




@infers(nodes.IntLiteral, nodes.FloatLiteral)
def number(
    checker: QuantChecker, node: nodes.IntLiteral | nodes.FloatLiteral, scope: Scope, expected: Type | None, used: bool
) -> Type:
    return _number(checker, node, node.span, expected)


def negative(checker: QuantChecker, node: nodes.Unary, expected: Type | None) -> Type:
    """A literal behind a minus, which is one number: -9223372036854775808 fits."""
    found = _number(checker, node, node.span, expected)
    checker.findings.types[id(node.operand)] = found
    return found


def _number(checker: QuantChecker, node: nodes.Expression, span: Span, expected: Type | None) -> Type:
    literal = node
    while isinstance(literal, nodes.Unary):
        literal = literal.operand
    assert isinstance(literal, nodes.IntLiteral | nodes.FloatLiteral)
    value = decimal(node)
    place = place_of(expected)
    if literal.suffix is not None:
        place = Scalar(DType(literal.suffix))
    elif isinstance(place, qt.PriceType | qt.QtyType | qt.MoneyType) and value is not None:
        return _on_grid(checker, value, place, span)
    if isinstance(literal, nodes.FloatLiteral):
        return place if isinstance(place, Scalar) and place.dtype.is_float else WEAK_FLOAT
    assert value is not None
    return whole(checker, node, int(value), place)


def whole(checker: QuantChecker, node: nodes.Expression, value: int, expected: Type | None) -> Type:
    """The type of an int that is known exactly, in its place."""
    place = place_of(expected)
    if isinstance(place, Scalar) and place.dtype.is_float:
        lost = lost_remainder(node)
        if lost is None:
            return place
        checker.diagnostics.add(remainder_fault(lost))
        return ERROR
    if isinstance(place, Scalar) and place.dtype.is_int:
        return in_range(checker, value, place, node.span)
    return in_range(checker, value, WEAK_INT, node.span)


def in_range(checker: QuantChecker, value: int, place: Scalar, span: Span) -> Type:
    """The int type of a constant, or an error when it doesn't fit."""
    bits = place.dtype.bits
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if place.dtype.is_signed else (0, (1 << bits) - 1)
    if low <= value <= high:
        return place
    return checker.report("0705", f"{value} does not fit {place}", span, hint=f"{place} holds {low} to {high}")


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
        return _on_grid(checker, value, qt.MoneyType(node.unit), node.span)
    known = [*DURATIONS, *_COUNTS, *_RATIOS, *checker.own.world.currencies]
    hint = did_you_mean(node.unit, known) or f"suffixes known are {', '.join(f'`{unit}`' for unit in known)}"
    return checker.report("0106", f"unknown suffix `{node.unit}` of the number `{node.text}`", node.span, hint=hint)


def _whole(checker: QuantChecker, value: Fraction, found: Type, unit: str, node: nodes.UnitNumber) -> Type:
    if value.denominator != 1:
        return checker.report("0702", f"`{node.text}{node.unit}` is no whole number of {unit}", node.span)
    if int(value) not in I64:
        return checker.report("0705", f"`{node.text}{node.unit}` doesn't fit 64 bits", node.span)
    return found


def _on_grid(checker: QuantChecker, value: Fraction, place: qt.Exact, span: Span) -> Type:
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
        return checker.report("0702", f"{shown(value)} is no multiple of the {what} {shown(step)} of `{place.of}`", span, hint=hint)
    if int(value / step) not in I64:
        return checker.report("0705", f"{shown(value)} doesn't fit `{place}`", span, hint="it has more than 63 bits of smallest units")
    return place


@infers(nodes.BoolLiteral)
def boolean(checker: QuantChecker, node: nodes.BoolLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    return BOOL


@infers(nodes.StringLiteral)
def string(checker: QuantChecker, node: nodes.StringLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    return STRING


@infers(nodes.FString)
def fstring(checker: QuantChecker, node: nodes.FString, scope: Scope, expected: Type | None, used: bool) -> Type:
    for part in node.parts:
        if part.value is not None:
            checker.infer(part.value, scope)
    return STRING
