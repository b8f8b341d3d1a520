"""Host memory: addresses are LLVM pointers with byte offsets, in the layout of `hir/layout.py`."""

from functools import reduce

from compiler.backends.llvm import arithmetic
from compiler.backends.llvm.bundle import scalar_bundle
from compiler.backends.llvm.types import I8, I64, memory_type, vector
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.backends.native.faults import stop_if
from compiler.backends.native.frame import NativeFrame
from compiler.hir.core import dtype_of
from compiler.hir.host import MATCHED, Clear, Copy, Element, Local, MatchBytes, Member, Read, ReadBytes, Write, pointee
from compiler.hir.instruction import Instruction
from compiler.hir.layout import align_of, offset_of, size_of
from compiler.hir.types import DTYPES, Array, HirType, Pointer, Struct


def emit_pointer(frame: NativeFrame, op: Instruction) -> None:
    """An instruction that makes or follows an address."""
    w = frame.w
    match op:
        case Local():
            assert isinstance(op.type, Pointer)
            memory = w.alloca(I8, max(1, size_of(op.type.pointee)), align_of(op.type.pointee))
            frame.pointers[op.result.name] = memory
            _fill(frame, memory, op.type.pointee)
        case Member():
            struct = pointee(op.pointer)
            assert isinstance(struct, Struct)
            base = frame.pointers[op.pointer.name]
            frame.pointers[op.result.name] = w.offset(base, constant(I64, offset_of(struct, op.field_)), I8)
        case Element():
            frame.pointers[op.result.name] = _element(frame, op)
        case Read():
            dtype = dtype_of(op.result)
            held = w.load(memory_type(dtype), frame.pointers[op.pointer.name], align_of(op.result.type))
            frame.define(op, scalar_bundle(dtype, arithmetic.from_memory(w, held, dtype)))
        case Write():
            value = arithmetic.to_memory(w, frame.scalar(op.value.name), dtype_of(op.value))
            w.store(value, frame.pointers[op.pointer.name], align_of(op.value.type))
        case ReadBytes():
            held = w.load(memory_type(op.to), _bytes(frame, op, DTYPES[op.to] // 8), 1)
            if op.order == "big" and held.type.bits > 8:
                held = w.intrinsic("bswap", held)
            frame.define(op, scalar_bundle(op.to, held))
        case MatchBytes():
            held = w.load(vector("i8", MATCHED), _bytes(frame, op, MATCHED), 1)
            same = [w.compare("eq", held, frame.scalar(value.name)) for value in op.values]
            bits = reduce(lambda a, b: w.binary("or", a, b), same)
            frame.define(op, scalar_bundle(dtype_of(op.result), w.value(I64, f"bitcast {bits} to i64")))
        case Copy():
            type = pointee(op.to)
            to, source = frame.pointers[op.to.name], frame.pointers[op.from_.name]
            ends = ", ".join(f"ptr align {align_of(type)} {end.text}" for end in (to, source))
            w.line(f"call void @llvm.memmove.p0.p0.i64({ends}, i64 {size_of(type)}, i1 false)")
        case Clear():
            _fill(frame, frame.pointers[op.pointer.name], pointee(op.pointer))
        case _:
            raise frame.refused(op)


def _fill(frame: NativeFrame, memory: LlvmValue, type: HirType) -> None:
    frame.w.line(f"call void @llvm.memset.p0.i64(ptr align {align_of(type)} {memory.text}, i8 0, i64 {size_of(type)}, i1 false)")


def _bytes(frame: NativeFrame, op: ReadBytes | MatchBytes, size: int) -> LlvmValue:
    """The address of `size` bytes of an open array, all of them inside."""
    w = frame.w
    at, count = frame.scalar(op.at.name), frame.scalar(op.count.name)
    if op.site >= 0:
        # an index below 0 is a great one when read without its sign
        room = w.binary("sub", count, constant(I64, size))
        short = w.compare("slt", count, constant(I64, size))
        stop_if(frame, w.binary("or", short, w.compare("ugt", at, room)), op.site, [("i64", at), ("i64", count)])
    return w.offset(frame.pointers[op.pointer.name], at, I8)


def _element(frame: NativeFrame, op: Element) -> LlvmValue:
    w = frame.w
    array = pointee(op.pointer)
    assert isinstance(array, Array)
    dtype, at = dtype_of(op.at), frame.scalar(op.at.name)
    index = arithmetic.cast(w, at, dtype, "index")
    count = frame.scalar(op.count.name) if op.count is not None else constant(I64, array.count or 0)
    if op.site >= 0 and not (at.number is not None and 0 <= at.number < (count.number or 0)):
        # an index below 0 is a great one when read without its sign
        outside = w.compare("uge", index, count)
        if count.number is None:
            outside = w.binary("or", outside, w.compare("slt", count, constant(I64, 0)))
        stop_if(frame, outside, op.site, [(dtype, at), ("i64", count)])
    return w.offset(frame.pointers[op.pointer.name], w.mul(index, constant(I64, size_of(array.element))), I8)
