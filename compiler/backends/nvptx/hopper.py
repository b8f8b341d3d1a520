"""What sm_90 adds to copies: barriers in shared memory that count bytes, and bulk copies of tensor boxes. A tensor that boxes are
copied of is described to the hardware by a tensor map, a parameter of the kernel."""

from compiler.backends.llvm.frame import AddressedMemory
from compiler.backends.llvm.types import I1, I32, I64, LlvmType, pointer, vector
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.backends.nvptx.access import element_address, where_allowed
from compiler.backends.nvptx.frame import NvptxFrame, TensorMap
from compiler.backends.nvptx.shared import shared_block
from compiler.hir.affine import Affine
from compiler.hir.hopper import (
    BARRIER_SCOPES,
    BarrierArrive,
    BarrierExpect,
    BarrierInit,
    BarrierMake,
    BarrierWait,
    BulkCommit,
    BulkLoad,
    BulkStore,
    BulkWait,
)
from compiler.hir.memory import mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Barrier, Mem, Space
from compiler.machines.gpu import Feature

_BARRIERS = "barriers in shared memory"
_BULK = "bulk copies"
_MOST_TRIES = 1 << 24
"""Of a wait: seconds at least."""

I16 = vector("i16")


# ---- barriers --------------------------------------------------------------------------------------------------------------


def barrier_make(frame: NvptxFrame, op: BarrierMake) -> None:
    frame.require_feature(Feature.BULK_COPIES, _BARRIERS)
    assert isinstance(op.type, Barrier)
    frame.memories[op.result.name] = AddressedMemory(shared_block(frame, op), Mem("i64", (Affine.of(op.type.count),), space=Space.SHARED))


def barrier_init(frame: NvptxFrame, op: BarrierInit) -> None:
    """Also made known to the bulk copies that will signal it: once for many, a fence takes longer than they do."""
    frame.require_feature(Feature.BULK_COPIES, _BARRIERS)
    barrier = element_address(frame, op.barrier, op.barrier_index)
    frame.w.call_void("llvm.nvvm.mbarrier.init.shared", barrier, constant(I32, op.count))
    if op.known:
        frame.w.call_void("llvm.nvvm.fence.mbarrier_init.release.cluster")


def barrier_arrive(frame: NvptxFrame, op: BarrierArrive) -> None:
    frame.require_feature(Feature.BULK_COPIES, _BARRIERS)
    w, unit = frame.w, constant(I32, 1)
    barrier = element_address(frame, op.barrier, op.barrier_index)
    if op.rank is None:
        w.call("llvm.nvvm.mbarrier.arrive.scope.cta.space.cta", I64, barrier, unit)
        return
    there = w.call("llvm.nvvm.mapa.shared.cluster", pointer(7), barrier, frame.values[op.rank.name].scalar)
    w.call_void(f"llvm.nvvm.mbarrier.arrive.scope.{BARRIER_SCOPES[op.scope]}.space.cluster", there, unit)


def barrier_expect(frame: NvptxFrame, op: BarrierExpect) -> None:
    frame.require_feature(Feature.BULK_COPIES, _BARRIERS)
    barrier = element_address(frame, op.barrier, op.barrier_index)
    frame.w.call("llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta", I64, barrier, constant(I32, op.bytes))


def barrier_wait(frame: NvptxFrame, op: BarrierWait) -> None:
    """Asks until the phase has ended; the hardware lets the thread sleep a while each time. What never comes is a fault of the kernel
    (0805) in the end: a device that hangs costs more."""
    frame.require_feature(Feature.BULK_COPIES, _BARRIERS)
    w = frame.w
    scope = BARRIER_SCOPES[op.scope]
    barrier = element_address(frame, op.barrier, op.barrier_index)
    parity = frame.values[op.parity.name].scalar
    again, more, lost, done = (w.label(word) for word in ("wait", "more", "lost", "arrived"))
    w.start(w.label("ask"))
    before = w.block
    w.start(again)
    tries = w.phi(I32, [(constant(I32, 0), before), (f"%{more}.tries", more)])
    w.branch_if(w.call(f"llvm.nvvm.mbarrier.try.wait.parity.scope.{scope}.space.cta", I1, barrier, parity), done, more)
    w.start(more)
    w.line(f"%{more}.tries = add {tries}, 1")
    w.branch_if(w.compare("ult", tries, constant(I32, _MOST_TRIES)), again, lost)
    w.start(lost)
    w.assembly("trap;", [], "", [])
    w.start(done)


# ---- bulk copies -----------------------------------------------------------------------------------------------------------


def map_of(op: BulkLoad | BulkStore) -> TensorMap:
    window = (op.lower, op.upper) if isinstance(op, BulkLoad) and op.offsets else None
    return TensorMap(op.tensor.name, op.box, mem_of(op.shared).swizzle, window, op.step, isinstance(op, BulkLoad) and op.rounded)


def tensor_maps(function: HirFunction) -> list[TensorMap]:
    """The maps that a function's bulk copies need, each once, in order of first use."""
    every = (op for top in function.body.body for op in top.walk())
    return list(dict.fromkeys(map_of(op) for op in every if isinstance(op, BulkLoad | BulkStore)))


def prefetch_map(w: FunctionWriter, map: LlvmValue) -> None:
    """Has a tensor map fetched by the block's first thread, long before its first copy needs it."""
    first = "{ .reg .pred p; .reg .b32 t; mov.u32 t, %tid.x; setp.eq.u32 p, t, 0; @p prefetch.tensormap [$0]; }"
    w.assembly(first, [], "l", [map])


def _coordinates(frame: NvptxFrame, index: tuple[Affine, ...], kind: LlvmType = I32) -> list[LlvmValue]:
    """Innermost first, as numbers of 32 bits, or of another width."""
    w = frame.w
    coordinates = []
    for form in reversed(index):
        value = frame.affine(form)
        coordinates.append(constant(kind, value.number) if value.number is not None else w.convert("trunc", value, kind.element))
    return coordinates


def bulk_load(frame: NvptxFrame, op: BulkLoad) -> None:
    frame.require_feature(Feature.BULK_COPIES, _BULK)
    w = frame.w
    coordinates = _coordinates(frame, op.tensor_index)
    rank = len(coordinates)
    shared = element_address(frame, op.shared, op.shared_index, raw=True)
    barrier = element_address(frame, op.barrier, op.barrier_index)
    arguments = [shared, frame.kernel.tensor_maps[map_of(op)], barrier, *coordinates]
    kinds = ["l", "l", "l", *["r"] * rank]
    box = ", ".join(f"${n + 3}" for n in range(rank))
    mode, tail = "", ""
    if op.offsets:
        mode = ".im2col"
        tail = ", {" + ", ".join(f"${len(arguments) + n}" for n in range(len(op.offsets))) + "}"
        arguments += _coordinates(frame, op.offsets, I16)
        kinds += ["h"] * len(op.offsets)
    cast = ""
    if op.multicast:
        cast = ".multicast::cluster"
        tail += f", ${len(arguments)}"
        arguments.append(constant(I16, op.multicast))
        kinds.append("h")
    name = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global{mode}.mbarrier::complete_tx::bytes{cast}"
    with where_allowed(frame, op.shared_index, op.tensor_index):
        w.assembly(f"{name} [$0], [$1, {{{box}}}], [$2]{tail};", [], ",".join(kinds), arguments)


def bulk_store(frame: NvptxFrame, op: BulkStore) -> None:
    frame.require_feature(Feature.BULK_COPIES, _BULK)
    coordinates = _coordinates(frame, op.tensor_index)
    rank = len(coordinates)
    box = ", ".join(f"${n + 2}" for n in range(rank))
    shared = element_address(frame, op.shared, op.shared_index, raw=True)
    arguments = [shared, frame.kernel.tensor_maps[map_of(op)], *coordinates]
    text = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [$1, {{{box}}}], [$0];"
    with where_allowed(frame, op.shared_index, op.tensor_index):
        frame.w.assembly(text, [], ",".join(["l", "l", *["r"] * rank]), arguments)


def bulk_commit(frame: NvptxFrame, op: BulkCommit) -> None:
    frame.require_feature(Feature.BULK_COPIES, _BULK)
    frame.w.call_void("llvm.nvvm.cp.async.bulk.commit.group")


def bulk_wait(frame: NvptxFrame, op: BulkWait) -> None:
    frame.require_feature(Feature.BULK_COPIES, _BULK)
    frame.w.call_void(f"llvm.nvvm.cp.async.bulk.wait.group{'.read' if op.read else ''}", constant(I32, op.count))
