"""Products of a warp from registers in the interpreter: the registers of 32 lanes as matrices."""

from functools import cache
from typing import Any

import numpy as np

from compiler.emulator import arrays
from compiler.hir.core import dtype_of
from compiler.hir.tensor_core import WarpMma, in_register

Array = np.ndarray[Any, Any]
TF32 = 0xFFFFE000
"""Bits of an f32 that tf32 has."""


@cache
def _places(dtype: str, registers: int, rows: int) -> tuple[Array, Array]:
    """Row (or column) and depth of each element of an operand, of which `rows` make a block: arrays of lanes by registers by elements of
    a register."""
    lane, register, element = np.arange(32)[:, None, None], np.arange(registers)[None, :, None], np.arange(in_register(dtype))
    each = in_register(dtype)
    high = rows // 8
    row = lane // 4 + 8 * (register % high) + 0 * element
    return row, each * (lane % 4) + 4 * each * (register // high) + element + 0 * row


def _matrix(op: WarpMma, held: Array, rows: int, registers: int) -> Array:
    """An operand: what each lane holds as rows by depth."""
    count = held.shape[1] // registers
    if op.dtype == "f64":
        elements = held[:, :, None]
    else:
        words = held.astype(np.uint32) & np.uint32(TF32 if op.dtype == "f32" else 0xFFFFFFFF)
        elements = words[:, :, None].view(arrays.NUMPY[op.dtype])
    row, depth = _places(op.dtype, registers, rows)
    found = np.zeros((count * rows, op.shape[2]))
    for block in range(count):
        found[block * rows + row, depth] = elements[:, block * registers : (block + 1) * registers].astype(np.float64)
    return found


def multiply(op: WarpMma, lanes: list[int], values: list[tuple[Any, ...]]) -> list[Any]:
    """The sums of each lane with the warp's products added."""
    kind = np.float64 if op.dtype == "f64" else np.int64
    registers = np.array([value[1:] for value in values], kind)
    a = _matrix(op, registers[:, : len(op.a)], 16, op.registers)
    b = _matrix(op, registers[:, len(op.a) :], 8, op.registers // 2)
    to = dtype_of(op.accumulator)
    shape = np.asarray(values[0][0]).shape
    column, half, row, pair = np.indices(shape)
    exact = a @ b.T
    answers = []
    for lane, (held, *_) in zip(lanes, values, strict=True):
        total = exact[lane // 4 + 8 * half + 16 * row, 2 * (lane % 4) + pair + 8 * column] + np.asarray(held)
        answers.append(total.astype(np.int64).astype(np.int32) if to == "i32" else total.astype(arrays.NUMPY[to]))
    return answers
