"""Runs functions of form C: block after block, each thread a Python generator that gives way where threads meet. Threads of a block
run in order between meetings; a barrier or warp instruction that not all its threads reach is a fault (0411, 0415), and so are the
accesses to shared memory that `watch.py` tells (0412). What only Hopper has is not interpreted."""

import itertools
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import Factory, define

from compiler.hir import arrays
from compiler.hir.affine import Affine
from compiler.hir.async_copy import AsyncCommit, AsyncCopy, AsyncWait
from compiler.hir.clocks import WARP, Access, Clock, Known, joined, meet_block, meet_some, meet_warp
from compiler.hir.execute import finish, prepare, sizes_of
from compiler.hir.expressions import binary, decoded, encoded
from compiler.hir.fault import fault
from compiler.hir.findings import Findings
from compiler.hir.gpu import (
    Atomic,
    ClusterSync,
    DynamicShared,
    Elect,
    Fence,
    FenceAsync,
    GridIndex,
    Match,
    Redux,
    SharedAlloc,
    Shuffle,
    SyncThreads,
    Uniform,
    Vote,
    WarpIndex,
    WarpSync,
)
from compiler.hir.instruction import Instruction, Value
from compiler.hir.interpret_stuck import let_go, lost_barrier
from compiler.hir.interpret_warps import MEET, touched, watch_lanes
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction, HirModule
from compiler.hir.tensor_core import LoadMatrix, Mma, MmaLoad, MmaStore, StoreMatrix
from compiler.hir.translate import Translator
from compiler.hir.types import bytes_of
from compiler.hir.watch import Shadow, Watched
from compiler.source import Span

if TYPE_CHECKING:
    from compiler.hir.sanitize import Watch

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


@define(eq=False)
class Block:
    """A block while it runs: its place, and the shared memory that its threads have asked for."""

    index: Dims
    dim: Dims
    grid: Dims
    shared_bytes: int
    run: Run
    function: HirFunction
    allocated: dict[int, tuple[Array, Watched]] = Factory(dict)
    views: dict[tuple[int, int], tuple[Array, Watched]] = Factory(dict)
    dynamic: Array | None = None
    bytes_seen: Shadow | None = None

    def shared(self, op: SharedAlloc, dims: tuple[int, ...]) -> tuple[Array, Watched]:
        """The memory of an allocation, and who touched it."""
        if id(op) not in self.allocated:
            array = arrays.new_memory(op.type.dtype, dims)
            self.allocated[id(op)] = (array, Watched(Shadow(op.result.name, True, self.run.findings, set()), dims))
            self.run.memories[id(array)] = self.allocated[id(op)][1]
        return self.allocated[id(op)]

    def dynamic_view(self, op: DynamicShared, offset: int, dims: tuple[int, ...]) -> Array:
        if self.dynamic is None:
            self.dynamic = np.zeros(self.shared_bytes, np.uint8)
        size = int(np.prod(dims, dtype=np.int64)) * bytes_of(op.type.dtype)
        if offset < 0 or offset + size > self.shared_bytes:
            raise fault(f"dynamic shared memory of {self.shared_bytes} bytes has no {size} bytes at {offset}")
        view: Array = self.dynamic[offset : offset + size].view(arrays.STORED[op.type.dtype]).reshape(dims)
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

    def position(self, what: str, dim: str) -> int:
        place = {"thread_idx": self.index, "block_idx": self.block.index, "block_dim": self.block.dim, "grid_dim": self.block.grid}
        return place[what]["xyz".index(dim)]

    def watched(self, array: Array) -> Watched:
        """Who watches a memory that a function is given; memory of the thread alone is watched by nobody that tells."""
        found = self.block.run.memories.get(id(array))
        return found if found is not None else Watched(Shadow("", False, Findings(collecting=True)), array.shape)

    def copy(self, action: Callable[[], None], under_way: Access | None = None) -> None:
        """A copy that happens as late as the waits allow."""
        self.copies.append(action if under_way is None else lambda: (action(), under_way.arrive())[0])

    def commit(self) -> None:
        self.groups.append(self.copies)
        self.copies = []

    def wait(self, count: int) -> None:
        while len(self.groups) > count:
            for action in self.groups.pop(0):
                action()


@define(eq=False)
class Meeting:
    """What a thread yields: an instruction at which threads meet, and what it brings."""

    op: Instruction
    values: tuple[Any, ...] = ()


def interpret_threads(
    function: HirFunction,
    arguments: Sequence[Any],
    module: HirModule | None = None,
    grid: Sequence[int] | None = None,
    block: Sequence[int] | None = None,
    shared_bytes: int = 0,
    watch: "Watch | None" = None,
) -> None:
    """Run a kernel over `grid` blocks of `block` threads; what isn't given is the kernel info's, or 1. With `watch` everything is
    watched, and what is found is collected there."""
    info = function.kernel_info
    dims = _dims(block if block is not None else info.workgroup if info is not None and info.workgroup is not None else (1, 1, 1))
    if grid is None and info is not None and info.grid is not None:
        grid = [form.evaluate(sizes_of(function, arguments).__getitem__) for form in info.grid]
    blocks = _dims(grid if grid is not None else (1, 1, 1))
    prepared = prepare(function, arguments)
    launch = Run(Findings()) if watch is None else Run(watch.findings, True, watch.memories(function, prepared, arguments))
    run = finish((ThreadTranslator if watch is None else watch.translator)(function, module, generator=True), {}, ENVIRONMENT)
    first = 0
    with np.errstate(all="ignore"):
        for z, y, x in itertools.product(*(range(n) for n in reversed(blocks))):
            bytes_ = shared_bytes or (info.shared_memory_bytes if info else 0)
            first = _run_block(run, prepared, Block((x, y, z), dims, blocks, bytes_, launch, function), first)
    for watched in launch.memories.values():
        watched.shadow.close()


def _dims(sizes: Sequence[int]) -> Dims:
    x, y, z = (*sizes, 1, 1, 1)[:3]
    return int(x), int(y), int(z)


def _run_block(run: Callable[..., Any], arguments: list[Any], block: Block, first: int) -> int:
    """Runs a block whose first thread has this number in the grid; gives the number of the next block's."""
    places = itertools.product(*(range(n) for n in reversed(block.dim)))
    threads = []
    for number, (z, y, x) in enumerate(places):
        clock = Clock(first + number, (first + number) // WARP, first, (x, y, z), block.index)
        threads.append(Thread(block, (x, y, z), number, clock))
    for thread in threads:
        thread.run = run(*arguments, thread)
    barriers = _Barriers(threads)
    while True:
        for thread in threads:
            _advance(thread, barriers)
        if all(thread.done for thread in threads):
            break
        moved = [_meet_warp(threads[start : start + WARP]) for start in range(0, len(threads), WARP)]
        if not any(moved) and not barriers.release():
            let_go(block, threads, carry_out)
    for thread in threads:  # what was never waited for lands in the end
        thread.commit()
        thread.wait(0)
    block.close()
    return first + -(-len(threads) // WARP) * WARP  # no two blocks share a warp


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
        self.arrived: dict[int, list[Known]] = {}

    def arrive(self, op: SyncThreads, thread: Thread) -> None:
        self.arrived.setdefault(op.id, []).append(thread.clock.snapshot())

    def release(self) -> bool:
        """Let go every barrier that is full; whether there was one."""
        released = False
        waiting: dict[int, list[Thread]] = {}
        for thread in self.threads:
            if thread.waiting is not None and isinstance(thread.waiting.op, SyncThreads | ClusterSync):
                waiting.setdefault(thread.waiting.op.id if isinstance(thread.waiting.op, SyncThreads) else -1, []).append(thread)
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


# ---- translation -------------------------------------------------------------------------------------------------


class ThreadTranslator(Translator):
    """Adds to the translation what only threads have. Accesses to a shared memory `name` are told to `name_w`."""

    def __init__(self, function: HirFunction, module: HirModule | None = None, generator: bool = True) -> None:
        super().__init__(function, module, generator)
        self.tracked: set[str] = set()

    def meet(self, op: Instruction, *values: str) -> str:
        return f"(yield Meeting({self.constant(op)}, ({''.join(v + ', ' for v in values)})))"

    def other(self, op: Instruction, indent: int) -> None:
        match op:
            case GridIndex():
                self.result(op, f"thread.position({op.operator!r}, {op.dim!r})", indent)
            case WarpIndex():
                text = {"lane": f"thread.number % {WARP}", "warp": f"thread.number // {WARP}", "cluster_rank": "0"}[op.operator]
                self.result(op, text, indent)
            case Uniform():
                self.result(op, self.of(op.value), indent)
            case SyncThreads() | ClusterSync():
                self.write(indent, self.meet(op))
            case WarpSync():
                self.write(indent, self.meet(op, *([self.of(op.mask)] if op.mask is not None else [])))
            case Fence():
                self.write(indent, f"thread.clock.fence({op.scope!r})")
            case FenceAsync():
                self.write(indent, "pass")
            case SharedAlloc():
                name = self.bind(op.result)
                dims = "".join(f"{self.affine(d)}, " for d in op.type.dims)
                self.write(indent, f"{name}, {name}_w = thread.block.shared({self.constant(op)}, ({dims}))")
                self.memory(name, op.type, indent)
                self.tracked.add(op.result.name)
            case DynamicShared():
                name = self.bind(op.result)
                dims = "".join(f"{self.affine(d)}, " for d in op.type.dims)
                self.write(indent, f"{name} = thread.block.dynamic_view({self.constant(op)}, {self.affine(op.offset)}, ({dims}))")
                self.memory(name, op.type, indent)
            case Atomic():
                self.atomic(op, indent)
            case Shuffle():
                self.result(op, self.meet(op, self.of(op.value), self.of(op.lane)), indent)
            case Vote():
                self.result(op, self.meet(op, self.of(op.predicate)), indent)
            case Match() | Redux():
                self.result(op, self.meet(op, self.of(op.value)), indent)
            case Elect():
                self.result(op, self.meet(op), indent)
            case MmaLoad():
                self.result(op, self.meet(op, self.of(op.mem), self.place_of(op)), indent)
            case Mma():
                self.result(op, self.meet(op, *map(self.of, (op.a, op.b, op.c))), indent)
            case MmaStore():
                self.write(indent, self.meet(op, self.of(op.mem), self.place_of(op), self.of(op.fragment)))
            case LoadMatrix():
                names = "".join(self.bind(r) + ", " for r in op.results)
                self.write(indent, f"{names}= {self.meet(op, self.of(op.mem), self.place_of(op))}")
            case StoreMatrix():
                self.write(indent, self.meet(op, self.of(op.mem), self.place_of(op), *map(self.of, op.values)))
            case AsyncCopy():
                self.copy(op, indent)
            case AsyncCommit():
                self.write(indent, "thread.commit()")
            case AsyncWait():
                self.write(indent, f"thread.wait({op.count})")
            case _:
                super().other(op, indent)

    def result(self, op: Instruction, text: str, indent: int) -> None:
        self.write(indent, f"{self.bind(op.result)} = {text}")

    def place_of(self, op: MmaLoad | MmaStore | LoadMatrix | StoreMatrix) -> str:
        return f"({''.join(self.affine(form) + ', ' for form in op.index)})"

    # ---- shared memory ----

    def load(self, op: Load, indent: int) -> None:
        super().load(op, indent)
        if op.mem.name in self.tracked and not self.varies(*op.index) and op.where is None and op.pad is None:
            self.tell("read", op, op.mem, op.index, "", indent)

    def store(self, op: Store, indent: int) -> None:
        tracked = op.mem.name in self.tracked
        tile = bool(self.varies(*op.index) or getattr(op.value.type, "axes", ()))
        if tracked and not tile:
            if op.where is not None:
                self.write(indent, f"if {self.of(op.where)}:")
            self.tell("write", op, op.mem, op.index, f", {self.of(op.value)}", indent + 1 if op.where is not None else indent)
        super().store(op, indent)
        if tracked and tile:
            self.write(indent, f"{self.of(op.mem)}_w.shadow.filled = None")

    def tell(self, what: str, op: Instruction, mem: Value, index: tuple[Affine, ...], value: str, indent: int) -> None:
        """An access to a shared memory, told to who watches it."""
        place, _ = self.place(index, self.of(mem), indent)
        self.write(indent, f"{self.of(mem)}_w.{what}(({place}), {self.site(op)}, thread.clock{value})")

    def atomic(self, op: Atomic, indent: int) -> None:
        memory, dtype = self.of(op.mem), mem_of(op.mem).dtype
        index, inside = self.place(op.index, memory, indent)
        self.write(indent, f"if not ({inside}): outside({self.site(op)}, ({index}), {memory}.shape)")
        old, value = self.bind(op.result), self.of(op.value)
        self.write(indent, f"{old} = {decoded(f'{memory}_m[{index}]', dtype)}")
        match op.operation:
            case "exchange":
                new = value
            case "cas":
                assert op.compare is not None
                new = f"({value} if {old} == {self.of(op.compare)} else {old})"
            case "inc":
                new = f"(0 if {old} >= {value} else {old} + 1)"
            case "dec":
                new = f"({value} if {old} == 0 or {old} > {value} else {old} - 1)"
            case operator:
                new = binary(operator, dtype, old, value)
        changed = self.temporary()
        self.write(indent, f"{changed} = {new}")
        if op.mem.name in self.tracked:
            self.tell("atomic", op, op.mem, op.index, "", indent)
        self.write(indent, f"{memory}_m[{index}] = {encoded(changed, dtype)}")

    def copy(self, op: AsyncCopy, indent: int) -> None:
        count = op.bytes // bytes_of(mem_of(op.source).dtype)
        to = "".join(self.affine(form) + ", " for form in op.destination_index)
        source = "".join(self.affine(form) + ", " for form in op.source_index)
        where = "True" if op.where is None else self.of(op.where)
        target = self.of(op.destination)
        self.write(indent, f"thread.copy(late_copy({target}, ({to}), {self.of(op.source)}, ({source}), {count}, {where}))")
        if op.destination.name in self.tracked:
            self.write(indent, f"{target}_w.shadow.filled = None")


def late_copy(
    to: Array, to_index: tuple[int, ...], source: Array, source_index: tuple[int, ...], count: int, where: bool
) -> Callable[[], None]:
    """The copy as an action for later; both ends are contiguous in the last dim."""

    def copy() -> None:
        here = to[to_index[:-1]][to_index[-1] : to_index[-1] + count]
        there = source[source_index[:-1]][source_index[-1] : source_index[-1] + count]
        if here.shape != (count,) or (where and there.shape != (count,)):
            raise fault(f"a copy of {count} elements from {source_index} to {to_index} leaves its memory")
        here[:] = there if where else 0

    return copy


ENVIRONMENT: dict[str, Any] = {"Meeting": Meeting, "late_copy": late_copy}
"""What the written source of threads may call besides."""
