"""What one thread computes, as numbered values: each operation of the field at each of the thread's elements is a tuple of small ints, and
equal tuples are one value. An element's address is the thread's part plus constants, so what neighbours share, in windows or between
results, is loaded once without anything asking for it. What intervals decide about conditions is decided here."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from math import gcd
from operator import itemgetter
from typing import Any

from compiler.hir.core import Binary, Cast, Compare, Const, Contract, InBounds, Index, Reduce, Select, dtype_of
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Instruction, Role, Value
from compiler.hir.memory import Load, Store
from compiler.hir.types import is_float
from compiler.schedule.gpu.derived.nest import Form, ThreadNest
from runtime.records import frozen

MOST_VALUES = 6000
"""Of a thread."""

Node = tuple[Any, ...]
Part = tuple[tuple[int, int], ...]
"""Coefficients of the thread's digits, by axis."""
Answer = tuple[frozenset[int], frozenset[int], int]
"""Conditions that a value's making asked about, those of them that were assumed then, and the value."""
SplitForm = tuple[Part, Part, int]
"""A form: its coefficients of digits, those of the element that is looked at, and a constant."""


class TooManyValues(Exception):
    """More values than a thread's kernel should have."""


@frozen
class DigitSpan:
    """Where a thread's first element along an axis may be: `unit` times a digit from `low` to `high`."""

    unit: int
    low: int
    high: int


@frozen(eq=False)
class StoredElement:
    """The number of the store, its index, and the numbers of value and condition."""

    op: int
    parts: tuple[Part, ...]
    at: tuple[int, ...]
    value: int
    where: int | None


class ThreadInstances:
    """The values of a thread with `registers` elements along each axis of the results, whose digits lie in these spans."""

    def __init__(self, nest: ThreadNest, registers: Sequence[int], spans: Sequence[DigitSpan]) -> None:
        self.nest, self.registers, self.spans = nest, registers, spans
        self.nodes: list[Node] = []
        self.dtypes: list[str] = []
        self.stores: list[StoredElement] = []
        self.environment = [0] * len(nest.axes)
        self.assumed: frozenset[int] = frozenset()
        self._numbers: dict[Node, int] = {}
        self._asked: set[int] = set()
        """Conditions about which the value in the making depends on whether they are assumed."""
        self._known: list[dict[Any, list[Answer]]] = [{} for _ in nest.ops]
        self._keys = [_getter(axes) for axes in nest.varying]
        self._kinds: dict[Any, int] = {}
        self.templates: list[Instruction] = []
        """What each kind of operation is like."""
        self._dtypes = [dtype_of(op.results[0]) if op.results else "" for op in nest.ops]
        self._memories = [nest.memories.index(op.mem) if isinstance(op, Load | Store) else -1 for op in nest.ops]
        self._forms = [tuple(map(self._split, forms)) for forms in nest.forms]
        self._rules = [self._rule(number, op) for number, op in enumerate(nest.ops)]
        for number, op in enumerate(nest.ops):
            if isinstance(op, Store):
                self._store(number, op)

    # ---- numbering ----

    def node(self, dtype: str, *key: Any) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.nodes)
            self.nodes.append(key)
            self.dtypes.append(dtype)
            if number > MOST_VALUES:
                raise TooManyValues
        return number

    def constant(self, value: float | int | bool, dtype: str) -> int:
        return self.node(dtype, "const", repr(value), value, dtype)

    def truth(self, holds: bool) -> int:
        return self.constant(holds, "i1")

    def decided(self, number: int) -> bool | None:
        """Whether a condition holds, where that is known."""
        node = self.nodes[number]
        if node[0] == "const":
            return bool(node[2])
        self._asked.add(number)
        return True if number in self.assumed else None

    # ---- forms ----

    def _split(self, form: Form) -> SplitForm:
        terms, constant = form
        part, moves = [], []
        for axis, coefficient in terms:
            span = self.spans[axis] if axis < self.nest.outputs else None
            moves.append((axis, coefficient))
            if span is not None and span.low < span.high:
                part.append((axis, coefficient * span.unit))
            elif span is not None:
                constant += coefficient * span.unit * span.low
        return tuple(part), tuple(moves), constant

    def place(self, form: SplitForm) -> int:
        """The constant of a form at the element that is looked at."""
        _, moves, constant = form
        for axis, coefficient in moves:
            constant += coefficient * self.environment[axis]
        return constant

    def interval(self, part: Part, constant: int) -> tuple[int, int]:
        low = high = constant
        for axis, coefficient in part:
            span = self.spans[axis]
            ends = coefficient * span.low, coefficient * span.high
            low, high = low + min(ends), high + max(ends)
        return low, high

    def at_least_zero(self, part: Part, constant: int) -> int:
        """The condition that a form isn't negative."""
        low, high = self.interval(part, constant)
        if low >= 0 or high < 0:
            return self.truth(low >= 0)
        divisor = gcd(*(coefficient for _, coefficient in part))
        return self.node("i1", "ge", tuple((axis, c // divisor) for axis, c in part), constant // divisor)

    def both(self, left: int, right: int) -> int:
        for one, other in ((left, right), (right, left)):
            known = self.decided(one)
            if known is not None:
                return other if known else self.truth(False)
        if left == right:
            return left
        return self.node("i1", "and", min(left, right), max(left, right))

    # ---- values ----

    def value(self, of: Value) -> int:
        number = self.nest.numbers.get(of)
        return self.node(dtype_of(of), "given", of.name) if number is None else self.at(number)

    def at(self, number: int) -> int:
        """The value of an operation at the element that is looked at. One that was made under other assumptions serves if it asked for none
        on which these differ: choices of choices would take exponential time otherwise."""
        for asked, held, value in self._known[number].get(self._keys[number](self.environment), ()):
            if asked & self.assumed == held:
                self._asked |= asked
                return value
        before, self._asked = self._asked, set()
        value = self._rules[number]()
        self._keep(number, value)
        self._asked |= before
        return value

    def _keep(self, number: int, value: int) -> None:
        asked = frozenset(self._asked)
        self._known[number].setdefault(self._keys[number](self.environment), []).append((asked, asked & self.assumed, value))

    def _rule(self, number: int, op: Instruction) -> Callable[[], int]:
        """What computes a value of the operation."""
        match op:
            case Load():
                return partial(self._loaded, number, op, tuple(form[0] for form in self._forms[number]))
            case Const():
                return partial(self.constant, op.value, dtype_of(op.result))
            case Index():
                ((part, *_),) = forms = self._forms[number]
                return lambda: self.node("index", "index", part, self.place(forms[0]))
            case InBounds():
                first, second = self._forms[number]
                conditions = self.at_least_zero
                return lambda: self.both(conditions(first[0], self.place(first)), conditions(second[0], self.place(second)))
            case Compare():
                return partial(self._compared, op, self._plain(op))
            case Select():
                return partial(self._selected, op)
            case Reduce():
                return partial(self._reduced, number, op)
            case Contract():
                return partial(self._contracted, op)
            case Binary(operator="and") if dtype_of(op.left) == "i1":
                return lambda: self.both(self.value(op.left), self.value(op.right))
            case Cast() if dtype_of(op.value) == op.to:
                return partial(self.value, op.value)
            case Store():
                return lambda: -1
            case _:
                return self._plain(op)

    def _plain(self, op: Instruction) -> Callable[[], int]:
        dtype, kind, operands = dtype_of(op.result), self.kind_of(op), op.operand_values
        if len(operands) == 2:
            left, right = operands
            return lambda: self.node(dtype, "op", kind, self.value(left), self.value(right))
        return lambda: self.node(dtype, "op", kind, *map(self.value, operands))

    def _loaded(self, number: int, op: Load, parts: tuple[Part, ...]) -> int:
        at = tuple(map(self.place, self._forms[number]))
        dtype, outside = self._dtypes[number], self.nest.outside.get(number)
        if op.where is None:
            return self.node(dtype, "load", self._memories[number], parts, at, False, outside)
        where = self.value(op.where)
        holds = self.decided(where)
        if holds is False:
            return self.constant(op.pad or 0, dtype)
        loaded = self.node(dtype, "load", self._memories[number], parts, at, True, outside)
        return loaded if holds else self.node(dtype, "select", where, loaded, self.constant(op.pad or 0, dtype))

    def _compared(self, op: Compare, plain: Callable[[], int]) -> int:
        left, right = (self._index_form(value) for value in (op.left, op.right))
        if left is None or right is None:
            return plain()
        part = tuple((axis, c) for axis in range(self.nest.outputs) if (c := dict(right[0]).get(axis, 0) - dict(left[0]).get(axis, 0)))
        constant = right[1] - left[1]
        negated = tuple((axis, -c) for axis, c in part)
        match op.operator:
            case "le":
                return self.at_least_zero(part, constant)
            case "lt":
                return self.at_least_zero(part, constant - 1)
            case "ge":
                return self.at_least_zero(negated, -constant)
            case "gt":
                return self.at_least_zero(negated, -constant - 1)
            case _:
                return self._equal(op.operator == "eq", part, constant)

    def _equal(self, wanted: bool, part: Part, constant: int) -> int:
        low, high = self.interval(part, constant)
        divisor = gcd(*(coefficient for _, coefficient in part))
        if low == high == 0:
            return self.truth(wanted)
        if low > 0 or high < 0 or constant % divisor:
            return self.truth(not wanted)
        return self.node("i1", "zero" if wanted else "nonzero", part, constant)

    def _index_form(self, value: Value) -> tuple[Part, int] | None:
        number = self.nest.numbers.get(value)
        match None if number is None else self.nest.ops[number]:
            case Index() if number is not None:
                form = self._forms[number][0]
                return form[0], self.place(form)
            case Const(value=constant) if dtype_of(value) == "index":
                return (), int(constant)
            case _:
                return None

    def _selected(self, op: Select) -> int:
        condition = self.value(op.condition)
        holds = self.decided(condition)
        if holds is not None:
            return self.value(op.then if holds else op.otherwise)
        return self.select(condition, self.where(condition, op.then), self.value(op.otherwise))

    def select(self, condition: int, then: int, otherwise: int) -> int:
        return then if then == otherwise else self.node(self.dtypes[then], "select", condition, then, otherwise)

    def where(self, condition: int, value: Value) -> int:
        """A value where a condition holds, of which nothing is asked elsewhere."""
        before = self.assumed
        self.assumed = before | set(self._parts(condition))
        try:
            return self.value(value)
        finally:
            self.assumed = before

    def _parts(self, condition: int) -> Iterator[int]:
        yield condition
        if self.nodes[condition][0] == "and":
            for part in self.nodes[condition][1:]:
                yield from self._parts(part)

    # ---- reductions ----

    def _reduced(self, number: int, op: Reduce) -> int:
        (value,) = op.values
        dtype = self._dtypes[number]
        (neutral,) = identity_of(op.monoid, [dtype])
        identity = self.constant(neutral, dtype)
        flags = tuple(flag for flag in op.flags if flag == "contract") if is_float(dtype) else ()
        combine = self.kind_of(Binary(operator=op.monoid, left=value, right=value, flags=flags))
        if is_float(dtype) and op.monoid in ("add", "mul"):
            return self._in_order(number, op, combine, neutral)
        return self._nested(op.over, value, combine, identity)

    def _in_order(self, number: int, op: Reduce, combine: int, identity: float | int) -> int:
        """One term after the other, in the order that is written, for all of the thread's elements at a time: what neighbours share is
        needed for a short while only."""
        (value,) = op.values
        guarded = value.source if isinstance(value.source, Select) and value in self.nest.numbers else None
        if guarded is not None and not _is_number(guarded.otherwise, identity):
            guarded = None
        own = [axis for axis in self.nest.varying[number] if axis < self.nest.outputs]
        before = [self.environment[axis] for axis in own]
        elements = list(product(*(range(self.registers[axis]) for axis in own)))
        totals = [self.constant(identity, dtype_of(value))] * len(elements)
        for _ in self._points(op.over):
            for place, element in enumerate(elements):
                self._stand(own, element)
                totals[place] = self._one_more(totals[place], combine, value, guarded)
        for element, total in zip(elements, totals, strict=True):
            self._stand(own, element)
            self._keep(number, total)
        self._stand(own, before)
        return totals[elements.index(tuple(before))]

    def _stand(self, axes: Sequence[int], element: Sequence[int]) -> None:
        for axis, place in zip(axes, element, strict=True):
            self.environment[axis] = place

    def _one_more(self, total: int, combine: int, value: Value, guarded: Select | None) -> int:
        if guarded is None:
            return self._combined(combine, total, self.value(value))
        condition = self.value(guarded.condition)
        holds = self.decided(condition)
        if holds is None:
            return self.select(condition, self._combined(combine, total, self.where(condition, guarded.then)), total)
        return self._combined(combine, total, self.value(guarded.then)) if holds else total

    def _nested(self, over: Sequence[str], value: Value, combine: int, identity: int) -> int:
        """Along the inner axes first: partial results that neighbours share are equal then."""
        if not over:
            return self.value(value)
        total = identity
        for _ in self._points(over[:1]):
            term = self._nested(over[1:], value, combine, identity)
            total = term if total == identity else total if term == identity else self._combined(combine, total, term)
        return total

    def _contracted(self, op: Contract) -> int:
        total = self.constant(0.0 if is_float(op.to) else 0, op.to)
        combine = self.kind_of(Contract(a=op.a, b=op.b, accumulator=op.result, over=(), to=op.to, flags=op.flags))
        for _ in self._points(op.over):
            total = self.node(op.to, "op", combine, self.value(op.a), self.value(op.b), total)
        return total

    def _combined(self, combine: int, left: int, right: int) -> int:
        return self.node(self.dtypes[left], "op", combine, left, right)

    def _points(self, axes: Sequence[str]) -> Iterator[None]:
        """The environment at each point of these axes, the first slowest; as before behind the last: a term may have a reduction along the
        same axes."""
        numbers = [self.nest.axes.index(axis) for axis in axes]
        before = [self.environment[number] for number in numbers]
        for point in product(*(range(self.nest.extents[number]) for number in numbers)):
            self._stand(numbers, point)
            yield
        self._stand(numbers, before)

    # ---- stores ----

    def _store(self, number: int, op: Store) -> None:
        for point in product(*map(range, self.registers)):
            self.environment[: len(point)] = point
            where = None if op.where is None else self.value(op.where)
            holds = True if where is None else self.decided(where)
            if holds is False:
                continue
            parts, at = tuple(form[0] for form in self._forms[number]), tuple(map(self.place, self._forms[number]))
            value = self.value(op.value) if holds or where is None else self.where(where, op.value)
            self.stores.append(StoredElement(number, parts, at, value, None if holds else where))

    def kind_of(self, op: Instruction) -> int:
        """The number of what an operation does, whatever its operands are."""
        key = _kind(op)
        if key not in self._kinds:
            self._kinds[key] = len(self.templates)
            self.templates.append(op)
        return self._kinds[key]

    def live(self) -> list[bool]:
        """Which values the stores need."""
        needed = [False] * len(self.nodes)
        for store in self.stores:
            needed[store.value] = True
            if store.where is not None:
                needed[store.where] = True
        for number in range(len(self.nodes) - 1, -1, -1):
            if needed[number]:
                for operand in operands_of(self.nodes[number]):
                    needed[operand] = True
        return needed


def operands_of(node: Node) -> Sequence[int]:
    """The numbers of the values that one is computed from."""
    match node[0]:
        case "op":
            return node[2:]
        case "select" | "and":
            return node[1:]
        case _:
            return ()


def _getter(axes: Sequence[int]) -> Any:
    return itemgetter(*axes) if axes else lambda environment: ()


def _is_number(value: Value, number: float | int) -> bool:
    return isinstance(value.source, Const) and value.source.value == number


def _kind(op: Instruction) -> tuple[Any, ...]:
    attributes = tuple(repr(getattr(op, name)) for name, role in op.roles() if role is Role.ATTRIBUTE)
    return type(op).__name__, attributes
