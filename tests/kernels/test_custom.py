"""Custom kernels: threads, blocks, shared memory and barriers, every atomic, warp operations; against NumPy and the interpreter of
threads."""

from typing import Any

import numpy as np
import pytest

from tests.kernels.checks import (
    DTYPES,
    FLOATS,
    LAYOUTS,
    NUMBERS,
    SIZES,
    Array,
    exactly,
    generator,
    holds,
    laid_out,
    launched,
    numbers,
    spread,
)


def custom(body: str, dtype: str = "f32", result: str = "tensor[N]", block: int = 64) -> str:
    """A program whose one input has N elements of the dtype."""
    lines = "\n".join("        " + line for line in body.strip().splitlines())
    return f"def f(x: tensor[N, {dtype}]) {{\n    compute(x) -> {result} @kernel(custom) @workgroup({block}) {{\n{lines}\n    }}\n}}\n"


@pytest.mark.parametrize("dtype", NUMBERS)
def test_a_thread_an_element(dtype: str) -> None:
    text = custom("let i = global_idx().x\nif i < N: out[i] = x[i] + x[i]", dtype, f"tensor[N, {dtype}]")
    for size, layout in spread(SIZES, LAYOUTS):
        x = numbers(dtype, size, small=True)
        exactly(launched(text, laid_out(x, layout)), x + x)


@pytest.mark.parametrize("block", (1, 32, 48, 128, 256))
def test_tree_sums_in_shared_memory(block: int) -> None:
    half = 1 << (block - 1).bit_length() - 1 if block > 1 else 0
    text = custom(
        f"""shared var part[{block}, f64]
let t = thread_idx().x
var s = 0.0f64
for p in global_idx().x..N step grid_dim().x * block_dim().x:
    s += x[p]
part[t] = s
barrier()
var half = {half}
while half > 0:
    if t < half and t + half < {block}: part[t] += part[t + half]
    barrier()
    half = half / 2
if t == 0: atomic_add(out[0], part[0])""",
        "f64",
        "tensor[1, f64]",
        block,
    )
    for size in SIZES:
        x = numbers("f64", size)
        holds(launched(text, x), np.array([x.sum()]), np.abs(x).sum(), size)


def test_blocks_reverse_their_part() -> None:
    text = custom(
        """shared var part[64]
let t = thread_idx().x
let i = global_idx().x
part[t] = i < N ? x[i] : 0.0
barrier()
if i < N: out[i] = part[63 - t]"""
    )
    for size in SIZES:
        x = numbers("f32", size)
        padded = np.concatenate([x, np.zeros(-size % 64, np.float32)]).reshape(-1, 64)
        exactly(launched(text, x), padded[:, ::-1].reshape(-1)[:size])


def test_tiles_are_transposed_through_shared_memory() -> None:
    text = """def f(x) {
    compute(x) -> tensor[W, H] @kernel(custom) @workgroup(8, 8) {
        shared var tile[8, 9]
        let tx = thread_idx().x
        let ty = thread_idx().y
        let c = block_idx().x * 8 + tx
        let r = block_idx().y * 8 + ty
        if r < H and c < W: tile[ty, tx] = x[r, c]
        barrier()
        let rr = block_idx().y * 8 + tx
        let cc = block_idx().x * 8 + ty
        if rr < H and cc < W: out[cc, rr] = tile[tx, ty]
    }
}
"""
    for shape, layout in spread(((1, 1), (8, 8), (33, 31), (5, 64), (64, 5)), LAYOUTS):
        x = numbers("f32", shape)
        exactly(launched(text, laid_out(x, layout)), x.T)


@pytest.mark.parametrize("block", (32, 128))
@pytest.mark.parametrize("dtype", ("u8", "i32"))
def test_histograms(dtype: str, block: int) -> None:
    text = f"""def f(img) {{
    compute(img) -> tensor[100, i32] @kernel(custom) @workgroup({block}) {{
        shared var bins[100, i32]
        let t = thread_idx().x
        for b in t..100 step block_dim().x: bins[b] = 0
        barrier()
        for p in global_idx().x..img.numel() step grid_dim().x * block_dim().x:
            atomic_add(bins[img[p] as i32], 1)
        barrier()
        for b in t..100 step block_dim().x:
            atomic_add(out[b], bins[b])
    }}
}}
"""
    for size in (*SIZES, 20_011):
        x = generator(size).integers(0, 100, size).astype(DTYPES[dtype])
        exactly(launched(text, x), np.bincount(x, minlength=100).astype(np.int32))


ATOMICS: dict[str, Any] = {
    "add": lambda start, x: start + x.sum(dtype=x.dtype), "sub": lambda start, x: start - x.sum(dtype=x.dtype),
    "min": lambda start, x: np.minimum(start, x.min()), "max": lambda start, x: np.maximum(start, x.max()),
    "and": lambda start, x: start & np.bitwise_and.reduce(x), "or": lambda start, x: start | np.bitwise_or.reduce(x),
    "xor": lambda start, x: start ^ np.bitwise_xor.reduce(x),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ("i32", "i64", "u32", "u64"))
@pytest.mark.parametrize("name", ATOMICS)
def test_atomics_of_ints(name: str, dtype: str) -> None:
    text = custom(f"let i = global_idx().x\nif i < N: atomic_{name}(out[i % 3], x[i])", dtype, f"tensor[3, {dtype}]")
    for size in (3, 31, 257, 1000):
        x = numbers(dtype, size)
        zero = DTYPES[dtype].type(0)
        with np.errstate(over="ignore"):
            exactly(launched(text, x), np.array([ATOMICS[name](zero, x[k::3]) for k in range(3)], DTYPES[dtype]))


@pytest.mark.parametrize("dtype", ("f32", "f64"))
@pytest.mark.parametrize("name", ("add", "min", "max"))
def test_atomics_of_floats(name: str, dtype: str) -> None:
    text = custom(f"let i = global_idx().x\nif i < N: atomic_{name}(out[i % 3], x[i])", dtype, f"tensor[3, {dtype}]")
    for size in (3, 31, 257, 1000):
        x = numbers(dtype, size)
        w = x.astype(float)
        holds(launched(text, x), np.array([ATOMICS[name](0.0, w[k::3]) for k in range(3)]), np.abs(w).sum() if name == "add" else None, size)


def test_exchange_cas_inc_dec_give_the_old_value() -> None:
    body = """let i = global_idx().x
if i < N:
    old[i] = {call}"""
    result = "(cell: tensor[1, i32], old: tensor[N, i32])"
    x = np.arange(1, 101, dtype=np.int32)
    cell, old = launched(custom(body.format(call="atomic_add(cell[0], 1)"), "i32", result), x)
    assert cell[0] == 100
    exactly(np.sort(old), np.arange(100, dtype=np.int32))
    cell, old = launched(custom(body.format(call="atomic_exchange(cell[0], x[i])"), "i32", result), x)
    exactly(np.sort(np.concatenate([cell, old])), np.arange(101, dtype=np.int32))
    cell, old = launched(custom(body.format(call="atomic_cas(cell[0], 0, x[i])"), "i32", result), x)
    assert (old == 0).sum() == 1
    assert cell[0] in x
    unsigned = result.replace("i32", "u32")
    cell, old = launched(custom(body.format(call="atomic_inc(cell[0], 9u32)"), "i32", unsigned), x)
    assert cell[0] == 0  # a hundred steps through 0..9
    exactly(np.sort(old), np.repeat(np.arange(10, dtype=np.uint32), 10))
    cell, old = launched(custom(body.format(call="atomic_dec(cell[0], 9u32)"), "i32", unsigned), x)
    assert cell[0] == 0
    exactly(np.sort(old), np.repeat(np.arange(10, dtype=np.uint32), 10))


LANES = np.arange(64) % 32


def warps(x: Array) -> Array:
    return x.reshape(-1, 32)


SHUFFLES: tuple[tuple[str, Any], ...] = (
    ("warp_shuffle(v, 5)", lambda x: np.repeat(warps(x)[:, 5], 32)),
    ("warp_shuffle(v, (lane_id() + 1) % 32)", lambda x: np.roll(warps(x), -1, 1).reshape(-1)),
    ("warp_shuffle_up(v, 3)", lambda x: np.concatenate([warps(x)[:, :3], warps(x)[:, :-3]], 1).reshape(-1)),
    ("warp_shuffle_down(v, 3)", lambda x: np.concatenate([warps(x)[:, 3:], warps(x)[:, -3:]], 1).reshape(-1)),
    ("warp_shuffle_xor(v, 4)", lambda x: warps(x)[:, np.arange(32) ^ 4].reshape(-1)),
)


@pytest.mark.parametrize("dtype", ("i32", "f32", "i64", "f64"))
@pytest.mark.parametrize(("call", "function"), SHUFFLES)
def test_shuffles(call: str, function: Any, dtype: str) -> None:
    text = custom(f"let i = global_idx().x\nlet v = x[i]\nout[i] = {call}", dtype, f"tensor[N, {dtype}]")
    for size in (64, 256):
        x = numbers(dtype, size)
        exactly(launched(text, x), function(x))


def test_votes() -> None:
    text = custom("let i = global_idx().x\nlet p = x[i] > 0\nout[i] = (warp_any(p) ? 1 : 0) + (warp_all(p) ? 2 : 0)", "i32", "tensor[N, i32]")
    x = np.concatenate([np.full(32, -1), np.full(32, 1), np.arange(-16, 16), np.full(32, 1)]).astype(np.int32)
    exactly(launched(text, x), np.repeat(np.array([0, 3, 1, 3], np.int32), 32))
    ballot = custom("let i = global_idx().x\nout[i] = warp_ballot(x[i] > 0)", "i32", "tensor[N, i32]")
    bits = (warps(x) > 0) @ (1 << np.arange(32, dtype=np.int64))
    exactly(launched(ballot, x), np.repeat(bits.astype(np.uint32).view(np.int32), 32))


@pytest.mark.parametrize("dtype", ("i32", "f32", "f64"))
@pytest.mark.parametrize("block", (32, 64, 128))
def test_sums_of_warps_and_blocks(dtype: str, block: int) -> None:
    warp = custom("let i = global_idx().x\nout[i] = warp_sum(x[i])", dtype, f"tensor[N, {dtype}]", block=block)
    whole = custom("let i = global_idx().x\nout[i] = block_sum(x[i])", dtype, f"tensor[N, {dtype}]", block=block)
    for size in (128, 256):
        x = numbers(dtype, size, small=True)
        magnitude = np.abs(x.astype(float)).sum()
        holds(launched(warp, x), np.repeat(warps(x).sum(1), 32), magnitude, 32)
        holds(launched(whole, x), np.repeat(x.reshape(-1, block).sum(1), block), magnitude, block)


def test_a_tiled_product_in_shared_memory() -> None:
    text = """def f(A, B) {
    compute(A, B) -> tensor[M, N] @kernel(custom) @workgroup(8, 8) {
        shared var a[8, 8]
        shared var b[8, 8]
        let tx = thread_idx().x
        let ty = thread_idx().y
        let r = block_idx().y * 8 + ty
        let c = block_idx().x * 8 + tx
        var s = 0.0f32
        for k0 in 0..K step 8:
            a[ty, tx] = r < M and k0 + tx < K ? A[r, k0 + tx] : 0.0
            b[ty, tx] = k0 + ty < K and c < N ? B[k0 + ty, c] : 0.0
            barrier()
            for k in 0..8: s += a[ty, k] * b[k, tx]
            barrier()
        if r < M and c < N: out[r, c] = s
    }
}
"""
    for m, n, k in ((8, 8, 8), (9, 7, 13), (33, 31, 17)):
        a, b = numbers("f32", (m, k), 1), numbers("f32", (k, n), 2)
        w, v = a.astype(float), b.astype(float)
        holds(launched(text, a, b), w @ v, np.abs(w) @ np.abs(v), k)


def test_threads_leave_early_and_loop_unevenly() -> None:
    text = custom(
        """let i = global_idx().x
if i < N:
    var s = 0
    for k in 0..i + 1:
        if k % 3 == 2: continue
        if k > 40: break
        s += x[k]
    out[i] = s""",
        "i32",
        "tensor[N, i32]",
    )
    for size in (1, 33, 100):
        x = numbers("i32", size, small=True)
        want = [sum(int(x[k]) for k in range(min(i + 1, 41)) if k % 3 != 2) for i in range(size)]
        exactly(launched(text, x), np.array(want, np.int32))


@pytest.mark.parametrize("dtype", FLOATS)
def test_results_start_at_zero(dtype: str) -> None:
    text = custom("let i = global_idx().x\nif i < N and i % 2 == 0: out[i] = x[i]", dtype, f"tensor[N, {dtype}]")
    x = numbers(dtype, 100)
    exactly(launched(text, x), np.where(np.arange(100) % 2 == 0, x, x.dtype.type(0)))
