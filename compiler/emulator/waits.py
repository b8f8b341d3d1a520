"""How threads that run at one time wait for each other beyond warps and barriers of a block: for counting barriers, as warpgroups, as
clusters and grids; whose turn it is; and what is told when nobody can go on."""

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from compiler.emulator.clocks import WARP, meet_some
from compiler.emulator.clusters import meet_cluster
from compiler.emulator.findings import Finding
from compiler.emulator.hopper import WARPGROUP
from compiler.emulator.warpgroups import begin_product
from compiler.hir.gpu import ClusterSync, GridSync
from compiler.hir.hopper import BarrierWait, SetMaxRegisters, WarpgroupCommit, WarpgroupMma
from compiler.hir.instruction import Instruction
from compiler.hir.text import print_instruction
from runtime.records import define

if TYPE_CHECKING:
    from compiler.emulator.threads import Thread

WAITS = (BarrierWait, ClusterSync, GridSync, WarpgroupMma, WarpgroupCommit, SetMaxRegisters)
"""Instructions at which this file lets threads go on."""

_T = TypeVar("_T")


@define(eq=False)
class Turns:
    """Who runs next: all in order, or, with a seed, some in a random order, so that others lag behind."""

    random: Random | None = None
    everyone: bool = True

    def of(self, warps: list[_T]) -> list[_T]:
        if self.random is None:
            return warps
        shuffled = self.random.sample(warps, len(warps))
        return shuffled if self.everyone else shuffled[: self.random.randint(1, len(warps))]


def go_on(teams: "list[list[Thread]]") -> bool:
    """Let those threads of blocks (a list each) go on for whom what they wait for has come; whether there were any."""
    moved = False
    for threads in teams:
        for thread in threads:
            if thread.waiting is not None and isinstance(thread.waiting.op, BarrierWait):
                barrier, parity = thread.waiting.values
                if barrier.passed(parity):
                    thread.clock.learn(barrier.left)
                    thread.waiting = None
                    moved = True
        for start in range(0, len(threads), WARPGROUP):
            moved |= _meet_warpgroup(threads[start : start + WARPGROUP])
    clusters: dict[int, list[Thread]] = {}
    for threads in teams:
        clusters.setdefault(id(threads[0].block.engines.cluster), []).extend(threads)
    for kind, groups in ((ClusterSync, list(clusters.values())), (GridSync, [[t for threads in teams for t in threads]])):
        for group in groups:
            if all(thread.waiting is not None and isinstance(thread.waiting.op, kind) for thread in group):
                op = _op(group[0])
                if isinstance(op, ClusterSync):
                    meet_cluster(group, op)
                else:
                    meet_some([thread.clock for thread in group])
                    for thread in group:
                        thread.waiting = None
                moved = True
    return moved


def _meet_warpgroup(threads: "list[Thread]") -> bool:
    """Carry out an instruction of a warpgroup when all its threads are there."""
    first = threads[0].waiting
    if first is None or not isinstance(first.op, WarpgroupMma | WarpgroupCommit | SetMaxRegisters):
        return False
    op, values = first.op, [thread.waiting.values for thread in threads if thread.waiting is not None and thread.waiting.op is first.op]
    if len(values) < WARPGROUP:
        return False
    results: list[Any] = [None] * WARPGROUP
    match op:
        case WarpgroupMma():
            results = begin_product(op, threads[0].warpgroup, values, threads[0].block)
        case WarpgroupCommit():
            threads[0].warpgroup.commit()
        case SetMaxRegisters():
            if not threads[0].block.engines.registers.change(op, threads[0].number // WARPGROUP):
                return False
    for thread, result in zip(threads, results, strict=True):
        thread.answer, thread.waiting = result, None
    return True


# ---- nobody can go on --------------------------------------------------------------------------------------------


def deadlock(teams: "list[list[Thread]]") -> Finding | None:
    """What to tell when nobody can go on and some wait in one of these ways: where each warp is. None when nobody does."""
    waiting = [thread for threads in teams for thread in threads if thread.waiting is not None]
    ours = [thread for thread in waiting if isinstance(_op(thread), WAITS)]
    if not ours:
        return None
    places = [place for threads in teams for place in _places(threads)]
    labels = {_op(thread): f"{_name(thread)} waits here" for thread in reversed(waiting)}
    first = _op(ours[0])
    return Finding(
        "0416",
        f"no thread can go on: {'; '.join(places)}",
        first,
        labels.pop(first),
        tuple(labels.items()),
        "count who arrives at each barrier, and how often, against what it was initialised with",
        (len(waiting),),
    )


def _op(thread: "Thread") -> Instruction:
    assert thread.waiting is not None
    return thread.waiting.op


def _name(thread: "Thread") -> str:
    return f"warp {thread.number // WARP} of block {thread.block.index}"


def _places(threads: "list[Thread]") -> Iterator[str]:
    """Warps of a block that stand at the same place, in words."""
    found: dict[str, list[int]] = {}
    for start in range(0, len(threads), WARP):
        warp = threads[start : start + WARP]
        for state in dict.fromkeys(_state(thread) for thread in warp if thread.waiting is not None) or ["ended"]:
            found.setdefault(state, []).append(start // WARP)
    for state, warps in found.items():
        yield f"block {threads[0].block.index}, warp{'s' if len(warps) > 1 else ''} {', '.join(map(str, warps))}: {state}"


def _state(thread: "Thread") -> str:
    assert thread.waiting is not None
    op, values = thread.waiting.op, thread.waiting.values
    return f"`{print_instruction(op)}`{f' ({values[0]}, parity {values[1]})' if isinstance(op, BarrierWait) else ''}"

