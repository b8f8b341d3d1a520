"""Results along an axis in whole vectors: the last tile reaches back over elements that the one before it has stored, which are computed
twice; only an axis that fills no vector is under a mask. Elements at the edges, where conditions that are bounds of indices may fail, are
stored one by one."""

from collections.abc import Iterable, Sequence, Set

from compiler.hir.affine import Affine
from compiler.hir.core import Contract, Reduce, Scan, Select
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.schedule.field import elements_apart
from compiler.schedule.interior import ZoneBounds, all_hold, bounds_of
from compiler.schedule.pieces import LEAST_SQUARE, Piece, single
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import AxisPlan
from compiler.schedule.tile_values import TileValues
from runtime.records import evolve

BLOCK = 512
"""Elements along the vectors of squares that are turned: so many lines of the cache are begun before others come."""

LEAST_BITS = 8
"""Of elements under a mask, where masks are as fast as whole vectors."""


def may_store_twice(field: HirFunction, group: Iterable[Target]) -> bool:
    """Whether it makes no difference that these targets are computed once more: they are stored to memory that nothing reads."""
    memories = [op.mem for op in field.body.body if isinstance(op, Load)]
    for target in group:
        if not isinstance(target, Store):
            return False
        if target.mem.source is None and (target.mem in memories or not mem_of(target.mem).noalias):
            return False
    return True


def store_in_vectors(
    placing: TileValues, plan: AxisPlan, group: Sequence[Target], region: TileRegion, bounds: ZoneBounds, has_masks: bool
) -> None:
    """The loops over an axis: tiles where all conditions hold, vectors behind them and where only those hold that vary along it, and
    elements elsewhere, or a vector under a mask where an axis without conditions is less than one. `bounds`: of its elements. `has_masks`:
    lanes of a vector may have conditions of their own."""
    b, axis = region.builder, plan.axis
    extent = b.index(placing.field.axes[axis])
    low, high = bounds.elements(extent) if bounds.conditions else (b.const(0, "index"), extent)
    if axis in region.spans:
        low, high = region.spans[axis]
        extent = b.sub(high, low)
    inner, within = bounds.inner, all_hold(bounds.outer, b) if bounds.outer else None
    if within is not None and bounds.mixed and not has_masks:
        high, inner, within = b.select(within, high, low), bounds.conditions, None
    count = b.sub(high, low)
    # too few for a vector are all edge
    behind = b.select(b.op("ge", count, b.const(plan.lanes, "index")), high, low)
    count, none = b.sub(behind, low), b.const(0, "index")
    whole = b.op("ge", count, b.const(plan.tile, "index"))
    if within is not None:
        whole = b.op("and", whole, within)
    tiles = b.select(whole, b.index(Affine.of(count.name).floordiv(plan.tile)), none)
    vectors, vector, done = Affine.of(count.name).floordiv(plan.lanes), single(plan), Affine()
    if plan.registers > 1 or bounds.conditions != inner:
        done = Affine.of(tiles.name) * plan.registers
        with b.loop(f"{axis}0", 0, Affine.of(tiles.name), **placing.marks(plan)) as (body, loop):
            start = body.index(Affine.of(low.name) + Affine.of(loop.variable.name) * plan.tile)
            _enter(placing, plan, start, group, region.inside(body, (axis,)), bounds.conditions)
    with b.loop(f"{axis}0", done, vectors, **({} if plan.registers > 1 else placing.marks(plan))) as (body, loop):
        start = body.index(Affine.of(low.name) + Affine.of(loop.variable.name) * plan.lanes)
        _enter(placing, vector, start, group, region.inside(body, (axis,)), inner)
    last = b.sub(behind, b.const(plan.lanes, "index"))
    once = b.select(b.op("ne", b.index(vectors * plan.lanes), count), b.const(1, "index"), none)
    with b.loop(f"{axis}0", Affine.of(last.name), Affine.of(b.add(last, once).name)) as (body, loop):
        _enter(placing, vector, loop.variable, group, region.inside(body, (axis,)), inner)
    edges = b.sub(extent, count)
    # masked stores of machines that have none for bytes take longer than a few elements
    masked = has_masks and placing.table.masked_bits == LEAST_BITS and not bounds.conditions and goes_on_along(placing.field, axis)
    if masked:
        # an axis of fewer elements than a vector is one under a mask
        edges = b.op("min", edges, b.const(1, "index"))
    with b.loop(f"{axis}0", 0, Affine.of(edges.name), nounroll=True) as (body, loop):
        number, edge = loop.variable, region.inside(body, (axis,))
        if masked:
            edge.masks[axis] = placing.field.axes[axis]
            _enter(placing, vector, number, group, edge, set())
        else:
            start = body.add(number, count)
            start = body.select(body.op("lt", number, low), number, start) if bounds.conditions else start
            _enter(placing, AxisPlan(axis, plan.place), start, group, edge, set())


def goes_on_along(field: HirFunction, axis: str) -> bool:
    """Whether what varies along an axis lies side by side in memory, wherever it is read or stored."""
    accesses = [op for op in field.body.body if isinstance(op, Load | Store) and any(form.coefficient(axis) for form in op.index)]
    return all(elements_apart(op, axis) == 1 for op in accesses)


def _enter(placing: TileValues, plan: AxisPlan, start: Value, group: Sequence[Target], region: TileRegion, certain: Set[Value]) -> None:
    region.starts[plan.axis] = Affine.of(start.name)
    region.forms[plan.axis] = region.starts[plan.axis] + plan.within()
    region.narrow[plan.axis] = plan
    region.certain |= certain
    placing.produce(group, region, {})


def blocks_of_squares(placing: TileValues, pieces: Sequence[Piece], group: Sequence[Target], region: TileRegion) -> list[Piece]:
    """Where squares are turned: blocks of the axis of vectors, around the tiles of rows. Squares beside each other then fill the rest of
    the lines that they have in common while these are in the cache."""
    plans = [plan for plan in placing.table.plans if plan.lanes > 1 and plan.place != "thread"]
    rows = any(piece.plan.lanes == 1 and piece.plan.registers >= LEAST_SQUARE for piece in pieces)
    if not rows or len(plans) != 1 or not may_store_twice(placing.field, group):
        return []
    for op in placing.field.body.body:
        where = op.condition if isinstance(op, Select) else op.where if isinstance(op, Load | Store) else None
        if isinstance(op, Reduce | Contract | Scan) or (where is not None and bounds_of(where) is not None):
            return []
    b = region.builder
    count = b.op("max", b.index(placing.field.axes[plans[0].axis].floordiv(BLOCK)), b.const(1, "index"))
    return [Piece(evolve(plans[0], registers=BLOCK, lanes=1), Affine(), Affine.of(count.name), False, spans=True)]


def enter_span(placing: TileValues, piece: Piece, number: Value, region: TileRegion) -> None:
    """The elements of a block; the last goes on to the end of its axis."""
    b, axis = region.builder, piece.plan.axis
    low, last = b.index(Affine.of(number.name) * piece.plan.tile), b.op("eq", number, b.index(piece.count - 1))
    region.spans[axis] = low, b.select(last, b.index(placing.field.axes[axis]), b.index(Affine.of(low.name) + piece.plan.tile))
