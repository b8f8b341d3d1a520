"""What loads and stores of words do: contiguous elements as registers of four bytes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler.emulator.fault import fault
from compiler.hir.words import WORD


def read_words(memory: np.ndarray[Any, Any], index: tuple[int, ...], count: int, valid: int | None) -> tuple[int, ...]:
    """The words from an element on."""
    elements = WORD * count // memory.itemsize
    wanted = elements if valid is None else max(0, min(elements, valid))
    held = np.zeros(elements, memory.dtype)
    if wanted:
        held[:wanted] = _at(memory, index, wanted)
    return tuple(map(int, held.view(np.uint32)))


def write_words(memory: np.ndarray[Any, Any], index: tuple[int, ...], values: Sequence[int]) -> None:
    words = np.array([value & 0xFFFFFFFF for value in values], np.uint32).view(memory.dtype)
    _at(memory, index, len(words))[:] = words


def _at(memory: np.ndarray[Any, Any], index: tuple[int, ...], count: int) -> np.ndarray[Any, Any]:
    inside = all(0 <= place < extent for place, extent in zip(index, memory.shape, strict=True))
    if not inside or index[-1] + count > memory.shape[-1]:
        raise fault(f"{count} elements from {index} on leave a memory of shape {memory.shape}")
    found: np.ndarray[Any, Any] = memory[index[:-1]][index[-1] : index[-1] + count]
    return found
