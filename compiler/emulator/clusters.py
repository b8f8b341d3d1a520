"""What the interpreter of threads knows of blocks of a cluster that write to each other's shared memory: a block must be known to have
begun before another writes there, and everybody meets before what was written is read, or before a block ends."""

from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.emulator.clocks import meet_blocks
from compiler.emulator.findings import Finding, outside
from compiler.hir.gpu import ClusterStore, ClusterSync
from compiler.hir.text import print_instruction

if TYPE_CHECKING:
    from compiler.emulator.threads import Block, Thread

Array = np.ndarray[Any, Any]


def cluster_store(op: ClusterStore, thread: "Thread", memory: Array, index: tuple[int, ...], value: Any, rank: int) -> None:
    """An element (as memory holds it) to the same shared memory of that block."""
    block = thread.block
    engines, findings = block.engines, block.run.findings
    if any(not 0 <= place < extent for place, extent in zip(index, memory.shape, strict=True)):
        findings.add(outside(op.mem.name, tuple(map(int, index)), memory.shape, op, thread.clock, "write"))
        return
    if not engines.met:
        message = f"`{print_instruction(op)}`: nobody knows that block {rank} of the cluster has begun"
        findings.add(Finding("0412", message, op, hint="let the blocks meet (`cluster_sync`) before one writes to another"))
    there = block.twin(memory, engines.peer(rank, op))
    block.run.memories[id(there)].write(index, op, thread.clock, value)
    there[index] = value
    engines.written.append(op)


def meet_cluster(threads: "list[Thread]", op: ClusterSync) -> None:
    """All threads of a cluster's blocks are there, and go on."""
    by_block: dict[int, list[Thread]] = {}
    for thread in threads:
        by_block.setdefault(id(thread.block), []).append(thread)
        thread.block.engines.met = True
        if op.writes:
            thread.block.engines.written.clear()
        thread.waiting = None
    if op.writes:
        meet_blocks([[thread.clock for thread in team] for team in by_block.values()])


def tell_unmet(block: "Block") -> None:
    """At the end of a block: what it wrote to others that nobody waited for."""
    for op in dict.fromkeys(block.engines.written):
        message = f"`{print_instruction(op)}`: the block that is written to may have ended before"
        block.run.findings.add(Finding("0412", message, op, hint="let the blocks meet (`cluster_sync`) after what one writes to another"))
