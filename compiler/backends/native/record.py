"""Records of failures, as compiled code writes them and Python reads them. Importing this loads nothing of the compiler proper.

A record is 8 bytes that say where it failed (0: nowhere), the lowest address that the stack may reach in 8, then up to four values of 16.
Ints of at most 64 bits stand in the first 8, extended as their type says; floats as f64. Where: the module's mark in the upper half, in
the lower the number of its point of failure."""

import struct
import zlib
from collections.abc import Mapping, Sequence

from compiler.hir.types import FLOATS
from compiler.source import Span
from runtime.records import frozen

RECORD_VALUES = 4
RECORD_BYTES = 16 * (1 + RECORD_VALUES)
CALLERS = 4
"""Places of calls on the way to a failure that records of modules which tell them have, innermost first."""
CALLERS_BYTES = RECORD_BYTES + 8 * (1 + CALLERS)
"""Of such a record: behind the others how many places there are, then their numbers."""
HEAP = RECORD_BYTES + 8 * (1 + CALLERS)
"""Where the heap of a run stands in the record of a module that has one: the address of the newest block, and how many bytes blocks may
still take. A block begins with the address of the next older one, or 0, and with the bytes of its memory, which follows."""
HEAP_BYTES = 16
BLOCK_HEAD = 16
RUN_BYTES = HEAP + HEAP_BYTES
"""Of a record with a heap."""


@frozen
class FaultPoint:
    """An instruction that may fail: its function, its site there, and the dtypes of the values it records. `undo`: the first of two values
    is what came out of `add` or `sub`, by wrapping, and the operand follows from it; so the operand need not be kept until then. `span`:
    the place in the program of a failure without a site."""

    function: str
    site: int
    dtypes: tuple[str, ...]
    code: str
    undo: str = ""
    span: Span | None = None


@frozen
class HostFault:
    """A run that failed. `values` are the operands, of `dtypes`; `site` is an index into the `sites` of `function` in `module`, -1 for
    none, and then `span` is its place in the program."""

    code: str
    function: str
    site: int
    values: tuple[int | float | bool, ...]
    module: str = ""
    dtypes: tuple[str, ...] = ()
    span: Span | None = None


def mark_of(module: str) -> int:
    """What stands for a module, by its name, in records; never 0."""
    return (zlib.crc32(module.encode()) & 0x7FFFFFFF) | 1


def read_record(record: bytes, modules: Mapping[str, Sequence[FaultPoint]]) -> HostFault | None:
    """The failure that a record tells of; None where there was none. `modules`: the points of failure of each module by its name."""
    where = struct.unpack_from("<q", record)[0]
    if where == 0:
        return None
    name = next(name for name in modules if mark_of(name) == where >> 32)
    point = modules[name][where & 0xFFFFFFFF]
    values: list[int | float | bool] = []
    for number, dtype in enumerate(point.dtypes):
        slot = record[16 * (number + 1) : 16 * (number + 2)]
        if dtype in FLOATS:
            values.append(struct.unpack_from("<d", slot)[0])
        else:
            held = slot if dtype in ("i128", "u128") else slot[:8]
            whole = int.from_bytes(held, "little", signed=dtype != "i1" and not dtype.startswith("u"))
            values.append(bool(whole) if dtype == "i1" else whole)
    if point.undo:
        result, other = (int(value) for value in values)
        values[0] = _wrapped(result - other if point.undo == "add" else result + other, point.dtypes[0])
    return HostFault(point.code, point.function, point.site, tuple(values), name, point.dtypes, point.span)


def read_callers(record: bytes) -> tuple[int, ...]:
    """The numbers of the places of calls that led to a failure, innermost first."""
    count, *places = struct.unpack_from(f"<{1 + CALLERS}q", record, RECORD_BYTES)
    return tuple(places[: min(count, CALLERS)])


def _wrapped(value: int, dtype: str) -> int:
    bits = int(dtype[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype[0] == "i" and value >> (bits - 1) else value
