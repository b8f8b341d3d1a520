"""What a lane reads of the columns' factor of a product of few rows, before it multiplies any of it, and the registers that this
becomes: bits of elements in registers of four bytes, as they came from memory, or any values, computed one by one."""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import islice

from compiler.analysis.ranges import Ranges
from compiler.hir.affine import Affine
from compiler.hir.alignment import alignment, steps_by_one
from compiler.hir.core import Binary, Pack2, Take, dtype_of, union_axes
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.hir.words import WORD, FloatPair, LoadWords, PermuteBytes
from compiler.schedule.gpu.need import needed
from compiler.schedule.gpu.products.boxed_operands import divides
from compiler.schedule.gpu.products.matrix_blocks import MatrixBlocks
from compiler.schedule.gpu.reuse.few_rows import FewRows
from compiler.schedule.gpu.rewrites.packed_bits import PackedFactor, Register
from compiler.schedule.region import TileRegion
from compiler.schedule.table import SIMD

INTS = -(1 << 31), (1 << 31) - 1

Registers = Callable[[int, int], Value]
"""By the place among a lane's columns, and the number of the pair of terms."""
Order = Sequence[tuple[int, int]]
"""Which of a lane's terms are pairs."""


class FewRowsPlacing(MatrixBlocks):
    """Where blocks, and lanes of their warps, are along the axes."""

    def __init__(self, field: HirFunction, product: FewRows) -> None:
        super().__init__(field, (product.row, product.column), (product.sum,), 32 * product.warps, product.words, product.resident)
        self.product = product
        self.ranges = Ranges(field)
        self.rank: Value | None = None
        """Of the block in its cluster, where blocks share the sum's terms."""

    def make(self, op: Instruction, value: Value, region: TileRegion) -> Value:
        """Whole numbers that 32 bits hold are computed in them."""
        if not isinstance(op, Binary) or dtype_of(value) != "i64" or op.operator not in ("add", "sub", "mul"):
            return super().make(op, value, region)
        if any(low < INTS[0] or high > INTS[1] for low, high in map(self.ranges.of, (value, op.left, op.right))):
            return super().make(op, value, region)
        b = region.builder
        left, right = (b.cast(self.value(side, region), "i32") for side in (op.left, op.right))
        return b.cast(b.op(op.operator, left, right), "i64")

    def at(self, region: TileRegion, axis: str, within: Affine) -> None:
        """The place along an axis of the results."""
        region.forms[axis] = region.starts[axis] + within
        tile = 8 * self.product.blocks if axis == self.product.row else self.product.columns
        if not divides(tile, self.field.axes[axis]):
            region.masks[axis] = self.field.axes[axis]

    def clamped(self, region: TileRegion, axis: str, form: Affine) -> Affine:
        """The place, or the last one along the axis."""
        b = region.builder
        return Affine.of(b.op("min", b.index(form), b.index(region.masks.pop(axis) - 1)).name)


class PackedColumns:
    """Bits of elements: what is read stays in registers as it lies in memory, until pairs of numbers are taken from it."""

    def __init__(self, placing: FewRowsPlacing, factor: PackedFactor, line: Affine, quarter: Affine) -> None:
        self.placing, self.factor, self.line, self.quarter = placing, factor, line, quarter
        self.order = [register.terms for register in factor.registers]

    def fetched(self, region: TileRegion) -> list[Value]:
        """Of each element of the terms, those of all columns; or of each column, all elements."""
        product, factor = self.placing.product, self.factor
        per_word = WORD // factor.size
        words = list[Value]()
        for own, term in [(0, term) for term in factor.elements] if factor.across else [(own, 0) for own in range(product.own)]:
            inner = region.inside(region.builder, (product.row, product.column, product.sum))
            self.placing.at(inner, product.column, self.line * product.own + own)
            inner.forms[product.sum] = region.starts[product.sum] + self.quarter * product.share + term
            along = product.column if factor.across else product.sum
            other = product.sum if factor.across else product.column
            if other in inner.masks:  # behind the end it is multiplied by zeros, or isn't stored
                inner.forms[other] = self.placing.clamped(inner, other, inner.forms[other])
            words += self.run(inner, along, (product.own if factor.across else len(factor.elements)) // per_word)
        return words

    def run(self, region: TileRegion, along: str, count: int) -> Iterator[Value]:
        """So many registers of neighbours in memory."""
        b, load = region.builder, self.factor.load
        mem, ends = region.known(load.mem), region.masks.pop(along, None) is not None
        index = [self.placing.form(form, region) for form in load.index]
        known = alignment(mem_of(mem), index)
        at_once = next((words for words in (4, 2, 1) if known % (WORD * words) == 0), 4)
        per_word = WORD // self.factor.size
        done = 0
        while done < count:
            words = next(few for few in (4, 2, 1) if few <= min(at_once, count - done))
            at = index[-1] + done * per_word
            valid = b.op("max", b.index(mem_of(mem).dims[-1] - at), b.const(0, "index")) if ends else None
            yield from b.emit(LoadWords(mem=mem, index=(*index[:-1], at), valid=valid, count=words)).results
            done += words

    def registers(self, region: TileRegion, fetched: Iterator[Value]) -> Registers:
        b, factor, own = region.builder, self.factor, self.placing.product.own
        per_word = WORD // factor.size
        each = (own if factor.across else len(factor.elements)) // per_word
        words = list(islice(fetched, own * len(factor.elements) // per_word))
        both: dict[tuple[int, tuple[int, ...]], Value] = {}

        def source(place: int, register: Register) -> Value:
            if len(register.sources) == 1 and not factor.across:
                return words[place * each + register.sources[0]]
            one, *others = (words[at * each + place // per_word] for at in register.sources)
            if (place, register.sources) not in both and others:
                first = place % per_word * factor.size
                bytes = [first, first + factor.size - 1]
                order = (*bytes, *(WORD + number for number in bytes))
                both[place, register.sources] = b.emit(PermuteBytes(a=one, b=others[0], order=order)).result
            return both.get((place, register.sources), one)

        def taken(place: int, pair: int) -> Value:
            register = factor.registers[pair]
            held = source(place, register)
            if register.shift:
                held = b.op("shr", held, b.const(register.shift, "u32"))
            return b.emit(FloatPair(value=held, bits=factor.width, least=factor.plus, dtype=self.placing.product.sum_.dtype)).result

        return taken


class ComputedColumns:
    """Any values: each is computed from what was read, and pairs of them are narrowed."""

    def __init__(self, placing: FewRowsPlacing, line: Affine, quarter: Affine) -> None:
        self.placing, self.line, self.quarter = placing, line, quarter
        product = placing.product
        self.order = [(2 * pair, 2 * pair + 1) for pair in range(product.share // 2)]
        loads = [op for op in needed(placing.field, [product.many]) if isinstance(op, Load)]
        self.loads = [op for op in loads if {product.column, product.sum} <= {name for form in op.index for name in form.names}]
        across = any(steps_by_one(mem_of(load.mem), load.index, product.column) for load in self.loads)
        self.own = placing.out.axis(SIMD if across else "own", product.own)
        self.axes = axes_of_terms(placing, "word" if across else SIMD)

    def fetched(self, region: TileRegion) -> list[Value]:
        inner = self.placed(region)
        return [self.placing.value(load.result, inner) for load in self.loads]

    def registers(self, region: TileRegion, fetched: Iterator[Value]) -> Registers:
        inner = self.placed(region)
        inner.made.update((load.result, next(fetched)) for load in self.loads)
        return _pairs(self.placing, self.placing.product.many, inner, self.own, self.axes)

    def placed(self, region: TileRegion) -> TileRegion:
        """At the lane's columns and terms."""
        product = self.placing.product
        inner = region.inside(region.builder, (product.row, product.column, product.sum))
        self.placing.at(inner, product.column, self.line * product.own + self.own)
        inner.forms[product.sum] = _terms(self.placing, region.starts[product.sum] + self.quarter * product.share, self.axes)
        return inner


class FewTerms:
    """The rows' factor: neighbouring terms as they lie in memory, exchanged so that pairs are those of the columns; or any values, which
    are computed when they are multiplied."""

    def __init__(self, placing: FewRowsPlacing, line: Affine, quarter: Affine, order: Order) -> None:
        self.placing, self.line, self.quarter, self.order = placing, line, quarter, order
        load = placing.product.few.source
        self.load = load if isinstance(load, Load) and _is_plain(load, placing.product.sum) else None

    def fetched(self, region: TileRegion) -> list[Value]:
        return [] if self.load is None else [word for at in self.rows(region) for word in self.words(self.load, at)]

    def registers(self, region: TileRegion, fetched: Iterator[Value]) -> Registers:
        b, pairs = region.builder, self.placing.product.share // 2
        if self.load is not None:
            known = [list(islice(fetched, pairs)) for _ in range(self.placing.product.blocks)]
        else:
            known = [[self.computed(at)(0, pair) for pair in range(pairs)] for at in self.rows(region)]

        def taken(block: int, pair: int) -> Value:
            low, high = self.order[pair]
            if (low % 2, high) == (0, low + 1):
                return known[block][low // 2]
            order = 2 * (low % 2), 2 * (low % 2) + 1, WORD + 2 * (high % 2), WORD + 2 * (high % 2) + 1
            return b.emit(PermuteBytes(a=known[block][low // 2], b=known[block][high // 2], order=order)).result

        return taken

    def rows(self, region: TileRegion) -> Iterator[TileRegion]:
        """At the lane's row of each block of them. What has no row isn't stored."""
        product = self.placing.product
        for block in range(product.blocks):
            inner = region.inside(region.builder, (product.row, product.column, product.sum))
            self.placing.at(inner, product.row, self.line + block * 8)
            if product.row in inner.masks:
                inner.forms[product.row] = self.placing.clamped(inner, product.row, inner.forms[product.row])
            inner.forms[product.sum] = region.starts[product.sum] + self.quarter * product.share
            yield inner

    def computed(self, region: TileRegion) -> Registers:
        axes = axes_of_terms(self.placing, SIMD)
        region.forms[self.placing.product.sum] = _terms(self.placing, region.forms[self.placing.product.sum], axes)
        return _pairs(self.placing, self.placing.product.few, region, "", axes)

    def words(self, load: Load, region: TileRegion) -> Iterator[Value]:
        product, b = self.placing.product, region.builder
        first, extent = region.forms[product.sum], region.masks.pop(product.sum, None)
        mem, at_once = region.known(load.mem), min(4, product.share // 2)
        for term in range(0, product.share, 2 * at_once):
            region.forms[product.sum] = first + term
            valid = None if extent is None else b.op("max", b.index(extent - first - term), b.const(0, "index"))
            index = tuple(self.placing.form(form, region) for form in load.index)
            yield from b.emit(LoadWords(mem=mem, index=index, valid=valid, count=at_once)).results


class GroupScales:
    """The scales of a lane's sums, of terms that have them in common."""

    def __init__(self, placing: FewRowsPlacing, line: Affine, quarter: Affine, names: Sequence[str]) -> None:
        self.placing, self.line, self.quarter, self.names = placing, line, quarter, names
        scale = placing.product.sum_.scale
        self.values = () if scale is None else scale.values
        self.loads = [op for op in needed(placing.field, self.values) if isinstance(op, Load)]

    def fetched(self, region: TileRegion) -> list[Value]:
        at = self.placed(region)
        return [self.placing.value(load.result, at) for load in self.loads]

    def of(self, region: TileRegion, fetched: Iterator[Value]) -> Value | None:
        at = self.placed(region)
        at.made.update((load.result, next(fetched)) for load in self.loads)
        scales = [self.placing.value(value, at) for value in self.values]
        return reduce(region.builder.mul, scales) if scales else None

    def placed(self, region: TileRegion) -> TileRegion:
        """At the lane's sums. Behind the end there is nothing to scale."""
        product, (column, half, row, simd) = self.placing.product, self.names
        inner = region.inside(region.builder, (product.row, product.column, product.sum))
        self.placing.at(inner, product.column, self.line * product.own + Affine.of(row) * 2 + half)
        self.placing.at(inner, product.row, self.quarter * 2 + Affine.of(column) * 8 + simd)
        inner.forms[product.sum] = region.starts[product.sum]
        if product.sum in inner.masks:
            inner.forms[product.sum] = self.placing.clamped(inner, product.sum, inner.forms[product.sum])
        return inner


def _is_plain(load: Load, axis: str) -> bool:
    mem = mem_of(load.mem)
    return load.pad is None and load.where is None and bytes_of(mem.dtype) == 2 and steps_by_one(mem, load.index, axis)


def axes_of_terms(placing: FewRowsPlacing, word: str) -> tuple[str, str, str]:
    """Elements of memory of a lane's terms, pairs within one, and the two of a pair."""
    product = placing.product
    each = max(2, product.each)
    return placing.out.axis(word, product.share // each), placing.out.axis("pair", each // 2), placing.out.axis("term", 2)


def _terms(placing: FewRowsPlacing, first: Affine, axes: Sequence[str]) -> Affine:
    word, pair, element = axes
    return first + Affine.of(word) * max(2, placing.product.each) + Affine.of(pair) * 2 + element


def _pairs(placing: FewRowsPlacing, value: Value, region: TileRegion, own: str, axes: Sequence[str]) -> Registers:
    """A factor's registers. Terms behind the end are zeros."""
    product, b = placing.product, region.builder
    word, pair, element = axes
    each = max(2, product.each)
    tile = b.cast(placing.masked(placing.value(value, region), 0.0, [product.sum], region), product.sum_.dtype)

    def taken(place: int, number: int) -> Value:
        both = tile
        for axis, at in ((own, place), (word, number * 2 // each), (pair, number % (each // 2))):
            if axis in dict(union_axes(both)):
                both = b.emit(Take(value=both, axis=axis, at=Affine.of(at))).result
        return b.emit(Pack2(value=both, over=element)).result

    return taken
