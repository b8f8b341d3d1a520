"""A pass of a sort by digits. A block takes a tile, counts the digits of each of its warps, tells the tiles behind how many of each it has,
and orders its elements by digit in shared memory, so that neighbours are written together. Lanes with the same digit find each other by
votes on its bits. What stands before the tile is learned by look-back, last, when most of it is known. Equal keys keep their order."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import Atomic, SyncThreads
from compiler.hir.instruction import Value
from compiler.hir.memory import mem_of
from compiler.hir.types import Tile, bytes_of
from compiler.schedule.gpu.library.digit_ranks import Ranking
from compiler.schedule.gpu.library.number_bits import bits_of, from_bits, unsigned
from compiler.schedule.gpu.library.sort_source import SortSource
from compiler.schedule.gpu.library.sorting import DIGITS, PASS_THREADS, WARP, SortedLines, shared, taken
from runtime.records import frozen

WINDOW = 4
"""Tiles that a look back asks at once."""

STATE = 48
"""Bits of a count; above them is what is known."""


@frozen
class Pass:
    """One thread's part in a pass, from `here` to the memories `there`, keys first: `number` counts the passes, the digit begins at
    `shift`. `axis` is of `items` registers."""

    b: Builder
    lines: SortedLines
    here: SortSource
    there: Sequence[Value]
    number: Value
    shift: Value
    thread: Value
    axis: str
    items: int

    @property
    def tile(self) -> int:
        return self.items * PASS_THREADS

    def build(self) -> None:
        b = self.b
        ranking = Ranking.made(b, self.thread, PASS_THREADS)
        lane, warp = ranking.lane_and_warp(b)
        origins = shared(b, "index", (DIGITS,))
        ranking.clear(b)
        tile, shift = self.turn()
        first = b.mul(tile, b.const(self.tile, "index"))
        within = Affine.of(warp.name) * (self.items * WARP) + Affine.of(self.axis) * WARP + lane.name
        left = b.sub(self.lines.extent, first)
        whole = b.op("ge", left, b.const(self.tile, "index"))
        along = within + first.name
        keys = self.keys(along, whole)
        ranking.count(b, self.digits(keys, self.shift))
        b.emit(SyncThreads())
        known, total, start = self.told(tile, ranking)
        words = unsigned(max((mem_of(memory).dtype for memory in self.there), key=bytes_of))
        buffer = shared(b, words, (self.tile,))
        ranks = ranking.ranks(b, self.digits(keys, shift))
        self.put(b, keys, ranks, buffer)
        self.origins(tile, known, total, start, origins, ranking)
        b.emit(SyncThreads())
        with b.branch(whole) as (yes, no, _):
            digits = self.write(yes, self.there[0], buffer, origins, shift)
            for position, target in enumerate(self.there[1:], 1):
                values = self.here(yes, position, self.lines.place(along), None)
                yes.emit(SyncThreads())
                self.put(yes, values, ranks, buffer)
                yes.emit(SyncThreads())
                self.write(yes, target, buffer, origins, shift, digits=digits)
            self.write(no, self.there[0], buffer, origins, shift, end=left)
            if len(self.there) > 1:
                self.write_alone(no, along, ranks, origins, shift)

    def write(
        self,
        b: Builder,
        target: Value,
        buffer: Value,
        origins: Value,
        shift: Value,
        digits: Sequence[Value] = (),
        end: Value | None = None,
    ) -> list[Value]:
        """What stands in the tile, in the order of digits, to where it belongs, up to `end`. The digits are those of the keys, which this
        gives where they are written."""
        dtype = mem_of(target).dtype
        all_digits = list(digits)
        for item in range(self.items):
            position = b.index(Affine.of(self.thread.name) + item * PASS_THREADS)
            value = from_bits(b, b.cast(b.load(buffer, [position.name]), unsigned(dtype)), dtype)
            if not digits:
                all_digits.append(self.digit(b, value, shift))
            to = b.add(b.load(origins, [b.cast(all_digits[item], "index").name]), position)
            b.store(target, value, self.lines.place(Affine.of(to.name)), None if end is None else b.op("lt", position, end))
        return all_digits

    def write_alone(self, b: Builder, along: Affine, ranks: Sequence[Value], origins: Value, shift: Value) -> None:
        """What goes along with the keys of a tile that isn't full, of which a line has one: each element by itself."""
        for item, rank in enumerate(ranks):
            position_ = b.index(along.substitute({self.axis: item}))
            with b.when(b.op("lt", position_, self.lines.extent)) as some:
                index = self.lines.place(Affine.of(position_.name))
                key, *values = [self.here(some, position, index, None) for position in range(len(self.there))]
                origin = some.load(origins, [some.cast(self.digit(some, key, shift), "index").name])
                to = self.lines.place(Affine.of(some.add(origin, some.cast(rank, "index")).name))
                for target, value in zip(self.there[1:], values, strict=True):
                    some.store(target, value, to)

    def digit(self, b: Builder, key: Value, shift: Value) -> Value:
        return self.lines.digits.digit(b, self.lines.digits.ordered(b, key), shift)

    def digits(self, keys: Value, shift: Value) -> list[Value]:
        digit = self.digit(self.b, keys, shift)
        return [taken(self.b, digit, self.axis, item) for item in range(self.items)]

    def keys(self, along: Affine, whole: Value) -> Value:
        """The thread's keys; behind the end of the line those that come behind everything."""
        b, index, dtype = self.b, self.lines.place(along), self.lines.digits.dtype
        with b.branch(whole, [Tile(dtype, ((self.axis, self.items),))]) as (yes, no, chosen):
            yes.yield_(self.here(yes, 0, index, None))
            inside = no.op("lt", no.index(along), self.lines.extent)
            no.yield_(no.select(inside, self.here(no, 0, index, inside), no.const(self.lines.digits.last, dtype)))
        return chosen.results[0]

    def put(self, b: Builder, values: Value, ranks: Sequence[Value], buffer: Value) -> None:
        """The thread's elements to where they stand in the tile."""
        bits = b.cast(bits_of(b, values), mem_of(buffer).dtype)
        for item, rank in enumerate(ranks):
            b.store(buffer, taken(b, bits, self.axis, item), [b.cast(rank, "index").name])

    def turn(self) -> tuple[Value, Value]:
        """Tiles in the order in which blocks begin; and the shift: as it isn't known to be the parameter, digits that were counted are
        computed again when they are wanted, not kept in registers."""
        b = self.b
        box = shared(b, "index", (2,))
        with b.when(b.op("eq", self.thread, b.const(0, "index"))) as first:
            index = self.lines.count(Affine((), self.lines.passes), Affine.of(self.number.name))
            got = first.emit(Atomic(operation="add", mem=self.lines.counts, index=index, value=first.const(1, "u64"))).result
            first.store(box, first.cast(got, "index"), [0])
            first.store(box, self.shift, [1])
        b.emit(SyncThreads())
        return b.load(box, [0]), b.load(box, [1])

    def told(self, tile: Value, ranking: Ranking) -> tuple["_KnownCounts", Value, Value]:
        """A digit a thread: its count in the tile is published, and each warp's becomes where its elements begin in the order of digits.
        Gives what is known of the digit, its count, and where it begins."""
        b = self.b
        digit = b.op("min", self.thread, b.const(DIGITS - 1, "index"))
        mine = b.op("lt", self.thread, b.const(DIGITS, "index"))
        total = b.select(mine, ranking.total(b, digit), b.const(0, "u32"))
        known = _KnownCounts(self, tile, digit, mine)
        known.publish(b, 1, b.cast(total, "u64"), b.op("and", mine, b.op("gt", tile, b.const(0, "index"))))
        start, _ = ranking.scanned(b, total)
        with b.when(mine) as some:
            ranking.begin(some, digit, start)
        b.emit(SyncThreads())
        return known, total, start

    def origins(self, tile: Value, known: "_KnownCounts", total: Value, start: Value, origins: Value, ranking: Ranking) -> None:
        """What must be added to a place in the tile, in the order of digits, to get the place in the line."""
        b = self.b
        zero = b.const(0, "index")
        base = b.slot(zero, "base")
        with b.when(b.op("eq", tile, zero)) as first:
            index = self.lines.count(Affine.of(self.number.name), Affine.of(known.digit.name))
            whole = first.select(known.mine, first.cast(first.load(self.lines.counts, index), "index"), zero)
            first.set(base, ranking.scanned(first, whole)[0])
        with b.when(known.mine) as some:
            before = some.add(some.get(base), known.before(some))
            known.publish(some, 2, some.cast(some.add(before, some.cast(total, "index")), "u64"))
            some.store(origins, some.sub(before, some.cast(start, "index")), [known.digit.name])


@frozen
class _KnownCounts:
    """What tiles know of a digit, seen from one tile."""

    work: Pass
    tile: Value
    digit: Value
    mine: Value

    def index(self, tile: Value) -> tuple[Affine, ...]:
        return self.work.lines.count(Affine.of(tile.name) + self.work.lines.passes + 1, Affine.of(self.digit.name))

    def states(self, b: Builder, known: int) -> Value:
        """1: the tile's own count, 2: that of all up to it; numbers of earlier passes are lower."""
        return b.add(b.mul(b.cast(self.work.number, "u64"), b.const(2, "u64")), b.const(known, "u64"))

    def publish(self, b: Builder, known: int, count: Value, where: Value | None = None) -> None:
        if where is not None:
            with b.when(where) as some:
                self.publish(some, known, count)
            return
        word = b.op("or", b.op("shl", self.states(b, known), b.const(STATE, "u64")), count)
        b.emit(Atomic(operation="exchange", mem=self.work.lines.counts, index=self.index(self.tile), value=word))

    def before(self, b: Builder) -> Value:
        """The count of all tiles before this one: from the nearest on back, until one knows of all before it."""
        unit, zero = b.const(1, "index"), b.const(0, "index")
        at, sum_ = b.slot(b.sub(self.tile, unit), "at"), b.slot(zero, "sum")
        going = b.slot(b.op("gt", self.tile, zero), "going")
        own, all_ = self.states(b, 1), self.states(b, 2)
        with b.repeat() as (look, body):
            look.condition(look.get(going))
            tile = body.get(at)
            nothing = body.const(0, "u64")
            words = []
            for back in range(WINDOW):
                there = tile if back == 0 else body.op("max", body.sub(tile, body.const(back, "index")), zero)
                words.append(body.emit(Atomic(operation="add", mem=self.work.lines.counts, index=self.index(there), value=nothing)).result)
            more = body.const(True, "i1")
            passed, count = body.get(sum_), zero
            for word in words:
                state = body.op("shr", word, body.const(STATE, "u64"))
                there = body.op("and", more, body.op("ge", state, own))
                count = body.cast(body.op("and", word, body.const((1 << STATE) - 1, "u64")), "index")
                passed = body.add(passed, body.select(there, count, zero))
                tile = body.sub(tile, body.select(there, unit, zero))
                with body.when(body.op("and", there, body.op("ge", state, all_))) as done:
                    done.set(going, done.const(False, "i1"))
                more = body.op("and", there, body.op("lt", state, all_))
            body.set(sum_, passed)
            body.set(at, tile)
        return b.get(sum_)
