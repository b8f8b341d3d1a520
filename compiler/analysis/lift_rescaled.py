"""Sums beside a running maximum, rescaled by hand as it grows: m' = max(m, x); l' = l * exp(m - m') + exp(x - m'), and so a sum of values
with these weights. With e homogeneous in m' (`homogeneity.py`) the factors of all later iterations telescope: after the loop l is the sum
of e over the complete maximum M, plus what l was before times exp(start - M). That is the sum which the textbook takes in a second pass
(Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, read backwards).

Where the first score may be hidden (-inf by a guard) the written order makes NaN of -inf - -inf, and a second pass doesn't; such loops are
kept. A score that is -inf by arithmetic weighs 0."""

from collections.abc import Iterator, Sequence

from compiler.analysis.accesses import constraints_of
from compiler.analysis.field_values import FieldValues
from compiler.analysis.homogeneity import Homogeneity, exponential_of, is_number
from compiler.analysis.lift_events import MemoryEvent, PendingRead
from compiler.analysis.lift_memory import LiftedMemory
from compiler.hir.affine import Affine
from compiler.hir.core import Binary, Cast, Compare, Const, Fma, Reduce, Select, dtype_of, union_axes
from compiler.hir.instruction import Value
from compiler.hir.types import Tile
from runtime.records import evolve, frozen

FLAGS = ("reassoc", "contract")
INFINITY = float("inf")


@frozen(eq=False)
class Growing:
    """A running maximum along an axis: its `element`, where `guards` hold; its value `before` an iteration's element and `after`; what it
    is at the `start` and in the end (`total`)."""

    axis: str
    guards: tuple[Value, ...]
    element: Value
    before: Value
    after: Value
    start: Value
    total: Value
    with_nan: Value | None = None
    """The total that is NaN where an element is."""

    def keeps_to(self, guards: Sequence[Value]) -> bool:
        """Whether guards leave out no iteration in which the maximum grows."""
        return all(guard in self.guards or self.axis not in dict(union_axes(guard)) for guard in guards)

    def is_after(self, value: Value) -> bool:
        """Whether it is the maximum after an iteration's element: under the guards also where it was put together."""
        op = value.source
        if value is self.after:
            return True
        return isinstance(op, Binary) and op.operator == "max" and {op.left, op.right} == {self.before, self.element}

    def is_growth(self, condition: Value) -> bool:
        """Whether it says that an iteration's element is larger than the maximum before it."""
        op = condition.source
        if not isinstance(op, Compare) or op.operator not in ("gt", "ge", "lt", "le"):
            return False
        larger, smaller = (op.left, op.right) if op.operator in ("gt", "ge") else (op.right, op.left)
        return larger is self.element and smaller is self.before


def begins_hidden(field: FieldValues, element: Value, axis: str) -> bool:
    """Whether the first element along the axis may be a constant -inf."""
    first, value = {axis: Affine()}, element
    while True:
        match value.source:
            case Select(condition=condition, then=then, otherwise=otherwise) if is_number(otherwise, -INFINITY):
                known = constraints_of(field.replace(condition, {}, first))
                facts = field.facts()
                if known is None or not all(facts.proves(form) for form in known):
                    return True
                value = then
            case Reduce(monoid="max", values=(inner,), over=over):
                first |= dict.fromkeys(over, Affine())
                value = inner
            case _:
                return any(is_number(operand, -INFINITY) for operand in _computed_from(value))


def _computed_from(value: Value) -> Iterator[Value]:
    seen: set[Value] = set()
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            yield current
            waiting += [] if current.source is None else current.source.operand_values


def with_nan(field: FieldValues, growing: Growing) -> Growing:
    """A maximum that passes over NaN, with the one that doesn't: sums in which every element counts are NaN with either."""
    element = growing.element
    for guard in reversed(growing.guards):
        element = field.select(guard, element, field.const(-INFINITY, _plain(element)))
    (total,) = field.reduce("max", [element], (growing.axis,), ())
    if not is_number(growing.start, -INFINITY):
        total = field.emit(Binary(operator="max", left=growing.start, right=total))[0]
    return evolve(growing, with_nan=total)


def unguarded(memory: LiftedMemory, value: Value, old: Value) -> tuple[Value, tuple[Value, ...]]:
    """What a value becomes where guards hold, which elsewhere keep the old one."""
    guards: list[Value] = []
    while isinstance(value.source, Select) and value.source.otherwise is old and old not in memory.placeholders_in(value.source.condition):
        guards.append(value.source.condition)
        value = value.source.then
    return value, tuple(guards)


def rescaled_sum(field: FieldValues, memory: LiftedMemory, growing: Growing, value: Value, old: Value, initial: Value) -> Value | None:
    """What `old`, which an iteration leaves as `value`, is after the loop; None where it is no sum that follows the maximum."""
    inside, guards = unguarded(memory, value, old)
    term = _term(field, memory, growing, inside, old) if growing.keeps_to(guards) else None
    if term is None:
        return None
    element, factor = term
    for guard in reversed(guards):
        element = field.select(guard, element, field.const(0.0, _plain(element)))
    (total,) = field.reduce("add", [element], (growing.axis,), FLAGS)
    if is_number(initial, 0.0):
        return total
    start = growing.start
    if start not in memory.placeholder_names and not (isinstance(start.source, Const) and abs(float(start.source.value)) < INFINITY):
        return None
    shrunk = field.replace(factor, {growing.before: start, **dict.fromkeys(_after(growing, factor), growing.total)}, {})
    first = field.emit(Binary(operator="mul", left=initial, right=shrunk, flags=("contract",)))[0]
    return field.emit(Binary(operator="add", left=first, right=total, flags=FLAGS))[0]


def rescaled_event(field: FieldValues, memory: LiftedMemory, growing: Growing, event: MemoryEvent) -> tuple[PendingRead, Value] | None:
    """A store that rescales its own element and adds to it: the read of the old one, and what is added."""
    old = next((read for read in memory.reads_in(event.value) if memory.own_element(read, event)), None)
    inside = [guard for guard in event.conditions if growing.axis in dict(union_axes(guard))]
    if old is None or not growing.keeps_to(inside):
        return None
    value, guards = unguarded(memory, event.value, old.placeholder)
    term = _term(field, memory, growing, value, old.placeholder) if growing.keeps_to(guards) else None
    if term is None:
        return None
    element, _ = term
    for guard in reversed(guards):
        element = field.select(guard, element, field.const(0.0, _plain(element)))
    return old, element


def _term(field: FieldValues, memory: LiftedMemory, growing: Growing, value: Value, old: Value) -> tuple[Value, Value] | None:
    """What an iteration adds, with the complete maximum instead of the running one, and the factor of the old sum."""
    linear = _linear(field, memory, growing, value, old)
    if linear is None or len(linear[0]) != 1:
        return None
    (factor,), element = linear
    ratio = exponential_of(factor)
    if element is None or ratio is None or ratio.left is not growing.before or not growing.is_after(ratio.right):
        return None
    every = growing.with_nan is not None and _counts(element, growing)
    total = growing.with_nan if every and growing.with_nan is not None else growing.total
    complete = field.replace(element, dict.fromkeys(_after(growing, element), total), {})
    judge = Homogeneity(total)
    if judge.degree(complete) != 1 or judge.exponential is None or not judge.exponential.same_base(ratio):
        return None
    if any(operand in (growing.before, growing.after) for operand in _computed_from(complete)):
        return None
    return complete, factor


def _after(growing: Growing, value: Value) -> list[Value]:
    return [operand for operand in _computed_from(value) if growing.is_after(operand)]


def _counts(value: Value, growing: Growing) -> bool:
    """Whether the value is NaN wherever the maximum's element is."""
    weight = exponential_of(value)
    if weight is not None:
        return weight.left is growing.element
    match value.source:
        case Binary(operator="mul", left=left, right=right):
            return _counts(left, growing) or _counts(right, growing)
        case Binary(operator="div", left=inner) | Cast(value=inner):
            return _counts(inner, growing)
        case _:
            return False


def _plain(value: Value) -> Tile:
    return Tile(dtype_of(value))


def _linear(
    field: FieldValues, memory: LiftedMemory, growing: Growing, value: Value, old: Value
) -> tuple[list[Value], Value | None] | None:
    """`value` as old * factors + element, both free of old. What is only rescaled where the maximum grows, to the element then, is always
    rescaled to the maximum: elsewhere that is a factor of 1."""

    def free(part: Value) -> bool:
        return old not in memory.placeholders_in(part)

    def times(part: Value, factor: Value) -> Value:
        return field.emit(Binary(operator="mul", left=part, right=factor, flags=("contract",)))[0]

    if value is old:
        return [], None
    match value.source:
        case Binary(operator="mul", left=left, right=right):
            inner, factor = (left, right) if free(right) else (right, left)
            linear = _linear(field, memory, growing, inner, old) if free(factor) else None
            if linear is None:
                return None
            factors, element = linear
            return [*factors, factor], None if element is None else times(element, factor)
        case Binary(operator="add" | "sub" as operator, left=left, right=right, flags=flags):
            inner, other = (left, right) if free(right) or operator == "sub" else (right, left)
            linear = _linear(field, memory, growing, inner, old) if free(other) else None
            if linear is None:
                return None
            factors, element = linear
            if element is None and operator == "add":
                return factors, other
            before = field.const(0.0, _plain(other)) if element is None else element
            return factors, field.emit(Binary(operator=operator, left=before, right=other, flags=flags))[0]
        case Fma(a=a, b=b, c=c):
            inner, factor = (a, b) if free(b) else (b, a)
            linear = _linear(field, memory, growing, inner, old) if free(factor) and free(c) else None
            return None if linear is None or linear[1] is not None else ([*linear[0], factor], c)
        case Select(condition=condition, then=then, otherwise=otherwise) if otherwise is old and growing.is_growth(condition):
            linear = _linear(field, memory, growing, then, old)
            if linear is None or linear[1] is not None:
                return None
            always = {growing.element: growing.after, growing.before: growing.before}
            return [field.replace(factor, always, {}) for factor in linear[0]], None
        case _:
            return None
