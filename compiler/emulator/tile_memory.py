"""Loads, stores and sorts of memory by NumPy: what `interpret.py` calls for values with axes."""

from typing import Any

import numpy as np

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.emulator import arrays
from compiler.hir.instruction import Instruction
from compiler.hir.memory import Load, Store
from compiler.hir.text import print_instruction
from compiler.hir.types import is_float

Array = np.ndarray[Any, Any]


def _inside(index: tuple[Any, ...], dims: tuple[int, ...]) -> Any:
    inside: Any = np.True_
    for i, extent in zip(index, dims, strict=True):
        if isinstance(i, int):
            if not 0 <= i < extent:
                return np.False_
            continue
        within = np.asarray(i, np.int64).view(np.uint64) < extent  # what is below 0 is huge
        inside = within if inside is np.True_ else inside & within
    return inside


def _reach(op: Instruction, index: tuple[Any, ...], wrong: Array, dims: tuple[int, ...]) -> ZyntaxError:
    first = tuple(np.argwhere(wrong)[0])
    element = tuple(int(np.broadcast_to(i, wrong.shape)[first]) for i in index)
    return ZyntaxError(Diagnostic("0901", f"`{print_instruction(op)}` reaches {element} in a memory of shape {dims}"))


def carried(index: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Where elements of a vector are that goes on behind the end of a row, or begins before it, in a memory without gaps."""
    rows, column = list(index), index[-1]
    for place in range(len(shape) - 1, 0, -1):
        over, rows[place] = np.floor_divide(column, max(shape[place], 1)), np.mod(column, max(shape[place], 1))
        column = rows[place - 1] = rows[place - 1] + over
    return tuple(rows)


def tile_load(
    memory: Array, dtype: str, index: tuple[Any, ...], where: Any, fill: Any, padded: bool, shape: tuple[int, ...], op: Load
) -> Array:
    if op.align is not None:
        index = carried(index, memory.shape) if memory.flags.c_contiguous else index
        return _aligned_load(memory, dtype, index, where, fill, shape, op)
    inside = _inside(index, memory.shape)
    everywhere = np.count_nonzero(inside) == inside.size
    if everywhere and where is not None and memory.size and np.count_nonzero(where) == np.size(where):
        return arrays.of_shape(np.asarray(memory[index]).view(arrays.NUMPY[dtype]), shape)
    if not everywhere and not padded:
        wrong = ~inside if where is None else where & ~inside
        if wrong.any():
            raise _reach(op, index, np.broadcast_to(wrong, shape), memory.shape)
    taken = inside if where is None else where if everywhere else where & inside
    if memory.size == 0 or not taken.any():
        return arrays.spread_constant(fill, shape, dtype)
    if not everywhere:
        index = tuple(np.minimum(np.maximum(i, 0), extent - 1) for i, extent in zip(index, memory.shape, strict=True))
    result = np.asarray(memory[index]).view(arrays.NUMPY[dtype])
    if not everywhere or where is not None:
        result = np.where(taken, result, arrays.NUMPY[dtype].type(fill))
    return arrays.of_shape(result, shape)


def _aligned_load(
    memory: Array, dtype: str, index: tuple[Any, ...], where: Any, fill: Any, shape: tuple[int, ...], op: Load
) -> Array:
    """Elements outside may be anything: here the last one inside."""
    _require_aligned(memory, index, where, shape, op)
    safe = tuple(np.minimum(np.maximum(i, 0), extent - 1) for i, extent in zip(index, memory.shape, strict=True))
    result = np.asarray(memory[safe]).view(arrays.NUMPY[dtype])
    return arrays.of_shape(result if where is None else np.where(where, result, arrays.NUMPY[dtype].type(fill)), shape)


def _require_aligned(memory: Array, index: tuple[Any, ...], where: Any, shape: tuple[int, ...], op: Load | Store) -> None:
    begin = sum(np.asarray(i) * stride for i, stride in zip(index, memory.strides, strict=True))
    first = np.broadcast_to(begin, shape)[..., 0]
    wanted = np.broadcast_to(True if where is None else where, shape)[..., 0]
    if np.any(first[wanted] % op.align):
        raise ZyntaxError(Diagnostic("0901", f"`{print_instruction(op)}` begins at no multiple of {op.align} bytes"))


def tile_store(memory: Array, dtype: str, index: tuple[Any, ...], value: Any, where: Any, op: Store) -> None:
    shape = np.broadcast_shapes(*(np.shape(i) for i in index), np.shape(value), np.shape(where if where is not None else 0))
    if op.align is not None:
        index = carried(index, memory.shape) if memory.flags.c_contiguous else index
        _require_aligned(memory, index, where, shape, op)
    inside = np.broadcast_to(_inside(index, memory.shape), shape)
    wanted = np.ones(shape, np.bool_) if where is None else np.broadcast_to(where, shape)
    if (wanted & ~inside).any():
        raise _reach(op, index, wanted & ~inside, memory.shape)
    places = tuple(np.broadcast_to(i, shape)[wanted] for i in index)
    values = np.ascontiguousarray(np.broadcast_to(np.asarray(value).astype(arrays.NUMPY[dtype]), shape)[wanted]).view(memory.dtype)
    if memory.ndim:
        memory[places] = values
    elif values.size:
        memory[()] = values[-1]


def sort_lines(memories: list[tuple[Array, str]], axis: int, descending: bool) -> None:
    """Stable, in place, NaN last; -0.0 and 0.0 are equal."""
    keys, dtype = memories[0]
    keys = keys.view(arrays.NUMPY[dtype])
    if is_float(dtype):
        numbers_ = keys.astype(np.float64)
        missing = np.isnan(numbers_)
        numbers_ = np.where(missing, 0.0, -numbers_ if descending else numbers_) + 0.0
        order = np.lexsort((numbers_, missing), axis=axis)
    else:
        ranked = ~keys if descending else keys
        order = np.argsort(ranked, axis=axis, kind="stable")
    for memory, _ in memories:
        memory[...] = np.take_along_axis(memory, order, axis)


__all__ = ["sort_lines", "tile_load", "tile_store"]
