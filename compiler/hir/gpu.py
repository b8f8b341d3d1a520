"""What only GPU threads have: their place in block and grid, barriers and fences, shared memory, atomics, and the exchange of values
within a warp. Form C."""

from collections.abc import Iterator

from compiler.hir.affine import Affine
from compiler.hir.core import dtype_of, union_axes
from compiler.hir.instruction import (
    Effect,
    Instruction,
    InstructionFamily,
    Value,
    ValueScope,
    attribute,
    instruction,
    instruction_table,
    operand,
    optional_operand,
)
from compiler.hir.memory import mem_of
from compiler.hir.types import I1, I32, INDEX, HirType, Mem, Space, Tile, is_float

WARP = 32
"""Lanes of a warp as programs see it. Machines may have warps of another size."""

DIMENSIONS = ("x", "y", "z")
FENCE_SCOPES = ("thread", "block", "device", "system")
ATOMIC_SCOPES = ("block", "device", "system")
ATOMIC_ORDERS = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
SHUFFLE_MODES = ("idx", "up", "down", "xor")
CLUSTER_PARTS = ("all", "arrive", "wait")
VOTES = ("ballot", "any", "all")
MATCHES = ("any", "all")
REDUX = ("add", "min", "max", "and", "or", "xor")
ATOMICS = {
    "add": "old + value",
    "sub": "old - value",
    "min": "the smaller",
    "max": "the larger",
    "and": "bits of ints",
    "or": "bits of ints",
    "xor": "bits of ints",
    "exchange": "value",
    "cas": "value where old equals `compare`, else old",
    "inc": "0 where old >= value, else old + 1; u32",
    "dec": "value where old is 0 or above value, else old - 1; u32",
}

_GRID = {
    "thread_idx": "index of the thread in its block",
    "block_idx": "index of the block in the grid",
    "block_dim": "threads of the block",
    "grid_dim": "blocks of the grid",
}
_WARP = {
    "lane": "index of the thread in its warp, 0 to 31",
    "warp": "index of the warp in its block",
    "cluster_rank": "index of the block in its cluster",
}


def one_of(word: str, words: tuple[str, ...] | dict[str, str], kind: str) -> Iterator[str]:
    """A fault when the word isn't in the table."""
    if word not in words:
        yield f"{kind} {word}: not one of {', '.join(words)}"


# ---- place -------------------------------------------------------------------------------------------------------


@instruction_table(_GRID, InstructionFamily.INDEX)
class GridIndex(Instruction):
    """`%t = thread_idx x : index`: where the thread stands, along `x`, `y` or `z`; also `block_idx block_dim grid_dim`."""

    operator: str = attribute()
    dim: str = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [INDEX]

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from one_of(self.dim, DIMENSIONS, "dimension")


@instruction_table(_WARP, InstructionFamily.INDEX)
class WarpIndex(Instruction):
    """`%l = lane : index`; also `warp`, `cluster_rank`. Threads are counted with x fastest."""

    operator: str = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [INDEX]


@instruction("uniform", InstructionFamily.INDEX)
class Uniform(Instruction):
    """`%u = uniform %v : i32`: the value, of which it is known that all lanes of the warp hold the same."""

    value: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.value.type]


# ---- synchronisation ---------------------------------------------------------------------------------------------


@instruction("sync_threads", InstructionFamily.SYNC, Effect.SYNC)
class SyncThreads(Instruction):
    """`sync_threads id=1 count=128`: no thread goes on before `count` threads (0: all of the block) have come; their writes are seen. With
    `arrive=true` the thread is counted and goes on at once."""

    id: int = attribute(0)
    count: int = attribute(0)
    arrive: bool = attribute(False)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        if not 0 <= self.id < 16:
            yield f"barrier {self.id}: a block has barriers 0 to 15"
        if self.count % 32:
            yield f"a barrier of {self.count} threads: not a multiple of 32"


@instruction("fence", InstructionFamily.SYNC, Effect.SYNC)
class Fence(Instruction):
    """`fence device`: the thread's earlier writes are seen in that scope before its later ones."""

    scope: str = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from one_of(self.scope, FENCE_SCOPES, "scope")


@instruction("warp_sync", InstructionFamily.SYNC, Effect.SYNC)
class WarpSync(Instruction):
    """`warp_sync %mask`: waits for the lanes of the mask (i32; all when there is none)."""

    mask: Value | None = optional_operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []


@instruction("cluster_sync", InstructionFamily.SYNC, Effect.SYNC)
class ClusterSync(Instruction):
    """`cluster_sync`: all threads of the cluster's blocks meet, and their writes are seen; with `writes=false` only barriers that were
    made known, and that the blocks are there: that may be cut in two, `part=arrive`, at which nobody waits, and `part=wait`."""

    writes: bool = attribute(True)
    part: str = attribute("all")

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from one_of(self.part, CLUSTER_PARTS, "part")
        if self.writes and self.part != "all":
            yield f"part={self.part} of a meeting at which writes are seen"


@instruction("grid_sync", InstructionFamily.SYNC, Effect.SYNC)
class GridSync(Instruction):
    """`grid_sync`: all threads of the grid meet, and their writes are seen; the launch is cooperative, with all blocks at once on the
    device."""

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []


@instruction("fence_async", InstructionFamily.SYNC, Effect.SYNC)
class FenceAsync(Instruction):
    """`fence_async`: ordinary writes to shared memory are seen by bulk copies and wgmma after it."""

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []


# ---- shared memory -----------------------------------------------------------------------------------------------


def _forms(forms: tuple[Affine, ...]) -> tuple[Affine, ...]:
    return tuple(Affine.of(form) for form in forms)


def _must_be_shared(type_: Mem) -> Iterator[str]:
    if type_.space is not Space.SHARED:
        yield f"{type_} is not in shared memory"


@instruction("shared_alloc", InstructionFamily.SHARED, Effect.WRITE)
class SharedAlloc(Instruction):
    """`%s = shared_alloc : mem<256xi32, shared, align=16>`: memory of the block, of constant extents, undefined until written.
    Element type, count and alignment are the type's."""

    type: Mem = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.type]

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _must_be_shared(self.type)
        if any(d.value is None for d in self.type.dims):
            yield "shared memory of an extent that isn't constant"


@instruction("dynamic_shared", InstructionFamily.SHARED)
class DynamicShared(Instruction):
    """`%s = dynamic_shared offset=1024 : mem<64x64xf16, shared>`: a view of the shared memory whose size the launch decides,
    `offset` bytes in."""

    offset: Affine = attribute(converter=Affine.of)
    type: Mem = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.type]

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _must_be_shared(self.type)


@instruction("cluster_store", InstructionFamily.SHARED, Effect.WRITE)
class ClusterStore(Instruction):
    """`cluster_store %s[k], %v, %r where=%p`: an element of the same shared memory of block `r` of the cluster. The
    blocks must have met before, and meet again (`cluster_sync`) before the element is read, or a block ends."""

    mem: Value = operand()
    value: Value = operand()
    index: tuple[Affine, ...] = attribute(converter=_forms)
    rank: Value = operand()
    where: Value | None = optional_operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _must_be_shared(mem_of(self.mem))
        if len(self.index) != mem_of(self.mem).rank:
            yield f"{len(self.index)} indices for {self.mem} of rank {mem_of(self.mem).rank}"
        if dtype_of(self.value) != mem_of(self.mem).dtype:
            yield f"a {dtype_of(self.value)} stored to {mem_of(self.mem)}"
        if union_axes(self.value, *([self.where] if self.where is not None else [])) or scope.axes_of(*self.index):
            yield "a tile: elements go one by one"
        if self.rank.type != I32:
            yield f"a rank of type {self.rank.type}: i32 is wanted"


# ---- atomics -----------------------------------------------------------------------------------------------------


@instruction("atomic", InstructionFamily.ATOMIC, Effect.READ | Effect.WRITE | Effect.SYNC)
class Atomic(Instruction):
    """`%old = atomic add %bins[b], %one order=relaxed scope=device : i32`: one indivisible change of an element; the result is what it held
    before. `cas` takes `compare=%c`."""

    operation: str = attribute()
    mem: Value = operand()
    index: tuple[Affine, ...] = attribute(converter=_forms)
    value: Value = operand()
    compare: Value | None = optional_operand()
    order: str = attribute("relaxed")
    scope: str = attribute("device")

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile(mem_of(self.mem).dtype)]

    def check(self, scope: ValueScope) -> Iterator[str]:
        dtype = mem_of(self.mem).dtype
        yield from one_of(self.operation, ATOMICS, "operation")
        yield from one_of(self.order, ATOMIC_ORDERS, "order")
        yield from one_of(self.scope, ATOMIC_SCOPES, "scope")
        if len(self.index) != mem_of(self.mem).rank:
            yield f"{len(self.index)} indices for {self.mem} of rank {mem_of(self.mem).rank}"
        if dtype_of(self.value) != dtype:
            yield f"a {dtype_of(self.value)} on {mem_of(self.mem)}"
        if self.operation in ("and", "or", "xor") and is_float(dtype):
            yield "bits of a float"
        if self.operation in ("inc", "dec") and dtype != "u32":
            yield f"`{self.operation}` on {dtype}: only on u32"
        if (self.operation == "cas") != (self.compare is not None):
            yield "`compare` belongs to `cas`, and `cas` needs it"


# ---- warps -------------------------------------------------------------------------------------------------------


@instruction("shuffle", InstructionFamily.WARP, Effect.SYNC)
class Shuffle(Instruction):
    """`%r = shuffle down %v, %delta width=32 : f32`: the value of another lane: number `lane` (`idx`), `lane` below (`up`) or
    above (`down`), or that whose number differs in these bits (`xor`), within groups of `width` lanes; the own value where there
    is no such lane."""

    mode: str = attribute()
    value: Value = operand()
    lane: Value = operand()
    width: int = attribute(32)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.value.type]

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from one_of(self.mode, SHUFFLE_MODES, "mode")
        if self.width not in (1, 2, 4, 8, 16, 32):
            yield f"a width of {self.width}: not a power of two up to 32"
        if self.lane.type != I32:
            yield f"a lane of type {self.lane.type}: i32 is wanted"


@instruction("vote", InstructionFamily.WARP, Effect.SYNC)
class Vote(Instruction):
    """`%m = vote ballot %p : i32`: bit n is lane n's predicate; `any` and `all` give an i1."""

    operation: str = attribute()
    predicate: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [I32 if self.operation == "ballot" else I1]

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from one_of(self.operation, VOTES, "operation")
        if self.predicate.type != I1:
            yield f"a predicate of type {self.predicate.type}: i1 is wanted"


@instruction("match", InstructionFamily.WARP, Effect.SYNC)
class MatchLanes(Instruction):
    """`%m = match any %v : i32`: a mask of the lanes that hold the same bits; with `all` the mask of all lanes when they all do, else 0."""

    mode: str = attribute()
    value: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [I32]

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from one_of(self.mode, MATCHES, "mode")


@instruction("elect", InstructionFamily.WARP, Effect.SYNC)
class Elect(Instruction):
    """`%e = elect : i1`: true in one lane of the warp."""

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [I1]


@instruction("redux", InstructionFamily.WARP, Effect.SYNC)
class Redux(Instruction):
    """`%s = redux add %v : i32`: all lanes' ints combined, in all lanes."""

    operation: str = attribute()
    value: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.value.type]

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from one_of(self.operation, REDUX, "operation")
        if dtype_of(self.value) not in ("i32", "u32"):
            yield f"a {dtype_of(self.value)}: only i32 and u32"
