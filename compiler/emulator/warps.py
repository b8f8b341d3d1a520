"""What the lanes of a warp get from an instruction at which they meet: shuffles, votes, and the matrices of the tensor cores."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.emulator import arrays, findings
from compiler.emulator.clocks import Clock
from compiler.emulator.fault import fault
from compiler.emulator.findings import Findings
from compiler.emulator.warp_products import multiply
from compiler.emulator.warpgroups import finish_products
from compiler.hir import numbers
from compiler.hir.core import dtype_of
from compiler.hir.gpu import Elect, Match, Redux, Shuffle, Vote, WarpSync
from compiler.hir.hopper import WarpgroupFence, WarpgroupWait
from compiler.hir.instruction import Instruction
from compiler.hir.tensor_core import LoadMatrix, Mma, MmaLoad, MmaStore, StoreMatrix, WarpMma
from compiler.hir.types import Fragment, FragmentRole

if TYPE_CHECKING:
    from compiler.emulator.threads import Run

Array = np.ndarray[Any, Any]
Values = list[tuple[Any, ...]]


def _source(op: Shuffle, lane: int, by: int) -> int:
    """The lane that a lane reads: its own where there is no such lane in its group."""
    first = lane - lane % op.width
    match op.mode:
        case "idx":
            return first + by % op.width
        case "up":
            return lane - by if first <= lane - by <= lane else lane
        case "down":
            return lane + by if lane <= lane + by < first + op.width else lane
        case _:
            return lane ^ by if first <= (lane ^ by) < first + op.width else lane


def _shuffle(op: Shuffle, lanes: list[int], values: Values) -> list[Any]:
    held = {lane: v for lane, (v, _) in zip(lanes, values, strict=True)}
    return [held.get(_source(op, lane, by), own) for lane, (own, by) in zip(lanes, values, strict=True)]


def _vote(op: Vote, lanes: list[int], values: Values) -> list[Any]:
    match op.operation:
        case "ballot":
            result: Any = numbers.wrap(sum(1 << lane for lane, (p,) in zip(lanes, values, strict=True) if p), "i32")
        case "any":
            result = any(p for (p,) in values)
        case _:
            result = all(p for (p,) in values)
    return [result] * len(lanes)


def _match(op: Match, lanes: list[int], values: Values) -> list[Any]:
    dtype = dtype_of(op.value)
    bits = [numbers.bits_of(v, dtype) for (v,) in values]
    masks = [numbers.wrap(sum(1 << lane for lane, b in zip(lanes, bits, strict=True) if b == own), "i32") for own in bits]
    return masks if op.mode == "any" or len(set(bits)) == 1 else [0] * len(lanes)


def _redux(op: Redux, lanes: list[int], values: Values) -> list[Any]:
    dtype = dtype_of(op.value)
    total = values[0][0]
    for (value,) in values[1:]:
        total = int(arrays.tile_binary(op.operation, dtype, arrays.numpy_scalar(total, dtype), arrays.numpy_scalar(value, dtype)))
    return [total] * len(lanes)


def matrix_of(op: MmaLoad | MmaStore, fragment: Fragment, memory: Array, index: tuple[int, ...]) -> Array:
    """The fragment's matrix in memory, as a view: rows and columns as the fragment has them."""
    rows, columns = fragment.shape
    plane: Array = memory[index[:-2]]
    down, across = index[-2:]
    high, wide = (rows, columns) if op.layout == "row" else (columns, rows)
    view: Array = plane[down : down + high, across : across + wide]
    if view.shape != (high, wide) or min(down, across) < 0:
        raise fault(f"a matrix of {high}x{wide} at {index} leaves a memory of shape {memory.shape}")
    return view if op.layout == "row" else view.T


def _mma_load(op: MmaLoad, lanes: list[int], values: Values) -> list[Any]:
    assert isinstance(op.type, Fragment)
    memory, index = values[0]
    matrix = matrix_of(op, op.type, memory, index).view(arrays.NUMPY[op.type.dtype])
    if op.type.dtype == "f32" and op.type.role is not FragmentRole.ACCUMULATOR:
        matrix = tf32(matrix)
    return [matrix.astype(np.float64)] * len(lanes)


def tf32(matrix: Array) -> Array:
    """Rounded to ten bits behind the point, halves away from zero."""
    bits = np.ascontiguousarray(matrix).view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(matrix), rounded, matrix)


def _mma(op: Mma, lanes: list[int], values: Values) -> list[Any]:
    a, b, c = values[0]
    assert isinstance(op.c.type, Fragment)
    return [arrays.round_array(a @ b + c, op.c.type.dtype).astype(np.float64)] * len(lanes)


def _mma_store(op: MmaStore, lanes: list[int], values: Values) -> list[Any]:
    assert isinstance(op.fragment.type, Fragment)
    memory, index, matrix = values[0]
    view = matrix_of(op, op.fragment.type, memory, index)
    view[...] = arrays.round_array(matrix, op.fragment.type.dtype).view(view.dtype)
    return [None] * len(lanes)


def _row(memory: Array, index: tuple[int, ...]) -> Array:
    """Sixteen bytes of neighbours in the last dim, as 16-bit words."""
    count = 16 // memory.itemsize
    row: Array = memory[index[:-1]][index[-1] : index[-1] + count]
    if row.shape != (count,):
        raise fault(f"a matrix row at {index} leaves a memory of shape {memory.shape}")
    return row.view(np.uint16)


def _load_matrix(op: LoadMatrix, lanes: list[int], values: Values) -> list[Any]:
    matrices = [np.array([_row(*values[8 * n + r]) for r in range(8)]) for n in range(op.count)]
    answers = []
    for lane in lanes:
        row, column = lane // 4, 2 * (lane % 4)
        pairs = [(m[column, row], m[column + 1, row]) if op.transpose else (m[row, column], m[row, column + 1]) for m in matrices]
        answers.append(tuple(int(low) | int(high) << 16 for low, high in pairs))
    return answers


def _store_matrix(op: StoreMatrix, lanes: list[int], values: Values) -> list[Any]:
    for n in range(len(op.values)):
        matrix = np.zeros((8, 8), np.uint16)
        for lane, (_, _, *words) in zip(lanes, values, strict=True):
            row, column = lane // 4, 2 * (lane % 4)
            for e in range(2):
                place = (column + e, row) if op.transpose else (row, column + e)
                matrix[place] = words[n] >> 16 * e & 0xFFFF
        for r in range(8):
            memory, index, *_ = values[8 * n + r]
            _row(memory, index)[:] = matrix[r]
    return [None] * len(lanes)


MEET: dict[type[Instruction], Callable[[Any, list[int], Values], list[Any]]] = {
    Shuffle: _shuffle,
    Vote: _vote,
    Match: _match,
    Redux: _redux,
    Elect: lambda op, lanes, values: [lane == lanes[0] for lane in lanes],
    WarpSync: lambda op, lanes, values: [None] * len(lanes),
    MmaLoad: _mma_load,
    Mma: _mma,
    MmaStore: _mma_store,
    LoadMatrix: _load_matrix,
    StoreMatrix: _store_matrix,
    WarpMma: multiply,
    WarpgroupFence: lambda op, lanes, values: [None] * len(lanes),
    WarpgroupWait: finish_products,
}
"""What the lanes of a warp get from an instruction at which they meet, from what each brings."""


# ---- what is watched ---------------------------------------------------------------------------------------------------


def watch_lanes(op: Instruction, lanes: list[int], values: Values, clocks: list[Clock], found: Findings) -> None:
    """Tells of lanes that are not in their own mask, and, when all is to be found, of shuffles that read lanes which take no part."""
    match op:
        case Shuffle() if found.collecting:
            for lane, (_, by), clock in zip(lanes, values, clocks, strict=True):
                source = _source(op, lane, by)
                if source not in lanes:
                    found.add(findings.lane_absent(op, clock, lane, source))
        case WarpSync() if op.mask is not None:
            for lane, (mask,), clock in zip(lanes, values, clocks, strict=True):
                if not mask >> lane & 1:
                    found.add(findings.mask_unfit(op, clock, f"is lane {lane}, which its mask {mask & 0xFFFFFFFF:#x} leaves out"))
        case _:
            pass


def touched(op: Instruction, lanes: list[int], values: Values, clocks: list[Clock], run: "Run") -> None:
    """The elements of memory that the warp touched, told to those who watch them. Which lane has which is not defined: they are told
    in turn."""
    if not isinstance(op, MmaLoad | MmaStore | LoadMatrix | StoreMatrix):
        return
    kind = "read" if isinstance(op, MmaLoad | LoadMatrix) else "write"
    for number, (memory, index, value) in enumerate(_elements(op, values)):
        watched = run.memories.get(id(memory))
        if watched is None:
            continue
        clock = clocks[number % len(clocks)]
        if kind == "read":
            watched.read(index, op, clock)
        else:
            watched.write(index, op, clock, value)


def _elements(op: Instruction, values: Values) -> Iterator[tuple[Array, tuple[int, ...], Any]]:
    """Memory, index and new content of each element that a matrix instruction touches."""
    if isinstance(op, MmaLoad | MmaStore):
        memory, index = values[0][:2]
        fragment = op.type if isinstance(op, MmaLoad) else op.fragment.type
        assert isinstance(fragment, Fragment)
        view = matrix_of(op, fragment, memory, index)
        rows, columns = view.shape if op.layout == "row" else view.shape[::-1]
        for row in range(rows):
            for column in range(columns):
                place = (*index[:-2], index[-2] + row, index[-1] + column)
                yield memory, place, memory[place]
    elif isinstance(op, LoadMatrix | StoreMatrix):
        count = op.count if isinstance(op, LoadMatrix) else len(op.values)
        for memory, index, *_ in values[: 8 * count]:
            for column in range(16 // memory.itemsize):
                place = (*index[:-1], index[-1] + column)
                yield memory, place, memory[place]
