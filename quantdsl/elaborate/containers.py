"""Arrays, rings, tables; and what is asked of optionals and masks."""

from compiler.hir import instruction as hir
from compiler.typed_ast import nodes
from compiler.typed_ast.types import BOOL, UNIT, ListType, OptionType, ResultType, Type
from quantdsl import types as qt
from quantdsl.check.literals import settled
from quantdsl.elaborate.calls import BoundCall, emits
from quantdsl.elaborate.context import FunctionContext, elaborates
from quantdsl.elaborate.refused import not_in_place
from quantdsl.elaborate.values import InMemory, ScalarValue, Value, Whole
from quantdsl.native.table import FULL, PRESENT


@elaborates(nodes.ListLiteral)
def list_literal(c: FunctionContext, node: nodes.ListLiteral, place: Type | None) -> Value:
    if isinstance(node.type, ListType):
        raise not_in_place(node.type, node.span)
    values = [c.kept(c.value(element, _element(place))) for element in node.elements]
    type = _element(place) or _element(c.type(node)) or settled(values[0].type)
    made = c.room(qt.Container("array", (type,), qt.Size(len(values))))
    for number, value in enumerate(values):
        c.write(InMemory(type, c.b.at(made.pointer, number, proved=True)), c.fit(value, type))
    return made


@elaborates(nodes.Repeat)
def repeat(c: FunctionContext, node: nodes.Repeat, place: Type | None) -> Value:
    """`[e; N]`: e is computed once."""
    value = c.value(node.element, _element(place))
    type = _element(place) or settled(value.type)
    size = c.bound.get(node.count.name) if isinstance(node.count, nodes.Name) else None
    count = size.value if isinstance(size, qt.Size) else c.whole_number(node.count)
    if count is None:
        raise c.refuse("0301", "the number of elements is not constant", "write a number or a `const`", node.count.span)
    made = c.room(qt.Container("array", (type,), qt.Size(count)))
    value = c.fit(value, type)
    if isinstance(value, ScalarValue) and value.constant in (0, False):
        return made
    with c.b.loop(0, count) as i:
        c.write(InMemory(type, c.b.at(made.pointer, i, proved=True)), value)
    return made


def _element(type: Type | None) -> Type | None:
    return type.elements[0] if isinstance(type, qt.Container) and type.kind == "array" else None


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
    slot, full = c.layouts.ring(place.type).advance(c.b, place.pointer)
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
    table = c.layouts.table(place.type)
    slot = table.find(c.b, place.pointer, _number(c.fit(call["key"], key)).value)
    there = c.b.ge(slot, 0)
    safe = c.b.select(there, slot, 0)
    return _optional(c, type, there, InMemory(type, table.value(c.b, place.pointer, safe)))


@emits("remove")
def remove(c: FunctionContext, call: BoundCall) -> Value:
    """The value that the key had."""
    place = changed(c, call)
    assert isinstance(place.type, qt.Container)
    key, type = place.type.elements
    table = c.layouts.table(place.type)
    number = _number(c.fit(call["key"], key)).value
    slot = table.find(c.b, place.pointer, number)
    there = c.b.ge(slot, 0)
    held = InMemory(type, table.value(c.b, place.pointer, c.b.select(there, slot, 0)))
    found = c.kept(_optional(c, type, there, held))
    table.remove(c.b, place.pointer, number)
    return found


@emits("insert")
def insert(c: FunctionContext, call: BoundCall) -> Value:
    """`Ok` with the value that the key had before, or `Err(full)`."""
    place = changed(c, call)
    assert isinstance(place.type, qt.Container)
    key, type = place.type.elements
    table = c.layouts.table(place.type)
    value = c.fit(call["value"], type)
    slot, outcome = table.insert(c.b, place.pointer, _number(c.fit(call["key"], key)).value)
    stored = c.b.ne(outcome, FULL)
    held = InMemory(type, table.value(c.b, place.pointer, c.b.select(stored, slot, 0)))
    before = c.kept(_optional(c, type, c.b.eq(outcome, PRESENT), held))
    with c.b.when(stored):
        c.write(held, value)
    full = qt.EnumType("Full")
    return c.make(ResultType(OptionType(type), full), {"ok": c.truth(stored), "value": before, "error": c.constant(0, full)})


def _optional(c: FunctionContext, type: Type, there: hir.Value, held: InMemory) -> Value:
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
    if found.type == qt.NONE:
        return c.constant(call.callee.name == "is_none", BOOL)
    present = _number(c.part(found, "present")).value
    return c.truth(present if call.callee.name == "is_some" else c.b.negate(present))


@emits("has")
def has(c: FunctionContext, call: BoundCall) -> Value:
    """Whether a mask has all bits of another."""
    mask, rule = (_number(call[name]).value for name in ("self", "rule"))
    return c.truth(c.b.eq(c.b.wrapping("and", mask, rule), rule))
