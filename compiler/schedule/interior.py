"""Conditions that are bounds of indices: windows at the edge of a picture count only what lies inside, sums of a triangle end at its
diagonal. Along an axis such a condition fails for the first tiles, holds for whole tiles in the middle, and fails for the last ones, or
some of these. Where it holds nothing is compared or masked; where it fails nothing is computed."""

from collections.abc import Iterable, Mapping

from compiler.analysis.recognise import instructions_below
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Binary, Compare, Const, Contract, InBounds, Index, Reduce, Scan, Select
from compiler.hir.instruction import Value
from compiler.hir.memory import Load
from compiler.schedule.table import AxisPlan
from runtime.records import frozen


def bounds_of(condition: Value) -> list[Affine] | None:
    """Forms none of which is negative where the condition holds; None where it isn't a conjunction of comparisons of indices."""
    match condition.source:
        case Binary(operator="and", left=left, right=right):
            first, second = bounds_of(left), bounds_of(right)
            return None if first is None or second is None else [*first, *second]
        case Compare(operator="ge" | "le" | "gt" | "lt" as operator, left=left, right=right):
            low, high = (left, right) if operator in ("le", "lt") else (right, left)
            least, most = _form(low), _form(high)
            return None if least is None or most is None else [most - least - (1 if operator in ("lt", "gt") else 0)]
        case InBounds(of=of, below=below):
            return [of, below - of - 1]
        case _:
            return None


def edges_of(target: Reduce) -> set[Value]:
    """Conditions under which terms of a reduction are loaded at affine indices, and else from the edges of a memory."""
    ops = instructions_below(*target.values, enter=lambda op: not isinstance(op, Reduce | Contract | Scan))
    chosen = [(op.condition, op.then.source) for op in ops if isinstance(op, Select)]
    return {where for where, load in chosen if isinstance(load, Load) and load.where is where and bounds_of(where)}


def _form(value: Value) -> Affine | None:
    match value.source:
        case Index(of=form):
            return form
        case Const(value=int() as number):
            return Affine.of(number)
        case _:
            return None


def least_of(form: Affine, extents: Mapping[str, Affine]) -> Affine | None:
    """The least value of a form whose variables in `extents` run from 0 to below these; None where that isn't a form."""
    least = Affine.of(form.constant)
    for symbol, coefficient in form.terms:
        if isinstance(symbol, str):
            if symbol not in extents:
                least = least + Affine.of(symbol) * coefficient
            elif coefficient < 0:
                least = least + (extents[symbol] - 1) * coefficient
        elif any(name in extents for name in Affine(((symbol, 1),)).names):
            return None
        else:
            least = least + Affine(((symbol, coefficient),))
    return least


def possible_elements(
    forms: Iterable[Affine], axis: str, extents: Mapping[str, Affine], start: Value, count: Value, b: Builder
) -> tuple[Affine, Affine]:
    """Among `count` elements of an axis from `start` on, numbered from 0, the first that may lie where no form is negative, and the one
    behind the last. Variables in `extents` run from 0 to below these."""
    low, high = b.const(0, "index"), count
    for form in forms:
        step, negated = form.coefficient(axis), least_of(-form.without(axis), extents)
        if negated is not None and step > 0:
            low = b.op("max", low, b.index(negated.ceildiv(step) - start.name))
        elif negated is not None and step < 0:
            high = b.op("min", high, b.index((-negated).floordiv(-step) + 1 - start.name))
    return Affine.of(low.name), Affine.of(b.op("max", low, high).name)


def all_hold(forms: Iterable[Affine], b: Builder) -> Value:
    """Whether no form is negative."""
    result: Value | None = None
    for form in forms:
        result = b.both(result, b.op("ge", b.index(form), b.const(0, "index")))
    return b.const(True, "i1") if result is None else result


@frozen
class Zone:
    """Tiles of an axis in which conditions hold or fail all over. `ragged`: the last may reach past the extent."""

    low: Affine
    high: Affine
    ragged: bool
    certain: frozenset[Value] = frozenset()
    refuted: frozenset[Value] = frozenset()


_Bounds = tuple[Value, Value, bool, frozenset[Value], frozenset[Value]]


class ZoneBounds:
    """Where the zones of an axis meet, as numbers of its tiles. `extents`: of all other variables that the conditions name."""

    def __init__(self, plan: AxisPlan, extents: Mapping[str, Affine], b: Builder) -> None:
        self.plan, self.extents, self.b = plan, extents, b
        self.conditions: set[Value] = set()
        self.inner: set[Value] = set()
        """Those that all of whose bounds vary along the axis."""
        self.mixed = False
        """Whether bounds of one condition vary along the axis, and others don't."""
        self.outer: list[Affine] = []
        """Forms that don't vary along the axis: they must not be negative, for conditions to hold anywhere."""
        self.holds_from: list[Affine] = []
        self.holds_below: list[Affine] = []
        self.possible: list[tuple[list[Affine], list[Affine]]] = []
        """Of each condition, the first tiles in which it may hold, and those behind the last."""
        self.exact: list[tuple[int, Affine]] = []
        """Steps and least rests of forms that vary by rows in registers at most: the condition fails right up to one element, or a few."""

    def add(self, condition: Value, forms: Iterable[Affine]) -> None:
        """A condition that is the conjunction of `form >= 0`; left out where that says nothing of whole tiles."""
        parts = [self._parts(form) for form in forms]
        if None in parts:
            return
        self.conditions.add(condition)
        along = [part is not None and part[0] != 0 for part in parts]
        if all(along):
            self.inner.add(condition)
        self.mixed = self.mixed or (any(along) and not all(along))
        tile, first, last = self.plan.tile, list[Affine](), list[Affine]()
        for part in parts:
            assert part is not None
            step, least, most = part
            if step and (most - least).value is not None:
                self.exact.append((step, least))
            if step == 0:
                self.outer.append(least)
            elif step > 0:
                self.holds_from.append((-least).ceildiv(step * tile))
                first.append((-most - step * (tile - 1)).ceildiv(step * tile))
            else:
                self.holds_below.append((least + step * (tile - 1)).floordiv(-step * tile) + 1)
                last.append(most.floordiv(-step * tile) + 1)
        self.possible.append((first, last))

    def _parts(self, form: Affine) -> tuple[int, Affine, Affine] | None:
        """A form's coefficient along the axis, and the least and the most of its rest."""
        axis = self.plan.axis
        step, rest = form.coefficient(axis), form.without(axis)
        least, negated = least_of(rest, self.extents), least_of(-rest, self.extents)
        return None if axis in rest.names or least is None or negated is None else (step, least, -negated)

    def parts(self, extent: Affine, few: int) -> bool:
        """Whether a condition may fail for more than a few elements at an end of the axis, as in a triangle."""
        ends = (-rest if step > 0 else extent * -step - rest for step, rest in self.exact)
        return any(end.value is None or end.value > few for end in ends)

    def zones(self, extent: Affine, skip_refuted: bool) -> list[Zone]:
        """All tiles of the axis in order, without those in which all conditions fail where these are to be skipped."""
        b, tile = self.b, self.plan.tile
        whole, every = b.index(extent.floordiv(tile)), b.index(extent.ceildiv(tile))
        firsts, lasts = [first for first, _ in self.possible], [last for _, last in self.possible]
        zero = b.const(0, "index")
        begin, end = zero, every
        if all(firsts):
            begin = b.op("min", b.op("max", zero, self._all(b, "min", [self._all(b, "max", first) for first in firsts])), every)
        if all(lasts):
            end = b.op("min", b.op("max", begin, self._all(b, "max", [self._all(b, "min", last) for last in lasts])), every)
        low = b.op("min", self._all(b, "max", [*self.holds_from, begin]), end)
        high = b.op("max", low, self._all(b, "min", [*self.holds_below, whole, end]))
        if self.outer:
            high = b.select(all_hold(self.outer, b), high, low)
        ragged = extent.floordiv(tile) != extent.ceildiv(tile)
        conditions, nothing = frozenset(self.conditions), frozenset[Value]()
        zones: list[_Bounds] = []
        if all(firsts) and not skip_refuted:
            zones += self._refuted(zero, begin, whole, ragged)
        if self.holds_from:
            zones.append((begin, low, ragged, nothing, nothing))
        zones.append((low, high, False, conditions, nothing))
        zones.append((high, end, ragged, nothing, nothing))
        if all(lasts) and not skip_refuted:
            zones += self._refuted(end, every, whole, ragged)
        return [Zone(Affine.of(a.name), Affine.of(c.name), masked, holds, fails) for a, c, masked, holds, fails in zones]

    def _refuted(self, low: Value, high: Value, whole: Value, ragged: bool) -> list[_Bounds]:
        """The tiles from `low` to `high`, in which no condition holds: those below `whole` have no masks."""
        last = self.b.op("max", low, self.b.op("min", high, whole)) if ragged else high
        ends = [(low, last, False), (last, high, True)] if ragged else [(low, high, False)]
        return [(*bounds, frozenset(), frozenset(self.conditions)) for bounds in ends]

    def elements(self, extent: Value) -> tuple[Value, Value]:
        """The elements, for tiles of one, from which on and before which all holds that varies along the axis."""
        b = self.b
        zero = b.const(0, "index")
        low = b.op("max", zero, self._all(b, "min", [extent, self._all(b, "max", [zero, *self.holds_from])]))
        return low, b.op("max", low, self._all(b, "min", [extent, *self.holds_below]))

    @staticmethod
    def _all(b: Builder, operator: str, numbers: Iterable[Affine | Value]) -> Value:
        result: Value | None = None
        for number in numbers:
            value = number if isinstance(number, Value) else b.index(number)
            result = value if result is None else b.op(operator, result, value)
        assert result is not None
        return result
