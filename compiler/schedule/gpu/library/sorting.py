"""Sorting by digits of 8 bits, the lowest first ("onesweep" of Adinets and Merrill): the digits of all passes are counted in one read; then
each pass (`sort_pass.py`) reads every element once and writes it once, to where its digit stands.

Lines along an axis are sorted beside each other: each has counts of its own, a memory `(..., P + 1 + tiles, 256)` of 64-bit words: for
each of the P passes how often each digit occurs, then what numbers the tiles of each pass, then what each tile knows of each digit:
nothing of this pass yet; its own count; the count of all tiles up to it, and of all lower digits."""

from collections.abc import Sequence
from math import nan

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Take
from compiler.hir.gpu import Atomic, SharedAlloc, SyncThreads
from compiler.hir.instruction import Value
from compiler.hir.library import Sort
from compiler.hir.memory import mem_of
from compiler.hir.types import DTYPES, Mem, Space, bytes_of, is_float, is_signed
from compiler.schedule.gpu.library.number_bits import bits_of, unsigned
from compiler.schedule.gpu.library.sort_source import SortSource
from runtime.records import frozen

WARP = 32
"""Lanes of a warp that ranks digits: what they vote is one word."""

THREADS = 256
DIGIT = 8
DIGITS = 1 << DIGIT
"""A thread of a block for each of them."""

PASS_THREADS = 384
"""Of a block in a pass: from sm_80 on two such blocks, with 80 registers a thread, fit a multiprocessor."""

LEAST_ITEMS, MOST_ITEMS = 8, 20
"""Elements of a thread in a pass: they are in registers."""

TILE_BYTES = 48 << 10
"""Of a block's elements in shared memory, at most: with the counts of its warps what a block of any GPU may have."""

COUNTED = 8
"""Elements of a thread that are counted together."""

TURNS = 16
"""How often a block counts so many, at most: fewer times where there would be too few blocks."""

FEWEST = 2048
"""Elements of a line that are worth counting: shorter ones are merged. No more than a tile has."""

FEW_TILES = 48
"""Of one line up to which tiles are smaller than a block could take: a pass then lasts as long as a block needs for its tile."""

ALWAYS = 1 << 40
"""No line is so long."""


Number = float | int | bool


def items_of(sort: Sort, most: int | None = None) -> int:
    """Elements of a thread in a pass, by the widest thing that it moves, and by how many elements there are at `most`."""
    widest = max(bytes_of(mem_of(memory).dtype) for memory in (sort.keys, *sort.payload))
    items = min(MOST_ITEMS, TILE_BYTES // (PASS_THREADS * widest))
    alone = most is not None and len(mem_of(sort.keys).dims) == 1
    return min(items, max(LEAST_ITEMS, -(-(most or 0) // (FEW_TILES * PASS_THREADS)))) if alone else items


def shifts(sort: Sort) -> tuple[int, ...]:
    """Where the digit of each pass begins; an even number of passes, so that what goes there comes back."""
    dtype = mem_of(sort.keys).dtype
    digit_shifts = list(range(0, sort.bits or DTYPES[dtype], DIGIT))
    return tuple(digit_shifts if len(digit_shifts) % 2 == 0 else [*digit_shifts, digit_shifts[-1] + DIGIT // 2])


def counts_memory(sort: Sort) -> Mem:
    """The counts of all lines; no memory at all where there may be many, too short for counts."""
    dims = list(mem_of(sort.keys).dims)
    extent = dims.pop(sort.axis)
    worth = (extent + (ALWAYS - FEWEST)).floordiv(ALWAYS) if dims else Affine((), 1)
    rows = extent.floordiv(PASS_THREADS * items_of(sort)) + worth * (len(shifts(sort)) + 2) + (0 if dims else FEW_TILES)
    return Mem("u64", (*dims, rows, Affine((), DIGITS)), align=64)


@frozen
class Digits:
    """The keys of one sort as numbers without sign, whose order is the sort's."""

    dtype: str
    descending: bool

    @property
    def word(self) -> str:
        return unsigned(self.dtype)

    @property
    def last(self) -> Number:
        """A key that comes behind all others, or among the last of them."""
        if is_float(self.dtype):
            return nan
        if self.dtype == "i1":
            return not self.descending
        signed, bits = is_signed(self.dtype), DTYPES[self.dtype]
        if self.descending:
            return -(1 << (bits - 1)) if signed else 0
        return (1 << (bits - signed)) - 1

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
        digit = b.op("and", b.op("shr", ordered, b.cast(shift, self.word)), b.const(DIGITS - 1, self.word))
        return b.cast(digit, "i32")


@frozen
class SortedLines:
    """The lines of a sort in one launch: the memory of their counts, where they have any, and the line that a block works at."""

    sort: Sort
    memory: Value | None
    around: tuple[str, ...]
    extent: Value

    @property
    def counts(self) -> Value:
        assert self.memory is not None, "lines that are counted"
        return self.memory

    @property
    def digits(self) -> Digits:
        return Digits(mem_of(self.sort.keys).dtype, self.sort.descending)

    @property
    def passes(self) -> int:
        return len(shifts(self.sort))

    def place(self, along: Affine) -> list[Affine]:
        """Where an element of the line is."""
        index = [Affine.of(name) for name in self.around]
        index.insert(self.sort.axis, along)
        return index

    def count(self, row: Affine, digit: Affine) -> tuple[Affine, ...]:
        """A word of the line's counts."""
        return (*map(Affine.of, self.around), row, digit)


def line_of(b: Builder, sort: Sort, counts: Value | None, keys: Value, block: Value, each: Value) -> tuple[SortedLines, Value]:
    """The line of a block, of which each has so many blocks, and the block's number among these."""
    dims = [b.index(dim) for dim in mem_of(keys).dims]
    extent = dims.pop(sort.axis)
    rest, number = b.op("div", block, each), b.op("rem", block, each)
    around: list[str] = []
    for dim in reversed(dims):
        around.insert(0, b.op("rem", rest, dim).name)
        rest = b.op("div", rest, dim)
    return SortedLines(sort, counts, tuple(around), extent), number


# ---- counting ----------------------------------------------------------------------------------------------------


def count_digits(b: Builder, lines: SortedLines, keys: SortSource, number: Value, thread: Value, axis: str, turns: int) -> None:
    """One thread's part in counting the digits of all passes; `number` is the block's in its line, `axis` one of `COUNTED` registers."""
    digits = lines.digits
    own = shared(b, "u32", (lines.passes, DIGITS))
    for row in range(lines.passes):
        b.store(own, b.const(0, "u32"), [row, thread.name])
    b.emit(SyncThreads())
    with b.loop("turn", 0, turns) as (body, loop):
        first = Affine.of(number.name) * (turns * COUNTED * THREADS) + Affine.of(loop.variable.name) * (COUNTED * THREADS)
        position = first + Affine.of(axis) * THREADS + thread.name
        inside = body.inbounds(position, lines.extent.name)
        ordered = digits.ordered(body, keys(body, 0, lines.place(position), inside))
        for item in range(COUNTED):
            with body.when(taken(body, inside, axis, item)) as counted:
                key = taken(counted, ordered, axis, item)
                for row, shift in enumerate(shifts(lines.sort)):
                    digit = counted.cast(digits.digit(counted, key, counted.const(shift, "index")), "index")
                    index = (Affine((), row), Affine.of(digit.name))
                    counted.emit(Atomic(operation="add", mem=own, index=index, value=counted.const(1, "u32"), scope="block"))
    b.emit(SyncThreads())
    for row in range(lines.passes):
        count = b.cast(b.load(own, [row, thread.name]), "u64")
        with b.when(b.op("ne", count, b.const(0, "u64"))) as some:
            total = lines.count(Affine((), row), Affine.of(thread.name))
            some.emit(Atomic(operation="add", mem=lines.counts, index=total, value=count))


# ---- helpers -----------------------------------------------------------------------------------------------------


def taken(b: Builder, value: Value, axis: str, item: int) -> Value:
    return b.emit(Take(value=value, axis=axis, at=item)).result


def shared(b: Builder, dtype: str, extents: Sequence[int]) -> Value:
    return b.emit(SharedAlloc(type=Mem(dtype, tuple(extents), space=Space.SHARED, align=16)), "shared").result
