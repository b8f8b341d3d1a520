"""Runs functions of form C: block after block (or cluster after cluster, or the whole grid at once where its threads meet), each thread
a Python generator that gives way where threads meet. Between meetings warps run in order, or as a seed has it; a barrier or warp
instruction that not all its threads reach is a fault (0411, 0415), and so are threads that wait for each other (0416), and the
accesses to shared memory that `watch.py` tells (0412)."""

import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from math import prod
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import Factory

from compiler.emulator import arrays
from compiler.emulator.clocks import WARP, Access, Clock, Seen, joined, meet_block, meet_some, meet_warp
from compiler.emulator.clusters import tell_unmet
from compiler.emulator.execute import finish, prepare, sizes_of
from compiler.emulator.fault import fault
from compiler.emulator.findings import Findings
from compiler.emulator.hopper import WARPGROUP, BulkStores, Engines, RegisterPool, Warpgroup, registers_at_start
from compiler.emulator.stuck import let_go, lost_barrier
from compiler.emulator.threads_in_step import run_in_step
from compiler.emulator.translate_threads import ENVIRONMENT, Meeting, ThreadTranslator
from compiler.emulator.waits import WAITS, Turns, deadlock, go_on
from compiler.emulator.warps import MEET, touched, watch_lanes
from compiler.emulator.watch import Shadow, Watched
from compiler.hir.gpu import (
    DynamicShared,
    GridSync,
    SharedAlloc,
    SyncThreads,
    WarpSync,
)
from compiler.hir.module import HirFunction, HirKernelInfo, HirModule
from compiler.hir.types import bytes_of
from compiler.source import Span
from runtime.records import define

if TYPE_CHECKING:
    from compiler.emulator.sanitize import Watch

Array = np.ndarray[Any, Any]
Dims = tuple[int, int, int]


@define(eq=False)
class Run:
    """One launch while it runs: what it is told to find, and who touched its global memory. `watching`: global memory, dynamic
    shared memory, tiles and places outside are watched too, and all that is found is collected (`--sanitize`)."""

    findings: Findings
    watching: bool = False
    memories: dict[int, Watched] = Factory(dict)
    """Watched memories by the identity of their arrays."""
    allocations: dict[int, SharedAlloc] = Factory(dict)
    waits: bool = False
    """Whether threads wait in one of the ways of `waits.py`."""

    def filled(self, array: Array) -> None:
        """Copies write to a memory whose elements are not followed."""
        if id(array) in self.memories:
            self.memories[id(array)].shadow.filled = None


@define(eq=False)
class Block:
    """A block while it runs: its place, and the shared memory that its threads have asked for."""

    index: Dims
    dim: Dims
    grid: Dims
    shared_bytes: int
    run: Run
    function: HirFunction
    engines: Engines
    allocated: dict[int, tuple[Array, Watched]] = Factory(dict)
    views: dict[tuple[int, int], tuple[Array, Watched]] = Factory(dict)
    dynamic: Array | None = None
    bytes_seen: Shadow | None = None

    def shared(self, op: SharedAlloc, dims: tuple[int, ...]) -> tuple[Array, Watched]:
        """The memory of an allocation, and who touched it."""
        if id(op) not in self.allocated:
            array = arrays.new_memory(op.type.dtype, dims)
            self.run.allocations[id(op)] = op
            self.allocated[id(op)] = (array, Watched(Shadow(op.result.name, True, self.run.findings, set()), dims))
            self.run.memories[id(array)] = self.allocated[id(op)][1]
        return self.allocated[id(op)]

    def all_dynamic(self) -> Array:
        if self.dynamic is None:
            self.dynamic = np.zeros(self.shared_bytes, np.uint8)
        return self.dynamic

    def dynamic_view(self, op: DynamicShared, offset: int, dims: tuple[int, ...]) -> Array:
        size = int(np.prod(dims, dtype=np.int64)) * bytes_of(op.type.dtype)
        if offset < 0 or offset + size > self.shared_bytes:
            raise fault(f"dynamic shared memory of {self.shared_bytes} bytes has no {size} bytes at {offset}")
        view: Array = self.all_dynamic()[offset : offset + size].view(arrays.STORED[op.type.dtype]).reshape(dims)
        return view

    def dynamic_shared(self, op: DynamicShared, offset: int, dims: tuple[int, ...]) -> tuple[Array, Watched]:
        """The view, and who touched its bytes: several views may be of the same ones."""
        key = (id(op), offset)
        if key not in self.views:
            view, width = self.dynamic_view(op, offset, dims), bytes_of(op.type.dtype)
            if self.bytes_seen is None:
                self.bytes_seen = Shadow(op.result.name, True, self.run.findings, set(), lambda byte: (byte,))

            def cells(index: tuple[int, ...]) -> tuple[int, ...]:
                first = offset + width * int(np.ravel_multi_index(index, dims))
                return tuple(range(first, first + width))

            self.views[key] = (view, Watched(self.bytes_seen, dims, cells))
            self.run.memories[id(view)] = self.views[key][1]
        return self.views[key]

    def twin(self, memory: Array, other: "Block") -> Array:
        """The same shared memory of another block of the cluster."""
        if other is self:
            return memory
        for key, (array, _) in self.allocated.items():
            if array is memory:
                return other.shared(self.run.allocations[key], array.shape)[0]
        assert self.dynamic is not None, "a memory in shared memory"
        start = memory.__array_interface__["data"][0] - self.dynamic.__array_interface__["data"][0]
        there = other.all_dynamic()[start : start + memory.nbytes]
        return there.view(memory.dtype).reshape(memory.shape)

    def close(self) -> None:
        """The end of its threads: its shared memory is gone."""
        for array, watched in (*self.allocated.values(), *self.views.values()):
            watched.shadow.close()
            del self.run.memories[id(array)]


@define(eq=False)
class Thread:
    """A thread: its place, what it waits for, and its copies under way."""

    block: Block
    index: Dims
    number: int
    clock: Clock
    run: Generator[Any, Any, None] | None = None
    waiting: "Meeting | None" = None
    answer: Any = None
    done: bool = False
    copies: list[Callable[[], None]] = Factory(list)
    groups: list[list[Callable[[], None]]] = Factory(list)
    failed: set[Span | None] = Factory(set)
    """Places of checks that failed, when the thread goes on all the same."""
    stores: BulkStores = Factory(BulkStores)

    @property
    def warpgroup(self) -> Warpgroup:
        return self.block.engines.warpgroups[self.number // WARPGROUP]

    def position(self, what: str, dim: str) -> int:
        place = {"thread_idx": self.index, "block_idx": self.block.index, "block_dim": self.block.dim, "grid_dim": self.block.grid}
        return place[what]["xyz".index(dim)]

    def watched(self, array: Array) -> Watched:
        """Who watches a memory that a function is given; memory of the thread alone is watched by nobody that tells."""
        found = self.block.run.memories.get(id(array))
        return found if found is not None else Watched(Shadow("", False, Findings(collecting=True)), array.shape)

    def copy(self, action: Callable[[], None], under_way: Access | None = None) -> None:
        """A copy that happens as late as the waits allow."""
        def arrive() -> None:
            action()
            if under_way is not None:
                under_way.arrive()

        self.copies.append(arrive)

    def commit(self) -> None:
        self.groups.append(self.copies)
        self.copies = []

    def wait(self, count: int) -> None:
        while len(self.groups) > count:
            for action in self.groups.pop(0):
                action()


def interpret_threads(
    function: HirFunction,
    arguments: Sequence[Any],
    module: HirModule | None = None,
    grid: Sequence[int] | None = None,
    block: Sequence[int] | None = None,
    shared_bytes: int = 0,
    watch: "Watch | None" = None,
    seed: int | None = None,
) -> None:
    """Run a kernel over `grid` blocks of `block` threads; what isn't given is the kernel info's, or 1. With `watch` everything is
    watched, and what is found is collected there. With `seed` warps run in a random order, not one after the other."""
    info = function.kernel_info if function.kernel_info is not None else HirKernelInfo()
    dims = _dims(block if block is not None else info.workgroup if info.workgroup is not None else (1, 1, 1))
    if grid is None and info.grid is not None:
        grid = [form.evaluate(sizes_of(function, arguments).__getitem__) for form in info.grid]
    blocks = _dims(grid if grid is not None else (1, 1, 1))
    prepared = prepare(function, arguments)
    if watch is None and seed is None and info.cluster is None:
        shared = shared_bytes or info.shared_memory_bytes
        if run_in_step(function, prepared, module, list(_places(blocks)), dims, blocks, shared):
            return
    launch = Run(Findings()) if watch is None else Run(watch.findings, True, watch.memories(function, prepared, arguments))
    run = finish((ThreadTranslator if watch is None else watch.translator)(function, module, generator=True), {}, ENVIRONMENT)
    kinds = {type(op) for each in _functions(function, module) for top in each.body.body for op in top.walk()}
    launch.waits = not kinds.isdisjoint(WAITS)
    order = Turns(None if seed is None else Random(seed))
    least = info.launch_bounds.min_blocks_per_sm if info.launch_bounds is not None else None
    registers = registers_at_start(prod(dims), least or 1, info.max_registers)

    def made(index: Dims) -> Block:
        engines = Engines(RegisterPool(registers))
        return Block(index, dims, blocks, shared_bytes or info.shared_memory_bytes, launch, function, engines)

    first = 0
    with np.errstate(all="ignore"):
        for together in _together(blocks, info.cluster or (1, 1, 1), GridSync in kinds, made):
            first = _run_blocks(run, prepared, together, first, order)
    for watched in launch.memories.values():
        watched.shadow.close()


def _dims(sizes: Sequence[int]) -> Dims:
    x, y, z = (*sizes, 1, 1, 1)[:3]
    return int(x), int(y), int(z)


def _places(dims: Dims) -> Iterator[Dims]:
    """All places within dims, x fastest."""
    return ((x, y, z) for z, y, x in itertools.product(*(range(extent) for extent in reversed(dims))))


def _together(grid: Dims, cluster: Dims, meets: bool, made: Callable[[Dims], Block]) -> Iterator[list[Block]]:
    """The grid's blocks, in lists of those that run at one time: each by itself, a cluster, or all where threads meet over the grid."""
    if any(extent % width for extent, width in zip(grid, cluster, strict=True)):
        raise fault(f"a grid of {grid} blocks is no multiple of its cluster {cluster}")
    clusters: list[list[Block]] = []
    for outer in _places(_dims([extent // width for extent, width in zip(grid, cluster, strict=True)])):
        blocks = [made(_dims([o * c + i for o, c, i in zip(outer, cluster, inner, strict=True)])) for inner in _places(cluster)]
        for rank, block in enumerate(blocks):
            block.engines.cluster, block.engines.rank = blocks, rank
        if meets:
            clusters.append(blocks)
        else:
            yield blocks
    if clusters:
        yield [block for blocks in clusters for block in blocks]


def _functions(function: HirFunction, module: HirModule | None) -> list[HirFunction]:
    return [function, *(module.functions.values() if module is not None else ())]


def _run_blocks(run: Callable[..., Any], arguments: list[Any], blocks: list[Block], first: int, order: Turns) -> int:
    """Runs blocks that are there at one time, the first thread of the first with this number in the grid; gives the next block's."""
    teams: list[list[Thread]] = []
    warps: list[tuple[list[Thread], _Barriers]] = []
    for block in blocks:
        threads = []
        for number, index in enumerate(_places(block.dim)):
            clock = Clock(first + number, (first + number) // WARP, first, index, block.index)
            threads.append(Thread(block, index, number, clock))
        for thread in threads:
            thread.run = run(*arguments, thread)
        barriers = _Barriers(threads)
        warps += [(threads[start : start + WARP], barriers) for start in range(0, len(threads), WARP)]
        teams.append(threads)
        first += -(-len(threads) // WARP) * WARP  # no two blocks share a warp
    while True:
        turn = order.of(warps)
        for warp, barriers in turn:
            for thread in warp:
                _advance(thread, barriers)
        if all(thread.done for threads in teams for thread in threads):
            break
        moved = sum(_meet_warp(warp) for warp, _ in turn) + (blocks[0].run.waits and go_on(teams)) > 0
        moved = moved or sum(barriers.release() for barriers in dict.fromkeys(barriers for _, barriers in warps)) > 0
        if not moved and len(turn) == len(warps) and not _free(blocks, teams):
            break
        order.everyone = not moved
    for threads in teams:
        for thread in threads:  # what was never waited for lands in the end
            thread.commit()
            thread.wait(0)
            thread.stores.commit()
            thread.stores.wait(0)
        tell_unmet(threads[0].block)
        threads[0].block.close()
    return first


def _free(blocks: list[Block], teams: list[list[Thread]]) -> bool:
    """Nobody can go on: tells why, and lets those go on who wait as if the others had come; False when there is no going on."""
    found = deadlock(teams)
    if found is not None:
        blocks[0].run.findings.add(found)
        return False
    for block, threads in zip(blocks, teams, strict=True):
        if any(thread.waiting is not None for thread in threads):
            let_go(block, threads, carry_out)
    return True


def _advance(thread: Thread, barriers: "_Barriers") -> None:
    """Run a thread up to where it has to wait."""
    while not thread.done and thread.waiting is None:
        assert thread.run is not None
        try:
            meeting = thread.run.send(thread.answer)
        except StopIteration:
            thread.done = True
            return
        thread.answer = None
        if isinstance(meeting.op, SyncThreads) and meeting.op.arrive:
            barriers.arrive(meeting.op, thread)
        else:
            thread.waiting = meeting


class _Barriers:
    """The block's barriers: who waits at which, and arrivals that don't wait."""

    def __init__(self, threads: list[Thread]) -> None:
        self.threads = threads
        self.arrived: dict[int, list[Seen]] = {}

    def arrive(self, op: SyncThreads, thread: Thread) -> None:
        self.arrived.setdefault(op.id, []).append(thread.clock.snapshot())

    def release(self) -> bool:
        """Let go every barrier that is full; whether there was one."""
        released = False
        waiting: dict[int, list[Thread]] = {}
        for thread in self.threads:
            if thread.waiting is not None and isinstance(thread.waiting.op, SyncThreads):
                waiting.setdefault(thread.waiting.op.id, []).append(thread)
        for number, threads in waiting.items():
            assert threads[0].waiting is not None
            op = threads[0].waiting.op
            wanted = op.count if isinstance(op, SyncThreads) and op.count else len(self.threads)
            arrived = self.arrived.get(number, [])
            if len(threads) + len(arrived) != wanted:
                continue
            if wanted == len(self.threads) and not arrived:
                if len({id(thread.waiting.op) for thread in threads if thread.waiting is not None}) > 1:
                    lost_barrier(threads[0].block, self.threads)
                meet_block([thread.clock for thread in threads])
            else:
                meet_some([thread.clock for thread in threads], joined(arrived))
            self.arrived[number] = []
            for thread in threads:
                thread.waiting = None
            released = True
        return released


# ---- warps -------------------------------------------------------------------------------------------------------


def _meet_warp(threads: list[Thread]) -> bool:
    """Carry out a warp's instruction when all its lanes are there, or those of its mask; whether one was."""
    waiting = [thread for thread in threads if thread.waiting is not None and type(thread.waiting.op) in MEET]
    if not waiting:
        return False
    moved = False
    for op in dict.fromkeys(thread.waiting.op for thread in waiting if thread.waiting is not None):
        here = [thread for thread in waiting if thread.waiting is not None and thread.waiting.op is op]
        for mask in {_mask_of(thread) for thread in here}:
            group = [thread for thread in here if _mask_of(thread) == mask]
            wanted = [t for t in threads if mask is None or mask >> t.number % WARP & 1]
            if isinstance(op, WarpSync):
                wanted = [thread for thread in wanted if not thread.done]
            if {*wanted} <= {*group}:
                carry_out(group, whole=len(group) == len([t for t in threads if not t.done]))
                moved = True
    return moved


def _mask_of(thread: Thread) -> int | None:
    """The lanes that the thread waits for; None: all."""
    assert thread.waiting is not None
    op, values = thread.waiting.op, thread.waiting.values
    return values[0] & 0xFFFFFFFF if isinstance(op, WarpSync) and values else None


def carry_out(group: list[Thread], whole: bool = False) -> None:
    """The instruction at which these lanes of a warp wait, done by them. `whole`: they are all that the warp has."""
    meetings = [thread.waiting for thread in group if thread.waiting is not None]
    op, clocks, lanes = meetings[0].op, [thread.clock for thread in group], [thread.number % WARP for thread in group]
    values = [meeting.values for meeting in meetings]
    watch_lanes(op, lanes, values, clocks, group[0].block.run.findings)
    answers = MEET[type(op)](op, lanes, values)
    touched(op, lanes, values, clocks, group[0].block.run)
    for thread, answer in zip(group, answers, strict=True):
        thread.answer, thread.waiting = answer, None
    if isinstance(op, WarpSync):
        (meet_warp if whole else meet_some)(clocks)
