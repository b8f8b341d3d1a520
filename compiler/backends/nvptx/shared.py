"""Shared memory: allocations of constant size, as globals of the kernel, or at offsets of the dynamic block where they are too much
for that; and views of the dynamic block."""

from compiler.backends.llvm.frame import Memory
from compiler.backends.llvm.types import I8, I64, pointer
from compiler.backends.llvm.writer import Value, constant
from compiler.backends.nvptx.access import elements_of, symbol_of
from compiler.backends.nvptx.frame import Frame
from compiler.backends.nvptx.target import GpuTarget
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.gpu import DynamicShared, SharedAlloc
from compiler.hir.hopper import BarrierMake
from compiler.hir.instruction import Instruction
from compiler.hir.module import HirFunction
from compiler.hir.types import Barrier, bytes_of

STATIC_LIMIT = 48 * 1024
DYNAMIC = "zyn_dynamic_shared"
_ALIGN = 1024
"""Of the dynamic block: what swizzled tiles want."""


def _size(op: SharedAlloc | BarrierMake) -> tuple[int, int]:
    """Bytes and alignment."""
    if isinstance(op, BarrierMake):
        assert isinstance(op.type, Barrier)
        return 8 * op.type.count, 8
    count = elements_of(op.type)
    assert count is not None, "the verifier wants constant extents"
    return count * bytes_of(op.type.dtype), max(op.type.align, _ALIGN if op.type.swizzle else 16)


def _above(place: int, align: int) -> int:
    return -(-place // align) * align


def _operations(function: HirFunction) -> list[Instruction]:
    return [op for top in function.body.body for op in top.walk()]


def plan(function: HirFunction, target: GpuTarget) -> int:
    """Bytes of all allocations, one behind the other; 0503 when the target's blocks have less."""
    total = 0
    for op in _operations(function):
        if isinstance(op, SharedAlloc | BarrierMake):
            size, align = _size(op)
            total = _above(total, align) + size
    if total > target.shared_limit:
        message = f"`{function.name}` asks for {total} bytes of shared memory a block; `{target}` has {target.shared_limit}"
        raise ZyntaxError(Diagnostic("0503", message, hint="make the tiles smaller"))
    return total


def shared_block(frame: Frame, op: SharedAlloc | BarrierMake) -> Value:
    """Where an allocation lies."""
    kernel = frame.kernel
    size, align = _size(op)
    place = _above(kernel.shared_bytes, align)
    kernel.shared_bytes = place + size
    if kernel.shared_in_dynamic:
        return frame.w.offset(_dynamic_base(frame), constant(I64, place), I8)
    symbol = kernel.module.unique(f"{kernel.symbol}_{symbol_of(op.result.name)}").replace(".", "_")
    kernel.module.globals.append(f"@{symbol} = internal addrspace(3) global [{size} x i8] poison, align {align}")
    return Value(pointer(3), f"@{symbol}")


def _dynamic_base(frame: Frame) -> Value:
    module = frame.kernel.module
    text = f"@{DYNAMIC} = external addrspace(3) global [0 x i8], align {_ALIGN}"
    if text not in module.globals:
        module.globals.append(text)
    return Value(pointer(3), f"@{DYNAMIC}")


def shared_alloc(frame: Frame, op: SharedAlloc) -> None:
    frame.memories[op.result.name] = Memory(shared_block(frame, op), op.type)


def dynamic_shared(frame: Frame, op: DynamicShared) -> None:
    frame.kernel.dynamic_shared = True
    w = frame.w
    offset = w.add(frame.affine(op.offset), constant(I64, frame.kernel.dynamic_start))
    frame.memories[op.result.name] = Memory(w.offset(_dynamic_base(frame), offset, I8), op.type)
