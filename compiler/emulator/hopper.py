"""What the interpreter of threads knows of Hopper's barriers, bulk copies and registers.

All that goes on beside the threads takes effect as late as its waits allow: a bulk load lands when somebody waits for its barrier, and
until then the box holds what shows when it is read; a bulk store reads and writes when it is waited for. So a missing wait, or memory
given back too early, shows as a wrong result. Memory is held as indices see it; bytes seen through views of two swizzles
are not followed from one to the other."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from compiler.emulator.clocks import NOTHING, Known, Seen, ThreadClock, TimedAccess, access, joined
from compiler.emulator.fault import ThreadFinding, fault
from compiler.emulator.findings import ThreadFindings, thread_words
from compiler.hir.hopper import BarrierMake, SetMaxRegisters
from compiler.hir.instruction import Instruction
from compiler.hir.text import print_instruction
from runtime.records import Factory, define

Array = np.ndarray[Any, Any]
Index = tuple[int, ...]
REGISTERS = 65536
"""Of a multiprocessor."""
WARPGROUP = 128
"""Threads of a warpgroup."""


def wrong(op: Instruction, words: str) -> Exception:
    return fault(f"`{print_instruction(op)}`: {words}")


# ---- warpgroups --------------------------------------------------------------------------------------------------


@define(eq=False)
class WarpgroupProducts:
    """The products of a warpgroup that are under way: those not committed, and the groups, of which `finished` are done."""

    open: list[Callable[[], Seen]] = Factory(list)
    groups: list[list[Callable[[], Seen]]] = Factory(list)
    finished: int = 0
    fenced: bool = False
    """Whether what threads did to registers is known to the products that come."""
    left: Known = NOTHING
    """What those learn who wait for the products that are done."""
    pending: dict[int, Instruction] = Factory(dict)
    """By the identity of the memory of their sums, products that are not done."""

    def commit(self) -> None:
        self.groups.append(self.open)
        self.open = []

    def wait(self, count: int) -> None:
        while self.finished < len(self.groups) - count:
            self.left = joined([self.left, *(product() for product in self.groups[self.finished])])
            self.finished += 1


# ---- barriers ----------------------------------------------------------------------------------------------------


@define(eq=False)
class CountingBarrier:
    """An mbarrier: a phase ends when `count` arrivals and all expected bytes have come. `copies` are on their way to it."""

    count: int = 0
    pending: int = 0
    bytes: int = 0
    phase: int = 0
    copies: list[tuple[int, Callable[[], Seen]]] = Factory(list)
    made: TimedAccess | None = None
    """Its initialisation, while not all are known to have seen it."""
    arrived: list[Seen] = Factory(list)
    left: Known = NOTHING
    """What those learn who see that the phase has ended."""

    def begin(self, count: int) -> None:
        self.count = self.pending = count
        self.bytes = self.phase = 0

    def arrive(self, op: Instruction, clock: ThreadClock, expected: int = 0) -> None:
        if not self.count:
            raise wrong(op, "the barrier is not initialised")
        if not self.pending:
            self._land()
        if not self.pending:
            raise wrong(op, f"more than the {self.count} arrivals that the barrier counts")
        self.arrived.append(clock.snapshot())
        self.bytes += expected
        self.pending -= 1
        self._settle()

    def passed(self, parity: int) -> bool:
        """Whether the phase of that parity has ended. If only copies are missing, they land now."""
        if self.phase % 2 == parity % 2 and not self.pending:
            self._land()
        return self.phase % 2 != parity % 2

    def _land(self) -> None:
        while self.copies and not self.pending:
            size, copy = self.copies.pop(0)
            self.arrived.append(copy())
            self.bytes -= size
            self._settle()

    def _settle(self) -> None:
        if self.count and not self.pending and not self.bytes:
            self.phase += 1
            self.pending = self.count
            self.left, self.arrived = joined([self.left, *self.arrived]), []

    def __str__(self) -> str:
        if not self.count:
            return "not initialised"
        bytes_ = f", {self.bytes} bytes to come" if self.bytes else ""
        return f"phase {self.phase}, {self.count - self.pending} of {self.count} arrivals{bytes_}"


# ---- registers ---------------------------------------------------------------------------------------------------


@define(eq=False)
class RegisterPool:
    """The registers of a block: what each warpgroup's threads have, and what is free to be taken."""

    start: int
    held: dict[int, int] = Factory(dict)
    free: int = 0

    def change(self, op: SetMaxRegisters, group: int) -> bool:
        """Give back, or take; False when there are not enough yet."""
        have = self.held.get(group, self.start)
        if (op.direction == "inc") != (op.registers >= have) and op.registers != have:
            raise wrong(op, f"the threads have {have} registers")
        wanted = (op.registers - have) * WARPGROUP
        if wanted > self.free:
            return False
        self.free -= wanted
        self.held[group] = op.registers
        return True


def registers_at_start(threads: int, blocks: int, most: int | None) -> int:
    """Registers a thread when a kernel begins: by its limit, or by how many threads are to be on a multiprocessor at once."""
    fitting = REGISTERS // (max(1, threads) * max(1, blocks)) // 8 * 8
    return min(256, fitting, most if most is not None else 256)


@define(eq=False)
class Engines:
    """What a block has beside its threads: barriers, registers, the products of its warpgroups, and its place in a cluster."""

    registers: RegisterPool
    cluster: list[Any] = Factory(list)
    """The cluster's blocks, by rank."""
    rank: int = 0
    met: bool = False
    """Whether the cluster's blocks are known to have begun."""
    written: list[Instruction] = Factory(list)
    """What was written to other blocks' shared memory since they met."""
    made: dict[int, list[CountingBarrier]] = Factory(dict)
    warpgroups: dict[int, WarpgroupProducts] = Factory(lambda: defaultdict(WarpgroupProducts))
    marked: dict[int, Array] = Factory(dict)
    """By the identity of a shared memory: for each element the number, from 1, of the last store to it."""
    stores: list[TimedAccess] = Factory(list)
    numbers: dict[tuple[int, ...], int] = Factory(dict)
    open: set[int] = Factory(set)
    """Numbers of stores that no `fence_async` has followed."""

    def barriers(self, op: BarrierMake, count: int) -> list[CountingBarrier]:
        return self.made.setdefault(id(op), [CountingBarrier() for _ in range(count)])

    def marks(self, memory: Array) -> Array:
        return self.marked.setdefault(id(memory), np.zeros(memory.shape, np.int32))

    def mark(self, op: Instruction, clock: ThreadClock) -> int:
        """The number of a store that happens now; those of a thread between two barriers have the same."""
        key = (clock.thread, clock.time, clock.warp_time, clock.block_time)
        if key not in self.numbers:
            self.stores.append(access(op, clock, "write"))
            self.numbers[key] = len(self.stores)
            self.open.add(self.numbers[key])
        return self.numbers[key]

    def fence(self, clock: ThreadClock) -> None:
        """What came before, of this thread or of those that it has met, is seen from now on."""
        for number in [number for number in self.open if self.stores[number - 1].before(clock)]:
            store = self.stores[number - 1]
            del self.numbers[store.clock.thread, store.time, store.warp_time, store.block_time]  # later stores need a fence of their own
            self.open.discard(number)

    def require_fenced(self, op: Instruction, memory: Array, places: Any, findings: ThreadFindings) -> None:
        """Tell of elements (places in the flat memory) that a copy or product reads past what threads have stored."""
        marks = self.marked.get(id(memory)) if self.open else None
        writers = marks.reshape(-1)[places] if marks is not None else np.zeros(0, np.int32)
        late = writers[np.isin(writers, [*self.open])]
        if late.size:
            store = self.stores[int(late.reshape(-1)[0]) - 1]
            message = f"`{print_instruction(op)}` may not see what {thread_words(store.clock)} has stored"
            hint = "make `fence_async` after the stores, before the barrier"
            findings.add(ThreadFinding("0412", message, op, others=((store.op, "stored here"),), hint=hint))

    def of_twin(self, barriers: list[CountingBarrier], other: "Engines") -> list[CountingBarrier]:
        """The same barriers of another block."""
        key = next(key for key, mine in self.made.items() if mine is barriers)
        return other.made.setdefault(key, [CountingBarrier() for _ in barriers])

    def peer(self, rank: int, op: Instruction) -> Any:
        """The cluster's block of that rank."""
        if not 0 <= rank < len(self.cluster):
            raise wrong(op, f"block {rank} of a cluster of {len(self.cluster)}")
        return self.cluster[rank]


# ---- bulk stores -------------------------------------------------------------------------------------------------


@define(eq=False)
class LateStore:
    """A bulk store on its way: it reads its box, and later writes it."""

    source: Array
    write: Callable[[Array], None]
    op: Instruction
    held: Array | None = None
    engine: ThreadClock | None = None
    """The clock of its reading, where that is watched."""

    def read(self) -> None:
        if self.held is None:
            self.held = self.source.copy()

    def finish(self) -> None:
        self.read()
        assert self.held is not None
        self.write(self.held)


@define(eq=False)
class BulkStores:
    """A thread's bulk stores: those not committed, and the groups on their way."""

    open: list[LateStore] = Factory(list)
    groups: list[list[LateStore]] = Factory(list)

    def commit(self) -> None:
        self.groups.append(self.open)
        self.open = []

    def unread(self) -> Iterator[LateStore]:
        """Those that nobody has waited for."""
        return (store for store in itertools.chain(self.open, *self.groups) if store.held is None)

    def wait(self, count: int, read: bool = False) -> list[LateStore]:
        """All but the last `count` groups have read their boxes; and are done unless `read`. Gives those."""
        done = self.groups[: len(self.groups) - count] if count < len(self.groups) else []
        for store in itertools.chain.from_iterable(done):
            if read:
                store.read()
            else:
                store.finish()
        if not read:
            del self.groups[: len(done)]
        return list(itertools.chain.from_iterable(done))
