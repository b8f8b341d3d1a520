"""Rows in shared memory as `ldmatrix` reads them, eight of 16 bytes at a time: lines are as long as what is contiguous, at most 128 bytes,
and their chunks of 16 bytes are XORed with the number of the line, so that neither copies nor fragments meet in a bank."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext

from compiler.hir.affine import Affine
from compiler.hir.async_copy import AsyncCopy
from compiler.hir.build import Builder
from compiler.hir.gpu import SharedAlloc
from compiler.hir.instruction import Value
from compiler.hir.tensor_core import LoadMatrix
from compiler.hir.types import Mem, Space

LINE = 64
"""Elements of 16 bits of a line."""
CHUNK = 8
"""Elements of 16 bits of a copy, and of a row of a matrix."""
BANKS = 8
"""Chunks that lie in all banks of shared memory."""

Place = tuple[Value, tuple[Affine, ...], Value | None]
"""A memory, an index, and the condition that something is there."""
Source = Callable[[Affine, Affine], Place]
"""Where an element of a row lies."""


def padded(elements: int) -> int:
    """Elements that a row takes."""
    return -(-elements // LINE) * LINE if elements > LINE else max(16, 1 << (elements - 1).bit_length())


class MatrixTile:
    """`stages` tiles of `lines` rows with `elements` each, whole lines of them; elements take `size` bytes."""

    def __init__(self, b: Builder, dtype: str, stages: int, lines: int, elements: int, size: int = 2, name: str = "tile") -> None:
        self.lines, self.elements = lines, elements
        self.line, self.chunk = min(LINE * 2 // size, elements), CHUNK * 2 // size
        type = Mem(dtype, (stages, lines * elements), space=Space.SHARED, align=128)
        self.memory = b.emit(SharedAlloc(type=type), name).result

    def place(self, line: Affine, along: Affine, b: Builder) -> Value:
        """Where an element lies in a stage."""
        box, chunks = along.floordiv(self.line), self.line // self.chunk
        number = b.index(along.floordiv(self.chunk) - box * chunks)
        # of shorter lines the number is that of as many as fill all banks
        row = line.floordiv(BANKS // chunks)
        swizzled = b.op("xor", number, b.index(row % chunks))
        within = along % self.chunk
        return b.index(box * (self.lines * self.line) + line * self.line + Affine.of(swizzled.name) * self.chunk + within)

    def matrices(self, b: Builder, lane: Affine, first: Affine, is_left: bool, parts: Iterable[int]) -> list[Affine]:
        """Where the lane's row of four matrices begins, by part of the sum that lies along the lines. Of a left operand the first two of
        them lie along the rows, of a right one along the sum."""
        row, low, high = digits_of_lane(lane)
        own, deep = (low, high) if is_left else (high, low)
        line = b.named(first + row + own * 8)
        return [Affine.of(self.place(line, b.named(deep * self.chunk + part), b).name) for part in parts]

    def matrices_across(self, b: Builder, lane: Affine, first: tuple[Affine, Affine], is_left: bool, blocks: Iterable[int]) -> list[Affine]:
        """The same where the sum lies across the lines, from a line and an element on: by block of rows, or columns."""
        row, low, high = digits_of_lane(lane)
        own, deep = (low, high) if is_left else (high, low)
        line = b.named(first[0] + row + deep * 8)
        return [Affine.of(self.place(line, b.named(first[1] + own * 8 + block), b).name) for block in blocks]

    def read(self, b: Builder, stage: Affine, position: Affine, below: int = 0, transpose: bool = False) -> list[Value]:
        """Four matrices at a place, `below` rows further down."""
        return b.emit(LoadMatrix(mem=self.memory, index=(stage, position + below * self.line), count=4, transpose=transpose)).results


class SharedTile(MatrixTile):
    """Tiles of 16-bit elements, a multiple of 16 in each row, that asynchronous copies fill."""

    def __init__(self, b: Builder, dtype: str, stages: int, lines: int, elements: int) -> None:
        super().__init__(b, dtype, stages, lines, padded(elements))
        self.depth = elements

    def shared_out(self, thread: Affine, threads: int, b: Builder) -> list[tuple[Affine, Affine, Affine, Value | None]]:
        """A thread's pieces: row, element, place in a stage, and whether there is one."""
        across = self.depth // CHUNK
        pieces = []
        for first in range(0, self.lines * across, threads):
            number = thread + first
            line, along = (b.named(form) for form in (number.floordiv(across), number % across))
            inside = b.op("lt", b.index(line), b.const(self.lines, "index")) if first + threads > self.lines * across else None
            pieces.append((line, along * CHUNK, Affine.of(self.place(line, along * CHUNK, b).name), inside))
        return pieces

    def filled(self, b: Builder, stage: Affine, pieces: list[tuple[Affine, Affine, Affine, Value | None]], source: Source) -> None:
        """Copies of a thread's pieces begin; what isn't there becomes 0."""
        for line, along, position, inside in pieces:
            memory, index, where = source(line, along)
            with nullcontext(b) if inside is None else b.when(inside) as into:
                into.emit(
                    AsyncCopy(
                        destination=self.memory,
                        destination_index=(stage, position),
                        source=memory,
                        source_index=index,
                        bytes=2 * CHUNK,
                        hint="l2",
                        where=where,
                    )
                )


def digits_of_lane(lane: Affine) -> tuple[Affine, Affine, Affine]:
    """A lane's row of a matrix, and the two digits of the matrix's number."""
    number = lane.floordiv(8)
    return lane - number * 8, number % 2, number.floordiv(2)
