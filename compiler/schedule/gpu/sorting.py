"""Sorting by digits of 8 bits, the lowest first ("onesweep" of Adinets and Merrill): the digits of all passes are counted in one read; then
each pass reads every element once and writes it once, to where its digit stands. A block ranks the elements of its tile (lanes with
the same digit find each other by `match`), learns by look-back how many of each digit stand in the tiles before it, and orders
its elements by digit in shared memory, so that neighbours are written together. Equal keys keep their order.

Lines along an axis are sorted beside each other: each has counts of its own, a memory `(..., P + 1 + tiles, 256)` of 64-bit words: for
each of the P passes how often each digit occurs, then what numbers the tiles of each pass, then what each tile knows of each digit
(above `STATE` bits of count: nothing of this pass yet; its own count; the count of all tiles up to it)."""

from collections.abc import Callable, Sequence

from attrs import evolve, frozen

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Bitcast, Take
from compiler.hir.gpu import Atomic, Match, SharedAlloc, SyncThreads, WarpSync
from compiler.hir.instruction import Value
from compiler.hir.library import Sort
from compiler.hir.memory import mem_of
from compiler.hir.types import DTYPES, Mem, Space, Tile, bytes_of, is_float, is_signed
from compiler.schedule.gpu.block_scan import WARP, Joining
from compiler.schedule.gpu.number_bits import bits_of, from_bits, unsigned

THREADS = 256
WARPS = THREADS // WARP
DIGIT = 8
DIGITS = 1 << DIGIT
"""A thread of a block for each of them."""

TILE_BYTES = 24 << 10
"""Of a block's elements in shared memory: as much as leaves room for two blocks where a block may have 48 KiB."""

MOST_ITEMS = 20
"""Elements of a thread: their places are in registers."""

COUNTED = 8
"""Elements of a thread that are counted together."""

TURNS = 16
"""How often a block counts so many."""

RANK = 16
"""Bits of a place in a tile."""

STATE = 48
"""Bits of a count; above them is what is known."""

FEWEST = 2048
"""Elements of a line that are worth counting: shorter ones are merged. No more than a tile has."""

ALWAYS = 1 << 40
"""No line is so long."""


def items_of(sort: Sort) -> int:
    """Elements of a thread in a pass, by the widest thing that it moves."""
    widest = max(bytes_of(mem_of(one).dtype) for one in (sort.keys, *sort.payload))
    return min(MOST_ITEMS, TILE_BYTES // (THREADS * widest))


def shifts(dtype: str) -> tuple[int, ...]:
    """Where the digit of each pass begins; an even number of passes, so that what goes there comes back."""
    found = list(range(0, DTYPES[dtype], DIGIT))
    return tuple(found if len(found) % 2 == 0 else [*found, found[-1] + DIGIT // 2])


def counts_memory(sort: Sort) -> Mem:
    """The counts of all lines; no memory at all where there may be many, too short for counts."""
    dims = list(mem_of(sort.keys).dims)
    extent = dims.pop(sort.axis)
    worth = (extent + (ALWAYS - FEWEST)).floordiv(ALWAYS) if dims else Affine((), 1)
    rows = extent.floordiv(THREADS * items_of(sort)) + worth * (len(shifts(mem_of(sort.keys).dtype)) + 2)
    return Mem("u64", (*dims, rows, Affine((), DIGITS)), align=64)


@frozen
class Digits:
    """The keys of one sort as numbers without sign, whose order is the sort's."""

    dtype: str
    descending: bool

    @property
    def word(self) -> str:
        return unsigned(self.dtype)

    def ordered(self, b: Builder, key: Value) -> Value:
        """-0.0 is 0.0, and every NaN the highest of all."""
        word, bits = self.word, bits_of(b, key)
        width = DTYPES[word]
        high, ones = b.const(1 << (width - 1), word), b.const((1 << width) - 1, word)
        if is_float(self.dtype):
            bits = b.select(b.op("eq", bits, high), b.const(0, word), bits)
            bits = b.select(b.op("ge", bits, high), b.op("xor", bits, ones), b.op("xor", bits, high))
        elif is_signed(self.dtype):
            bits = b.op("xor", bits, high)
        if self.descending:
            bits = b.op("xor", bits, ones)
        return b.select(b.isnan(key), ones, bits) if is_float(self.dtype) else bits

    def digit(self, b: Builder, ordered: Value, shift: Value) -> Value:
        """One digit, as an `i32`."""
        found = b.op("and", b.op("shr", ordered, b.cast(shift, self.word)), b.const(DIGITS - 1, self.word))
        return b.cast(found, "i32")


@frozen
class Lines:
    """The lines of a sort in one launch: the extents around the axis, the line that a block works at, and the counts."""

    sort: Sort
    counts: Value
    around: tuple[str, ...]
    extent: Value

    @property
    def digits(self) -> Digits:
        return Digits(mem_of(self.sort.keys).dtype, self.sort.descending)

    @property
    def passes(self) -> int:
        return len(shifts(mem_of(self.sort.keys).dtype))

    def place(self, along: Affine) -> list[Affine]:
        """Where an element of the line is."""
        index = [Affine.of(name) for name in self.around]
        index.insert(self.sort.axis, along)
        return index

    def count(self, row: Affine, digit: Affine) -> tuple[Affine, ...]:
        """A word of the line's counts."""
        return (*map(Affine.of, self.around), row, digit)


def line_of(b: Builder, sort: Sort, counts: Value, keys: Value, block: Value, each: Value) -> tuple[Lines, Value]:
    """The line of a block, of which each has so many blocks, and the block's number among these."""
    dims = [b.index(dim) for dim in mem_of(keys).dims]
    extent = dims.pop(sort.axis)
    rest, number = b.op("div", block, each), b.op("rem", block, each)
    around: list[str] = []
    for dim in reversed(dims):
        around.insert(0, b.op("rem", rest, dim).name)
        rest = b.op("div", rest, dim)
    return Lines(sort, counts, tuple(around), extent), number


# ---- counting ----------------------------------------------------------------------------------------------------


def count_digits(b: Builder, lines: Lines, keys: Value, number: Value, thread: Value, axis: str) -> None:
    """One thread's part in counting the digits of all passes; `number` is the block's in its line, `axis` one of `COUNTED` registers."""
    digits = lines.digits
    own = _shared(b, "u32", (lines.passes, DIGITS))
    for row in range(lines.passes):
        b.store(own, b.const(0, "u32"), [row, thread.name])
    b.emit(SyncThreads())
    with b.loop("turn", 0, TURNS) as (body, loop):
        first = Affine.of(number.name) * (TURNS * COUNTED * THREADS) + Affine.of(loop.variable.name) * (COUNTED * THREADS)
        place = first + Affine.of(axis) * THREADS + thread.name
        inside = body.inbounds(place, lines.extent.name)
        ordered = digits.ordered(body, body.load(keys, lines.place(place), inside))
        for item in range(COUNTED):
            with body.when(_taken(body, inside, axis, item)) as here:
                one = _taken(here, ordered, axis, item)
                for row, shift in enumerate(shifts(digits.dtype)):
                    digit = here.cast(digits.digit(here, one, here.const(shift, "index")), "index")
                    index = (Affine((), row), Affine.of(digit.name))
                    here.emit(Atomic(operation="add", mem=own, index=index, value=here.const(1, "u32"), scope="block"))
    b.emit(SyncThreads())
    for row in range(lines.passes):
        found = b.cast(b.load(own, [row, thread.name]), "u64")
        with b.when(b.op("ne", found, b.const(0, "u64"))) as some:
            total = lines.count(Affine((), row), Affine.of(thread.name))
            some.emit(Atomic(operation="add", mem=lines.counts, index=total, value=found))


# ---- a pass ------------------------------------------------------------------------------------------------------


@frozen
class Pass:
    """One thread's part in a pass: `here` and `there` are keys and payloads, `number` counts the passes, the digit begins at `shift`.
    `axis` is of `items` registers."""

    b: Builder
    lines: Lines
    here: Sequence[Value]
    there: Sequence[Value]
    number: Value
    shift: Value
    thread: Value
    axis: str
    items: int

    @property
    def tile(self) -> int:
        return self.items * THREADS

    def build(self) -> None:
        b = self.b
        lane, warp = b.op("rem", self.thread, b.const(WARP, "index")), b.op("div", self.thread, b.const(WARP, "index"))
        tile = self.turn()
        first = b.mul(tile, b.const(self.tile, "index"))
        along = Affine.of(first.name) + Affine.of(warp.name) * (self.items * WARP) + Affine.of(self.axis) * WARP + lane.name
        left = b.sub(self.lines.extent, first)
        whole = b.op("ge", left, b.const(self.tile, "index"))
        keys = self.read(self.here[0], along, whole)
        # What lies behind the end comes behind everything.
        inside = b.op("lt", b.index(along), self.lines.extent)
        digits = self.lines.digits.digit(b, self.lines.digits.ordered(b, keys), self.shift)
        digits = b.select(inside, digits, b.const(DIGITS - 1, "i32"))
        own = [_taken(b, digits, self.axis, item) for item in range(self.items)]
        counts, origins = _shared(b, "i32", (WARPS, DIGITS)), _shared(b, "index", (DIGITS,))
        ranks = self.ranks(own, counts, warp, lane)
        self.origins(tile, counts, origins, lane, warp)
        words = unsigned(max((mem_of(one).dtype for one in self.here), key=bytes_of))
        buffer = _shared(b, words, (self.tile,))
        goes: list[tuple[Value, Value]] = []
        for position, (source, target) in enumerate(zip(self.here, self.there, strict=True)):
            if position > 0:
                b.emit(SyncThreads())
            values = keys if position == 0 else self.read(source, along, whole)
            bits = b.cast(bits_of(b, values), words)
            for item, rank in enumerate(ranks):
                b.store(buffer, _taken(b, bits, self.axis, item), [self.ordered_place(rank, counts, warp).name])
            b.emit(SyncThreads())
            for item in range(self.items):
                place = Affine.of(self.thread.name) + item * THREADS
                dtype = mem_of(target).dtype
                value = from_bits(b, b.cast(b.load(buffer, [place]), unsigned(dtype)), dtype)
                if position == 0:
                    digit = b.cast(self.lines.digits.digit(b, self.lines.digits.ordered(b, value), self.shift), "index")
                    origin = b.load(origins, [digit.name])
                    goes.append((b.add(origin, b.index(place)), b.op("lt", b.index(place), left)))
                to, where = goes[item]
                b.store(target, value, self.lines.place(Affine.of(to.name)), where)

    def read(self, source: Value, along: Affine, whole: Value) -> Value:
        """The thread's elements of a memory; nothing behind the end."""
        place = self.lines.place(along)
        with self.b.branch(whole, [Tile(mem_of(source).dtype, ((self.axis, self.items),))]) as (yes, no, found):
            yes.yield_(yes.load(source, place))
            no.yield_(no.load(source, place, no.op("lt", no.index(along), self.lines.extent)))
        return found.results[0]

    def turn(self) -> Value:
        """Tiles in the order in which blocks begin."""
        b = self.b
        box = _shared(b, "index", (1,))
        with b.when(b.op("eq", self.thread, b.const(0, "index"))) as first:
            index = self.lines.count(Affine((), self.lines.passes), Affine.of(self.number.name))
            taken = first.emit(Atomic(operation="add", mem=self.lines.counts, index=index, value=first.const(1, "u64"))).result
            first.store(box, first.cast(taken, "index"), [0])
        b.emit(SyncThreads())
        return b.load(box, [0])

    def ranks(self, digits: Sequence[Value], counts: Value, warp: Value, lane: Value) -> list[Value]:
        """How many elements of the warp with the same digit stand before each of the thread's, and above `RANK` bits the digit: one
        register an element until its place is known. `counts` are each warp's afterwards."""
        b = self.b
        for row in range(WARPS):
            b.store(counts, b.const(0, "i32"), [row, self.thread.name])
        b.emit(SyncThreads())
        one = b.const(1, "u32")
        below = b.sub(b.op("shl", one, b.cast(lane, "u32")), one)
        found = []
        for digit in digits:
            alike = b.emit(Match(mode="any", value=digit)).result
            lanes = b.emit(Bitcast(value=alike, to="u32")).result
            before = bits_set(b, b.op("and", lanes, below))
            place = [warp.name, b.cast(digit, "index").name]
            passed = b.load(counts, place)
            b.emit(WarpSync())
            leader = b.op("eq", before, b.const(0, "i32"))
            b.store(counts, b.add(passed, bits_set(b, lanes)), place, leader)
            b.emit(WarpSync())
            found.append(b.add(b.add(passed, before), b.op("shl", digit, b.const(RANK, "i32"))))
        b.emit(SyncThreads())
        return found

    def ordered_place(self, rank: Value, counts: Value, warp: Value) -> Value:
        """Where an element stands in its tile in the order of digits."""
        b = self.b
        digit = b.cast(b.op("shr", rank, b.const(RANK, "i32")), "index")
        before = b.op("and", rank, b.const((1 << RANK) - 1, "i32"))
        return b.cast(b.add(before, b.load(counts, [warp.name, digit.name])), "index")

    def origins(self, tile: Value, counts: Value, origins: Value, lane: Value, warp: Value) -> None:
        """A digit a thread: `counts` become where the tile's elements of each warp begin, in the order of digits, and `origins` what
        must be added to a place in that order to get the place in the line."""
        b = self.b
        digit = self.thread
        of_warps = [b.load(counts, [row, digit.name]) for row in range(WARPS)]
        total = of_warps[0]
        for count in of_warps[1:]:
            total = b.add(total, count)
        known = _Known(self, tile, digit)
        known.publish(b.select(b.op("eq", tile, b.const(0, "index")), b.const(2, "u64"), b.const(1, "u64")), total)
        whole = b.cast(b.load(self.lines.counts, self.lines.count(Affine.of(self.number.name), Affine.of(digit.name))), "index")
        start = self.scanned(b.cast(total, "index"), lane, warp)
        base = self.scanned(whole, lane, warp)
        passed = b.cast(start, "i32")
        for row, count in enumerate(of_warps):
            b.store(counts, passed, [row, digit.name])
            passed = b.add(passed, count)
        before = known.before()
        with b.when(b.op("gt", tile, b.const(0, "index"))) as later:
            evolve(known, at=later).publish(later.const(2, "u64"), later.add(before, later.cast(total, "index")))
        b.store(origins, b.sub(b.add(base, before), start), [digit.name])
        b.emit(SyncThreads())

    def scanned(self, value: Value, lane: Value, warp: Value) -> Value:
        """What the threads before this one have together."""
        b, zero = self.b, self.b.const(0, "index")
        joined = Joining(b, "add")
        before, total = joined.over_lanes(value, lane, zero)
        memory = _shared(b, "index", (WARPS,))
        first, _ = joined.over_warps(total, warp, zero, memory, WARPS, (), b.op("eq", lane, zero))
        return b.add(first, before)


@frozen
class _Known:
    """What tiles know of a digit, seen from one tile."""

    work: Pass
    tile: Value
    digit: Value
    at: Builder | None = None

    @property
    def b(self) -> Builder:
        return self.at or self.work.b

    def index(self, tile: Value) -> tuple[Affine, ...]:
        return self.work.lines.count(Affine.of(tile.name) + self.work.lines.passes + 1, Affine.of(self.digit.name))

    def states(self, b: Builder, known: Value) -> Value:
        """1: the tile's own count, 2: that of all up to it; numbers of earlier passes are lower."""
        return b.add(b.mul(b.cast(self.work.number, "u64"), b.const(2, "u64")), known)

    def publish(self, known: Value, count: Value) -> None:
        b = self.b
        word = b.op("or", b.op("shl", self.states(b, known), b.const(STATE, "u64")), b.cast(count, "u64"))
        b.emit(Atomic(operation="exchange", mem=self.work.lines.counts, index=self.index(self.tile), value=word))

    def before(self) -> Value:
        """The count of all tiles before this one: from the nearest on back, until one knows of all before it."""
        b = self.b
        one, zero = b.const(1, "index"), b.const(0, "index")
        at, sum_ = b.slot(b.sub(self.tile, one), "at"), b.slot(zero, "sum")
        going = b.slot(b.op("gt", self.tile, zero), "going")
        own, all_ = self.states(b, b.const(1, "u64")), self.states(b, b.const(2, "u64"))
        with b.repeat() as (look, body):
            look.condition(look.get(going))
            place = body.get(at)
            nothing = body.const(0, "u64")
            word = body.emit(Atomic(operation="add", mem=self.work.lines.counts, index=self.index(place), value=nothing)).result
            state = body.op("shr", word, body.const(STATE, "u64"))
            with body.when(body.op("ge", state, own)) as there:
                count = there.cast(there.op("and", word, there.const((1 << STATE) - 1, "u64")), "index")
                there.set(sum_, there.add(there.get(sum_), count))
                there.set(at, there.sub(place, one))
                there.set(going, there.op("lt", state, all_))
        return b.get(sum_)


# ---- helpers -----------------------------------------------------------------------------------------------------


def bits_set(b: Builder, word: Value) -> Value:
    """How many bits of a `u32` are set, as an `i32`: sums of neighbours, which LLVM knows as one instruction."""

    def both(value: Value, mask: int, by: int, join: Callable[[Value, Value], Value] = b.add) -> Value:
        kept = b.const(mask, "u32")
        return join(b.op("and", value, kept), b.op("and", b.op("shr", value, b.const(by, "u32")), kept))

    pairs = b.sub(word, b.op("and", b.op("shr", word, b.const(1, "u32")), b.const(0x55555555, "u32")))
    fours = both(pairs, 0x33333333, 2)
    eights = b.op("and", b.add(fours, b.op("shr", fours, b.const(4, "u32"))), b.const(0x0F0F0F0F, "u32"))
    return b.cast(b.op("shr", b.mul(eights, b.const(0x01010101, "u32")), b.const(24, "u32")), "i32")


def _taken(b: Builder, value: Value, axis: str, item: int) -> Value:
    return b.emit(Take(value=value, axis=axis, at=item)).result


def _shared(b: Builder, dtype: str, extents: Sequence[int]) -> Value:
    return b.emit(SharedAlloc(type=Mem(dtype, tuple(extents), space=Space.SHARED, align=16)), "shared").result

