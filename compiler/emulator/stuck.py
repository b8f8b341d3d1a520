"""Threads of a block that all wait, for others that don't come: what is told (0411, 0415), and how they go on when all is to be found."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from compiler.emulator import findings
from compiler.emulator.clocks import WARP, meet_block
from compiler.emulator.warps import MEET
from compiler.hir.control import Break, For, If, Return, While
from compiler.hir.instruction import Instruction, Region
from compiler.hir.module import HirFunction

if TYPE_CHECKING:
    from compiler.emulator.threads import Block, Thread

Places = tuple[tuple[Instruction, str], ...]


def let_go(block: "Block", threads: "list[Thread]", carry_out: "Callable[[list[Thread]], None]") -> None:
    """Nobody can go on: says why, and lets those who wait go on as if the others had come."""
    groups = list(_lanes_waiting(threads))
    for warp, group in groups:
        _lost_lanes(block, warp, group)
        carry_out(group)
    if groups:
        return
    lost_barrier(block, threads)
    meet_block([thread.clock for thread in threads])
    for thread in threads:
        thread.waiting = None


def _lanes_waiting(threads: "list[Thread]") -> "Iterator[tuple[list[Thread], list[Thread]]]":
    """Each warp with those of its lanes that wait at one instruction of a warp."""
    for start in range(0, len(threads), WARP):
        warp = threads[start : start + WARP]
        by_op: dict[Instruction, list[Thread]] = {}
        for thread in warp:
            if thread.waiting is not None and type(thread.waiting.op) in MEET:
                by_op.setdefault(thread.waiting.op, []).append(thread)
        for group in by_op.values():
            yield warp, group


def _lost_lanes(block: "Block", warp: "list[Thread]", group: "list[Thread]") -> None:
    op = _op(group[0])
    away = next((thread for thread in warp if thread not in group), None)
    if away is None:
        block.run.findings.add(findings.mask_unfit(op, group[0].clock, "waits with a mask that other lanes of it don't have"))
        return
    words, others = _whereabouts(block.function, op, away)
    lanes = [thread.number % WARP for thread in group]
    block.run.findings.add(findings.lanes_missing(op, lanes, group[0].clock, words, others))


def lost_barrier(block: "Block", threads: "list[Thread]") -> None:
    """Tells of the barrier at which the first thread waits that some others miss."""
    first = next(thread for thread in threads if thread.waiting is not None)
    op = _op(first)
    waiting = [thread for thread in threads if thread.waiting is not None]
    here = [thread for thread in waiting if thread.waiting is not None and thread.waiting.op is op]
    away = next((thread for thread in threads if thread not in here), first)
    words, others = _whereabouts(block.function, op, away)
    block.run.findings.add(findings.barrier_missed(op, len(here), (len(waiting), len(threads)), first.clock, words, others))


def _op(thread: "Thread") -> Instruction:
    assert thread.waiting is not None
    return thread.waiting.op


def _whereabouts(function: HirFunction, op: Instruction, away: "Thread") -> tuple[str, Places]:
    """Where a thread is that doesn't come to `op`, in words, and the places that say why."""
    name = findings.thread_words(away.clock)
    if away.waiting is not None and away.waiting.op is not op:
        return f"{name} is elsewhere", ((away.waiting.op, f"{name} waits here"),)
    around = next((one for one in reversed(_around(function.body, op) or []) if one.span is not None), None)
    if isinstance(around, If):
        return f"{name} has ended", ((around, "this condition differs between threads"),)
    if around is not None:
        return f"{name} has ended", ((around, "how often this loop runs differs between threads"),)
    leaving = next((one for top in function.body.body for one in top.walk() if isinstance(one, Return | Break) and one.span), None)
    return f"{name} has ended", ((leaving, "threads that leave here don't come"),) if leaving is not None else ()


def _around(region: Region, op: Instruction) -> list[Instruction] | None:
    """Branches and loops around an instruction, the outermost first; None when it isn't inside."""
    for one in region.body:
        if one is op:
            return []
        for inner in one.regions:
            found = _around(inner, op)
            if found is not None:
                return [one, *found] if isinstance(one, If | For | While) else found
    return None
