"""Loops that threads share although their turns hang together: reductions and running values. They are cut in chunks, each with a result
of its own; these are combined in order. The chunks depend on the extent alone, so that the bits don't depend on the number of threads."""

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Contract, Reduce, dtype_of
from compiler.hir.instruction import Value
from compiler.hir.types import Mem, Tile, is_float
from compiler.schedule import running
from compiler.schedule.region import Accumulators, TileLoop, TileRegion, by_target
from compiler.schedule.table import NARROW
from compiler.schedule.tile_values import TileValues
from runtime.records import evolve

CHUNKS = 64
"""Of a reduction: more than any machine's cores share evenly, few enough to combine at once."""

STREAMS = 4
"""Of a chunk: processors fetch ahead of some, and few have more than that in flight."""

SCAN_CHUNKS = 64
"""Of a scan. Twice the threads meet: a long scan is read twice, but no thread waits for another in between."""

LEAST_TILES = 16
"""Tiles of a scan's chunk: fewer aren't worth a chunk of their own."""


def chunked_loop(placing: TileValues, loop: TileLoop, region: TileRegion, result: Accumulators) -> None:
    """All whole tiles of reductions. A chunk of one axis in vectors is read as several streams side by side: processors fetch ahead of
    each."""
    b, carrying = region.builder, loop.carrying
    tiles = b.index(loop.high, "total")
    streams = 1 if any(placing.target_axes(target) != {loop.plan.axis} or placing.searched(target) for target in carrying) else STREAMS
    if loop.plan.lanes > 1 and loop.plan.registers == streams * NARROW:
        region.narrow[loop.plan.axis] = loop.plan.narrowed()
        result.update({t: placing.identity(t, region) for t in carrying if isinstance(t, Reduce | Contract)})
    else:
        streams = 1
    before = [value for target in carrying for value in result[target]]
    buffers = [b.alloc(Mem(dtype_of(value), (CHUNKS, *_extents(value)), align=64), "partial") for value in before]
    with b.loop("chunk", 0, CHUNKS, place="thread") as (body, chunks):
        inner = region.inside(body, ())
        own: Accumulators = {t: placing.identity(t, inner) for t in carrying if isinstance(t, Reduce | Contract)}
        # few tiles lie in chunks all over: threads take neighbouring ones
        ends = body.mul(chunks.variable, tiles), body.mul(body.add(chunks.variable, body.const(1, "index")), tiles)
        first, last = (body.index(Affine.of(end.name).floordiv(CHUNKS)) for end in ends)
        if streams == 1:
            placing.one_loop(evolve(loop, low=Affine.of(first.name), high=Affine.of(last.name)), inner, own)
        else:
            own = _in_streams(placing, loop, first, body.sub(last, first), inner, own)
        for buffer, value in zip(buffers, [value for target in carrying for value in own[target]], strict=True):
            body.store(buffer, value, [chunks.variable.name, *_axis_names(value)])
    with b.loop("chunk", 0, CHUNKS, carried=before) as (body, chunks):
        left, _ = by_target(chunks.carried, carrying, result)
        partial = [body.load(buffer, [chunks.variable.name, *_axis_names(value)]) for buffer, value in zip(buffers, before, strict=True)]
        right, _ = by_target(partial, carrying, result)
        body.yield_(*[value for target in carrying for value in placing.combined(target, left[target], right[target], body)])
    result.update(by_target(chunks.results, carrying, result)[0])


def _in_streams(placing: TileValues, loop: TileLoop, first: Value, count: Value, region: TileRegion, nothing: Accumulators) -> Accumulators:
    """The reductions of so many tiles from the first on, of which each stream has an equal share."""
    b, plan, values = region.builder, loop.plan.narrowed(), [value for target in loop.carrying for value in nothing[target]]
    starts = [Affine.of(first.name) * STREAMS + Affine.of(b.mul(count, b.const(number, "index")).name) for number in range(STREAMS)]
    with b.loop(f"{plan.axis}0", 0, count.name, carried=values * STREAMS) as (body, op):
        rest, after = list(op.carried), list[Value]()
        for start in starts:
            inner = region.inside(body, (plan.axis,))
            placing.enter(plan, start + op.variable.name, inner)
            own, rest = by_target(rest, loop.carrying, nothing)
            taken = placing.produce(loop.group, inner, own)
            after += [value for target in loop.carrying for value in taken[target]]
        body.yield_(*after)
    own, rest = by_target(op.results, loop.carrying, nothing)
    while rest:
        other, rest = by_target(rest, loop.carrying, nothing)
        own = {target: placing.combined(target, own[target], other[target], b) for target in loop.carrying}
    return own


def chunked_scans(placing: TileValues, loop: TileLoop, region: TileRegion) -> list[Value]:
    """All whole tiles of an axis, when the scan is alone with it: the totals of chunks, the running totals of these, then the chunks
    themselves. Gives the running values behind the last."""
    b, scans = region.builder, loop.scans
    tiles = b.index(loop.high, "tiles")
    share = b.op("max", b.index(loop.high.ceildiv(SCAN_CHUNKS)), b.index(LEAST_TILES), name="share")
    buffers = [b.alloc(Mem(dtype_of(scan.value), (SCAN_CHUNKS,), align=64), "totals") for scan in scans]
    with b.loop("chunk", 0, SCAN_CHUNKS, place="thread") as (body, chunks):
        inner = region.inside(body, ())
        sums = [Reduce(monoid=scan.monoid, values=(scan.value,), over=scan.over, flags=scan.flags) for scan in scans]
        totals: Accumulators = {sum: placing.identity(sum, inner) for sum in sums}
        own = _of_chunk(loop, body, chunks.variable, share, tiles)
        placing.one_loop(evolve(own, group=sums, carrying=sums, scans=(), before=()), inner, totals)
        for sum, buffer in zip(sums, buffers, strict=True):
            (total,) = placing.combine_digits(sum, totals[sum], inner)
            body.store(buffer, total, [chunks.variable.name])
    with b.loop("chunk", 0, SCAN_CHUNKS, carried=running.start(placing, scans, region)) as (body, chunks):
        after = []
        for scan, buffer, before in zip(scans, buffers, chunks.carried, strict=True):
            total = body.load(buffer, [chunks.variable.name])
            body.store(buffer, before, [chunks.variable.name])
            after.append(body.op(scan.monoid, before, total, flags=scan.flags if is_float(dtype_of(before)) else ()))
        body.yield_(*after)
    behind = chunks.results
    with b.loop("chunk", 0, SCAN_CHUNKS, place="thread") as (body, chunks):
        own = _of_chunk(loop, body, chunks.variable, share, tiles)
        lead = [body.load(buffer, [chunks.variable.name]) for buffer in buffers]
        placing.one_loop(evolve(own, before=lead), region.inside(body, ()), {})
    return behind


def _of_chunk(loop: TileLoop, body: Builder, chunk: Value, share: Value, tiles: Value) -> TileLoop:
    """The loop over the tiles of a chunk."""
    first = body.op("min", body.op("mul", chunk, share), tiles, name="first")
    last = body.op("min", body.add(first, share), tiles)
    return evolve(loop, low=Affine.of(first.name), high=Affine.of(last.name))


def _extents(value: Value) -> tuple[Affine, ...]:
    assert isinstance(value.type, Tile)
    return tuple(extent for _, extent in value.type.axes)


def _axis_names(value: Value) -> tuple[str, ...]:
    assert isinstance(value.type, Tile)
    return value.type.axis_names
