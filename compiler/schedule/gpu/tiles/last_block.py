"""Reductions that several blocks share. Each block leaves what its own elements make, and takes a ticket; the one with the last ticket
finds the others' and joins all of them in the order of their numbers, then goes on with what follows. One launch, and the order
depends on sizes alone.

Tickets count up to the number of blocks and begin again at 0: their memory is zeros before and after."""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from math import prod

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Contract, Reduce, dtype_of, union_axes
from compiler.hir.gpu import Atomic, Fence, SyncThreads
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Value
from compiler.hir.types import Mem, Tile
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from compiler.schedule.gpu.tiles.combine import combine_over_threads
from compiler.schedule.region import Target, TileRegion
from runtime.records import frozen

JOIN, BYTE = 300.0, 0.042
"""Nanoseconds that the last block takes for what another has left, and for each byte of it (H200)."""


def join_nanoseconds(bytes: float) -> float:
    """About how long the block that comes last takes for each other's part of so many bytes, one part after the other."""
    return JOIN + BYTE * bytes


@frozen
class BlockPart:
    """A block's part of shared reductions: its `number` of `count` (at most `most`), and which `tile` of `tiles` of results they make."""

    number: Value
    count: Value
    most: int
    tile: Sequence[Affine] = (Affine(),)
    tiles: Sequence[Affine] = (Affine((), 1),)


@contextmanager
def in_last_block(
    placing: BlockTiles, part: BlockPart, totals: Sequence[tuple[Reduce | Contract, Sequence[Value]]], region: TileRegion
) -> Iterator[TileRegion]:
    """`with in_last_block(...) as last:` what the block does that comes last, where the results of the reductions are known. `totals` is
    what each reduction has in this block, alike in all threads along which the result doesn't vary."""
    left = [[_left(placing, part, target, n, value, region) for n, value in enumerate(values)] for target, values in totals]
    with comes_last(placing, part, region) as last:
        for (target, values), memories in zip(totals, left, strict=True):
            last.made.update(zip(target.results, _joined(placing, part, target, values, memories, last.builder), strict=True))
        yield last


@contextmanager
def comes_last(placing: BlockTiles, part: BlockPart, region: TileRegion) -> Iterator[TileRegion]:
    """`with comes_last(...) as last:` what the block does that comes last of those which share a tile, and sees what they all left."""
    b = region.builder
    b.emit(SyncThreads())
    tickets = placing.workspace(("tickets",), Mem("u32", tuple(part.tiles), align=64), zeros=True)
    box = placing.shared_memory("ticket", "u32", (1,))
    end = b.cast(b.sub(part.count, b.const(1, "index")), "u32")
    first = placing.one_of(range(len(placing.threads)), b)
    assert first is not None
    with b.when(first) as leading:
        leading.emit(Fence(scope="device"))
        ticket = leading.emit(Atomic(operation="inc", mem=tickets, index=tuple(part.tile), value=end)).result
        leading.store(box, ticket, [0])
    b.emit(SyncThreads())
    with b.when(b.op("eq", b.load(box, [0]), end)) as deep:
        deep.emit(Fence(scope="device"))
        yield region.inside(deep, ())


def _left(placing: BlockTiles, part: BlockPart, target: Reduce | Contract, number: int, value: Value, region: TileRegion) -> Value:
    """The memory with the values of all blocks, where this one's is stored."""
    assert isinstance(value.type, Tile)
    b = region.builder
    own, width, idle = _own(placing, target)
    extents = (*part.tiles, Affine((), part.most), Affine((), width), *(extent for _, extent in value.type.axes))
    purpose: Hashable = (target, number)
    memory = placing.workspace(purpose, Mem(dtype_of(value), extents, align=64))
    b.store(memory, value, _index(part, Affine.of(part.number.name), own, value), placing.one_of(idle, b))
    return memory


def _own(placing: BlockTiles, target: Reduce | Contract) -> tuple[Affine, int, list[int]]:
    """The thread's place along the dimensions of the block that the results vary along, how many places there are, and the other
    dimensions."""
    idle = placing.idle(placing.target_axes(target) - set(target.over))
    own, width = Affine(), 1
    for dim, extent in enumerate(placing.table.block):
        if extent > 1 and dim not in idle:
            own, width = own + Affine.of(placing.threads[dim].name) * width, width * extent
    return own, width, idle


def _index(part: BlockPart, number: Affine, own: Affine, value: Value) -> list[Affine]:
    """Where a block's value lies."""
    assert isinstance(value.type, Tile)
    return [*part.tile, number, own, *map(Affine.of, value.type.axis_names)]


def _joined(
    placing: BlockTiles, part: BlockPart, target: Reduce | Contract, values: Sequence[Value], memories: Sequence[Value], b: Builder
) -> list[Value]:
    """What all blocks left, joined: threads along which the result doesn't vary take turns, then join theirs."""
    own, _, idle = _own(placing, target)
    number, below = Affine(), 1
    for dim in idle:
        number, below = number + Affine.of(placing.threads[dim].name) * below, below * placing.table.block[dim]
    width = prod(placing.table.block[dim] for dim in idle)
    turns = b.op("div", b.add(part.count, b.const(width - 1, "index")), b.const(width, "index"), name="turns")
    identities = _identities(target)
    nothing = [b.const(start, Tile(dtype, union_axes(value))) for (start, dtype), value in zip(identities, values, strict=True)]
    with b.loop("turn", 0, turns.name, carried=nothing) as (deep, loop):
        position = Affine.of(loop.variable.name) * width + number
        inside = deep.inbounds(position, Affine.of(part.count.name))
        read = []
        for memory, value, start in zip(memories, values, identities, strict=True):
            there = deep.load(memory, _index(part, position, own, value), inside)
            read.append(deep.select(inside, there, deep.const(*start)))
        deep.yield_(*placing.combined(target, loop.carried, read, deep))
    return combine_over_threads(placing, target, loop.results, idle, b)


def _identities(target: Reduce | Contract) -> list[tuple[float | int, str]]:
    if isinstance(target, Contract):
        return [(0, target.to)]
    dtypes = [dtype_of(value) for value in target.values]
    return list(zip(identity_of(target.monoid, dtypes), dtypes, strict=True))


def reading(placing: BlockTiles, results: Sequence[Value]) -> tuple[set[Value], set[Target]]:
    """The values that are computed from these, other reductions left out, and the targets that read one of them."""
    behind, targets = set(results), set[Target]()
    for op in placing.field.body.body:
        if behind.isdisjoint(placing.reads(op)):
            continue
        if isinstance(op, Target):
            targets.add(op)
        else:
            behind.update(op.results)
    return behind, targets
