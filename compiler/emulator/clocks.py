"""Which of two accesses comes first: vector clocks of the threads of a launch (Mattern 1989), kept sparse.

Barriers are met by all of a block or a warp at a time, so a clock is written as few numbers: how many barriers the block has passed,
how many the warp, how far the thread itself has come. What a thread learns in other ways (a barrier of some threads only, an atomic
that another one released to) stands beside them, by thread, warp and block."""

from collections.abc import Iterable, Mapping
from typing import Any

from runtime.records import Factory, define

WARP = 32

Known = Mapping[tuple[str, int], int]
"""What a thread knows of others: all accesses before that time of a `("thread", n)`, a `("warp", n)`, a `("block", n)`."""

NOTHING: Known = {}

PAIRS_REMEMBERED = 1024


@define(eq=False)
class Snapshot:
    """What a thread had done and known at a time: its own steps, and what it knew, which many threads share."""

    own: Known
    known: Known


Seen = Known | Snapshot

Dims = tuple[int, int, int]


@define(eq=False)
class ThreadClock:
    """The clock of one thread; `thread`, `warp` and `block` are numbers in the grid, `lane` is the place in the warp."""

    thread: int
    warp: int
    block: int
    index: Dims = (0, 0, 0)
    """Where the thread stands in its block."""
    place: Dims = (0, 0, 0)
    """Where the block stands in the grid."""
    time: int = 0
    warp_time: int = 0
    block_time: int = 0
    known: Known = NOTHING
    fenced: dict[str, Seen] = Factory(dict)
    """By scope ("block", "device"): what everyone knows who sees an atomic that the thread makes from now on."""

    def snapshot(self) -> Snapshot:
        """All that the thread has done so far, and knows; what it does from now on is later."""
        self.time += 1
        own = {("thread", self.thread): self.time, ("warp", self.warp): self.warp_time, ("block", self.block): self.block_time}
        return Snapshot(own, self.known)

    def learn(self, known: Known) -> None:
        if known:
            self.known = _both(self.known, known)

    def fence(self, scope: str) -> None:
        """What came before is seen by those who see an atomic that comes after."""
        if scope == "thread":
            return
        seen = self.snapshot()
        self.fenced = {"block": seen, "device": self.fenced.get("device", NOTHING) if scope == "block" else seen}


def engine_clock(number: int, by: Iterable[ThreadClock]) -> ThreadClock:
    """The clock of something that threads have set going: it comes after what they have done, and others learn when it has ended."""
    starting = list(by)
    known = joined(clock.snapshot() for clock in starting)
    return ThreadClock(-number, -number, -number, starting[0].index, starting[0].place, known=known)


def joined(parts: Iterable[Seen]) -> Known:
    """What is known to one of them. The mappings given are shared and never changed."""
    different: dict[int, Known] = {}
    own: list[Known] = []
    for part in parts:
        if isinstance(part, Snapshot):
            own.append(part.own)
            part = part.known
        if part:
            different[id(part)] = part
    if len(different) + len(own) <= 1:
        return next(iter((*different.values(), *own)), NOTHING)
    out: dict[tuple[str, int], int] = {}
    for known in (*different.values(), *own):
        for key, time in known.items():
            if out.get(key, -1) < time:
                out[key] = time
    return out


_PAIRS: dict[tuple[int, int], tuple[Known, Known, Known]] = {}


def _both(first: Known, second: Known) -> Known:
    """The two joined: the same mapping for all threads that knew the same, and learn the same."""
    if first is second or not first:
        return second
    pair = _PAIRS.get((id(first), id(second)))
    if pair is None:
        if len(_PAIRS) >= PAIRS_REMEMBERED:
            _PAIRS.clear()
        # the two are kept beside, so that no others get their identities
        pair = _PAIRS[id(first), id(second)] = first, second, joined((first, second))
    return pair[2]


def _share(clocks: list[ThreadClock]) -> None:
    known = joined(clock.known for clock in clocks)
    fenced: dict[str, Seen] = {scope: joined(clock.fenced.get(scope, NOTHING) for clock in clocks) for scope in ("block", "device")}
    fences = any(clock.fenced for clock in clocks)
    for clock in clocks:
        clock.known = known
        if fences:
            clock.fenced = fenced


def meet_block(clocks: list[ThreadClock]) -> None:
    """A barrier of all threads of a block."""
    _share(clocks)
    for clock in clocks:
        clock.block_time += 1


def meet_warp(clocks: list[ThreadClock]) -> None:
    """A barrier of all threads of a warp."""
    _share(clocks)
    for clock in clocks:
        clock.warp_time += 1


def meet_blocks(blocks: list[list[ThreadClock]]) -> None:
    """A barrier of all threads of several blocks, a list each."""
    for clocks in blocks:
        meet_block(clocks)
    passed = {("block", clocks[0].block): clocks[0].block_time for clocks in blocks}
    known = joined([passed, *(clocks[0].known for clocks in blocks)])
    for clocks in blocks:
        for clock in clocks:
            clock.known = known


def meet_some(clocks: list[ThreadClock], others: Seen = NOTHING) -> None:
    """A barrier of some threads, who also learn what `others` have left behind."""
    known = joined([others, *(clock.snapshot() for clock in clocks)])
    for clock in clocks:
        clock.known = known


@define(eq=False)
class TimedAccess:
    """One access as it happened: the instruction, whose it was, and when. `kind`: "read", "write", "atomic", or "copy" while an
    asynchronous copy is on its way, which comes before nothing; `value` is what a write left, or the scope of an atomic."""

    op: Any
    clock: ThreadClock
    kind: str
    value: Any
    time: int
    warp_time: int
    block_time: int

    def before(self, clock: ThreadClock) -> bool:
        """Whether all that `clock`'s thread does now comes after it."""
        own = self.clock
        if self.kind == "copy":
            return False
        if own is clock:
            return True
        if own.block == clock.block and (
            self.block_time < clock.block_time or (own.warp == clock.warp and self.warp_time < clock.warp_time)
        ):
            return True
        known = clock.known
        return bool(known) and (
            known.get(("thread", own.thread), -1) > self.time
            or known.get(("warp", own.warp), -1) > self.warp_time
            or known.get(("block", own.block), -1) > self.block_time
        )

    def arrive(self) -> None:
        """The end of an asynchronous copy: from here on it is a write of the thread that waited for it."""
        clock = self.clock
        self.kind, self.time, self.warp_time, self.block_time = "write", clock.time, clock.warp_time, clock.block_time


def access(op: Any, clock: ThreadClock, kind: str, value: Any = None) -> TimedAccess:
    """An access that happens now."""
    return TimedAccess(op, clock, kind, value, clock.time, clock.warp_time, clock.block_time)
