"""Lanes that all wait, for others that don't come: what is told (0411, 0415, 0416), and how they go on when all is to be found."""

from collections.abc import Iterator

import numpy as np

from compiler.emulator import findings
from compiler.emulator.block import Lanes, ThreadBlock
from compiler.emulator.bulk import barrier_at
from compiler.emulator.clocks import meet_some, meet_warp
from compiler.emulator.fault import ThreadFinding
from compiler.emulator.segments import WARP_WAITS
from compiler.hir.control import Break, For, If, Return, While
from compiler.hir.gpu import ClusterSync, GridSync, WarpSync
from compiler.hir.hopper import BarrierWait, SetMaxRegisters, WarpgroupCommit, WarpgroupMma
from compiler.hir.instruction import Instruction, Region
from compiler.hir.module import HirFunction
from compiler.hir.text import print_instruction

Places = tuple[tuple[Instruction, str], ...]

_FOR_OTHERS = (BarrierWait, ClusterSync, GridSync, WarpgroupMma, WarpgroupCommit, SetMaxRegisters)
"""Where nobody goes on when others don't come."""


def free(blocks: list[ThreadBlock]) -> bool:
    """Nobody can go on: tells why, and lets those go on who wait as if the others had come; False when there is no going on."""
    stuck = _deadlock(blocks)
    if stuck is not None:
        blocks[0].run.findings.add(stuck)
        return False
    for block in blocks:
        if block.groups:
            _let_go(block)
    return True


def _standing(block: ThreadBlock) -> list[Lanes | None]:
    """The lanes in which each thread is; None: it has ended."""
    standing: list[Lanes | None] = [None] * block.size
    for lanes in block.groups:
        for number in lanes.numbers.tolist():
            standing[number] = lanes
    return standing


# ---- nobody can go on --------------------------------------------------------------------------------------------


def _deadlock(blocks: list[ThreadBlock]) -> ThreadFinding | None:
    """What to tell when nobody can go on and some wait for others than a warp's lanes or a block's barrier: where each warp is."""
    waiting = [(block, number, lanes.waiting) for block in blocks for number, lanes in enumerate(_standing(block)) if lanes is not None]
    first = next((op for _, _, op in waiting if isinstance(op, _FOR_OTHERS)), None)
    if first is None:
        return None
    labels = {op: f"warp {n // block.run.lanes} of block {block.index} waits here" for block, n, op in reversed(waiting) if op is not None}
    places = [position for block in blocks for position in _places(block)]
    return ThreadFinding(
        "0416",
        f"no thread can go on: {'; '.join(places)}",
        first,
        labels.pop(first),
        tuple(labels.items()),
        "count who arrives at each barrier, and how often, against what it was initialised with",
        (len(waiting),),
    )


def _places(block: ThreadBlock) -> Iterator[str]:
    """Warps of a block that stand at the same place, in words."""
    standing, width = _standing(block), block.run.lanes
    by_state: dict[str, list[int]] = {}
    for start in range(0, block.size, width):
        states = [_state(lanes, number) for number, lanes in enumerate(standing[start : start + width], start) if lanes is not None]
        for state in dict.fromkeys(states) or ["ended"]:
            by_state.setdefault(state, []).append(start // width)
    for state, warps in by_state.items():
        yield f"block {block.index}, warp{'s' if len(warps) > 1 else ''} {', '.join(map(str, warps))}: {state}"


def _state(lanes: Lanes, number: int) -> str:
    op = lanes.waiting
    assert op is not None
    words = f"`{print_instruction(op)}`"
    if isinstance(op, BarrierWait):
        position = int(np.searchsorted(lanes.numbers, number))
        barriers, at, parity = lanes.asked()
        at, parity = (int(np.broadcast_to(np.asarray(part), (len(lanes),))[position]) for part in (at, parity))
        words += f" ({barrier_at(barriers, at, op)}, parity {parity})"
    return words


# ---- some don't come ---------------------------------------------------------------------------------------------


def _let_go(block: ThreadBlock) -> None:
    """Says who misses, and lets those who wait go on as if the others had come."""
    waiting = [lanes for lanes in block.groups if isinstance(lanes.waiting, WARP_WAITS)]
    for lanes in waiting:
        for warp in lanes.by_warp():
            _lost_lanes(block, lanes, lanes.numbers[warp].tolist())
    for lanes in waiting:
        lanes.ready = True
    if not waiting:
        lost_barrier(block)
        block.meet()
        for lanes in block.groups:
            lanes.ready = True


def _lost_lanes(block: ThreadBlock, lanes: Lanes, numbers: list[int]) -> None:
    op, width, standing = lanes.waiting, block.run.lanes, _standing(block)
    assert op is not None
    start, clock = numbers[0] - numbers[0] % width, block.clocks[numbers[0]]
    warp = range(start, min(start + width, block.size))
    away = next((n for n in warp if standing[n] is not lanes), None)
    if away is None:
        block.run.findings.add(findings.mask_unfit(op, clock, "waits with a mask that other lanes of it don't have"))
    else:
        words, others = _whereabouts(block.kernel.function, op, block, away, standing[away])
        block.run.findings.add(findings.lanes_missing(op, [n % width for n in numbers], clock, words, others))
    if isinstance(op, WarpSync):
        (meet_warp if len(numbers) == sum(standing[n] is not None for n in warp) else meet_some)([block.clocks[n] for n in numbers])


def lost_barrier(block: ThreadBlock) -> None:
    """Tells of the barrier at which the first thread waits that some others miss."""
    standing = _standing(block)
    number, first = next((number, lanes) for number, lanes in enumerate(standing) if lanes is not None)
    op = first.waiting
    assert op is not None
    ops = [lanes.waiting if lanes is not None else None for lanes in standing]
    away = next((number for number, there in enumerate(ops) if there is not op), number)
    words, others = _whereabouts(block.kernel.function, op, block, away, standing[away])
    counts = (sum(there is not None for there in ops), block.size)
    block.run.findings.add(findings.barrier_missed(op, ops.count(op), counts, block.clocks[number], words, others))


def _whereabouts(function: HirFunction, op: Instruction, block: ThreadBlock, away: int, lanes: Lanes | None) -> tuple[str, Places]:
    """Where a thread is that doesn't come to `op`, in words, and the places that say why."""
    name = findings.thread_words(block.clocks[away])
    if lanes is not None and lanes.waiting is not None and lanes.waiting is not op:
        return f"{name} is elsewhere", ((lanes.waiting, f"{name} waits here"),)
    around = next((outer for outer in reversed(_around(function.body, op) or []) if outer.span is not None), None)
    if isinstance(around, If):
        return f"{name} has ended", ((around, "this condition differs between threads"),)
    if around is not None:
        return f"{name} has ended", ((around, "how often this loop runs differs between threads"),)
    leaving = next((left for top in function.body.body for left in top.walk() if isinstance(left, Return | Break) and left.span), None)
    return f"{name} has ended", ((leaving, "threads that leave here don't come"),) if leaving is not None else ()


def _around(region: Region, op: Instruction) -> list[Instruction] | None:
    """Branches and loops around an instruction, the outermost first; None when it isn't inside."""
    for outer in region.body:
        if outer is op:
            return []
        for inside in outer.regions:
            around = _around(inside, op)
            if around is not None:
                return [outer, *around] if isinstance(outer, If | For | While) else around
    return None
