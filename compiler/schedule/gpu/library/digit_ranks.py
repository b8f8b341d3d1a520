"""Ranking by digits within a block: where each element of its tile stands when they are ordered by one digit, equal ones as they stood.
Each warp counts its digits by itself; a thread a digit adds them up; then each warp goes through its elements in order, and lanes with
the same digit find each other by votes on its bits."""

from collections.abc import Callable, Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Bitcast, dtype_of
from compiler.hir.gpu import Atomic, SyncThreads, Vote, WarpSync
from compiler.hir.instruction import Value
from compiler.schedule.gpu.library.block_scan import Joining
from compiler.schedule.gpu.library.sorting import DIGIT, DIGITS, WARP, shared
from runtime.records import frozen


@frozen
class Ranking:
    """The threads of a block that rank, and `counts`, shared: a row a warp, a word a digit."""

    thread: Value
    threads: int
    counts: Value

    @staticmethod
    def made(b: Builder, thread: Value, threads: int) -> "Ranking":
        return Ranking(thread, threads, shared(b, "u32", (threads // WARP, DIGITS)))

    @property
    def warps(self) -> int:
        return self.threads // WARP

    def lane_and_warp(self, b: Builder) -> tuple[Value, Value]:
        width = b.const(WARP, "index")
        return b.op("rem", self.thread, width), b.op("div", self.thread, width)

    def clear(self, b: Builder) -> None:
        """Nothing counted: each warp's own row."""
        lane, warp = self.lane_and_warp(b)
        for number in range(DIGITS // WARP):
            b.store(self.counts, b.const(0, "u32"), [warp.name, Affine.of(lane.name) + number * WARP])

    def count(self, b: Builder, digits: Sequence[Value]) -> None:
        """Each warp's, in its row; for all to see after a barrier."""
        _, warp = self.lane_and_warp(b)
        for digit in digits:
            index = (Affine.of(warp.name), Affine.of(b.cast(digit, "index").name))
            b.emit(Atomic(operation="add", mem=self.counts, index=index, value=b.const(1, "u32"), scope="block"))

    def total(self, b: Builder, digit: Value) -> Value:
        """How many elements of the tile have the digit."""
        total = b.load(self.counts, [0, digit.name])
        for row in range(1, self.warps):
            total = b.add(total, b.load(self.counts, [row, digit.name]))
        return total

    def begin(self, b: Builder, digit: Value, start: Value) -> None:
        """Counts of a digit become where each warp's elements with it begin, the first at `start`."""
        for row in range(self.warps):
            count = b.load(self.counts, [row, digit.name])
            b.store(self.counts, start, [row, digit.name])
            start = b.add(start, count)

    def scanned(self, b: Builder, value: Value) -> tuple[Value, Value]:
        """What the threads before this one have together, of the first 256, and what all these have."""
        lane, warp = self.lane_and_warp(b)
        zero = b.const(0, dtype_of(value))
        joined = Joining(b, "add")
        before, total = joined.over_lanes(value, lane, zero)
        memory = shared(b, dtype_of(value), (self.warps,))
        warps = min(self.warps, DIGITS // WARP)
        first, all_ = joined.over_warps(total, warp, zero, memory, warps, (), b.op("eq", lane, b.const(0, "index")))
        return b.add(first, before), all_

    def begin_all(self, b: Builder) -> None:
        """Counts become where each warp's elements with each digit begin, for all threads to see."""
        start = b.const(0, "u32")
        for first in range(0, DIGITS, self.threads):
            digit = b.index(Affine.of(self.thread.name) + first)
            mine = b.op("lt", digit, b.const(DIGITS, "index"))
            digit = b.op("min", digit, b.const(DIGITS - 1, "index"))
            before, passed = self.scanned(b, b.select(mine, self.total(b, digit), b.const(0, "u32")))
            with b.when(mine) as some:
                self.begin(some, digit, some.add(start, before))
            start = b.add(start, passed)
        b.emit(SyncThreads())

    def ranks(self, b: Builder, digits: Sequence[Value]) -> list[Value]:
        """Where each of the thread's elements stands in the tile, in the order of digits."""
        lane, warp = self.lane_and_warp(b)
        unit = b.const(1, "u32")
        below = b.sub(b.op("shl", unit, b.cast(lane, "u32")), unit)
        ranks = []
        for digit in digits:
            lanes = alike(b, digit)
            before = bits_set(b, b.op("and", lanes, below))
            index = [warp.name, b.cast(digit, "index").name]
            passed = b.load(self.counts, index)
            b.emit(WarpSync())
            b.store(self.counts, b.add(passed, bits_set(b, lanes)), index, b.op("eq", before, b.const(0, "u32")))
            b.emit(WarpSync())
            ranks.append(b.add(passed, before))
        return ranks


def alike(b: Builder, digit: Value) -> Value:
    """The lanes that hold the same digit, as a `u32`."""
    lanes: Value | None = None
    for bit in range(DIGIT):
        has = b.op("ne", b.op("and", digit, b.const(1 << bit, "i32")), b.const(0, "i32"))
        vote = b.emit(Bitcast(value=b.emit(Vote(operation="ballot", predicate=has)).result, to="u32")).result
        same = b.op("xor", vote, b.select(has, b.const(0, "u32"), b.const((1 << 32) - 1, "u32")))
        lanes = b.both(lanes, same)
    assert lanes is not None
    return lanes


def bits_set(b: Builder, word: Value) -> Value:
    """How many bits of a `u32` are set: sums of neighbours, which LLVM knows as one instruction."""

    def both(value: Value, mask: int, by: int, join: Callable[[Value, Value], Value] = b.add) -> Value:
        mask_ = b.const(mask, "u32")
        return join(b.op("and", value, mask_), b.op("and", b.op("shr", value, b.const(by, "u32")), mask_))

    pairs = b.sub(word, b.op("and", b.op("shr", word, b.const(1, "u32")), b.const(0x55555555, "u32")))
    fours = both(pairs, 0x33333333, 2)
    eights = b.op("and", b.add(fours, b.op("shr", fours, b.const(4, "u32"))), b.const(0x0F0F0F0F, "u32"))
    return b.op("shr", b.mul(eights, b.const(0x01010101, "u32")), b.const(24, "u32"))
