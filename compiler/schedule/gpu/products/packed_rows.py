"""Rows of a product that are bits of elements of memory: weights of 4 bits, two in a byte. Bulk copies bring the bytes to a stage as they
lie; the threads of a warpgroup make of them the registers that tensor cores take rows from, while products before are under way. A thread
has neighbouring rows, so that one read brings both."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.alignment import steps_by_one
from compiler.hir.build import Builder
from compiler.hir.core import Stack, dtype_of
from compiler.hir.instruction import Value
from compiler.hir.lane_maps import warpgroup_rows
from compiler.hir.memory import mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.hir.words import FRACTION_BITS, WORD, FloatPair, LoadWords, PermuteBytes
from compiler.schedule.gpu.indices import lane_digits
from compiler.schedule.gpu.products.boxed_operands import PackedPlace, PackedRows, plain_load
from compiler.schedule.gpu.products.boxed_tiles import BoxedTiles
from compiler.schedule.gpu.products.product_sums import SumOfLoads
from compiler.schedule.gpu.products.tiling import SWIZZLED
from compiler.schedule.gpu.rewrites.packed_bits import bits_of
from compiler.schedule.gpu.rewrites.scaled_sums import narrow_sum
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles

STEP, QUARTER = "step of the sum", "quarter of a row"
"""Numbers that aren't known: no name of a program has spaces."""
QUARTERS = 4
"""Lanes that have a row."""


def packed_sum(function: HirFunction) -> SumOfLoads | None:
    """The one sum of a field, of elements of a memory and of bits of another's; None where it isn't that."""
    known = narrow_sum(function)
    if known is None or any(len(axes) != 1 for axes in (known.described.m, known.described.n, known.described.k)):
        return None
    described, target = known.described, known.described.op
    for packed, other, row in ((described.a, described.b, described.m[0]), (described.b, described.a, described.n[0])):
        rows, load = packed_rows(packed, described.k[0], row, known.dtype), plain_load(other)
        if rows is not None and load is not None and load.pad is None and dtype_of(other) == known.dtype:
            return SumOfLoads(target, dtype_of(target.results[0]), rows.load, load, described, scale=known.scale, packed=rows)
    return None


def packed_rows(value: Value, sum_: str, row: str, dtype: str) -> PackedRows | None:
    """Where the numbers of a step of the sum lie; None where they aren't bits of bytes whose neighbours are rows."""
    depth, step = SWIZZLED // bytes_of(dtype), Affine.of(STEP)
    first = bits_of(value, {sum_: step * depth})
    if first is None or first.width > FRACTION_BITS.get(dtype, 0) or first.up or first.signed:
        return None
    load, mem = first.load, mem_of(first.load.mem)
    along = [dim for dim, form in enumerate(load.index) if sum_ in form.names]
    if bytes_of(mem.dtype) != 1 or len(along) != 1 or along == [mem.rank - 1] or not steps_by_one(mem, load.index, row):
        return None

    def place(term: int) -> tuple[int, int] | None:
        """How far the byte lies behind the first of a step, and the first bit."""
        bits = bits_of(value, {sum_: step * depth + term})
        if bits is None or bits.load.mem is not load.mem or bits.up or bits.signed:
            return None
        apart = [
            (form.substitute({sum_: step * depth + term}) - other.substitute({sum_: step * depth})).value
            for form, other in zip(bits.load.index, load.index, strict=True)
        ]
        line = apart.pop(along[0])
        alike = (bits.width, bits.plus) == (first.width, first.plus) and all(distance == 0 for distance in apart)
        return (line, bits.start) if alike and line is not None and line >= 0 else None

    places, lines = list[PackedPlace](), 0
    for term in (eight + neighbour for eight in range(0, depth, 2 * QUARTERS) for neighbour in range(2)):
        found = [place(term + 2 * quarter) for quarter in range(QUARTERS)]
        known = [each for each in found if each is not None]
        line, start = (_in_quarters([each[part] for each in known]) if len(known) == QUARTERS else None for part in range(2))
        if line is None or start is None:
            return None
        lines = max(lines, *(each[0] + 1 for each in known))
        places.append(PackedPlace(line, start))
    return PackedRows(load, first.width, first.plus, dtype, depth // lines, tuple(places)) if depth % lines == 0 else None


def _in_quarters(values: Sequence[int]) -> Affine | None:
    """Numbers of the four lanes of a row as a form of the lane's place among them."""
    quarter = Affine.of(QUARTER)
    for digit, last in ((quarter, QUARTERS - 1), (quarter % 2, 1), (quarter.floordiv(2), 1)):
        form = digit * ((values[-1] - values[0]) // last) + values[0]
        if [form.substitute({QUARTER: at}).value for at in map(Affine.of, range(QUARTERS))] == [*values]:
            return form
    return None


class UnpackedRows:
    """Matrices of 64 rows of a stage, as tensor cores have them in registers."""

    def __init__(self, b: Builder, placing: BlockTiles, packed: PackedRows, stage: Affine) -> None:
        self.b, self.packed, self.stage = b, packed, stage
        self.quarter, line, warp = lane_digits(b)
        # of each four bytes a thread has two: neighbouring rows
        self.fours, self.behind = warp * 4 + line.floordiv(2), (line % 2) * 16
        name = "word_of_4"
        self.axis = name if name in placing.out.function.axes else placing.out.axis(name, 4)
        self.words: dict[tuple[Affine, PackedPlace], Value] = {}
        self.loaded: dict[tuple[Affine, Affine], Value] = {}

    def rows(self, tiles: BoxedTiles, first: Affine, term: int) -> Value:
        """Four registers: those from a row and a term on."""
        b, registers, places = self.b, list[Value](), self.places(term)
        for low, high in zip(places[::2], places[1::2], strict=True):
            words = [self.shifted(tiles, first, place) for place in (low, high)]
            for row in range(2):
                both = b.emit(PermuteBytes(a=words[0], b=words[1], order=(row, row, WORD + row, WORD + row))).result
                pair = FloatPair(value=both, bits=self.packed.width, least=self.packed.plus, dtype=self.packed.dtype)
                registers.append(b.emit(pair).result)
        return b.emit(Stack(values=tuple(registers), axis=self.axis)).result

    def places(self, term: int) -> Sequence[PackedPlace]:
        """Of the pairs of neighbours that a lane has of the terms of one product, from a term on."""
        count = warpgroup_rows(self.packed.dtype).count
        return self.packed.places[term // 4 : term // 4 + count]

    def read(self, tiles: BoxedTiles, first: Affine, line: Affine) -> Value:
        b = self.b
        if (first, line) not in self.loaded:
            four = Affine.of(b.named(first.floordiv(4) + self.fours)) * 4
            at = tiles.element(self.stage, four, line.substitute({QUARTER: self.quarter}))
            self.loaded[first, line] = b.emit(LoadWords(mem=tiles.memory, index=at, count=1)).result
        return self.loaded[first, line]

    def shifted(self, tiles: BoxedTiles, first: Affine, place: PackedPlace) -> Value:
        """The number of the first row in the lowest bits, that of the other a byte further."""
        b, word = self.b, self.read(tiles, first, place.line)
        if (first, place) not in self.words:
            amount = self.behind + place.start.substitute({QUARTER: self.quarter})
            self.words[first, place] = b.op("shr", word, b.cast(b.index(amount), "u32"))
        return self.words[first, place]
