"""What warpgroups do with a stage of f32 before they multiply it, while the products of the stage before are on their way. They bring
operands in which memory is contiguous along rows, or columns, to the order of the sum's axis, which tensor cores read f32 in. And they
compute what tensor cores leave of an f32, of which those take the first 11 bits. Launches before could do both (`three_products.py`): they
read and write whole operands, while a block does the same work for each of its tiles, in shared memory."""


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
from runtime.records import frozen

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


def prepare(
    b: Builder, placing: BlockTiles, group: MultiplyingWarpgroup, stage: Affine, stages: Mapping[BoxedOperand, BoxedTiles]
) -> None:
    """A warpgroup prepares its own rows, and its share of the columns, for which all warpgroups of a tile wait for each other."""
    product = group.product
    shares = ((product.tiling.blocks * ROWS, group.first_row(0), 1), (product.columns, Affine(), product.tiling.groups))
    sides = list(zip(product.sides, product.low, shares, strict=True))
    turned = [(low, stages[side], _turned(b, placing, stages[side], stage, *share)) for side, low, share in sides if side.turned]
    if turned:
        group.meet_all(b)  # all have read what is written now
    for low, tiles, pieces in turned:
        for piece in pieces:
            piece.store(b, tiles, piece.value)
            piece.store(b, stages[low], left_of(b, piece.value))
    for side, low, share in sides:
        if not side.turned:
            for piece in _as_it_lies(b, placing, stages[side], stage, *share):
                piece.store(b, stages[low], left_of(b, piece.value))
    b.emit(FenceAsync())
    group.meet_all(b)


@frozen(eq=False)
class _Piece:
    """Sixteen bytes along the sum's axis that a thread has in registers, and where they belong in a tile."""

    value: Value
    index: tuple[Affine, ...]
    within: Value | None = None

    def store(self, b: Builder, tiles: BoxedTiles, value: Value) -> None:
        b.store(tiles.memory, value, self.index, self.within)


def _as_it_lies(b: Builder, placing: BlockTiles, tiles: BoxedTiles, stage: Affine, lines: int, first: Affine, sharing: int) -> list[_Piece]:
    """A thread's pieces of so many lines from the first on. Without a loop, so that all loads are on their way before one is used."""
    threads, chunks = WARPGROUP * sharing, tiles.wide // tiles.chunk
    number = _own_number(b, sharing)
    line, place = b.named(number.floordiv(chunks) + first), b.named(number % chunks) * tiles.chunk + tiles.lanes(placing)
    pieces = []
    for begin in range(0, lines * chunks, threads):
        within = b.none_negative([lines * chunks - 1 - begin - number] if begin + threads > lines * chunks else [])
        index = (stage, Affine(), line + begin // chunks, place)
        pieces.append(_Piece(b.load(tiles.memory, index, within), index, within))
    return pieces


def _turned(b: Builder, placing: BlockTiles, tiles: BoxedTiles, stage: Affine, lines: int, first: Affine, sharing: int) -> list[_Piece]:
    """The same of squares of lines that lie across. Neighbouring threads read neighbours of a line; what they write lies on different
    lines, whose pieces are swizzled: neither meets in a bank."""
    threads, chunks, wide = WARPGROUP * sharing, tiles.wide // tiles.chunk, tiles.wide
    number, lanes = _own_number(b, sharing), tiles.lanes(placing)
    own, chunk = b.named(number % wide), b.named(number.floordiv(wide))
    pieces = []
    for begin in range(0, -(-lines // wide) * wide * chunks, threads):
        square = first + begin // (wide * chunks) * wide
        along = (chunk + begin // wide % chunks) * tiles.chunk + lanes
        value = b.load(tiles.memory, (stage, Affine(), square + along, own))
        pieces.append(_Piece(value, (stage, Affine(), square + own, along)))
    return pieces


def _own_number(b: Builder, sharing: int) -> Affine:
    """The thread's among those of its warpgroup, or of all that multiply a tile."""
    thread = Affine.of(thread_index(b).name)
    return b.named(thread % WARPGROUP if sharing == 1 else thread - WARPGROUP)
