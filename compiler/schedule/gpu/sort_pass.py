"""A pass of a sort by digits. A block takes a tile, counts the digits of each of its warps, tells the tiles behind how many of each it has,
and orders its elements by digit in shared memory, so that neighbours are written together. Lanes with the same digit find each other by
votes on its bits. What stands before the tile is learned by look-back, last, when most of it is known. Equal keys keep their order."""

from collections.abc import Callable, Sequence

from attrs import frozen

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Bitcast, dtype_of
from compiler.hir.gpu import Atomic, SyncThreads, Vote, WarpSync
from compiler.hir.instruction import Value
from compiler.hir.memory import mem_of
from compiler.hir.types import Tile, bytes_of
from compiler.schedule.gpu.block_scan import WARP, Joining
from compiler.schedule.gpu.number_bits import bits_of, from_bits, unsigned
from compiler.schedule.gpu.sort_source import Source
from compiler.schedule.gpu.sorting import DIGIT, DIGITS, PASS_THREADS, Lines, shared, taken

WARPS = PASS_THREADS // WARP

WINDOW = 4
"""Tiles that a look back asks at once."""

STATE = 48
"""Bits of a count; above them is what is known."""


@frozen
class Pass:
    """One thread's part in a pass, from `here` to the memories `there`, keys first: `number` counts the passes, the digit begins at
    `shift`. `axis` is of `items` registers."""

    b: Builder
    lines: Lines
    here: Source
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
        lane, warp = self.lane_and_warp(b)
        counts, origins = shared(b, "u32", (WARPS, DIGITS)), shared(b, "index", (DIGITS,))
        for number in range(DIGITS // WARP):
            b.store(counts, b.const(0, "u32"), [warp.name, Affine.of(lane.name) + number * WARP])
        tile, shift = self.turn()
        first = b.mul(tile, b.const(self.tile, "index"))
        within = Affine.of(warp.name) * (self.items * WARP) + Affine.of(self.axis) * WARP + lane.name
        left = b.sub(self.lines.extent, first)
        whole = b.op("ge", left, b.const(self.tile, "index"))
        along = within + first.name
        keys = self.keys(along, whole)
        counted = self.digit(b, keys, self.shift)
        for item in range(self.items):
            digit = taken(b, counted, self.axis, item)
            index = (Affine.of(warp.name), Affine.of(b.cast(digit, "index").name))
            b.emit(Atomic(operation="add", mem=counts, index=index, value=b.const(1, "u32"), scope="block"))
        b.emit(SyncThreads())
        known, total, start = self.told(tile, counts)
        words = unsigned(max((mem_of(one).dtype for one in self.there), key=bytes_of))
        buffer = shared(b, words, (self.tile,))
        again = self.digit(b, keys, shift)
        ranks = self.ranks([taken(b, again, self.axis, item) for item in range(self.items)], counts, warp, lane)
        self.put(b, keys, ranks, buffer)
        self.origins(tile, known, total, start, origins)
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

    def lane_and_warp(self, b: Builder) -> tuple[Value, Value]:
        width = b.const(WARP, "index")
        return b.op("rem", self.thread, width), b.op("div", self.thread, width)

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
        found = list(digits)
        for item in range(self.items):
            place = b.index(Affine.of(self.thread.name) + item * PASS_THREADS)
            value = from_bits(b, b.cast(b.load(buffer, [place.name]), unsigned(dtype)), dtype)
            if not digits:
                found.append(self.digit(b, value, shift))
            to = b.add(b.load(origins, [b.cast(found[item], "index").name]), place)
            b.store(target, value, self.lines.place(Affine.of(to.name)), None if end is None else b.op("lt", place, end))
        return found

    def write_alone(self, b: Builder, along: Affine, ranks: Sequence[Value], origins: Value, shift: Value) -> None:
        """What goes along with the keys of a tile that isn't full, of which a line has one: each element by itself."""
        for item, rank in enumerate(ranks):
            place = b.index(along.substitute({self.axis: item}))
            with b.when(b.op("lt", place, self.lines.extent)) as some:
                here = self.lines.place(Affine.of(place.name))
                key, *values = [self.here(some, position, here, None) for position in range(len(self.there))]
                origin = some.load(origins, [some.cast(self.digit(some, key, shift), "index").name])
                to = self.lines.place(Affine.of(some.add(origin, some.cast(rank, "index")).name))
                for target, value in zip(self.there[1:], values, strict=True):
                    some.store(target, value, to)

    def digit(self, b: Builder, key: Value, shift: Value) -> Value:
        return self.lines.digits.digit(b, self.lines.digits.ordered(b, key), shift)

    def keys(self, along: Affine, whole: Value) -> Value:
        """The thread's keys; behind the end of the line those that come behind everything."""
        b, place, dtype = self.b, self.lines.place(along), self.lines.digits.dtype
        with b.branch(whole, [Tile(dtype, ((self.axis, self.items),))]) as (yes, no, found):
            yes.yield_(self.here(yes, 0, place, None))
            inside = no.op("lt", no.index(along), self.lines.extent)
            no.yield_(no.select(inside, self.here(no, 0, place, inside), no.const(self.lines.digits.last, dtype)))
        return found.results[0]

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

    def told(self, tile: Value, counts: Value) -> tuple["_Known", Value, Value]:
        """A digit a thread: its count in the tile is published, and `counts` become where each warp's elements begin in the order of
        digits. Gives what is known of the digit, its count, and where it begins."""
        b = self.b
        digit = b.op("min", self.thread, b.const(DIGITS - 1, "index"))
        mine = b.op("lt", self.thread, b.const(DIGITS, "index"))
        total = b.load(counts, [0, digit.name])
        for row in range(1, WARPS):
            total = b.add(total, b.load(counts, [row, digit.name]))
        total = b.select(mine, total, b.const(0, "u32"))
        known = _Known(self, tile, digit, mine)
        known.publish(b, 1, b.cast(total, "u64"), b.op("and", mine, b.op("gt", tile, b.const(0, "index"))))
        start = self.scanned(b, total)
        with b.when(mine) as some:
            passed = start
            for row in range(WARPS):
                count = some.load(counts, [row, digit.name])
                some.store(counts, passed, [row, digit.name])
                passed = some.add(passed, count)
        b.emit(SyncThreads())
        return known, total, start

    def ranks(self, digits: Sequence[Value], counts: Value, warp: Value, lane: Value) -> list[Value]:
        """Where each of the thread's elements stands in the tile, in the order of digits."""
        b = self.b
        one = b.const(1, "u32")
        below = b.sub(b.op("shl", one, b.cast(lane, "u32")), one)
        found = []
        for digit in digits:
            lanes = self.alike(digit)
            before = bits_set(b, b.op("and", lanes, below))
            place = [warp.name, b.cast(digit, "index").name]
            passed = b.load(counts, place)
            b.emit(WarpSync())
            rank = b.add(passed, before)
            leader = b.op("eq", before, b.const(0, "u32"))
            b.store(counts, b.add(passed, bits_set(b, lanes)), place, leader)
            b.emit(WarpSync())
            found.append(rank)
        return found

    def alike(self, digit: Value) -> Value:
        """The lanes that hold the same digit, as a `u32`."""
        b = self.b
        lanes: Value | None = None
        for bit in range(DIGIT):
            has = b.op("ne", b.op("and", digit, b.const(1 << bit, "i32")), b.const(0, "i32"))
            vote = b.emit(Bitcast(value=b.emit(Vote(operation="ballot", predicate=has)).result, to="u32")).result
            other = b.select(has, b.const(0, "u32"), b.const((1 << 32) - 1, "u32"))
            same = b.op("xor", vote, other)
            lanes = same if lanes is None else b.op("and", lanes, same)
        assert lanes is not None
        return lanes

    def origins(self, tile: Value, known: "_Known", total: Value, start: Value, origins: Value) -> None:
        """What must be added to a place in the tile, in the order of digits, to get the place in the line."""
        b = self.b
        zero = b.const(0, "index")
        base = b.slot(zero, "base")
        with b.when(b.op("eq", tile, zero)) as first:
            place = self.lines.count(Affine.of(self.number.name), Affine.of(known.digit.name))
            whole = first.select(known.mine, first.cast(first.load(self.lines.counts, place), "index"), zero)
            first.set(base, self.scanned(first, whole))
        with b.when(known.mine) as some:
            before = some.add(some.get(base), known.before(some))
            known.publish(some, 2, some.cast(some.add(before, some.cast(total, "index")), "u64"))
            some.store(origins, some.sub(before, some.cast(start, "index")), [known.digit.name])

    def scanned(self, b: Builder, value: Value) -> Value:
        """What the threads before this one have together."""
        lane, warp = self.lane_and_warp(b)
        zero = b.const(0, dtype_of(value))
        joined = Joining(b, "add")
        before, total = joined.over_lanes(value, lane, zero)
        memory = shared(b, dtype_of(value), (WARPS,))
        first, _ = joined.over_warps(total, warp, zero, memory, DIGITS // WARP, (), b.op("eq", lane, b.const(0, "index")))
        return b.add(first, before)


@frozen
class _Known:
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
        one, zero = b.const(1, "index"), b.const(0, "index")
        at, sum_ = b.slot(b.sub(self.tile, one), "at"), b.slot(zero, "sum")
        going = b.slot(b.op("gt", self.tile, zero), "going")
        own, all_ = self.states(b, 1), self.states(b, 2)
        with b.repeat() as (look, body):
            look.condition(look.get(going))
            place = body.get(at)
            nothing = body.const(0, "u64")
            words = []
            for back in range(WINDOW):
                there = place if back == 0 else body.op("max", body.sub(place, body.const(back, "index")), zero)
                words.append(body.emit(Atomic(operation="add", mem=self.work.lines.counts, index=self.index(there), value=nothing)).result)
            more = body.const(True, "i1")
            passed, count = body.get(sum_), zero
            for word in words:
                state = body.op("shr", word, body.const(STATE, "u64"))
                there = body.op("and", more, body.op("ge", state, own))
                count = body.cast(body.op("and", word, body.const((1 << STATE) - 1, "u64")), "index")
                passed = body.add(passed, body.select(there, count, zero))
                place = body.sub(place, body.select(there, one, zero))
                with body.when(body.op("and", there, body.op("ge", state, all_))) as done:
                    done.set(going, done.const(False, "i1"))
                more = body.op("and", there, body.op("lt", state, all_))
            body.set(sum_, passed)
            body.set(at, place)
        return b.get(sum_)


def bits_set(b: Builder, word: Value) -> Value:
    """How many bits of a `u32` are set: sums of neighbours, which LLVM knows as one instruction."""

    def both(value: Value, mask: int, by: int, join: Callable[[Value, Value], Value] = b.add) -> Value:
        kept = b.const(mask, "u32")
        return join(b.op("and", value, kept), b.op("and", b.op("shr", value, b.const(by, "u32")), kept))

    pairs = b.sub(word, b.op("and", b.op("shr", word, b.const(1, "u32")), b.const(0x55555555, "u32")))
    fours = both(pairs, 0x33333333, 2)
    eights = b.op("and", b.add(fours, b.op("shr", fours, b.const(4, "u32"))), b.const(0x0F0F0F0F, "u32"))
    return b.op("shr", b.mul(eights, b.const(0x01010101, "u32")), b.const(24, "u32"))
