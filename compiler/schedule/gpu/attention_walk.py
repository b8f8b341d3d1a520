"""In which order the blocks of attention take tiles of queries, and which tiles of keys each of them walks along."""

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.instruction import Value
from compiler.schedule.gpu.attention_field import AttentionField
from compiler.schedule.gpu.block_tiles import BlockTiles
from compiler.schedule.gpu.indices import small
from compiler.schedule.gpu.visible import Visible
from compiler.schedule.region import TileRegion
from runtime.records import evolve, frozen

HEADS = 16
"""Matrices whose tiles are taken together where tiles differ in work: the longest of all of them first, while what they read stays in
the L2 cache."""


@frozen(eq=False)
class Walk:
    """The turns of a block: tiles of keys `last - 1` downwards, `turns` of them. The first is masked, and those before `open` and from
    `closed` on."""

    last: Value
    turns: Value
    open: Value
    closed: Value


def placed(visible: Visible, b: Builder, number: Value, heads: Value, tiles: Value) -> tuple[Value, Value]:
    """A block's matrix and its tile: matrix by matrix where all tiles are the same work, else the longest first."""
    above, below = ([bound.across for bound in some if bound.across] for some in (visible.upper, visible.lower))
    if bool(above) == bool(below):
        return small(b, "div", number, tiles), small(b, "rem", number, tiles)
    several = b.mul(tiles, b.const(HEADS, "index"))
    first = b.mul(small(b, "div", number, several), b.const(HEADS, "index"))
    within = small(b, "rem", number, several)
    heads_here = b.op("min", b.sub(heads, first), b.const(HEADS, "index"))
    tile = small(b, "div", within, heads_here)
    grows = any(across > 0 for across in above) or any(across > 0 for across in below)
    return b.add(first, small(b, "rem", within, heads_here)), b.sub(b.sub(tiles, b.const(1, "index")), tile) if grows else tile


def walk_of(placing: BlockTiles, attention: AttentionField, region: TileRegion) -> Walk:
    """The turns that this block's rows need."""
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
    turns = b.op("max", b.sub(high, low), none)
    if not visible.exact:
        return Walk(high, turns, turns, turns)
    opens = unit if some <= 1 else b.op("max", b.op("min", b.sub(high, below), turns), unit)
    closes = turns if not visible.lower else b.op("max", b.op("min", b.sub(high, above), turns), opens)
    return Walk(high, turns, opens, closes)


def shared_walk(walk: Walk, part: Value, parts: int, b: Builder) -> Walk:
    """The turns of one of the blocks that share a walk: as many one behind the other for each."""
    share = b.index(Affine.of(walk.turns.name).ceildiv(parts))
    before = b.mul(part, share)
    none = b.const(0, "index")

    def here(turn: Value) -> Value:
        return b.op("max", b.op("min", b.sub(turn, before), share), none)

    opens = b.op("max", here(walk.open), b.const(1, "index"))
    return Walk(b.sub(walk.last, before), here(walk.turns), opens, b.op("max", here(walk.closed), opens))
