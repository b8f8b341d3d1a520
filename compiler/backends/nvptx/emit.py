"""From HIR functions of form C to the text of an LLVM module: the dispatch over instructions, and a kernel's entry.

An entry's parameters are the function's own (memories as global pointers, numbers in their own width), then its tensor maps, then
the address of the fault record."""

from collections.abc import Callable
from typing import Any

from compiler.backends.llvm import arithmetic, structured
from compiler.backends.llvm.bundle import scalar_bundle
from compiler.backends.llvm.frame import AddressedMemory
from compiler.backends.llvm.plain import emit_plain
from compiler.backends.llvm.types import I64, PTR, LlvmType, memory_type, pointer
from compiler.backends.llvm.writer import ModuleWriter, constant
from compiler.backends.nvptx import (
    access,
    approximate,
    atomics,
    copies,
    division,
    faults,
    fragments,
    hopper,
    narrow_ints,
    overlap,
    pairs,
    runs,
    shared,
    threads,
    warp_products,
    warpgroups,
    warps,
    words,
)
from compiler.backends.nvptx.debug import Debug
from compiler.backends.nvptx.frame import NvptxFrame, NvptxKernel, TensorMap
from compiler.backends.nvptx.target import GpuTarget
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.async_copy import AsyncCommit, AsyncCopy, AsyncWait
from compiler.hir.control import For
from compiler.hir.core import Binary, Cast, Const, InBounds, Pack2, Unary
from compiler.hir.gpu import (
    Atomic,
    ClusterStore,
    ClusterSync,
    DynamicShared,
    Elect,
    Fence,
    FenceAsync,
    GridIndex,
    GridSync,
    MatchLanes,
    Redux,
    SharedAlloc,
    Shuffle,
    SyncThreads,
    Uniform,
    Vote,
    WarpIndex,
    WarpSync,
)
from compiler.hir.hopper import (
    BarrierArrive,
    BarrierExpect,
    BarrierInit,
    BarrierMake,
    BarrierWait,
    BulkCommit,
    BulkLoad,
    BulkStore,
    BulkWait,
    SetMaxRegisters,
    WarpgroupCommit,
    WarpgroupFence,
    WarpgroupMma,
    WarpgroupWait,
)
from compiler.hir.instruction import Instruction, InstructionFamily
from compiler.hir.memory import Alloc, Check, GlobalRef, Load, Store
from compiler.hir.module import HirFunction, HirGlobal
from compiler.hir.tensor_core import LoadMatrix, Mma, MmaLoad, MmaStore, StoreMatrix, WarpMma
from compiler.hir.types import Fragment, Mem, Tile, bytes_of
from compiler.hir.words import FloatPair, LoadWords, PermuteBytes, StoreWords
from compiler.machines.gpu import Feature
from compiler.machines.nvidia import first_with

MAX_THREADS = 1024

MATRIX_UNITS = (InstructionFamily.TENSOR_CORE, InstructionFamily.HOPPER)

EMITTERS: dict[type[Instruction], Callable[[NvptxFrame, Any], None]] = {
    Load: access.load,
    Store: access.store,
    Alloc: access.alloc,
    GlobalRef: access.global_ref,
    Check: faults.check,
    GridIndex: threads.grid_index,
    WarpIndex: threads.warp_index,
    Uniform: threads.uniform,
    SyncThreads: threads.sync_threads,
    Fence: threads.fence,
    WarpSync: threads.warp_sync,
    ClusterStore: access.cluster_store,
    ClusterSync: threads.cluster_sync,
    GridSync: threads.grid_sync,
    FenceAsync: threads.fence_async,
    SharedAlloc: shared.shared_alloc,
    DynamicShared: shared.dynamic_shared,
    Atomic: atomics.atomic,
    Shuffle: warps.shuffle,
    Vote: warps.vote,
    MatchLanes: warps.match,
    Elect: warps.elect,
    Redux: warps.redux,
    MmaLoad: fragments.mma_load,
    Mma: fragments.mma,
    MmaStore: fragments.mma_store,
    LoadMatrix: fragments.load_matrix,
    StoreMatrix: fragments.store_matrix,
    WarpMma: warp_products.warp_mma,
    LoadWords: words.load_words,
    PermuteBytes: words.permute_bytes,
    FloatPair: words.float_pair,
    StoreWords: words.store_words,
    AsyncCopy: copies.async_copy,
    AsyncCommit: copies.async_commit,
    AsyncWait: copies.async_wait,
    BarrierMake: hopper.barrier_make,
    BarrierInit: hopper.barrier_init,
    BarrierArrive: hopper.barrier_arrive,
    BarrierExpect: hopper.barrier_expect,
    BarrierWait: hopper.barrier_wait,
    BulkLoad: hopper.bulk_load,
    BulkStore: hopper.bulk_store,
    BulkCommit: hopper.bulk_commit,
    BulkWait: hopper.bulk_wait,
    WarpgroupFence: warpgroups.fence,
    WarpgroupMma: warpgroups.mma,
    WarpgroupCommit: warpgroups.commit,
    WarpgroupWait: warpgroups.wait,
    SetMaxRegisters: warpgroups.set_registers,
}
"""Instructions that this back end has its own code for; all others are emitted as everywhere."""


def emit(frame: NvptxFrame, op: Instruction) -> None:
    """One instruction."""
    match op:
        case For():
            structured.counted_loop(frame, op, frame.affine(op.low), frame.affine(op.high), _marks(frame, op))
        case Const(type=Fragment()):
            fragments.fill(frame, op)
        case Unary() if "afn" in op.flags and approximate.has(op):
            approximate.unary(frame, op)
        case InBounds() if (inside := runs.lanes_inside(frame, op)) is not None:
            frame.define(op, inside)
        case Pack2() if pairs.narrows(frame, op):
            pairs.pack(frame, op)
        case Binary() if pairs.computes(frame, op):
            pairs.compute(frame, op)
        case Cast() if (source := narrow_ints.narrow_source(frame, op)) is not None:
            narrow_ints.to_f32(frame, op, source)
        case Binary() if division.shares_divisor(frame, op):
            division.divide(frame, op)
        case Binary() | Unary() if division.has_several(frame, op):
            division.several(frame, op)
        case _:
            emitter = EMITTERS.get(type(op))
            if emitter is not None:
                emitter(frame, op)
            else:
                emit_plain(frame, op)


def _marks(frame: NvptxFrame, op: For) -> str:
    """Loops are unrolled as marked."""
    unroll = op.mark("unroll")
    module = frame.kernel.module
    if unroll is True:
        note = '!{!"llvm.loop.unroll.full"}'
    elif op.mark("nounroll") or unroll == 1:
        note = '!{!"llvm.loop.unroll.disable"}'
    elif isinstance(unroll, int):
        note = f'!{{!"llvm.loop.unroll.count", i32 {unroll}}}'
    else:
        return ""
    return f", !llvm.loop {module.node(['!{self}', module.metadata(note)], distinct=True)}"


def emit_kernel(
    module: ModuleWriter, function: HirFunction, symbol: str, target: GpuTarget, tables: dict[str, HirGlobal], debug: Debug
) -> NvptxKernel:
    """Write one kernel into the module."""
    maps = hopper.tensor_maps(function)
    parameters: list[tuple[LlvmType, str]] = []
    notes: dict[int, str] = {}
    for number, parameter in enumerate(function.parameters):
        if isinstance(parameter.type, Mem):
            parameters.append((pointer(1), f"p{number}"))
            notes[number] = _facts(parameter.type)
        else:
            assert isinstance(parameter.type, Tile)
            parameters.append((memory_type(parameter.type.dtype), f"p{number}"))
    for number in range(len(maps)):
        notes[len(parameters)] = 'byval([128 x i8]) align 64 "nvvm.grid_constant"'
        parameters.append((PTR, f"map{number}"))
    notes[len(parameters)] = "noalias align 8"
    parameters.append((pointer(1), "fault"))
    module.picks_zero = not function.is_strict
    w = module.function(symbol, None, parameters, "ptx_kernel", _bounds(function, target))
    w.parameter_notes = notes
    kernel = NvptxKernel(function, symbol, module, target, tables, debug, emit)
    ops = [op for top in function.body.body for op in top.walk()]
    kernel.has_checks = any(isinstance(op, Check) for op in ops)
    kernel.multiplies_matrices = any(op.family in MATRIX_UNITS for op in ops)
    static = shared.plan(function, target)
    if static > shared.STATIC_LIMIT:
        kernel.shared_in_dynamic, kernel.dynamic_start = True, -(-static // 1024) * 1024
    spans = (op.span for top in function.body.body for op in top.walk() if op.span is not None)
    debug.begin(w, function.span or next(spans, None))
    flag = w.alloca(I64)
    w.store(constant(I64, 0), flag)
    frame = NvptxFrame(function=function, kernel=kernel, w=w, flag=flag, finish=w.label("finish"), record=w.parameters[-1])
    for parameter, held in zip(function.parameters, w.parameters, strict=False):
        if isinstance(parameter.type, Mem):
            frame.memories[parameter.name] = AddressedMemory(held, parameter.type)
        else:
            assert isinstance(parameter.type, Tile)
            dtype = parameter.type.dtype
            frame.values[parameter.name] = scalar_bundle(dtype, arithmetic.from_memory(w, held, dtype))
    kernel.tensor_maps = dict(zip(maps, w.parameters[len(function.parameters) :], strict=False))
    for map in kernel.tensor_maps.values():
        hopper.prefetch_map(w, map)
    overlap.body(frame, function.body)
    w.start(frame.finish)
    w.ret()
    w.location = ""
    return kernel


def _facts(mem: Mem) -> str:
    """What is known of a memory, as attributes of its pointer."""
    words = ["noalias"] if mem.noalias else []
    words += ["readonly"] if mem.readonly else []
    words.append(f"align {mem.align or bytes_of(mem.dtype)}")
    return " ".join(words)


def _bounds(function: HirFunction, target: GpuTarget) -> str:
    """What the launch keeps to, as attributes that ptxas reads."""
    info = function.kernel_info
    if info is None:
        return ""
    words = []
    if info.cluster is not None and not target.machine.has(Feature.CLUSTERS):
        first = first_with(lambda machine: machine.has(Feature.CLUSTERS))
        raise ZyntaxError(Diagnostic("0504", f"`{target}` has no clusters of blocks", hint=f"it takes {first} or later"))
    bounds = info.launch_bounds
    threads = 1
    for extent in info.workgroup or ():
        threads *= extent
    if info.workgroup is not None:
        words.append(f'"nvvm.reqntid"="{",".join(map(str, info.workgroup))}"')
    elif bounds is not None:
        threads = bounds.max_threads_per_block
        words.append(f'"nvvm.maxntid"="{threads}"')
    if threads > MAX_THREADS:
        message = f"`{function.name}` asks for {threads} threads a block"
        raise ZyntaxError(Diagnostic("0502", message, hint=f"a block has at most {MAX_THREADS} threads"))
    if bounds is not None and bounds.min_blocks_per_sm is not None:
        words.append(f'"nvvm.minctasm"="{bounds.min_blocks_per_sm}"')
    if info.cluster is not None:
        words.append(f'"nvvm.cluster_dim"="{",".join(map(str, info.cluster))}"')
    if info.max_registers is not None:
        words.append(f'"nvvm.maxnreg"="{info.max_registers}"')
    return " ".join(words)


__all__ = ["EMITTERS", "TensorMap", "emit", "emit_kernel"]
