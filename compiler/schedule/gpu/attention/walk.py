"""Which tile of queries a block of attention has, in which order blocks take them, and which tiles of keys each of them walks along. Heads
that share keys and values may be rows beside each other."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.schedule.gpu.attention.field import WalkedField
from compiler.schedule.gpu.attention.seen_by_data import SeenTiles
from compiler.schedule.gpu.indices import small, small_digits
from compiler.schedule.gpu.products.boxed_operands import divides
from compiler.schedule.place import Placing
from compiler.schedule.region import TileRegion
from runtime.records import evolve, frozen

HEADS = 16
"""Matrices whose tiles are taken together where tiles differ in work: the longest of all of them first, while what they read stays in
the L2 cache."""


class QueryTiles:
    """`batch`: the axes of the matrices, each of which is attended by itself."""

    def __init__(self, field: HirFunction, attention: WalkedField, batch: Sequence[str], b: Builder) -> None:
        self.field, self.attention, self.query, self.packed = field, attention, attention.query.axis, attention.packed
        self.batch = batch
        self.counts = [b.count(self.extent(axis)) for axis in self.batch]
        rows = b.count(field.axes[self.query])
        self.together: Value | None = None
        """Heads beside each other among the rows."""
        if self.packed is not None:
            known = Affine.of(self.packed.together) if self.packed.together else field.axes[self.packed.axis]
            self.together = b.op("max", b.index(known), b.const(1, "index"))
            rows = b.mul(rows, self.together)
        self.tiles = b.index(Affine.of(rows.name).ceildiv(attention.rows))
        """Of a matrix."""
        self.heads = b.product([b.const(1, "index"), *self.counts])
        self.total = b.mul(self.heads, self.tiles)

    def heads_of(self, axis: str) -> int:
        """Heads of a block along a batch's axis; of one that is among the rows as a whole, its one number is 0."""
        return self.packed.together or 0 if self.packed is not None and self.packed.axis == axis else 1

    def extent(self, axis: str) -> Affine:
        """Blocks along a batch's axis."""
        heads = self.heads_of(axis)
        return self.field.axes[axis].ceildiv(heads) if heads else Affine.of(1)

    def placed(self, b: Builder, number: Value) -> tuple[Value, Value]:
        """The matrix and the tile of this number in the order in which blocks take them: matrix by matrix where all tiles are the same
        work, else the longest first; of windows, those that the begin or the end of the keys cuts come last."""
        heads, tiles = self.heads, self.tiles
        across = [bound.across for bound in self.attention.visible.bounds if bound.across]
        if not across:
            return small(b, "div", number, tiles), small(b, "rem", number, tiles)
        several = b.mul(tiles, b.const(HEADS, "index"))
        first = b.mul(small(b, "div", number, several), b.const(HEADS, "index"))
        within = small(b, "rem", number, several)
        heads_here = b.op("min", b.sub(heads, first), b.const(HEADS, "index"))
        tile = small(b, "div", within, heads_here)
        longest = b.sub(b.sub(tiles, b.const(1, "index")), tile) if max(across) > 0 else tile
        return b.add(first, small(b, "rem", within, heads_here)), longest

    def enter(self, head: Value, tile: Value, region: TileRegion) -> list[Affine]:
        """The places of a matrix and a tile of it; the numbers of the matrix."""
        b = region.builder
        numbers = [Affine.of(digit.name) for digit in small_digits(b, head, self.counts)[1:]]
        for axis, number in zip(self.batch, numbers, strict=True):
            region.forms[axis] = region.starts[axis] = number * self.heads_of(axis)
        region.starts[self.query] = Affine.of(tile.name) * self.attention.rows
        region.starts[self.attention.value.axis] = Affine()
        return numbers

    def numbered(self, numbers: Sequence[Affine], tile: Value, b: Builder) -> tuple[list[Affine], list[Affine]]:
        """The number of a tile among all, and how many there are along each dim of that number."""
        extents, queries = [*map(self.extent, self.batch)], self.field.axes[self.query]
        if self.packed is None or self.packed.together is not None:
            heads = 1 if self.packed is None else self.packed.together or 1
            return [*numbers, Affine.of(tile.name)], [*extents, (queries * heads).ceildiv(self.attention.rows)]
        assert self.together is not None
        own = [Affine.of(small(b, operator, tile, self.together).name) for operator in ("div", "rem")]
        return [*numbers, *own], [*extents, queries, self.field.axes[self.packed.axis]]

    def place_row(self, row: Affine, region: TileRegion) -> None:
        """The places of a row of the block: its query, and its head where heads lie beside each other."""
        b, query, packed = region.builder, self.query, self.packed
        number = region.starts[query] + row
        if packed is None or self.together is None:
            region.forms[query] = number
            if not divides(self.attention.rows, self.field.axes[query]):
                region.masks[query] = self.field.axes[query]
            return
        whole = b.index(number)
        region.forms[query] = Affine.of(small(b, "div", whole, self.together).name)
        region.forms[packed.axis] = region.starts[packed.axis] + Affine.of(small(b, "rem", whole, self.together).name)
        region.masks[query] = self.field.axes[query]
        if packed.together is not None and not divides(packed.together, self.field.axes[packed.axis]):
            region.masks[packed.axis] = self.field.axes[packed.axis]


@frozen(eq=False)
class Walk:
    """The turns of a block: tiles of keys `last - 1` downwards, `turns` of them. Bounds above hide keys of the first and of those before
    `open` at most, bounds below keys of the first, of those before `open` and from `closed` on."""

    last: Value
    turns: Value
    open: Value
    closed: Value
    begun: Value
    """Turns of the block before."""


def walk_of(
    placing: Placing, attention: WalkedField, region: TileRegion, begun: Value | None = None, seen: SeenTiles | None = None
) -> Walk:
    """The turns that this block's rows need; `seen`: what data say of them."""
    b, terms = region.builder, attention.terms
    visible, extent = attention.visible, placing.field.axes[attention.along]
    first = region.starts[attention.query.axis]
    last = first + (attention.rows - 1)
    unit, none = b.const(1, "index"), b.const(0, "index")
    high, below = b.index(extent.ceildiv(terms)), b.index(extent.floordiv(terms))
    low = above = none
    some = 1
    for bound in visible.bounds:
        bound = evolve(bound, rest=placing.form(bound.rest, region))
        reach, whole = bound.some(first, last), bound.every(first, last)
        if bound.above:
            reach, whole = reach.ceildiv(terms), whole.floordiv(terms)
            high, below = b.op("min", high, b.index(reach)), b.op("min", below, b.index(whole))
            cut = (reach - whole).value
            some = max(some, cut) if cut is not None else terms
        else:
            low = b.op("max", low, b.index(reach.floordiv(terms)))
            above = b.op("max", above, b.index(whole.ceildiv(terms)))
    if seen is not None:
        high, low = b.op("min", high, seen.end), b.op("max", low, seen.first)
        below, above, some = b.op("min", below, seen.whole_end), b.op("max", above, seen.whole), terms
    turns = b.op("max", b.sub(high, low), none)
    opens = unit if some <= 1 else b.op("max", b.op("min", b.sub(high, below), turns), unit)
    closes = turns if not visible.lower and seen is None else b.op("max", b.op("min", b.sub(high, above), turns), opens)
    return Walk(high, turns, opens, closes, none if begun is None else begun)


def shared_walk(walk: Walk, part: Value, parts: int, b: Builder) -> Walk:
    """The turns of one of the blocks that share a walk: as many one behind the other for each."""
    share = b.index(Affine.of(walk.turns.name).ceildiv(parts))
    before = b.mul(part, share)
    none = b.const(0, "index")

    def here(turn: Value) -> Value:
        return b.op("max", b.op("min", b.sub(turn, before), share), none)

    opens = b.op("max", here(walk.open), b.const(1, "index"))
    return Walk(b.sub(walk.last, before), here(walk.turns), opens, b.op("max", here(walk.closed), opens), walk.begun)
