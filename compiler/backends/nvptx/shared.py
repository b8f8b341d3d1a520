"""Shared memory: allocations of constant size, as globals of the kernel, or at offsets of the dynamic block where they are too much
for that; and views of the dynamic block."""

from compiler.backends.llvm.frame import AddressedMemory
from compiler.backends.llvm.types import I8, I64, pointer
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.backends.nvptx.access import symbol_of
from compiler.backends.nvptx.frame import NvptxFrame
from compiler.backends.nvptx.target import GpuTarget
from compiler.diagnostics import ZyntaxError
from compiler.hir.gpu import DynamicShared, SharedAlloc
from compiler.hir.hopper import BarrierMake
from compiler.hir.module import HirFunction
from compiler.hir.shared_memory import above, laid_out, over_limit, shared_use, shared_uses

STATIC_LIMIT = 48 * 1024
DYNAMIC = "zyn_dynamic_shared"
_ALIGN = 1024
"""Of the dynamic block: what swizzled tiles want."""


def plan(function: HirFunction, target: GpuTarget) -> int:
    """Bytes of all allocations, one behind the other; 0503 when the target's blocks have less."""
    if (over := over_limit(function, target.machine.block_shared, str(target))) is not None:
        raise ZyntaxError(over)
    return laid_out(shared_uses(function))


def shared_block(frame: NvptxFrame, op: SharedAlloc | BarrierMake) -> LlvmValue:
    """Where an allocation lies."""
    kernel = frame.kernel
    use = shared_use(op)
    offset = above(kernel.shared_bytes, use.align)
    kernel.shared_bytes = offset + use.bytes
    if kernel.shared_in_dynamic:
        return frame.w.offset(_dynamic_base(frame), constant(I64, offset), I8)
    symbol = kernel.module.unique(f"{kernel.symbol}_{symbol_of(op.result.name)}").replace(".", "_")
    kernel.module.globals.append(f"@{symbol} = internal addrspace(3) global [{use.bytes} x i8] poison, align {use.align}")
    return LlvmValue(pointer(3), f"@{symbol}")


def _dynamic_base(frame: NvptxFrame) -> LlvmValue:
    module = frame.kernel.module
    text = f"@{DYNAMIC} = external addrspace(3) global [0 x i8], align {_ALIGN}"
    if text not in module.globals:
        module.globals.append(text)
    return LlvmValue(pointer(3), f"@{DYNAMIC}")


def shared_alloc(frame: NvptxFrame, op: SharedAlloc) -> None:
    frame.memories[op.result.name] = AddressedMemory(shared_block(frame, op), op.type)


def dynamic_shared(frame: NvptxFrame, op: DynamicShared) -> None:
    frame.kernel.dynamic_shared = True
    w = frame.w
    offset = w.add(frame.affine(op.offset), constant(I64, frame.kernel.dynamic_start))
    frame.memories[op.result.name] = AddressedMemory(w.offset(_dynamic_base(frame), offset, I8), op.type)
