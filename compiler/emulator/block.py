"""A block of threads while it runs. Its threads stand together as `Lanes`: those that are at one instruction, their registers as arrays
with an element for each. Lanes part where they go different ways, and join where they come to the same instruction again."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import Factory

from compiler.emulator import arrays, findings
from compiler.emulator.clocks import Dims, Seen, ThreadClock, engine_clock, meet_block
from compiler.emulator.fault import fault
from compiler.emulator.findings import ThreadFindings
from compiler.emulator.hopper import BulkStores, Engines
from compiler.emulator.screen import Elements, Order, Screened, Unsure
from compiler.emulator.watch import Shadow, Watched
from compiler.hir.gpu import DynamicShared, SharedAlloc
from compiler.hir.instruction import Instruction
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.source import Span
from runtime.records import define

Array = np.ndarray[Any, Any]

END = -1
"""Where lanes stand that have ended."""

_LANDED = np.iinfo(np.int64).max
"""The group of a copy that has landed."""


@define(eq=False)
class SegmentedKernel:
    """A translated function: `segments` run lanes from one instruction to the next at which they may part or wait, and say where those
    go on. `waits`: by segment, the instruction at which it begins when that waits for others, and the registers that it waits with.
    `live`: by segment, the registers that it or a later one reads; `varying`: those that are arrays over lanes."""

    function: HirFunction
    segments: list[Callable[["Lanes"], Any]]
    waits: Mapping[int, tuple[Instruction, tuple[str, ...]]]
    live: list[frozenset[str]]
    varying: frozenset[str]


@define(eq=False)
class EmulatedLaunch:
    """One launch while it runs: `lanes` of a warp, what it is told to find, and who touched its global memory. `apart`: each warp runs for
    itself. `watching`: global memory, dynamic shared memory, tiles and accesses outside are watched too, and all that is found is collected
    (`--sanitize`). `order`: this is a first look, which is told everything at once; without it clocks say who has met whom."""

    findings: ThreadFindings
    lanes: int = 32
    apart: bool = False
    order: Order | None = None
    watching: bool = False
    memories: dict[int, Watched | Screened] = Factory(dict)
    """Watched memories by the identity of their arrays."""
    engines: int = 0
    """How many clocks of copies and products there are."""

    def watched(self, array: Array) -> Watched | Screened:
        """Who watches a memory that a function is given; memory of a thread alone is watched by nobody that tells."""
        watched = self.memories.get(id(array))
        return watched if watched is not None else Watched(Shadow("", False, ThreadFindings(collecting=True)), array.shape)

    def filled(self, array: Array) -> None:
        """Something writes to a memory whose elements are not followed."""
        if id(array) in self.memories:
            self.memories[id(array)].fill()


@define(eq=False)
class Lanes:
    """Threads of a block (their `numbers`, in order) that stand at one instruction: the segment `at`. `ready`: what they waited for has
    come. `resting`: they have gone round a loop that may wait for others, who run first."""

    block: "ThreadBlock"
    numbers: Array
    registers: dict[str, Any]
    at: int = 0
    ready: bool = False
    resting: bool = False

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def waiting(self) -> Instruction | None:
        """The instruction at which they wait."""
        wait = None if self.ready else self.block.kernel.waits.get(self.at)
        return wait[0] if wait is not None else None

    def asked(self) -> tuple[Any, ...]:
        """What they wait with: numbers, or arrays of them."""
        return tuple(self.registers[name] for name in self.block.kernel.waits[self.at][1])

    def part(self, taken: Array, at: int, ready: bool = False) -> "Lanes":
        """Some of the lanes, by themselves."""
        kernel = self.block.kernel
        live = kernel.live[at] if at != END else ()
        registers = {
            name: value[taken] if name in kernel.varying else value for name in live if (value := self.registers.get(name)) is not None
        }
        return Lanes(self.block, self.numbers[taken], registers, at, ready)

    def branch(self, condition: Array, then: int, otherwise: int) -> "int | list[Lanes]":
        """Where they go on: all at one place, or in two parts."""
        count = np.count_nonzero(condition)
        if count == len(condition):
            return then
        if not count:
            return otherwise
        return [self.part(condition, then), self.part(~condition, otherwise)]

    def again(self, at: int) -> int:
        """Round a loop that may wait for others."""
        self.resting = True
        return at

    def warp_starts(self) -> Array:
        """Where a warp's lanes begin among these."""
        warps = self.numbers // self.block.run.lanes
        return np.flatnonzero(np.concatenate(([True], warps[1:] != warps[:-1])))

    def by_warp(self) -> list[slice]:
        starts = self.warp_starts().tolist()
        return [slice(low, high) for low, high in zip(starts, [*starts[1:], len(self)], strict=True)]

    def clocks(self) -> list[ThreadClock]:
        return [self.block.clocks[number] for number in self.numbers.tolist()]


def join(groups: list[Lanes]) -> Lanes:
    """The first of these lanes, with all of them that go on as it does."""
    first, *others = groups
    alike = [lanes for lanes in others if may_join(first, lanes)]
    if not alike:
        return first
    block = first.block
    lanes = joined_lanes([first, *alike])
    block.groups = [group for group in block.groups if group is not first and group not in alike] + [lanes]
    return lanes


def joined_lanes(groups: Sequence[Lanes]) -> Lanes:
    """Lanes that stand at one instruction, as one."""
    first, at = groups[0], groups[0].at
    kernel = first.block.kernel
    numbers = np.concatenate([group.numbers for group in groups])
    order = np.argsort(numbers)
    registers: dict[str, Any] = {}
    for name in kernel.live[at]:
        values = [value for group in groups if (value := group.registers.get(name)) is not None]
        if name in kernel.varying and len(values) == len(groups):
            registers[name] = np.concatenate(arrays.alike(values))[order]
        elif values:
            registers[name] = values[0]
    return Lanes(first.block, numbers[order], registers, at, first.ready)


def may_join(first: Lanes, other: Lanes) -> bool:
    """Whether what doesn't vary between lanes is the same in both."""
    if first.ready != other.ready:
        return False
    kernel = first.block.kernel
    for name in kernel.live[first.at] - kernel.varying:
        a, b = first.registers.get(name), other.registers.get(name)
        if not (a is b or a is None or b is None or (type(a) in (int, bool, float) and a == b)):
            return False
    return True


@define(eq=False)
class ThreadState:
    """What one thread has under way."""

    stores: BulkStores = Factory(BulkStores)
    failed: set[Span | None] = Factory(set)
    """Where checks failed, when the thread goes on all the same."""


@define(eq=False)
class LateCopy:
    """Asynchronous copies of some threads: `group` is each one's number of the group that it was committed to, or is going to be."""

    numbers: Array
    group: Array
    land: Callable[[Array], None]


@define(eq=False)
class ThreadBlock:
    """A block: its place in the grid, the lanes that run, and the shared memory that they have asked for. `first` is the number of its
    first thread in the grid."""

    index: Dims
    dim: Dims
    grid: Dims
    shared_bytes: int
    run: EmulatedLaunch
    kernel: SegmentedKernel
    engines: Engines
    first: int
    groups: list[Lanes] = Factory(list)
    allocated: dict[int, tuple[SharedAlloc, Array]] = Factory(dict)
    views: dict[tuple[int, int], Array] = Factory(dict)
    dynamic: Array | None = None
    bytes_seen: Shadow | Elements | None = None
    log: list[tuple[Array, Callable[[int], None]]] = Factory(list)
    """What threads did since they were last told of: for each, what to tell of the n-th of some threads."""
    copies: list[LateCopy] = Factory(list)
    arrived: dict[int, list[Seen]] = Factory(dict)
    """By barrier, what those threads had done that were counted there and went on."""
    threads: dict[int, ThreadState] = Factory(dict)
    size: int = Factory(lambda self: self.dim[0] * self.dim[1] * self.dim[2], takes_self=True)
    committed: Array = Factory(lambda self: np.zeros(self.size, np.int64), takes_self=True)
    _clocks: list[ThreadClock] | None = None

    # ---- threads ----

    def position(self, name: str, dim: str, numbers: Array) -> Any:
        if name != "thread_idx":
            return {"block_idx": self.index, "block_dim": self.dim, "grid_dim": self.grid}[name]["xyz".index(dim)]
        x, y, _ = self.dim
        return {"x": numbers % x, "y": numbers // x % y, "z": numbers // (x * y)}[dim]

    @property
    def clocks(self) -> list[ThreadClock]:
        """Each thread's clock."""
        if self._clocks is None:
            x, y, z = self.dim
            places = [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]
            self._clocks = [
                ThreadClock(number, number // self.run.lanes, self.first, index, self.index)
                for number, index in enumerate(places, self.first)
            ]
        return self._clocks

    def engine(self, by: Iterable[ThreadClock]) -> ThreadClock:
        """The clock of something that threads have set going, with a number that no other of the launch has."""
        self.run.engines += 1
        return engine_clock(self.run.engines, by)

    def thread(self, number: int) -> ThreadState:
        return self.threads.setdefault(number, ThreadState())

    def alive(self) -> set[int]:
        """Numbers of the threads that have not ended."""
        return {number for group in self.groups for number in group.numbers.tolist()}

    # ---- what is told ----

    def later(self, numbers: Array, tell: Callable[[int], None]) -> None:
        """Something that is told when all that runs has come to where it waits: one thread after the other. A first look leaves it to those
        who have clocks."""
        if self.run.order is not None:
            raise Unsure
        self.log.append((numbers, tell))

    def tell(self) -> None:
        """Tell what threads did, the first thread's all first."""
        log, self.log = self.log, []
        by_thread: dict[int, list[tuple[Callable[[int], None], int]]] = {}
        for numbers, tell in log:
            for lane, number in enumerate(numbers.tolist()):
                by_thread.setdefault(number, []).append((tell, lane))
        for number in sorted(by_thread):
            for tell, lane in by_thread[number]:
                tell(lane)

    def meet(self) -> None:
        """A barrier of all threads."""
        if self.run.order is not None:
            self.run.order.meet()
        else:
            meet_block(self.clocks)

    # ---- shared memory ----

    def shared(self, op: SharedAlloc, dims: tuple[int, ...]) -> Array:
        """The memory of an allocation."""
        if id(op) not in self.allocated:
            array = arrays.new_memory(op.type.dtype, dims)
            self.allocated[id(op)] = op, array
            self.run.memories[id(array)] = self._watch(op.result.name, dims)
        return self.allocated[id(op)][1]

    def _watch(self, name: str, dims: tuple[int, ...]) -> Watched | Screened:
        """Who watches a memory that holds nothing yet."""
        blank = np.zeros(dims, np.bool_)
        if self.run.order is not None:
            return Screened(Elements(self.run.order, blank.size, blank.reshape(-1), True), dims)
        return Watched(Shadow(name, True, self.run.findings, blank), dims)

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

    def dynamic_shared(self, op: DynamicShared, offset: int, dims: tuple[int, ...]) -> Array:
        """The view, whose bytes are watched: several views may be of the same ones."""
        key = (id(op), offset)
        if key not in self.views:
            view, width = self.dynamic_view(op, offset, dims), bytes_of(op.type.dtype)
            if self.bytes_seen is None:
                blank = np.zeros(self.shared_bytes, np.bool_)
                if self.run.order is not None:
                    self.bytes_seen = Elements(self.run.order, self.shared_bytes, blank, True)
                else:
                    self.bytes_seen = Shadow(op.result.name, True, self.run.findings, blank, lambda byte: (byte,))

            def cells(index: tuple[int, ...]) -> tuple[int, ...]:
                start = offset + width * int(np.ravel_multi_index(index, dims))
                return tuple(range(start, start + width))

            seen = self.bytes_seen
            self.views[key] = view
            self.run.memories[id(view)] = Screened(seen, dims, offset, width) if isinstance(seen, Elements) else Watched(seen, dims, cells)
        return self.views[key]

    def twin(self, memory: Array, other: "ThreadBlock") -> Array:
        """The same shared memory of another block of the cluster."""
        if other is self:
            return memory
        for op, array in self.allocated.values():
            if array is memory:
                return other.shared(op, array.shape)
        assert self.dynamic is not None, "a memory in shared memory"
        start = memory.__array_interface__["data"][0] - self.dynamic.__array_interface__["data"][0]
        there = other.all_dynamic()[start : start + memory.nbytes]
        return there.view(memory.dtype).reshape(memory.shape)

    # ---- asynchronous copies ----

    def copy(self, numbers: Array, land: Callable[[Array], None]) -> None:
        """Copies that happen as late as the waits allow."""
        self.copies.append(LateCopy(numbers, self.committed[numbers], land))

    def commit(self, numbers: Array) -> None:
        self.committed[numbers] += 1

    def wait(self, numbers: Array, count: int) -> None:
        """All but the last `count` groups of these threads land."""
        waiting = np.zeros(self.size, np.bool_)
        waiting[numbers] = True
        rest = []
        for copy in self.copies:
            landing = waiting[copy.numbers] & (copy.group < self.committed[copy.numbers] - count)  # not those that have landed
            if landing.any():
                copy.land(landing)
                copy.group[landing] = _LANDED
            if (copy.group != _LANDED).any():
                rest.append(copy)
        self.copies = rest

    def close(self) -> None:
        """The end of its threads: what was never waited for lands, and its shared memory is gone."""
        everyone = np.arange(self.size)
        self.commit(everyone)
        self.wait(everyone, 0)
        for number, state in self.threads.items():
            if self.run.watching:
                for store in state.stores.unread():
                    self.run.findings.add(findings.unread_store(store.op, self.clocks[number]))
            state.stores.commit()
            state.stores.wait(0)
        self.tell()
        for array in (*(array for _, array in self.allocated.values()), *self.views.values()):
            self.run.memories.pop(id(array)).close()
