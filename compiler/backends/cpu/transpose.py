"""Square tiles that lie across memory: the lanes of their vectors are apart, but a register axis is contiguous. Rows are loaded
(or stored) whole and turned in registers, which beats one element a lane."""

from collections.abc import Callable, Iterator, Sequence

from compiler.backends.llvm.bundle import points
from compiler.backends.llvm.indexing import Indexing
from compiler.backends.llvm.types import memory_type
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.hir.types import bytes_of

Point = dict[str, int]

APART = 128
"""Bits of a vector within which elements are interleaved by one instruction."""


def turned_axis(indexing: Indexing, axes: Sequence[tuple[str, int]]) -> str | None:
    """The register axis along which memory is contiguous, when turning squares of it pays: None otherwise."""
    lanes = indexing.lanes
    step = indexing.steps.get(indexing.simd or "")
    if lanes < 4 or lanes & (lanes - 1) or step is None or step.number in (0, 1) or indexing.varying:
        return None
    for axis, extent in axes:
        along = indexing.steps.get(axis)
        if extent % lanes == 0 and along is not None and along.number == 1:
            return axis
    return None


def turn(w: FunctionWriter, rows: Sequence[LlvmValue], bits: int, beside: int = 1) -> list[LlvmValue]:
    """The transposed square of elements of so many bits, or squares `beside` each other, each by itself. Rounds that exchange halves of
    vectors, quarters and so on, down to those that a machine's instructions keep apart; then rounds that interleave the rows of the upper
    half of a block with those of the lower half."""
    result, count = list(rows), len(rows)

    def each(lanes: Sequence[int]) -> list[int]:
        return [lane % count + count * (number + beside * (lane // count)) for number in range(beside) for lane in lanes]

    block = min(count, APART // bits)
    step = count // 2
    while step >= block:
        low = [lane if not lane & step else count + lane - step for lane in range(count)]
        high = [lane + step if not lane & step else count + lane for lane in range(count)]
        for row in range(count):
            if not row & step:
                a, b = result[row], result[row + step]
                result[row], result[row + step] = w.shuffle(a, b, each(low)), w.shuffle(a, b, each(high))
        step //= 2
    half = block // 2
    low = [lane + other for start in range(0, count, block) for lane in range(start, start + half) for other in (0, count)]
    high = [lane + half for lane in low]
    for _ in range(half.bit_length()):
        pairs = [(result[row], result[row + half]) for start in range(0, count, block) for row in range(start, start + half)]
        result = [w.shuffle(a, b, each(lanes)) for a, b in pairs for lanes in (low, high)]
    return result


def _squares(axes: Sequence[tuple[str, int]], axis: str, side: int) -> Iterator[Point]:
    """The first point of every square, or of those beside it, of so many elements along the axis."""
    for point in points([(name, extent // side if name == axis else extent) for name, extent in axes]):
        yield {**point, axis: point[axis] * side}


def _beside(w: FunctionWriter, indexing: Indexing, extent: int) -> int:
    """Squares that are turned together, each in its own part of vectors: as many as fill the machine's."""
    names = [text.partition("=") for text in w.module.attributes]
    bits = next((int(width) for name, _, width in names if name == "prefer-vector-width"), APART)
    fitting = max(1, bits // (8 * bytes_of(indexing.memory.type.dtype) * indexing.lanes))
    return next(count for count in range(fitting, 0, -1) if extent % (count * indexing.lanes) == 0)


def load_turned(
    w: FunctionWriter, indexing: Indexing, axes: Sequence[tuple[str, int]], axis: str, notes: str, convert: Callable[[LlvmValue], LlvmValue]
) -> dict[tuple[int, ...], LlvmValue]:
    """The value at every point of the axes."""
    turned: dict[tuple[int, ...], LlvmValue] = {}
    dtype, lanes = indexing.memory.type.dtype, indexing.lanes
    beside = _beside(w, indexing, dict(axes)[axis])
    for first in _squares(axes, axis, beside * lanes):
        rows = [w.load(memory_type(dtype, beside * lanes), row, bytes_of(dtype), notes) for row in _rows(w, indexing, first)]
        for number, values in enumerate(turn(w, rows, 8 * bytes_of(dtype), beside)):
            for square in range(beside):
                point = {**first, axis: first[axis] + square * lanes + number}
                value = values if beside == 1 else w.shuffle(values, None, range(square * lanes, (square + 1) * lanes))
                turned[tuple(point[name] for name, _ in axes)] = convert(value)
    return turned


def store_turned(
    w: FunctionWriter,
    indexing: Indexing,
    axes: Sequence[tuple[str, int]],
    axis: str,
    marks: tuple[int, str],
    value_at: Callable[[Point], LlvmValue],
) -> None:
    """`marks`: the alignment of each row of a square, and its metadata."""
    dtype, lanes = indexing.memory.type.dtype, indexing.lanes
    beside = _beside(w, indexing, dict(axes)[axis])
    align, notes = marks

    def row(first: Point, number: int) -> LlvmValue:
        values = [value_at({**first, axis: first[axis] + square * lanes + number}) for square in range(beside)]
        while len(values) > 1:
            values = [w.shuffle(a, b, range(2 * a.type.lanes)) for a, b in zip(values[::2], values[1::2], strict=True)]
        return values[0]

    squares = [
        turn(w, [row(first, number) for number in range(lanes)], 8 * bytes_of(dtype), beside)
        for first in _squares(axes, axis, beside * lanes)
    ]
    places = [_rows(w, indexing, first) for first in _squares(axes, axis, beside * lanes)]
    # squares beside each other fill lines of the cache one by one
    for lane in range(lanes):
        for square, rows in zip(squares, places, strict=True):
            w.store(square[lane], next(rows), align * beside if align > bytes_of(dtype) else align, notes)


def _rows(w: FunctionWriter, indexing: Indexing, first: Point) -> Iterator[LlvmValue]:
    """The address of each lane's row."""
    address = indexing.at(first)
    assert address.step is not None
    for lane in range(indexing.lanes):
        yield w.offset(address.pointer, w.mul(address.step, constant(address.step.type, lane)), indexing.element)
