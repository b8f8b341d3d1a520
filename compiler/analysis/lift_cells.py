"""What a lifted loop leaves behind: each slot or carried value that it changes becomes a reduction over its axis, a running value
(scan) for those who look inside, or a refusal that counts only if somebody uses it."""

import math
from functools import partial

from compiler.analysis.accesses import COMMUTATIVE, affine_value, reorders
from compiler.analysis.affine_sets import lower
from compiler.analysis.field_values import FieldValues, Refused
from compiler.analysis.homogeneity import is_number
from compiler.analysis.lift_events import LiftedLoop
from compiler.analysis.lift_memory import LiftedMemory
from compiler.analysis.lift_rescaled import Growing, begins_hidden, rescaled_event, rescaled_sum, unguarded, with_nan
from compiler.hir.affine import Affine
from compiler.hir.core import Binary, Cast, Combine, Compare, Const, IsNan, Select, Unary, dtype_of, union_axes
from compiler.hir.instruction import Value
from compiler.hir.types import is_float
from compiler.source import Span
from runtime.records import define, field

NARROW_INTS = ("i8", "i16", "i32", "u8", "u16", "u32")


@define(eq=False)
class Cell:
    """Something a loop changes: its placeholder inside, its value before, and at the end of an iteration: `inner` where the
    iteration exists, `final` in any case."""

    placeholder: Value
    initial: Value
    name: str
    span: Span | None
    inner: Value = field(init=False)
    final: Value = field(init=False)


@define(eq=False)
class Update:
    """`members := members (+) elements`: several members for argmin's pair. `assumes`: members that must not start as NaN. `narrow`: the
    type of the second member, where its elements are counted in i64."""

    monoid: str
    members: tuple[Value, ...]
    elements: tuple[Value, ...]
    flags: tuple[str, ...] = ()
    assumes: bool = False
    narrow: str | None = None

    def same(self, other: "Update | None") -> bool:
        return other is not None and (self.monoid, self.members, self.elements) == (other.monoid, other.members, other.elements)


def close(field: FieldValues, memory: LiftedMemory, frame: LiftedLoop, cells: list[Cell], mark: int) -> list[Value]:
    """The values that the cells have after the loop; inside, events since `mark` get the running values they read."""
    return _Closing(field, memory, frame, cells, mark).run()


def match_update(
    field: FieldValues, memory: LiftedMemory, value: Value, old: Value, known: dict[Value, Update | None] | None = None
) -> Update | None:
    """`value` as `old (+) e`, e free of old, through selects that keep the old value. `known`: what values on the way were found to be."""
    known = {} if known is None else known
    if value not in known:
        known[value] = _matched(field, memory, value, old, known)
    return known[value]


def _matched(field: FieldValues, memory: LiftedMemory, value: Value, old: Value, known: dict[Value, Update | None]) -> Update | None:
    def free(part: Value) -> bool:
        return old not in memory.placeholders_in(part)

    match value.source:
        case Binary(operator=operator, left=left, right=right, flags=flags):
            if operator == "sub" and left is old and free(right):
                return Update("add", (old,), (field.emit(Unary(operator="neg", value=right))[0],), flags)
            if operator not in COMMUTATIVE:
                return None
            if left is old and free(right):
                return Update(operator, (old,), (right,), flags)
            if right is old and free(left):
                return Update(operator, (old,), (left,), flags)
            # (old + a) + b: the same monoid again
            for first, second in ((left, right), (right, left)):
                if free(second) and not free(first):
                    inner = match_update(field, memory, first, old, known)
                    if inner is not None and inner.monoid == operator and len(inner.members) == 1 and not inner.assumes:
                        common = tuple(flag for flag in flags if flag in inner.flags)
                        if reorders(operator, dtype_of(old), common):
                            joined = field.emit(Binary(operator=operator, left=inner.elements[0], right=second, flags=common))[0]
                            return Update(operator, (old,), (joined,), common)
            return None
        case Combine(monoid=monoid, operands_=operands) as combine:
            half = len(operands) // 2
            number = combine.results.index(value)
            members, elements = operands[:half], operands[half:]
            if members[number] is not old or any(m in memory.placeholders_in(e) for m in members for e in elements):
                return None
            return Update(monoid, members, elements)
        case Select(condition=condition, then=then, otherwise=otherwise):
            if not free(condition):
                return _extreme(field, memory, value, old)
            if otherwise is old or then is old:
                inner = match_update(field, memory, then if otherwise is old else otherwise, old, known)
                if inner is None:
                    return None
                nothing = field.identity(inner.monoid, [dtype_of(e) for e in inner.elements])
                pairs = zip(inner.elements, nothing, strict=True)
                chosen = tuple(field.select(condition, e, n) if otherwise is old else field.select(condition, n, e) for e, n in pairs)
                return Update(inner.monoid, inner.members, chosen, inner.flags, inner.assumes)
            on_true, on_false = (match_update(field, memory, side, old, known) for side in (then, otherwise))
            if on_true is None or on_false is None or (on_true.monoid, on_true.members) != (on_false.monoid, on_false.members):
                return None
            chosen = tuple(field.select(condition, a, b) for a, b in zip(on_true.elements, on_false.elements, strict=True))
            flags = tuple(flag for flag in on_true.flags if flag in on_false.flags)
            return Update(on_true.monoid, on_true.members, chosen, flags, on_true.assumes or on_false.assumes)
        case _:
            return None


def _extreme(field: FieldValues, memory: LiftedMemory, value: Value, old: Value) -> Update | None:
    """`x > old ? x : old` is max for all but NaN, which it passes over, and zeros, of which it keeps the first."""
    op = value.source
    assert isinstance(op, Select)
    side = compared(op.condition, old)
    if side is None or op.otherwise is not old or (field.strict and is_float(dtype_of(old))):
        return None
    monoid, x, _ = side
    if op.then is not x or old in memory.placeholders_in(x):
        return None
    return Update(monoid, (old,), (without_nan(field, monoid, x),), assumes=True)


def _grown_by(value: Value, old: Value) -> Value:
    """What an iteration joins a maximum with."""
    op = value.source
    if isinstance(op, Binary):
        return op.right if op.left is old else op.left
    assert isinstance(op, Select)
    return op.then


def compared(condition: Value, old: Value) -> tuple[str, Value, bool] | None:
    """The condition as `x > old` (max) or `x < old` (min): monoid, x, and whether the comparison is strict."""
    match condition.source:
        case Compare(operator="gt" | "ge" | "lt" | "le" as operator, left=left, right=right) if left is old or right is old:
            x = right if left is old else left
            greater = (operator in ("gt", "ge")) == (right is old)
            return ("max" if greater else "min"), x, operator in ("gt", "lt")
        case _:
            return None


def without_nan(field: FieldValues, monoid: str, x: Value) -> Value:
    if not is_float(dtype_of(x)):
        return x
    (nothing,) = field.identity(monoid, [dtype_of(x)])
    return field.select(field.emit(IsNan(value=x))[0], nothing, x)


@define(eq=False)
class _Closing:
    made: FieldValues
    memory: LiftedMemory
    frame: LiftedLoop
    cells: list[Cell]
    mark: int
    at_iteration: dict[Value, Value] = field(factory=dict)
    """What placeholders, and the updates of running values, are in an iteration."""
    results: dict[Value, Value] = field(factory=dict)
    running: dict[Value, tuple[Update, Cell]] = field(factory=dict)
    maxima: dict[Value, Growing] = field(factory=dict)
    """Running maxima that sums beside them may follow."""

    def run(self) -> list[Value]:
        pending = list(self.cells)
        progress = True
        while pending and progress:
            progress = False
            for cell in list(pending):
                if cell in pending and self.settle(cell, pending):
                    progress = True
        for cell in pending:
            reason = (
                f"`{cell.name}` carries a value from one iteration of `{self.frame.variable}` to the next"
                " that is no sum, product, min or max"
            )
            self.memory.refusals[cell.placeholder] = Refused(reason, cell.span, self.frame.variable)
            self.results[cell.placeholder] = cell.placeholder
        self.look_inside()
        return [self.results[cell.placeholder] for cell in self.cells]

    def settle(self, cell: Cell, pending: list[Cell]) -> bool:
        """Find what the cell becomes, if that can be told yet."""
        old = cell.placeholder
        final = self.current(cell.final)
        if final is old:
            self.done(cell, pending, cell.initial, cell.initial)
            return True
        waiting = {other.placeholder for other in pending}
        update_ = self.paired(cell, pending)
        if update_ is None and self.won(cell, pending):
            return True
        update_ = update_ or match_update(self.made, self.memory, final, old)
        if update_ is None:
            if self.rescaled(cell, final, pending):
                return True
            if not waiting & self.memory.placeholders_in(final):
                self.last_value(cell, pending)
                return True
            return False
        members = [other for member in update_.members for other in pending if other.placeholder is member]
        if len(members) != len(update_.members):
            return False
        if any(waiting & self.memory.placeholders_in(element) for element in update_.elements):
            return False
        for other in members:
            if len(members) > 1 and not update_.same(self.update_of(other, pending)):
                return False
        return self.fold(update_, members, pending)

    def rescaled(self, cell: Cell, final: Value, pending: list[Cell]) -> bool:
        """Whether the cell is a sum that follows a running maximum of this loop; then it is settled."""
        for growing in () if self.made.strict else self.growing():
            total = rescaled_sum(self.made, self.memory, growing, final, cell.placeholder, cell.initial)
            if total is not None:
                reason = f"`{cell.name}`, rescaled as its maximum grows, is read inside the loop over `{self.frame.variable}`"
                self.memory.refusals[cell.placeholder] = Refused(reason, cell.span, self.frame.variable)
                self.results[cell.placeholder] = total
                pending.remove(cell)
                return True
        return False

    def growing(self) -> list[Growing]:
        """The running maxima that are read in the loop, found so far."""
        for placeholder, (update, cell) in self.running.items():
            if update.monoid != "max" or placeholder not in self.at_iteration or cell.inner not in self.at_iteration:
                continue
            if placeholder in self.maxima or not is_float(dtype_of(cell.initial)):
                continue
            inner, guards = unguarded(self.memory, cell.final, placeholder)
            element = _grown_by(inner, placeholder)
            if is_number(cell.initial, -math.inf) and begins_hidden(self.made, element, self.frame.axis):
                continue
            before, after = self.at_iteration[placeholder], self.at_iteration[cell.inner]
            start, total = cell.initial, self.results[placeholder]
            growing = Growing(self.frame.axis, guards, element, before, after, start, total)
            self.maxima[placeholder] = with_nan(self.made, growing) if update.assumes else growing
        return list(self.maxima.values())

    def update_of(self, cell: Cell, pending: list[Cell]) -> Update | None:
        return self.paired(cell, pending) or match_update(self.made, self.memory, self.current(cell.final), cell.placeholder)

    def current(self, value: Value) -> Value:
        """The value with the running values found so far put in."""
        used = self.memory.placeholders_in(value)
        for placeholder in list(self.running):
            if placeholder in used and placeholder not in self.at_iteration:
                self.run_along(placeholder)
        known = {p: v for p, v in self.at_iteration.items() if p in used or p.source is not None}
        return self.made.replace(value, known, {}) if used & set(known) else value

    def fold(self, update: Update, members: list[Cell], pending: list[Cell]) -> bool:
        initials = [cell.initial for cell in members]
        if update.narrow is not None:
            initials[1] = self.made.emit(Cast(value=initials[1], to="i64"))[0]
        reorder = reorders(update.monoid, dtype_of(initials[0]), update.flags)
        plain = self.made.is_identity(update.monoid, initials)
        asked = update.assumes or any(cell.placeholder in self.memory.assumed_numbers for cell in members)
        if asked and not all(self.never_nan(cell.initial) for cell in members):
            return False
        if not reorder and not plain:
            for cell in members:
                self.refuse(cell, pending, f"the order in which `{cell.name}` is summed up is fixed")
            return True
        counted = self.counted(update, members[0]) if len(members) == 1 else None
        if counted is not None:
            self.done(members[0], pending, *counted)
            return True
        flags = tuple(flag for flag in update.flags if flag in ("reassoc", "contract"))
        totals = self.made.reduce(update.monoid, update.elements, (self.frame.axis,), flags)
        if not plain:
            totals = self.join(update, initials, totals)
        if update.narrow is not None:
            totals = [totals[0], self.made.emit(Cast(value=totals[1], to=update.narrow))[0]]
        for cell, total in zip(members, totals, strict=True):
            self.results[cell.placeholder] = total
            self.running[cell.placeholder] = (update, cell)
            pending.remove(cell)
        return True

    def join(self, update: Update, first: list[Value], second: list[Value]) -> list[Value]:
        if len(first) == 1:
            return self.made.emit(Binary(operator=update.monoid, left=first[0], right=second[0], flags=update.flags))
        return self.made.emit(Combine(monoid=update.monoid, operands_=(*first, *second)))

    def never_nan(self, initial: Value) -> bool:
        """A start that is surely no NaN; that of an outer loop's cell is asked for there."""
        if not is_float(dtype_of(initial)):
            return True
        if isinstance(initial.source, Const):
            return not math.isnan(float(initial.source.value))
        if initial in self.memory.placeholder_names:
            self.memory.assumed_numbers.add(initial)
            return True
        return False

    def counted(self, update: Update, cell: Cell) -> tuple[Value, Value] | None:
        """An index stepped by a constant is affine: its value after the loop, and in an iteration."""
        (element,) = update.elements
        step, start = affine_value(element), affine_value(cell.initial)
        if update.monoid != "add" or dtype_of(cell.initial) != "index" or step is None or start is None or step.value is None:
            return None
        extent = self.frame.extent
        if not self.made.facts().proves(extent):
            return None
        return self.made.index(start + extent * step.value), self.made.index(start + Affine.of(self.frame.axis) * step.value)

    def paired(self, cell: Cell, pending: list[Cell]) -> Update | None:
        """`if x > best { best = x; at = i }`: the first of the greatest, when i grows along the loop."""
        for best in pending:
            op = self.current(best.final).source
            if not isinstance(op, Select) or op.otherwise is not best.placeholder:
                continue
            side = compared(op.condition, best.placeholder)
            if side is None or op.then is not side[1] or not side[2]:
                continue
            if sum(other is not best and self.carried(other, op.condition) is not None for other in pending) > 1:
                continue
            for at in pending:
                other = self.current(at.final).source
                if (
                    at is best
                    or not isinstance(other, Select)
                    or other.condition is not op.condition
                    or other.otherwise is not at.placeholder
                ):
                    continue
                index, narrow = self.wide_index(other.then)
                if cell in (best, at) and self.first_wins(at, index) and self.never_nan(best.initial):
                    x = without_nan(self.made, side[0], side[1])
                    return Update("arg" + side[0], (best.placeholder, at.placeholder), (x, index), narrow=narrow)
        return None

    def won(self, cell: Cell, pending: list[Cell]) -> bool:
        """Whether the cell is of an extreme with whatever goes along, `if x > best { best = x; at = i; label = y[i] }`, where an outer
        loop may have found one before. Then all are settled: by the first of the loop's greatest, where it is beyond the one before."""
        for best in pending:
            op = self.current(best.final).source
            if not isinstance(op, Select) or op.otherwise is not best.placeholder:
                continue
            side = compared(op.condition, best.placeholder)
            if side is None or op.then is not side[1] or not side[2] or (self.made.strict and is_float(dtype_of(best.placeholder))):
                continue
            carried = {other: self.carried(other, op.condition) for other in pending if other is not best}
            along = {other: value for other, value in carried.items() if value is not None}
            waiting = {other.placeholder for other in pending}
            if not along or (cell is not best and cell not in along):
                continue
            if any(waiting & self.memory.placeholders_in(value) for value in (side[1], *along.values())):
                continue
            monoid, axis = side[0], self.frame.axis
            number = self.made.emit(Cast(value=self.made.index(Affine.of(axis)), to="i64"))[0]
            most, first = self.made.reduce("arg" + monoid, (without_nan(self.made, monoid, side[1]), number), (axis,), ())
            beyond = self.made.emit(Compare(operator="gt" if monoid == "max" else "lt", left=most, right=best.initial))[0]
            for other, value in {best: most, **{o: self.at_first(v, number, first) for o, v in along.items()}}.items():
                reason = f"`{other.name}`, which goes with a running extreme, is read inside the loop over `{self.frame.variable}`"
                self.memory.refusals[other.placeholder] = Refused(reason, other.span, self.frame.variable)
                self.results[other.placeholder] = self.made.select(beyond, value, other.initial)
                pending.remove(other)
            return True
        return False

    def carried(self, cell: Cell, condition: Value) -> Value | None:
        """What the cell becomes where the condition holds, if it stays as it is elsewhere."""
        op = self.current(cell.final).source
        return op.then if isinstance(op, Select) and op.condition is condition and op.otherwise is cell.placeholder else None

    def at_first(self, value: Value, number: Value, first: Value) -> Value:
        """A value of the loop in its iteration `first`; `number` is that of each iteration."""
        axis, dtype = self.frame.axis, dtype_of(value)
        if axis not in dict(union_axes(value)):
            return value
        if affine_value(value) == Affine.of(axis) or affine_value(self.wide_index(value)[0]) == Affine.of(axis):
            return first if dtype == "i64" else self.made.emit(Cast(value=first, to=dtype))[0]
        here = self.made.emit(Compare(operator="eq", left=number, right=first))[0]
        monoid = "or" if dtype == "i1" else "max"
        (nothing,) = self.made.identity(monoid, [dtype])
        return self.made.reduce(monoid, (self.made.select(here, value, nothing),), (axis,), ())[0]

    def wide_index(self, index: Value) -> tuple[Value, str | None]:
        """An index as i64, and the narrower type of ints that it was converted to: as well the last index alone may be converted."""
        match index.source:
            case Cast(value=value, to=to) if to in NARROW_INTS and affine_value(value) is not None:
                return self.made.emit(Cast(value=value, to="i64"))[0] if dtype_of(value) == "index" else value, to
            case _:
                return index, None

    def first_wins(self, at: Cell, index: Value) -> bool:
        form = affine_value(index)
        if form is None or not isinstance(at.initial.source, Const) or is_float(dtype_of(at.initial)):
            return False
        start = int(at.initial.source.value)
        if form.coefficient(self.frame.axis) <= 0:
            return False
        facts = self.made.facts()
        return facts.proves(lower(form, self.made.axes) - start)

    # ---- other ends ----

    def done(self, cell: Cell, pending: list[Cell], result: Value, at_iteration: Value) -> None:
        self.results[cell.placeholder] = result
        self.at_iteration[cell.placeholder] = at_iteration
        pending.remove(cell)

    def refuse(self, cell: Cell, pending: list[Cell], reason: str) -> None:
        self.memory.refusals[cell.placeholder] = Refused(reason, cell.span, self.frame.variable)
        self.results[cell.placeholder] = cell.placeholder
        pending.remove(cell)

    def last_value(self, cell: Cell, pending: list[Cell]) -> None:
        reason = f"`{cell.name}` is used after the loop over `{self.frame.variable}` as its last iteration left it"
        after = self.memory.poison(cell.name, cell.initial, Refused(reason, cell.span, self.frame.variable))
        reason = f"`{cell.name}` is read as the iteration before of `{self.frame.variable}` left it"
        self.memory.refusals[cell.placeholder] = Refused(reason, cell.span, self.frame.variable)
        self.results[cell.placeholder] = after
        pending.remove(cell)

    # ---- running values ----

    def look_inside(self) -> None:
        """Events in the loop that read a cell get its value in that iteration."""
        used = self.memory.used_since(self.mark)
        for placeholder in list(self.running):
            if placeholder in used and placeholder not in self.at_iteration:
                self.run_along(placeholder)
        known = dict(self.at_iteration)
        if known:
            self.memory.replace_since(self.mark, known)
        for growing in () if self.made.strict else self.growing():
            self.memory.rescaled_since(self.mark, partial(rescaled_event, self.made, self.memory, growing))

    def run_along(self, placeholder: Value) -> None:
        update, cell = self.running[placeholder]
        if len(update.members) > 1:
            reason = f"`{cell.name}`, a running place of an extreme, is read inside the loop over `{self.frame.variable}`"
            self.memory.refusals[placeholder] = Refused(reason, cell.span, self.frame.variable)
            self.at_iteration[placeholder] = placeholder
            return
        flags = tuple(flag for flag in update.flags if flag in ("reassoc", "contract"))
        (element,) = update.elements
        axis = self.frame.axis
        element = self.made.stretched(element, (axis,))
        values = []
        for exclusive in (True, False):
            value = self.made.scan(update.monoid, element, axis, exclusive, flags)
            if not self.made.is_identity(update.monoid, [cell.initial]):
                value = self.join(update, [cell.initial], [value])[0]
            values.append(value)
        self.at_iteration[placeholder] = values[0]
        if placeholder in self.memory.placeholders_in(cell.inner) and cell.inner is not placeholder:
            self.at_iteration[cell.inner] = values[1]
        assert axis in dict(union_axes(values[0]))
