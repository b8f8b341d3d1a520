"""What the interpreter of threads knows of blocks of a cluster that write to each other's shared memory: a block must be known to have
begun before another writes there, and everybody meets before what was written is read, or before a block ends."""

from typing import Any

import numpy as np

from compiler.emulator.block import Lanes, ThreadBlock
from compiler.emulator.bulk import each_lane
from compiler.emulator.clocks import meet_blocks
from compiler.emulator.fault import ThreadFinding
from compiler.emulator.findings import outside
from compiler.emulator.watch import Watched
from compiler.hir.gpu import ClusterStore, ClusterSync
from compiler.hir.text import print_instruction

Array = np.ndarray[Any, Any]


def cluster_store(op: ClusterStore, lanes: Lanes, memory: Array, index: tuple[Any, ...], value: Any, rank: Any, where: Any) -> None:
    """Each thread's element (as memory holds it) to the same shared memory of another block."""
    for thread, *given, taken in each_lane(lanes, index, value, rank, where):
        if taken:
            _store(op, lanes.block, thread, memory, *given)


def _store(op: ClusterStore, block: ThreadBlock, thread: int, memory: Array, index: tuple[int, ...], value: Any, rank: int) -> None:
    findings, met = block.run.findings, block.engines.met
    if any(not 0 <= position < extent for position, extent in zip(index, memory.shape, strict=True)):
        beyond = outside(op.mem.name, index, memory.shape, op, block.clocks[thread], "write")
        block.later(np.array([thread]), lambda _: findings.add(beyond))
        return
    there = block.twin(memory, block.engines.peer(rank, op))

    def tell(_: int) -> None:
        if not met:
            message = f"`{print_instruction(op)}`: nobody knows that block {rank} of the cluster has begun"
            findings.add(ThreadFinding("0412", message, op, hint="let the blocks meet (`cluster_sync`) before one writes to another"))
        watched = block.run.memories[id(there)]
        assert isinstance(watched, Watched), "clusters have clocks"
        watched.write(index, op, block.clocks[thread], value)

    block.later(np.array([thread]), tell)
    there[index] = value
    block.engines.written.append(op)


def meet_cluster(blocks: list[ThreadBlock], op: ClusterSync) -> None:
    """All threads of a cluster's blocks are there."""
    for block in blocks:
        block.engines.met = True
        for barrier in (barrier for barriers in block.engines.made.values() for barrier in barriers):
            barrier.made = None
        if op.writes:
            block.engines.written.clear()
    if op.writes:
        meet_blocks([block.clocks for block in blocks])


def tell_unmet(block: ThreadBlock) -> None:
    """At the end of a block: what it wrote to others that nobody waited for."""
    for op in dict.fromkeys(block.engines.written):
        message = f"`{print_instruction(op)}`: the block that is written to may have ended before"
        hint = "let the blocks meet (`cluster_sync`) after what one writes to another"
        block.run.findings.add(ThreadFinding("0412", message, op, hint=hint))
