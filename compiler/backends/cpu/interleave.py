"""Vectors whose elements go to every second, third or fourth place of memory while those of the others fill what is between, as the
channels of pixels do: they are put together in registers and stored whole."""

from collections.abc import Callable, Sequence

from compiler.backends.llvm.arithmetic import from_memory
from compiler.backends.llvm.bundle import points
from compiler.backends.llvm.indexing import Indexing
from compiler.backends.llvm.types import I32, memory_type
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.hir.types import bytes_of

Point = dict[str, int]

MOST = 4
"""Vectors that are put together."""


def interleaved_axis(indexing: Indexing, axes: Sequence[tuple[str, int]]) -> str | None:
    """The register axis along which elements are neighbours in memory, as many as the lanes are apart."""
    step = indexing.steps.get(indexing.simd or "")
    if indexing.lanes < 2 or step is None or step.number is None or not 2 <= step.number <= MOST or indexing.varying:
        return None
    steps = {axis: along.number for axis, along in indexing.steps.items()}
    return next((axis for axis, extent in axes if extent == step.number and steps.get(axis) == 1), None)


def grouped_axis(w: FunctionWriter, indexing: Indexing, axes: Sequence[tuple[str, int]]) -> str | None:
    """The axis of neighbours in memory that a dot product takes as one word of a lane."""
    terms = {unit.terms for unit in w.module.dots if indexing.memory.type.dtype in unit.factors}
    if indexing.lanes:
        axis = interleaved_axis(indexing, axes)
    else:
        axis = next((name for name, _ in axes if name in indexing.steps and indexing.steps[name].number == 1), None)
    return axis if axis is not None and dict(axes)[axis] in terms and not indexing.varying else None


def load_groups(
    w: FunctionWriter, indexing: Indexing, axes: Sequence[tuple[str, int]], axis: str, notes: str
) -> dict[tuple[int, ...], LlvmValue]:
    """Elements that take turns in memory, by the points of the axes: all are loaded as one word, or a vector of words, which is noted as
    what they are together."""
    loaded: dict[tuple[int, ...], LlvmValue] = {}
    dtype, lanes, count = indexing.memory.type.dtype, indexing.lanes, dict(axes)[axis]
    for point in points([each for each in axes if each[0] != axis]):
        pointer = indexing.at({**point, axis: 0}).pointer
        if lanes:
            whole = w.load(memory_type(dtype, count * lanes), pointer, bytes_of(dtype), notes)
            items = [w.shuffle(whole, None, range(number, count * lanes, count)) for number in range(count)]
        else:
            whole = w.load(I32, pointer, bytes_of(dtype), notes)
            moved = [w.binary("lshr", whole, constant(I32, number * 32 // count)) for number in range(count)]
            items = [w.convert("trunc", each, memory_type(dtype).element) for each in moved]
        items = [from_memory(w, item, dtype) for item in items]
        w.groups[tuple(item.text for item in items)] = whole
        for number, value in enumerate(items):
            loaded[tuple({**point, axis: number}[name] for name, _ in axes)] = value
    return loaded


def store_interleaved(
    w: FunctionWriter,
    indexing: Indexing,
    axes: Sequence[tuple[str, int]],
    axis: str,
    marks: tuple[int, str],
    value: Callable[[Point], LlvmValue],
) -> None:
    count, lanes = dict(axes)[axis], indexing.lanes
    for point in points([each for each in axes if each[0] != axis]):
        vectors = [value({**point, axis: number}) for number in range(count)]
        pointer = indexing.at({**point, axis: 0}).pointer
        for part in range(count):
            places = [divmod(part * lanes + lane, count) for lane in range(lanes)]
            together = w.shuffle(vectors[0], vectors[1], [source + lanes * min(vector, 1) for source, vector in places])
            for number in range(2, count):
                own = [lanes + source if vector == number else lane for lane, (source, vector) in enumerate(places)]
                together = w.shuffle(together, vectors[number], own)
            at = w.offset(pointer, constant(indexing.steps[axis].type, part * lanes), indexing.element)
            w.store(together, at, *marks)
