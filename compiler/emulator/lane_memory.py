"""What lanes read and write beside plain loads and stores: words of neighbouring elements, copies that arrive later, atomic changes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.emulator import arrays
from compiler.emulator.block import Lanes
from compiler.emulator.fault import fault
from compiler.hir.async_copy import AsyncCopy
from compiler.hir.gpu import Atomic
from compiler.hir.memory import mem_of
from compiler.hir.text import print_instruction
from compiler.hir.words import WORD, LoadWords, StoreWords

Array = np.ndarray[Any, Any]
Index = tuple[Any, ...]


def each(count: int, value: Any) -> Array:
    """A number as one for each lane."""
    return np.broadcast_to(np.asarray(value), (count,))


def place_of(index: Index, count: int, lane: int) -> tuple[int, ...]:
    """A lane's index."""
    return tuple(int(each(count, part)[lane]) for part in index)


# ---- words -------------------------------------------------------------------------------------------------------


def load_words(op: LoadWords, memory: Array, lanes: Lanes, index: Index, valid: Any) -> tuple[Array, ...]:
    """Contiguous elements of each lane as registers of four bytes; behind `valid` elements zeros."""
    count, elements = len(lanes), WORD * op.count // memory.itemsize
    wanted = np.full(count, elements) if valid is None else np.clip(each(count, valid), 0, elements)
    _require_inside(memory, index, wanted)
    column = np.arange(elements)
    taken = column < wanted[:, None]
    parts = [each(count, part)[:, None] for part in index]
    safe = [np.clip(part, 0, max(extent - 1, 0)) for part, extent in zip([*parts[:-1], parts[-1] + column], memory.shape, strict=True)]
    held = np.where(taken, memory[tuple(safe)], np.zeros((), memory.dtype)) if memory.size else np.zeros((count, elements), memory.dtype)
    return tuple(np.ascontiguousarray(held).view(np.uint32).T)


def store_words(op: StoreWords, memory: Array, lanes: Lanes, index: Index, values: tuple[Any, ...]) -> None:
    count = len(lanes)
    words = np.stack([each(count, value).astype(np.uint32) for value in values], axis=-1).view(memory.dtype)
    _require_inside(memory, index, np.full(count, words.shape[1]))
    parts = [each(count, part)[:, None] for part in index]
    memory[(*parts[:-1], parts[-1] + np.arange(words.shape[1]))] = words
    if not lanes.block.run.watching:
        lanes.block.run.filled(memory)


def _require_inside(memory: Array, index: Index, wanted: Array) -> None:
    """Those of whom something is wanted begin in the memory, and end there."""
    count = len(wanted)
    inside: Any = each(count, index[-1]) + wanted <= memory.shape[-1]
    for part, extent in zip(index, memory.shape, strict=True):
        inside = inside & (each(count, part) >= 0) & (each(count, part) < extent)
    outside = np.flatnonzero(~inside & (wanted > 0))
    if outside.size:
        first = int(outside[0])
        raise fault(f"{wanted[first]} elements from {place_of(index, count, first)} on leave a memory of shape {memory.shape}")


# ---- asynchronous copies -----------------------------------------------------------------------------------------


def async_copy(op: AsyncCopy, lanes: Lanes, to: Array, to_index: Index, source: Array, source_index: Index, count: int, where: Any) -> None:
    """Copies on their way to a memory whose elements are not followed."""
    lanes.block.copy(lanes.numbers, late_copies(len(lanes), to, to_index, source, source_index, count, where))
    lanes.block.run.filled(to)


def late_copies(
    lanes: int, to: Array, to_index: Index, source: Array, source_index: Index, count: int, where: Any
) -> Callable[[Array], None]:
    """The copies as an action for later, of those lanes whose copies land; both ends are contiguous in the last dim."""
    ends = [(to, [each(lanes, part) for part in to_index]), (source, [each(lanes, part) for part in source_index])]
    taken = each(lanes, where).astype(np.bool_)

    def land(landing: Array) -> None:
        reading = landing & taken
        for (memory, index), active in zip(ends, (landing, reading), strict=True):
            inside: Any = index[-1] + count <= memory.shape[-1]
            for part, extent in zip(index, memory.shape, strict=True):
                inside = inside & (part >= 0) & (part < extent)
            if (active & ~inside).any():
                first = int(np.flatnonzero(active & ~inside)[0])
                places = [tuple(int(part[first]) for part in index) for _, index in ends]
                raise fault(f"a copy of {count} elements from {places[1]} to {places[0]} leaves its memory")
        column = np.arange(count)
        idle = landing & ~taken
        if idle.any():
            to[_elements(ends[0][1], idle, column)] = 0
        to[_elements(ends[0][1], reading, column)] = source[_elements(ends[1][1], reading, column)]

    return land


def _elements(index: list[Array], active: Array, column: Array) -> Index:
    parts = [part[active][:, None] for part in index]
    return (*parts[:-1], parts[-1] + column)


# ---- atomics -----------------------------------------------------------------------------------------------------


def change(
    op: Atomic, lanes: Lanes, memory: Array, index: Index, value: Any, compare: Any, new: Callable[..., Any], where: Any
) -> Array:
    """Each lane's change of an element, one after the other; what each has found there."""
    count, dtype = len(lanes), mem_of(op.mem).dtype
    places = list(zip(*(each(count, part).tolist() for part in index), strict=True)) if index else [()] * count
    values = each(count, value).tolist()
    wanted = each(count, compare).tolist() if compare is not None else [None] * count
    seen, old = memory.view(arrays.NUMPY[dtype]), np.zeros(count, arrays.NUMPY[dtype])
    taken = each(count, where).tolist()
    for lane, position in enumerate(places):
        if not taken[lane]:
            continue
        if not all(0 <= part < extent for part, extent in zip(position, memory.shape, strict=True)):
            raise ZyntaxError(Diagnostic("0901", f"`{print_instruction(op)}` reaches {position} in a memory of shape {memory.shape}"))
        before = seen[position].item()
        old[lane] = before
        seen[position] = new(before, values[lane], wanted[lane])
    return old
