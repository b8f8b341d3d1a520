"""The cases of places, barriers, shared memory, atomics and warps."""



from gpu_case import Kernel, T, case

from compiler.hir.affine import Affine
from compiler.hir.gpu import (
    Atomic,
    ClusterStore,
    ClusterSync,
    DynamicShared,
    Elect,
    Fence,
    FenceAsync,
    GridIndex,
    GridSync,
    MatchLanes,
    Redux,
    SharedAlloc,
    Shuffle,
    SyncThreads,
    Uniform,
    Vote,
    WarpIndex,
    WarpSync,
)
from compiler.hir.types import Mem, Space

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


@case("cluster_sync", "barrier.cluster.arrive.relaxed.aligned;", sm=90, lacking="clusters of blocks")
def _cluster_sync_of_barriers(k: Kernel) -> None:
    k.emit(ClusterSync(writes=False))


@case("cluster_sync", "barrier.cluster.wait.aligned;", sm=90, lacking="clusters of blocks")
def _cluster_sync(k: Kernel) -> None:
    k.emit(ClusterSync())


@case("cluster_store", "st.shared::cluster.b32 [%rd], %r;", sm=90, lacking="clusters of blocks")
@case("cluster_store", "mapa.shared::cluster.u64 %rd, %rd, 1;", sm=90, lacking="clusters of blocks")
def _cluster_store(k: Kernel) -> None:
    memory = k.emit(SharedAlloc(type=Mem("f32", (4,), space=Space.SHARED))).result
    k.emit(ClusterStore(mem=memory, value=k.loaded("f32"), index=(Affine((), 2),), rank=k.const(1, "i32")))


for _line in ("atom.acq_rel.gpu.global.add.u32 %r, [%rd], %r;", "ld.acquire.gpu.global.u32 %r, [%rd];"):

    @case("grid_sync", _line)
    def _grid_sync(k: Kernel) -> None:
        k.emit(GridSync())


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


@case("atomic", "red.relaxed.gpu.global.add.f32 [%rd], %r;")
@case("atomic", "red.release.cta.global.max.s32 [%rd], %r;")
def _atomic_whose_result_nobody_reads(k: Kernel) -> None:
    reals, ints = k.builder.parameter("m", Mem("f32", (16,))), k.builder.parameter("n", Mem("i32", (16,)))
    k.emit(Atomic(operation="add", mem=reals, index=(0,), value=k.loaded("f32")))
    k.emit(Atomic(operation="max", mem=ints, index=(0,), value=k.loaded("i32"), order="release", scope="block"))


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
        k.keep(k.emit(MatchLanes(mode=mode, value=k.loaded(dtype))).result)


@case("elect", "elect.sync %r|%p, -1;", sm=90)
def _elect(k: Kernel) -> None:
    k.keep(k.emit(Elect()).result)


for _dtype, _operations in (("i32", ("add.s32", "min.s32", "max.s32", "and.b32", "or.b32", "xor.b32")), ("u32", ("min.u32", "max.u32"))):
    for _word in _operations:

        @case("redux", f"redux.sync.{_word} %r, %r, %r;", sm=80)
        def _redux(k: Kernel, word: str = _word, dtype: str = _dtype) -> None:
            k.keep(k.emit(Redux(operation=word.split(".")[0], value=k.loaded(dtype))).result)
