"""The place of the best element along a loop. The index of an element is its turn of the loop and where in the tile it stands, and only the
turn must be remembered: 32 bits beside each register's best value, taken over where that is beaten. The index itself is put together
behind the loop."""

from compiler.hir.affine import Affine
from compiler.hir.core import Cast, Contract, Index, Reduce, dtype_of
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Value
from compiler.hir.types import Tile, is_float
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from compiler.schedule.region import TileRegion


def counts_turns(placing: BlockTiles, target: Reduce | Contract) -> bool:
    """Whether a target is the place of the best along one loop, the index growing along it: of equal ones the first is the lowest."""
    if not isinstance(target, Reduce) or target.monoid not in ("argmin", "argmax") or len(target.values) != 2:
        return False
    index = _index(target)
    if len(target.over) != 1 or placing.once.intersection(target.over) or index is None:
        return False
    return index.of.coefficient(target.over[0]) > 0 and set(index.of.names) <= placing.field.axes.keys()


def nothing_found(placing: BlockTiles, target: Reduce, region: TileRegion) -> list[Value]:
    """The lowest value, of turn 0: where all values are the lowest, that is the first."""
    dtype = dtype_of(target.values[0])
    axes = placing.tile_axes(sorted(placing.axes(target.values), key=placing.table.order), region)
    number = identity_of(target.monoid, [dtype, "i64"])[0]
    return [region.builder.const(number, Tile(dtype, axes)), region.builder.const(0, Tile("i32", axes))]


def best_so_far(placing: BlockTiles, target: Reduce, before: list[Value], region: TileRegion) -> list[Value]:
    """The better of what each register had before, and of the loop's turn. NaN is better than all numbers, and than a later NaN."""
    b, (best, turn) = region.builder, before
    value = placing.brought(target, region)[0]
    better = b.op("not", b.op("le" if target.monoid == "argmax" else "ge", value, best))
    if is_float(dtype_of(best)):
        better = b.op("and", better, b.op("not", b.isnan(best)))
    now = b.cast(b.index(placing.turns[target.over[0]]), "i32")
    return [b.select(better, value, best), b.select(better, now, turn)]


def indexed(placing: BlockTiles, target: Reduce, pair: list[Value], region: TileRegion) -> list[Value]:
    """The best values with their indices."""
    b, index = region.builder, _index(target)
    assert index is not None
    best, turn = pair
    (axis,) = target.over
    plan = placing.table[axis]
    placed = region.inside(b, ())
    placing.enter(plan, Affine.of(b.cast(turn, "index").name), placed)
    at = b.index(placing.form(index.of, placed))
    return [best, b.cast(at, dtype_of(target.values[1]))]


def _index(target: Reduce) -> Index | None:
    source = target.values[1].source
    while isinstance(source, Cast):
        source = source.value.source
    return source if isinstance(source, Index) else None
