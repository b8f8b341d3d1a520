"""Products of warpgroups in the interpreter: registers of 128 threads as matrices, operands read from shared memory as descriptors have
the hardware read them. A product is carried out when a wait asks for it; until then its result holds what shows when it is read."""

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.emulator import arrays
from compiler.emulator.fault import unsupported
from compiler.emulator.hopper import WARPGROUP, Warpgroup, wrong
from compiler.hir.core import dtype_of
from compiler.hir.hopper import SWIZZLES, WarpgroupMma, WarpgroupWait, kind_of, register_points
from compiler.hir.instruction import Value
from compiler.hir.memory import mem_of
from compiler.hir.types import Mem, Tile, bytes_of

if TYPE_CHECKING:
    from compiler.emulator.threads import Block

Array = np.ndarray[Any, Any]
Index = tuple[int, ...]
_WORD = 4
"""Bytes of a register."""


# ---- which thread and register holds what ------------------------------------------------------------------------


@cache
def accumulator_places(columns: int) -> tuple[Array, Array]:
    """Row and column of each thread's registers, in the hardware's order: arrays of 128 by columns / 2."""
    thread, register = np.arange(WARPGROUP)[:, None], np.arange(columns // 2)[None]
    row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (register // 2 % 2)
    return row, np.broadcast_to(8 * (register // 4) + 2 * (thread % 4) + register % 2, row.shape)


@cache
def operand_places(size: int) -> tuple[Array, Array]:
    """Row and depth of each element of `a` in registers: arrays of 128 by 4 registers by elements of `size` bytes in a register."""
    thread, register = np.arange(WARPGROUP)[:, None, None], np.arange(4)[None, :, None]
    element = np.arange(_WORD // size)[None, None]
    row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (register % 2) + 0 * element
    return row, _WORD // size * (thread % 4) + 16 // size * (register // 2) + element + 0 * row


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
    found: Array = held.view(arrays.NUMPY[dtype]).astype(np.float64)
    return found


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
        place = start + row // width * apart + deep * width + row % width
    else:
        place = start + row * width + deep
    if start < 0 or place.max() >= memory.size:
        raise wrong(op, f"an operand of {rows}x{depth} at {index} leaves a memory of shape {memory.shape}")
    found: Array = place
    return found


def _from_registers(op: WarpgroupMma, held: list[Array], first: int, dtype: str) -> Array:
    words = np.array([np.ascontiguousarray(registers).reshape(-1)[first : first + 4] for registers in held])
    if words.shape != (WARPGROUP, 4) or dtype_of(op.a) not in ("u32", "i32"):
        raise unsupported("a warpgroup's operand in registers of this type: give four u32, packed")
    size = bytes_of(dtype)
    matrix = np.zeros((64, op.shape[2]))
    elements = np.ascontiguousarray(words.astype(np.uint32)).view(arrays.STORED[dtype]).reshape(WARPGROUP, 4, _WORD // size)
    matrix[operand_places(size)] = _numbers(elements, dtype)
    return matrix


# ---- the product -------------------------------------------------------------------------------------------------


def begin_product(op: WarpgroupMma, group: Warpgroup, values: list[tuple[Any, ...]], block: "Block") -> list[Array]:
    """Send the product of 128 threads on its way; the results are filled in when it is done."""
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
    first = values[0]
    if any(value[2:6:2] != first[2:6:2] or value[5] != first[5] for value in values):
        raise wrong(op, "its operands and `keep` differ from thread to thread")
    shape = tuple(extent.constant for _, extent in accumulator.axes)
    results = [arrays.new_memory(accumulator.dtype, shape).view(arrays.NUMPY[accumulator.dtype]) for _ in values]
    places = accumulator_places(columns)
    a_places = _places(op, op.a, first[1], first[2], 64, op.transpose_a) if isinstance(op.a.type, Mem) else None
    b_places = _places(op, op.b, first[3], first[4], columns, op.transpose_b)
    if a_places is not None:
        block.engines.require_fenced(op, first[1], a_places, block.run.findings)
    block.engines.require_fenced(op, first[3], b_places, block.run.findings)

    def product() -> None:
        if a_places is not None:
            a = _numbers(first[1].reshape(-1)[a_places], left)
        else:
            a = _from_registers(op, [value[1] for value in values], 2 * sum(first[2]), dtype)
        total = a @ _numbers(first[3].reshape(-1)[b_places], dtype).T
        if first[5]:
            held = np.zeros((64, columns))
            held[places] = [value[0].reshape(-1)[order] for value in values]
            total = total + held
        if accumulator.dtype == "i32":
            rounded = total.astype(np.int64).astype(np.int32)
        else:
            rounded = total.astype(np.float32)
        for registers, result in zip(rounded[places], results, strict=True):
            result.reshape(-1)[order] = registers

    group.open.append(product)
    return results


def finish_products(op: WarpgroupWait, lanes: list[int], values: list[tuple[Any, ...]]) -> list[Any]:
    """A warp waits; the accumulators pass through."""
    for group, *_ in values:
        group.wait(op.count)
    return [held for _, *held in values]
