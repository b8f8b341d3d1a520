"""Products of warpgroups in the interpreter: registers of 128 threads as matrices, operands read from shared memory as descriptors have
the hardware read them. A product is carried out when a wait asks for it; until then its result holds what shows when it is read."""

from functools import cache
from typing import Any

import numpy as np

from compiler.emulator import arrays
from compiler.emulator.block import Lanes, ThreadBlock
from compiler.emulator.clocks import NOTHING, Seen, ThreadClock
from compiler.emulator.fault import unsupported
from compiler.emulator.findings import unfenced_registers, unfinished_sums
from compiler.emulator.hopper import WARPGROUP, WarpgroupProducts, wrong
from compiler.emulator.watch import Watched
from compiler.hir.core import dtype_of
from compiler.hir.hopper import SWIZZLES, WarpgroupMma, WarpgroupWait, kind_of, register_points
from compiler.hir.instruction import Value
from compiler.hir.lane_maps import WARPGROUP_SUMS, warpgroup_rows
from compiler.hir.memory import mem_of
from compiler.hir.types import Mem, Tile, bytes_of

Array = np.ndarray[Any, Any]
Index = tuple[int, ...]
_WORD = 4
"""Bytes of a register."""


# ---- which thread and register holds what ------------------------------------------------------------------------


@cache
def accumulator_places(columns: int) -> tuple[Array, Array]:
    """Row and column of each thread's registers, in the hardware's order: arrays of 128 by columns / 2."""
    thread, register = np.arange(WARPGROUP)[:, None], np.arange(columns // 2)[None]
    count, (_, wide) = WARPGROUP_SUMS.count, WARPGROUP_SUMS.shape
    row, column = WARPGROUP_SUMS.position(thread, WARPGROUP_SUMS.of_register(register % count))
    return np.broadcast_to(row, column.shape), column + wide * (register // count)


@cache
def operand_places(dtype: str) -> tuple[Array, Array]:
    """Row and depth of each element of `a` in registers: arrays of 128 by 4 registers by elements of this type in a register."""
    lanes = warpgroup_rows(dtype)
    thread, register = np.arange(WARPGROUP)[:, None, None], np.arange(lanes.count)[None, :, None]
    row, depth = lanes.position(thread, lanes.of_register(register), np.arange(_WORD // bytes_of(dtype))[None, None])
    return np.broadcast_to(row, depth.shape), np.broadcast_to(depth, depth.shape)


@cache
def register_order(type_: Tile) -> Array:
    """Where the hardware's registers, one after the other, lie in the accumulator's array."""
    sizes = tuple((name, extent.constant) for name, extent in type_.axes)
    points = register_points(sizes)
    if points is None:
        raise unsupported(f"an accumulator {type_}: name its axes as in `tile<j2:32, i1:2, j0:2, f32>`")
    shape = tuple(size for _, size in sizes)
    return np.array([np.ravel_multi_index(tuple(point[name] for name, _ in sizes), shape) for point in points])


# ---- operands ----------------------------------------------------------------------------------------------------


def _numbers(held: Array, dtype: str) -> Array:
    """Elements as doubles; f32 without the bits that tf32 doesn't have."""
    if dtype == "f32":
        held = (held.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    numbers: Array = held.view(arrays.NUMPY[dtype]).astype(np.float64)
    return numbers


def _places(op: WarpgroupMma, value: Value, memory: Array, index: Index, rows: int, transposed: bool) -> Array:
    """Where the operand's elements lie in memory, as rows by depth. Rows of memory are as wide as the swizzle; transposed, boxes of that
    width follow each other."""
    type_ = mem_of(value)
    if type_.swizzle not in SWIZZLES:
        raise unsupported(f"a warpgroup's operand in {type_}: its memory is swizzled ({', '.join(SWIZZLES)})")
    width, depth = SWIZZLES[type_.swizzle] // bytes_of(type_.dtype), op.shape[2]
    start = 0
    for extent, at in zip(memory.shape, index, strict=True):
        start = start * extent + at
    row, deep = np.arange(rows)[:, None], np.arange(depth)[None]
    if transposed:
        apart = memory.shape[-2] * (memory.shape[-1] if memory.ndim > 2 else width)
        position = start + row // width * apart + deep * width + row % width
    else:
        position = start + row * width + deep
    if start < 0 or position.max() >= memory.size:
        raise wrong(op, f"an operand of {rows}x{depth} at {index} leaves a memory of shape {memory.shape}")
    positions: Array = position
    return positions


def _from_registers(op: WarpgroupMma, held: Array, first: int, dtype: str) -> Array:
    words = held.reshape(len(held), -1)[:, first : first + 4]
    if words.shape != (WARPGROUP, 4) or dtype_of(op.a) not in ("u32", "i32"):
        raise unsupported("a warpgroup's operand in registers of this type: give four u32, packed")
    size = bytes_of(dtype)
    matrix = np.zeros((64, op.shape[2]))
    elements = np.ascontiguousarray(words.astype(np.uint32)).view(arrays.STORED[dtype]).reshape(WARPGROUP, 4, _WORD // size)
    matrix[operand_places(dtype)] = _numbers(elements, dtype)
    return matrix


# ---- the product -------------------------------------------------------------------------------------------------


def warpgroups_of(lanes: Lanes) -> list[tuple[int, slice]]:
    """The warpgroups that are here, with their lanes."""
    starts = range(0, len(lanes), WARPGROUP)
    return [(int(lanes.numbers[start]) // WARPGROUP, slice(start, start + WARPGROUP)) for start in starts]


def begin_products(op: WarpgroupMma, lanes: Lanes, sums: Array, a: Any, a_index: Index, b: Array, b_index: Index, keep: Any) -> Array:
    """Send each warpgroup's product on its way. The results refer to rows that are filled in when it is done."""
    assert isinstance(op.accumulator.type, Tile)
    results = arrays.objects([None] * len(lanes))
    for number, threads in warpgroups_of(lanes):
        index = [tuple(_same(op, part, threads) for part in index) for index in (a_index, b_index)]
        group = lanes.block.engines.warpgroups[number]
        left = a if isinstance(op.a.type, Mem) else a[threads]
        ends = sums[threads], left, index[0], b, index[1], _same(op, keep, threads)
        results[threads] = arrays.objects(list(_begin(op, group, lanes.clocks()[threads], lanes.block, *ends)))
    return results


def _same(op: WarpgroupMma, value: Any, threads: slice) -> Any:
    """What all threads of a warpgroup hold."""
    if not isinstance(value, np.ndarray):
        return value
    if not (value[threads] == value[threads][0]).all():
        raise wrong(op, "its operands and `keep` differ from thread to thread")
    return value[threads][0].item()


def _begin(
    op: WarpgroupMma,
    group: WarpgroupProducts,
    clocks: list[ThreadClock],
    block: ThreadBlock,
    sums: Array,
    a: Array,
    a_index: Index,
    b: Array,
    b_index: Index,
    keep: bool,
) -> Array:
    accumulator, dtype = op.accumulator.type, mem_of(op.b).dtype
    left = mem_of(op.a).dtype if isinstance(op.a.type, Mem) else dtype
    assert isinstance(accumulator, Tile)
    _, columns, depth = op.shape
    kind = kind_of(left, dtype)
    if kind is None or kind.depth != depth or kind.sums != accumulator.dtype:
        raise unsupported(f"a warpgroup product of {left} and {dtype}, depth {depth}, summed in {accumulator.dtype}")
    if (op.transpose_a or op.transpose_b) and bytes_of(dtype) != 2:
        raise unsupported(f"a transposed warpgroup operand of {dtype}: only 16-bit operands can lie across")
    order = register_order(accumulator)
    if len(order) != columns // 2:
        raise wrong(op, f"an accumulator of {len(order)} registers for {columns} columns")
    shape = tuple(extent.constant for _, extent in accumulator.axes)
    result: Array = arrays.new_memory(accumulator.dtype, (WARPGROUP, *shape)).view(arrays.NUMPY[accumulator.dtype])
    places = accumulator_places(columns)
    a_places = _places(op, op.a, a, a_index, 64, op.transpose_a) if isinstance(op.a.type, Mem) else None
    b_places = _places(op, op.b, b, b_index, columns, op.transpose_b)
    operands = [(b, b_places), *([(a, a_places)] if a_places is not None else [])]
    for memory, elements in operands:
        block.engines.require_fenced(op, memory, elements, block.run.findings)
    owner = result if result.base is None else result.base
    group.pending[id(owner)] = op
    engine = _watched(op, group, block, clocks, operands) if block.run.watching else None

    def product() -> Seen:
        if a_places is not None:
            rows = _numbers(a.reshape(-1)[a_places], left)
        else:
            rows = _from_registers(op, a, 2 * sum(a_index), dtype)
        total = (-rows if op.negated else rows) @ _numbers(b.reshape(-1)[b_places], dtype).T
        if keep:
            held = np.zeros((64, columns))
            held[places] = arrays.settled(sums).reshape(WARPGROUP, -1)[:, order]
            total = total + held
        rounded = total.astype(np.int64).astype(np.int32) if accumulator.dtype == "i32" else total.astype(np.float32)
        result.reshape(WARPGROUP, -1)[:, order] = rounded[places]
        group.pending.pop(id(owner))
        return engine.snapshot() if engine is not None else NOTHING

    group.open.append(product)
    return result


def _watched(
    op: WarpgroupMma, group: WarpgroupProducts, block: ThreadBlock, clocks: list[ThreadClock], operands: list[tuple[Array, Array]]
) -> ThreadClock:
    """The clock of a product that reads its operands from now on until it is waited for."""
    if not group.fenced:
        block.run.findings.add(unfenced_registers(op, clocks[0]))
    engine = block.engine(clocks)
    for memory, elements in operands:
        watched = block.run.memories.get(id(memory))
        if isinstance(watched, Watched):
            places = np.unravel_index(elements.reshape(-1), memory.shape)
            watched.read(zip(*(part.tolist() for part in places), strict=True), op, engine)
    return engine


def fence_registers(lanes: Lanes) -> None:
    for number in np.unique(lanes.numbers // WARPGROUP).tolist():
        lanes.block.engines.warpgroups[number].fenced = True


def finish_products(op: WarpgroupWait, lanes: Lanes) -> None:
    """Warps wait for the products of their warpgroups."""
    clocks = lanes.clocks()
    for number in np.unique(lanes.numbers // WARPGROUP).tolist():
        group = lanes.block.engines.warpgroups[number]
        group.wait(op.count)
        group.fenced = False
        for lane in np.flatnonzero(lanes.numbers // WARPGROUP == number).tolist():
            clocks[lane].learn(group.left)


def settled_sums(lanes: Lanes, rows: Array) -> Array:
    """Sums as they are now; tells of those that are not done."""
    if rows.dtype == object:
        for number, row in zip(lanes.numbers.tolist(), rows, strict=True):
            op = lanes.block.engines.warpgroups[number // WARPGROUP].pending.get(id(row.base))
            if op is not None:
                lanes.block.run.findings.add(unfinished_sums(op, lanes.block.clocks[number]))
    return arrays.settled(rows)


def commit_products(lanes: Lanes) -> None:
    for number, _ in warpgroups_of(lanes):
        lanes.block.engines.warpgroups[number].commit()
