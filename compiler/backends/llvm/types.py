"""LLVM types of HIR's numbers, and constants of them as text.

In registers `f16`, `bf16` and the 8-bit floats are carried as `float` (each operation rounds to the narrow type) and `i1` as
`i1`; in memory they are integers of their own width, `i1` a byte."""

import struct
from functools import cache

from compiler.hir.types import DTYPES, FLOATS, is_float
from runtime.records import frozen

_BITS = {"float": 32, "double": 64, "half": 16, "bfloat": 16, "i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}


@frozen
class LlvmType:
    """A scalar (`lanes` 0) or a vector of `lanes` elements."""

    element: str
    lanes: int = 0

    def __str__(self) -> str:
        return self.element if not self.lanes else f"<{self.lanes} x {self.element}>"

    @property
    def suffix(self) -> str:
        """How intrinsics name the type: `f32`, `v16i32`."""
        name = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16", "ptr": "p0"}.get(self.element, self.element)
        return f"v{self.lanes}{name}" if self.lanes else name

    @property
    def bits(self) -> int:
        """Bits of one element."""
        return _BITS.get(self.element) or (64 if self.is_pointer else int(self.element[1:]))

    @property
    def is_pointer(self) -> bool:
        return self.element.startswith("ptr")

    @property
    def is_float(self) -> bool:
        return self.element in ("float", "double", "half", "bfloat")

    @property
    def bytes(self) -> int:
        """Bytes that a value takes in memory, all lanes together."""
        return (self.bits * max(1, self.lanes) + 7) // 8

    def of(self, element: str) -> "LlvmType":
        """As many lanes of another element."""
        return vector(element, self.lanes)

    def with_lanes(self, lanes: int) -> "LlvmType":
        return vector(self.element, lanes)


@cache
def vector(element: str, lanes: int = 0) -> LlvmType:
    return LlvmType(element, lanes)


F32, F64, I1, I8, I16, I32, I64, PTR = (vector(name) for name in ("float", "double", "i1", "i8", "i16", "i32", "i64", "ptr"))


def pointer(space: int) -> LlvmType:
    """An address in one of the target's spaces; 0 is the generic one."""
    return vector(f"ptr addrspace({space})") if space else PTR


@cache
def register_type(dtype: str, lanes: int = 0) -> LlvmType:
    """What a number of this dtype is while it is computed with."""
    if is_float(dtype):
        return vector("double" if dtype == "f64" else "float", lanes)
    return vector(f"i{DTYPES[dtype]}", lanes)


@cache
def memory_type(dtype: str, lanes: int = 0) -> LlvmType:
    """What it is in memory."""
    if dtype in ("f32", "f64"):
        return register_type(dtype, lanes)
    return vector(f"i{max(8, DTYPES[dtype])}", lanes)


def is_narrow_float(dtype: str) -> bool:
    """A float whose operations are done in f32 and rounded."""
    return dtype in FLOATS and FLOATS[dtype] < 32


def float_text(value: float, element: str) -> str:
    """A float constant, exactly: hexadecimal bits of the double. The value must be one of the element's."""
    if element == "float":
        (value,) = struct.unpack("<f", struct.pack("<f", value)) if abs(value) < 3.5e38 else (value,)
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return f"0x{bits:016X}"


def constant_text(value: int | float, type: LlvmType) -> str:
    """The number as an operand of this type; a vector holds it in every lane."""
    if type.is_float:
        text = float_text(float(value), type.element)
    elif type.element == "i1":
        text = "true" if value else "false"
    else:
        bits = type.bits
        wrapped = int(value) & ((1 << bits) - 1)
        text = str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)
    return f"splat ({type.element} {text})" if type.lanes else text
