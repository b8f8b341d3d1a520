"""Reductions over the threads of a block: lanes of a warp by exchange in the pattern of a butterfly, warps through shared memory; and over
the blocks of a cluster, each of which tells all of them what its own elements make. Every thread gets the result; the order depends on the
shapes of block and cluster alone."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Contract, Reduce
from compiler.hir.gpu import ClusterStore, ClusterSync, SyncThreads
from compiler.hir.instruction import Value
from compiler.hir.types import Tile
from compiler.schedule.gpu.indices import thread_index
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from compiler.schedule.gpu.tiles.reduction import exchanged
from compiler.schedule.region import NotPlaceable


def combine_over_threads(
    placing: BlockTiles, target: Reduce | Contract, values: Sequence[Value], dims: Sequence[int], b: Builder, depth: int = 0
) -> list[Value]:
    """The values of all threads along these dimensions of the block made one, in each of them. `depth`: of the region where it is done."""
    totals = list(values)
    for dim in dims:
        stride = _stride(placing.table.block, dim)
        extent = placing.table.block[dim]
        near = min(extent, max(1, placing.table.machine.lanes // stride))
        step = 1
        while step < near:
            totals = placing.combined(target, totals, [exchanged(b, value, stride * step) for value in totals], b)
            step *= 2
        if near < extent:
            alone = placing.once.issuperset(target.over) and not any(plan.place == "time" for plan in placing.table.plans)
            totals = _through_memory(placing, target, totals, dim, near, depth if alone else None, b)
    return totals


def _stride(block: Sequence[int], dim: int) -> int:
    stride = 1
    for extent in block[:dim]:
        stride *= extent
    return stride


def _through_memory(
    placing: BlockTiles, target: Reduce | Contract, values: Sequence[Value], dim: int, near: int, alone: int | None, b: Builder
) -> list[Value]:
    """The totals of groups of `near` neighbours along a dimension, put where all threads see them and added up by each. A reduction that
    a block does without loops has a memory for itself at each depth of regions, `alone`, since a region around may do it again for what
    rests there: nobody waits until all have read it."""
    table = placing.table
    stride, extent = _stride(table.block, dim), table.block[dim]
    thread = thread_index(b)
    own = placing.threads[dim]
    memories = []
    for number, value in enumerate(values):
        assert isinstance(value.type, Tile)
        extents = [table.threads, *(extent.value or 0 for _, extent in value.type.axes)]
        purpose = ("exchange", number) if alone is None else ("exchange", number, target, alone)
        memories.append(placing.shared_memory(purpose, value.type.dtype, extents))
        b.store(memories[-1], value, [thread.name, *value.type.axis_names])
    b.emit(SyncThreads())
    first = Affine.of(thread.name) - Affine.of(own.name) * stride
    totals: list[Value] = []
    for group in range(extent // near):
        position = first + group * near * stride
        read = [_read(b, mem, value, position) for mem, value in zip(memories, values, strict=True)]
        totals = placing.combined(target, totals, read, b) if totals else read
    if alone is None:
        b.emit(SyncThreads())
    return totals


def _read(b: Builder, memory: Value, like: Value, position: Affine) -> Value:
    assert isinstance(like.type, Tile)
    return b.load(memory, [position, *like.type.axis_names])


def combine_over_cluster(
    placing: BlockTiles, target: Reduce | Contract, values: Sequence[Value], dims: Sequence[int], b: Builder
) -> list[Value]:
    """The values of all threads along these dimensions of the blocks of a cluster made one, in each of them. That all blocks have begun
    is asked for once, and waited for behind what each does by itself."""
    if any(isinstance(value.type, Tile) and value.type.axes for value in values):
        raise NotPlaceable("a cluster of blocks joins more than one value a row")
    first, placing.begun = not placing.begun, True
    if first:
        b.emit(ClusterSync(writes=False, part="arrive"))
    totals = combine_over_threads(placing, target, values, dims, b)
    cluster, rank = placing.table.cluster, placing.member
    assert rank is not None
    thread = thread_index(b)
    there, teller = b.cast(thread, "i32"), b.op("lt", thread, b.const(cluster, "index"))
    memories = []
    for number, value in enumerate(totals):
        assert isinstance(value.type, Tile)
        memories.append(placing.shared_memory(("cluster", number, target), value.type.dtype, (cluster,)))
    if first:
        b.emit(ClusterSync(writes=False, part="wait"))
    for memory, value in zip(memories, totals, strict=True):
        b.emit(ClusterStore(mem=memory, value=value, index=(Affine.of(rank.name),), rank=there, where=teller))
    b.emit(ClusterSync())
    joined: list[Value] = []
    for block in range(cluster):
        read = [b.load(memory, [block]) for memory in memories]
        joined = placing.combined(target, joined, read, b) if joined else read
    return joined
