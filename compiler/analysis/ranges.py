"""What ints a value of a host function can be, from how it was computed, and how often a loop can run. Nothing is known of memory and
of parameters but their types."""

import itertools

from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.control import Continue, For, While
from compiler.hir.core import Binary, Cast, Compare, Const, Index, Select, dtype_of
from compiler.hir.host import Checked, Narrow
from compiler.hir.instruction import Instruction, Region, Value
from compiler.hir.memory import Check, GetSlot, MakeSlot, SetSlot
from compiler.hir.module import HirFunction
from compiler.hir.numbers import limits
from compiler.hir.types import is_float
from runtime.records import Factory, define

MOST_TURNS = 1 << 40
"""A loop that may run more often counts as one without a bound: that its variable has 64 bits bounds nothing."""

_ORDERS = ("lt", "le", "gt", "ge")

Range = tuple[int, int]
"""The least and the greatest."""


@define
class Ranges:
    """The ranges of one function's values, found when asked for."""

    function: HirFunction
    _known: dict[str, Range] = Factory(dict)
    _loops: dict[str, For] = Factory(dict)
    _values: dict[str, Value] = Factory(dict)
    _set: dict[str, list[Value]] = Factory(dict)

    def __attrs_post_init__(self) -> None:
        self._enter(self.function.body)
        self._values.update((p.name, p) for p in self.function.parameters)

    def _enter(self, region: Region) -> None:
        for op in region.body:
            self._values.update((r.name, r) for r in op.results)
            match op:
                case For():
                    self._loops[op.variable.name] = op
                    self._values[op.variable.name] = op.variable
                case MakeSlot():
                    self._set.setdefault(op.result.name, []).append(op.initial)
                case SetSlot():
                    self._set.setdefault(op.slot.name, []).append(op.value)
                case _:
                    pass
            for inner in op.regions:
                self._enter(inner)

    def of(self, value: Value) -> Range:
        """The range of an int."""
        if value.name not in self._known:
            whole = limits(dtype_of(value))
            self._known[value.name] = whole  # as seen by a value that depends on itself
            self._known[value.name] = _inside(self._computed(value), whole)
        return self._known[value.name]

    def outcome(self, condition: Value) -> bool | None:
        """What a comparison of ints gives, where the ranges of its sides tell."""
        match condition.source:
            case Compare(operator="lt" | "le" | "gt" | "ge" as operator, left=left, right=right) if not is_float(dtype_of(left)):
                if operator in ("gt", "ge"):
                    operator, left, right = ("lt" if operator == "gt" else "le"), right, left
                (low, high), (least, most) = self.of(left), self.of(right)
                if operator == "lt":
                    return True if high < least else False if low >= most else None
                return True if high <= least else False if low > most else None
        return None

    def turns(self, loop: For) -> int | None:
        """How often a loop runs at most; None when that isn't known or is more than MOST_TURNS."""
        (first, _), (_, last) = self.affine(loop.low), self.affine(loop.high)
        if loop.step < 0:
            (_, first), (last, _) = self.affine(loop.low), self.affine(loop.high)
        count = max(0, -((first - last) // loop.step))
        return count if count <= MOST_TURNS else None

    def rounds(self, loop: While) -> int | None:
        """How often a `while` runs at most whose body counts: it begins by requiring that a cell, 0 before, is below a bound, and adds 1 to
        it; None for others, and when that is more than MOST_TURNS."""
        begin = list(itertools.takewhile(lambda op: not _goes_on(op), loop.body.body))
        for check in begin:
            match check:
                case Check(condition=Value(source=Compare(operator="lt", left=Value(source=GetSlot(slot=cell)), right=bound))):
                    if self._counts(loop, begin, cell):
                        most = max(0, self.of(bound)[1])
                        return most if most <= MOST_TURNS else None
                case _:
                    pass
        return None

    def _counts(self, loop: While, begin: list[Instruction], cell: Value) -> bool:
        """Whether a cell is 0 before the loop, and 1 more after each round."""
        inside = [op for op in loop.walk() if isinstance(op, SetSlot) and op.slot is cell]
        first = self._set[cell.name][0].source
        if len(inside) != 1 or inside[0] not in begin or len(self._set[cell.name]) != 2:
            return False
        match first, inside[0].value.source:
            case Const(value=0), Binary(operator="add", left=Value(source=GetSlot(slot=other)), right=Value(source=Const(value=1))):
                return other is cell
            case _:
                return False

    def affine(self, form: Affine) -> Range:
        low = high = form.constant
        for symbol, factor in form.terms:
            if isinstance(symbol, FloorDiv):
                least, most = (end // symbol.divisor for end in self.affine(symbol.numerator))
            else:
                least, most = self.of(self._values[symbol]) if symbol in self._values else limits("index")
            ends = (factor * least, factor * most)
            low, high = low + min(ends), high + max(ends)
        return low, high

    def _computed(self, value: Value) -> Range | None:
        """From the operands; None: the type is all that is known."""
        if value.name in self._loops:
            return self._variable(self._loops[value.name])
        match value.source:
            case Const(value=number):
                return int(number), int(number)
            case Index(of=of):
                return self.affine(of)
            case Cast(value=inner) | Narrow(value=inner) if not is_float(dtype_of(inner)):
                return self.of(inner)
            case Select(condition=Value(source=Compare(operator=operator, left=left, right=right)), then=then, otherwise=otherwise) if (
                operator in _ORDERS and (then, otherwise) in ((left, right), (right, left))
            ):
                return combined("min" if (operator in ("lt", "le")) == (then is left) else "max", self.of(left), self.of(right))
            case Select(condition=condition, then=then, otherwise=otherwise):
                outcome = self.outcome(condition)
                return _union([self.of(then), self.of(otherwise)]) if outcome is None else self.of(then if outcome else otherwise)
            case Checked(operation=operation, left=left, right=right) | Binary(operator=operation, left=left, right=right) if not is_float(
                dtype_of(left)
            ):
                return combined(operation, self.of(left), self.of(right))
            case GetSlot(slot=slot):
                return _union([self.of(given) for given in self._set[slot.name]])
            case _:
                return None

    def _variable(self, loop: For) -> Range | None:
        low, high = self.affine(loop.low), self.affine(loop.high)
        return (low[0], max(low[0], high[1] - 1)) if loop.step > 0 else (min(low[1], high[0] + 1), low[1])


def _goes_on(op: Instruction) -> bool:
    """Whether what stands behind an instruction may be left out in the same round, and the loop run on."""
    return any(isinstance(inner, Continue) for inner in op.walk())


def combined(operation: str, a: Range, b: Range) -> Range | None:
    """What the exact operation can give for operands in these ranges; None where no rule says."""
    match operation:
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "sub":
            return a[0] - b[1], a[1] - b[0]
        case "mul":
            ends = [x * y for x in a for y in b]
            return min(ends), max(ends)
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
        case "and" if b[0] >= 0 or a[0] >= 0:
            return 0, min(end[1] for end in (a, b) if end[0] >= 0)
        case "rem" if b[0] > 0:
            return (0 if a[0] >= 0 else 1 - b[1]), (0 if a[1] <= 0 else b[1] - 1)
        case "div" if b[0] > 0 and a[0] >= 0:
            return a[0] // b[1], a[1] // b[0]
        case "shr" if b[0] == b[1] and 0 <= b[0] < 128:
            return a[0] >> b[0], a[1] >> b[0]
        case _:
            return None


def _union(ranges: list[Range]) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _inside(range_: Range | None, whole: Range) -> Range:
    """What was computed where the type holds it; what wraps may be anything. A checked result is in the type or isn't there."""
    if range_ is None or range_[0] < whole[0] or range_[1] > whole[1]:
        return whole
    return range_
