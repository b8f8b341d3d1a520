"""Sums of products from shared memory. For each tile of the summed axes the threads of a block put the tiles of both operands in shared
memory together, wait, and walk along the sum, each with its registers of the result."""

from collections.abc import Sequence
from math import prod

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Contract, dtype_of
from compiler.hir.gpu import SyncThreads
from compiler.hir.instruction import Value
from compiler.schedule.gpu.block_tiles import BlockTiles
from compiler.schedule.gpu.staged_tiles import Staged
from compiler.schedule.gpu.tensor_cores import Fragments, multiplied
from compiler.schedule.region import TileRegion


def staged_product(
    placing: BlockTiles, target: Contract, fragments: Fragments | None, accumulators: Sequence[Value], region: TileRegion
) -> list[Value]:
    """The accumulators with the products of this tile of the summed axes added: by tensor cores where they are fragments."""
    b = region.builder
    over = [axis for axis in target.over if placing.plan(axis, region).tile > 1]
    staged = [
        Staged(placing, side, value, over, region, fragments is not None) for side, value in (("a", target.a), ("b", target.b))
    ]
    for operand in staged:
        operand.put(b)
    b.emit(SyncThreads())
    extents = [placing.plan(axis, region).tile for axis in over]
    if fragments is not None:
        if fragments.row_axis not in staged[0].axes:
            staged.reverse()
        sums = multiplied(placing, fragments, staged[0], staged[1], extents[0], accumulators, b)
        b.emit(SyncThreads())
        return sums
    with b.loop("step", 0, prod(extents), carried=accumulators, unroll=4) as (body, loop):
        steps = _digits(body, loop.variable, extents)
        places = dict(zip(over, steps, strict=True))
        left, right = (operand.read(body, places, region) for operand in staged)
        product = Contract(a=left, b=right, accumulator=loop.carried[0], over=(), to=target.to, flags=target.flags)
        body.yield_(body.emit(product).result)
    b.emit(SyncThreads())
    return loop.results


def _digits(b: Builder, number: Value, extents: Sequence[int]) -> list[Affine]:
    """A number as one of mixed radix, the last digit fastest."""
    digits: list[Affine] = []
    for extent in reversed(extents[1:]):
        digits.append(Affine.of(b.op("rem", number, b.const(extent, "index")).name))
        number = b.op("div", number, b.const(extent, "index"))
    digits.append(Affine.of(number.name))
    return digits[::-1]


def pass_on(placing: BlockTiles, value: Value, tile: Value, axes: Sequence[str], home: TileRegion) -> Value:
    """Shared memory with a value's tile, for threads that need other elements of it than their own."""
    b = home.builder
    memory = placing.shared_memory(("passed", value), dtype_of(tile), [placing.plan(axis, home).tile for axis in axes])
    b.emit(SyncThreads())
    b.store(memory, tile, [home.forms[axis] - home.starts[axis] for axis in axes], placing.one_of(placing.idle(axes), b))
    b.emit(SyncThreads())
    return memory
