"""A small kernel for each GPU instruction and each of its forms, with the PTX line that it must become."""

from collections.abc import Callable

from attrs import field, frozen

from compiler.hir.affine import Affine
from compiler.hir.async_copy import AsyncCommit, AsyncCopy, AsyncWait
from compiler.hir.build import FunctionBuilder
from compiler.hir.core import Const
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
from compiler.hir.instruction import Value
from compiler.hir.module import Form, HirFunction, HirKernelInfo
from compiler.hir.tensor_core import LoadMatrix, Mma, MmaLoad, MmaStore, StoreMatrix
from compiler.hir.types import Barrier, Fragment, FragmentRole, HirType, Mem, Space, Tile

T = Affine.of("t")
"""The thread's index in its block."""


class Kernel:
    """A kernel of one warpgroup under construction."""

    def __init__(self, name: str) -> None:
        self.builder = FunctionBuilder(name, Form.THREAD)
        self.body = self.builder.body
        self.emit = self.body.emit
        self.thread = self.emit(GridIndex(operator="thread_idx", dim="x"), "t").result

    def input(self, dtype: str, *dims: int, **facts: object) -> Value:
        return self.builder.parameter("x", Mem(dtype, dims or (128,), **facts))

    def loaded(self, dtype: str) -> Value:
        """A value of the thread's own."""
        return self.body.load(self.input(dtype, readonly=True), ["t"])

    def shared(self, dtype: str, *dims: int, **facts: object) -> Value:
        return self.emit(SharedAlloc(type=Mem(dtype, dims, space=Space.SHARED, **facts)), "s").result

    def keep(self, *values: Value) -> None:
        """Store values, so that they are computed."""
        for value in values:
            assert isinstance(value.type, Tile)
            out = self.builder.parameter("out", Mem(value.type.dtype, (1024,)))
            self.body.store(out, value, ["t"])

    def use(self, mem: Value) -> None:
        """Read a shared memory back, so that it exists."""
        self.keep(self.body.load(mem, ["t"] if mem.type.rank == 1 else [0, "t"]))

    def const(self, value: float, dtype: str) -> Value:
        return self.body.const(value, dtype)

    def finish(self) -> HirFunction:
        function = self.builder.finish()
        function.kernel_info = HirKernelInfo(workgroup=(128, 1, 1))
        return function


@frozen
class Case:
    """`line` is what must stand in the PTX (registers without their numbers), from `sm` on; older targets refuse with `lacking`, or
    do without when that is None. `specific`: only on these targets."""

    instruction: str
    name: str
    make: Callable[[Kernel], None]
    line: str
    sm: int = 75
    lacking: str | None = None
    specific: tuple[str, ...] = ()
    absent: str = field(default="")

    def function(self) -> HirFunction:
        kernel = Kernel(self.name)
        self.make(kernel)
        return kernel.finish()


CASES: list[Case] = []


def case(instruction: str, line: str, name: str = "", **facts: object) -> Callable[[Callable[[Kernel], None]], Callable[[Kernel], None]]:
    def add(make: Callable[[Kernel], None]) -> Callable[[Kernel], None]:
        known = sum(c.instruction == instruction for c in CASES)
        CASES.append(Case(instruction, name or f"{instruction.replace('.', '_')}_{known}", make, line, **facts))
        return make

    return add


# ---- places --------------------------------------------------------------------------------------------------------------

for _operator, _register in (("thread_idx", "tid"), ("block_idx", "ctaid"), ("block_dim", "ntid"), ("grid_dim", "nctaid")):
    for _dim in "xyz":
        if _operator == "block_dim" or (_operator, _dim) in (("thread_idx", "y"), ("thread_idx", "z")):
            continue  # known from the size of the block: a test apart

        @case(_operator, f"mov.u32 %r, %{_register}.{_dim};")
        def _grid(k: Kernel, operator: str = _operator, dim: str = _dim) -> None:
            k.keep(k.emit(GridIndex(operator=operator, dim=dim)).result)


@case("block_dim", "st.global.b64 [%rd], 128;")
def _block_dim(k: Kernel) -> None:
    k.keep(k.emit(GridIndex(operator="block_dim", dim="x")).result)


@case("lane", "mov.u32 %r, %laneid;")
def _lane(k: Kernel) -> None:
    k.keep(k.emit(WarpIndex(operator="lane")).result)


@case("warp", "shr.u32 %r, %r, 5;")
def _warp(k: Kernel) -> None:
    k.keep(k.emit(WarpIndex(operator="warp")).result)


@case("cluster_rank", "mov.u32 %r, %cluster_ctarank;", sm=90, lacking="clusters of blocks")
def _rank(k: Kernel) -> None:
    k.keep(k.emit(WarpIndex(operator="cluster_rank")).result)


@case("uniform", "ld.global.nc.b32 %r, [%rd];")
def _uniform(k: Kernel) -> None:
    k.keep(k.emit(Uniform(value=k.loaded("i32"))).result)


# ---- synchronisation -----------------------------------------------------------------------------------------------------


@case("sync_threads", "bar.sync 0;")
def _sync(k: Kernel) -> None:
    k.emit(SyncThreads())


@case("sync_threads", "bar.sync 3;")
def _sync_number(k: Kernel) -> None:
    k.emit(SyncThreads(id=3))


@case("sync_threads", "bar.sync 1, 64;")
def _sync_count(k: Kernel) -> None:
    k.emit(SyncThreads(id=1, count=64))


@case("sync_threads", "bar.arrive 2, 96;")
def _arrive(k: Kernel) -> None:
    k.emit(SyncThreads(id=2, count=96, arrive=True))


@case("sync_threads", "bar.arrive 2, 128;")
def _arrive_all(k: Kernel) -> None:
    k.emit(SyncThreads(id=2, arrive=True))


for _scope, _line in (("block", "fence.acq_rel.cta;"), ("device", "fence.acq_rel.gpu;"), ("system", "fence.acq_rel.sys;")):

    @case("fence", _line)
    def _fence(k: Kernel, scope: str = _scope) -> None:
        k.emit(Fence(scope=scope))


@case("fence", "ret;", absent="fence")
def _fence_thread(k: Kernel) -> None:
    """The order of one thread's own accesses is the program's: no instruction."""
    k.emit(Fence(scope="thread"))


@case("warp_sync", "bar.warp.sync -1;")
def _warp_sync(k: Kernel) -> None:
    k.emit(WarpSync())


@case("warp_sync", "bar.warp.sync 255;")
def _warp_sync_mask(k: Kernel) -> None:
    k.emit(WarpSync(mask=k.const(255, "i32")))


@case("cluster_sync", "barrier.cluster.wait.aligned;", sm=90, lacking="clusters of blocks")
def _cluster_sync(k: Kernel) -> None:
    k.emit(ClusterSync())


@case("fence_async", "fence.proxy.async.shared::cta;", sm=90, lacking="bulk copies")
def _fence_async(k: Kernel) -> None:
    k.emit(FenceAsync())


# ---- shared memory -------------------------------------------------------------------------------------------------------


@case("shared_alloc", ".shared .align 16 .b8 shared_alloc_0_s_0[1024];")
def _shared(k: Kernel) -> None:
    s = k.shared("i32", 256)
    k.body.store(s, k.loaded("i32"), ["t"])
    k.emit(SyncThreads())
    k.keep(k.body.load(s, [127 - T]))


@case("dynamic_shared", ".extern .shared .align 1024 .b8 zyn_dynamic_shared[];")
def _dynamic(k: Kernel) -> None:
    s = k.emit(DynamicShared(offset=1024, type=Mem("f32", (128,), space=Space.SHARED)), "s").result
    k.body.store(s, k.loaded("f32"), ["t"])
    k.emit(SyncThreads())
    k.keep(k.body.load(s, [127 - T]))


# ---- atomics -------------------------------------------------------------------------------------------------------------


def _atomic_case(line: str, dtype: str, operation: str, **facts: object) -> None:
    shared = bool(facts.pop("shared", False))
    sm = {key: facts.pop(key) for key in ("sm", "lacking") if key in facts}

    @case("atomic", line, name="", **sm)
    def _atomic(k: Kernel) -> None:
        mem = k.shared(dtype, 16) if shared else k.builder.parameter("m", Mem(dtype, (16,)))
        if shared:
            with k.body.when(k.body.inbounds(T, 1)) as first:
                first.store(mem, k.const(0, dtype), [T])
            k.emit(SyncThreads())
        value = k.loaded(dtype)
        extra = {"compare": k.const(0, dtype)} if operation == "cas" else {}
        k.keep(k.emit(Atomic(operation=operation, mem=mem, index=(0,), value=value, **extra, **facts)).result)


for _dtype, _word, _kind in (("i32", "s32", "%r"), ("u32", "u32", "%r"), ("i64", "u64", "%rd"), ("u64", "u64", "%rd")):
    _signed = _dtype.replace("i", "s")
    _bits = f"b{_dtype[1:]}"
    for _operation, _type in (
        ("add", _word),
        ("min", _signed),
        ("max", _signed),
        ("and", _bits),
        ("or", _bits),
        ("xor", _bits),
        ("exchange", _bits),
    ):
        _short = "exch" if _operation == "exchange" else _operation
        _atomic_case(f"atom.relaxed.gpu.global.{_short}.{_type} {_kind}, [%rd], {_kind};", _dtype, _operation)
    _atomic_case(f"atom.relaxed.gpu.global.add.{_word} {_kind}, [%rd], {_kind};", _dtype, "sub")
    _atomic_case(f"atom.relaxed.gpu.global.cas.{_bits} {_kind}, [%rd], {_kind}, {_kind};", _dtype, "cas")
_atomic_case("atom.relaxed.gpu.global.inc.u32 %r, [%rd], %r;", "u32", "inc")
_atomic_case("atom.relaxed.gpu.global.dec.u32 %r, [%rd], %r;", "u32", "dec")
_atomic_case("atom.relaxed.gpu.global.add.f32 %r, [%rd], %r;", "f32", "add")
_atomic_case("atom.relaxed.gpu.global.add.f64 %rd, [%rd], %rd;", "f64", "add")
_atomic_case("atom.relaxed.gpu.global.add.f32 %r, [%rd], %r;", "f32", "sub")
_atomic_case("atom.relaxed.gpu.global.add.noftz.f16 %rs, [%rd], %rs;", "f16", "add")
_atomic_case("atom.relaxed.gpu.global.add.noftz.bf16 %rs, [%rd], %rs;", "bf16", "add", sm=90)
_atomic_case("atom.relaxed.gpu.global.exch.b32 %r, [%rd], %r;", "f32", "exchange")
_atomic_case("atom.relaxed.gpu.global.exch.b64 %rd, [%rd], %rd;", "f64", "exchange")
for _operation in ("min", "max", "cas"):
    _atomic_case("atom.relaxed.gpu.global.cas.b32 %r, [%rd], %r, %r;", "f32", _operation)
    _atomic_case("atom.relaxed.gpu.global.cas.b64 %rd, [%rd], %rd, %rd;", "f64", _operation)
_atomic_case("atom.relaxed.gpu.global.cas.b16 %rs, [%rd], %rs, %rs;", "f16", "max")
_atomic_case("atom.relaxed.gpu.global.cas.b16 %rs, [%rd], %rs, %rs;", "i16", "add")
for _scope, _short in (("block", "cta"), ("device", "gpu"), ("system", "sys")):
    for _order in ("relaxed", "acquire", "release", "acq_rel"):
        _atomic_case(f"atom.{_order}.{_short}.global.add.u32 %r, [%rd], %r;", "u32", "add", scope=_scope, order=_order)
        _atomic_case(f"atom.{_order}.{_short}.shared.add.u32 %r, [%rd], %r;", "u32", "add", scope=_scope, order=_order, shared=True)
_atomic_case("fence.sc.sys;", "u32", "add", scope="system", order="seq_cst")


# ---- warps ---------------------------------------------------------------------------------------------------------------

for _mode, _word, _clamp in (("idx", "idx", 31), ("up", "up", 0), ("down", "down", 31), ("xor", "bfly", 31)):
    for _dtype in ("i32", "u32", "f32", "i64", "f64", "f16", "bf16", "i16"):

        @case("shuffle", f"shfl.sync.{_word}.b32 %r, %r, 1, {_clamp}, -1;")
        def _shuffle(k: Kernel, mode: str = _mode, dtype: str = _dtype) -> None:
            k.keep(k.emit(Shuffle(mode=mode, value=k.loaded(dtype), lane=k.const(1, "i32"))).result)


for _width in (1, 2, 4, 8, 16):

    @case("shuffle", f"shfl.sync.bfly.b32 %r, %r, 1, {(32 - _width) << 8 | 31}, -1;")
    def _shuffle_width(k: Kernel, width: int = _width) -> None:
        k.keep(k.emit(Shuffle(mode="xor", value=k.loaded("f32"), lane=k.const(1, "i32"), width=width)).result)


for _operation, _line in (("ballot", "vote.sync.ballot.b32 %r, %p, -1;"), ("any", "vote.sync.any.pred %p, %p, -1;"), ("all", "vote.sync.all.pred %p, %p, -1;")):

    @case("vote", _line)
    def _vote(k: Kernel, operation: str = _operation) -> None:
        predicate = k.body.op("gt", k.loaded("i32"), k.const(0, "i32"))
        k.keep(k.emit(Vote(operation=operation, predicate=predicate)).result)


for _mode, _dtype, _line in (
    ("any", "i32", "match.any.sync.b32 %r, %r, -1;"),
    ("any", "f64", "match.any.sync.b64 %r, %rd, -1;"),
    ("any", "f16", "match.any.sync.b32 %r, %r, -1;"),
    ("all", "f32", "match.all.sync.b32 %r|%p, %r, -1;"),
    ("all", "u64", "match.all.sync.b64 %r|%p, %rd, -1;"),
):

    @case("match", _line)
    def _match(k: Kernel, mode: str = _mode, dtype: str = _dtype) -> None:
        k.keep(k.emit(Match(mode=mode, value=k.loaded(dtype))).result)


@case("elect", "elect.sync %r|%p, -1;", sm=90)
def _elect(k: Kernel) -> None:
    k.keep(k.emit(Elect()).result)


for _dtype, _operations in (("i32", ("add.s32", "min.s32", "max.s32", "and.b32", "or.b32", "xor.b32")), ("u32", ("min.u32", "max.u32"))):
    for _word in _operations:

        @case("redux", f"redux.sync.{_word} %r, %r, %r;", sm=80)
        def _redux(k: Kernel, word: str = _word, dtype: str = _dtype) -> None:
            k.keep(k.emit(Redux(operation=word.split(".")[0], value=k.loaded(dtype))).result)


# ---- tensor cores --------------------------------------------------------------------------------------------------------


def _list(kind: str, count: int) -> str:
    return "{" + ", ".join([kind] * count) + "}"


def _product(k: Kernel, dtype: str, to: str, shape: tuple[int, int, int], layout: str, shared: bool = False) -> None:
    rows, columns, depth = shape
    of = {r: Fragment(r, rows, columns, depth, to if r is FragmentRole.ACCUMULATOR else dtype) for r in FragmentRole}
    make = k.shared if shared else lambda d, *dims: k.builder.parameter("m", Mem(d, dims))
    left, right = layout.split(".")
    a = k.emit(MmaLoad(layout=left, mem=make(dtype, 32, 32), index=(0, 0), type=of[FragmentRole.A])).result
    b = k.emit(MmaLoad(layout=right, mem=make(dtype, 32, 32), index=(0, 0), type=of[FragmentRole.B])).result
    sums = k.builder.parameter("c", Mem(to, (32, 32), readonly=True))
    c = k.emit(MmaLoad(layout="row", mem=sums, index=(0, 0), type=of[FragmentRole.ACCUMULATOR])).result
    d = k.emit(Mma(a=a, b=b, c=c, layout=layout)).result
    k.emit(MmaStore(layout="row", mem=k.builder.parameter("d", Mem(to, (64, 64))), index=(0, 0), fragment=d))


_SHAPES = ((16, 16, 16), (32, 8, 16), (8, 32, 16))
_WMMA = [
    *[("f16", "f32", s, 8, 8, 8, "%r", 75, "f32.f32", "f16", "f32") for s in _SHAPES],
    *[("f16", "f16", s, 8, 8, 4, "%r", 75, "f16.f16", "f16", "f16") for s in _SHAPES],
    *[("bf16", "f32", s, a, b, 8, "%r", 80, "f32.bf16.bf16.f32", "bf16", "f32") for s, a, b in zip(_SHAPES, (4, 8, 2), (4, 2, 8), strict=True)],
    *[("i8", "i32", s, a, b, 8, "%r", 75, "s32.s8.s8.s32", "s8", "s32") for s, a, b in zip(_SHAPES, (2, 4, 1), (2, 1, 4), strict=True)],
    *[("u8", "i32", s, a, b, 8, "%r", 75, "s32.u8.u8.s32", "u8", "s32") for s, a, b in zip(_SHAPES, (2, 4, 1), (2, 1, 4), strict=True)],
    ("f32", "f32", (16, 16, 8), 4, 4, 8, "%r", 80, "f32.tf32.tf32.f32", "tf32", "f32"),
    ("f64", "f64", (8, 8, 4), 1, 1, 2, "%rd", 80, "f64.f64.f64.f64", "f64", "f64"),
]
for _dtype, _to, _shape, _a, _b, _c, _kind, _sm, _types, _word, _sum in _WMMA:
    _name = "m{}n{}k{}".format(*_shape)
    _facts = {"sm": _sm, "lacking": f"tensor cores for {_dtype}"} if _sm > 75 else {}
    _line = f"wmma.mma.sync.aligned.row.col.{_name}.{_types} {_list(_kind, _c)}, {_list(_kind, _a)}, {_list(_kind, _b)}, {_list(_kind, _c)};"
    _load = f"wmma.load.a.sync.aligned.row.{_name}.global.{_word} {_list(_kind, _a)}, [%rd], %r;"
    _load_b = f"wmma.load.b.sync.aligned.col.{_name}.shared.{_word} {_list(_kind, _b)}, [%rd], %r;"
    _store = f"wmma.store.d.sync.aligned.row.{_name}.global.{_sum} [%rd], {_list(_kind, _c)}, %r;"
    for _instruction, _key, _shared in (("mma", _line, False), ("mma_load", _load, False), ("mma_load", _load_b, True), ("mma_store", _store, False)):

        @case(_instruction, _key, **_facts)
        def _mma(k: Kernel, dtype: str = _dtype, to: str = _to, shape: tuple = _shape, shared: bool = _shared) -> None:
            _product(k, dtype, to, shape, "row.col", shared)


for _layout in ("row.row", "col.row", "col.col"):

    @case("mma", f"wmma.mma.sync.aligned.{_layout}.m16n16k16.f32.f32 {_list('%r', 8)}, {_list('%r', 8)}, {_list('%r', 8)}, {_list('%r', 8)};")
    def _mma_layout(k: Kernel, layout: str = _layout) -> None:
        _product(k, "f16", "f32", (16, 16, 16), layout)


for _dtype, _sm in (("f16", 75), ("bf16", 80)):
    _facts = {"sm": _sm, "lacking": f"tensor cores for {_dtype}"} if _sm > 75 else {}

    @case("mma", f"mma.sync.aligned.m16n8k8.row.col.f32.{_dtype}.{_dtype}.f32 {_list('%r', 4)}, {_list('%r', 2)}, {_list('%r', 1)}, {_list('%r', 4)};", **_facts)
    def _mma_small(k: Kernel, dtype: str = _dtype) -> None:
        _product(k, dtype, "f32", (8, 8, 8), "row.row")


for _count in (1, 2, 4):
    for _transpose in (False, True):
        _trans = ".trans" if _transpose else ""

        @case("ldmatrix", f"ldmatrix.sync.aligned.m8n8.x{_count}{_trans}.shared.b16 {_list('%r', _count)}, [%rd];")
        def _ldmatrix(k: Kernel, count: int = _count, transpose: bool = _transpose) -> None:
            s = k.shared("f16", 128, 8)
            k.keep(*k.emit(LoadMatrix(mem=s, index=("t", 0), count=count, transpose=transpose)).results)

        @case("stmatrix", f"stmatrix.sync.aligned.m8n8.x{_count}{_trans}.shared.b16 [%rd], {_list('%r', _count)};", sm=90, lacking="stmatrix")
        def _stmatrix(k: Kernel, count: int = _count, transpose: bool = _transpose) -> None:
            s = k.shared("bf16", 128, 8)
            k.emit(StoreMatrix(mem=s, index=("t", 0), values=[k.loaded("u32")] * count, transpose=transpose))


# ---- copies --------------------------------------------------------------------------------------------------------------


def _copy(k: Kernel, **facts: object) -> None:
    s = k.shared("f32", 512)
    x = k.input("f32", 512, readonly=True, align=16)
    k.emit(AsyncCopy(destination=s, destination_index=(T * 4,), source=x, source_index=(T * 4,), **facts))
    k.emit(AsyncCommit())
    k.emit(AsyncWait(count=0))
    k.keep(k.body.load(s, ["t"]))


_POLICY = "{ .reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy, 1.0; "
for _bytes, _hint, _line in (
    (4, "default", "cp.async.ca.shared.global [%rd], [%rd], 4;"),
    (8, "default", "cp.async.ca.shared.global [%rd], [%rd], 8;"),
    (16, "default", "cp.async.ca.shared.global [%rd], [%rd], 16;"),
    (16, "l1", "cp.async.ca.shared.global [%rd], [%rd], 16;"),
    (16, "l2", "cp.async.cg.shared.global [%rd], [%rd], 16;"),
    (16, "streaming", _POLICY + "cp.async.cg.shared.global.L2::cache_hint [%rd], [%rd], 16, policy; }"),
    (4, "streaming", _POLICY + "cp.async.ca.shared.global.L2::cache_hint [%rd], [%rd], 4, policy; }"),
):

    @case("async_copy", _line, sm=80)
    def _async_copy(k: Kernel, bytes: int = _bytes, hint: str = _hint) -> None:
        _copy(k, bytes=bytes, hint=hint)


@case("async_copy", "cp.async.cg.shared.global [%rd], [%rd], 16, %r;", sm=80)
def _async_copy_where(k: Kernel) -> None:
    _copy(k, bytes=16, hint="l2", where=k.body.op("gt", k.loaded("i32"), k.const(0, "i32")))


@case("async_commit", "cp.async.commit_group;", sm=80)
def _async_commit(k: Kernel) -> None:
    _copy(k)


@case("async_wait", "cp.async.wait_group 0;", sm=80)
def _async_wait(k: Kernel) -> None:
    _copy(k)


# ---- Hopper --------------------------------------------------------------------------------------------------------------

_HOPPER = {"sm": 90, "lacking": "barriers in shared memory"}
_BULK = {"sm": 90, "lacking": "bulk copies"}


def _barrier(k: Kernel) -> Value:
    return k.emit(BarrierMake(type=Barrier(4)), "full").result


@case("mbar.make", ".shared .align 8 .b8 mbar_make_0_full_0[32];", **_HOPPER)
def _mbar_make(k: Kernel) -> None:
    k.emit(BarrierInit(barrier=_barrier(k), barrier_index=(1,), count=1))


@case("mbar.init", "mbarrier.init.shared.b64 [%rd], %r;", **_HOPPER)
def _mbar_init(k: Kernel) -> None:
    k.emit(BarrierInit(barrier=_barrier(k), barrier_index=("t",), count=2))


@case("mbar.arrive", "mbarrier.arrive.shared.b64 %rd, [%rd], %r;", **_HOPPER)
def _mbar_arrive(k: Kernel) -> None:
    k.emit(BarrierArrive(barrier=_barrier(k), barrier_index=("t",)))


@case("mbar.expect", "mbarrier.arrive.expect_tx.shared.b64 %rd, [%rd], %r;", **_HOPPER)
def _mbar_expect(k: Kernel) -> None:
    k.emit(BarrierExpect(barrier=_barrier(k), barrier_index=("t",), bytes=16384))


@case("mbar.wait", "mbarrier.try_wait.parity.shared.b64 %p, [%rd], %r;", **_HOPPER)
def _mbar_wait(k: Kernel) -> None:
    k.emit(BarrierWait(barrier=_barrier(k), barrier_index=("t",), parity=k.loaded("i32")))


def _boxes(k: Kernel, rank: int) -> tuple[Value, Value]:
    dims = (4,) * (rank - 2) + (256, 256)
    tensor = k.builder.parameter("a", Mem("bf16", dims, readonly=True))
    return k.shared("bf16", *(1,) * (rank - 2), 128, 64, swizzle="128B"), tensor


for _rank in (2, 3, 4, 5):
    _coordinates = _list("%r", _rank)

    @case(
        "bulk_copy.g2s",
        f"cp.async.bulk.tensor.{_rank}d.shared::cluster.global.mbarrier::complete_tx::bytes [%rd], [%rd, {_coordinates}], [%rd];",
        **_HOPPER,
    )
    def _bulk_load(k: Kernel, rank: int = _rank, **facts: object) -> None:
        shared, tensor = _boxes(k, rank)
        zeros = (0,) * rank
        box = (1,) * (rank - 2) + (128, 64)
        index = (*zeros[:-2], "t", 0)
        k.emit(
            BulkLoad(
                shared=shared, shared_index=zeros, tensor=tensor, tensor_index=index, barrier=_barrier(k), barrier_index=(0,), box=box, **facts
            )
        )

    @case("bulk_copy.s2g", f"cp.async.bulk.tensor.{_rank}d.global.shared::cta.bulk_group [%rd, {_coordinates}], [%rd];", **_BULK)
    def _bulk_store(k: Kernel, rank: int = _rank) -> None:
        shared, tensor = _boxes(k, rank)
        zeros = (0,) * rank
        k.emit(BulkStore(shared=shared, shared_index=zeros, tensor=tensor, tensor_index=zeros, box=(1,) * (rank - 2) + (128, 64)))


@case(
    "bulk_copy.g2s",
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%rd], [%rd, {%r, %r}], [%rd], %rs;",
    **_HOPPER,
)
def _bulk_multicast(k: Kernel) -> None:
    _bulk_load(k, 2, multicast=3)


@case(
    "bulk_copy.g2s",
    "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%rd], [%rd, {%r, %r, %r, %r}], [%rd], {%rs, %rs};",
    **_HOPPER,
)
def _bulk_window(k: Kernel) -> None:
    _bulk_load(k, 4, offsets=(1, 2))


@case("bulk_commit", "cp.async.bulk.commit_group;", **_BULK)
def _bulk_commit(k: Kernel) -> None:
    k.emit(BulkCommit())


for _read in (False, True):

    @case("bulk_wait", f"cp.async.bulk.wait_group{'.read' if _read else ''} 1;", **_BULK)
    def _bulk_wait(k: Kernel, read: bool = _read) -> None:
        k.emit(BulkWait(count=1, read=read))


_WARPGROUP = {"sm": 90, "lacking": "products of warpgroups", "specific": ("sm_90a",)}


@case("wgmma.fence", "wgmma.fence.sync.aligned;", **_WARPGROUP)
def _wgmma_fence(k: Kernel) -> None:
    k.emit(WarpgroupFence())


@case("wgmma.commit", "wgmma.commit_group.sync.aligned;", **_WARPGROUP)
def _wgmma_commit(k: Kernel) -> None:
    k.emit(WarpgroupCommit())


def _warpgroup(k: Kernel, dtype: str, columns: int, depth: int, registers: bool = False, **facts: object) -> None:
    to = "i32" if dtype in ("i8", "u8") else "f32"
    axes = {"i1": 2, "j0": 2, "j2": columns // 8}
    for name, extent in axes.items():
        k.builder.axis(name, extent)
    tile: HirType = Tile(to, tuple(axes.items()))
    acc = k.emit(Const(value=0, type=tile)).result
    width = 128 // {"f32": 4, "i8": 1, "u8": 1, "f8e4m3": 1, "f8e5m2": 1}.get(dtype, 2)
    a = k.shared(dtype, 64, width, swizzle="128B")
    b = k.shared(dtype, 256, width, swizzle="128B")
    if registers:
        k.builder.axis("r", 4)
        a = k.body.load(k.input("u32", 4, readonly=True), ["r"])
    k.emit(WarpgroupFence())
    index = {} if registers else {"a_index": (0, 0)}
    keep = k.const(False, "i1")
    m = k.emit(WarpgroupMma(accumulator=acc, a=a, b=b, b_index=(0, 0), keep=keep, shape=(64, columns, depth), **index, **facts)).result
    k.emit(WarpgroupCommit())
    d = k.emit(WarpgroupWait(values=(m,), count=0)).result
    out = k.builder.parameter("d", Mem(to, (2, 2, columns // 8)))
    k.body.store(out, d, ["i1", "j0", "j2"])


def _wgmma_line(columns: int, depth: int, kinds: str, tail: str, a: str = "%rd") -> str:
    product = f"wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.{kinds} {_list('%r', columns // 2)}, {a}, %rd, p{tail};"
    return f"{{ .reg .pred p; setp.ne.b32 p, %r, 0; {product} }}"


for _dtype, _columns, _depth, _kinds, _tail in (
    ("bf16", 256, 16, "f32.bf16.bf16", ", 1, 1, 0, 0"),
    ("bf16", 8, 16, "f32.bf16.bf16", ", 1, 1, 0, 0"),
    ("f16", 128, 16, "f32.f16.f16", ", 1, 1, 0, 0"),
    ("f32", 64, 8, "f32.tf32.tf32", ", 1, 1"),
    ("f8e4m3", 64, 32, "f32.e4m3.e4m3", ", 1, 1"),
    ("f8e5m2", 64, 32, "f32.e5m2.e5m2", ", 1, 1"),
    ("i8", 64, 32, "s32.s8.s8", ""),
    ("u8", 64, 32, "s32.u8.u8", ""),
):

    @case("wgmma.mma", _wgmma_line(_columns, _depth, _kinds, _tail), **_WARPGROUP)
    def _wgmma(k: Kernel, dtype: str = _dtype, columns: int = _columns, depth: int = _depth) -> None:
        _warpgroup(k, dtype, columns, depth)


@case("wgmma.mma", _wgmma_line(64, 16, "f32.bf16.bf16", ", 1, 1, 1, 1"), **_WARPGROUP)
def _wgmma_transposed(k: Kernel) -> None:
    _warpgroup(k, "bf16", 64, 16, transpose_a=True, transpose_b=True)


@case("wgmma.mma", _wgmma_line(64, 16, "f32.bf16.bf16", ", 1, 1, 0", "{%r, %r, %r, %r}"), **_WARPGROUP)
def _wgmma_registers(k: Kernel) -> None:
    _warpgroup(k, "bf16", 64, 16, registers=True)


@case("wgmma.wait", "wgmma.wait_group.sync.aligned 0;", **_WARPGROUP)
def _wgmma_wait(k: Kernel) -> None:
    _warpgroup(k, "bf16", 64, 16)


for _direction in ("inc", "dec"):
    _specific = {"sm": 90, "lacking": "registers handed from role to role", "specific": ("sm_90a", "sm_100a")}

    @case("setmaxnreg", f"setmaxnreg.{_direction}.sync.aligned.u32 64;", **_specific)
    def _setmaxnreg(k: Kernel, direction: str = _direction) -> None:
        k.emit(SetMaxRegisters(direction=direction, registers=64))
