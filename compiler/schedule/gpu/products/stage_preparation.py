"""What warpgroups do with a stage of f32, of which tensor cores take the first 11 bits, from shared memory along the sum's axis alone.

Rows that lie across, or that residuals are wanted of, come to registers, where tensor cores take them from as well. Columns stay in shared
memory. What is left of them was copied to the stage, or warpgroups put it aside there while the products of the stage before are on their
way; and they turn columns that lie across. Launches before could do that too (`three_products.py`): they read and write the whole operand,
while a block does the same work for each of its tiles."""

from collections.abc import Mapping

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Bitcast
from compiler.hir.gpu import FenceAsync
from compiler.hir.instruction import Value
from compiler.hir.lane_maps import warpgroup_rows
from compiler.schedule.gpu.indices import lane_digits, thread_index
from compiler.schedule.gpu.products.boxed_operands import BoxedOperand
from compiler.schedule.gpu.products.boxed_tiles import BoxedTiles, Factor
from compiler.schedule.gpu.products.multiplying import MultiplyingWarpgroup
from compiler.schedule.gpu.products.tiling import WARPGROUP
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from runtime.records import frozen

KEPT = 0xFFFFE000
"""The bits of an f32 that tensor cores take: sign, exponent, 10 of the fraction."""
HALF = 0x1000
"""Half of the last of them."""
LOW_SCALE = 8192.0
"""What tensor cores leave of a number is kept so many times as large: none of it is lost where it is tiny."""


def left_of(b: Builder, value: Value) -> Value:
    """What tensor cores leave of f32, rounded to what they take of that."""
    return b.emit(Bitcast(value=_bits_left(b, value), to="f32")).result


def _bits_left(b: Builder, value: Value) -> Value:
    bits = b.emit(Bitcast(value=value, to="u32")).result
    taken = b.emit(Bitcast(value=b.op("and", bits, b.const(KEPT, "u32")), to="f32")).result
    scaled = b.mul(b.sub(value, taken), b.const(LOW_SCALE))
    left = b.emit(Bitcast(value=scaled, to="u32")).result
    return b.add(left, b.const(HALF, "u32"))


class RowsInRegisters:
    """Matrices of 64 rows of a stage, 8 terms deep, as tensor cores have them in registers."""

    def __init__(self, b: Builder, placing: BlockTiles, group: MultiplyingWarpgroup, stage: Affine) -> None:
        self.b, self.stage = b, stage
        name, lanes = "word_of_4", warpgroup_rows("f32")
        word = Affine.of(name if name in placing.out.function.axes else placing.out.axis(name, 4))
        self.row, self.term = lanes.position(lane_digits(b), lanes.of_register(word))
        self.loaded: dict[tuple[BoxedTiles, Affine, int], Value] = {}
        self.words: dict[tuple[BoxedTiles, Affine, int, bool], Value] = {}

    def begun(self, tiles: BoxedTiles, first: Affine, term: int) -> Value:
        """The one from a row and a term on, on its way."""
        place = tiles, first, term
        if place not in self.loaded:
            self.loaded[place] = self.b.load(tiles.memory, tiles.element(self.stage, self.row + first, self.term + term))
        return self.loaded[place]

    def factor(self, tiles: BoxedTiles, first: Affine, term: int, left: bool) -> Factor:
        """`left`: what tensor cores leave of it."""
        b, place, value = self.b, (tiles, first, term), self.begun(tiles, first, term)
        if (*place, left) not in self.words:
            self.words[*place, left] = _bits_left(b, value) if left else b.emit(Bitcast(value=value, to="u32")).result
        return self.words[*place, left], (), False


def prepare(b: Builder, placing: BlockTiles, group: MultiplyingWarpgroup, stage: Affine, stages: Mapping[BoxedOperand, BoxedTiles]) -> None:
    """All warpgroups of a tile prepare a share of the columns, and wait for each other."""
    product = group.product
    assert product.low is not None
    tiles, low = stages[product.b], stages[product.low]
    pieces = (_turned if product.b.turned else _as_it_lies)(b, placing, tiles, stage, product.columns, product.tiling.groups)
    if product.b.turned:
        group.meet_all(b)  # all have read what is written now
        for piece in pieces:
            piece.store(b, tiles, piece.value)
    for piece in pieces:
        piece.store(b, low, left_of(b, piece.value))
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


def _as_it_lies(b: Builder, placing: BlockTiles, tiles: BoxedTiles, stage: Affine, lines: int, sharing: int) -> list[_Piece]:
    """A thread's pieces of so many lines. Without a loop, so that all loads are on their way before one is used."""
    threads, chunks = WARPGROUP * sharing, tiles.wide // tiles.chunk
    number = _own_number(b, sharing)
    line, place = b.named(number.floordiv(chunks)), b.named(number % chunks) * tiles.chunk + tiles.lanes(placing)
    pieces = []
    for begin in range(0, lines * chunks, threads):
        within = b.none_negative([lines * chunks - 1 - begin - number] if begin + threads > lines * chunks else [])
        index = (stage, Affine(), line + begin // chunks, place)
        pieces.append(_Piece(b.load(tiles.memory, index, within), index, within))
    return pieces


def _turned(b: Builder, placing: BlockTiles, tiles: BoxedTiles, stage: Affine, lines: int, sharing: int) -> list[_Piece]:
    """The same of squares of lines that lie across. Neighbouring threads read neighbours of a line; what they write lies on different
    lines, whose pieces are swizzled: neither meets in a bank."""
    threads, chunks, wide = WARPGROUP * sharing, tiles.wide // tiles.chunk, tiles.wide
    number, lanes = _own_number(b, sharing), tiles.lanes(placing)
    own, chunk = b.named(number % wide), b.named(number.floordiv(wide))
    pieces = []
    for begin in range(0, -(-lines // wide) * wide * chunks, threads):
        square = begin // (wide * chunks) * wide
        along = (chunk + begin // wide % chunks) * tiles.chunk + lanes
        value = b.load(tiles.memory, (stage, Affine(), along + square, own))
        pieces.append(_Piece(value, (stage, Affine(), own + square, along)))
    return pieces


def _own_number(b: Builder, sharing: int) -> Affine:
    """The thread's among those of its warpgroup, or of all that multiply a tile."""
    thread = Affine.of(thread_index(b).name)
    return b.named(thread % WARPGROUP if sharing == 1 else thread - WARPGROUP)
