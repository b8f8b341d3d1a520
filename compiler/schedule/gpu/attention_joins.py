"""Sums of attention over parts of the keys, joined: each part has the maximum of its own scores, which its sums are less by. Rescaled to
the largest of the maxima they are added up in the order of the parts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import SharedAlloc, SyncThreads
from compiler.hir.instruction import Value
from compiler.hir.types import Mem, Space
from compiler.schedule.gpu.attention_weights import AttendingBlock
from compiler.schedule.gpu.fragment_attention import FragmentAttention
from compiler.schedule.gpu.last_block import BlockPart, comes_last
from compiler.schedule.region import TileRegion

TOGETHER = 4
"""Parts whose sums are read at a time."""
GAP = 8
"""Numbers behind a row of sums in shared memory, so that rows begin in different banks."""


def joined_by_warps(
    block: AttendingBlock, attention: FragmentAttention, b: Builder, row: Affine, team: Affine, totals: Sequence[Value], output: Value
) -> tuple[list[Value], Value, Affine]:
    """The sums of the warps that share a tile's keys, through shared memory: each has then all of some features, from the first that is
    given. `row`: that of a lane; `team`: the warp's number among those that share."""
    rows, width, each = attention.rows, attention.width, attention.width // attention.across
    sums = b.emit(SharedAlloc(type=Mem("f32", (attention.across, rows, width + GAP), space=Space.SHARED, align=16)), "sums").result
    few = b.emit(SharedAlloc(type=Mem("f32", (attention.across, len(totals), rows), space=Space.SHARED, align=16)), "totals").result
    pair, feature = block.features
    b.store(sums, output, [team, row, block.across + Affine.of(feature) * 8 + Affine.of(pair)])
    for number, total in enumerate(totals):
        b.store(few, total, [team, Affine.of(number), row])
    b.emit(SyncThreads())
    own = block.placing.out.axis("feature", each // 8)
    first = b.named(team * each)
    sum: list[Value] = []
    for other in range(attention.across):
        warp = Affine.of(other)
        there = [b.load(few, [warp, Affine.of(number), row]) for number in range(len(totals))]
        there.append(b.load(sums, [warp, row, first + block.across + Affine.of(own) * 8 + Affine.of(pair)]))
        sum = joined(block, b, sum, there) if sum else there
    block.features = (pair, own)
    return sum[:-1], sum[-1], first


def joined(block: AttendingBlock, b: Builder, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
    """Two parts as one: maximum, sums of weights, sums of values."""
    most = b.op("max", left[0], right[0])
    base = block.based(b, most)
    scaled = block.attention.rule.start == -inf
    bases = [b.mul(side[0], block.factor) if scaled else block.based(b, side[0]) for side in (left, right)]
    grown = [b.op("exp2", b.sub(side, base), flags=("afn", "ftz")) for side in bases]
    flags = ("reassoc", "contract")
    return [most, *(b.add(b.mul(a, grown[0]), b.mul(c, grown[1]), flags=flags) for a, c in zip(left[1:], right[1:], strict=True))]


@contextmanager
def joined_by_blocks(
    block: AttendingBlock,
    attention: FragmentAttention,
    region: TileRegion,
    row: Affine,
    part: BlockPart,
    totals: Sequence[Value],
    output: Value,
    first: Affine,
) -> Iterator[tuple[TileRegion, list[Value], Value]]:
    """`with joined_by_blocks(...) as (last, totals, output):` what the block does that comes last, with the sums of all."""
    b = region.builder
    most = Affine.of(part.most)
    sums = block.placing.workspace("sums", Mem("f32", (*part.tiles, most, Affine.of(attention.rows), Affine.of(attention.width)), align=64))
    few = block.placing.workspace("totals", Mem("f32", (*part.tiles, most, Affine.of(len(totals)), Affine.of(attention.rows)), align=64))
    pair, feature = block.features
    column = first + block.across + Affine.of(feature) * 8 + Affine.of(pair)

    def there(number: Affine) -> tuple[list[Affine], list[list[Affine]]]:
        return [*part.tile, number, row, column], [[*part.tile, number, Affine.of(n), row] for n in range(len(totals))]

    at, others = there(Affine.of(part.number.name))
    b.store(sums, output, at)
    for value, index in zip(totals, others, strict=True):
        b.store(few, value, index)
    with comes_last(block.placing, part, region) as last:
        deep = last.builder
        nothing = block.tile_of_rows("f32")
        start = [deep.const(float("-inf"), nothing), *(deep.const(0.0, nothing) for _ in totals[1:]), deep.const(0.0, output.type)]
        with deep.loop("part", 0, part.count.name, carried=start, unroll=TOGETHER) as (body, loop):
            at, others = there(Affine.of(loop.variable.name))
            read = [body.load(few, index) for index in others]
            body.yield_(*joined(block, body, loop.carried, [*read, body.load(sums, at)]))
        *sums_, result = loop.results
        yield last.inside(deep, region.axes), sums_, result
