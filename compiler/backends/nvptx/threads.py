"""Where a thread stands, and how threads wait for each other: special registers, barriers, fences."""

from math import prod

from compiler.backends.llvm.bundle import scalar_bundle
from compiler.backends.llvm.types import I8, I32, I64
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.backends.nvptx.faults import special, thread_in_block
from compiler.backends.nvptx.frame import ALL_LANES, NvptxFrame
from compiler.hir.gpu import ClusterSync, Fence, FenceAsync, GridIndex, GridSync, SyncThreads, Uniform, WarpIndex, WarpSync
from compiler.machines.gpu import Feature

_REGISTERS = {"thread_idx": "tid", "block_idx": "ctaid", "block_dim": "ntid", "grid_dim": "nctaid"}
_FENCES = {"block": 'syncscope("block") ', "device": 'syncscope("device") ', "system": ""}


def grid_index(frame: NvptxFrame, op: GridIndex) -> None:
    known = known_place(frame, op.operator, op.dim)
    value = special(frame.w, f"{_REGISTERS[op.operator]}.{op.dim}") if known is None else constant(I64, known)
    frame.define(op, scalar_bundle("index", value))


def known_place(frame: NvptxFrame, operator: str, dim: str) -> int | None:
    """What the size of the block says: its extents, and 0 for a thread along an extent of 1."""
    info = frame.function.kernel_info
    if info is None or info.workgroup is None:
        return None
    extent = info.workgroup["xyz".index(dim)]
    if operator == "block_dim":
        return extent
    return 0 if operator == "thread_idx" and extent == 1 else None


def warp_index(frame: NvptxFrame, op: WarpIndex) -> None:
    """`lane` is a register; the warp's number is not (the one there is may change while the thread runs)."""
    w = frame.w
    match op.operator:
        case "lane":
            value = special(w, "laneid")
        case "warp":
            value = w.binary("lshr", thread_in_block(w), constant(I64, 5))
        case _:
            frame.require_feature(Feature.CLUSTERS, "clusters of blocks")
            value = special(w, "cluster.ctarank")
    frame.define(op, scalar_bundle("index", value))


def uniform(frame: NvptxFrame, op: Uniform) -> None:
    """Known already: the value itself."""
    frame.define(op, frame.values[op.value.name])


def sync_threads(frame: NvptxFrame, op: SyncThreads) -> None:
    w = frame.w
    number = constant(I32, op.id)
    if op.arrive:
        w.call_void("llvm.nvvm.barrier.cta.arrive.aligned.count", number, _threads(frame, op))
    elif op.count:
        w.call_void("llvm.nvvm.barrier.cta.sync.aligned.count", number, constant(I32, op.count))
    else:
        w.call_void("llvm.nvvm.barrier.cta.sync.aligned.all", number)


def _threads(frame: NvptxFrame, op: SyncThreads) -> LlvmValue:
    """How many threads a barrier counts: what it says, or all of the block, rounded up to warps."""
    w = frame.w
    extents = [known_place(frame, "block_dim", dim) for dim in "xyz"]
    if op.count or None not in extents:
        return constant(I32, op.count or -(-prod(extent or 1 for extent in extents) // 32) * 32)
    total = w.mul(w.mul(special(w, "ntid.x"), special(w, "ntid.y")), special(w, "ntid.z"))
    return w.convert("trunc", w.binary("and", w.add(total, constant(total.type, 31)), constant(total.type, -32)), "i32")


def fence(frame: NvptxFrame, op: Fence) -> None:
    if op.scope == "thread":
        # the order of one thread's own accesses: no instruction, but LLVM must keep it
        frame.w.assembly("", [], "", [])
    else:
        frame.w.line(f"fence {_FENCES[op.scope]}acq_rel")


def warp_sync(frame: NvptxFrame, op: WarpSync) -> None:
    mask = frame.values[op.mask.name].scalar if op.mask is not None else ALL_LANES
    frame.w.call_void("llvm.nvvm.bar.warp.sync", mask)


def cluster_sync(frame: NvptxFrame, op: ClusterSync) -> None:
    frame.require_feature(Feature.CLUSTERS, "clusters of blocks")
    if op.part != "wait":
        frame.w.call_void(f"llvm.nvvm.barrier.cluster.arrive{'' if op.writes else '.relaxed'}.aligned")
    if op.part != "arrive":
        frame.w.call_void("llvm.nvvm.barrier.cluster.wait.aligned")


def grid_sync(frame: NvptxFrame, op: GridSync) -> None:
    """A thread of each block adds 1 to a counter of the launch, that of the first block what brings the sum to 2^31: the highest bit
    changes when all have come, and the others are 0 again."""
    w, kernel = frame.w, frame.kernel
    kernel.cooperative = True
    counter = w.offset(frame.record, constant(I64, 4), I8)
    w.call_void("llvm.nvvm.barrier.cta.sync.aligned.all", constant(I32, 0))
    with w.when(w.compare("eq", thread_in_block(w), constant(I64, 0))):
        places = [special(w, f"ctaid.{dim}") for dim in "xyz"]
        first = w.compare("eq", w.binary("or", w.binary("or", places[0], places[1]), places[2]), constant(I64, 0))
        blocks = w.mul(w.mul(special(w, "nctaid.x"), special(w, "nctaid.y")), special(w, "nctaid.z"))
        rest = w.binary("sub", constant(I32, -(1 << 31)), w.binary("sub", w.convert("trunc", blocks, "i32"), constant(I32, 1)))
        step = w.select(first, rest, constant(I32, 1))
        (before,) = w.assembly("atom.acq_rel.gpu.global.add.u32 $0, [$1], $2;", [I32], "l,r", [counter, step])
        again, met = w.label("wait"), w.label("met")
        w.start(again)
        (now,) = w.assembly("ld.acquire.gpu.global.u32 $0, [$1];", [I32], "l", [counter])
        w.branch_if(w.compare("slt", w.binary("xor", now, before), constant(I32, 0)), met, again)
        w.start(met)
    w.call_void("llvm.nvvm.barrier.cta.sync.aligned.all", constant(I32, 0))


def fence_async(frame: NvptxFrame, op: FenceAsync) -> None:
    frame.require_feature(Feature.BULK_COPIES, "bulk copies")
    frame.w.call_void("llvm.nvvm.fence.proxy.async.shared_cta")
