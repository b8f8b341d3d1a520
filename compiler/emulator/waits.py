"""How lanes wait for others and go on: in warps, at barriers of a block, at counting barriers, in warpgroups, clusters and the grid."""

from collections.abc import Iterator
from random import Random
from typing import TypeVar

import numpy as np

from compiler.emulator import findings
from compiler.emulator.block import Array, Lanes, ThreadBlock, join
from compiler.emulator.bulk import barrier_at, require_made
from compiler.emulator.clocks import joined, meet_some, meet_warp
from compiler.emulator.clusters import meet_cluster
from compiler.emulator.hopper import WARPGROUP
from compiler.emulator.segments import WARP_WAITS
from compiler.emulator.stuck import lost_barrier
from compiler.hir.gpu import ClusterSync, GridSync, SyncThreads, WarpSync
from compiler.hir.hopper import BarrierWait, SetMaxRegisters, WarpgroupCommit, WarpgroupMma
from compiler.hir.instruction import Instruction
from runtime.records import define

_OF_WARPGROUPS = (WarpgroupMma, WarpgroupCommit, SetMaxRegisters)

_T = TypeVar("_T")


@define(eq=False)
class Turns:
    """Who runs next: all in order, or, with a seed, some warps in a random order, so that others lag behind."""

    random: Random | None = None
    everyone: bool = True

    def of(self, warps: list[_T]) -> list[_T]:
        if self.random is None:
            return warps
        shuffled = self.random.sample(warps, len(warps))
        return shuffled if self.everyone else shuffled[: self.random.randint(1, len(warps))]


def at_once(lanes: Lanes) -> bool:
    """Whether lanes that have come to where they wait go on without having to look at any others."""
    op, block, order = lanes.waiting, lanes.block, lanes.block.run.order
    if block.log:
        return False
    if isinstance(op, SyncThreads):
        if order is None or op.id or op.count or len(lanes) < block.size:
            return False
        order.meet()
        return True
    if isinstance(op, WarpSync):
        if order is None or op.mask is not None or not _whole(lanes, block.run.lanes).all():
            return False
        order.meet_warps(lanes.numbers)
        return True
    if isinstance(op, WARP_WAITS):
        return len(lanes) == block.size or bool(_whole(lanes, block.run.lanes).all())
    return isinstance(op, WarpgroupMma | WarpgroupCommit) and bool(_whole(lanes, WARPGROUP).all())


def _whole(lanes: Lanes, width: int) -> Array:
    """Which lanes are here with all others of their group of so many threads."""
    groups = lanes.numbers // width
    there = np.bincount(groups, minlength=-(-lanes.block.size // width))
    wanted = np.minimum(width, lanes.block.size - width * np.arange(len(there)))
    return np.asarray((there == wanted)[groups])


def let_on(lanes: Lanes, taken: Array) -> bool:
    """Let some of the lanes go on; whether there are any."""
    if taken.all():
        lanes.ready = True
    elif taken.any():
        groups = lanes.block.groups
        groups[groups.index(lanes) : groups.index(lanes) + 1] = [lanes.part(taken, lanes.at, True), lanes.part(~taken, lanes.at)]
    return bool(taken.any())


def go_on(blocks: list[ThreadBlock]) -> bool:
    """Let those go on for whom what they wait for has come; whether there were any."""
    moved = False
    for block in blocks:
        _gather_warpgroups(block)
        for lanes in list(block.groups):
            match lanes.waiting:
                case WarpSync() as op:
                    moved |= let_on(lanes, _meet_in_warps(lanes, op))
                case BarrierWait() as op:
                    moved |= let_on(lanes, _passed(lanes, op))
                case SetMaxRegisters() as op:
                    moved |= let_on(lanes, _change_registers(lanes, op))
                case op if isinstance(op, _OF_WARPGROUPS):
                    moved |= let_on(lanes, _whole(lanes, WARPGROUP))
                case op if isinstance(op, WARP_WAITS):
                    moved |= let_on(lanes, _whole(lanes, block.run.lanes))
    clusters: dict[int, list[ThreadBlock]] = {}
    for block in blocks:
        clusters.setdefault(id(block.engines.cluster), []).append(block)
    for cluster in clusters.values():
        moved |= _meet_over(cluster, ClusterSync)
    moved |= _meet_over(blocks, GridSync)
    released = [moved or _release(block) for block in blocks]
    return any(released)


# ---- warps -------------------------------------------------------------------------------------------------------


def _meet_in_warps(lanes: Lanes, op: WarpSync) -> Array:
    """The lanes of warps, or of their masks, that have all come: they meet."""
    block, width = lanes.block, lanes.block.run.lanes
    met = np.zeros(len(lanes), np.bool_)
    masks = np.broadcast_to(np.asarray(lanes.asked()[0] if op.mask is not None else -1), (len(lanes),)).tolist()
    alive = block.alive()
    for warp in lanes.by_warp():
        numbers = lanes.numbers[warp].tolist()
        start = numbers[0] - numbers[0] % width
        living = {n for n in range(start, min(start + width, block.size)) if n in alive}
        for mask in dict.fromkeys(masks[warp]):
            group = [n for n, own in zip(numbers, masks[warp], strict=True) if own == mask]
            wanted = {n for n in living if mask >> n % width & 1}
            if not wanted <= {*group}:
                continue
            _tell_unfit(lanes, op, group, mask)
            if block.run.order is None:
                (meet_warp if len(group) == len(living) else meet_some)([block.clocks[n] for n in group])
            elif len(group) == len(living):
                block.run.order.meet_warps(np.array(group))
            met |= np.isin(lanes.numbers, group)
    return met


def _tell_unfit(lanes: Lanes, op: WarpSync, group: list[int], mask: int) -> None:
    """Lanes that their own mask leaves out."""
    for number in group:
        lane = number % lanes.block.run.lanes
        if not mask >> lane & 1:
            words = f"is lane {lane}, which its mask {mask & 0xFFFFFFFF:#x} leaves out"
            lanes.block.run.findings.add(findings.mask_unfit(op, lanes.block.clocks[number], words))


# ---- counting barriers and warpgroups ----------------------------------------------------------------------------


def _passed(lanes: Lanes, op: BarrierWait) -> Array:
    """The lanes whose phase has ended: they know what those have done who arrived."""
    barriers, number, parity = lanes.asked()
    numbers, parities = (np.broadcast_to(np.asarray(part), (len(lanes),)).tolist() for part in (number, parity))
    answers: dict[tuple[int, int], bool] = {}
    passed = np.zeros(len(lanes), np.bool_)
    clocks = lanes.clocks()
    for lane, asked in enumerate(zip(numbers, parities, strict=True)):
        barrier = barrier_at(barriers, asked[0], op)
        require_made(op, barrier, lanes.block, clocks[lane])
        if asked not in answers:
            answers[asked] = barrier.passed(asked[1])
        if answers[asked]:
            clocks[lane].learn(barrier.left)
            passed[lane] = True
    return passed


def _gather_warpgroups(block: ThreadBlock) -> None:
    """Join the lanes that wait at one instruction of warpgroups."""
    by_place: dict[int, list[Lanes]] = {}
    for lanes in block.groups:
        if isinstance(lanes.waiting, _OF_WARPGROUPS):
            by_place.setdefault(lanes.at, []).append(lanes)
    for groups in by_place.values():
        join(groups)


def _change_registers(lanes: Lanes, op: SetMaxRegisters) -> Array:
    whole = _whole(lanes, WARPGROUP)
    groups = lanes.numbers // WARPGROUP
    for group in np.unique(groups[whole]).tolist():
        if not lanes.block.engines.registers.change(op, group):
            whole &= groups != group
    return whole


# ---- blocks ------------------------------------------------------------------------------------------------------


def _meet_over(blocks: list[ThreadBlock], kind: type[Instruction]) -> bool:
    """Threads of several blocks, if all of them are there."""
    groups = [lanes for block in blocks for lanes in block.groups]
    whole = all(sum(map(len, block.groups)) == block.size for block in blocks)
    if not whole or not all(isinstance(lanes.waiting, kind) for lanes in groups):
        return False
    op = groups[0].waiting
    if isinstance(op, ClusterSync):
        meet_cluster(blocks, op)
    else:
        meet_some([clock for block in blocks for clock in block.clocks])
    for lanes in groups:
        lanes.ready = True
    return True


def _release(block: ThreadBlock) -> bool:
    """Let go every barrier of the block that is full; whether there was one."""
    released = False
    for number, groups in _at_barriers(block):
        op = groups[0][1]
        wanted = op.count or block.size
        arrived = block.arrived.get(number, [])
        if sum(len(lanes) for lanes, _ in groups) + len(arrived) != wanted:
            continue
        if wanted == block.size and not arrived:
            if len({id(op) for _, op in groups}) > 1:
                lost_barrier(block)
            block.meet()
        else:
            meet_some([clock for lanes, _ in groups for clock in lanes.clocks()], joined(arrived))
        block.arrived[number] = []
        for lanes, _ in groups:
            lanes.ready = True
        released = True
    return released


def _at_barriers(block: ThreadBlock) -> Iterator[tuple[int, list[tuple[Lanes, SyncThreads]]]]:
    """By barrier, the lanes that wait there."""
    waiting: dict[int, list[tuple[Lanes, SyncThreads]]] = {}
    for lanes in block.groups:
        if isinstance(op := lanes.waiting, SyncThreads):
            waiting.setdefault(op.id, []).append((lanes, op))
    yield from waiting.items()
