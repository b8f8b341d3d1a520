"""Runs functions of form C: block after block, or cluster after cluster, or the whole grid at once where its threads meet. The lanes of a
block that stand at one instruction run together, those that are furthest behind first; with a seed each warp runs for itself, in a random
order. A barrier or warp instruction that not all its threads reach is a fault (0411, 0415), and so are threads that wait for each other
(0416), and the accesses to shared memory that `watch.py` tells (0412). A launch has a first look where only barriers of blocks and warps
order its threads (`screen.py`); if that isn't sure that all is well, it runs again with clocks."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from math import prod
from random import Random
from typing import Any

import numpy as np

from compiler.diagnostics import ZyntaxError
from compiler.emulator.block import END, EmulatedLaunch, Lanes, ThreadBlock, join
from compiler.emulator.clocks import Dims
from compiler.emulator.clusters import tell_unmet
from compiler.emulator.execute import prepare, sizes_of
from compiler.emulator.fault import KernelFault, fault
from compiler.emulator.findings import ThreadFindings
from compiler.emulator.hopper import Engines, RegisterPool, registers_at_start
from compiler.emulator.sanitize import Watch
from compiler.emulator.screen import Order, Unsure
from compiler.emulator.segments import SegmentTranslator, kernel_of
from compiler.emulator.stuck import free
from compiler.emulator.waits import Turns, at_once, go_on
from compiler.hir.gpu import ClusterStore, ClusterSync, FenceAsync, GridSync, SyncThreads, WarpSync
from compiler.hir.instruction import Instruction, InstructionFamily
from compiler.hir.module import HirFunction, HirKernelInfo, HirModule

LANES = 32
"""Lanes of a warp, if the launch doesn't say."""

_BEYOND_BLOCKS = (ClusterSync, ClusterStore, GridSync, FenceAsync)


def interpret_threads(
    function: HirFunction,
    arguments: Sequence[Any],
    module: HirModule | None = None,
    grid: Sequence[int] | None = None,
    block: Sequence[int] | None = None,
    shared_bytes: int = 0,
    watch: Watch | None = None,
    seed: int | None = None,
    lanes: int = LANES,
) -> None:
    """Run a kernel over `grid` blocks of `block` threads in warps of so many `lanes`; what isn't given is the kernel info's, or 1. With
    `watch` everything is watched, and what is found is collected there. With `seed` warps run in a random order."""
    info = function.kernel_info if function.kernel_info is not None else HirKernelInfo()
    dims = _dims(block if block is not None else info.workgroup if info.workgroup is not None else (1, 1, 1))
    if grid is None and info.grid is not None:
        grid = [form.evaluate(sizes_of(function, arguments).__getitem__) for form in info.grid]
    blocks = _dims(grid if grid is not None else (1, 1, 1))
    prepared = prepare(function, arguments)
    ops = [op for top in function.body.body for op in top.walk()]
    least = info.launch_bounds.min_blocks_per_sm if info.launch_bounds is not None else None
    registers = registers_at_start(prod(dims), least or 1, info.max_registers)
    width = -(-prod(dims) // lanes) * lanes  # no two blocks share a warp

    def run(order: Order | None) -> None:
        if watch is None:
            launch = EmulatedLaunch(ThreadFindings(), lanes, seed is not None, order)
            kernel = kernel_of(SegmentTranslator(function, module), prepared, launch)
        else:
            found = watch.findings if order is None else ThreadFindings()
            launch = EmulatedLaunch(found, lanes, seed is not None, order, True, watch.memories(function, prepared, arguments, order))
            kernel = watch.kernel(function, module, prepared, launch)
        turns, numbers = Turns(None if seed is None else Random(seed)), itertools.count()

        def make(index: Dims) -> ThreadBlock:
            shared = shared_bytes or info.shared_memory_bytes
            return ThreadBlock(index, dims, blocks, shared, launch, kernel, Engines(RegisterPool(registers)), next(numbers) * width)

        with np.errstate(all="ignore"):
            for together in _together(blocks, info.cluster or (1, 1, 1), any(isinstance(op, GridSync) for op in ops), make):
                _run_blocks(together, turns)
        for watched in launch.memories.values():
            watched.close()

    if info.cluster is None and not any(map(_orders_beyond_blocks, ops)):
        held = [(array, array.copy()) for array in prepared if isinstance(array, np.ndarray) and array.flags.writeable]
        try:
            run(Order(lanes, width, prod(blocks), any(isinstance(op, WarpSync) for op in ops)))
            return
        except Unsure:
            pass
        except (KernelFault, ZyntaxError):
            if watch is None:
                raise
        for array, before in held:
            array[...] = before
    run(None)


def _orders_beyond_blocks(op: Instruction) -> bool:
    """Whether an instruction orders threads in another way than a barrier of their block or warp, or an atomic."""
    return (
        isinstance(op, _BEYOND_BLOCKS)
        or op.family is InstructionFamily.HOPPER
        or (isinstance(op, SyncThreads) and bool(op.id or op.count or op.arrive))
    )


def _dims(sizes: Sequence[int]) -> Dims:
    x, y, z = (*sizes, 1, 1, 1)[:3]
    return int(x), int(y), int(z)


def _places(dims: Dims) -> Iterator[Dims]:
    """All places within dims, x fastest."""
    return ((x, y, z) for z, y, x in itertools.product(*(range(extent) for extent in reversed(dims))))


def _together(grid: Dims, cluster: Dims, meets: bool, make: Callable[[Dims], ThreadBlock]) -> Iterator[list[ThreadBlock]]:
    """The grid's blocks, in lists of those that run at one time: each by itself, a cluster, or all where threads meet over the grid."""
    if any(extent % width for extent, width in zip(grid, cluster, strict=True)):
        raise fault(f"a grid of {grid} blocks is no multiple of its cluster {cluster}")
    clusters: list[list[ThreadBlock]] = []
    for outer in _places(_dims([extent // width for extent, width in zip(grid, cluster, strict=True)])):
        blocks = [make(_dims([o * c + i for o, c, i in zip(outer, cluster, inner, strict=True)])) for inner in _places(cluster)]
        for rank, block in enumerate(blocks):
            block.engines.cluster, block.engines.rank = blocks, rank
        if meets:
            clusters.append(blocks)
        else:
            yield blocks
    if clusters:
        yield [block for blocks in clusters for block in blocks]


# ---- blocks that run at one time ---------------------------------------------------------------------------------


def _run_blocks(blocks: list[ThreadBlock], turns: Turns) -> None:
    by_warp = blocks[0].run.apart
    for block in blocks:
        everyone = Lanes(block, np.arange(block.size), {})
        block.groups = [Lanes(block, everyone.numbers[warp], {}) for warp in everyone.by_warp()] if by_warp else [everyone]
    if (order := blocks[0].run.order) is not None:
        order.begin(blocks[0].first // order.threads)
    warps = [(block, warp) for block in blocks for warp in range(-(-block.size // block.run.lanes))]
    while True:
        turn = turns.of(warps)
        if by_warp:
            for block, warp in turn:
                _run(block, warp)
        else:
            for block in blocks:
                _run(block)
        for block in blocks:
            block.tell()
        if not any(block.groups for block in blocks):
            break
        moved = go_on(blocks)
        for lanes in (lanes for block in blocks for lanes in block.groups if lanes.resting):
            lanes.resting, moved = False, True
        # a warp that ran with others of its warpgroup may have parted from them when its own turn was over
        stuck = not moved and len(turn) == len(warps) and all(lanes.waiting is not None for block in blocks for lanes in block.groups)
        if stuck and not free(blocks):
            break
        turns.everyone = not moved
    for block in blocks:
        tell_unmet(block)
        block.close()


def _run(block: ThreadBlock, warp: int | None = None) -> None:
    """Run a block's lanes, or one warp's, up to where they have to wait: always those that are furthest behind."""
    try:
        while True:
            able = [lanes for lanes in block.groups if not lanes.resting and lanes.waiting is None and _is_of(lanes, warp)]
            if not able:
                return
            least = min(lanes.at for lanes in able)
            _step(join([lanes for lanes in able if lanes.at == least]))
    except (KernelFault, ZyntaxError):
        block.tell()
        raise


def _is_of(lanes: Lanes, warp: int | None) -> bool:
    return warp is None or int(lanes.numbers[0]) // lanes.block.run.lanes == warp


def _step(lanes: Lanes) -> None:
    """Run lanes, as long as there are no others that are behind, to where they part or wait."""
    block = lanes.block
    segments = block.kernel.segments
    alone = len(block.groups) == 1
    while True:
        target = segments[lanes.at](lanes)
        lanes.ready = False
        if target.__class__ is list:
            block.groups.remove(lanes)
            block.groups += [part for part in target if part.at != END]
            return
        lanes.at = target
        if target == END:
            block.groups.remove(lanes)
            return
        if target in block.kernel.waits:
            if not at_once(lanes):
                if block.run.apart:
                    block.groups.remove(lanes)
                    block.groups += [lanes.part(np.arange(warp.start, warp.stop), target) for warp in lanes.by_warp()]
                return
            lanes.ready = True
        if not alone or lanes.resting:
            return
