"""What tensor cores leave of an f32, of which they take the first 11 bits: computed by launches before (`three_products.py`), or by the
warpgroups that multiply, of each stage, while the products of the stage before are on their way. A launch before reads and writes whole
operands; a block does the same work for each of its tiles, in shared memory."""

from collections.abc import Mapping

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Bitcast
from compiler.hir.gpu import FenceAsync
from compiler.hir.instruction import Value
from compiler.schedule.gpu.block_tiles import BlockTiles
from compiler.schedule.gpu.boxed_operands import BoxedOperand
from compiler.schedule.gpu.boxed_tiles import BoxedTiles
from compiler.schedule.gpu.indices import thread_index
from compiler.schedule.gpu.warpgroup import MultiplyingWarpgroup
from compiler.schedule.gpu.warpgroup_tiles import ROWS, WARPGROUP

KEPT = 0xFFFFE000
"""The bits of an f32 that tensor cores take: sign, exponent, 10 of the fraction."""
HALF = 0x1000
"""Half of the last of them."""
LOW_SCALE = 8192.0
"""What tensor cores leave of a number is kept so many times as large: none of it is lost where it is tiny."""


def left_of(b: Builder, value: Value) -> Value:
    """What tensor cores leave of f32, rounded to what they take of that."""
    bits = b.emit(Bitcast(value=value, to="u32")).result
    taken = b.emit(Bitcast(value=b.op("and", bits, b.const(KEPT, "u32")), to="f32")).result
    scaled = b.mul(b.sub(value, taken), b.const(LOW_SCALE))
    left = b.emit(Bitcast(value=scaled, to="u32")).result
    return b.emit(Bitcast(value=b.add(left, b.const(HALF, "u32")), to="f32")).result


def make_low_parts(
    b: Builder, placing: BlockTiles, group: MultiplyingWarpgroup, stage: Affine, stages: Mapping[BoxedOperand, BoxedTiles]
) -> None:
    """Those of a stage's operands: of a warpgroup's own rows, and of its share of the columns, for which all warpgroups of a tile wait for
    each other."""
    product, thread = group.product, Affine.of(thread_index(b).name)
    shares = ((product.tiling.blocks * ROWS, group.first_row(0), 1), (product.columns, Affine(), product.tiling.groups))
    for side, low, (lines, first, sharing) in zip(product.sides, product.low, shares, strict=True):
        whole, left, lanes = stages[side], stages[low], stages[side].lanes(placing)
        threads, chunks = WARPGROUP * sharing, whole.wide // whole.chunk
        number = b.named(thread % WARPGROUP if sharing == 1 else thread - WARPGROUP)
        line, place = b.named(number.floordiv(chunks) + first), b.named(number % chunks) * whole.chunk + lanes
        # without a loop, so that all loads are on their way before the first is used
        read = []
        for begin in range(0, lines * chunks, threads):
            within = b.none_negative([lines * chunks - 1 - begin - number] if begin + threads > lines * chunks else [])
            index = (stage, Affine(), line + begin // chunks, place)
            read.append((index, within, b.load(whole.memory, index, within)))
        for index, within, value in read:
            b.store(left.memory, left_of(b, value), index, within)
    b.emit(FenceAsync())
    group.meet_all(b)
