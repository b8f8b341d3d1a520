"""What the lanes of warps do together: shuffles, votes, and the matrices of tensor cores. All lanes of a warp are there, unless the
sanitizer has told that some are not and lets the others go on."""

from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import numpy as np

from compiler.emulator import arrays, findings
from compiler.emulator.block import Lanes
from compiler.emulator.fault import fault
from compiler.hir import numbers
from compiler.hir.core import dtype_of
from compiler.hir.gpu import Elect, MatchLanes, Redux, Shuffle, Vote
from compiler.hir.instruction import Instruction
from compiler.hir.lane_maps import LaneMap
from compiler.hir.tensor_core import LoadMatrix, Mma, MmaLoad, MmaStore, StoreMatrix, WarpMma
from compiler.hir.types import Fragment, FragmentRole
from compiler.hir.words import FloatPair, PermuteBytes

Array = np.ndarray[Any, Any]
Index = tuple[Any, ...]

TF32 = 0xFFFFE000
"""Bits of an f32 that tf32 has."""


def _each(lanes: Lanes, value: Any) -> Array:
    """A value for each lane."""
    array = np.asarray(value)
    return array if array.ndim else np.broadcast_to(array, (len(lanes),))


def _for_warps(lanes: Lanes, values: list[Any]) -> Array:
    """A value for each warp as one for each of its lanes."""
    starts = lanes.warp_starts()
    return np.repeat(np.array(values), np.diff([*starts, len(lanes)]), axis=0)


# ---- numbers -----------------------------------------------------------------------------------------------------


def _source(op: Shuffle, lane: Array, by: Array, lanes: int) -> Array:
    """The lane that each lane reads: its own where there is no such lane in its group."""
    width = min(op.width, lanes)
    first = lane - lane % width
    match op.mode:
        case "idx":
            return np.asarray(first + by % width)
        case "up":
            return np.where((first <= lane - by) & (lane - by <= lane), lane - by, lane)
        case "down":
            return np.where((lane <= lane + by) & (lane + by < first + width), lane + by, lane)
        case _:
            return np.where((first <= lane ^ by) & (lane ^ by < first + width), lane ^ by, lane)


def shuffle(lanes: Lanes, op: Shuffle, value: Any, by: Any) -> Any:
    lane = lanes.numbers % lanes.block.run.lanes
    source = _source(op, lane, np.asarray(by, np.int64), lanes.block.run.lanes)
    wanted = lanes.numbers - lane + source
    position = np.minimum(np.searchsorted(lanes.numbers, wanted), len(lanes) - 1)
    there = lanes.numbers[position] == wanted
    if lanes.block.run.watching and not there.all():
        _tell_absent(lanes, op, lane, source, there)
    return _each(lanes, value)[np.where(there, position, np.arange(len(lanes)))]


def _tell_absent(lanes: Lanes, op: Shuffle, lane: Array, source: Array, there: Array) -> None:
    def tell(position: int) -> None:
        if not there[position]:
            clock = lanes.block.clocks[int(lanes.numbers[position])]
            lanes.block.run.findings.add(findings.lane_absent(op, clock, int(lane[position]), int(source[position])))

    lanes.block.later(lanes.numbers, tell)


def vote(lanes: Lanes, op: Vote, predicate: Any) -> Array:
    held = _each(lanes, predicate)
    starts = lanes.warp_starts()
    match op.operation:
        case "ballot":
            bits = np.where(held, np.uint64(1) << (lanes.numbers % lanes.block.run.lanes).astype(np.uint64), np.uint64(0))
            result = np.bitwise_or.reduceat(bits, starts).astype(np.uint32).view(np.int32)
        case "any":
            result = np.logical_or.reduceat(held, starts)
        case _:
            result = np.logical_and.reduceat(held, starts)
    return np.repeat(result, np.diff([*starts, len(lanes)]))


def match(lanes: Lanes, op: MatchLanes, value: Any) -> Array:
    held, dtype = _each(lanes, value), dtype_of(op.value)
    out = np.zeros(len(lanes), np.int32)
    for warp in lanes.by_warp():
        bits = [numbers.bits_of(v, dtype) for v in held[warp].tolist()]
        lane = (lanes.numbers[warp] % lanes.block.run.lanes).tolist()
        masks = [numbers.wrap(sum(1 << n for n, b in zip(lane, bits, strict=True) if b == own), "i32") for own in bits]
        out[warp] = masks if op.mode == "any" or len(set(bits)) == 1 else 0
    return out


def redux(lanes: Lanes, op: Redux, value: Any) -> Array:
    held, dtype = _each(lanes, value), dtype_of(op.value)
    totals = []
    for warp in lanes.by_warp():
        total = held[warp.start]
        for other in held[warp.start + 1 : warp.stop]:
            total = arrays.tile_binary(op.operation, dtype, np.asarray(total), np.asarray(other))
        totals.append(total)
    return _for_warps(lanes, totals).astype(arrays.NUMPY[dtype])


def elect(lanes: Lanes, op: Elect) -> Array:
    first = np.zeros(len(lanes), np.bool_)
    first[lanes.warp_starts()] = True
    return first


# ---- fragments: each lane refers to its warp's matrix ------------------------------------------------------------


def _fragments(lanes: Lanes, matrices: list[Array]) -> Array:
    return np.repeat(arrays.objects(matrices), np.diff([*lanes.warp_starts(), len(lanes)]))


def _matrices(lanes: Lanes, held: Array) -> Array:
    """The matrix of each warp."""
    if held.dtype != object:
        return held[None]
    return np.array([held[start] for start in lanes.warp_starts().tolist()])


def _corners(lanes: Lanes, index: Index) -> list[tuple[int, ...]]:
    """Where each warp's matrix begins."""
    starts = lanes.warp_starts()
    return list(zip(*(_each(lanes, part)[starts].tolist() for part in index), strict=True))


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


def _tell_matrices(lanes: Lanes, op: MmaLoad | MmaStore, fragment: Fragment, memory: Array, corners: list[tuple[int, ...]]) -> None:
    """Which lane has which element isn't defined: they are told in turn."""
    watched = lanes.block.run.memories.get(id(memory))
    if watched is None:
        return
    rows, columns = fragment.shape if op.layout == "row" else fragment.shape[::-1]
    down, across = (part.reshape(-1) for part in np.indices((rows, columns)))
    for warp, corner in zip(lanes.by_warp(), corners, strict=True):
        numbers_ = lanes.numbers[warp]
        each = -(-rows * columns // len(numbers_)) * len(numbers_)
        order = np.arange(each).reshape(-1, len(numbers_)).T
        there = order < rows * columns
        order = np.minimum(order, rows * columns - 1)
        index: Index = (*corner[:-2], corner[-2] + down[order], corner[-1] + across[order])
        kind = "read" if isinstance(op, MmaLoad) else "write"
        watched.tell(kind, op, Lanes(lanes.block, numbers_, {}), index, there, memory[index] if kind == "write" else None)


def mma_load(lanes: Lanes, op: MmaLoad, memory: Array, index: Index) -> Array:
    assert isinstance(op.type, Fragment)
    corners, loaded = _corners(lanes, index), []
    for corner in corners:
        matrix = matrix_of(op, op.type, memory, corner).view(arrays.NUMPY[op.type.dtype])
        if op.type.dtype == "f32" and op.type.role is not FragmentRole.ACCUMULATOR:
            matrix = _tf32(matrix)
        loaded.append(matrix.astype(np.float64))
    _tell_matrices(lanes, op, op.type, memory, corners)
    return _fragments(lanes, loaded)


def _tf32(matrix: Array) -> Array:
    """Rounded to ten bits behind the point, halves away from zero."""
    bits = np.ascontiguousarray(matrix).view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(TF32)).view(np.float32)
    return np.where(np.isfinite(matrix), rounded, matrix)


def mma(lanes: Lanes, op: Mma, a: Array, b: Array, c: Array) -> Array:
    assert isinstance(op.c.type, Fragment)
    total = _matrices(lanes, a) @ _matrices(lanes, b) + _matrices(lanes, c)
    product = arrays.round_array(total, op.c.type.dtype).astype(np.float64)
    return _fragments(lanes, list(np.broadcast_to(product, (len(lanes.warp_starts()), *product.shape[1:]))))


def mma_store(lanes: Lanes, op: MmaStore, memory: Array, index: Index, held: Array) -> None:
    fragment = op.fragment.type
    assert isinstance(fragment, Fragment)
    corners = _corners(lanes, index)
    matrices = np.broadcast_to(_matrices(lanes, held), (len(corners), *fragment.shape))
    for corner, matrix in zip(corners, matrices, strict=True):
        view = matrix_of(op, fragment, memory, corner)
        view[...] = arrays.round_array(matrix, fragment.dtype).view(view.dtype)
    _tell_matrices(lanes, op, fragment, memory, corners)


# ---- matrices between shared memory and registers ----------------------------------------------------------------


def _warps_of(lanes: Lanes, value: Any) -> Array:
    """A value of each lane as warps by lanes, 0 where a lane isn't there."""
    held, width = _each(lanes, value), lanes.block.run.lanes
    starts = lanes.warp_starts()
    if len(lanes) == len(starts) * width:
        return held.reshape(len(starts), width, *held.shape[1:])
    out = np.zeros((len(starts), width, *held.shape[1:]), held.dtype)
    out[_position(lanes)] = held
    return out


def _position(lanes: Lanes) -> tuple[Array, Array]:
    """Warp, by its place among those that are here, and lane of each."""
    starts = lanes.warp_starts()
    return np.repeat(np.arange(len(starts)), np.diff([*starts, len(lanes)])), lanes.numbers % lanes.block.run.lanes


def _rows(lanes: Lanes, count: int, memory: Array, index: Index) -> Array:
    """Where the rows of each warp's matrices lie, as elements of the flat memory: warps by matrices by 8 rows by elements of a row."""
    width = 16 // memory.itemsize
    giving = lanes.numbers % lanes.block.run.lanes < 8 * count
    flat: Any = 0
    inside: Any = True
    for number, (part, extent) in enumerate(zip(index, memory.shape, strict=True)):
        part = _each(lanes, part)
        flat = flat * extent + part
        inside = inside & (part >= 0) & (part + (width if number == memory.ndim - 1 else 1) <= extent)
    if not np.all(inside | ~giving):
        first = int(np.flatnonzero(~inside & giving)[0])
        element = tuple(int(_each(lanes, part)[first]) for part in index)
        raise fault(f"a matrix row at {element} leaves a memory of shape {memory.shape}")
    starts = _warps_of(lanes, flat)[:, : 8 * count].reshape(-1, count, 8, 1)
    return np.asarray(starts + np.arange(width))


def _tell_rows(lanes: Lanes, op: LoadMatrix | StoreMatrix, count: int, memory: Array, index: Index) -> None:
    watched = lanes.block.run.memories.get(id(memory))
    if watched is None:
        return
    width = 16 // memory.itemsize
    places = tuple(_each(lanes, part)[:, None] for part in index)
    places = (*places[:-1], places[-1] + np.arange(width))
    giving = (lanes.numbers % lanes.block.run.lanes < 8 * count)[:, None]
    held = memory[tuple(np.clip(part, 0, extent - 1) for part, extent in zip(places, memory.shape, strict=True))]
    watched.tell("read" if isinstance(op, LoadMatrix) else "write", op, lanes, places, giving, held)


def load_matrix(lanes: Lanes, op: LoadMatrix, memory: Array, index: Index) -> tuple[Array, ...]:
    rows = memory.reshape(-1)[_rows(lanes, op.count, memory, index)].view(np.uint16).astype(np.uint32)
    _tell_rows(lanes, op, op.count, memory, index)
    warp, lane = _position(lanes)
    row, column = lane // 4, 2 * (lane % 4)
    answers = []
    for n in range(op.count):
        matrix = rows[:, n].transpose(0, 2, 1) if op.transpose else rows[:, n]
        answers.append(matrix[warp, row, column] | matrix[warp, row, column + 1] << np.uint32(16))
    return tuple(answers)


def store_matrix(lanes: Lanes, op: StoreMatrix, memory: Array, index: Index, *words: Any) -> None:
    warp, lane = _position(lanes)
    row, column = lane // 4, 2 * (lane % 4)
    rows = np.zeros((len(lanes.warp_starts()), len(words), 8, 8), np.uint16)
    for n, word in enumerate(words):
        for element in range(2):
            position = (column + element, row) if op.transpose else (row, column + element)
            rows[(warp, n, *position)] = _each(lanes, word).astype(np.uint32) >> np.uint32(16 * element) & np.uint32(0xFFFF)
    memory.reshape(-1)[_rows(lanes, len(words), memory, index)] = rows.view(memory.dtype)
    _tell_rows(lanes, op, len(words), memory, index)


# ---- products from registers -------------------------------------------------------------------------------------


@cache
def _operand_places(map: LaneMap, deep: int) -> tuple[Array, Array]:
    """Row (or column) and term of each element of an operand's block with `deep` least ones along the terms: arrays of lanes by registers
    by elements of a register."""
    lanes, elements = (prod(count for count, _, _ in digits) for digits in (map.lanes, map.elements))
    lane, register, element = np.ogrid[:lanes, : deep * map.count, :elements]
    row, term = map.position(lane, map.of_register(register % map.count), element)
    places = np.broadcast_arrays(row, term + register // map.count * map.shape[1])
    return places[0], places[1]


def _operand(op: WarpMma, map: LaneMap, held: Array) -> Array:
    """An operand: what the lanes of each warp hold as rows by depth."""
    _, _, deep = op.kind.blocks(op.shape)
    rows, registers = map.shape[0], deep * map.count
    count = held.shape[2] // registers
    if op.dtype == "f64":
        elements = held[..., None]
    else:
        words = held.astype(np.uint32) & np.uint32(TF32 if op.kind.cut else 0xFFFFFFFF)
        elements = words[..., None].view(arrays.NUMPY[op.dtype])
    row, depth = _operand_places(map, deep)
    matrix = np.zeros((len(held), count * rows, op.shape[2]))
    for block in range(count):
        matrix[:, block * rows + row, depth] = elements[:, :, block * registers : (block + 1) * registers].astype(np.float64)
    return matrix


def warp_mma(lanes: Lanes, op: WarpMma, accumulator: Array, *values: Any) -> Array:
    """The sums of each lane with the warp's products added."""
    word, kind = np.float64 if op.dtype == "f64" else np.int64, op.kind
    registers = np.stack([_warps_of(lanes, value).astype(word) for value in values], axis=-1)
    a = _operand(op, kind.a, registers[..., : len(op.a)])
    b = _operand(op, kind.b, registers[..., len(op.a) :])
    to = dtype_of(op.accumulator)
    warp, lane = _position(lanes)
    across, other, down, pair = np.indices(accumulator.shape[-4:])
    exact = a @ b.transpose(0, 2, 1)
    warp, lane = (part.reshape(-1, 1, 1, 1, 1) for part in (warp, lane))
    row, column = kind.total.position(lane, (pair, other))
    total = exact[warp, row + kind.a.shape[0] * down, column + kind.b.shape[0] * across] + accumulator
    return np.asarray(total.astype(np.int64).astype(np.int32) if to == "i32" else total.astype(arrays.NUMPY[to]))


def permute_bytes(lanes: Lanes, op: PermuteBytes, a: Array, b: Array) -> Array:
    """Bytes of two registers of each lane."""
    both = _each(lanes, a).astype(np.uint64) | _each(lanes, b).astype(np.uint64) << np.uint64(32)
    taken = [(both >> np.uint64(8 * number) & np.uint64(255)) << np.uint64(8 * position) for position, number in enumerate(op.order)]
    return np.asarray(np.bitwise_or.reduce(taken).astype(np.uint32))


def float_pair(lanes: Lanes, op: FloatPair, value: Array) -> Array:
    """Both halves of each lane's register as floats."""
    halves = np.ascontiguousarray(_each(lanes, value).astype(np.uint32)).view(np.uint16).astype(np.int64)
    halves = (halves & ((1 << op.bits) - 1)) + op.least
    return halves.astype(np.float32).astype(arrays.NUMPY[op.dtype]).view(np.uint32)


CALLS: dict[type[Instruction], Callable[..., Any]] = {
    Shuffle: shuffle, Vote: vote, MatchLanes: match, Redux: redux, Elect: elect, MmaLoad: mma_load, Mma: mma, MmaStore: mma_store,
    LoadMatrix: load_matrix, StoreMatrix: store_matrix, WarpMma: warp_mma,
    PermuteBytes: permute_bytes, FloatPair: float_pair,
}  # fmt: skip
"""What lanes of warps do at an instruction: given the lanes, the instruction and its operands."""
