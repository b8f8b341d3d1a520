"""Which tiles of keys the rows of a tile may see, where data decide it: conditions that compare a whole number of the row with one of the
key, as masks of documents do. A warp looks at a tile's rows for the range of their numbers, then at all keys: a tile of keys in which none
compares with any number of that range is outside of what the rows see, and one in which all compare with all needs no condition. Numbers
in any order are right; sorted ones leave out the most."""

from collections.abc import Iterable, Sequence
from functools import reduce

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Compare, dtype_of, union_axes
from compiler.hir.gpu import Vote
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Value
from compiler.hir.types import DTYPES, is_float
from compiler.schedule.gpu.combine import exchanged
from compiler.schedule.place import Placing
from compiler.schedule.region import TileRegion
from runtime.records import frozen

TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}
"""Comparisons with their sides exchanged."""
WORD = 32
"""Lanes of a warp, and bits of the numbers that it exchanges."""
ABREAST = 4
"""Tiles of keys whose numbers are on their way at a time."""


@frozen(eq=False)
class Compared:
    """A condition, as `row operator key`."""

    condition: Value
    operator: str
    row: Value
    key: Value


def compared_numbers(conditions: Iterable[Value], row: str, key: str) -> tuple[Compared, ...]:
    """Those of the conditions that are such comparisons."""
    return tuple(each for condition in conditions if (each := _compared(condition, row, key)) is not None)


def _compared(condition: Value, row: str, key: str) -> Compared | None:
    op = condition.source
    if not isinstance(op, Compare) or op.operator not in TURNED:
        return None
    if is_float(dtype_of(op.left)) or DTYPES.get(dtype_of(op.left), WORD + 1) > WORD:
        return None
    for operator, own, other in ((op.operator, op.left, op.right), (TURNED[op.operator], op.right, op.left)):
        sides = [{name for name, _ in union_axes(side)} for side in (own, other)]
        if key not in sides[0] and row not in sides[1] and key in sides[1]:
            return Compared(condition, operator, own, other)
    return None


@frozen(eq=False)
class SeenTiles:
    """Tiles of keys outside of which rows see none, from `first` to before `end`; from `whole` to before `whole_end` they see all."""

    first: Value
    end: Value
    whole: Value
    whole_end: Value


class TileSearch:
    """A warp's search of the tiles of `terms` keys. `lane`: the thread's number in the warp; `registers`: axes of registers, those of its
    rows and those of its keys of a tile."""

    def __init__(
        self, placing: Placing, compared: Sequence[Compared], lane: Affine, registers: tuple[str, str], row: str, along: str, terms: int
    ) -> None:
        self.placing, self.compared, self.lane, self.registers = placing, compared, lane, registers
        self.row, self.along, self.terms = row, along, terms

    def seen(self, rows: TileRegion, low: Value, high: Value) -> SeenTiles:
        """The tiles from `low` to `high` that rows see, whose places the region has."""
        b = rows.builder
        ranges = [tuple(self._of_rows(each.row, monoid, rows) for monoid in ("min", "max")) for each in self.compared]
        with b.loop("tiles", low.name, high.name, ABREAST, carried=[high, low, high, high]) as (body, loop):
            state = loop.carried
            numbers = [body.add(loop.variable, body.const(n, "index")) for n in range(ABREAST)]
            places = [self._of_tile(rows.inside(body, (self.along,)), number, high) for number in numbers]
            read = [[self.placing.value(each.key, keys) for each in self.compared] for keys in places]
            for number, keys, values in zip(numbers, places, read, strict=True):
                some, every = self._tests(keys, values, ranges)
                state = _further(body, state, number, high, some, every)
            body.yield_(*state)
        return SeenTiles(*loop.results)

    def _of_tile(self, keys: TileRegion, number: Value, high: Value) -> TileRegion:
        """The places of a tile's keys, those before the tile `high`."""
        b, along, terms = keys.builder, self.along, self.terms
        keys.forms[along] = Affine.of(number.name) * terms + self.lane + Affine.of(self.registers[1]) * WORD
        last = b.op("min", b.index(Affine.of(high.name) * terms), b.index(self.placing.field.axes[along]))
        keys.masks[along] = Affine.of(last.name)
        return keys

    def _tests(self, keys: TileRegion, values: Sequence[Value], ranges: Sequence[tuple[Value, ...]]) -> tuple[Value, Value]:
        """Whether some key of a tile compares with a number of the rows, and whether all compare with all."""
        b = keys.builder
        some = every = None
        for each, key, (least, most) in zip(self.compared, values, ranges, strict=True):
            possible, certain = _conditions(b, each.operator, key, least, most)
            some, every = reduce(b.both, possible, some), reduce(b.both, certain, every)
        assert some is not None and every is not None
        some, every = (self.placing.masked(test, beyond, [self.along], keys) for test, beyond in ((some, False), (every, True)))
        return self._of_keys(b, "or", "any", some), self._of_keys(b, "and", "all", every)

    def _of_rows(self, value: Value, monoid: str, rows: TileRegion) -> Value:
        """The least or the greatest number of the tile's rows, in all lanes."""
        b = rows.builder
        (nothing,) = identity_of(monoid, [dtype_of(value)])
        made = self.placing.masked(self.placing.value(value, rows), nothing, [self.row], rows)
        if self.registers[0] in {name for name, _ in union_axes(made)}:
            (made,) = b.reduce(monoid, made, over=(self.registers[0],))
        for distance in (1, 2, 4, 8, 16):
            made = b.op(monoid, made, exchanged(b, made, distance))
        return made

    def _of_keys(self, b: Builder, monoid: str, operation: str, value: Value) -> Value:
        if self.registers[1] in {name for name, _ in union_axes(value)}:
            (value,) = b.reduce(monoid, value, over=(self.registers[1],))
        return b.emit(Vote(operation=operation, predicate=value)).result


def _further(b: Builder, state: Sequence[Value], tile: Value, high: Value, some: Value, every: Value) -> list[Value]:
    """What is known of the tiles up to this one: the first that rows see and the end of these, and a stretch of those that they see all
    of."""
    first, end, whole, whole_end = state
    behind, full = b.add(tile, b.const(1, "index")), b.op("and", some, every)
    begins, goes_on = b.op("and", full, b.op("eq", whole, high)), b.op("and", full, b.op("eq", whole_end, tile))
    return [
        b.select(some, b.op("min", first, tile), first),
        b.select(some, behind, end),
        b.select(begins, tile, whole),
        b.select(b.op("or", begins, goes_on), behind, whole_end),
    ]


def _conditions(b: Builder, operator: str, key: Value, least: Value, most: Value) -> tuple[list[Value], list[Value]]:
    """What must hold for some number from the least to the most to compare with the key, and what for all of them to."""
    match operator:
        case "eq":
            return [b.op("le", least, key), b.op("ge", most, key)], [b.op("eq", least, key), b.op("eq", most, key)]
        case "lt" | "le":
            return [b.op(operator, least, key)], [b.op(operator, most, key)]
        case _:
            return [b.op(operator, most, key)], [b.op(operator, least, key)]
