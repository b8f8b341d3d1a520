"""Reductions over the blocks of a cluster: each block tells all of them what its own elements make, in their shared memory, and every
thread joins what they were told in the order of the blocks."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Contract, Reduce
from compiler.hir.gpu import ClusterStore, ClusterSync
from compiler.hir.instruction import Value
from compiler.hir.types import Tile
from compiler.schedule.gpu.indices import thread_index
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from compiler.schedule.gpu.tiles.combine import combine_over_threads
from compiler.schedule.region import NotPlaceable


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
