"""Numbers as their bits, which travel and are compared where numbers can't be."""

from compiler.hir.build import Builder
from compiler.hir.core import Bitcast, dtype_of
from compiler.hir.instruction import Value
from compiler.hir.types import DTYPES


def unsigned(dtype: str) -> str:
    """The unsigned type that holds a number's bits."""
    return f"u{max(8, DTYPES[dtype])}"


def bits_of(b: Builder, value: Value) -> Value:
    """The bits of a number, as an unsigned one."""
    to = unsigned(dtype_of(value))
    if dtype_of(value) in ("i1", to):
        return b.cast(value, to)
    return b.emit(Bitcast(value=value, to=to)).result


def from_bits(b: Builder, bits: Value, dtype: str) -> Value:
    if dtype == "i1":
        return b.op("ne", bits, b.const(0, dtype_of(bits)))
    return bits if dtype == unsigned(dtype) else b.emit(Bitcast(value=bits, to=dtype)).result
