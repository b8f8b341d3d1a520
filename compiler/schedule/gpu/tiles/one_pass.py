"""Two reductions along the same axes, the second of which reads the first, in one pass over what both read:

* sums of squares of what is left of each element behind a value that a sum of the elements makes, such as their mean:

      sum of (x - c)^2  =  q + n * (s/n - c)^2      s: the sum, n: how many there are, q: the sum of (x - s/n)^2

* sums of exponentials of what is left behind the maximum: when that grows, the sum is multiplied by what the exponential changes.

The reductions become one of triples (s, q, n), or of pairs (maximum, sum), whose halves anything may join:

      s = s1 + s2,  n = n1 + n2,  q = q1 + q2 + n1 * (s1/n1 - s/n)^2 + n2 * (s2/n2 - s/n)^2
      m = max(m1, m2),  sum = sum1 * exp(m1 - m) + sum2 * exp(m2 - m)

No term cancels another, so the results are as near as those of two passes. A tile of a thread is a half: its elements are read once,
and held while its own sum and its own squares are made."""

from collections.abc import Sequence
from math import prod

from compiler.hir.build import Builder
from compiler.hir.core import JOINED_PASSES, Binary, Reduce, Unary, dtype_of, union_axes
from compiler.hir.field_copy import FieldCopy
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from compiler.schedule.region import TileRegion
from runtime.records import frozen

TYPES = ("f32", "f64")


@frozen(eq=False)
class _Pair:
    """The reduction that is read, the one that reads it, and what that subtracts from the elements."""

    first: Reduce
    second: Reduce
    less: Value


def in_one_pass(field: HirFunction) -> HirFunction | None:
    """The field with such pairs made one reduction each; None where there are none."""
    pairs: dict[Reduce, _Pair] = {}
    for op in field.body.body:
        if isinstance(op, Reduce) and (pair := _squares(op, field) or _exponentials(op, field)) is not None and pair.first not in pairs:
            pairs[pair.first] = pair
    return _Rebuilding(field, pairs).run() if pairs else None


def _squares(op: Reduce, field: HirFunction) -> _Pair | None:
    match op:
        case Reduce(monoid="add", values=(Value(source=Binary(operator="mul", left=left, right=right)),), flags=flags) if left is right:
            difference = left.source
        case _:
            return None
    if "reassoc" not in flags or not isinstance(difference, Binary) or difference.operator != "sub":
        return None
    for element, less in ((difference.left, difference.right), (difference.right, difference.left)):
        for first in _along(field, op, element):
            if first.monoid == "add" and "reassoc" in first.flags and _is_of(less, first):
                return _Pair(first, op, less)
    return None


def _exponentials(op: Reduce, field: HirFunction) -> _Pair | None:
    match op:
        case Reduce(monoid="add", values=(Value(source=Unary(operator="exp", value=Value(source=Binary(operator="sub") as difference))),)):
            pass
        case _:
            return None
    for first in _along(field, op, difference.left):
        if "reassoc" in op.flags and first.monoid == "max" and first.results[0] is difference.right:
            return _Pair(first, op, difference.right)
    return None


def _along(field: HirFunction, op: Reduce, element: Value) -> list[Reduce]:
    """The reductions of the same elements along the same axes, all of which they vary along."""
    ops = [other for other in field.body.body if isinstance(other, Reduce) and other is not op and other.values == (element,)]
    whole = dtype_of(element) in TYPES and {name for name, _ in union_axes(element)}.issuperset(op.over)
    return [other for other in ops if set(other.over) == set(op.over)] if whole else []


def _is_of(value: Value, first: Reduce) -> bool:
    """Whether a value is the sum, or a multiple or a part of it by something that doesn't vary along its axes."""
    while value is not first.results[0]:
        if not isinstance(value.source, Binary) or value.source.operator not in ("mul", "div"):
            return False
        left, right = value.source.left, value.source.right
        if {name for name, _ in union_axes(value)}.intersection(first.over):
            return False
        value = right if value.source.operator == "mul" and _reaches(right, first) else left
    return True


def _reaches(value: Value, first: Reduce) -> bool:
    return value in first.results or (value.source is not None and any(_reaches(operand, first) for operand in value.source.operand_values))


class _Rebuilding(FieldCopy):
    """The field anew."""

    def __init__(self, field: HirFunction, pairs: dict[Reduce, _Pair]) -> None:
        super().__init__(field)
        self.pairs = pairs
        self.seconds = {pair.second: pair for pair in pairs.values()}
        self.further: dict[Reduce, list[Value]] = {}

    def run(self) -> HirFunction:
        self.axes()
        self.parameters()
        for op in self.field.body.body:
            if op in self.pairs:
                assert isinstance(op, Reduce)
                self.first(self.pairs[op])
            elif op in self.seconds:
                assert isinstance(op, Reduce)
                self.put(op.results[0], self.second(self.seconds[op]))
            else:
                self.copy(op)
        return self.finish()

    def first(self, pair: _Pair) -> None:
        """The reduction of triples or pairs, of which the first is what the first reduction gave."""
        b, element = self.body, self.values[pair.first.values[0]]
        one, zero = (b.const(number, dtype_of(element)) for number in (1.0, 0.0))
        source = pair.second.values[0].source
        approximate = ("afn",) if isinstance(source, Unary) and "afn" in source.flags else ()
        monoid, values = ("exponentials", (element, one)) if pair.first.monoid == "max" else ("moments", (element, zero, one))
        result, *self.further[pair.first] = b.reduce(monoid, *values, over=pair.first.over, flags=(*pair.second.flags, *approximate))
        self.put(pair.first.results[0], result)

    def second(self, pair: _Pair) -> Value:
        b, (result,) = self.body, pair.first.results
        total = self.values[result]
        if pair.first.monoid == "max":
            # what is left behind an infinite maximum is NaN somewhere
            return b.op("add", self.further[pair.first][0], b.sub(total, total))
        squares, count = self.further[pair.first]
        zero, one = (b.const(number, dtype_of(total)) for number in (0.0, 1.0))
        off = b.sub(b.op("div", total, b.op("max", count, one)), self.values[pair.less])
        return b.op("add", squares, b.select(b.op("lt", zero, count), b.mul(count, b.mul(off, off)), zero))


# ---- in tiles ----


def is_joined(target: object) -> bool:
    """Whether a reduction is one of triples or pairs."""
    return isinstance(target, Reduce) and target.monoid in JOINED_PASSES


def nothing_joined(placing: BlockTiles, target: Reduce, region: TileRegion) -> list[Value]:
    """What a thread begins with, for each row that it has."""
    axes = [axis for axis in placing.target_axes(target) if axis not in target.over]
    own = placing.tile_axes(sorted(axes, key=placing.table.order), region)
    dtypes = [dtype_of(value) for value in target.values]
    counts = target.monoid == "moments"  # all rows of a thread count alike
    numbers = zip(identity_of(target.monoid, dtypes), dtypes, (own, own, () if counts else own), strict=False)
    return [region.builder.const(number, Tile(dtype, axes)) for number, dtype, axes in numbers]


def tile_joined(placing: BlockTiles, target: Reduce, before: Sequence[Value], region: TileRegion) -> list[Value]:
    """What a thread has with its elements of this tile."""
    b = region.builder
    element = placing.value(target.values[0], region)
    over = [name for name, _ in placing.tile_axes(target.over, region)]
    inside = placing.mask(region, [axis for axis in target.over if axis in region.masks], None)
    zero = b.const(0.0, dtype_of(element))

    def kept(value: Value, outside: Value) -> Value:
        return value if inside is None else b.select(inside, value, outside)

    def total(value: Value, monoid: str = "add") -> Value:
        return b.reduce(monoid, value, over=over, flags=("reassoc",) if monoid == "add" else ())[0] if over else value

    if target.monoid == "exponentials":
        element = kept(element, b.const(float("-inf"), dtype_of(element)))
        maximum = b.op("max", before[0], total(element, "max"))
        base = _base(b, maximum)
        terms = total(_exponential(b, target, b.sub(element, base)))
        return [maximum, b.op("add", b.mul(before[1], _exponential(b, target, b.sub(before[0], base))), terms)]
    digits = placing.tile_axes(target.over, region)
    ones = b.const(1.0, Tile(dtype_of(element), digits))
    count = total(kept(ones, zero)) if inside is not None else b.const(float(prod(extent for _, extent in digits)), dtype_of(element))
    sum_ = total(kept(element, zero))
    off = b.sub(element, _mean(b, sum_, count))
    return joined(b, target, before, [sum_, total(kept(b.mul(off, off), zero)), count])


def joined(b: Builder, target: Reduce, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
    """Two halves made one, with the same bits whichever is the left one: threads exchange theirs."""
    if target.monoid == "exponentials":
        maximum = b.op("max", left[0], right[0])
        base = _base(b, maximum)
        sums = [b.mul(sum_, _exponential(b, target, b.sub(own, base))) for own, sum_ in (left, right)]
        return [maximum, b.op("add", *sums)]
    sum_, count = b.op("add", left[0], right[0]), b.op("add", left[2], right[2])
    mean = _mean(b, sum_, count)
    off = [b.sub(_mean(b, own, number), mean) for own, _, number in (left, right)]
    moved = [b.mul(half[2], b.mul(distance, distance)) for half, distance in zip((left, right), off, strict=True)]
    return [sum_, b.op("add", b.op("add", left[1], right[1]), b.op("add", *moved)), count]


def _mean(b: Builder, sum_: Value, count: Value) -> Value:
    one = b.const(1.0, dtype_of(count))
    flags = ("afn",) if dtype_of(count) == "f32" else ()
    return b.mul(sum_, b.op("div", one, b.op("max", count, one), flags=flags))


def _base(b: Builder, maximum: Value) -> Value:
    """What exponents are less by: nothing where all elements are minus infinity, whose exponentials are 0 then."""
    lowest = b.const(float("-inf"), dtype_of(maximum))
    return b.select(b.op("eq", maximum, lowest), b.const(0.0, dtype_of(maximum)), maximum)


def _exponential(b: Builder, target: Reduce, value: Value) -> Value:
    return b.op("exp", value, flags=tuple(flag for flag in target.flags if flag == "afn"))
