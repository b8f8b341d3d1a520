"""Look-back in a fixed order: what stands before a tile, while all tiles are under way. A tile publishes what its own elements make; the
last tile of 32 publishes what the 32 make, as soon as it knows them; the last of 32 such groups what everything up to there makes. A
tile then joins three things: the tiles of its group before it, the groups of its row of groups before its own, and everything
before those. Which of them are ready first changes nothing in how they are joined, so the bits are the same in every run, and the one
chain from tile to tile has a link for 1024 of them.

After the decoupled look-back of Merrill and Garland, which joins what happens to be there.

A value travels in words of 32 bits, each beside its own flag in one 64-bit word: relaxed accesses are enough."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import dtype_of
from compiler.hir.gpu import Atomic, Vote
from compiler.hir.instruction import Value
from compiler.hir.memory import mem_of
from compiler.hir.types import DTYPES, Mem
from compiler.schedule.gpu.library.number_bits import bits_of, from_bits, unsigned
from compiler.schedule.gpu.tiles.reduction import combined, identities, of_first_lane, over_lanes
from runtime.records import frozen

GROUP = 32
"""Tiles of a group, and groups of a row of groups: one for each lane of the warp that looks, which must have as many."""

FLAG = 1 << 32


@frozen
class LookBack:
    """The memories of one running value: `tiles` and `groups` hold totals, `rows` of groups what everything up to their end makes. Their
    dims are those of independent scans, then tiles (groups, rows of groups), then the words of a value."""

    monoid: str
    dtype: str
    tiles: Value
    groups: Value
    rows: Value

    @staticmethod
    def made(b: Builder, monoid: str, dtype: str, around: Sequence[Affine], tiles: Affine) -> "LookBack":
        words = Affine((), words_of(dtype))
        levels = (tiles, tiles.ceildiv(GROUP), tiles.ceildiv(GROUP * GROUP))
        memories = [b.alloc(Mem("u64", (*around, count, words), align=64), "known") for count in levels]
        return LookBack(monoid, dtype, *memories)

    def clear(self, b: Builder, around: Sequence[str], tile: Value, level: int = 0) -> None:
        """Nothing is known yet: one thread's part, that of a tile."""
        memory, *above = (self.tiles, self.groups, self.rows)[level:]
        for word in range(words_of(self.dtype)):
            b.store(memory, b.const(0, "u64"), [*around, tile.name, Affine((), word)])
        if above:
            many = b.const(GROUP, "index")
            with b.when(b.op("eq", b.op("rem", tile, many), b.const(0, "index"))) as first:
                self.clear(first, around, first.op("div", tile, many), level + 1)

    def before(self, b: Builder, around: Sequence[str], tile: Value, total: Value, lane: Value) -> Value:
        """What stands before the tile, whose own elements make `total`. For all lanes of one warp."""
        many, last = b.const(GROUP, "index"), b.const(GROUP - 1, "index")
        group, in_group = b.op("div", tile, many), b.op("rem", tile, many)
        row, in_row = b.op("div", group, many), b.op("rem", group, many)
        zero = b.const(0, "index")
        first = b.op("eq", lane, zero)
        self.publish(b, self.tiles, around, tile, total, first)
        near = _Awaited(self, b, self.tiles, around, b.add(b.mul(group, many), lane), b.op("lt", lane, in_group))
        far = _Awaited(self, b, self.groups, around, b.add(b.mul(row, many), lane), b.op("lt", lane, in_row))
        above = b.op("max", b.sub(row, b.const(1, "index")), zero)
        farthest = _Awaited(self, b, self.rows, around, above, b.op("and", first, b.op("gt", row, zero)))
        _wait(b, [near])
        in_front = self.of_all_lanes(b, near.value(b))
        through = self.joined(b, in_front, total)
        ends = b.op("eq", in_group, last)
        self.publish(b, self.groups, around, group, through, b.op("and", first, ends))
        _wait(b, [far, farthest])
        lead = self.of_all_lanes(b, self.joined(b, farthest.value(b), far.value(b)))
        ends = b.op("and", ends, b.op("eq", in_row, last))
        self.publish(b, self.rows, around, row, self.joined(b, lead, through), b.op("and", first, ends))
        return self.joined(b, lead, in_front)

    def joined(self, b: Builder, left: Value, right: Value) -> Value:
        return combined(b, self.monoid, [left], [right])[0]

    def of_all_lanes(self, b: Builder, value: Value) -> Value:
        """What all lanes make, in every lane."""
        return of_first_lane(b, over_lanes(b, self.monoid, [value], GROUP))[0]

    def publish(self, b: Builder, memory: Value, around: Sequence[str], tile: Value, value: Value, where: Value) -> None:
        with b.when(where) as inner:
            for number, word in enumerate(as_words(inner, value)):
                flagged = inner.op("or", inner.cast(word, "u64"), inner.const(FLAG, "u64"))
                index = (*around, tile.name, Affine((), number))
                # An exchange, though nobody wants what was there: stores are seen so late that scans take a quarter longer.
                inner.emit(Atomic(operation="exchange", mem=memory, index=index, value=flagged))


class _Awaited:
    """One published value a lane: where `needed` it is waited for, else it is the identity."""

    def __init__(self, look_back: LookBack, b: Builder, memory: Value, around: Sequence[str], tile: Value, needed: Value) -> None:
        self.look_back, self.memory, self.needed = look_back, memory, needed
        self.place = (*around, b.select(needed, tile, b.const(0, "index")).name)
        self.words = [b.slot(word, "word") for word in self.read(b)]

    def read(self, b: Builder) -> list[Value]:
        """What is there now. A sum with 0 is a read that other blocks' writes come through to."""
        nothing = b.const(0, "u64")
        count = mem_of(self.memory).dims[-1].value or 0
        indices = [(*self.place, Affine((), number)) for number in range(count)]
        return [b.emit(Atomic(operation="add", mem=self.memory, index=index, value=nothing)).result for index in indices]

    def again(self, b: Builder) -> None:
        for slot, word in zip(self.words, self.read(b), strict=True):
            b.set(slot, word)

    def ready(self, b: Builder) -> Value:
        ready = b.op("not", self.needed)
        there = None
        for slot in self.words:
            flag = b.op("ge", b.get(slot), b.const(FLAG, "u64"))
            there = b.both(there, flag)
        assert there is not None
        return b.op("or", ready, there)

    def value(self, b: Builder) -> Value:
        words = [b.cast(b.get(slot), "u32") for slot in self.words]
        (nothing,) = identities(b, self.look_back.monoid, [self.look_back.dtype])
        return b.select(self.needed, from_words(b, words, self.look_back.dtype), nothing)


def _wait(b: Builder, values: Sequence[_Awaited]) -> None:
    """Until all lanes have what they need."""
    with b.repeat() as (before, body):
        ready = values[0].ready(before)
        for value in values[1:]:
            ready = before.op("and", ready, value.ready(before))
        before.condition(before.op("not", before.emit(Vote(operation="all", predicate=ready)).result))
        for value in values:
            value.again(body)


# ---- values as words ---------------------------------------------------------------------------------------------


def words_of(dtype: str) -> int:
    return -(-DTYPES[dtype] // 32)


def as_words(b: Builder, value: Value) -> list[Value]:
    """The bits of a number, as `u32`."""
    bits = bits_of(b, value)
    if words_of(dtype_of(value)) == 1:
        return [b.cast(bits, "u32")]
    return [b.cast(bits, "u32"), b.cast(b.op("shr", bits, b.const(32, "u64")), "u32")]


def from_words(b: Builder, words: Sequence[Value], dtype: str) -> Value:
    """The number of these bits."""
    if len(words) == 2:
        high = b.op("shl", b.cast(words[1], "u64"), b.const(32, "u64"))
        return from_bits(b, b.op("or", high, b.cast(words[0], "u64")), dtype)
    return from_bits(b, b.cast(words[0], unsigned(dtype)), dtype)
