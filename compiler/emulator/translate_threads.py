"""Translates instructions that only threads have, for all lanes `g` at once: what differs from lane to lane is an array with the lanes'
axis first, and what lanes do together is a call."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from compiler.emulator import arrays
from compiler.emulator.block import Lanes, ThreadBlock
from compiler.emulator.bulk import arrive, barrier_at, bulk_commit, bulk_load, bulk_store, bulk_wait, each_lane
from compiler.emulator.clocks import access
from compiler.emulator.clusters import cluster_store
from compiler.emulator.expressions import binary
from compiler.emulator.hopper import CountingBarrier
from compiler.emulator.lane_memory import async_copy, change, each, load_words, store_words
from compiler.emulator.translate import Translator
from compiler.emulator.varying import Varying
from compiler.emulator.warpgroups import begin_products, commit_products, fence_registers, finish_products
from compiler.emulator.warps import CALLS
from compiler.hir.affine import Affine
from compiler.hir.async_copy import AsyncCommit, AsyncCopy, AsyncWait
from compiler.hir.control import Call
from compiler.hir.core import dtype_of
from compiler.hir.gpu import (
    Atomic,
    ClusterStore,
    ClusterSync,
    DynamicShared,
    Fence,
    FenceAsync,
    GridIndex,
    GridSync,
    SharedAlloc,
    SyncThreads,
    Uniform,
    WarpIndex,
    WarpSync,
)
from compiler.hir.hopper import (
    BarrierArrive,
    BarrierExpect,
    BarrierInit,
    BarrierMake,
    BarrierWait,
    BulkCommit,
    BulkLoad,
    BulkStore,
    BulkWait,
    SetMaxRegisters,
    WarpgroupCommit,
    WarpgroupFence,
    WarpgroupMma,
    WarpgroupWait,
)
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Alloc, Load, Store, mem_of
from compiler.hir.module import HirFunction, HirModule
from compiler.hir.tensor_core import LoadMatrix, MmaLoad, MmaStore, StoreMatrix
from compiler.hir.types import Barrier, Fragment, HirType, Mem, Slot, Tile, bytes_of
from compiler.hir.words import LoadWords, StoreWords

Array = np.ndarray[Any, Any]

LANES = "!lanes"
"""The axis of what differs from lane to lane: the first of a tile's, which are in order of their names."""

_COUNT = Affine.of("!count")


class ThreadTranslator(Translator):
    """Adds to the translation what only threads have. Accesses to a watched memory `name` are told to `name_w`."""

    own_loads = False
    """Whether each load counts as the thread's own."""

    dynamic = "dynamic_view"
    """What gives a view of dynamic shared memory."""

    def __init__(self, function: HirFunction, module: HirModule | None = None) -> None:
        super().__init__(function, module)
        self.varying = Varying.of(function, self.own_loads)
        self.private: set[str] = set()
        """Names of memories that each thread has for itself."""
        self.watched: set[str] = set()
        """Names of memories of which accesses are told."""
        self.names["!count"] = "n"
        self.types["!count"] = Tile("index")
        every = (op for top in function.body.body for op in top.walk())
        self.past_stores = any(isinstance(op, BulkStore | WarpgroupMma) for op in every)
        """Whether something reads shared memory by a way that doesn't see ordinary stores before `fence_async`."""

    # ---- values ----

    def type_of(self, value: Value) -> HirType:
        if value not in self.varying:
            return value.type
        match value.type:
            case Tile(dtype, axes):
                return Tile(dtype, ((LANES, _COUNT), *axes))
            case Slot(dtype):
                return Tile(dtype, ((LANES, _COUNT),))
            case _:
                return value.type

    def of(self, value: Value) -> str:
        """A value as an operand: of sums that may still be on their way, what shows."""
        return f"settled({self.name(value)})" if value.name in self.varying.late else self.name(value)

    def given(self, target: Value, value: Value) -> str:
        return self.own(value) if target in self.varying else self.name(value)

    def own(self, value: Value) -> str:
        """A value as one for each lane."""
        if value in self.varying:
            return self.name(value)
        if isinstance(value.type, Fragment):
            return f"objects([{self.name(value)}] * n)"
        assert isinstance(value.type, Tile | Slot)
        axes = value.type.axes if isinstance(value.type, Tile) else ()
        extents = "".join(f"{self.affine(extent)}, " for _, extent in axes)
        return f"spread({self.name(value)}, (n, {extents}), {value.type.dtype!r})"

    def each(self, form: Affine) -> str:
        """A form as a number, or one for each lane."""
        return self.affine(form, (LANES,) if self.varies(form) else ())

    def indices(self, forms: tuple[Affine, ...], mem: Value | None = None) -> str:
        own = "lane_numbers(n), " if mem is not None and mem.name in self.private else ""
        return f"({own}{''.join(self.each(form) + ', ' for form in forms)})"

    def result(self, op: Instruction, text: str, indent: int) -> None:
        self.write(indent, f"{', '.join(map(self.bind, op.results))}{',' if len(op.results) > 1 else ''} = {text}")

    # ---- instructions ----

    def other(self, op: Instruction, indent: int) -> None:
        match op:
            case GridIndex():
                self.result(op, f"g.block.position({op.operator!r}, {op.dim!r}, g.numbers)", indent)
            case WarpIndex():
                numbers = {"lane": "g.numbers % g.block.run.lanes", "warp": "g.numbers // g.block.run.lanes"}
                self.result(op, numbers.get(op.operator, "g.block.engines.rank"), indent)
            case Uniform():
                self.result(op, self.of(op.value), indent)
            case WarpgroupFence():
                self.write(indent, "fence_registers(g)")
            case ClusterSync() | GridSync() | WarpSync() | SetMaxRegisters() | BarrierWait():
                self.write(indent, "pass")
            case SyncThreads():
                self.write(indent, f"barrier_arrive({self.site(op)}, g)" if op.arrive else "pass")
            case ClusterStore():
                given = f"{self.of(op.mem)}, {self.indices(op.index)}, stored_bits({self.of(op.value)}, {mem_of(op.mem).dtype!r})"
                where = "True" if op.where is None else self.of(op.where)
                self.write(indent, f"cluster_store({self.site(op)}, g, {given}, {self.of(op.rank)}, {where})")
            case Fence():
                self.write(indent, f"fence(g, {op.scope!r})")
            case FenceAsync():
                self.write(indent, "fence_async(g)")
            case SharedAlloc() | DynamicShared():
                self.shared(op, indent)
            case Atomic():
                self.atomic(op, indent)
            case MmaLoad() | LoadMatrix():
                self.result(op, f"{type(op).__name__}(g, {self.site(op)}, {self.of(op.mem)}, {self.indices(op.index)})", indent)
            case MmaStore() | StoreMatrix():
                values = ", ".join(self.of(value) for value in op.operand_values if value is not op.mem)
                self.write(indent, f"{type(op).__name__}(g, {self.site(op)}, {self.of(op.mem)}, {self.indices(op.index)}, {values})")
                if self.past_stores and isinstance(op, StoreMatrix) and isinstance(op.mem.source, SharedAlloc):
                    self.write(indent, f"mark_rows({self.site(op)}, g, {self.of(op.mem)}, {self.indices(op.index)})")
            case _ if type(op) in CALLS:
                values = "".join(f", {self.own(value)}" for value in op.operand_values)
                self.result(op, f"{type(op).__name__}(g, {self.site(op)}{values})", indent)
            case LoadWords():
                self.load_words(op, "None" if op.valid is None else self.of(op.valid), indent)
            case StoreWords():
                self.store_words(op, indent)
            case AsyncCopy():
                self.copy(op, indent)
            case AsyncCommit():
                self.write(indent, "g.block.commit(g.numbers)")
            case AsyncWait():
                self.write(indent, f"g.block.wait(g.numbers, {op.count})")
            case _:
                self.hopper(op, indent)

    def hopper(self, op: Instruction, indent: int) -> None:
        match op:
            case BarrierMake():
                assert isinstance(op.type, Barrier)
                self.result(op, f"g.block.engines.barriers({self.constant(op)}, {op.type.count})", indent)
            case BarrierInit():
                self.write(indent, f"barrier_begin({self.site(op)}, g, {self.barrier(op)})")
            case BarrierArrive():
                rank = "None" if op.rank is None else self.of(op.rank)
                self.write(indent, f"arrive({self.site(op)}, g, {self.barrier(op)}, {rank})")
            case BarrierExpect():
                self.write(indent, f"arrive({self.site(op)}, g, {self.barrier(op)}, None, {op.bytes})")
            case BulkLoad():
                ends = f"{self.of(op.shared)}, {self.indices(op.shared_index)}, {self.of(op.tensor)}, {self.indices(op.tensor_index)}"
                self.write(indent, f"bulk_load({self.site(op)}, g, {ends}, {self.barrier(op)}, {self.indices(op.offsets)})")
            case BulkStore():
                ends = f"{self.of(op.shared)}, {self.indices(op.shared_index)}, {self.of(op.tensor)}, {self.indices(op.tensor_index)}"
                self.write(indent, f"bulk_store({self.site(op)}, g, {ends})")
            case BulkCommit():
                self.write(indent, "bulk_commit(g)")
            case BulkWait():
                self.write(indent, f"bulk_wait(g, {op.count}, {op.read})")
            case WarpgroupMma():
                a = self.of(op.a) if isinstance(op.a.type, Mem) else self.own(op.a)
                ends = f"{a}, {self.indices(op.a_index)}, {self.of(op.b)}, {self.indices(op.b_index)}"
                self.result(op, f"begin_products({self.site(op)}, g, {self.own(op.accumulator)}, {ends}, {self.of(op.keep)})", indent)
            case WarpgroupCommit():
                self.write(indent, "commit_products(g)")
            case WarpgroupWait():
                self.write(indent, f"finish_products({self.site(op)}, g)")
                for value, result in zip(op.values, op.results, strict=True):
                    held = self.own(value) if result.name in self.varying.late or value not in self.varying else self.of(value)
                    self.write(indent, f"{self.bind(result)} = {held}")
            case _:
                super().other(op, indent)

    def barrier(self, op: BarrierInit | BarrierArrive | BarrierExpect | BarrierWait | BulkLoad) -> str:
        return f"{self.of(op.barrier)}, {self.each(op.barrier_index[0])}"

    def call(self, op: Call, indent: int) -> None:
        """A function that is not of threads, for each lane."""
        if not any(value in self.varying for value in (*op.arguments, *op.results)):
            super().call(op, indent)
            return
        target = self.callee(op)
        dtypes = tuple(dtype_of(result) for result in op.results)
        arguments = "".join(f"{self.own(value)}, " for value in op.arguments)
        self.result(op, f"call_each(functions[{target.name!r}], ({arguments}), {dtypes})", indent)

    # ---- memory ----

    def statement(self, op: Instruction, indent: int) -> None:
        if isinstance(op, Alloc):
            dims = "".join(f"{self.affine(d)}, " for d in op.type.dims)
            memory = f"new_memory({op.type.dtype!r}, (n, {dims}))"
            self.private.add(op.result.name)
            self.result(op, memory, indent)
        else:
            super().statement(op, indent)

    def shared(self, op: SharedAlloc | DynamicShared, indent: int) -> None:
        dims = "".join(f"{self.affine(d)}, " for d in op.type.dims)
        if isinstance(op, SharedAlloc):
            self.result(op, f"g.block.shared({self.constant(op)}, ({dims}))", indent)
            self.watched.add(op.result.name)
        else:
            self.result(op, f"g.block.{self.dynamic}({self.constant(op)}, {self.affine(op.offset)}, ({dims}))", indent)
        self.memory(self.name(op.result), op.type, indent)

    def index(self, op: Load | Store, axes: tuple[str, ...]) -> str:
        own = f"lane_numbers(n).reshape({tuple(-1 if axis == LANES else 1 for axis in axes)}), " if op.mem.name in self.private else ""
        return own + super().index(op, axes)

    def store_axes(self, op: Store) -> tuple[str, ...]:
        axes = super().store_axes(op)
        return (LANES, *(axis for axis in axes if axis != LANES)) if LANES in axes or op.mem.name in self.private else axes

    def load(self, op: Load, indent: int) -> None:
        if op.mem.name in self.watched:
            axes = (*self.varies(*op.index), *(self.axes(op.where) if op.where is not None else ()))
            self.tell("read", op, op.where, tuple(dict.fromkeys(axes)), indent, padded=op.pad is not None)
        super().load(op, indent)

    def store(self, op: Store, indent: int) -> None:
        if op.mem.name in self.watched:
            self.tell("write", op, op.where, self.store_axes(op), indent)
        super().store(op, indent)
        if self.past_stores and isinstance(op.mem.source, SharedAlloc):
            axes = (LANES, *(axis for axis in self.store_axes(op) if axis != LANES))
            where = "None" if op.where is None else self.see(op.where, axes)
            self.write(indent, f"mark_stores({self.site(op)}, g, {self.of(op.mem)}, ({self.index(op, axes)}), {where})")

    def tell(
        self, kind: str, op: Load | Store | Atomic, where: Value | None, axes: tuple[str, ...], indent: int, padded: bool = False
    ) -> None:
        """Accesses to a watched memory, told to who watches it."""
        axes = (LANES, *(axis for axis in axes if axis != LANES))
        index = "".join(self.affine(form, axes) + ", " for form in op.index)
        taken = "None" if where is None else self.see(where, axes)
        if padded:
            taken = f"inside_of(({index}), {self.of(op.mem)}.shape, {taken})"
        value = f", {self.see(op.value, axes)}" if isinstance(op, Store) else ""
        self.write(indent, f"{self.of(op.mem)}_w.tell({kind!r}, {self.site(op)}, g, ({index}), {taken}{value})")

    def atomic(self, op: Atomic, indent: int, where: str = "True") -> None:
        dtype = mem_of(op.mem).dtype
        match op.operation:
            case "exchange":
                new = "value"
            case "cas":
                new = "(value if old == compare else old)"
            case "inc":
                new = "(0 if old >= value else old + 1)"
            case "dec":
                new = "(value if old == 0 or old > value else old - 1)"
            case operator:
                new = binary(operator, dtype, "old", "value")
        compare = "None" if op.compare is None else self.of(op.compare)
        given = f"{self.of(op.mem)}, {self.indices(op.index, op.mem)}, {self.of(op.value)}, {compare}"
        self.result(op, f"change({self.site(op)}, g, {given}, lambda old, value, compare: {new}, {where})", indent)
        if op.mem.name in self.watched:
            self.tell("atomic", op, None, (), indent)

    def load_words(self, op: LoadWords, valid: str, indent: int) -> None:
        self.result(op, f"load_words({self.site(op)}, {self.of(op.mem)}, g, {self.indices(op.index, op.mem)}, {valid})", indent)
        if len(op.results) == 1:
            self.write(indent, f"{self.name(op.result)}, = {self.name(op.result)}")

    def store_words(self, op: StoreWords, indent: int) -> None:
        values = "".join(self.of(value) + ", " for value in op.values)
        self.write(indent, f"store_words({self.site(op)}, {self.of(op.mem)}, g, {self.indices(op.index, op.mem)}, ({values}))")

    def copy(self, op: AsyncCopy, indent: int) -> None:
        count = op.bytes // bytes_of(mem_of(op.source).dtype)
        ends = f"{self.of(op.destination)}, {self.indices(op.destination_index)}, {self.of(op.source)}, {self.indices(op.source_index)}"
        where = "True" if op.where is None else self.of(op.where)
        self.write(indent, f"async_copy({self.site(op)}, g, {ends}, {count}, {where})")


# ---- what the written source calls -------------------------------------------------------------------------------


def _barrier_arrive(op: SyncThreads, lanes: Lanes) -> None:
    """Lanes that are counted at a barrier, and go on."""
    arrived = lanes.block.arrived.setdefault(op.id, [])
    lanes.block.later(lanes.numbers, lambda place: arrived.append(lanes.block.clocks[int(lanes.numbers[place])].snapshot()))


def _fence(lanes: Lanes, scope: str) -> None:
    if lanes.block.run.order is not None:
        lanes.block.run.order.fence(lanes.numbers, scope)
    else:
        lanes.block.later(lanes.numbers, lambda place: lanes.block.clocks[int(lanes.numbers[place])].fence(scope))


def _fence_async(lanes: Lanes) -> None:
    lanes.block.later(lanes.numbers, lambda place: lanes.block.engines.fence(lanes.block.clocks[int(lanes.numbers[place])]))


def _mark_stores(op: Store | StoreMatrix, lanes: Lanes, memory: Array, index: tuple[Any, ...], where: Any) -> None:
    """Who has stored elements, for copies and products that read past stores."""
    block = lanes.block
    parts = [np.asarray(part) for part in (*index, True if where is None else where)]
    shape = np.broadcast_shapes(*(part.shape for part in parts), (len(lanes), *[1] * (max(part.ndim for part in parts) - 1)))
    *columns, taken = (np.broadcast_to(part, shape) for part in parts)
    marks = block.engines.marks(memory)

    def tell(lane: int) -> None:
        number = block.engines.mark(op, block.clocks[int(lanes.numbers[lane])])
        marks[tuple(column[lane][taken[lane]] for column in columns)] = number

    block.later(lanes.numbers, tell)


def _barrier_begin(op: BarrierInit, lanes: Lanes, barriers: list[CountingBarrier], number: Any) -> None:
    for number_, (thread, at) in enumerate(each_lane(lanes, number)):
        barrier = barrier_at(barriers, at, op)
        barrier.begin(op.count)
        if lanes.block.run.watching:
            lanes.block.later(lanes.numbers[number_ : number_ + 1], partial(_remember, op, barrier, lanes.block, thread))


def _remember(op: BarrierInit, barrier: CountingBarrier, block: ThreadBlock, thread: int, lane: int) -> None:
    """When a barrier was initialised."""
    barrier.made = access(op, block.clocks[thread], "write")


def _mark_rows(op: StoreMatrix, lanes: Lanes, memory: Array, index: tuple[Any, ...]) -> None:
    parts = [each(len(lanes), part)[:, None] for part in index]
    giving = (lanes.numbers % lanes.block.run.lanes < 8 * len(op.values))[:, None]
    _mark_stores(op, lanes, memory, (*parts[:-1], parts[-1] + np.arange(16 // memory.itemsize)), giving)


def _call_each(function: Callable[..., Any], arguments: tuple[Array, ...], dtypes: tuple[str, ...]) -> Any:
    """A function of numbers, for each lane."""
    results = [function(*given) for given in zip(*(argument.tolist() for argument in arguments), strict=True)]
    columns = tuple(np.array(column, arrays.NUMPY[dtype]) for column, dtype in zip(zip(*results, strict=True), dtypes, strict=True))
    return columns[0] if len(columns) == 1 else columns


def _inside_of(index: tuple[Any, ...], shape: tuple[int, ...], where: Any) -> Any:
    """Which elements of those wanted lie in a memory."""
    inside: Any = True if where is None else where
    for part, extent in zip(index, shape, strict=True):
        inside = inside & (part >= 0) & (part < extent)
    return inside


ENVIRONMENT: dict[str, Any] = {
    **{kind.__name__: call for kind, call in CALLS.items()},
    "arrive": arrive,
    "async_copy": async_copy,
    "barrier_arrive": _barrier_arrive,
    "barrier_begin": _barrier_begin,
    "begin_products": begin_products,
    "bulk_commit": bulk_commit,
    "bulk_load": bulk_load,
    "bulk_store": bulk_store,
    "bulk_wait": bulk_wait,
    "call_each": _call_each,
    "change": change,
    "cluster_store": cluster_store,
    "commit_products": commit_products,
    "fence": _fence,
    "fence_async": _fence_async,
    "fence_registers": fence_registers,
    "finish_products": finish_products,
    "inside_of": _inside_of,
    "lane_numbers": arrays.lane_numbers,
    "load_words": load_words,
    "mark_rows": _mark_rows,
    "mark_stores": _mark_stores,
    "store_words": store_words,
    "stored_bits": arrays.stored_bits,
}
"""What the written source of threads may call besides."""
