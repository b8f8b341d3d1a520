"""Rings, tables; and what is asked of optionals and masks."""

from compiler.hir.native_expressions import Expr, select
from compiler.lowering.native.calls import BoundCall
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.values import InMemory, ScalarValue, Value, Whole
from compiler.typed_ast.types import BOOL, NONE, UNIT, EnumType, OptionType, ResultType, Type
from quantdsl import types as qt
from quantdsl.elaborate.rules import emits, ring_of, table_of
from quantdsl.native.table import FULL, PRESENT


def changed(c: FunctionContext, call: BoundCall) -> InMemory:
    """What a method changes: where a variable is kept."""
    found = call["self"]
    assert isinstance(found, InMemory)
    return found


@emits("push")
def push(c: FunctionContext, call: BoundCall) -> Value:
    """What the push overwrote: the oldest, if the ring was full."""
    place = changed(c, call)
    assert isinstance(place.type, qt.Container)
    type = place.type.elements[0]
    value = c.fit(call["x"], type)
    slot, full = ring_of(c.layouts, place.type).advance(c.b, place.pointer)
    slot_place = InMemory(type, slot)
    oldest = c.kept(c.read(slot_place)) if not _dropped(call) else None
    c.write(slot_place, value)
    if oldest is None:
        return Whole(UNIT, ())
    return c.make(OptionType(type), {"present": c.truth(full), "value": oldest})


def _dropped(call: BoundCall) -> bool:
    return call.place == UNIT


@emits("clear")
def clear(c: FunctionContext, call: BoundCall) -> Value:
    c.b.clear(changed(c, call).pointer)
    return Whole(UNIT, ())


@emits("get")
def get(c: FunctionContext, call: BoundCall) -> Value:
    place = call["self"]
    assert isinstance(place, InMemory) and isinstance(place.type, qt.Container)
    key, type = place.type.elements
    table = table_of(c.layouts, place.type)
    slot = table.find(c.b, place.pointer, _number(c.fit(call["key"], key)).value)
    there = slot >= 0
    safe = select(there, slot, 0)
    return _optional(c, type, there, InMemory(type, table.value(c.b, place.pointer, safe)))


@emits("remove")
def remove(c: FunctionContext, call: BoundCall) -> Value:
    """The value that the key had."""
    place = changed(c, call)
    assert isinstance(place.type, qt.Container)
    key, type = place.type.elements
    table = table_of(c.layouts, place.type)
    number = _number(c.fit(call["key"], key)).value
    slot = table.find(c.b, place.pointer, number)
    there = slot >= 0
    held = InMemory(type, table.value(c.b, place.pointer, select(there, slot, 0)))
    found = c.kept(_optional(c, type, there, held))
    table.remove(c.b, place.pointer, number)
    return found


@emits("insert")
def insert(c: FunctionContext, call: BoundCall) -> Value:
    """`Ok` with the value that the key had before, or `Err(full)`."""
    place = changed(c, call)
    assert isinstance(place.type, qt.Container)
    key, type = place.type.elements
    table = table_of(c.layouts, place.type)
    value = c.fit(call["value"], type)
    slot, outcome = table.insert(c.b, place.pointer, _number(c.fit(call["key"], key)).value)
    stored = outcome != FULL
    held = InMemory(type, table.value(c.b, place.pointer, select(stored, slot, 0)))
    before = c.kept(_optional(c, type, outcome == PRESENT, held))
    with c.b.when(stored):
        c.write(held, value)
    full = EnumType("Full")
    return c.make(ResultType(OptionType(type), full), {"ok": c.truth(stored), "value": before, "error": c.constant(0, full)})


def _optional(c: FunctionContext, type: Type, there: Expr, held: InMemory) -> Value:
    """What is kept at a place, if it is there; else none, all zero."""
    found = c.variable(c.zero(OptionType(type)))
    with c.b.when(there):
        c.write(found, c.make(OptionType(type), {"present": c.constant(True, BOOL), "value": c.read(held)}))
    read = c.read(found)
    return InMemory(read.type, read.pointer, fresh=True) if isinstance(read, InMemory) else read


def _number(value: Value) -> ScalarValue:
    assert isinstance(value, ScalarValue)
    return value


@emits("is_some", "is_none")
def presence(c: FunctionContext, call: BoundCall) -> Value:
    found = call["self"]
    if found.type == NONE:
        return c.constant(call.callee.name == "is_none", BOOL)
    present = _number(c.part(found, "present")).value
    return c.truth(present if call.callee.name == "is_some" else ~present)


@emits("has")
def has(c: FunctionContext, call: BoundCall) -> Value:
    """Whether a mask has all bits of another."""
    mask, rule = (_number(call[name]).value for name in ("self", "rule"))
    return c.truth((mask & rule) == rule)
