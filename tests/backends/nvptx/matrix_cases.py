"""The cases of tensor cores, asynchronous copies, and what Hopper adds."""



from gpu_case import Kernel, T, case

from compiler.hir.affine import Affine
from compiler.hir.async_copy import AsyncCommit, AsyncCopy, AsyncWait
from compiler.hir.core import Const
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
from compiler.hir.lane_maps import WARP_KINDS, in_register
from compiler.hir.tensor_core import LoadMatrix, Mma, MmaLoad, MmaStore, StoreMatrix, WarpMma
from compiler.hir.types import Barrier, Fragment, FragmentRole, HirType, Mem, Tile
from compiler.hir.words import FloatPair, LoadWords, PermuteBytes, StoreWords

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


def register_product(k: Kernel, dtype: str, shape: tuple[int, int, int]) -> None:
    rows, columns, depth = shape
    sums = WARP_KINDS[dtype].sums
    axes = tuple((k.builder.axis(name, size), size) for name, size in (("c", columns // 8), ("h", 2), ("r", rows // 16), ("simd", 2)))
    zero = k.emit(Const(value=0.0 if sums != "i32" else 0, type=Tile(sums, axes))).result
    each = depth // (2 * in_register(dtype))
    values = [k.loaded("f64" if dtype == "f64" else "u32") for _ in range((rows // 16) * each + columns // 8 * each // 2)]
    made = k.emit(WarpMma(accumulator=zero, values=values, shape=shape, dtype=dtype)).result
    out = k.builder.parameter("out", Mem(sums, (128, 64)))
    k.body.store(out, made, ["t", Affine.of("simd") + Affine.of("h") * 2 + Affine.of("c") * 4 + Affine.of("r") * 16])


for _dtype, _shape, _piece, _types, _a, _b, _c, _sm in (
    ("f16", (16, 8, 16), "m16n8k16", "f32.f16.f16.f32", 4, 2, "%r", 80),
    ("f16", (32, 16, 16), "m16n8k8", "f32.f16.f16.f32", 2, 1, "%r", 75),
    ("bf16", (32, 16, 16), "m16n8k16", "f32.bf16.bf16.f32", 4, 2, "%r", 80),
    ("i8", (16, 8, 32), "m16n8k32", "s32.s8.s8.s32", 4, 2, "%r", 80),
    ("i8", (16, 8, 32), "m8n8k16", "s32.s8.s8.s32", 1, 1, "%r", 75),
    ("u8", (16, 16, 32), "m16n8k32", "s32.u8.u8.s32", 4, 2, "%r", 80),
    ("f32", (32, 16, 8), "m16n8k8", "f32.tf32.tf32.f32", 4, 2, "%r", 80),
    ("f64", (16, 8, 4), "m8n8k4", "f64.f64.f64.f64", 1, 1, "%rd", 80),
):
    _facts = {"sm": _sm}
    if _sm == 80 and _dtype in ("bf16", "f32", "f64"):
        _facts["lacking"] = f"tensor cores for {_dtype}"
    _sums = _list(_c, 2 if _piece.startswith("m8") else 4)
    _of = "%r" if _c == "%r" else "%rd"

    @case("warp_mma", f"mma.sync.aligned.{_piece}.row.col.{_types} {_sums}, {_list(_of, _a)}, {_list(_of, _b)}, {_sums};", **_facts)
    def _warp_mma(k: Kernel, dtype: str = _dtype, shape: tuple = _shape) -> None:
        register_product(k, dtype, shape)


# ---- copies --------------------------------------------------------------------------------------------------------------


def _copy(k: Kernel, **facts: object) -> None:
    s = k.shared("f32", 512)
    x = k.input("f32", 512, readonly=True, align=16)
    k.emit(AsyncCopy(destination=s, destination_index=(T * 4,), source=x, source_index=(T * 4,), **facts))
    k.emit(AsyncCommit())
    k.emit(AsyncWait(count=0))
    k.keep(k.body.load(s, ["t"]))


@case("load_words", "ld.global.nc.v4.b32 {%r, %r, %r, %r}, [%rd];")
def _load_words(k: Kernel) -> None:
    k.keep(*k.emit(LoadWords(mem=k.input("bf16", 4096, readonly=True, align=16), index=(T * 8,))).results)


@case("load_words", "prmt.b32.f4e %r, %r, %r, %r;")
def _load_words_from_anywhere(k: Kernel) -> None:
    k.keep(*k.emit(LoadWords(mem=k.input("bf16", 4096, readonly=True), index=(T,))).results)


@case("permute_bytes", "prmt.b32 %r, %r, %r, 0x7240;")
def _permute_bytes(k: Kernel) -> None:
    k.keep(k.emit(PermuteBytes(a=k.loaded("u32"), b=k.loaded("u32"), order=(0, 4, 2, 7))).result)


@case("float_pair", "{ .reg .b32 whole; lop3.b32 whole, %r, 0xf000f, %r, 0xea; fma.rn.bf16x2 %r, whole, %r, %r; }", sm=80, lacking="pairs of bf16")
def _float_pair(k: Kernel) -> None:
    k.keep(k.emit(FloatPair(value=k.loaded("u32"), bits=4, least=-8, dtype="bf16")).result)


@case("store_words", "st.shared.v4.b32 [%rd], {%r, %r, %r, %r};")
def _store_words(k: Kernel) -> None:
    s = k.shared("bf16", 1024, align=16)
    k.emit(StoreWords(mem=s, index=(T * 8,), values=[k.loaded("u32") for _ in range(4)]))
    k.use(s)


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


@case("mbar.arrive", "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%rd], %r;", **_HOPPER)
def _mbar_arrive_there(k: Kernel) -> None:
    k.emit(BarrierArrive(barrier=_barrier(k), barrier_index=("t",), rank=k.const(1, "i32"), scope="cluster"))


@case("mbar.arrive", "mbarrier.arrive.shared::cluster.b64 _, [%rd], %r;", **_HOPPER)
def _mbar_arrive_there_for_the_block(k: Kernel) -> None:
    k.emit(BarrierArrive(barrier=_barrier(k), barrier_index=("t",), rank=k.const(1, "i32")))


@case("mbar.expect", "mbarrier.arrive.expect_tx.shared.b64 %rd, [%rd], %r;", **_HOPPER)
def _mbar_expect(k: Kernel) -> None:
    k.emit(BarrierExpect(barrier=_barrier(k), barrier_index=("t",), bytes=16384))


@case("mbar.wait", "mbarrier.try_wait.parity.shared.b64 %p, [%rd], %r;", **_HOPPER)
def _mbar_wait(k: Kernel) -> None:
    k.emit(BarrierWait(barrier=_barrier(k), barrier_index=("t",), parity=k.loaded("i32")))


@case("mbar.wait", "mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p, [%rd], %r;", **_HOPPER)
def _mbar_wait_for_the_cluster(k: Kernel) -> None:
    k.emit(BarrierWait(barrier=_barrier(k), barrier_index=("t",), parity=k.loaded("i32"), scope="cluster"))


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
    _bulk_load(k, 4, offsets=("t", 2), lower=(-1, -1), upper=(-1, -1))


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
