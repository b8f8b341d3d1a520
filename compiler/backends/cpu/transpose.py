"""Square tiles that lie across memory: the lanes of their vectors are apart, but a register axis is contiguous. Rows are loaded
(or stored) whole and turned in registers, which beats one element a lane."""

from collections.abc import Callable, Iterator, Sequence

from compiler.backends.llvm.bundle import points
from compiler.backends.llvm.indexing import Indexing
from compiler.backends.llvm.types import memory_type
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.hir.types import bytes_of

Point = dict[str, int]


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


def turn(w: FunctionWriter, rows: Sequence[LlvmValue]) -> list[LlvmValue]:
    """The transposed square: log2(n) rounds that exchange blocks of halving size between pairs of rows."""
    result, count = list(rows), len(rows)
    step = count // 2
    while step:
        low = [lane if not lane & step else count + lane - step for lane in range(count)]
        high = [lane + step if not lane & step else count + lane for lane in range(count)]
        for row in range(count):
            if not row & step:
                a, b = result[row], result[row + step]
                result[row], result[row + step] = w.shuffle(a, b, low), w.shuffle(a, b, high)
        step //= 2
    return result


def _squares(axes: Sequence[tuple[str, int]], axis: str, lanes: int) -> Iterator[Point]:
    """The first point of every square."""
    for point in points([(name, extent // lanes if name == axis else extent) for name, extent in axes]):
        yield {**point, axis: point[axis] * lanes}


def load_turned(
    w: FunctionWriter, indexing: Indexing, axes: Sequence[tuple[str, int]], axis: str, notes: str, convert: Callable[[LlvmValue], LlvmValue]
) -> dict[tuple[int, ...], LlvmValue]:
    """The value at every point of the axes."""
    turned: dict[tuple[int, ...], LlvmValue] = {}
    dtype, lanes = indexing.memory.type.dtype, indexing.lanes
    for first in _squares(axes, axis, lanes):
        rows = [w.load(memory_type(dtype, lanes), row, bytes_of(dtype), notes) for row in _rows(w, indexing, first)]
        for number, value in enumerate(turn(w, rows)):
            point = {**first, axis: first[axis] + number}
            turned[tuple(point[name] for name, _ in axes)] = convert(value)
    return turned


def store_turned(
    w: FunctionWriter, indexing: Indexing, axes: Sequence[tuple[str, int]], axis: str, notes: str, value_at: Callable[[Point], LlvmValue]
) -> None:
    dtype, lanes = indexing.memory.type.dtype, indexing.lanes
    for first in _squares(axes, axis, lanes):
        columns = [value_at({**first, axis: first[axis] + number}) for number in range(lanes)]
        for row, value in zip(_rows(w, indexing, first), turn(w, columns), strict=True):
            w.store(value, row, bytes_of(dtype), notes)


def _rows(w: FunctionWriter, indexing: Indexing, first: Point) -> Iterator[LlvmValue]:
    """The address of each lane's row."""
    address = indexing.at(first)
    assert address.step is not None
    for lane in range(indexing.lanes):
        yield w.offset(address.pointer, w.mul(address.step, constant(address.step.type, lane)), indexing.element)
