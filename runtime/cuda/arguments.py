"""A kernel's arguments as the driver wants them: an array of addresses, each of one value in memory, laid out once."""

import ctypes
import re
import struct
from collections.abc import Sequence
from typing import Any

from runtime.records import frozen

_AGGREGATE = re.compile(r"bytes(\d+)(?:@(\d+))?")


@frozen
class LaunchParameter:
    """One parameter: how it is packed, and how many bytes from where on."""

    name: str
    code: str
    size: int
    alignment: int

    def packed(self, value: Any) -> bytes:
        """Raises one of `Arguments.FAULTS` for a value that doesn't fit."""
        return struct.pack(f"<{self.code}", bfloat16_bits(value) if self.name == "bf16" else value)


_SCALARS = {
    "pointer": "Q",
    "bool": "?",
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "u8": "B",
    "u16": "H",
    "u32": "I",
    "u64": "Q",
    "f16": "e",
    "bf16": "H",
    "f32": "f",
    "f64": "d",
}

PARAMETERS = {
    name: LaunchParameter(name, code, struct.calcsize(f"<{code}"), struct.calcsize(f"<{code}")) for name, code in _SCALARS.items()
}


def parameter(name: str) -> LaunchParameter:
    """The parameter of a type: `pointer`, `i64`, `f32`..., or `bytes128@64` for 128 bytes passed by value, aligned to 64."""
    if name in PARAMETERS:
        return PARAMETERS[name]
    match = _AGGREGATE.fullmatch(name)
    if match is None:
        raise ValueError(f"`{name}` is no type of a kernel's parameter")
    return LaunchParameter(name, f"{match[1]}s", int(match[1]), int(match[2] or 1))


class Arguments:
    """Memory for one set of arguments. `address` is the `void**` for the driver; it never moves."""

    FAULTS = (struct.error, TypeError, OverflowError, IndexError)
    """What packing raises for values that don't fit; `complaint` says then what is wrong with them."""

    __slots__ = ("_bfloats", "_pointers", "address", "base", "memory", "pack_into", "parameters")

    def __init__(self, signature: Sequence[str]) -> None:
        self.parameters = tuple(parameter(name) for name in signature)
        layout, offsets, size = _layout(self.parameters)
        alignment = max((each.alignment for each in self.parameters), default=1)
        self.memory = bytearray(size + alignment)
        start = _address(self.memory)
        self.base = -start % alignment
        self.pack_into = struct.Struct(layout).pack_into
        self._pointers = bytearray(struct.pack(f"{max(1, len(offsets))}P", *(start + self.base + offset for offset in offsets or [0])))
        self._bfloats = tuple(index for index, each in enumerate(self.parameters) if each.name == "bf16")
        self.address = _address(self._pointers)

    def pack(self, values: Sequence[Any]) -> None:
        """Write all values. Anything with an address (a buffer, an array on the device) may stand for a pointer."""
        try:
            if self._bfloats:
                self.pack_into(self.memory, self.base, *_with_bfloats(values, self._bfloats))
            else:
                self.pack_into(self.memory, self.base, *values)
        except self.FAULTS:
            raise self.complaint(values) from None

    def complaint(self, values: Sequence[Any]) -> Exception:
        """What is wrong with values that can't be packed."""
        if len(values) != len(self.parameters):
            return TypeError(f"the kernel takes {len(self.parameters)} arguments, not {len(values)}")
        for index, (each, value) in enumerate(zip(self.parameters, values, strict=True)):
            try:
                each.packed(value)
            except (struct.error, OverflowError, TypeError):
                shown = repr(value)
                text = f"argument {index} of the kernel is {each.name}, and {shown if len(shown) <= 60 else type(value).__name__} is not"
                return OverflowError(text) if isinstance(value, int) else TypeError(text)
        return TypeError("the kernel's arguments don't fit its parameters")


def _address(memory: bytearray) -> int:
    """Where it lies: it can't move while its length stays. A ctypes array would be a new class for each length, made when a program
    starts."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _layout(parameters: Sequence[LaunchParameter]) -> tuple[str, list[int], int]:
    """Format for `struct`, offset of each parameter, bytes in all."""
    layout, offsets, position = "<", [], 0
    for each in parameters:
        padding = -position % each.alignment
        layout += f"{padding}x" if padding else ""
        layout += each.code
        offsets.append(position + padding)
        position += padding + each.size
    return layout, offsets, position


def _with_bfloats(values: Sequence[Any], places: Sequence[int]) -> list[Any]:
    changed = list(values)
    for position in places:
        changed[position] = bfloat16_bits(changed[position])
    return changed


def bfloat16_bits(value: Any) -> int:
    """The bits of the nearest bfloat16, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    if bits & 0x7FFFFFFF > 0x7F800000:
        return int(bits >> 16 | 0x40)
    return int(bits + 0x7FFF + (bits >> 16 & 1)) >> 16
