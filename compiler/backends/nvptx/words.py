"""Bytes in registers of four: loads of runs that may begin anywhere (`runs.py`), stores, and what is made of them."""

import struct

from compiler.backends.llvm.bundle import scalar_bundle
from compiler.backends.llvm.types import I32, I64, vector
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.backends.nvptx.access import element_address, mask_of, where_allowed
from compiler.backends.nvptx.frame import NvptxFrame
from compiler.backends.nvptx.runs import first_bytes, read_words, shifted_words
from compiler.hir.alignment import alignment
from compiler.hir.types import bytes_of
from compiler.hir.words import FRACTION_BITS, WORD, FloatPair, LoadWords, PermuteBytes, StoreWords
from compiler.machines.gpu import Feature


def load_words(frame: NvptxFrame, op: LoadWords) -> None:
    w, size = frame.w, WORD * op.count
    mem = frame.memories[op.mem.name].type
    address = element_address(frame, op.mem, op.index)
    mask = mask_of(frame, op.index, {})
    bytes: LlvmValue | None = None
    if op.valid is not None:
        known = w.mul(frame.values[op.valid.name].scalar, constant(I64, bytes_of(mem.dtype)))
        least = w.call("llvm.smax.i64", I64, known, constant(I64, 0))
        bytes = w.convert("trunc", w.call("llvm.smin.i64", I64, least, constant(I64, size)), "i32")
        mask = w.both(mask, w.compare("ne", bytes, constant(I32, 0)))
    if alignment(mem, op.index) % size == 0:
        words = read_words(w, address, op.count, mask)
    else:
        words = shifted_words(w, address, op.count, mask, None if bytes is None else (constant(I32, 0), bytes))
    if bytes is not None:
        words = [w.binary("and", word, first_bytes(w, bytes, WORD * number)) for number, word in enumerate(words)]
    frame.define(op, *[scalar_bundle("u32", word) for word in words])


def store_words(frame: NvptxFrame, op: StoreWords) -> None:
    w = frame.w
    values = [frame.values[value.name].scalar for value in op.values]
    with where_allowed(frame, op.index):
        address = element_address(frame, op.mem, op.index)
        if len(values) == 1:
            w.store(values[0], address, WORD)
            return
        whole = LlvmValue(vector("i32", len(values)), "poison")
        for lane, value in enumerate(values):
            whole = w.insert(whole, value, lane)
        w.store(whole, address, WORD * len(values))


def permute_bytes(frame: NvptxFrame, op: PermuteBytes) -> None:
    a, b = (frame.values[value.name].scalar for value in (op.a, op.b))
    order = sum(number << 4 * position for position, number in enumerate(op.order))
    words = frame.w.assembly(f"prmt.b32 $0, $1, $2, {order:#x};", [I32], "r,r", [a, b], pure=True)
    frame.define(op, *[scalar_bundle("u32", word) for word in words])


def float_pair(frame: NvptxFrame, op: FloatPair) -> None:
    """Whole numbers are the fraction of a power of two, which one FMA takes away again."""
    frame.require(lambda machine: machine.has(Feature.NARROW_FLOATS), f"pairs of {op.dtype}")
    power, mask = 1 << FRACTION_BITS[op.dtype], ((1 << op.bits) - 1) * 0x10001
    numbers = [constant(I32, _float_bits(number, op.dtype) * 0x10001) for number in (power, 1, op.least - power)]
    # written as one: the assembler would load the mask anew each time
    masked = f"lop3.b32 whole, $1, {mask:#x}, $2, 0xea;"
    text = f"{{ .reg .b32 whole; {masked} fma.rn.{op.dtype}x2 $0, whole, $3, $4; }}"
    words = frame.w.assembly(text, [I32], "r,r,r,r", [frame.values[op.value.name].scalar, *numbers], pure=True)
    frame.define(op, *[scalar_bundle("u32", word) for word in words])


def _float_bits(number: int, dtype: str) -> int:
    """A whole number as a float of 16 bits."""
    return int.from_bytes(struct.pack("<e", number) if dtype == "f16" else struct.pack("<f", number)[2:], "little")
