"""Where the parts of host memory lie: sizes, alignments and offsets as the C compiler of a 64-bit machine lays them out, and the same
layout as a NumPy dtype. Pointers aren't kept in memory."""

from functools import cache
from typing import Any

import numpy as np

from compiler.hir.types import Array, HirType, Struct, Tile, bytes_of, is_wide


@cache
def align_of(type_: HirType) -> int:
    """Bytes to whose multiple an address of this type is rounded up."""
    match type_:
        case Struct():
            return max((align_of(field) for _, field in type_.fields), default=1)
        case Array():
            return align_of(type_.element)
        case _:
            return size_of(type_)


@cache
def size_of(type_: HirType) -> int:
    """Bytes that a value takes, with the gap behind it that keeps its neighbour in an array aligned."""
    match type_:
        case Tile(axes=()):
            return bytes_of(type_.dtype)
        case Array(count=int(count)):
            return count * size_of(type_.element)
        case Struct():
            end = max((offset + size_of(field) for offset, (_, field) in zip(_offsets(type_), type_.fields, strict=True)), default=0)
            return _rounded_up(end, align_of(type_))
        case _:
            raise AssertionError(f"{type_} doesn't live in memory")


def offset_of(type_: Struct, name: str) -> int:
    """Bytes from the start of the struct to a field."""
    return _offsets(type_)[[field for field, _ in type_.fields].index(name)]


def field_type(type_: Struct, name: str) -> HirType:
    return dict(type_.fields)[name]


@cache
def _offsets(type_: Struct) -> tuple[int, ...]:
    offsets: list[int] = []
    end = 0
    for _, field in type_.fields:
        start = _rounded_up(end, align_of(field))
        offsets.append(start)
        end = start + size_of(field)
    return tuple(offsets)


def _rounded_up(size: int, align: int) -> int:
    return -(-size // align) * align


@cache
def in_memory(type_: HirType) -> bool:
    """Whether a value of the type may lie in memory: numbers, and structs and arrays of them."""
    match type_:
        case Tile(axes=()):
            return type_.dtype != "index"
        case Array():
            return type_.count is not None and type_.count >= 0 and in_memory(type_.element)
        case Struct():
            return all(in_memory(field) for _, field in type_.fields)
        case _:
            return False


_NUMPY = {"i1": "?", "f16": "<f2", "f32": "<f4", "f64": "<f8"}


@cache
def numpy_dtype(type_: HirType) -> np.dtype[Any]:
    """The same bytes as NumPy sees them; ints of 128 bits are pairs `low`, `high`, types that NumPy lacks unsigned ints."""
    match type_:
        case Tile(axes=(), dtype=dtype):
            if is_wide(dtype):
                return np.dtype([("low", "<u8"), ("high", "<i8" if dtype == "i128" else "<u8")])
            size = bytes_of(dtype)
            return np.dtype(_NUMPY.get(dtype) or f"<{dtype[0] if dtype[0] in 'iu' else 'u'}{size}")
        case Array(count=int(count)):
            return np.dtype((numpy_dtype(type_.element), (count,)))
        case Struct():
            return np.dtype(
                {
                    "names": [name for name, _ in type_.fields],
                    "formats": [numpy_dtype(field) for _, field in type_.fields],
                    "offsets": list(_offsets(type_)),
                    "itemsize": size_of(type_),
                }
            )
        case _:
            raise AssertionError(f"{type_} doesn't live in memory")


def new_memory(type_: HirType, count: int = 1) -> np.ndarray:
    """`count` values of a type, all zero, at an address that is a multiple of 64."""
    dtype = numpy_dtype(type_)
    whole = np.zeros(count * dtype.itemsize + 64, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + count * dtype.itemsize].view(dtype)
