"""The emulator's cases of places, barriers, memory, atomics, warps, fragments and copies."""

from typing import Any

import ml_dtypes
import numpy as np

from tests.emulated import Array, Launch, emulated

NUMPY: dict[str, Any] = {
    **{name: np.dtype(name.replace("i", "int").replace("u", "u")) for name in ("i8", "i16", "i32", "i64")},
    **{name: np.dtype(f"uint{name[1:]}") for name in ("u8", "u16", "u32", "u64")},
    "f16": np.dtype(np.float16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64), "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
THREAD = "%t = thread_idx x : index\n"


def integers(dtype: str, *shape: int, seed: int = 0, low: int = -4, high: int = 5) -> Array:
    """Small whole numbers of any type: sums of products are exact."""
    start = 0 if dtype.startswith("u") else low
    return np.random.default_rng(seed + sum(shape)).integers(start, high, shape).astype(NUMPY[dtype])


# ---- places --------------------------------------------------------------------------------------------------------------

_DIMS = [(operator, dim) for operator in ("thread_idx", "block_idx", "block_dim", "grid_dim") for dim in "xyz"]


@emulated("thread_idx", "block_idx", "block_dim", "grid_dim", "lane", "warp", "uniform")
def places() -> Launch:
    block, grid = (5, 3, 4), (2, 3, 2)
    body = "".join(f"%v{n} = {operator} {dim} : index\n" for n, (operator, dim) in enumerate(_DIMS))
    body += "%v12 = lane : index\n%v13 = warp : index\n%v14 = uniform %v6 : index\n"
    body += "".join(f"%i{n} = cast %v{n} to=i64 : i64\nstore %out[v5, v4, v3, v2, v1, v0, {n}], %i{n}\n" for n in range(15))
    out = np.zeros((*reversed(grid), *reversed(block), 15), np.int64)
    expected = out.copy()
    bz, by, bx, tz, ty, tx = np.indices(out.shape[:-1])
    number = tx + block[0] * (ty + block[1] * tz)
    for n, held in enumerate((tx, ty, tz, bx, by, bz, *block, *grid, number % 32, number // 32, block[0])):
        expected[..., n] = held
    return Launch("%out: mem<2x3x2x4x3x5x15xi64>", body, (out,), {0: expected}, block, grid)


@emulated("cluster_rank", "cluster_sync")
def ranks() -> Launch:
    """Each block leaves its rank, and reads the others' of its cluster behind the barrier."""
    body = """%b = block_idx x : index %c = block_idx y : index %r = cluster_rank : index %v = cast %r to=i32 : i32
    store %out[c, b], %v cluster_sync
    %o = load %out[c, 4*floor((b)/2)+1-b] : i32 store %seen[c, b], %o""".replace("4*floor((b)/2)+1-b", "4*floor((b)/2)+1-b")
    ranks = np.array([[0, 1, 0, 1], [2, 3, 2, 3]], np.int32)
    expected = ranks[:, [1, 0, 3, 2]]
    arguments = (np.zeros((2, 4), np.int32), np.zeros((2, 4), np.int32))
    parameters = "%out: mem<2x4xi32>, %seen: mem<2x4xi32>"
    return Launch(parameters, body, arguments, {0: ranks, 1: expected}, (1,), (4, 2), kernel=", cluster=[2, 2, 1]")


@emulated("cluster_store", "cluster_sync", "cluster_rank")
def told_to_others() -> Launch:
    """Each of four blocks tells the others' shared memory a number, and adds up what it was told."""
    body = """cluster_sync part=arrive writes=false
    %t = thread_idx x : index %b = block_idx x : index %r = cluster_rank : index %s = shared_alloc : mem<4xf32, shared>
    %h = index of=b+1 : index %v = cast %h to=f32 : f32 %to = cast %t to=i32 : i32 %some = inbounds of=t below=4 : i1
    cluster_sync part=wait writes=false
    cluster_store %s[r], %v, %to where=%some cluster_sync
    %w0 = load %s[0] : f32 %w1 = load %s[1] : f32 %w2 = load %s[2] : f32 %w3 = load %s[3] : f32
    %a = add %w0, %w1 : f32 %c = add %a, %w2 : f32 %d = add %c, %w3 : f32 store %out[b, t], %d"""
    expected = np.repeat(np.array([10.0] * 4 + [26.0] * 4, np.float32)[:, None], 32, 1)
    return Launch("%out: mem<8x32xf32>", body, (np.zeros((8, 32), np.float32),), {0: expected}, (32,), (8,), kernel=", cluster=[4, 1, 1]")


@emulated("grid_sync")
def whole_grid() -> Launch:
    """Twice: each block leaves a number, and adds up all that the others have left."""
    body = """%b = block_idx x : index %t = thread_idx x : index %v = cast %b to=i32 : i32 %zero = const 0 : i32
    for turn in 0..2 {
      store %left[turn, b, t], %v grid_sync
      %sum = for o in 0..5 carry(%s = %zero) { %w = load %left[turn, o, t] : i32 %n = add %s, %w : i32 yield %n }
      store %out[turn, b, t], %sum grid_sync }"""
    arguments = (np.zeros((2, 5, 33), np.int32), np.zeros((2, 5, 33), np.int32))
    return Launch("%left: mem<2x5x33xi32>, %out: mem<2x5x33xi32>", body, arguments, {1: np.full((2, 5, 33), 10, np.int32)}, (33,), (5,))


# ---- barriers and fences -------------------------------------------------------------------------------------------------

_REVERSED = """%s = shared_alloc : mem<96xi32, shared>
    %v = cast %t to=i32 : i32 store %s[t], %v BARRIER %w = load %s[FROM] : i32 store %out[t], %w"""


def _exchange(barrier: str, source: str, expected: list[int]) -> Launch:
    body = THREAD + _REVERSED.replace("BARRIER", barrier).replace("FROM", source)
    return Launch("%out: mem<96xi32>", body, (np.zeros(96, np.int32),), {0: np.array(expected, np.int32)}, (96,))


@emulated("sync_threads", "shared_alloc", barrier="sync_threads")
@emulated("sync_threads", barrier="sync_threads id=3")
@emulated("sync_threads", barrier="sync_threads id=2 count=96")
def block_barrier(barrier: str) -> Launch:
    return _exchange(barrier, "95-t", [95 - t for t in range(96)])


@emulated("warp_sync", barrier="warp_sync")
def warp_barrier(barrier: str) -> Launch:
    return _exchange(barrier, "64*floor((t)/32)+31-t", [t // 32 * 32 + 31 - t % 32 for t in range(96)])


@emulated("warp_sync")
def half_a_warp_meets() -> Launch:
    body = THREAD + """%s = shared_alloc : mem<16xi32, shared> %low = inbounds of=t below=16 : i1 %m = const 65535 : i32
    if %low { %v = cast %t to=i32 : i32 store %s[t], %v warp_sync %m %w = load %s[15-t] : i32 store %out[t], %w }"""
    return Launch("%out: mem<16xi32>", body, (np.zeros(16, np.int32),), {0: np.arange(16, dtype=np.int32)[::-1]})


@emulated("sync_threads")
def arrivals_do_not_wait() -> Launch:
    """One warp gives, and goes on; the other waits for it."""
    body = THREAD + """%s = shared_alloc : mem<32xi32, shared> %gives = inbounds of=t below=32 : i1 %v = cast %t to=i32 : i32
    if %gives { store %s[t], %v sync_threads id=1 count=64 arrive=true }
    else { sync_threads id=1 count=64 %w = load %s[63-t] : i32 store %out[t-32], %w }"""
    return Launch("%out: mem<32xi32>", body, (np.zeros(32, np.int32),), {0: np.arange(32, dtype=np.int32)[::-1]}, (64,))


_LAST = """store %left[#], %v fence SCOPE
    %limit = const 4 : u32 %old = atomic inc %count[0], %limit : u32 %last = eq %old, %limit : i1 %zero = const 0 : i32
    if %last { fence SCOPE
      %sum = for o in 0..5 carry(%s = %zero) { %w = load %left[o] : i32 %n = add %s, %w : i32 yield %n } store %out[0], %sum }"""


@emulated("fence", scope="block")
@emulated("fence", scope="device")
@emulated("fence", scope="system")
def the_last_one_adds(scope: str) -> Launch:
    """Each thread (or block of one) leaves a number behind a fence; the last one, by an atomic counter, adds them up."""
    place, block, grid = ("t", (5,), (1,)) if scope == "block" else ("b", (1,), (5,))
    body = THREAD + f"%b = block_idx x : index %v = cast %{place} to=i32 : i32 " + _LAST.replace("#", place).replace("SCOPE", scope)
    arguments = (np.zeros(5, np.int32), np.zeros(1, np.uint32), np.zeros(1, np.int32))
    expected = {1: np.zeros(1, np.uint32), 2: np.array([10], np.int32)}
    return Launch("%left: mem<5xi32>, %count: mem<1xu32>, %out: mem<1xi32>", body, arguments, expected, block, grid)


@emulated("fence")
def a_thread_sees_its_own_writes() -> Launch:
    body = THREAD + "%v = cast %t to=i32 : i32 store %x[t], %v fence thread %w = load %x[t] : i32 %d = add %w, %w : i32 store %x[t], %d"
    return Launch("%x: mem<32xi32>", body, (np.zeros(32, np.int32),), {0: 2 * np.arange(32, dtype=np.int32)})


@emulated("dynamic_shared")
def views_of_one_piece() -> Launch:
    body = """%a = dynamic_shared offset=0 : mem<4xu16, shared> %b = dynamic_shared offset=4 : mem<1xu32, shared>
    %low = const 4660 : u16 %high = const 22136 : u16 store %a[2], %low store %a[3], %high %w = load %b[0] : u32 store %out[0], %w"""
    return Launch("%out: mem<1xu32>", body, (np.zeros(1, np.uint32),), {0: np.array([0x56781234], np.uint32)}, (1,), shared_bytes=8)


# ---- atomics -------------------------------------------------------------------------------------------------------------

ORDERS = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
SCOPES = ("block", "device", "system")
INTEGERS = ("i32", "u32", "i64", "u64")
FLOATS = ("f32", "f64", "f16", "bf16")
ATOMICS = [
    *((op, dtype) for dtype in (*INTEGERS, "i16", "u16") for op in ("add", "sub", "min", "max", "and", "or", "xor", "exchange", "cas")),
    *((op, "u32") for op in ("inc", "dec")),
    *((op, dtype) for dtype in FLOATS for op in ("add", "sub", "min", "max", "exchange", "cas")),
]
"""Every operation on every type that has it."""

_NEW = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "exchange": lambda a, b: b,
    "cas": lambda a, b: b,
    "inc": lambda a, b: 0 if a >= b else a + 1,
    "dec": lambda a, b: b if a == 0 or a > b else a - 1,
}


def _atomics(operation: str, dtype: str, mem: str, start: str) -> Launch:
    """All orders and scopes, each on an element of its own."""
    float_ = dtype in FLOATS
    before, value = (2.5, -0.75) if float_ else (100, 7)
    wide = 1 << (8 * NUMPY[dtype].itemsize - (dtype[0] == "i"))
    if operation == "add" and not float_:
        before = wide - 3  # wraps
    count = len(ORDERS) * len(SCOPES)
    compare = " compare=%before" if operation == "cas" else ""
    pairs = [(order, scope) for order in ORDERS for scope in SCOPES]
    body = f"%before = const {before} : {dtype} %value = const {value} : {dtype}\n{start}"
    for n, (order, scope) in enumerate(pairs):
        body += f"%o{n} = atomic {operation} %{mem}[{n}], %value{compare} order={order} scope={scope} : {dtype} store %old[{n}], %o{n}\n"
    if mem == "s":
        body += f"for r in 0..{count} {{ %v = load %s[r] : {dtype} store %m[r], %v }}"
    new = _NEW[operation](before, value)
    if not float_:
        bits = 8 * NUMPY[dtype].itemsize
        new &= (1 << bits) - 1
        new -= (1 << bits) if dtype[0] == "i" and new >> bits - 1 else 0
    held = np.full(count, before).astype(NUMPY[dtype])
    expected = {0: np.array([new] * count).astype(NUMPY[dtype]), 1: held}
    return Launch(f"%m: mem<{count}x{dtype}>, %old: mem<{count}x{dtype}>", body, (held, np.zeros_like(held)), expected, (1,))


def _add_atomics() -> None:
    for operation, dtype in ATOMICS:

        @emulated("atomic", operation=operation, dtype=dtype)
        def atomic(operation: str, dtype: str) -> Launch:
            return _atomics(operation, dtype, "m", "")

        @emulated("atomic", operation=operation, dtype=dtype)
        def atomic_in_shared_memory(operation: str, dtype: str) -> Launch:
            start = f"%s = shared_alloc : mem<15x{dtype}, shared> for q in 0..15 {{ store %s[q], %before }}\n"
            return _atomics(operation, dtype, "s", start)


_add_atomics()


@emulated("atomic")
def compare_and_swap_fails() -> Launch:
    body = "%c = const 3 : i32 %v = const 9 : i32 %o = atomic cas %m[0], %v compare=%c : i32 store %m[1], %o"
    return Launch("%m: mem<2xi32>", body, (np.array([4, 0], np.int32),), {0: np.array([4, 4], np.int32)}, (1,))


@emulated("atomic")
def a_grid_counts() -> Launch:
    body = "%one = const 1 : u64 %o = atomic add %m[0], %one scope=system order=acq_rel : u64"
    return Launch("%m: mem<1xu64>", body, (np.zeros(1, np.uint64),), {0: np.array([96 * 7], np.uint64)}, (96,), (7,))


# ---- warps ---------------------------------------------------------------------------------------------------------------

WIDTHS = (1, 2, 4, 8, 16, 32)
_AMOUNTS = (0, 1, 3, 5)


def _lane_read(mode: str, lane: int, by: int, width: int) -> int:
    first = lane // width * width
    found = {"idx": first + by % width, "up": lane - by, "down": lane + by, "xor": lane ^ by}[mode]
    return found if first <= found < first + width else lane


def _shuffled(mode: str, held: Array, dtype: str, start: str, value: str, end: str) -> Launch:
    body, rows = THREAD + start, []
    for width in WIDTHS:
        for by in _AMOUNTS:
            n = len(rows)
            body += f"%d{n} = const {by} : i32 %r{n} = shuffle {mode} {value}, %d{n} width={width} : {dtype}\n{end.replace('#', str(n))}\n"
            rows.append([held[lane // 32 * 32 + _lane_read(mode, lane % 32, by, width)] for lane in range(64)])
    stored = np.array(rows).astype(held.dtype)
    name = next(name for name, kind in NUMPY.items() if kind == held.dtype)
    dims = "x".join(map(str, held.shape))
    parameters = f"%x: mem<{dims}x{name}>, %out: mem<{len(rows)}x{dims}x{name}>"
    return Launch(parameters, body, (held, np.zeros_like(stored)), {1: stored}, (64,), axes="p:2" if held.ndim > 1 else "")


def _add_shuffles() -> None:
    for mode in ("idx", "up", "down", "xor"):
        for dtype in ("i16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"):

            @emulated("shuffle", mode=mode, dtype=dtype)
            def shuffle(mode: str, dtype: str) -> Launch:
                held = (np.arange(64) * 3 - 50).astype(NUMPY[dtype])
                if dtype in ("i64", "u64"):
                    held += NUMPY[dtype].type(1 << 40)
                return _shuffled(mode, held, dtype, f"%v = load %x[t] : {dtype}\n", "%v", "store %out[#, t], %r#")

        @emulated("shuffle", mode=mode)
        def shuffle_pairs(mode: str) -> Launch:
            """Two 16-bit values in one register."""
            held = (np.arange(128) / 4).astype(np.float16).reshape(64, 2).view(np.uint16)
            start = "%v = load %x[t, p] : tile<p:2, u16> %w = pack2 %v over=p : u32\n"
            end = "%l# = cast %r# to=u16 : u16 store %out[#, t, 0], %l# %k# = const 16 : u32 %s# = shr %r#, %k# : u32 "
            end += "%h# = cast %s# to=u16 : u16 store %out[#, t, 1], %h#"
            return _shuffled(mode, held, "u32", start, "%w", end)


_add_shuffles()


def _words(masks: list[int]) -> Array:
    return np.array(masks, np.uint32).view(np.int32)


@emulated("vote")
def votes() -> Launch:
    body = THREAD + """%v = load %x[t] : i32 %z = const 0 : i32 %p = gt %v, %z : i1 %b = vote ballot %p : i32 store %out[0, t], %b
    %any = vote any %p : i1 %a4 = cast %any to=i32 : i32 store %out[1, t], %a4
    %all = vote all %p : i1 %l4 = cast %all to=i32 : i32 store %out[2, t], %l4"""
    held = np.concatenate([integers("i32", 32), np.zeros(32, np.int32), np.ones(32, np.int32)])
    warps = (held > 0).reshape(3, 32)
    ballots = _words([sum(1 << lane for lane in range(32) if warp[lane]) for warp in warps])
    expected = np.array([np.repeat(each, 32) for each in (ballots, warps.any(1), warps.all(1))], np.int32)
    return Launch("%x: mem<96xi32>, %out: mem<3x96xi32>", body, (held, np.zeros((3, 96), np.int32)), {1: expected}, (96,))


def _add_matches() -> None:
    for dtype in ("i16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"):

        @emulated("match", dtype=dtype)
        def matches(dtype: str) -> Launch:
            """Equal are equal bits: -0.0 is not 0.0, and a NaN is itself."""
            body = THREAD + f"%v = load %x[t] : {dtype} %m = match any %v : i32 store %out[0, t], %m %a = match all %v : i32 store %out[1, t], %a"
            held = np.array([lane % 3 for lane in range(32)] + [5] * 32).astype(NUMPY[dtype])
            if dtype in FLOATS:
                held[:4] = [-0.0, 0.0, np.nan, np.nan]
            bits = held.view(f"u{held.dtype.itemsize}").reshape(2, 32)
            masks = [sum(1 << other for other in range(32) if warp[other] == own) for warp in bits for own in warp]
            whole = [mask if mask == 0xFFFFFFFF else 0 for mask in masks]
            arguments = (held, np.zeros((2, 64), np.int32))
            return Launch(f"%x: mem<64x{dtype}>, %out: mem<2x64xi32>", body, arguments, {1: np.array([_words(masks), _words(whole)])}, (64,))


_add_matches()


@emulated("elect")
def elections() -> Launch:
    """One lane of each warp counts."""
    body = "%e = elect : i1 %one = const 1 : i32 if %e { %o = atomic add %m[0], %one : i32 }"
    return Launch("%m: mem<1xi32>", body, (np.zeros(1, np.int32),), {0: np.array([3], np.int32)}, (96,))


def _add_redux() -> None:
    ufuncs = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    for dtype in ("i32", "u32"):
        for operation in ufuncs:

            @emulated("redux", operation=operation, dtype=dtype)
            def redux(operation: str, dtype: str) -> Launch:
                limits = np.iinfo(NUMPY[dtype])
                held = np.random.default_rng(3).integers(limits.min, limits.max, 64, dtype=NUMPY[dtype], endpoint=True)
                totals = ufuncs[operation].reduce(held.reshape(2, 32), axis=1, dtype=NUMPY[dtype])
                body = THREAD + f"%v = load %x[t] : {dtype} %s = redux {operation} %v : {dtype} store %out[t], %s"
                arguments = (held, np.zeros_like(held))
                return Launch(f"%x: mem<64x{dtype}>, %out: mem<64x{dtype}>", body, arguments, {1: np.repeat(totals, 32)}, (64,))


_add_redux()


# ---- tensor cores --------------------------------------------------------------------------------------------------------

_SHAPES = ((16, 16, 16), (32, 8, 16), (8, 32, 16))
PRODUCTS = [
    *((dtype, to, shape) for dtype, to in (("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("i8", "i32"), ("u8", "i32")) for shape in _SHAPES),
    ("f32", "f32", (16, 16, 8)),
    ("f64", "f64", (8, 8, 4)),
    ("f16", "f32", (8, 8, 8)),
    ("bf16", "f32", (8, 8, 8)),
]


def _product(dtype: str, to: str, shape: tuple[int, int, int], left: str, right: str, a: Array, b: Array) -> Launch:
    """Matrices within others, as far in as the hardware's alignment asks."""
    rows, columns, depth = shape
    word = f"{rows}x{columns}x{depth}"
    c = integers(to, 64, 64, seed=1)
    x = a[4:, 32:][:rows, :depth] if left == "row" else a[4:, 32:][:depth, :rows].T
    y = b[4:, 32:][:depth, :columns] if right == "row" else b[4:, 32:][:columns, :depth].T
    expected = c.copy()
    place = expected[1 : 1 + rows, 16 : 16 + columns]
    place[...] = (x.astype(np.float64) @ y.astype(np.float64) + place.astype(np.float64)).astype(c.dtype)
    body = f"""%a = mma_load {left} %x[4, 32] : fragment<a, {word}, {dtype}> %b = mma_load {right} %y[4, 32] : fragment<b, {word}, {dtype}>
    %c = mma_load row %z[1, 16] : fragment<accumulator, {word}, {to}>
    %d = mma %a, %b, %c layout={left}.{right} : fragment<accumulator, {word}, {to}> mma_store row %z[1, 16], %d"""
    parameters = f"%x: mem<64x64x{dtype}>, %y: mem<64x64x{dtype}>, %z: mem<64x64x{to}>"
    return Launch(parameters, body, (a, b, c), {2: expected})


def _add_products() -> None:
    for dtype, to, shape in PRODUCTS:
        for layout in ("row.row", "row.col", "col.row", "col.col"):

            @emulated("mma_load", "mma", "mma_store", dtype=dtype, to=to, shape=shape, layout=layout)
            def product(dtype: str, to: str, shape: tuple[int, int, int], layout: str) -> Launch:
                return _product(dtype, to, shape, *layout.split("."), integers(dtype, 64, 64), integers(dtype, 64, 64, seed=2))


_add_products()


@emulated("mma_load", "mma")
def operands_are_rounded_to_tf32() -> Launch:
    """To ten bits, halves away from zero."""
    a, b = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    a[4, 32:35] = 1 + 2.0**-11, 1 + 2.0**-12, -(1 + 2.0**-11)
    b[4:7, 32:35] = np.eye(3)
    made = _product("f32", "f32", (16, 16, 8), "row", "row", a, b)
    expected = made.arguments[2].copy()
    expected[1, 16:19] += np.array([1 + 2.0**-10, 1, -(1 + 2.0**-10)], np.float32)
    return Launch(made.parameters, made.body, made.arguments, {2: expected})


def _add_moves() -> None:
    for count in (1, 2, 4):
        for transpose in (False, True):

            @emulated("ldmatrix", "stmatrix", count=count, transpose=transpose)
            def matrices_move(count: int, transpose: bool) -> Launch:
                """Through registers and back; what is loaded transposed is stored as it is."""
                names = ", ".join(f"%r{n}" for n in range(count))
                body = THREAD + f"""%s = shared_alloc : mem<32x8xf16, shared> %d = shared_alloc : mem<32x8xf16, shared>
                for e in 0..8 {{ %v = load %x[t, e] : f16 store %s[t, e], %v store %d[t, e], %v }} sync_threads
                {names} = ldmatrix %s[t, 0] count={count} transpose={str(transpose).lower()} : {", ".join(["u32"] * count)}
                stmatrix %d[t, 0], {names} sync_threads
                for g in 0..8 {{ %w = load %d[t, g] : f16 store %out[t, g], %w }}"""
                held = (np.arange(256) / 8).astype(np.float16).reshape(32, 8)
                expected = held.copy()
                if transpose:
                    moved = expected.reshape(4, 8, 8)[:count]
                    moved[...] = moved.transpose(0, 2, 1).copy()
                arguments = (held, np.zeros_like(held))
                return Launch("%x: mem<32x8xf16>, %out: mem<32x8xf16>", body, arguments, {1: expected})


_add_moves()


# ---- products from registers ---------------------------------------------------------------------------------------------


def _add_register_products() -> None:
    for dtype, sums, depth in (("f16", "f32", 16), ("bf16", "f32", 16), ("i8", "i32", 32), ("u8", "i32", 32), ("f32", "f32", 8), ("f64", "f64", 4), ("f64", "f64", 8),
                               ("f64", "f64", 16)):  # fmt: skip

        @emulated("warp_mma", dtype=dtype, depth=depth)
        def products_from_registers(dtype: str, depth: int, sums: str = sums) -> Launch:
            """Two blocks of rows by two of columns, on sums that are there."""
            rows, columns = 32, 16
            a, b, c = integers(dtype, rows, depth), integers(dtype, columns, depth, seed=1), integers(sums, rows, columns, seed=2)
            loads, left, right = (_elements if dtype == "f64" else _by_matrices)(dtype, depth)
            tile = f"tile<c:2, h:2, r:2, simd:2, {sums}>"
            place = "floor((t)/4)+8*h+16*r, 2*t-8*floor((t)/4)+simd+8*c"
            body = THREAD + loads + f"""%s = load %C[{place}] : {tile}
            %d = warp_mma %s, {", ".join(left + right)} shape=[{rows}, {columns}, {depth}] dtype={dtype} : {tile}
            store %C[{place}], %d"""
            parameters = f"%A: mem<{rows}x{depth}x{dtype}>, %B: mem<{columns}x{depth}x{dtype}>, %C: mem<{rows}x{columns}x{sums}>"
            expected = (a.astype(np.float64) @ b.astype(np.float64).T + c).astype(c.dtype)
            return Launch(parameters, body, (a, b, c), {2: expected}, axes="c:2, h:2, r:2, simd:2")


def _elements(dtype: str, depth: int) -> tuple[str, list[str], list[str]]:
    """Registers of one element each."""
    text, left, right = "", [], []
    for found, mem, high, blocks in ((left, "A", 2, 2), (right, "B", 1, 2)):
        for number in range(depth // 4 * high * blocks):
            block, within = divmod(number, depth // 4 * high)
            row, deep = 8 * (block * high + within % high), 4 * (within // high)
            found.append(f"%{mem.lower()}{number}")
            text += f"{found[-1]} = load %{mem}[floor((t)/4)+{row}, t-4*floor((t)/4)+{deep}] : {dtype}\n"
    return text, left, right


def _by_matrices(dtype: str, depth: int) -> tuple[str, list[str], list[str]]:
    """Registers of several elements, from shared memory."""
    text = f"%a = shared_alloc : mem<32x{depth}x{dtype}, shared, align=128> %b = shared_alloc : mem<16x{depth}x{dtype}, shared, align=128>\n"
    text += f"""for e in 0..{depth} {{ %v = load %A[t, e] : {dtype} store %a[t, e], %v }}
    %few = inbounds of=t below=16 : i1 if %few {{ for g in 0..{depth} {{ %w = load %B[t, g] : {dtype} store %b[t, g], %w }} }} sync_threads\n"""
    left, right = [f"%a{n}" for n in range(8)], [f"%b{n}" for n in range(4)]
    registers = ", ".join(["u32"] * 4)
    for block in range(2):
        row = f"t-16*floor((t)/16)+{16 * block}"
        text += f"{', '.join(left[4 * block : 4 * block + 4])} = ldmatrix %a[{row}, {depth // 2}*floor((t)/16)] count=4 : {registers}\n"
    row, deep = "t-8*floor((t)/8)+8*floor((t)/16)", f"{depth // 2}*floor((t)/8)-{depth}*floor((t)/16)"
    return text + f"{', '.join(right)} = ldmatrix %b[{row}, {deep}] count=4 : {registers}\n", left, right


_add_register_products()


# ---- copies --------------------------------------------------------------------------------------------------------------


def _add_words() -> None:
    for dtype, count, valid in (("u8", 4, 16), ("u8", 4, 5), ("i8", 2, 7), ("bf16", 4, 8), ("bf16", 4, 3), ("f16", 1, 1), ("f16", 2, 4),
                                ("f32", 4, 3), ("f64", 4, 1), ("f64", 2, 1)):  # fmt: skip

        @emulated("load_words", "store_words", dtype=dtype, count=count, valid=valid)
        def words(dtype: str, count: int, valid: int) -> Launch:
            """From every place on, aligned or not, more and fewer elements than there are at most."""
            each = 4 * count // np.dtype(NUMPY[dtype]).itemsize
            names = ", ".join(f"%w{n}" for n in range(count))
            body = THREAD + f"""%s = shared_alloc : mem<32x{each}x{dtype}, shared, align=16>
            %n = index of={valid} : index {names} = load_words %x[t] valid=%n count={count} : {", ".join(["u32"] * count)}
            store_words %s[t, 0], {names}
            for e in 0..{each} {{ %v = load %s[t, e] : {dtype} store %out[t, e], %v }}"""
            held = integers(dtype, 32 + each)
            expected = np.array([held[t : t + each] for t in range(32)])
            expected[:, valid:] = 0
            return Launch(f"%x: mem<{32 + each}x{dtype}>, %out: mem<32x{each}x{dtype}>", body, (held, np.zeros_like(expected)), {1: expected})


_add_words()


@emulated("permute_bytes")
def bytes_of_two_registers() -> Launch:
    held = np.random.default_rng(5).integers(0, 2**32, (32, 2)).astype(np.uint32)
    body = THREAD + """%a = load %x[t, 0] : u32 %b = load %x[t, 1] : u32
    %r = permute_bytes %a, %b order=[7, 0, 3, 4] : u32
    store %out[t], %r"""
    every = held.view(np.uint8).reshape(32, 8)
    expected = np.ascontiguousarray(every[:, [7, 0, 3, 4]]).view(np.uint32)[:, 0]
    return Launch("%x: mem<32x2xu32>, %out: mem<32xu32>", body, (held, np.zeros(32, np.uint32)), {1: expected})


@emulated("float_pair", dtype="bf16", bits=7, least=-8)
@emulated("float_pair", dtype="bf16", bits=4, least=-8)
@emulated("float_pair", dtype="bf16", bits=1, least=129)
@emulated("float_pair", dtype="f16", bits=10, least=-512)
def numbers_of_a_register(dtype: str, bits: int, least: int) -> Launch:
    """Any bits above them."""
    whole = np.random.default_rng(6).integers(0, 2**16, (32, 2))
    body = THREAD + f"%a = load %x[t] : u32 %r = float_pair %a bits={bits} least={least} dtype={dtype} : u32 store %out[t], %r"
    expected = np.ascontiguousarray((whole % 2**bits + least).astype(NUMPY[dtype])).view(np.uint32)[:, 0]
    held = np.ascontiguousarray(whole.astype(np.uint16)).view(np.uint32)[:, 0]
    return Launch("%x: mem<32xu32>, %out: mem<32xu32>", body, (held, np.zeros(32, np.uint32)), {1: expected})


def _add_copies() -> None:
    for size in (4, 8, 16):
        for hint in ("default", "l1", "l2", "streaming"):

            @emulated("async_copy", "async_commit", "async_wait", size=size, hint=hint)
            def copies(size: int, hint: str) -> Launch:
                """Odd threads copy zeros."""
                count = size // 2
                body = THREAD + f"""%s = shared_alloc : mem<{32 * count}xi16, shared> %f = load %odd[t] : i16 %z = const 0 : i16 %even = eq %f, %z : i1
                async_copy %s[{count}*t], %x[{count}*t] bytes={size} hint={hint} where=%even async_commit group=0 async_wait count=0
                sync_threads for e in 0..{count} {{ %v = load %s[32*e+t] : i16 store %out[32*e+t], %v }}"""
                held, odd = np.arange(32 * count, dtype=np.int16) + 1, np.arange(32, dtype=np.int16) % 2
                expected = held * (1 - np.repeat(odd, count))
                parameters = f"%x: mem<{32 * count}xi16>, %odd: mem<32xi16>, %out: mem<{32 * count}xi16>"
                return Launch(parameters, body, (held, odd, np.zeros_like(held)), {2: expected})


_add_copies()
