"""Bytes in registers of four. Where a run of them may begin anywhere, the aligned runs that it lies in are read, both of which have bytes
that are wanted, and shifted together: two accesses and some fifteen instructions, instead of one access for each element."""

import struct
from itertools import pairwise

from compiler.backends.llvm.bundle import scalar_bundle
from compiler.backends.llvm.types import I32, I64, LlvmType, vector
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.backends.nvptx.access import element_address, mask_of, where_allowed
from compiler.backends.nvptx.frame import NvptxFrame
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
        words = _read(frame, address, op.count, mask)
    else:
        words = _shifted(frame, address, op.count, mask, bytes)
    if bytes is not None:
        words = [w.binary("and", word, _first_bytes(frame, bytes, WORD * number)) for number, word in enumerate(words)]
    frame.define(op, *[scalar_bundle("u32", word) for word in words])


def _read(frame: NvptxFrame, address: LlvmValue, count: int, mask: LlvmValue | None) -> list[LlvmValue]:
    """Words at a multiple of as many bytes; zeros where the mask is false."""
    w = frame.w
    type: LlvmType = vector("i32", count) if count > 1 else I32

    def parts(whole: LlvmValue) -> list[LlvmValue]:
        return [w.extract(whole, lane) for lane in range(count)] if count > 1 else [whole]

    if mask is None:
        return parts(w.load(type, address, WORD * count))
    inside, after = w.label("inside"), w.label("after")
    w.start(w.label("mask"))
    before = w.block
    w.branch_if(mask, inside, after)
    w.start(inside)
    loaded = w.load(type, address, WORD * count)
    end = w.block
    w.start(after)
    return parts(w.phi(type, [(loaded, end), ("zeroinitializer" if type.lanes else "0", before)]))


def _shifted(frame: NvptxFrame, address: LlvmValue, count: int, mask: LlvmValue | None, bytes: LlvmValue | None) -> list[LlvmValue]:
    w, size = frame.w, WORD * count
    number = w.value(I64, f"ptrtoint {address} to i64")
    behind = w.convert("trunc", w.binary("and", number, constant(I64, size - 1)), "i32")
    back = w.binary("sub", constant(I32, 0), behind)
    first = w.offset(address, w.convert("sext", back, "i64"), LlvmType("i8"))
    reaches = w.compare("ne", behind, constant(I32, 0))
    if bytes is not None:
        reaches = w.compare("ugt", w.binary("add", behind, bytes), constant(I32, size))
    step = w.select(reaches, constant(I64, size), constant(I64, 0))
    second = w.offset(first, step, LlvmType("i8"))
    held = [*_read(frame, first, count, mask), *_read(frame, second, count, mask)]
    # so many whole words further, then so many bits
    words = w.binary("lshr", behind, constant(I32, 2))
    step_words = count // 2
    while step_words:
        far = w.compare("ne", w.binary("and", words, constant(I32, step_words)), constant(I32, 0))
        held = [w.select(far, later, now) for now, later in zip(held, held[step_words:], strict=False)]
        step_words //= 2
    bits = w.binary("shl", w.binary("and", behind, constant(I32, 3)), constant(I32, 3))
    return [w.call("llvm.fshr.i32", I32, high, low, bits) for low, high in pairwise(held)]


def _first_bytes(frame: NvptxFrame, bytes: LlvmValue, before: int) -> LlvmValue:
    """Ones where a word has bytes that are wanted; `before`: of the words before it."""
    w = frame.w
    count = w.call("llvm.smax.i32", I32, w.binary("sub", bytes, constant(I32, before)), constant(I32, 0))
    bits = w.binary("and", w.binary("shl", count, constant(I32, 3)), constant(I32, 31))
    ones = w.binary("sub", w.binary("shl", constant(I32, 1), bits), constant(I32, 1))
    return w.select(w.compare("sge", count, constant(I32, WORD)), constant(I32, -1), ones)


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
