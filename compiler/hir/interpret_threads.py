"""Runs functions of form C: block after block, each thread a Python generator that gives way where threads meet. Threads of a block
run in order between meetings; a barrier or warp instruction that not all its threads reach is a fault (0411), and so are the accesses
to shared memory that `interpret_shared.py` watches for (0412). What only Hopper has is not interpreted."""

import itertools
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
from attrs import Factory, define

from compiler.hir import arrays
from compiler.hir.affine import Affine
from compiler.hir.async_copy import AsyncCommit, AsyncCopy, AsyncWait
from compiler.hir.execute import finish, prepare, sizes_of
from compiler.hir.expressions import binary, decoded, encoded
from compiler.hir.fault import KernelFault, fault
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
from compiler.hir.interpret_shared import WARP, Clock, SharedAccesses
from compiler.hir.interpret_warps import MEET
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction, HirModule
from compiler.hir.tensor_core import LoadMatrix, Mma, MmaLoad, MmaStore, StoreMatrix
from compiler.hir.translate import Translator
from compiler.hir.types import bytes_of

Array = np.ndarray[Any, Any]
Dims = tuple[int, int, int]


@define(eq=False)
class Block:
    """A block while it runs: its place, and the shared memory that its threads have asked for."""

    index: Dims
    dim: Dims
    grid: Dims
    shared_bytes: int
    allocated: dict[int, tuple[Array, SharedAccesses]] = Factory(dict)
    dynamic: Array | None = None
    racing: bool = True

    def shared(self, op: SharedAlloc, dims: tuple[int, ...]) -> tuple[Array, SharedAccesses]:
        """The memory of an allocation, and who touched it."""
        if id(op) not in self.allocated:
            self.allocated[id(op)] = (arrays.new_memory(op.type.dtype, dims), SharedAccesses(self.racing))
        return self.allocated[id(op)]

    def order_unknown(self) -> None:
        """A barrier of some threads only: from here on races are not looked for."""
        self.racing = False
        for _, accesses in self.allocated.values():
            accesses.racing = False

    def dynamic_view(self, op: DynamicShared, offset: int, dims: tuple[int, ...]) -> Array:
        if self.dynamic is None:
            self.dynamic = np.zeros(self.shared_bytes, np.uint8)
        size = int(np.prod(dims, dtype=np.int64)) * bytes_of(op.type.dtype)
        if offset < 0 or offset + size > self.shared_bytes:
            raise fault(f"dynamic shared memory of {self.shared_bytes} bytes has no {size} bytes at {offset}")
        view: Array = self.dynamic[offset : offset + size].view(arrays.STORED[op.type.dtype]).reshape(dims)
        return view


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

    def position(self, what: str, dim: str) -> int:
        place = {"thread_idx": self.index, "block_idx": self.block.index, "block_dim": self.block.dim, "grid_dim": self.block.grid}
        return place[what]["xyz".index(dim)]

    def copy(self, action: Callable[[], None]) -> None:
        """A copy that happens as late as the waits allow."""
        self.copies.append(action)

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
) -> None:
    """Run a kernel over `grid` blocks of `block` threads; what isn't given is the kernel info's, or 1."""
    info = function.kernel_info
    dims = _dims(block if block is not None else info.workgroup if info is not None and info.workgroup is not None else (1, 1, 1))
    if grid is None and info is not None and info.grid is not None:
        grid = [form.evaluate(sizes_of(function, arguments).__getitem__) for form in info.grid]
    blocks = _dims(grid if grid is not None else (1, 1, 1))
    run = finish(ThreadTranslator(function, module, generator=True), {}, ENVIRONMENT)
    prepared = prepare(function, arguments)
    with np.errstate(all="ignore"):
        for z, y, x in itertools.product(*(range(n) for n in reversed(blocks))):
            _run_block(run, prepared, Block((x, y, z), dims, blocks, shared_bytes or (info.shared_memory_bytes if info else 0)))


def _dims(sizes: Sequence[int]) -> Dims:
    x, y, z = (*sizes, 1, 1, 1)[:3]
    return int(x), int(y), int(z)


def _run_block(run: Callable[..., Any], arguments: list[Any], block: Block) -> None:
    threads = [
        Thread(block, (x, y, z), number, Clock(number))
        for number, (z, y, x) in enumerate(itertools.product(*(range(n) for n in reversed(block.dim))))
    ]
    for thread in threads:
        thread.run = run(*arguments, thread)
    barriers = _Barriers(block, threads)
    while True:
        for thread in threads:
            _advance(thread, barriers)
        if all(thread.done for thread in threads):
            break
        moved = [_meet_warp(threads[start : start + WARP]) for start in range(0, len(threads), WARP)]
        if not any(moved) and not barriers.release():
            _diverged(threads)
    for thread in threads:  # what was never waited for lands in the end
        thread.commit()
        thread.wait(0)


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
            barriers.arrive(meeting.op)
        else:
            thread.waiting = meeting


def _diverged(threads: list[Thread]) -> None:
    waiting = [thread for thread in threads if thread.waiting is not None]
    raise KernelFault("0411", -1, (len(waiting), len(threads), waiting[0].waiting.op.name if waiting and waiting[0].waiting else ""))


class _Barriers:
    """The block's barriers: who waits at which, and arrivals that don't wait."""

    def __init__(self, block: Block, threads: list[Thread]) -> None:
        self.block = block
        self.threads = threads
        self.arrived: dict[int, int] = {}

    def arrive(self, op: SyncThreads) -> None:
        self.block.order_unknown()
        self.arrived[op.id] = self.arrived.get(op.id, 0) + 1

    def release(self) -> bool:
        """Let go every barrier that is full; whether there was one."""
        released = False
        waiting: dict[int, list[Thread]] = {}
        for thread in self.threads:
            if thread.waiting is not None and isinstance(thread.waiting.op, SyncThreads | ClusterSync):
                waiting.setdefault(thread.waiting.op.id if isinstance(thread.waiting.op, SyncThreads) else -1, []).append(thread)
        for number, threads in waiting.items():
            ops = {id(thread.waiting.op) for thread in threads if thread.waiting is not None}
            first = threads[0].waiting
            assert first is not None
            wanted = first.op.count if isinstance(first.op, SyncThreads) and first.op.count else len(self.threads)
            if wanted == len(self.threads) and len(ops) > 1:
                _diverged(self.threads)
            if len(threads) + self.arrived.get(number, 0) == wanted:
                self.arrived[number] = 0
                for thread in threads:
                    thread.waiting = None
                    thread.clock.block += 1
                if wanted < len(self.threads):
                    self.block.order_unknown()
                released = True
        return released


# ---- warps -------------------------------------------------------------------------------------------------------


def _meet_warp(threads: list[Thread]) -> bool:
    """Carry out a warp's instruction when all its lanes are there; whether one was."""
    alive = [thread for thread in threads if not thread.done]
    if not alive or any(t.waiting is None or isinstance(t.waiting.op, SyncThreads | ClusterSync) for t in alive):
        return False
    meetings = [thread.waiting for thread in alive]
    ops = {id(m.op) for m in meetings if m is not None}
    if len(ops) > 1 or (len(alive) < len(threads) and not isinstance(meetings[0].op if meetings[0] else None, WarpSync)):
        _diverged(threads)
    first = meetings[0]
    assert first is not None
    lanes = [t.number % WARP for t in alive]
    answers = MEET[type(first.op)](first.op, lanes, [m.values for m in meetings if m is not None])
    for thread, answer in zip(alive, answers, strict=True):
        thread.answer, thread.waiting = answer, None
        thread.clock.warp += isinstance(first.op, WarpSync)
    return True


# ---- translation -------------------------------------------------------------------------------------------------


class ThreadTranslator(Translator):
    """Adds to the translation what only threads have. Accesses to a shared memory `name` are told to `name_a`."""

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
            case SyncThreads() | ClusterSync() | WarpSync():
                self.write(indent, self.meet(op))
            case Fence() | FenceAsync():
                self.write(indent, "pass")
            case SharedAlloc():
                name = self.bind(op.result)
                dims = "".join(f"{self.affine(d)}, " for d in op.type.dims)
                self.write(indent, f"{name}, {name}_a = thread.block.shared({self.constant(op)}, ({dims}))")
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
            self.tell("read", op.mem, op.index, "", indent)

    def store(self, op: Store, indent: int) -> None:
        tracked = op.mem.name in self.tracked
        tile = bool(self.varies(*op.index) or getattr(op.value.type, "axes", ()))
        if tracked and not tile:
            if op.where is not None:
                self.write(indent, f"if {self.of(op.where)}:")
            self.tell("write", op.mem, op.index, f", {self.of(op.value)}", indent + 1 if op.where is not None else indent)
        super().store(op, indent)
        if tracked and tile:
            self.write(indent, f"{self.of(op.mem)}_a.complete = True")

    def tell(self, what: str, mem: Value, index: tuple[Affine, ...], value: str, indent: int) -> None:
        """An access to a shared memory, told to who watches it."""
        place, _ = self.place(index, self.of(mem), indent)
        self.write(indent, f"{self.of(mem)}_a.{what}(({place}), thread.clock{value})")

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
            self.tell("atomic", op.mem, op.index, "", indent)
        self.write(indent, f"{memory}_m[{index}] = {encoded(changed, dtype)}")

    def copy(self, op: AsyncCopy, indent: int) -> None:
        count = op.bytes // bytes_of(mem_of(op.source).dtype)
        to = "".join(self.affine(form) + ", " for form in op.destination_index)
        source = "".join(self.affine(form) + ", " for form in op.source_index)
        where = "True" if op.where is None else self.of(op.where)
        target = self.of(op.destination)
        self.write(indent, f"thread.copy(late_copy({target}, ({to}), {self.of(op.source)}, ({source}), {count}, {where}))")
        if op.destination.name in self.tracked:
            self.write(indent, f"{target}_a.complete = True")


def _late_copy(
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


ENVIRONMENT: dict[str, Any] = {"Meeting": Meeting, "late_copy": _late_copy}
"""What the written source of threads may call besides."""
