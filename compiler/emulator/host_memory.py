"""What host instructions do, for the interpreter: an address is a pair of bytes and an offset into them, numbers are Python's, and what
can't be held raises KernelFault."""

import math
import struct
import time
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from compiler.emulator.fault import KernelFault, fault
from compiler.hir import numbers
from compiler.hir.host import MATCHED
from compiler.hir.types import DTYPES

Address = tuple[memoryview, int]
Site = tuple[str, int, str]
"""Code, index into the function's sites, the function's name."""


def address_of(argument: Any) -> Address:
    """An argument for a pointer: a writable NumPy array without gaps (its first byte), a bytearray, or an address."""
    if isinstance(argument, tuple):
        return argument
    if isinstance(argument, np.ndarray):
        if not argument.flags.c_contiguous:
            raise fault("a pointer to an array with gaps")
        return memoryview(argument.reshape(-1).view(np.uint8).data), 0
    return memoryview(argument), 0


def new_memory(size: int) -> Address:
    return memoryview(bytearray(size)), 0


def copy(to: Address, source: Address, size: int) -> None:
    memory, at = to
    other, start = source
    memory[at : at + size] = bytes(other[start : start + size])


def clear(to: Address, size: int) -> None:
    memory, at = to
    memory[at : at + size] = bytes(size)


def element(base: Address, index: int, count: int, size: int, site: Site | None) -> Address:
    if not 0 <= index < count:
        _stop(site, index, count)
    memory, at = base
    return memory, at + index * size


def read_bytes(base: Address, at: int, count: int, to: str, order: Literal["little", "big"], site: Site | None) -> int:
    return numbers.wrap(int.from_bytes(_bytes(base, at, count, DTYPES[to] // 8, site), order), to)


def match_bytes(base: Address, at: int, count: int, values: tuple[int, ...], site: Site | None) -> int:
    return sum(1 << place for place, byte in enumerate(_bytes(base, at, count, MATCHED, site)) if byte in values)


def _bytes(base: Address, at: int, count: int, size: int, site: Site | None) -> memoryview:
    if not 0 <= at <= count - size:
        _stop(site, at, count)
    memory, start = base
    return memory[start + at : start + at + size]


def _stop(site: Site | None, *values: Any) -> None:
    if site is None:
        raise fault(f"{', '.join(map(str, values))}: said to be impossible")
    code, number, function = site
    raise KernelFault(code, number, values, function=function)


# ---- numbers in memory -------------------------------------------------------------------------------------------

_FORMATS = {"i1": "?", "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q", "f32": "f", "f64": "d"}


def _reader(dtype: str) -> Callable[[Address], Any]:
    if dtype in _FORMATS:
        unpack = struct.Struct("<" + _FORMATS[dtype]).unpack_from
        return lambda address: unpack(*address)[0]
    size = DTYPES[dtype] // 8

    def read(address: Address) -> Any:
        memory, at = address
        return numbers.number_of(int.from_bytes(memory[at : at + size], "little"), dtype)

    return read


def _writer(dtype: str) -> Callable[[Address, Any], None]:
    if dtype in _FORMATS:
        pack = struct.Struct("<" + _FORMATS[dtype]).pack_into
        return lambda address, value: pack(*address, value)
    size = DTYPES[dtype] // 8

    def write(address: Address, value: Any) -> None:
        memory, at = address
        memory[at : at + size] = numbers.bits_of(value, dtype).to_bytes(size, "little")

    return write


# ---- ints that stop ----------------------------------------------------------------------------------------------


EXACT: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": numbers.int_divide,
    "rem": numbers.int_remainder,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
}


def checked(operation: str, dtype: str, a: int, b: int, site: Site) -> int:
    """The exact result in the type, or a fault."""
    low, high = numbers.limits(dtype)
    undefined = b == 0 if operation in ("div", "rem") else operation in ("shl", "shr") and not 0 <= b < DTYPES[dtype]
    if undefined:
        _stop(site, a, b)
    result = EXACT[operation](a, b)
    if not low <= result <= high:
        _stop(site, a, b)
    return result


def saturating(operation: str, dtype: str, a: int, b: int) -> int:
    low, high = numbers.limits(dtype)
    return min(max(EXACT[operation](a, b), low), high)


def narrow(value: int | float, to: str, site: Site) -> int:
    low, high = numbers.limits(to)
    if isinstance(value, float) and not math.isfinite(value):
        _stop(site, value)
    whole = int(value)
    if not low <= whole <= high:
        _stop(site, value)
    return whole


def quotient(dtype: str, a: int, b: int, rounding: str, site: Site | None) -> int:
    if b == 0:
        _stop(site, a, b)
    whole, rest = divmod(a, b)  # floored
    match rounding:
        case "ceil":
            whole += rest != 0
        case "toward_zero":
            whole += rest != 0 and whole < 0
        case "away":
            whole += rest != 0 and whole >= 0
        case "nearest_even":
            twice = 2 * abs(rest)
            whole += twice > abs(b) or (twice == abs(b) and whole % 2 == 1)
        case _:
            pass
    low, high = numbers.limits(dtype)
    if not low <= whole <= high:
        _stop(site, a, b)
    return whole


CALLS: dict[str, Any] = {
    "host_memory": new_memory,
    "host_copy": copy,
    "host_clear": clear,
    "host_element": element,
    "host_read_bytes": read_bytes,
    "host_match_bytes": match_bytes,
    "host_checked": checked,
    "host_saturating": saturating,
    "host_narrow": narrow,
    "host_quotient": quotient,
    "host_cycles": time.perf_counter_ns,
    **{f"host_read_{dtype}": _reader(dtype) for dtype in DTYPES if dtype != "index"},
    **{f"host_write_{dtype}": _writer(dtype) for dtype in DTYPES if dtype != "index"},
}
"""What the written source may call."""
