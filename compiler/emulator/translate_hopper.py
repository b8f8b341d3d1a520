"""What Hopper's instructions become in the source of a thread: calls of `hopper.py`, and meetings with others."""

from typing import TYPE_CHECKING, Any

from compiler.emulator.clusters import cluster_store
from compiler.emulator.hopper import arrive, barrier_at, bulk_load, bulk_store
from compiler.hir.affine import Affine
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
from compiler.hir.instruction import Instruction
from compiler.hir.types import Barrier

if TYPE_CHECKING:
    from compiler.emulator.translate_threads import ThreadTranslator

CALLS: dict[str, Any] = {
    "arrive": arrive,
    "barrier_at": barrier_at,
    "bulk_load": bulk_load,
    "bulk_store": bulk_store,
    "cluster_store": cluster_store,
}
"""What the written source may call besides."""


def hopper_statement(to: "ThreadTranslator", op: Instruction, indent: int) -> bool:
    """Write one of these instructions; False when it is none."""

    def forms(index: tuple[Affine, ...]) -> str:
        return f"({''.join(to.affine(form) + ', ' for form in index)})"

    def barrier(at: BarrierInit | BarrierArrive | BarrierExpect | BarrierWait) -> str:
        return f"barrier_at({to.of(at.barrier)}, {to.affine(at.barrier_index[0])}, {to.site(at)})"

    match op:
        case BarrierMake():
            assert isinstance(op.type, Barrier)
            to.result(op, f"thread.block.engines.barriers({to.constant(op)}, {op.type.count})", indent)
        case BarrierInit():
            to.write(indent, f"{barrier(op)}.begin({op.count})")
        case BarrierArrive():
            rank = "None" if op.rank is None else to.of(op.rank)
            place = f"{to.of(op.barrier)}, {to.affine(op.barrier_index[0])}"
            to.write(indent, f"arrive({to.site(op)}, thread, {place}, {rank})")
        case BarrierExpect():
            to.write(indent, f"{barrier(op)}.arrive({to.site(op)}, thread.clock, {op.bytes})")
        case BarrierWait():
            to.write(indent, to.meet(op, barrier(op), to.of(op.parity)))
        case BulkLoad():
            ends = f"{to.of(op.shared)}, {forms(op.shared_index)}, {to.of(op.tensor)}, {forms(op.tensor_index)}"
            counted = f"{to.of(op.barrier)}, {to.affine(op.barrier_index[0])}"
            to.write(indent, f"bulk_load({to.site(op)}, thread, {ends}, {counted}, {forms(op.offsets)})")
        case BulkStore():
            ends = f"{to.of(op.shared)}, {forms(op.shared_index)}, {to.of(op.tensor)}, {forms(op.tensor_index)}"
            to.write(indent, f"bulk_store({to.site(op)}, thread, {ends})")
        case BulkCommit():
            to.write(indent, "thread.stores.commit()")
        case BulkWait():
            to.write(indent, f"thread.stores.wait({op.count}, {op.read})")
        case WarpgroupMma():
            a = (to.of(op.a), forms(op.a_index))
            to.result(op, to.meet(op, to.of(op.accumulator), *a, to.of(op.b), forms(op.b_index), to.of(op.keep)), indent)
        case WarpgroupWait():
            names = "".join(to.bind(result) + ", " for result in op.results)
            met = to.meet(op, "thread.warpgroup", *map(to.of, op.values))
            to.write(indent, f"{names}= {met}" if names else met)
        case WarpgroupFence() | WarpgroupCommit() | SetMaxRegisters():
            to.write(indent, to.meet(op))
        case _:
            return False
    return True
