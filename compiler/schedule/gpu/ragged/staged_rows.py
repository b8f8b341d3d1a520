"""Rows of a ragged axis that lie behind each other, by all lanes of a warp together: whatever the rows' lengths, each lane has as many
elements side by side, read in pieces of 16 bytes, and joins those of each row (a segmented scan: Sengupta, Harris, Zhang and Owens, 2007).
What the lanes before it have of its first row comes by shuffles, and from one chunk of elements to the next. A lane a row then takes what
stands at the row's last element, through shared memory. Where the rows of a warp lie elsewhere, or are far more than they should be, or a
check fails, lanes read their rows by themselves."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For
from compiler.hir.core import dtype_of
from compiler.hir.gpu import Atomic, SharedAlloc, Shuffle, Vote, WarpSync
from compiler.hir.instruction import Value
from compiler.hir.memory import Check, Load, mem_of
from compiler.hir.types import Mem, Space, Tile, bytes_of
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.indices import small
from compiler.schedule.gpu.lanes import power_of_two
from compiler.schedule.gpu.need import depending, read_names
from compiler.schedule.gpu.nests.at_once import Piece, Pieces, is_joining, overlaps, stores
from compiler.schedule.gpu.nests.barriers import Barriers
from compiler.schedule.gpu.nests.spread import Spread
from compiler.schedule.gpu.pieces import loads_in_pieces
from compiler.schedule.gpu.ragged.ragged import LEAST, LONG, LaneCooperation, RowShape
from compiler.schedule.gpu.scattered.scatter_targets import most_elements
from compiler.schedule.gpu.tiles.reduction import combined
from compiler.schedule.stages import Start
from runtime.records import evolve, frozen

FEW, SHORT = 16, 64
"""Elements of a mean row below which, where data don't say what is read, and from which on its lanes read it as fast by themselves."""

THREADS = 128
"""Of a block."""

RESIDENT = {8: 1024, 16: 768}
"""Elements of a lane, and threads of a multiprocessor that have registers for them."""

NARROW, BYTES = 4, 64
"""Bytes that are read of an element, and by a lane, at least. Joining narrower elements takes longer than lanes that wait: sums of rows of
31 bytes took 1.2 times as long."""

CHUNKS = 4
"""Of elements, which the rows of a warp fill at most."""

FULL = 4
"""Times what a block should have from which on its rows are too many."""

PARTS = 16
"""In which the mean row is counted."""

WORD = 32
"""Bits of a word, one for each element with which a row begins."""


@frozen(eq=False)
class StagedRows:
    """`pieces`: what is read of the rows' elements; `extents`: of the memories. `each`: elements of a thread; `blocks`: how many the
    device holds. `small`: whether there are fewer elements than 2^32."""

    pieces: Pieces
    extents: tuple[Affine, ...]
    each: int
    blocks: int
    small: bool


def staged_rows(nest: Spread, spreads: Mapping[For, Spread], shape: RowShape, known: Facts) -> tuple[RowShape, StagedRows] | None:
    """How threads take such rows, one each; None where rows are no such ones."""
    if len(spreads) != 1 or shape.by_block or shape.across or shape.mean >= SHORT:
        return None
    ((loop, spread),) = spreads.items()
    body = [*nest.between, *nest.inner.body.body]
    if stores(loop) or loop not in body or not overlaps(spread) or (shape.wide and shape.mean < FEW):
        return None
    given = [*(outer.variable for outer in nest.loops), *(result for op in body[: body.index(loop)] for result in op.results)]
    if not _are_alike(loop, given):
        return None
    loads = loads_in_pieces(loop, known)
    walked = [op for op in loop.body.body if isinstance(op, Load) and loop.variable.name in op.symbols]
    sizes = [bytes_of(mem_of(op.mem).dtype) for op in loads]
    if set(walked) != set(loads) or sum(sizes) < NARROW:
        return None
    each = min(max(RESIDENT), max(min(RESIDENT), power_of_two(-(-BYTES // sum(sizes)))))
    extents = tuple(mem_of(op.mem).dims[0] for op in loads)
    most = most_elements(extents[:1], known)
    blocks = known.processors * RESIDENT[each] // THREADS
    staged = StagedRows(Pieces(loads, ALIGNMENT // max(sizes)), extents, each, blocks, most is not None and most < 1 << 32)
    long = shape.long and LONG * max(shape.mean, LEAST)
    return evolve(shape, lanes=1, threads=THREADS, resident=RESIDENT[each], wide=False, together=True, long=long), staged


def _are_alike(loop: For, given: Sequence[Value]) -> bool:
    """Whether all rows do the same with their elements: nothing that they do depends on what is `given` to each."""
    ops = loop.body.body
    own = depending(given, ops)
    late = [op for op in ops if is_joining(op, loop)]
    return not any(own & read_names(op) for op in ops) and not any(isinstance(op, Load | Check) for op in late)


class StagedCooperation(LaneCooperation):
    """The work of such rows as the code of one thread."""

    def __init__(
        self, start: Start, spreads: Mapping[For, Spread], barriers: Barriers, shape: RowShape, warp: int, staged: StagedRows
    ) -> None:
        super().__init__(start, spreads, barriers, shape, warp)
        self.staged, self.chunk, self.warps, b = staged, warp * staged.each, start.threads // warp, start.out.body
        ((loop, spread),) = spreads.items()
        self.folds = [(fold, [loop.body.parameters.index(cell) - 1 for cell in fold.cells]) for fold in spread.folds]
        self.boxes = [self._shared(dtype_of(cell), self.warps, staged.each, warp) for cell in loop.body.parameters[1:]]
        self.heads = self._shared("u32", self.warps, self.chunk // WORD)
        self.own_warp, self.own_lane = (small(b, operator, self.thread, b.const(warp, "index")) for operator in ("div", "rem"))
        with self.own_heads(b) as (inner, place):
            inner.store(self.heads, inner.const(0, "u32"), place)
        b.emit(WarpSync())

    def _shared(self, dtype: str, *dims: int) -> Value:
        return self.start.out.body.emit(SharedAlloc(type=Mem(dtype, dims, space=Space.SHARED)), "staged").result

    @contextmanager
    def own_heads(self, b: Builder) -> Iterator[tuple[Builder, list[str]]]:
        """The words of the warp, a lane each."""
        with b.when(b.op("lt", self.own_lane, b.const(self.chunk // WORD, "index"))) as inner:
            yield inner, [self.own_warp.name, self.own_lane.name]

    @contextmanager
    def shares(self, rows: Value, b: Builder) -> Iterator[Builder]:
        """The warp's share of the rows, one of each lane at a time, or fewer where these have more elements than some chunks."""
        one, lanes, most = b.const(1, "index"), b.const(self.lanes, "index"), b.count(self.copy.form(self.staged.extents[0]))
        divided = small if self.staged.small else Builder.op
        mean = b.op("max", divided(b, "div", most, b.op("max", b.op("div", rows, b.const(PARTS, "index")), one)), one)
        fit = divided(b, "div", b.const(CHUNKS * self.chunk * PARTS, "index"), mean)
        self.count = b.op("max", b.op("min", fit, lanes), one, name="together")
        of_block = b.mul(self.count, b.const(self.warps, "index"))
        shares = b.op("div", b.add(rows, b.sub(of_block, one)), of_block)
        self.blocks = b.op("min", shares, b.const(self.staged.blocks, "index"), name="blocks")
        self.last = b.sub(self.count, one)
        own = b.op("min", self.own_lane, self.last)
        with b.loop("share", self.start.number.name, shares.name, self.staged.blocks, unroll=1) as (inner, share):
            first, before = inner.mul(share.variable, of_block), inner.mul(self.own_warp, self.count)
            self.begin(first, self.count, inner.add(before, own), rows, inner)
            self.only_where(inner.op("lt", self.own_lane, self.count), inner)
            yield inner

    def lane_of(self, value: Value, lane: Value, b: Builder, mode: str = "idx") -> Value:
        """A number of another lane."""
        return b.emit(Shuffle(mode=mode, value=value, lane=lane, width=self.lanes)).result

    def begins(self, loop: For, b: Builder) -> None:
        """Looks where the rows of the warp lie. Only where these aren't done together is one of them long."""
        zero, last = b.const(0, "i64"), b.cast(self.last, "i32")
        low, high = (b.cast(b.index(self.form(form)), "i64") for form in (loop.low, loop.high))
        high = b.op("max", low, high)
        self.row_range = low, high
        # warps behind the last row do that one again
        from_ = b.select(b.op("or", self.inside, b.op("eq", self.own_lane, b.const(0, "index"))), low, high)
        begin, end = self.lane_of(from_, b.const(0, "i32"), b), self.lane_of(high, last, b)
        following = b.select(b.op("lt", self.own_lane, self.last), self.lane_of(from_, b.const(1, "i32"), b, "down"), end)
        width = self.staged.pieces.width
        self.begin_at, self.end_at = b.cast(begin, "index"), b.cast(end, "index")
        fits = b.both(b.op("le", zero, begin), b.op("le", b.cast(b.sub(end, begin), "u64"), b.const(FULL * CHUNKS * self.chunk, "u64")))
        behind = b.index(Affine.of(self.end_at.name).ceildiv(width) * width)
        for extent in self.staged.extents:
            fits = b.both(fits, b.op("le", behind, b.index(self.copy.form(extent))))
        self.fits = self.everywhere(b.both(fits, b.op("le", high, following)), b)
        if self.shape.long is not None:
            long = b.op("lt", b.const(self.shape.long, "i64"), b.sub(high, low))
            self.long = b.both(b.op("xor", self.fits, b.const(True, "i1")), long)
            self.first = b.both(self.first, b.op("xor", self.long, b.const(True, "i1")))

    def share(self, spread: Spread, number: Value, stride: Value | int, b: Builder) -> list[list[Value]]:
        nothing = self.started(spread, b)
        types = [value.type for value in nothing]
        with b.branch(self.fits, [*types, Tile("i1")]) as (some, none, both):
            some.yield_(*self.joined(spread.outer, nothing, some))
            none.yield_(*nothing, none.const(False, "i1"))
        *together, right = both.results
        with b.branch(right, types) as (there, alone, either):
            there.yield_(*together)
            alone.yield_(*(value for values in super().share(spread, number, stride, alone) for value in values))
        return [[either.results[place] for place in places] for _, places in self.folds]

    def joined(self, loop: For, nothing: Sequence[Value], b: Builder) -> list[Value]:
        """What the cells hold with the elements of the thread's row, and whether no check has failed."""
        low, high = self.row_range
        width = self.staged.pieces.width
        first, behind = Affine.of(self.begin_at.name).floordiv(width), b.named(Affine.of(self.end_at.name).ceildiv(width))
        failed = b.slot(b.const(False, "i1")) if any(isinstance(op, Check) for op in self.early(loop)) else None
        with b.loop("piece", first, behind, self.chunk // width, [*nothing, *nothing], unroll=1) as (inner, walked):
            carried, found = walked.carried[: len(nothing)], walked.carried[len(nothing) :]
            last = inner.index(behind - 1)
            own_first = Affine.of(walked.variable.name) + Affine.of(self.own_lane.name) * (self.staged.each // width)
            places = [inner.op("min", inner.index(own_first + n), last) for n in range(self.staged.each // width)]
            self.pieces = {loop: self.staged.pieces}
            items = self.computed(loop, [Piece(place, width) for place in places], failed, inner)
            self.pieces = {}
            chunk = inner.cast(inner.index(Affine.of(walked.variable.name) * width), "i64")
            begin, end = (inner.cast(inner.cast(inner.sub(place, chunk), "i32"), "u32") for place in (low, high))
            there, size = inner.op("lt", low, high), inner.const(self.chunk, "u32")
            self.mark(begin, inner.both(there, inner.op("lt", begin, size)), inner)
            carried = self.scanned(loop, [values for item in items for values in item], carried, nothing, inner)
            at = inner.sub(end, inner.const(1, "u32"))
            holds = inner.both(there, inner.op("lt", at, size))
            place, each = inner.select(holds, at, inner.const(0, "u32")), inner.const(self.staged.each, "u32")
            index = [self.own_warp.name, *(inner.cast(inner.op(operator, place, each), "index").name for operator in ("rem", "div"))]
            read = [inner.load(box, index) for box in self.boxes]
            inner.emit(WarpSync())
            inner.yield_(*carried, *(inner.select(holds, value, old) for value, old in zip(read, found, strict=True)))
        passed = b.const(True, "i1") if failed is None else self.everywhere(b.op("xor", b.get(failed), b.const(True, "i1")), b)
        return [*walked.results[len(nothing) :], passed]

    def mark(self, place: Value, where: Value, b: Builder) -> None:
        """Sets the bit of the element with which a row begins."""
        with b.when(where) as here:
            word, bit = (here.op(operator, place, here.const(WORD, "u32")) for operator in ("div", "rem"))
            index = (Affine.of(self.own_warp.name), Affine.of(here.cast(word, "index").name))
            mark = here.op("shl", here.const(1, "u32"), bit)
            here.emit(Atomic(operation="or", mem=self.heads, index=index, value=mark, scope="block"))
        b.emit(WarpSync())

    def scanned(
        self, loop: For, elements: Sequence[Mapping[Value, Value]], carried: Sequence[Value], nothing: Sequence[Value], b: Builder
    ) -> list[Value]:
        """Leaves in the boxes what each element's row comes to up to it, of which `carried` stands before the chunk. What stands behind."""
        each, zero, lane = len(elements), b.const(0, "u32"), Affine.of(self.own_lane.name)
        word = b.load(self.heads, [self.own_warp.name, b.named(lane * each).floordiv(WORD)])
        bits = b.op("shr", word, b.cast(b.index((lane * each) % WORD), "u32"))
        begun = [b.op("ne", b.op("and", bits, b.const((2 << n) - 1, "u32")), zero) for n in range(each)]
        values, sums = list(nothing), list[list[Value]]()
        for n, element in enumerate(elements):
            head = b.op("ne", b.op("and", bits, b.const(1 << n, "u32")), zero)
            values = self.with_all(loop, [element], self._selected(head, nothing, values, b) if n else nothing, None, b)
            sums.append(values)
        before, behind = self.over_lanes(values, begun[-1], carried, nothing, b)
        for n, own in enumerate(sums):
            whole = self._selected(begun[n], own, self._joined(before, own, b), b)
            for box, value in zip(self.boxes, whole, strict=True):
                b.store(box, value, [self.own_warp.name, n, self.own_lane.name])
        b.emit(WarpSync())
        with self.own_heads(b) as (inner, place):
            inner.store(self.heads, zero, place)
        return behind

    def over_lanes(
        self, values: Sequence[Value], begun: Value, carried: Sequence[Value], nothing: Sequence[Value], b: Builder
    ) -> tuple[list[Value], list[Value]]:
        """What the row with which a lane's elements begin comes to before them, and what the last one of the chunk does. `begun`: whether a
        row begins in the lane."""
        lane, one, distance = b.cast(self.own_lane, "i32"), b.const(1, "u32"), 1
        every = b.cast(b.emit(Vote(operation="ballot", predicate=begun)).result, "u32")
        below = b.op("sub", b.op("shl", one, b.cast(lane, "u32")), one)
        nearest = b.op("leading_zeros", b.op("and", every, b.op("or", b.op("shl", below, one), one)))
        nearest = b.op("max", b.sub(b.const(WORD - 1, "i32"), b.cast(nearest, "i32")), b.const(0, "i32"))
        far = b.sub(lane, nearest)  # lanes before this one that may join it
        while distance < self.lanes:
            ahead = [self.lane_of(value, b.const(distance, "i32"), b, "up") for value in values]
            values = self._selected(b.op("le", b.const(distance, "i32"), far), self._joined(ahead, values, b), values, b)
            distance *= 2
        ahead = [self.lane_of(value, b.const(1, "i32"), b, "up") for value in values]
        ahead = self._selected(b.op("eq", lane, b.const(0, "i32")), nothing, ahead, b)
        total = [self.lane_of(value, b.const(self.lanes - 1, "i32"), b) for value in values]
        closed, some = (b.op("ne", heads, b.const(0, "u32")) for heads in (b.op("and", every, below), every))
        before = self._selected(closed, ahead, self._joined(carried, ahead, b), b)
        return before, self._selected(some, total, self._joined(carried, total, b), b)

    def _joined(self, first: Sequence[Value], second: Sequence[Value], b: Builder) -> list[Value]:
        """Cells of two stretches of a row made one."""
        made = dict[int, Value]()
        for fold, places in self.folds:
            both = ([values[place] for place in places] for values in (first, second))
            made.update(zip(places, combined(b, fold.monoid, *both), strict=True))
        return [made[place] for place in range(len(first))]

    @staticmethod
    def _selected(condition: Value, then: Sequence[Value], otherwise: Sequence[Value], b: Builder) -> list[Value]:
        return [b.select(condition, *values) for values in zip(then, otherwise, strict=True)]
