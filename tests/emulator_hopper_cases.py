"""The emulator's cases of what Hopper adds: counting barriers, bulk copies, products of warpgroups, registers."""

import numpy as np

from tests.emulated import Array, Launch, emulated
from tests.emulator_cases import NUMPY, THREAD, integers

FIRST = THREAD + "%first = inbounds of=t below=1 : i1\n"

# ---- counting barriers ---------------------------------------------------------------------------------------------------


@emulated("mbar.make", "mbar.init", "mbar.arrive", "mbar.wait")
def arrivals() -> Launch:
    """A ring of one place between two warps: the first leaves numbers, the second takes and frees them, five times."""
    body = FIRST + """%s = shared_alloc : mem<32xi32, shared> %full = mbar.make : barrier %empty = mbar.make : barrier
    if %first { mbar.init %full[0] count=32 mbar.init %empty[0] count=32 } sync_threads
    %gives = inbounds of=t below=32 : i1
    if %gives {
      for k in 0..5 { %a = index of=1-k+2*floor((k)/2) : index %p = cast %a to=i32 : i32 mbar.wait %empty[0], %p
        %b = index of=100*k+t : index %v = cast %b to=i32 : i32 store %s[t], %v mbar.arrive %full[0] }
    } else {
      for j in 0..5 { %c = index of=j-2*floor((j)/2) : index %q = cast %c to=i32 : i32 mbar.wait %full[0], %q
        %w = load %s[63-t] : i32 store %out[j, t-32], %w mbar.arrive %empty[0] }
    }"""
    expected = (100 * np.arange(5)[:, None] + np.arange(32)[::-1]).astype(np.int32)
    return Launch("%out: mem<5x32xi32>", body, (np.zeros((5, 32), np.int32),), {0: expected}, (64,))


@emulated("mbar.arrive", "cluster_rank", "cluster_sync")
def arrivals_in_another_block() -> Launch:
    """Block 1 leaves a number in global memory and tells block 0, which waits at its own barrier."""
    body = FIRST + """%r = cluster_rank : index %full = mbar.make : barrier<2>
    if %first { mbar.init %full[0] count=1 mbar.init %full[1] count=32 } cluster_sync
    %zero = const 0 : i32 %low = inbounds of=r below=1 : i1
    if %low { mbar.wait %full[1], %zero scope=cluster %v = load %left[t] : i32 store %out[t], %v }
    else { %w = cast %t to=i32 : i32 store %left[t], %w mbar.arrive %full[1] rank=%zero scope=cluster }
    cluster_sync"""
    arguments = (np.zeros(32, np.int32), np.zeros(32, np.int32))
    parameters = "%left: mem<32xi32>, %out: mem<32xi32>"
    return Launch(parameters, body, arguments, {1: np.arange(32, dtype=np.int32)}, (32,), (2,), kernel=", cluster=[2, 1, 1]")


# ---- bulk copies ---------------------------------------------------------------------------------------------------------


def _cut(tensor: Array, corner: tuple[int, ...], box: tuple[int, ...]) -> Array:
    """A box, zeros outside, by padding."""
    around = [abs(at) + extent for at, extent in zip(corner, box, strict=True)]
    padded = np.pad(tensor, [(width, width) for width in around])
    return padded[tuple(slice(w + at, w + at + extent) for w, at, extent in zip(around, corner, box, strict=True))]


def _load(
    dtype: str, shape: tuple[int, ...], corner: tuple[int, ...], box: tuple[int, ...], swizzle: str = "", step: tuple[int, ...] = ()
) -> Launch:
    """One thread fetches a box, all read it."""
    held = integers(dtype, *shape, low=-100, high=100)
    rank, size, bytes_ = len(shape), int(np.prod(box)), int(np.prod(box)) * NUMPY[dtype].itemsize
    names = [f"e{n}" for n in range(rank)]
    facts = ", shared, align=1024" + (f', swizzle="{swizzle}"' if swizzle else "")
    dims = "x".join(map(str, box))
    loops = "".join(f"for {name} in 0..{extent} {{ " for name, extent in zip(names, box, strict=True))
    at, zeros, index = ", ".join(map(str, corner)), ", ".join(["0"] * rank), ", ".join(names)
    apart = step or (1,) * rank
    seen = _cut(held, corner, tuple(extent * far for extent, far in zip(box, apart, strict=True)))[tuple(slice(None, None, s) for s in apart)]
    steps = f" step=[{', '.join(map(str, step))}]" if step else ""
    body = FIRST + f"""%s = shared_alloc : mem<{dims}x{dtype}{facts}> %full = mbar.make : barrier
    if %first {{ mbar.init %full[0] count=1 }} sync_threads
    if %first {{ mbar.expect %full[0] bytes={bytes_}
      bulk_copy.g2s %s[{zeros}], %x[{at}], %full[0] box=[{", ".join(map(str, box))}]{steps} }}
    %zero = const 0 : i32 mbar.wait %full[0], %zero
    if %first {{ {loops} %v = load %s[{index}] : {dtype} store %out[{index}], %v {"} " * rank} }}"""
    parameters = f"%x: mem<{'x'.join(map(str, shape))}x{dtype}>, %out: mem<{dims}x{dtype}>"
    assert size <= 4096
    return Launch(parameters, body, (held, np.ones(box, held.dtype)), {1: seen})


@emulated("bulk_copy.g2s", "mbar.expect", dtype="f32", shape=(37,), corner=(0,), box=(16,))
@emulated("bulk_copy.g2s", "mbar.expect", dtype="bf16", shape=(19, 40), corner=(16, 24), box=(8, 64), swizzle="128B")
@emulated("bulk_copy.g2s", "mbar.expect", dtype="u8", shape=(3, 7, 48), corner=(1, -2, 32), box=(2, 8, 32), swizzle="32B")
@emulated("bulk_copy.g2s", "mbar.expect", dtype="f16", shape=(3, 4, 5, 64), corner=(1, 2, 3, 24), box=(2, 2, 4, 32), swizzle="64B")
@emulated("bulk_copy.g2s", "mbar.expect", dtype="f64", shape=(2, 2, 3, 3, 6), corner=(0, 1, 1, -1, 2), box=(2, 1, 2, 2, 4))
@emulated("bulk_copy.g2s", "mbar.expect", dtype="i32", shape=(5, 8), corner=(9, 0), box=(2, 4))
@emulated("bulk_copy.g2s", "mbar.expect", dtype="i64", shape=(0, 8), corner=(0, 0), box=(2, 4))
@emulated("bulk_copy.g2s", "mbar.expect", dtype="bf16", shape=(3, 9, 11, 64), corner=(1, -1, -2, 0), box=(1, 4, 5, 64), swizzle="128B", step=(1, 2, 3, 1))
def fetched(**facts: object) -> Launch:
    return _load(**facts)  # type: ignore[arg-type]


@emulated("bulk_copy.g2s", pad=(1, 1), taps=(3, 3), tap=(0, 2))
@emulated("bulk_copy.g2s", pad=(1, 2), taps=(3, 5), tap=(2, 4))
@emulated("bulk_copy.g2s", pad=(0, 0), taps=(2, 2), tap=(1, 1))
def windows(pad: tuple[int, int], taps: tuple[int, int], tap: tuple[int, int]) -> Launch:
    """The pixels that one tap of a convolution sees, an image after the other, from the first of the second row on."""
    images, high, wide, channels, pixels = 2, 5, 6, 16, 64
    x = integers("f16", images, high, wide, channels)
    (p, q), (r, s) = pad, taps
    upper = (p - (r - 1), q - (s - 1))
    padded = np.pad(x, ((0, 1), (p, p + r), (q, q + s), (0, 0)))
    rows, columns = high + 2 * p - r + 1, wide + 2 * q - s + 1
    seen = padded[:, tap[0] : tap[0] + rows, tap[1] : tap[1] + columns].reshape(-1, channels)[columns:]
    expected = np.zeros((pixels, channels), np.float16)
    expected[: min(pixels, len(seen))] = seen[:pixels]
    expected[images * rows * columns - columns :] = 0
    body = FIRST + f"""%s = shared_alloc : mem<{pixels}x{channels}xf16, shared, align=1024, swizzle="32B"> %full = mbar.make : barrier
    if %first {{ mbar.init %full[0] count=1 }} sync_threads
    if %first {{ mbar.expect %full[0] bytes={2 * pixels * channels}
      bulk_copy.g2s %s[0, 0], %x[0, {1 - p}, {-q}, 0], %full[0] box=[1, 1, {pixels}, {channels}] offsets=[{tap[0]}, {tap[1]}] \
lower=[{-p}, {-q}] upper=[{upper[0]}, {upper[1]}] }}
    %zero = const 0 : i32 mbar.wait %full[0], %zero
    for e in 0..{pixels} {{ for c in 0..{channels} {{ %v = load %s[e, c] : f16 store %out[e, c], %v }} }}"""
    parameters = f"%x: mem<{images}x{high}x{wide}x{channels}xf16>, %out: mem<{pixels}x{channels}xf16>"
    return Launch(parameters, body, (x, np.ones((pixels, channels), np.float16)), {1: expected}, (1,))


@emulated("bulk_copy.g2s", "cluster_rank")
def one_copy_for_a_cluster() -> Launch:
    """Each block fetches a half and sends it to both."""
    body = FIRST + """%s = shared_alloc : mem<2x32xf32, shared, align=128> %full = mbar.make : barrier %r = cluster_rank : index
    if %first { mbar.init %full[0] count=1 } cluster_sync
    if %first { mbar.expect %full[0] bytes=256 bulk_copy.g2s %s[r, 0], %x[r, 0], %full[0] box=[1, 32] multicast=3 }
    %zero = const 0 : i32 mbar.wait %full[0], %zero
    %v = load %s[0, t] : f32 %w = load %s[1, t] : f32 %o = sub %v, %w : f32 store %out[r, t], %o cluster_sync"""
    held = integers("f32", 2, 32)
    expected = np.array([held[0] - held[1]] * 2)
    arguments, parameters = (held, np.zeros((2, 32), np.float32)), "%x: mem<2x32xf32>, %out: mem<2x32xf32>"
    return Launch(parameters, body, arguments, {1: expected}, (32,), (2,), kernel=", cluster=[2, 1, 1]")


@emulated("bulk_copy.s2g", "bulk_commit", "bulk_wait", "fence_async", corner=(2, 0))
@emulated("bulk_copy.s2g", "bulk_commit", "bulk_wait", "fence_async", corner=(6, 8))
@emulated("bulk_copy.s2g", "bulk_commit", "bulk_wait", "fence_async", corner=(40, 0))
def stored(corner: tuple[int, int]) -> Launch:
    """A box goes back, clipped at the ends; its place is written again once it has been read."""
    body = FIRST + f"""%s = shared_alloc : mem<8x8xi16, shared, align=1024> %v = load %x[floor((t)/8), t-8*floor((t)/8)] : i16
    store %s[floor((t)/8), t-8*floor((t)/8)], %v fence_async sync_threads
    if %first {{ bulk_copy.s2g %s[0, 0], %out[{corner[0]}, {corner[1]}] box=[8, 8] bulk_commit bulk_wait count=0 read=true }}
    sync_threads %z = const -1 : i16 store %s[floor((t)/8), t-8*floor((t)/8)], %z
    if %first {{ bulk_wait count=0 }}"""
    held, out = integers("i16", 8, 8), np.full((10, 16), 9, np.int16)
    expected = np.pad(out, 100)
    expected[100 + corner[0] : 108 + corner[0], 100 + corner[1] : 108 + corner[1]] = held
    arguments = (held, out)
    return Launch("%x: mem<8x8xi16>, %out: mem<10x16xi16>", body, arguments, {1: expected[100:110, 100:116]}, (64,))


@emulated("bulk_copy.s2g", "bulk_commit", "bulk_wait", "fence_async", corner=(2, 0), step=(1, 1))
@emulated("bulk_copy.s2g", "bulk_commit", "bulk_wait", "fence_async", corner=(1, 8), step=(2, 1))
@emulated("bulk_copy.s2g", "bulk_commit", "bulk_wait", "fence_async", corner=(7, 0), step=(3, 1))
def stored_apart(corner: tuple[int, int], step: tuple[int, int]) -> Launch:
    """Rows of a box lie so far from each other, and end where memory does."""
    body = FIRST + f"""%s = shared_alloc : mem<8x8xi16, shared, align=1024> %v = load %x[floor((t)/8), t-8*floor((t)/8)] : i16
    store %s[floor((t)/8), t-8*floor((t)/8)], %v fence_async sync_threads
    if %first {{ bulk_copy.s2g %s[0, 0], %out[{corner[0]}, {corner[1]}] box=[8, 8] step=[{step[0]}, {step[1]}] bulk_commit bulk_wait count=0 }}"""
    held, out = integers("i16", 8, 8), np.full((19, 16), 9, np.int16)
    expected = out.copy()
    for row in range(8):
        if corner[0] + row * step[0] < 19:
            expected[corner[0] + row * step[0], corner[1] : corner[1] + 8] = held[row]
    return Launch("%x: mem<8x8xi16>, %out: mem<19x16xi16>", body, (held, out), {1: expected}, (64,))


# ---- products of a warpgroup ---------------------------------------------------------------------------------------------

_WIDTH = {"128B": 128, "64B": 64, "32B": 32}
_DEPTH = {"f16": 16, "bf16": 16, "f32": 8, "f8e4m3": 32, "f8e5m2": 32, "i8": 32, "u8": 32}


def _product(
    dtype: str, columns: int, swizzle: str, turned_a: bool = False, turned_b: bool = False, registers: bool = False, keep: bool = True
) -> Launch:
    """Sums that begin at 3, plus a product; operands come through ordinary stores."""
    depth, size, sums = _DEPTH[dtype], NUMPY[dtype].itemsize, "i32" if dtype in ("i8", "u8") else "f32"
    wide = _WIDTH[swizzle] // size
    a, b = integers(dtype, 64, depth), integers(dtype, columns, depth, seed=1)

    def lies(rows: int, matrix: Array, turned: bool) -> tuple[str, Array]:
        if not turned:
            return f"{rows}x{wide}", np.pad(matrix, ((0, 0), (0, wide - depth)))
        boxes = -(-rows // wide)
        padded = np.pad(matrix, ((0, boxes * wide - rows), (0, 0)))
        return f"{boxes}x{depth}x{wide}", padded.reshape(boxes, wide, depth).transpose(0, 2, 1)

    body, arguments, parameters = THREAD, [], []
    for name, rows, matrix, turned in (("a", 64, a, turned_a), ("b", columns, b, turned_b)):
        dims, held = lies(rows, matrix, turned)
        arguments.append(np.ascontiguousarray(held))
        parameters.append(f"%{name}: mem<{dims}x{dtype}>")
        index = ", ".join(f"{name}{n}" for n in range(held.ndim))
        loops = "".join(f"for {name}{n} in 0..{extent} {{ " for n, extent in enumerate(held.shape[1:], 1))
        body += f"""%s{name} = shared_alloc : mem<{dims}x{dtype}, shared, align=1024, swizzle="{swizzle}">
        for {name}0 in t..{held.shape[0]} step 128 {{ {loops} %v{name} = load %{name}[{index}] : {dtype} store %s{name}[{index}], %v{name}
        {"} " * held.ndim}\n"""
    left = "%sa[0, 0]" if not turned_a else "%sa[0, 0, 0]"
    if registers:
        words = arguments[0].reshape(64, -1).view(np.uint32)
        arguments[0], parameters[0] = words, f"%a: mem<64x{words.shape[1]}xu32>"
        body = body[body.index("%sb") :]
        body = THREAD + body + """%q = index of=floor((t)/32) : index %l = lane : index
        %w = load %a[16*q+floor((l)/4)+8*low, l-4*floor((l)/4)+4*high] : tile<high:2, low:2, u32>\n"""
        left = "%w[]"
    tile = f"tile<i1:2, j0:2, j2:{columns // 8}, {sums}>"
    body += f"""sync_threads fence_async %start = const 3 : {tile} %keep = const {str(keep).lower()} : i1 wgmma.fence
    %m = wgmma.mma %start, {left}, %sb[{"0, 0, 0" if turned_b else "0, 0"}], %keep shape=[64, {columns}, {depth}] \
transpose_a={str(turned_a).lower()} transpose_b={str(turned_b).lower()} : {tile}
    wgmma.commit %d = wgmma.wait %m count=0 : {tile} %u = index of=floor((t)/32) : index %k = lane : index
    store %out[16*u+floor((k)/4)+8*i1, 8*j2+2*k-8*floor((k)/4)+j0], %d"""
    product = a.astype(np.float64) @ b.astype(np.float64).T + (3 if keep else 0)
    arguments.append(np.zeros((64, columns), NUMPY[sums]))
    parameters.append(f"%out: mem<64x{columns}x{sums}>")
    axes = f"i1:2, j0:2, j2:{columns // 8}" + (", high:2, low:2" if registers else "")
    return Launch(", ".join(parameters), body, tuple(arguments), {2: product.astype(NUMPY[sums])}, (128,), axes=axes)


_PARTS = ("wgmma.fence", "wgmma.mma", "wgmma.commit", "wgmma.wait")


def _add_products() -> None:
    for dtype in _DEPTH:
        for columns, swizzle in ((8, "128B"), (64, "128B"), (48, "64B"), (256 if NUMPY[dtype].itemsize > 1 else 112, "128B")):
            emulated(*_PARTS, name=f"warpgroup_{dtype}_{columns}_{swizzle}", dtype=dtype, columns=columns, swizzle=swizzle)(_product)
        if dtype != "f32":
            emulated(*_PARTS, name=f"warpgroup_registers_{dtype}", dtype=dtype, columns=16, swizzle="128B", registers=True)(_product)
    emulated(*_PARTS, name="warpgroup_32B", dtype="bf16", columns=40, swizzle="32B")(_product)
    emulated(*_PARTS, name="warpgroup_starts", dtype="f16", columns=24, swizzle="64B", keep=False)(_product)
    for a, b in ((False, True), (True, False), (True, True)):
        for swizzle in _WIDTH:
            name = f"warpgroup_turned_{'a' * a}{'b' * b}_{swizzle}"
            emulated(*_PARTS, name=name, dtype="bf16", columns=96, swizzle=swizzle, turned_a=a, turned_b=b)(_product)


_add_products()


# ---- registers -----------------------------------------------------------------------------------------------------------


@emulated("setmaxnreg")
def registers_change_hands() -> Launch:
    """Two warpgroups wait until a third has given back what they take; 384 threads begin with 168."""
    body = THREAD + """%s = shared_alloc : mem<1xi32, shared> %gives = inbounds of=t below=128 : i1 %v = cast %t to=i32 : i32
    if %gives { setmaxnreg dec registers=24 } else { setmaxnreg inc registers=240 } store %out[t], %v"""
    return Launch("%out: mem<384xi32>", body, (np.zeros(384, np.int32),), {0: np.arange(384, dtype=np.int32)}, (384,))
