"""Sorting in vector registers: blocks of rows of vectors are sorted by networks of exchanges, which don't depend on data, and runs of
blocks are merged in place.

Every exchange puts the lesser element at the lower place, so that what lies behind the last block may be thought of as largest elements,
which never move: any number of blocks will do."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from compiler.backends.cpu.transpose import turn
from compiler.backends.llvm.types import I64, PTR, LlvmType
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, ModuleWriter, constant

ROWS = 16
"""Vectors of a block: as many as the registers of AVX2."""


def vector_bits(module: ModuleWriter) -> int:
    """Bits of the vectors that the module's functions prefer."""
    widths = [text.partition("=")[2] for text in module.attributes if text.startswith("prefer-vector-width=")]
    return int(widths[0]) if widths else 128


class SortNetwork:
    """Functions of a module that sort blocks of one type of elements, largest first if `descending`. Floats have neither NaN nor -0.0.
    `across`: the lanes of a vector belong to lines of their own."""

    def __init__(self, module: ModuleWriter, element: LlvmType, descending: bool, across: bool = False) -> None:
        self.module, self.element, self.descending, self.across = module, element, descending, across
        self.lanes = vector_bits(module) // element.bits
        self.vector = element.with_lanes(self.lanes)
        self.size = ROWS * self.lanes
        """Elements of a block."""

    @property
    def last(self) -> LlvmValue:
        """An element that none stands behind."""
        bits = self.element.bits
        if self.element.is_float:
            return constant(self.element, -float("inf") if self.descending else float("inf"))
        return constant(self.element, -(1 << (bits - 1)) if self.descending else (1 << (bits - 1)) - 1)

    def name(self, part: str) -> str:
        return f"sort.{part}.{self.vector.suffix}.{'down' if self.descending else 'up'}{'.across' if self.across else ''}"

    # ---- exchanges ----

    def exchange(self, w: FunctionWriter, a: LlvmValue, b: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
        """The two, each lane in order."""
        if self.element.is_float:
            first = w.value(a.type.of("i1"), f"fcmp nnan nsz {'ogt' if self.descending else 'olt'} {a}, {b.text}")
            flags = "nnan nsz "
        else:
            first, flags = w.compare("sgt" if self.descending else "slt", a, b), ""
        return (
            w.value(a.type, f"select {flags}{first}, {a}, {b}"),
            w.value(a.type, f"select {flags}{first}, {b}, {a}"),
        )

    def reversed(self, w: FunctionWriter, value: LlvmValue) -> LlvmValue:
        return value if self.across else w.shuffle(value, None, list(reversed(range(self.lanes))))

    def sort_rows(self, w: FunctionWriter, rows: list[LlvmValue]) -> None:
        """Each lane of the rows in order."""
        for low, high in merge_exchanges(len(rows)):
            rows[low], rows[high] = self.exchange(w, rows[low], rows[high])

    def mirror(self, w: FunctionWriter, rows: list[LlvmValue], start: int, count: int) -> None:
        """Of two runs of rows the lesser half first; each half is then a run that goes up and down."""
        behind = rows[start + count : start + 2 * count]
        for number in range(start, start + count):
            other = self.reversed(w, behind.pop())
            rows[number], rows[number + count] = self.exchange(w, rows[number], other)

    def clean(self, w: FunctionWriter, rows: list[LlvmValue], start: int, count: int) -> None:
        """Rows that go up and down, in order."""
        step = count // 2
        while step:
            for number in range(start, start + count):
                if not (number - start) & step:
                    rows[number], rows[number + step] = self.exchange(w, rows[number], rows[number + step])
            step //= 2
        if not self.across:
            for number in range(start, start + count, 2):
                if count == 1:
                    rows[number], _ = self.clean_lanes(w, rows[number], rows[number])
                else:
                    rows[number], rows[number + 1] = self.clean_lanes(w, rows[number], rows[number + 1])

    def clean_lanes(self, w: FunctionWriter, first: LlvmValue, second: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
        """Two vectors, each of which goes up and down, in order. Partners are brought into the same lane of two vectors, and back."""
        lanes = self.lanes
        places = [(vector, lane) for vector in (0, 1) for lane in range(lanes)]
        moves: list[list[int]] = []
        step = lanes // 2
        while step:
            moves.append(_partners(places, step, lanes, max(1, 128 // self.element.bits)))
            places = [places[number] for number in moves[-1]]
            first, second = self.exchange(w, *_moved(w, first, second, moves[-1]))
            step //= 2
        for move in reversed(moves):
            first, second = _moved(w, first, second, [move.index(number) for number in range(2 * lanes)])
        return first, second

    # ---- functions ----

    def block(self) -> str:
        """`void (ptr)`: a block in order."""

        def make(name: str) -> None:
            w = self._straight(name, [(PTR, "block")])
            rows = self._load(w, w.parameters[0])
            self.sort_rows(w, rows)
            if not self.across:
                squares = [turn(w, rows[at : at + self.lanes], self.element.bits) for at in range(0, ROWS, self.lanes)]
                rows = [square[lane] for lane in range(self.lanes) for square in squares]
                run = ROWS // self.lanes
                while run < ROWS:
                    for start in range(0, ROWS, 2 * run):
                        self.mirror(w, rows, start, run)
                        for half in (start, start + run):
                            self.clean(w, rows, half, run)
                    run *= 2
            self._store(w, rows, w.parameters[0])
            w.ret()

        return self.module.helper(self.name("block"), make)

    def _straight(self, name: str, parameters: list[tuple[LlvmType, str]]) -> FunctionWriter:
        return self.module.function(name, None, parameters, "internal", "noinline")

    def _load(self, w: FunctionWriter, pointer: LlvmValue) -> list[LlvmValue]:
        return [w.load(self.vector, w.offset(pointer, constant(I64, row), self.vector), self.vector.bytes) for row in range(ROWS)]

    def _store(self, w: FunctionWriter, rows: list[LlvmValue], pointer: LlvmValue) -> None:
        for number, row in enumerate(rows):
            w.store(row, w.offset(pointer, constant(I64, number), self.vector), self.vector.bytes)

    def _cleaned(self) -> str:
        """`void (ptr)`: a block that goes up and down, in order."""

        def make(name: str) -> None:
            w = self._straight(name, [(PTR, "block")])
            rows = self._load(w, w.parameters[0])
            self.clean(w, rows, 0, ROWS)
            self._store(w, rows, w.parameters[0])
            w.ret()

        return self.module.helper(self.name("clean"), make)

    def _pair(self, mirrored: bool) -> str:
        """`void (ptr, ptr)`: exchanges between two blocks, the second one backwards if `mirrored`."""

        def make(name: str) -> None:
            w = self._straight(name, [(PTR, "low"), (PTR, "high")])
            low, high = w.parameters
            for row in range(ROWS):
                first = w.offset(low, constant(I64, row), self.vector)
                second = w.offset(high, constant(I64, ROWS - 1 - row if mirrored else row), self.vector)
                align = self.vector.bytes
                behind = w.load(self.vector, second, align)
                a, b = self.exchange(w, w.load(self.vector, first, align), self.reversed(w, behind) if mirrored else behind)
                w.store(a, first, align)
                w.store(self.reversed(w, b) if mirrored else b, second, align)
            w.ret()

        return self.module.helper(self.name("mirror" if mirrored else "step"), make)

    def blocks(self) -> str:
        """`void (ptr, i64 count)`: so many blocks in order, at a multiple of the vector's bytes."""
        block, clean, mirror, step = self.block(), self._cleaned(), self._pair(True), self._pair(False)

        def make(name: str) -> None:
            w = self._straight(name, [(PTR, "blocks"), (I64, "count")])
            start, count = w.parameters
            one, two = constant(I64, 1), constant(I64, 2)

            def at(number: LlvmValue) -> LlvmValue:
                return w.offset(start, w.mul(number, constant(I64, self.size)), self.element)

            with w.loop(constant(I64, 0), count) as number:
                w.call_void(block, at(number))
            cell = w.alloca(I64)
            w.store(one, cell)
            with repeated(w, lambda: w.compare("slt", w.load(I64, cell), count)):
                run = w.load(I64, cell)
                runs = w.binary("udiv", w.add(count, w.sub(run, one)), run)
                with w.loop(constant(I64, 0), w.binary("udiv", runs, two)) as pair:
                    low = w.mul(pair, w.mul(run, two))
                    behind = w.intrinsic("smin", w.add(low, w.mul(run, two)), count)
                    top = w.add(low, w.sub(w.mul(run, two), one))
                    missing = w.sub(w.add(top, one), behind)
                    with w.loop(missing, run) as number:
                        w.call_void(mirror, at(w.add(low, number)), at(w.sub(top, number)))
                    distance = w.alloca(I64)
                    w.store(w.binary("udiv", run, two), distance)
                    with repeated(w, lambda: w.compare("sgt", w.load(I64, distance), constant(I64, 0))):
                        apart = w.load(I64, distance)
                        with w.loop(low, w.sub(behind, apart)) as number:
                            is_first = w.compare("eq", w.binary("and", w.sub(number, low), apart), constant(I64, 0))
                            with w.when(is_first):
                                w.call_void(step, at(number), at(w.add(number, apart)))
                        w.store(w.binary("udiv", apart, two), distance)
                    with w.loop(low, behind) as number:
                        w.call_void(clean, at(number))
                w.store(w.mul(run, two), cell)
            w.ret()

        return self.module.helper(self.name("blocks"), make)


@contextmanager
def repeated(w: FunctionWriter, holds: Callable[[], LlvmValue]) -> Iterator[None]:
    head, body, leave = w.label("while"), w.label("do"), w.label("done")
    w.start(head)
    w.branch_if(holds(), body, leave)
    w.start(body)
    yield
    w.branch(head)
    w.start(leave)


def _moved(w: FunctionWriter, first: LlvmValue, second: LlvmValue, move: list[int]) -> tuple[LlvmValue, LlvmValue]:
    """The lanes of two vectors together, in another order."""
    half = len(move) // 2
    return w.shuffle(first, second, move[:half]), w.shuffle(first, second, move[half:])


def _partners(places: list[tuple[int, int]], step: int, lanes: int, near: int) -> list[int]:
    """Lanes of two vectors together: those that hold elements whose place lacks a bit, then those that have it, partners at the same
    number; within parts of `near` lanes where it can be done, which costs processors less."""
    parts = [[*range(at, at + near), *range(lanes + at, lanes + at + near)] for at in range(0, lanes, near)]
    if near > lanes or any(sum(not places[number][1] & step for number in part) != near for part in parts):
        parts = [list(range(2 * lanes))]
    low = [number for part in parts for number in part if not places[number][1] & step]
    return [*low, *(places.index((places[number][0], places[number][1] | step)) for number in low)]


def merge_exchanges(count: int) -> Iterator[tuple[int, int]]:
    """Batcher's network of exchanges by odd-even merges; `count` is a power of two."""
    run = 1
    while run < count:
        step = run
        while step:
            for start in range(step % run, count - step, 2 * step):
                for number in range(start, min(start + step, count - step)):
                    if number // (2 * run) == (number + step) // (2 * run):
                        yield number, number + step
            step //= 2
        run *= 2
