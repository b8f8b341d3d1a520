"""Vectors of ints of 8 and 16 bits as f32: 2**23 plus a number below 2**16 is a float whose low bits are that number, so a byte is put into
place and 2**23 taken away again. A conversion goes through the unit that exponentials are made in, at a quarter of the rate."""

from compiler.backends.llvm.bundle import Bundle
from compiler.backends.llvm.types import F32, I32, vector
from compiler.backends.llvm.writer import constant, poison
from compiler.backends.nvptx.frame import NvptxFrame
from compiler.hir.core import Cast, dtype_of
from compiler.hir.instruction import Value
from compiler.hir.types import DTYPES
from compiler.machines.access import WORD

NARROW = {"i8": 1, "u8": 1, "i16": 2, "u16": 2}
"""Bytes of an element."""
UPPER = 0x4B000000
"""The bits of 2**23."""


def narrow_source(frame: NvptxFrame, op: Cast) -> Value | None:
    """What the numbers are that become f32, where they are whole words of such ints, perhaps widened before; None for others."""
    value = op.value
    while isinstance(value.source, Cast) and dtype_of(value) in ("i16", "i32", "i64") and dtype_of(value.source.value) in NARROW:
        if DTYPES[dtype_of(value)] <= DTYPES[dtype_of(value.source.value)]:
            return None
        value = value.source.value
    dtype = dtype_of(value)
    if op.to != "f32" or dtype not in NARROW:
        return None
    lanes = frame.values[value.name].lanes
    return value if lanes and lanes * NARROW[dtype] % WORD == 0 else None


def to_f32(frame: NvptxFrame, op: Cast, source: Value) -> None:
    w, held = frame.w, frame.values[source.name]
    size = NARROW[held.dtype]
    signs = 0 if held.dtype.startswith("u") else 0x80808080 if size == 1 else 0x80008000
    less = constant(F32, -(2.0**23) - (0 if held.dtype.startswith("u") else 1 << (8 * size - 1)))
    each, count = WORD // size, held.lanes * size // WORD
    items = []
    for item in held.items:
        type, result = vector("i32", count) if count > 1 else I32, poison(vector("float", held.lanes))
        words = w.value(type, f"bitcast {item} to {type}")
        for lane in range(held.lanes):
            word = words if count == 1 else w.extract(words, lane // each)
            first = lane % each * size
            chosen = 0x7440 | first if size == 1 else 0x7400 | (first + 1) << 4 | first
            flipped = w.binary("xor", word, constant(I32, signs)) if signs else word
            bits = w.call("llvm.nvvm.prmt", I32, flipped, constant(I32, UPPER), constant(I32, chosen))
            result = w.insert(result, w.binary("fadd", w.convert("bitcast", bits, "float"), less), lane)
        items.append(result)
    frame.define(op, Bundle("f32", held.axes, held.simd, held.lanes, tuple(items)))
