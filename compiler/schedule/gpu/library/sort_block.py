"""A line that fits a block, sorted by it: the keys and their places go through all passes in shared memory, and what goes along is
fetched once, when the places are known. Every element is read once and written once."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import SyncThreads, WarpSync
from compiler.hir.instruction import Value
from compiler.hir.types import DTYPES
from compiler.schedule.gpu.library.digit_ranks import Ranking
from compiler.schedule.gpu.library.number_bits import bits_of, from_bits
from compiler.schedule.gpu.library.sort_source import SortSource
from compiler.schedule.gpu.library.sorting import DIGIT, WARP, SortedLines, shared, taken
from runtime.records import frozen

LONGEST = 4096
"""Elements of a line that a block sorts."""

SHORTEST = 16
"""Elements that threads merge as fast."""

EACH = 8
"""Elements of a thread, as far as threads of a block go."""

MOST_THREADS = 512

RESIDENT = 1024
"""Threads that a multiprocessor holds at once, at least, from sm_80 on."""

PLACE = "u16"


def shape_of(most: int) -> tuple[int, int]:
    """Threads of the block for a line of so many elements at most, a power of two, and elements of a thread."""
    threads = min(MOST_THREADS, max(WARP, most // EACH))
    return threads, max(1, most // threads)


@frozen
class BlockSort:
    """One thread's part: from `here` to the memories `there`, keys first, which `here` may read. `axis` is of `items` registers."""

    b: Builder
    lines: SortedLines
    here: SortSource
    there: Sequence[Value]
    thread: Value
    threads: int
    axis: str
    items: int

    def build(self) -> None:
        b, digits = self.b, self.lines.digits
        ranking = Ranking.made(b, self.thread, self.threads)
        lane, warp = ranking.lane_and_warp(b)
        along = Affine.of(warp.name) * (self.items * WARP) + Affine.of(self.axis) * WARP + lane.name
        inside = b.op("lt", b.index(along), self.lines.extent)
        tile = self.items * self.threads
        words = shared(b, digits.word, (tile,))
        places = shared(b, PLACE, (tile,)) if len(self.there) > 1 else None
        # What lies behind the end comes behind everything.
        keys = b.select(inside, self.here(b, 0, self.lines.place(along), inside), b.const(digits.last, digits.dtype))
        b.store(words, bits_of(b, keys), [along])
        if places is not None:
            b.store(places, b.cast(b.index(along), PLACE), [along])
        box = shared(b, "index", (1,))
        with b.loop("pass", 0, -(-DTYPES[digits.word] // DIGIT)) as (body, loop):
            shift = body.index(Affine.of(loop.variable.name) * DIGIT)
            body.store(box, shift, [0], body.op("eq", self.thread, body.const(0, "index")))
            self.one_pass(body, ranking, along, words, places, shift, box)
        self.write(words, places)

    def one_pass(self, b: Builder, ranking: Ranking, along: Affine, words: Value, places: Value | None, shift: Value, box: Value) -> None:
        """The digits that begin at `shift`; `box` holds it too, so that digits are computed again when they are wanted, not kept in
        registers."""
        ranking.clear(b)
        b.emit(WarpSync())
        memories = [words] if places is None else [words, places]
        held = [b.load(memory, [along]) for memory in memories]
        ranking.count(b, self.digits(b, held[0], shift))
        b.emit(SyncThreads())
        ranking.begin_all(b)
        for item, rank in enumerate(ranking.ranks(b, self.digits(b, held[0], b.load(box, [0])))):
            for memory, values in zip(memories, held, strict=True):
                b.store(memory, taken(b, values, self.axis, item), [b.cast(rank, "index").name])
        b.emit(SyncThreads())

    def digits(self, b: Builder, words: Value, shift: Value) -> list[Value]:
        digits = self.lines.digits
        digit = digits.digit(b, digits.ordered(b, from_bits(b, words, digits.dtype)), shift)
        return [taken(b, digit, self.axis, item) for item in range(self.items)]

    def write(self, words: Value, places: Value | None) -> None:
        """What goes along is read before any of it is written."""
        b = self.b
        slot = Affine.of(self.axis) * self.threads + self.thread.name
        inside = b.op("lt", b.index(slot), self.lines.extent)
        values = [from_bits(b, b.load(words, [slot]), self.lines.digits.dtype)]
        if places is not None:
            source = self.lines.place(Affine.of(b.cast(b.load(places, [slot]), "index").name))
            values += [self.here(b, position, source, inside) for position in range(1, len(self.there))]
            b.emit(SyncThreads())
        for target, value in zip(self.there, values, strict=True):
            b.store(target, value, self.lines.place(slot), inside)
