"""Arg-reductions on the CPU. Each lane keeps the best of its elements and the number of the tile in which it came, by comparing and
blending, without branches. Where that element is, is computed once, after the last tile."""

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Cast, Const, Index, IsNan, Reduce, Select, dtype_of, union_axes
from compiler.hir.identity import LAST_INDEX, identity_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.types import Tile, bytes_of, is_float
from compiler.schedule.region import TileRegion
from compiler.schedule.table import AxisPlan
from compiler.schedule.tile_values import TileValues

BEATS, BEATEN = {"argmax": "gt", "argmin": "lt"}, {"argmax": "le", "argmin": "ge"}
"""How a number that beats the best compares with it, and how an element that doesn't."""

LARGE_TILE = 32
"""Elements of a tile from which 32 bits count the tiles along an axis: 2**36 elements."""

NOWHERE = {"i32": 2**31 - 1, "i64": LAST_INDEX}
"""Number of the tile of a best element where nothing has beaten the identity."""


def searches(op: Instruction) -> bool:
    """Whether a reduction finds the place of the first best element along one axis: of equal ones, the first that it comes to."""
    if not isinstance(op, Reduce) or op.monoid not in BEATEN or len(op.over) != 1 or len(op.values) != 2:
        return False
    place = op.values[1].source
    place = place.value.source if isinstance(place, Cast) else place
    return isinstance(place, Index) and place.of.coefficient(op.over[0]) > 0


def nothing_yet(placing: TileValues, target: Reduce, region: TileRegion) -> list[Value]:
    """The best elements before the first tile, and their tiles."""
    (axis,) = target.over
    axes = sorted(placing.axes(target.values), key=placing.table.order)
    value = dtype_of(target.values[0])
    counted = "i32" if placing.table[axis].tile >= LARGE_TILE and bytes_of(value) <= 4 else "i64"
    (lowest, _) = identity_of(target.monoid, [value, counted])
    digits = placing.tile_axes(axes, region)
    return [region.builder.const(number, Tile(dtype, digits)) for number, dtype in ((lowest, value), (NOWHERE[counted], counted))]


def better(placing: TileValues, target: Reduce, best: list[Value], region: TileRegion) -> list[Value]:
    """The best elements and their tiles after one tile more. Where one place of a whole tensor is sought, few tiles have an element that
    beats its best, and the others are only compared."""
    b, number = region.builder, _number_of(target)
    if number is None:
        value = placing.brought(target, region)[0]
        beats = b.op("not", b.op(BEATEN[target.monoid], value, best[0]))
    else:
        value = placing.brought(target, region, [number, target.values[1]])[0]
        beats = b.op(BEATS[target.monoid], value, best[0])
    is_nan_best = number is None and is_float(dtype_of(value))
    lanes = [name for name, _ in union_axes(value)]
    if union_axes(target.result) or not lanes:
        return _blended(placing, target, value, beats, best, is_nan_best, region, b)
    (some,) = b.reduce("or", beats, over=lanes)
    with b.branch(some, [old.type for old in best]) as (then, otherwise, chosen):
        chosen.likely = False
        then.yield_(*_blended(placing, target, value, beats, best, is_nan_best, region, then))
        otherwise.yield_(*best)
    return chosen.results


def _number_of(target: Reduce) -> Value | None:
    """The elements of a search that NaN takes no part in."""
    match target.values[0].source:
        case Select(condition=Value(source=IsNan(value=element)), then=Value(source=Const(value=least)), otherwise=other):
            return element if other is element and least == identity_of(target.monoid, [dtype_of(other), "i64"])[0] else None
        case _:
            return None


def _blended(
    placing: TileValues, target: Reduce, value: Value, beats: Value, best: list[Value], is_nan_best: bool, region: TileRegion, b: Builder
) -> list[Value]:
    if is_nan_best:  # but one that came before stays
        beats = b.op("and", beats, b.op("eq", best[0], best[0]))
    (axis,) = target.over
    number = b.cast(b.index(region.starts[axis].floordiv(placing.table[axis].tile)), dtype_of(best[1]))
    return [b.select(beats, after, before) for after, before in zip((value, number), best, strict=True)]


def located(placing: TileValues, target: Reduce, best: list[Value], region: TileRegion) -> list[Value]:
    """The first best of all lanes, and its place. If none has beaten the identity, all are equal to it, and the first is meant."""
    b, (axis,) = region.builder, target.over
    plan = placing.table[axis]
    dtype = dtype_of(target.values[1])
    ended = region.inside(b, (axis,))
    number = b.cast(best[1], "index")
    ended.forms[axis] = Affine.of(number.name) * plan.tile + plan.within()
    missing = b.op("eq", best[1], b.const(NOWHERE[dtype_of(best[1])], best[1].type))
    place = b.select(missing, b.const(LAST_INDEX, dtype), placing.value(target.values[1], ended))
    over = [name for name, _ in placing.tile_axes(target.over, region)]
    value, place = _first_of(target, best[0], place, over, b) if over else (best[0], place)
    first = region.inside(b, (axis,))
    first.forms[axis], first.narrow[axis] = Affine(), AxisPlan(axis)
    nowhere = b.op("eq", place, b.const(LAST_INDEX, dtype))
    return [value, b.select(nowhere, placing.value(target.values[1], first), place)]


def _first_of(target: Reduce, values: Value, places: Value, over: list[str], b: Builder) -> tuple[Value, Value]:
    """The best of all lanes: its value, then the least of the places where it is. Zeros of both signs are equal: there pairs tell."""
    (top,) = b.reduce(target.monoid.removeprefix("arg"), values, over=over)
    equal = b.op("eq", values, top)
    if not is_float(dtype_of(values)):
        (place,) = b.reduce("min", b.select(equal, places, b.const(LAST_INDEX, dtype_of(places))), over=over)
        return top, place
    is_zero, rest = b.op("eq", top, b.const(0.0, dtype_of(top))), union_axes(top)
    some_zero = b.reduce("or", is_zero, over=[name for name, _ in rest])[0] if rest else is_zero
    with b.branch(some_zero, [Tile(dtype_of(value), rest) for value in (values, places)]) as (then, otherwise, chosen):
        chosen.likely = False
        then.yield_(*then.reduce(target.monoid, values, places, over=over))
        equal = otherwise.op("or", equal, otherwise.op("ne", values, values))
        here = otherwise.select(equal, places, otherwise.const(LAST_INDEX, dtype_of(places)))
        otherwise.yield_(top, *otherwise.reduce("min", here, over=over))
    value, place = chosen.results
    return value, place
