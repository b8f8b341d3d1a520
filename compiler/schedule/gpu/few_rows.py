"""Products of few rows and many columns, whose factor of the columns is read once and computed on its way from memory to the registers
that a warp multiplies from: weights of 4 bits, two in a byte, say. Time is what reading it takes, so nothing is put aside.

Each lane reads whole accesses: which of a tile's columns and terms it has follows from where neighbours lie in memory, as the order of a
sum's terms and of a tile's columns is free. The warps of a block take turns along the sum, and add up what they have in shared memory.
Terms that have a scale in common are summed by themselves first."""

from collections.abc import Callable, Iterator, Sequence
from math import gcd

from compiler.analysis.ranges import Ranges
from compiler.analysis.recognise import instructions_below
from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.alignment import steps_by_one
from compiler.hir.build import Builder
from compiler.hir.core import Binary, IsNan, Pack2, Take, dtype_of, union_axes
from compiler.hir.gpu import SharedAlloc, SyncThreads
from compiler.hir.instruction import Instruction, Value
from compiler.hir.lane_maps import WarpKind
from compiler.hir.memory import Load, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.tensor_core import WarpMma
from compiler.hir.types import Mem, Space, Tile, bytes_of
from compiler.hir.words import LoadWords
from compiler.machines.units.unit import Issue
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.indices import lane_index, small_digits, thread_index, warp_index
from compiler.schedule.gpu.need import needed
from compiler.schedule.gpu.products.boxed_operands import divides
from compiler.schedule.gpu.products.matrix_blocks import MatrixBlocks
from compiler.schedule.gpu.scaled_sums import ScaledSum, narrow_sum, whole_number, whole_range
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import SIMD
from runtime.records import frozen

MOST_ROWS = 32
"""More are multiplied from shared memory."""
LEAST_COLUMNS, LEAST_TERMS = 64, 64
ROUND = 128
"""Terms of a warp's turn, at most."""
ACCESS = 16
"""Bytes of the widest access."""
WARPS = 16
REGISTERS = 216 * 8
"""Of what a lane adds up and reads, of all warps of a block."""
SHARED = 96 * 1024
"""Bytes of what the warps of a block have."""
FRACTION = {"bf16": 1 << 7, "f16": 1 << 10}
"""Whole numbers that are a fraction of one power of two."""
INTS = -(1 << 31), (1 << 31) - 1


@frozen(eq=False)
class FewRows:
    """A sum with few rows. `few`, `many`: its factors; `row`, `column`, `sum`: the axes; `blocks`: of 8 rows; `own`: columns of a lane,
    side by side; `terms`: of a warp's turn, of which each of four lanes has a quarter; `each`: that one element of memory has."""

    sum_: ScaledSum
    kind: WarpKind
    unit: str
    few: Value
    many: Value
    row: str
    column: str
    sum: str
    blocks: int
    own: int
    terms: int
    each: int
    warps: int
    words: tuple[str, ...]

    @property
    def columns(self) -> int:
        """Of a block."""
        return 8 * self.own

    @property
    def share(self) -> int:
        """Terms of a turn that a lane has."""
        return self.terms // 4


def few_rows(function: HirFunction, facts: Facts) -> FewRows | None:
    """The field as such a product; None where it isn't one, or reads no less than its factors are."""
    if function.kernel_info is not None and function.kernel_info.tensor_cores is False:
        return None
    known = narrow_sum(function)
    unit = facts.machine.unit(Issue.REGISTERS)
    kind = None if known is None else facts.machine.warp_kind(known.dtype)
    if known is None or unit is None or kind is None or kind.depths != (16,):
        return None
    described, scale = known.described, known.scale
    if len(described.m) != 1 or len(described.n) != 1 or len(described.k) != 1:
        return None
    sides = [(described.m[0], described.a), (described.n[0], described.b)]
    sides.sort(key=lambda side: facts.about(function.axes[side[0]]))
    (row, few), (column, many) = sides
    (sum_,) = described.k
    rows, columns, terms = (facts.about(function.axes[axis]) for axis in (row, column, sum_))
    if rows > MOST_ROWS or columns < LEAST_COLUMNS or terms < LEAST_TERMS:
        return None
    loads = [op for op in instructions_below(many) if isinstance(op, Load) and {row, column, sum_} & {*_names(op)}]
    wide = max(loads, key=lambda load: bytes_of(mem_of(load.mem).dtype), default=None)
    if wide is None or any({*load.index[-1].names} & {column, sum_} == set() for load in loads):
        return None
    each = _elements_of_word(loads, sum_)
    if bytes_of(mem_of(wide.mem).dtype) >= each * bytes_of(known.dtype):
        return None
    each = max(2, each)
    group = scale.terms if scale is not None and scale.terms else ROUND
    turn = gcd(group, ROUND)
    if turn % 16 or turn // 4 % each or each > ROUND // 4:
        return None
    blocks = -(-rows // 8)
    across = steps_by_one(mem_of(wide.mem), wide.index, column)
    widest = min(ACCESS // bytes_of(mem_of(wide.mem).dtype) if across else 16, max(4, 32 // blocks))
    own = next((own for own in (16, 8, 4) if own <= widest and -(-columns // (8 * own)) >= facts.processors * 3 // 4), min(4, widest))
    warps = WARPS if own * blocks < 16 else WARPS // 2
    sums = 2 * own * blocks * (1 + (scale is not None))

    def registers(turn: int) -> int:
        return sums + 2 * (own * turn * bytes_of(mem_of(wide.mem).dtype) // (16 * each)) + turn * blocks // 8

    while registers(turn) > REGISTERS // warps and turn % 32 == 0 and turn // 8 % each == 0:
        turn //= 2
    turns = -(-terms // turn)
    most = SHARED // (8 * blocks * (8 * own + 1) * 4)
    warps = min(warps, 1 << (turns - 1).bit_length(), 1 << (most.bit_length() - 1))
    words = (
        f"rows are few: {8 * own} columns a block, {warps} warps share the sum's terms, {turn} at a time",
        f"what has columns is computed on its way to the tensor cores: {own} columns and {turn // 4} terms a lane",
    )
    return FewRows(known, kind, unit.name, few, many, row, column, sum_, blocks, own, turn, each, warps, words)


def _names(load: Load) -> Iterator[str]:
    for form in load.index:
        yield from form.names


def _elements_of_word(loads: Sequence[Load], axis: str) -> int:
    """How many neighbours along the sum one element of memory has: the most, a power of two."""
    divisors = [1]
    for load in loads:
        for form in load.index:
            divisors += [s.divisor for s, _ in form.terms if isinstance(s, FloorDiv) and axis in s.numerator.names and s.divisor <= 16]
    most = max(divisors)
    return most if most & (most - 1) == 0 and all(most % divisor == 0 for divisor in divisors) else ROUND


class FewRowsBlocks(MatrixBlocks):
    def __init__(self, field: HirFunction, product: FewRows) -> None:
        super().__init__(field, (product.row, product.column), (product.sum,), 32 * product.warps, product.words)
        self.product = product
        self.ranges = Ranges(field)
        self.axes_of_many = ("", "", "", "")
        """Of registers of the columns' factor: its own places, elements of memory, pairs within one, the two of a pair."""

    def tiles_of_blocks(self, group: Sequence[Target], region: TileRegion) -> None:
        b, product = region.builder, self.product
        extents = [*(self.field.axes[axis] for axis in self.batch), self.field.axes[product.row].ceildiv(8 * product.blocks)]
        extents.append(self.field.axes[product.column].ceildiv(product.columns))
        counts = [b.count(extent) for extent in extents]
        with self.blocks(b.product(counts), region, ()) as (inner, number):
            *digits, row, column = small_digits(inner.builder, number, counts)[1:]
            self.enter_matrix(inner, digits)
            inner.starts[product.row] = Affine.of(row.name) * (8 * product.blocks)
            inner.starts[product.column] = Affine.of(column.name) * product.columns
            inner.axes |= {product.row, product.column, *self.batch}
            self.multiplied(group, inner)

    # ---- forms and values ----

    def form(self, form: Affine, region: TileRegion) -> Affine:
        """Terms within an element of memory have no quotients left."""
        form = super().form(form, region)
        return form.without(*(symbol for symbol, _ in form.terms if isinstance(symbol, FloorDiv) and self.is_none(symbol)))

    def is_none(self, quotient: FloorDiv) -> bool:
        """Whether a quotient is 0, whatever the places are along axes of registers."""
        least = most = quotient.numerator.constant
        for symbol, factor in quotient.numerator.terms:
            extent = self.out.function.axes.get(symbol) if isinstance(symbol, str) else None
            if extent is None or extent.value is None:
                return False
            last = factor * (extent.value - 1)
            least, most = least + min(0, last), most + max(0, last)
        return least >= 0 and most < quotient.divisor

    def make(self, op: Instruction, value: Value, region: TileRegion) -> Value:
        """Whole numbers that 32 bits hold are computed in them."""
        if not isinstance(op, Binary) or dtype_of(value) != "i64" or op.operator not in ("add", "sub", "mul"):
            return super().make(op, value, region)
        if any(low < INTS[0] or high > INTS[1] for low, high in map(self.ranges.of, (value, op.left, op.right))):
            return super().make(op, value, region)
        b = region.builder
        left, right = (b.cast(self.value(side, region), "i32") for side in (op.left, op.right))
        return b.cast(b.op(op.operator, left, right), "i64")

    # ---- the sum ----

    def multiplied(self, group: Sequence[Target], region: TileRegion) -> None:
        b, product = region.builder, self.product
        lane, warp = lane_index(b), warp_index(b)
        quarter, line = b.named(lane % 4), b.named(lane.floordiv(4))
        names = [self.out.axis(name, extent) for name, extent in product.kind.sums_of((8 * product.own, 8 * product.blocks, 16)).axes]
        type = Tile(product.kind.sums, tuple(zip(names, (product.blocks, 2, product.own // 2, 2), strict=True)))
        part = 8 * product.own, 8 * product.blocks, 16
        zero = b.const(0.0, type)
        turns = b.index(self.field.axes[product.sum].ceildiv(product.terms))
        loads = self.streamed()
        place = line * product.own + self.axes_of_many[0]
        begun = self.fetched(self.at_turn(region, b, b.op("min", b.index(warp), b.index(Affine.of(turns.name) - 1))), loads, place, quarter)
        with b.loop("turn", warp, turns.name, product.warps, carried=[zero, *begun]) as (body, loop):
            total, *fetched = loop.carried
            inner = self.at_turn(region, body, loop.variable)
            few = self.registers_of_few(inner, line, quarter)
            last = body.index(Affine.of(turns.name) - 1)
            following = body.op("min", body.index(Affine.of(loop.variable.name) + product.warps), last)
            fetching = self.fetched(self.at_turn(region, body, following), loads, place, quarter)
            inner.made.update(zip((load.result for load in loads), fetched, strict=True))
            self.at(inner, product.column, place)
            many = self.pairs(product.many, inner, inner.starts[product.sum] + quarter * product.share, self.axes_of_many)
            sums = total if product.sum_.scale is None else body.const(0.0, type)
            for step in range(product.share // 4):
                a = [many(2 * tile + half, 2 * step + pair) for tile in range(product.own // 2) for pair in range(2) for half in range(2)]
                c = [few(block, 2 * step + pair) for block in range(product.blocks) for pair in range(2)]
                multiplied = WarpMma(accumulator=sums, values=(*a, *c), shape=part, dtype=product.sum_.dtype, unit=product.unit)
                sums = body.emit(multiplied).result
            if product.sum_.scale is not None:
                sums = body.fma(sums, self.scale(inner, line, quarter, names), total)
            body.yield_(sums, *fetching)
        self.joined(group, region, loop.results[0], names, line, quarter, warp)

    def at_turn(self, region: TileRegion, b: Builder, turn: Value) -> TileRegion:
        """The body at the terms of a turn."""
        product, extent = self.product, self.field.axes[self.product.sum]
        inner = region.inside(b, (product.row, product.column, product.sum))
        inner.starts[product.sum] = Affine.of(turn.name) * product.terms
        if not divides(product.terms, extent):
            inner.masks[product.sum] = extent
        return inner

    def streamed(self) -> list[Load]:
        """What is read of the columns' factor: a turn ahead, so that a warp multiplies while it comes."""
        product = self.product
        loads = [op for op in needed(self.field, [product.many]) if isinstance(op, Load) and {product.column, product.sum} <= {*_names(op)}]
        across = any(steps_by_one(mem_of(load.mem), load.index, product.column) for load in loads)
        own = self.out.axis(SIMD if across else "own", product.own)
        self.axes_of_many = own, *self.axes_of_terms("word" if across else SIMD)
        return loads

    def axes_of_terms(self, word: str) -> tuple[str, str, str]:
        """Elements of memory of a lane's terms, pairs within one, and the two of a pair."""
        product = self.product
        return self.out.axis(word, product.share // product.each), self.out.axis("pair", product.each // 2), self.out.axis("term", 2)

    def fetched(self, region: TileRegion, loads: Sequence[Load], place: Affine, quarter: Affine) -> list[Value]:
        """What is read in a turn."""
        self.at(region, self.product.column, place)
        self.at_terms(region, region.starts[self.product.sum] + quarter * self.product.share, self.axes_of_many[1:])
        return [self.value(load.result, region) for load in loads]

    def at_terms(self, region: TileRegion, first: Affine, axes: Sequence[str]) -> None:
        word, pair, element = axes
        region.forms[self.product.sum] = first + Affine.of(word) * self.product.each + Affine.of(pair) * 2 + element

    def scale(self, region: TileRegion, line: Affine, quarter: Affine, names: Sequence[str]) -> Value:
        """Of the lane's sums."""
        product, b = self.product, region.builder
        column, half, row, simd = names
        inner = region.inside(b, (product.row, product.column, product.sum))
        self.at(inner, product.column, line * product.own + Affine.of(row) * 2 + half)
        self.at(inner, product.row, quarter * 2 + Affine.of(column) * 8 + simd)
        inner.forms[product.sum] = region.starts[product.sum]
        inner.masks.pop(product.sum, None)
        assert product.sum_.scale is not None
        scale, *others = (self.value(value, inner) for value in product.sum_.scale.values)
        for other in others:
            scale = b.mul(scale, other)
        return scale

    def at(self, region: TileRegion, axis: str, within: Affine) -> None:
        """The place along an axis of the results."""
        region.forms[axis] = region.starts[axis] + within
        tile = 8 * self.product.blocks if axis == self.product.row else self.product.columns
        if not divides(tile, self.field.axes[axis]):
            region.masks[axis] = self.field.axes[axis]

    def registers_of_few(self, region: TileRegion, line: Affine, quarter: Affine) -> Callable[[int, int], Value]:
        """Pairs of neighbouring terms of the lane's row of each block of rows."""
        product = self.product
        load = product.few.source
        sides = []
        for block in range(product.blocks):
            inner = region.inside(region.builder, (product.row, product.column, product.sum))
            self.at(inner, product.row, line + block * 8)
            if product.row in inner.masks:  # what has no row isn't stored
                last = inner.builder.index(inner.masks.pop(product.row) - 1)
                inner.forms[product.row] = Affine.of(inner.builder.op("min", inner.builder.index(inner.forms[product.row]), last).name)
            first = region.starts[product.sum] + quarter * product.share
            if isinstance(load, Load) and self.is_plain(load):
                sides.append(self.words(load, inner, first))
            else:
                pairs = self.pairs(product.few, inner, first, ("", *self.axes_of_terms(SIMD)))
                sides.append([pairs(0, pair) for pair in range(product.share // 2)])
        return lambda block, pair: sides[block][pair]

    def is_plain(self, load: Load) -> bool:
        mem = mem_of(load.mem)
        return load.pad is None and load.where is None and bytes_of(mem.dtype) == 2 and steps_by_one(mem, load.index, self.product.sum)

    def words(self, load: Load, region: TileRegion, first: Affine) -> list[Value]:
        """Neighbouring terms as they lie."""
        product, b, words = self.product, region.builder, list[Value]()
        extent = region.masks.pop(product.sum, None)
        mem = region.find(load.mem)
        assert mem is not None
        count = 2 * ACCESS // 4
        for term in range(0, product.share, count):
            region.forms[product.sum] = first + term
            valid = None
            if extent is not None:
                valid = b.op("max", b.const(0, "index"), b.op("min", b.const(count, "index"), b.index(extent - first - term)))
            index = tuple(self.form(form, region) for form in load.index)
            words += b.emit(LoadWords(mem=mem, index=index, valid=valid)).results
        return words

    def pairs(self, value: Value, region: TileRegion, first: Affine, axes: Sequence[str]) -> Callable[[int, int], Value]:
        """A factor's registers, by place along its own axis and number of the pair."""
        product, b = self.product, region.builder
        own, word, pair, element = axes
        self.at_terms(region, first, axes[1:])
        whole, known = whole_number(value), whole_range(self.field, value)
        as_bits = False
        # terms behind the end are zeros of the other factor
        if whole is not None and known is not None and whole[0] is not None and own:
            as_bits = known[1] - known[0] < FRACTION[product.sum_.dtype]
        if as_bits and whole is not None and whole[0] is not None and known is not None:
            low = known[0] - whole[1]
            bits = b.sub(b.cast(self.value(whole[0], region), "i32"), b.const(low, "i32"))
            tile, least = self.masked(bits, 0, [product.sum], region), b.const(float(known[0]))
        else:
            tile = b.cast(self.masked(self.value(value, region), 0.0, [product.sum], region), product.sum_.dtype)

        def taken(place: int, number: int) -> Value:
            both = tile
            for axis, at in ((own, place), (word, number * 2 // product.each), (pair, number % (product.each // 2))):
                if axis in dict(union_axes(both)):
                    both = b.emit(Take(value=both, axis=axis, at=Affine.of(at))).result
            if as_bits:
                both = b.op("and", both, b.const(FRACTION[product.sum_.dtype] - 1, "i32"))
                both = b.cast(b.add(b.cast(both, "f32"), least), product.sum_.dtype)
            return b.emit(Pack2(value=both, over=element)).result

        return taken

    # ---- joining ----

    def joined(
        self, group: Sequence[Target], region: TileRegion, sums: Value, names: Sequence[str], line: Affine, quarter: Affine, warp: Affine
    ) -> None:
        """The sums of all warps, of an element for each thread, and what follows them."""
        product, b = self.product, region.builder
        column, half, row, simd = names
        rows, columns = 8 * product.blocks, product.columns
        type = Mem(product.kind.sums, (product.warps, rows, columns + 1), space=Space.SHARED, align=16)
        memory = b.emit(SharedAlloc(type=type), "sums").result
        place = [warp, quarter * 2 + Affine.of(column) * 8 + simd, line * product.own + Affine.of(row) * 2 + half]
        b.store(memory, sums, place)
        b.emit(SyncThreads())
        with b.loop("element", thread_index(b).name, rows * columns, 32 * product.warps) as (body, loop):
            number = Affine.of(loop.variable.name)
            own = [body.named(number.floordiv(columns)), body.named(number % columns)]
            inner = region.inside(body, (product.row, product.column))
            self.at(inner, product.row, own[0])
            self.at(inner, product.column, own[1])
            total = body.load(memory, [Affine(), *own])
            for other in range(1, product.warps):
                total = body.add(total, body.load(memory, [Affine.of(other), *own]))
            if product.sum_.scale is not None:
                total = self.repaired(inner, total)
            inner.made[product.sum_.described.op.results[0]] = total
            self.produce(group, inner, {})

    def repaired(self, region: TileRegion, total: Value) -> Value:
        """A sum that isn't finite is computed again as the nest has it: scales that are infinite are factors of terms, not of sums."""
        product, target = self.product, self.product.sum_.described.op
        strange = region.builder.emit(IsNan(value=region.builder.sub(total, total))).result
        with region.builder.branch(strange, [total.type]) as (again, fine, choice):
            fine.yield_(total)
            with again.loop("term", 0, self.field.axes[product.sum], carried=[again.const(0.0, total.type)]) as (body, loop):
                inner = region.inside(body, (product.row, product.column, product.sum))
                inner.forms[product.sum] = Affine.of(loop.variable.name)
                body.yield_(*self.accumulate(target, loop.carried, inner))
            again.yield_(*loop.results)
        return choice.results[0]
