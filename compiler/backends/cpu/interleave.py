"""Vectors whose elements go to every second, third or fourth place of memory while those of the others fill what is between, as the
channels of pixels do: they are put together in registers and stored whole."""

from collections.abc import Callable, Sequence

from compiler.backends.llvm.bundle import points
from compiler.backends.llvm.indexing import Indexing
from compiler.backends.llvm.types import memory_type
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


def load_pairs(
    w: FunctionWriter, indexing: Indexing, axes: Sequence[tuple[str, int]], axis: str, notes: str
) -> dict[tuple[int, ...], LlvmValue]:
    """Vectors whose elements take turns in memory, by the points of the axes: both are loaded as one vector of twice as many lanes, which
    is noted as what they are together."""
    loaded: dict[tuple[int, ...], LlvmValue] = {}
    dtype, lanes = indexing.memory.type.dtype, indexing.lanes
    for point in points([each for each in axes if each[0] != axis]):
        pointer = indexing.at({**point, axis: 0}).pointer
        whole = w.load(memory_type(dtype, 2 * lanes), pointer, bytes_of(dtype), notes)
        pair = [w.shuffle(whole, None, range(number, 2 * lanes, 2)) for number in range(2)]
        w.pairs[pair[0].text, pair[1].text] = whole
        for number, value in enumerate(pair):
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
