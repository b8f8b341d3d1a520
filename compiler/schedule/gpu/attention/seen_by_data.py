"""Which tiles of keys the rows of a tile may see, where data decide it: conditions that compare a whole number of the row with one of the
key, as masks of documents do. A warp looks at a tile's rows for the range of their numbers, then at all keys: a tile of keys in which none
compares with any number of that range is outside of what the rows see, and one in which all compare with all needs no condition. Of its
keys each lane has some neighbours, of which the range counts. Numbers in any order are right; sorted ones leave out the most."""

from collections.abc import Iterable, Sequence
from functools import reduce

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Compare, dtype_of, union_axes
from compiler.hir.gpu import Vote
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Value
from compiler.hir.types import DTYPES, is_float
from compiler.schedule.gpu.tiles.reduction import exchanged
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
    rows and those of its keys of a tile, which are neighbours."""

    def __init__(
        self, placing: Placing, compared: Sequence[Compared], lane: Affine, registers: tuple[str, str], row: str, along: str, terms: int
    ) -> None:
        self.placing, self.compared, self.lane, self.registers = placing, compared, lane, registers
        self.row, self.along, self.terms = row, along, terms

    def seen(self, rows: TileRegion, low: Value, high: Value) -> SeenTiles:
        """The tiles from `low` to `high` that rows see, whose places the region has."""
        b = rows.builder
        ranges = [tuple(self._of_rows(each.row, monoid, rows) for monoid in ("min", "max")) for each in self.compared]
        # the last keys stand for some that aren't there; where there are fewer than a lane reads, nothing is left out
        behind = b.sub(b.index(self.placing.field.axes[self.along]), b.const(self.terms // WORD, "index"))
        few = b.op("lt", behind, b.const(0, "index"))
        first, end = b.select(few, low, high), b.select(few, high, low)
        with b.loop("tiles", end.name, high.name, ABREAST, carried=[first, end, high, high]) as (body, loop):
            state = loop.carried
            numbers = [body.add(loop.variable, body.const(n, "index")) for n in range(ABREAST)]
            read = [self._of_tile(rows.inside(body, (self.along,)), number, behind) for number in numbers]
            for number, values in zip(numbers, read, strict=True):
                some, every = self._tests(body, values, ranges)
                state = _further(body, state, number, high, some, every)
            body.yield_(*state)
        return SeenTiles(*loop.results)

    def _of_tile(self, keys: TileRegion, number: Value, behind: Value) -> list[Value]:
        """The numbers of a lane's keys of a tile."""
        b = keys.builder
        first = b.op("min", b.index(Affine.of(number.name) * self.terms + self.lane * (self.terms // WORD)), behind)
        keys.forms[self.along] = Affine.of(first.name) + Affine.of(self.registers[1])
        return [self.placing.value(each.key, keys) for each in self.compared]

    def _tests(self, b: Builder, values: Sequence[Value], ranges: Sequence[tuple[Value, ...]]) -> tuple[Value, Value]:
        """Whether some key of a tile may compare with a number of the rows, and whether all compare with all."""
        some = every = None
        for each, key, (least, most) in zip(self.compared, values, ranges, strict=True):
            possible, certain = _conditions(b, each.operator, self._joined(b, "min", key), self._joined(b, "max", key), least, most)
            some, every = reduce(b.both, possible, some), reduce(b.both, certain, every)
        assert some is not None and every is not None
        return b.emit(Vote(operation="any", predicate=some)).result, b.emit(Vote(operation="all", predicate=every)).result

    def _of_rows(self, value: Value, monoid: str, rows: TileRegion) -> Value:
        """The least or the greatest number of the tile's rows, in all lanes."""
        b = rows.builder
        (nothing,) = identity_of(monoid, [dtype_of(value)])
        made = self._joined(b, monoid, self.placing.masked(self.placing.value(value, rows), nothing, [self.row], rows))
        for distance in (1, 2, 4, 8, 16):
            made = b.op(monoid, made, exchanged(b, made, distance))
        return made

    def _joined(self, b: Builder, monoid: str, value: Value) -> Value:
        """The least or the greatest of a lane's numbers."""
        own = tuple(axis for axis, _ in union_axes(value) if axis in self.registers)
        return b.reduce(monoid, value, over=own)[0] if own else value


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


def _conditions(b: Builder, operator: str, first: Value, last: Value, least: Value, most: Value) -> tuple[list[Value], list[Value]]:
    """What must hold for some number from the least to the most to compare with a key from the first to the last, and what for all of them
    to."""
    match operator:
        case "eq":
            certain = [b.op("eq", least, first), b.op("eq", most, last), b.op("eq", least, most)]
            return [b.op("le", least, last), b.op("ge", most, first)], certain
        case "lt" | "le":
            return [b.op(operator, least, last)], [b.op(operator, most, first)]
        case _:
            return [b.op(operator, most, first)], [b.op(operator, least, last)]
