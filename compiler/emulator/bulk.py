"""Bulk copies (TMA): boxes of tensors on their way to shared memory and back."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from compiler.emulator import arrays
from compiler.emulator.block import Lanes, ThreadBlock
from compiler.emulator.clocks import Seen, ThreadClock, TimedAccess, joined
from compiler.emulator.fault import unsupported
from compiler.emulator.findings import early_barrier
from compiler.emulator.hopper import CountingBarrier, LateStore, wrong
from compiler.emulator.watch import Watched
from compiler.hir.hopper import BarrierArrive, BarrierExpect, BulkLoad, BulkStore
from compiler.hir.instruction import Instruction
from compiler.hir.memory import mem_of
from compiler.hir.types import bytes_of

Array = np.ndarray[Any, Any]
Index = tuple[int, ...]

_BOX_ALIGN = 128
"""Bytes to a multiple of which a box in shared memory is aligned."""

# ---- boxes -------------------------------------------------------------------------------------------------------


def _spans(extents: Iterable[int], corner: Index, box: Index) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """What of a box lies in the tensor: its place there, and its place in the box."""
    outer, inner = [], []
    for extent, low, size in zip(extents, corner, box, strict=True):
        first, last = min(max(low, 0), extent), max(min(low + size, extent), 0)
        last = max(first, last)
        outer.append(slice(first, last))
        inner.append(slice(first - low, last - low) if last > first else slice(0, 0))
    return tuple(outer), tuple(inner)


def box_of(tensor: Array, corner: Index, box: Index, step: Index = ()) -> Array:
    """The box of a tensor at a corner, zeros outside."""
    if step:
        reach = tuple(extent * apart for extent, apart in zip(box, step, strict=True))
        return box_of(tensor, corner, reach)[tuple(slice(None, None, apart) for apart in step)]
    box_values = np.zeros(box, tensor.dtype)
    outer, inner = _spans(tensor.shape, corner, box)
    box_values[inner] = tensor[outer]
    return box_values


def window_of(tensor: Array, corner: Index, op: BulkLoad, offsets: Index) -> Array:
    """Pixels by channels of a convolution's window (im2col)."""
    pixels, channels = op.box[-2:]
    image, *position, channel = corner
    last = [extent - 1 + above for extent, above in zip(tensor.shape[1:-1], op.upper, strict=True)]
    if any(not low <= at <= high for low, at, high in zip(op.lower, position, last, strict=True)):
        raise wrong(op, f"a window that begins at {tuple(position)}, of corners {op.lower} to {tuple(last)}")
    window = np.zeros((pixels, channels), tensor.dtype)
    for pixel in range(pixels):
        at = (image, *(p + offset for p, offset in zip(position, offsets, strict=True)), channel)
        window[pixel] = box_of(tensor, at, (1,) * (tensor.ndim - 1) + (channels,)).reshape(channels)
        for dim in reversed(range(len(position))):
            position[dim] += 1
            if position[dim] <= last[dim]:
                break
            position[dim] = op.lower[dim]
        else:
            image += 1
    return window


def rounded_to_tf32(array: Array) -> Array:
    """f32 with the 13 bits gone that tf32 doesn't have, to nearest, halves to even; infinities and NaN stay."""
    bits = array.view(np.uint32)
    odd = bits >> np.uint32(13) & np.uint32(1)
    near = (bits + np.uint32(0xFFF) + odd) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(array), near.view(np.float32), array)


def shared_box(op: BulkLoad | BulkStore, shared: Array, index: Index) -> Array:
    """Where a box lies in shared memory: its elements one after the other, from that place on."""
    type_ = mem_of(op.shared)
    if type_.strides is not None:
        raise unsupported(f"`{op.name}` and shared memory with strides: boxes lie without gaps")
    start, size = 0, int(np.prod(op.box))
    for extent, at in zip(shared.shape, index, strict=True):
        start = start * extent + at
    if not 0 <= start <= start + size <= shared.size:
        raise wrong(op, f"a box of {size} elements at {index} leaves a memory of shape {shared.shape}")
    if start * bytes_of(type_.dtype) % _BOX_ALIGN:
        raise wrong(op, f"the box at {index} is not aligned to {_BOX_ALIGN} bytes")
    flat: Array = shared.reshape(-1)[start : start + size]
    return flat


# ---- one thread's part -------------------------------------------------------------------------------------------


def each_lane(lanes: Lanes, *values: Any) -> Iterable[tuple[Any, ...]]:
    """Number and values of each thread; tuples are indices."""

    def rows(value: Any) -> list[Any]:
        if isinstance(value, tuple):
            return list(zip(*map(rows, value), strict=True)) if value else [()] * len(lanes)
        return value.tolist() if isinstance(value, np.ndarray) and value.shape == (len(lanes),) else [value] * len(lanes)

    return zip(lanes.numbers.tolist(), *map(rows, values), strict=True)


def barrier_at(barriers: list[CountingBarrier], number: int, op: Instruction) -> CountingBarrier:
    if not 0 <= number < len(barriers):
        raise wrong(op, f"barrier {number} of {len(barriers)}")
    return barriers[number]


def arrive(
    op: BarrierArrive | BarrierExpect, lanes: Lanes, barriers: list[CountingBarrier], number: Any, rank: Any = None, expected: int = 0
) -> None:
    """At the thread's own barrier, or at that of another block of the cluster."""
    block = lanes.block
    targets = []
    for _, at, to in each_lane(lanes, number, rank):
        there = barriers if to is None else block.engines.of_twin(barriers, block.engines.peer(to, op).engines)
        targets.append(barrier_at(there, at, op))

    def tell(lane: int) -> None:
        clock = block.clocks[int(lanes.numbers[lane])]
        require_made(op, targets[lane], block, clock)
        targets[lane].arrive(op, clock, expected)

    block.later(lanes.numbers, tell)


def require_made(op: Instruction, barrier: CountingBarrier, block: ThreadBlock, clock: ThreadClock) -> None:
    """Tell of barriers that a thread uses before it knows that they have been initialised."""
    if barrier.made is not None and not barrier.made.before(clock):
        block.run.findings.add(early_barrier(op, barrier.made.op, clock))


def require_corner(op: BulkLoad | BulkStore, tensor: Array, corner: Index) -> None:
    """Devices fault on boxes that begin between two multiples of 16 bytes."""
    if corner[-1] * tensor.itemsize % 16:
        raise wrong(op, f"a box that begins {corner[-1] * tensor.itemsize} bytes into a row: a multiple of 16")


def bulk_load(
    op: BulkLoad,
    lanes: Lanes,
    shared: Array,
    shared_index: Index,
    tensor: Array,
    corner: Index,
    barriers: list[CountingBarrier],
    number: Any,
    offsets: Index,
) -> None:
    """Send each thread's box on its way, to this block or to all of its cluster that the mask names."""
    for thread, *ends in each_lane(lanes, shared_index, corner, number, offsets):
        _load(op, lanes, thread, shared, tensor, barriers, *ends)


def _load(
    op: BulkLoad,
    lanes: Lanes,
    thread: int,
    shared: Array,
    tensor: Array,
    barriers: list[CountingBarrier],
    shared_index: Index,
    corner: Index,
    number: int,
    offsets: Index,
) -> None:
    require_corner(op, tensor, corner)
    engines = lanes.block.engines
    ranks = [rank for rank in range(16) if op.multicast >> rank & 1] if op.multicast else [engines.rank]
    for block in (engines.peer(rank, op) for rank in ranks):
        memory = lanes.block.twin(shared, block)
        target = shared_box(op, memory, shared_index)
        barrier = barrier_at(engines.of_twin(barriers, block.engines), number, op)
        if not barrier.count:
            raise wrong(op, "the barrier is not initialised")
        under_way = _begin_copy(op, lanes.block, thread, memory, target, barrier)
        target[...] = arrays.new_memory(mem_of(op.shared).dtype, target.shape)

        def land(target: Array = target, under_way: list[TimedAccess] = under_way) -> Seen:
            box = window_of(tensor, corner, op, offsets) if op.offsets else box_of(tensor, corner, op.box, op.step)
            target[...] = rounded_to_tf32(box.reshape(-1)) if op.rounded else box.reshape(-1)
            for access in under_way:
                access.arrive()
            return joined(access.clock.snapshot() for access in under_way)

        barrier.copies.append((target.nbytes, land))


def _begin_copy(
    op: BulkLoad, block: ThreadBlock, thread: int, memory: Array, target: Array, barrier: CountingBarrier
) -> list[TimedAccess]:
    """A copy to shared memory begins; where that is watched, its access, when it has been told."""
    under_way: list[TimedAccess] = []
    watched = block.run.memories.get(id(memory))
    if not block.run.watching or not isinstance(watched, Watched):
        block.run.filled(memory)
        return under_way

    def tell(_: int) -> None:
        clock = block.clocks[thread]
        require_made(op, barrier, block, clock)
        under_way.append(watched.copy(indices_of(memory, target), op, block.engine([clock])))

    block.later(np.array([thread]), tell)
    return under_way


def indices_of(memory: Array, box: Array) -> Iterator[Index]:
    """Where the elements of a box lie, which follow each other in memory."""
    start = (box.__array_interface__["data"][0] - memory.__array_interface__["data"][0]) // box.itemsize
    places = np.unravel_index(np.arange(start, start + box.size), memory.shape)
    return zip(*(part.tolist() for part in places), strict=True)


def bulk_store(op: BulkStore, lanes: Lanes, shared: Array, shared_index: Index, tensor: Array, corner: Index) -> None:
    """Send each thread's box on its way back, clipped at the tensor's ends."""
    for thread, at, to in each_lane(lanes, shared_index, corner):
        _store(op, lanes, thread, shared, at, tensor, to)


def _store(op: BulkStore, lanes: Lanes, thread: int, shared: Array, shared_index: Index, tensor: Array, corner: Index) -> None:
    require_corner(op, tensor, corner)
    if min(corner) < 0:
        raise wrong(op, f"a box that begins before the tensor, at {corner}: devices write none")

    def write(held: Array) -> None:
        steps = op.step or (1,) * tensor.ndim
        ends = zip(corner, op.box, steps, tensor.shape, strict=True)
        places = [range(low, min(low + size * step, extent), step) for low, size, step, extent in ends]
        tensor[np.ix_(*places)] = held.reshape(op.box)[tuple(slice(len(along)) for along in places)]

    box = shared_box(op, shared, shared_index)
    start = (box.__array_interface__["data"][0] - shared.__array_interface__["data"][0]) // box.itemsize
    block, store = lanes.block, LateStore(box, write, op)
    elements, watched = slice(start, start + box.size), block.run.memories.get(id(shared))

    def tell(_: int) -> None:
        block.engines.require_fenced(op, shared, elements, block.run.findings)
        if block.run.watching and isinstance(watched, Watched):
            store.engine = block.engine([block.clocks[thread]])
            watched.read(indices_of(shared, box), op, store.engine)

    block.run.filled(tensor)
    block.later(np.array([thread]), tell)
    block.thread(thread).stores.open.append(store)


def bulk_commit(lanes: Lanes) -> None:
    for thread in lanes.numbers.tolist():
        lanes.block.thread(thread).stores.commit()


def bulk_wait(lanes: Lanes, count: int, read: bool) -> None:
    block = lanes.block
    waited = [block.thread(thread).stores.wait(count, read) for thread in lanes.numbers.tolist()]

    def tell(lane: int) -> None:
        seen = joined(store.engine.snapshot() for store in waited[lane] if store.engine is not None)
        block.clocks[int(lanes.numbers[lane])].learn(seen)

    block.later(lanes.numbers, tell)
