"""Rows of 16-bit elements in shared memory as `ldmatrix` reads them: lines of at most 128 bytes, whose chunks of 16 bytes are XORed with
the number of the line, so that neither copies nor fragments meet in a bank."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext

from compiler.hir.affine import Affine
from compiler.hir.async_copy import AsyncCopy
from compiler.hir.build import Builder
from compiler.hir.gpu import SharedAlloc
from compiler.hir.instruction import Value
from compiler.hir.tensor_core import LoadMatrix
from compiler.hir.types import Mem, Space

LINE = 64
"""Elements of a line."""
CHUNK = 8
"""Elements of a copy, and of a row of a matrix."""

Place = tuple[Value, tuple[Affine, ...], Value | None]
"""A memory, an index, and the condition that something is there."""
Source = Callable[[Affine, Affine], Place]
"""Where an element of a row lies."""


def padded(elements: int) -> int:
    """Elements that a row takes."""
    return -(-elements // LINE) * LINE if elements > LINE else max(16, 1 << (elements - 1).bit_length())


class SharedTile:
    """`stages` tiles of `lines` rows with `elements` each, a multiple of 16."""

    def __init__(self, b: Builder, dtype: str, stages: int, lines: int, elements: int) -> None:
        self.lines, self.elements = lines, elements
        self.line = min(LINE, padded(elements))
        type = Mem(dtype, (stages, lines * padded(elements)), space=Space.SHARED, align=128)
        self.memory = b.emit(SharedAlloc(type=type), "tile").result

    def place(self, line: Affine, along: Affine, b: Builder) -> Affine:
        """Where an element lies in a stage."""
        box, chunks = along.floordiv(self.line), self.line // CHUNK
        number = b.index(along.floordiv(CHUNK) - box * chunks)
        row = line.floordiv(CHUNK // chunks)
        swizzled = b.op("xor", number, b.index(row % chunks))
        within = along % CHUNK
        form = box * (self.lines * self.line) + line * self.line + Affine.of(swizzled.name) * CHUNK + within
        return b.named(form)

    def shared_out(self, thread: Affine, threads: int, b: Builder) -> list[tuple[Affine, Affine, Affine, Value | None]]:
        """A thread's pieces: row, element, place in a stage, and whether there is one."""
        across = self.elements // CHUNK
        found = []
        for first in range(0, self.lines * across, threads):
            number = thread + first
            line, along = (b.named(form) for form in (number.floordiv(across), number % across))
            here = b.op("lt", b.index(line), b.const(self.lines, "index")) if first + threads > self.lines * across else None
            found.append((line, along * CHUNK, self.place(line, along * CHUNK, b), here))
        return found

    def filled(self, b: Builder, stage: Affine, pieces: list[tuple[Affine, Affine, Affine, Value | None]], source: Source) -> None:
        """Copies of a thread's pieces begin; what isn't there becomes 0."""
        for line, along, place, here in pieces:
            memory, index, where = source(line, along)
            with nullcontext(b) if here is None else b.when(here) as into:
                into.emit(
                    AsyncCopy(
                        destination=self.memory,
                        destination_index=(stage, place),
                        source=memory,
                        source_index=index,
                        bytes=2 * CHUNK,
                        hint="l2",
                        where=where,
                    )
                )

    # ---- fragments ----

    def left(self, b: Builder, first: Affine, lane: Affine) -> list[Affine]:
        """The lane's places for a left operand of 16 rows, by 16 elements of the sum."""
        row, low, high = _lanes(lane)
        line = b.named(first + row + low * 8)
        return [self.place(line, b.named(high * CHUNK + part), b) for part in range(0, self.elements, 16)]

    def right(self, b: Builder, first: Affine, lane: Affine) -> list[Affine]:
        """For a right operand whose columns are rows here: of the first 16, by 16 elements of the sum."""
        row, low, high = _lanes(lane)
        line = b.named(first + row + high * 8)
        return [self.place(line, b.named(low * CHUNK + part), b) for part in range(0, self.elements, 16)]

    def across(self, b: Builder, first: Affine, lane: Affine) -> list[Affine]:
        """For a right operand whose columns are elements here, by 16 of them: of the first 16 rows."""
        row, low, high = _lanes(lane)
        line = b.named(first + row + low * 8)
        return [self.place(line, b.named(high * CHUNK + part), b) for part in range(0, self.elements, 16)]

    def read(self, b: Builder, stage: Affine, places: list[Affine], below: int = 0, transpose: bool = False) -> Iterator[list[Value]]:
        """Four matrices at each of the places, `below` rows further down."""
        for place in places:
            op = LoadMatrix(mem=self.memory, index=(stage, place + below * self.line), count=4, transpose=transpose)
            yield b.emit(op).results


def _lanes(lane: Affine) -> tuple[Affine, Affine, Affine]:
    """A lane's row of a matrix, and the two digits of the matrix's number."""
    number = lane.floordiv(8)
    return lane - number * 8, number % 2, number.floordiv(2)
