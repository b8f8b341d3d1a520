"""Copies from global to shared memory beside the computation. Before sm_80 there are none: the thread loads and stores at once,
which a wait may find done."""

from compiler.backends.llvm.types import I32, vector
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.backends.nvptx.access import element_address, mask_of, where_allowed
from compiler.backends.nvptx.frame import NvptxFrame
from compiler.hir.async_copy import AsyncCommit, AsyncCopy, AsyncWait
from compiler.machines.gpu import Feature


def async_copy(frame: NvptxFrame, op: AsyncCopy) -> None:
    w = frame.w
    where = frame.values[op.where.name].scalar if op.where is not None else None
    where = w.both(where, mask_of(frame, op.source_index, {}))
    with where_allowed(frame, op.destination_index):
        to = element_address(frame, op.destination, op.destination_index)
        source = element_address(frame, op.source, op.source_index)
        if not frame.has(Feature.ASYNC_COPIES):
            _at_once(frame, op, to, source, where)
            return
        arguments, kinds, size = [to, source], "l,l", str(op.bytes)
        if where is not None:
            # as many bytes as are read; the rest become 0
            arguments.append(w.select(where, constant(I32, op.bytes), constant(I32, 0)))
            kinds, size = "l,l,r", f"{op.bytes}, $2"
        w.assembly(_text(op, size), [], kinds, arguments)


def _text(op: AsyncCopy, size: str) -> str:
    """Only 16 bytes can pass by L1."""
    if op.hint == "streaming":
        level = "cg" if op.bytes == 16 else "ca"
        copy = f"cp.async.{level}.shared.global.L2::cache_hint [$0], [$1], {size}, policy;"
        return f"{{ .reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy, 1.0; {copy} }}"
    level = "cg" if op.hint == "l2" and op.bytes == 16 else "ca"
    return f"cp.async.{level}.shared.global [$0], [$1], {size};"


def _at_once(frame: NvptxFrame, op: AsyncCopy, to: LlvmValue, source: LlvmValue, where: LlvmValue | None) -> None:
    w = frame.w
    type = vector("i32", op.bytes // 4 if op.bytes > 4 else 0)
    if where is None:
        w.store(w.load(type, source, op.bytes), to, op.bytes)
        return
    inside, after = w.label("inside"), w.label("after")
    w.start(w.label("mask"))
    before = w.block
    w.branch_if(where, inside, after)
    w.start(inside)
    loaded = w.load(type, source, op.bytes)
    end = w.block
    w.start(after)
    w.store(w.phi(type, [(loaded, end), ("zeroinitializer" if type.lanes else "0", before)]), to, op.bytes)


def async_commit(frame: NvptxFrame, op: AsyncCommit) -> None:
    if frame.has(Feature.ASYNC_COPIES):
        frame.w.call_void("llvm.nvvm.cp.async.commit.group")


def async_wait(frame: NvptxFrame, op: AsyncWait) -> None:
    if frame.has(Feature.ASYNC_COPIES):
        frame.w.call_void("llvm.nvvm.cp.async.wait.group", constant(I32, op.count))
