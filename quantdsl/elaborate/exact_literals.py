"""Literals of exact types as whole numbers of steps, and numbers with units."""

from fractions import Fraction

from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.literals import nearest
from compiler.lowering.native.values import Value
from compiler.typed_ast import nodes
from compiler.typed_ast.types import Type
from quantdsl import types as qt
from quantdsl.check.literals import DURATIONS
from quantdsl.elaborate.own import own
from quantdsl.elaborate.rules import TABLES, elaborates, not_supported

_RATIOS = {"bps": Fraction(1, 10_000), "pct": Fraction(1, 100)}


@TABLES.gives_literals(qt.PriceType, qt.TicksType, qt.QtyType, qt.MoneyType)
def exact_literal(c: FunctionContext, value: Fraction, type: qt.Exact) -> Value:
    return c.constant(int(value / step(c, type)), type)


def step(c: FunctionContext, type: qt.Exact) -> Fraction:
    """What one unit of an exact type is worth: a tick, a lot, the smallest amount of a currency."""
    world = own(c).world
    assert type.of is not None
    if isinstance(type, qt.MoneyType):
        return world.currencies[type.of].unit
    instrument = world.instruments[type.of]
    return instrument.lot if isinstance(type, qt.QtyType) else instrument.tick


@elaborates(nodes.UnitNumber)
def unit_number(c: FunctionContext, node: nodes.UnitNumber, place: Type | None) -> Value:
    value = Fraction(node.text)
    if node.unit in DURATIONS:
        return c.constant(int(value * DURATIONS[node.unit]), qt.DURATION)
    if node.unit in _RATIOS:
        return c.constant(nearest(value * _RATIOS[node.unit]), qt.RATIO)
    if node.unit == "ticks":
        return c.constant(int(value), qt.TicksType())
    if node.unit == "lots":
        return c.constant(int(value), qt.QtyType())
    return c.constant(int(value / own(c).world.currencies[node.unit].unit), qt.MoneyType(node.unit))


@elaborates(nodes.FString)
def fstring(c: FunctionContext, node: nodes.FString, place: Type | None) -> Value:
    raise not_supported("an f-string", node.span, "texts are constants in compiled code: write the text, and the numbers with `log_ring`")
