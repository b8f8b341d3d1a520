"""Kernels of every kind with inputs of any dtype and size and what NumPy makes of them in float64: what devices are held against. `n` is
the size that varies, `m` one that stays."""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen

from tests.kernels.checks import DTYPES, FLOATS, LAYOUTS, Array, compiled, generator, holds, laid_out, numbers, spread, wide
from tests.kernels.test_attention import THREE_PASSES, attended
from tests.kernels.test_conv2d import convolved
from tests.kernels.test_custom import custom
from tests.kernels.test_fused import STEPS, softmax
from tests.kernels.test_matmul import product
from tests.kernels.test_reduce import reducing
from tests.kernels.test_scan_sort import order, scanned, scanning, sorting
from zynml import ZynMLError

SIZES = (0, 1, 3, 31, 33, 1000)

Inputs = Callable[[str, int, int], tuple[Array, ...]]


@frozen
class Expected:
    """A value, the sum of its terms' absolute values (None: its own), and their number: what the golden rule wants to know."""

    value: Any
    magnitude: Any = None
    terms: float = 1


@frozen
class DeviceKernel:
    """A program whose function is `f`, for inputs of a dtype; `zero` in its text stands for the dtype's. `expected` is given the inputs."""

    text: str
    inputs: Inputs
    expected: Callable[..., Expected]
    dtypes: tuple[str, ...]
    sizes: tuple[int, ...] = SIZES
    emulated: tuple[int, ...] = (0, 1, 3, 31, 33)
    """Sizes that the emulator runs in a second or two, those that are among `sizes`."""

    def sizes_on(self, device: str) -> tuple[int, ...]:
        return tuple(n for n in self.emulated if n >= self.sizes[0]) if device == "emulator" else self.sizes

    def program(self, dtype: str) -> str:
        return self.text.replace("ZERO", "0.0" if dtype in FLOATS else "0").replace("DTYPE", dtype)


def vector(dtype: str, n: int, m: int) -> tuple[Array, ...]:
    return (numbers(dtype, n, small=True),)


def rows(dtype: str, n: int, m: int) -> tuple[Array, ...]:
    return (numbers(dtype, (n, m), small=True),)


def columns(dtype: str, n: int, m: int) -> tuple[Array, ...]:
    return (numbers(dtype, (m, n), small=True),)


def with_nan(dtype: str, n: int, m: int) -> tuple[Array, ...]:
    """Two vectors with numbers that are none, infinities and zeros of both signs."""
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, np.nan], np.float64)
    made = []
    for seed in (1, 2):
        x = numbers(dtype, n, seed)
        places = generator(n, seed).permutation(n)[: len(special)]
        x[places] = special[: len(places)].astype(x.dtype)
        made.append(x)
    return tuple(made)


def indices(dtype: str, n: int, m: int) -> tuple[Array, ...]:
    return numbers(dtype, m, small=True), generator(n, m).integers(0, m, n).astype(np.int32)


def summed(x: Array, axis: int | None = None) -> Expected:
    if x.dtype.kind in "iu":
        return Expected(x.astype(np.int64).sum(axis))
    (w,) = wide(x)
    return Expected(w.sum(axis), np.abs(w).sum(axis), x.size if axis is None else x.shape[axis])


def alone(x: Array) -> Expected:
    """The sum as a tensor of one element."""
    found = summed(x)
    return Expected(np.atleast_1d(found.value), found.magnitude, found.terms)


def multiplied(a: Array, b: Array) -> Expected:
    if a.dtype.kind in "iu":
        return Expected(a.astype(np.int64) @ b.astype(np.int64))
    w, v = wide(a, b)
    return Expected(w @ v, np.abs(w) @ np.abs(v), a.shape[-1])


def scaled(x: Array, y: Array) -> Expected:
    w, v = wide(x, y)
    return Expected(w * v)


def bent(x: Array) -> Expected:
    (w,) = wide(x)
    return Expected(0.5 * w * (1 + np.tanh(0.8 * (w + 0.04 * w**3))), np.abs(w), 4)


def larger(x: Array, y: Array) -> Expected:
    with np.errstate(invalid="ignore"):
        return Expected(np.maximum(*wide(x, y)))


def averaged(x: Array) -> Expected:
    (w,) = wide(x)
    return Expected(w.mean(0), np.abs(w).mean(0), len(x))


def least(x: Array) -> Expected:
    """The first of the least: a pair."""
    (w,) = wide(x)
    place = int(np.argmin(w))
    return Expected((w[place] if x.dtype.kind != "i" else x[place], place))


def windowed(x: Array, w: Array, **options: int) -> Expected:
    if x.dtype.kind in "iu":
        return Expected(convolved(x.astype(np.int64), w.astype(np.int64), **options))
    u, v = wide(x, w)
    return Expected(convolved(u, v, **options), convolved(np.abs(u), np.abs(v), **options), w[0].size)


def by_channel(x: Array, w: Array) -> Expected:
    return windowed(x, w[:, None], groups=len(w))


def weighted(q: Array, k: Array, v: Array, causal: bool = False) -> Expected:
    visible = np.tri(len(q), len(k), dtype=bool) if causal else None
    value, magnitude = attended(q, k, v, visible)
    return Expected(value, magnitude * 4, len(k) * q.shape[-1])


def row_chain(x: Array) -> Expected:
    value = softmax(x)
    name = next(name for name, dtype in DTYPES.items() if dtype == x.dtype)
    return Expected(value, value * STEPS[name], x.shape[1])


def turned_rows(x: Array) -> Expected:
    w = x.astype(np.int64) if x.dtype.kind in "iu" else wide(x)[0]
    total = w.sum(1, keepdims=True)
    return Expected(w[:, ::-1] * 2 + total, np.abs(w[:, ::-1]) * 2 + np.abs(w).sum(1, keepdims=True), x.shape[1])


def running(x: Array, operator: str = "+", axis: int = 0, **options: bool) -> Expected:
    if x.dtype.kind in "iu":
        kept = x.dtype if operator == "max" else np.dtype(np.int64)
        return Expected(scanned(operator, x.astype(kept), axis, **options))
    (w,) = wide(x)
    return Expected(scanned(operator, w, axis, **options), np.abs(w).sum(axis, keepdims=True) if operator == "+" else None, x.shape[axis])


def in_order(x: Array, descending: bool = False) -> Expected:
    places = order(x, 0, descending)
    return Expected((np.take_along_axis(x, places, 0), places))


def collatz(x: Array) -> Expected:
    def steps(n: int) -> int:
        count = 0
        while n != 1:
            n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
        return count

    return Expected(np.array([steps(int(n)) for n in x], np.int64))


def counted(x: Array) -> Expected:
    return Expected(np.bincount(x, minlength=100))


def reversed_parts(x: Array) -> Expected:
    padded = np.concatenate([x, np.zeros(-len(x) % 64, x.dtype)]).reshape(-1, 64)
    return Expected(padded[:, ::-1].reshape(-1)[: len(x)].astype(np.float64))


GUARDED = """def f(X, W) {
    compute(X, W) @kernel(conv2d, padding=1, stride=2) {
        for n in 0..N, o in 0..F, y in 0..OH, x in 0..OW:
            var s = ZERO
            for c in 0..C, r in 0..R, q in 0..S:
                let v = y * stride + r - padding
                let u = x * stride + q - padding
                if v >= 0 and v < IH and u >= 0 and u < IW:
                    s += X[n, c, v, u] * W[o, c, r, q]
            out[n, o, y, x] = s
    }
}
"""

DEPTHWISE = """def f(X, W) {
    compute(X, W) @kernel(depthwise) {
        for n in 0..N, c in 0..C, y in 0..H, x in 0..V:
            var s = ZERO
            for r in 0..R, q in 0..S:
                s += X[n, c, y + r, x + q] * W[c, r, q]
            out[n, c, y, x] = s
    }
}
"""

CAUSAL = THREE_PASSES.format(inputs="", options=", causal=true", range="0..i + 1", score="s / sqrt(D)")

ROWS_IN_SHARED_MEMORY = """def f(x: tensor[M, N, DTYPE]) {
    compute(x) -> tensor[M, N, DTYPE] @kernel(fused) {
        for i in 0..M:
            shared var row[N, DTYPE]
            var sum = ZERO as DTYPE
            for j in 0..N:
                row[j] = x[i, j] + x[i, j]
                sum += x[i, j]
            barrier()
            for j in 0..N: out[i, j] = row[N - 1 - j] + sum
    }
}
"""

SOFTMAX = """def f(x) {
    compute(x) @kernel(fused) {
        for i in 0..M:
            var top = -inf
            for j in 0..N: top = max(top, x[i, j])
            var total = 0.0
            for j in 0..N: total += exp(x[i, j] - top)
            for j in 0..N: out[i, j] = exp(x[i, j] - top) / total
    }
}
"""

HISTOGRAM = """def f(x: tensor[N, DTYPE]) {
    compute(x) -> tensor[100, i32] @kernel(custom) @workgroup(96) {
        shared var bins[100, i32]
        let t = thread_idx().x
        for b in t..100 step block_dim().x: bins[b] = 0
        barrier()
        for p in global_idx().x..N step grid_dim().x * block_dim().x: atomic_add(bins[x[p] as i32], 1)
        barrier()
        for b in t..100 step block_dim().x: atomic_add(out[b], bins[b])
    }
}
"""

TREE = custom(
    """shared var part[128, DTYPE]
let t = thread_idx().x
var s = ZERO as DTYPE
for p in global_idx().x..N step grid_dim().x * block_dim().x: s += x[p]
part[t] = s
barrier()
var half = 64
while half > 0:
    if t < half: part[t] += part[t + half]
    barrier()
    half = half / 2
if t == 0: atomic_add(out[0], part[0])""",
    "DTYPE",
    "tensor[1, DTYPE]",
    128,
)

WARPS = custom(
    """let i = global_idx().x
let v = i < N ? x[i] : ZERO as DTYPE
let s = warp_sum(v)
if lane_id() == 0: atomic_add(out[0], s)""",
    "DTYPE",
    "tensor[1, DTYPE]",
    96,
)

PARTS = custom(
    """shared var part[64, DTYPE]
let t = thread_idx().x
let i = global_idx().x
part[t] = i < N ? x[i] : ZERO as DTYPE
barrier()
if i < N: out[i] = part[63 - t]""",
    "DTYPE",
    "tensor[N, DTYPE]",
)

COLLATZ = """def f(x) {
    compute(x) {
        for i in 0..N:
            var n = x[i]
            var count = 0
            while n != 1:
                n = n % 2 == 0 ? n / 2 : 3 * n + 1
                count += 1
            out[i] = count
    }
}
"""

ALL = (*FLOATS, "i8", "i32", "i64", "u8", "u16", "u64")
SUMS = ("f32", "f64", "f16", "bf16", "i32", "i64", "u32")
NOT_EMPTY = SIZES[1:]
FEW_BLOCKS = (0, 1, 3, 31, 33, 257)

KERNELS = {
    "elementwise": DeviceKernel(
        "def f(x, y) { compute(x, y) @kernel(elementwise) { for i in 0..M, j in 0..N: out[i, j] = x[i, j] * y[j] } }",
        lambda dtype, n, m: (*rows(dtype, n, m), numbers(dtype, m, "y", small=True)),
        scaled,
        ALL,
    ),
    "bent": DeviceKernel(
        "def f(x) { compute(x) { for i in 0..N: out[i] = 0.5 * x[i] * (1.0 + tanh(0.8 * (x[i] + 0.04 * x[i] * x[i] * x[i]))) } }", vector, bent, ("f32", "f64"), emulated=SIZES
    ),
    "larger": DeviceKernel("def f(x, y) { compute(x, y) { for i in 0..N: out[i] = max(x[i], y[i]) } }", with_nan, larger, FLOATS),
    "transpose": DeviceKernel(
        "def f(x) { compute(x) { for i in 0..M, j in 0..N: out[j, i] = x[i, j] } }", columns, lambda x: Expected(x.T.astype(float)), ALL, emulated=SIZES
    ),
    "gather": DeviceKernel(
        "def f(x, at) { compute(x, at) { for i in 0..N: out[i] = x[at[i]] } }", indices, lambda x, at: Expected(x[at].astype(float)), ALL, emulated=SIZES
    ),
    "sum": DeviceKernel(reducing("+"), vector, summed, SUMS, emulated=SIZES),
    "sum of columns": DeviceKernel(reducing("+", 2, ", axis=0"), columns, lambda x: summed(x, 0), SUMS),
    "sum of rows": DeviceKernel(reducing("+", 2, ", axis=1"), columns, lambda x: summed(x, 1), SUMS),
    "maxima": DeviceKernel(reducing("max", 2, ", axis=0"), rows, lambda x: Expected(x.max(0).astype(float)), ALL, NOT_EMPTY),
    "largest with nan": DeviceKernel(
        "def f(x, y) { compute(x, y) @kernel(reduce, max) { for i in 0..N: yield max(x[i], y[i]) } }",
        with_nan,
        lambda x, y: Expected(larger(x, y).value.max()),
        FLOATS,
        NOT_EMPTY,
    ),
    "mean": DeviceKernel(reducing("mean", 2, ", axis=0"), rows, averaged, ("f32", "f64", "f16"), NOT_EMPTY),
    "argmin": DeviceKernel(reducing("argmin", value="(x[i], i)"), vector, least, ("f32", "f64", "i32", "i64"), NOT_EMPTY),
    "all": DeviceKernel(reducing("all", value="x[i] > ZERO - 4"), vector, lambda x: Expected(bool((x > -4).all())), ("f32", "i32")),
    "matmul": DeviceKernel(
        product("ZERO"), lambda dtype, n, m: (numbers(dtype, (n, m + 2), 1, True), numbers(dtype, (m + 2, m), 2, True)), multiplied, (*SUMS, "i8", "u16")
    ),
    "long matmul": DeviceKernel(
        product("ZERO"), lambda dtype, n, m: (numbers(dtype, (m, n), 1, True), numbers(dtype, (n, 7), 2, True)), multiplied, ("f32", "bf16", "f16", "i32")
    ),
    "matmul, transposed": DeviceKernel(
        product("ZERO", "A[k, i]", "B[j, k]"),
        lambda dtype, n, m: (numbers(dtype, (m, 7), 1, True), numbers(dtype, (n, m), 2, True)),
        lambda a, b: multiplied(a.T, b.T),
        ("f32", "f64", "f16", "i32"),
    ),
    "batched matmul": DeviceKernel(
        "def f(A, B) { compute(A, B) @kernel(batched_matmul) { for b in 0..S, i in 0..M, j in 0..N:\n"
        "    var s = ZERO\n    for k in 0..K: s += A[b, i, k] * B[b, k, j]\n    out[b, i, j] = s } }",
        lambda dtype, n, m: (numbers(dtype, (3, n, m), 1, True), numbers(dtype, (3, m, 5), 2, True)),
        multiplied,
        ("f32", "f64", "f16", "i32"),
        emulated=(0, 1, 3, 17),
    ),
    "conv2d": DeviceKernel(
        GUARDED,
        lambda dtype, n, m: (numbers(dtype, (2, 2, n, m), 1, True), numbers(dtype, (3, 2, 3, 2), 2, True)),
        lambda x, w: windowed(x, w, stride=2, padding=1),
        ("f32", "f64", "f16", "bf16", "i32"),
        NOT_EMPTY,
        emulated=(1, 3, 6),
    ),
    "depthwise": DeviceKernel(
        DEPTHWISE,
        lambda dtype, n, m: (numbers(dtype, (1, 3, m, n), 1, True), numbers(dtype, (3, 2, 3), 2, True)),
        by_channel,
        ("f32", "f64", "f16", "i32"),
        SIZES[2:],
        emulated=(3, 5, 9),
    ),
    "attention": DeviceKernel(
        THREE_PASSES.format(inputs="", options="", range="0..M", score="s / sqrt(D)"),
        lambda dtype, n, m: (numbers(dtype, (n, m), 1), numbers(dtype, (m, m), 2), numbers(dtype, (m, 3), 3)),
        weighted,
        ("f32", "f64"),
        emulated=(0, 1, 3, 9),
    ),
    "causal attention": DeviceKernel(
        CAUSAL,
        lambda dtype, n, m: (numbers(dtype, (min(n, 65), 3), 1), numbers(dtype, (min(n, 65), 3), 2), numbers(dtype, (min(n, 65), m), 3)),
        lambda q, k, v: weighted(q, k, v, causal=True),
        ("f32", "f64"),
        emulated=(0, 1, 3, 5),
    ),
    "softmax": DeviceKernel(SOFTMAX, lambda dtype, n, m: columns(dtype, n, 3), row_chain, FLOATS, NOT_EMPTY),
    "rows in shared memory": DeviceKernel(ROWS_IN_SHARED_MEMORY, rows, turned_rows, ("f32", "f64", "i32", "u64")),
    "scan": DeviceKernel(scanning("+"), vector, running, ("f32", "f64", "i32", "i64", "u32")),
    "scan from the end": DeviceKernel(
        scanning("+", 2, ", axis=1, exclusive=true, reverse=true"),
        lambda dtype, n, m: columns(dtype, n, 3),
        lambda x: running(x, axis=1, exclusive=True, reverse=True),
        ("f32", "f64", "i64"),
    ),
    "running maxima": DeviceKernel(scanning("max", 2, ", axis=0"), rows, lambda x: running(x, "max"), ("f32", "f16", "i32", "u8")),
    "sort": DeviceKernel(sorting(1, "", "i"), lambda dtype, n, m: with_nan(dtype, n, m)[:1], in_order, FLOATS),
    "sort of ints": DeviceKernel(sorting(2, ", axis=0, descending=true", "i"), lambda dtype, n, m: rows(dtype, n, 2), lambda x: in_order(x, True), ("i8", "i32", "u64")),
    "while": DeviceKernel(COLLATZ, lambda dtype, n, m: (generator(n).integers(1, 100, n).astype(DTYPES[dtype]),), collatz, ("i32", "i64")),
    "update": DeviceKernel(
        "def f(x) {\n    compute(mut x) { for i in 0..N: x[i] = x[i] * 2 + 1 }\n    x\n}", vector, lambda x: Expected(x.astype(float) * 2 + 1), ("f32", "f64", "i32")
    ),
    "histogram": DeviceKernel(HISTOGRAM, lambda dtype, n, m: (generator(n).integers(0, 100, n).astype(DTYPES[dtype]),), counted, ("u8", "i32")),
    "tree": DeviceKernel(TREE, vector, alone, ("f32", "f64", "i32", "i64"), FEW_BLOCKS),
    "warps": DeviceKernel(WARPS, vector, alone, ("f32", "f64", "i32"), FEW_BLOCKS),
    "parts": DeviceKernel(PARTS, vector, reversed_parts, ("f32", "f16", "i32", "u8", "i64")),
}


def check(kernel: DeviceKernel, device: str, m: int, seed: int = 0) -> None:
    """Runs a kernel on a device for all its dtypes, sizes and layouts, paired anew for each seed. Raises AssertionError."""
    for dtype, layout, n in spread(kernel.dtypes, LAYOUTS, kernel.sizes_on(device), seed=seed):
        check_one(kernel, device, dtype, n, m, layout)


def check_one(kernel: DeviceKernel, device: str, dtype: str, n: int, m: int, layout: str = "contiguous") -> None:
    inputs = kernel.inputs(dtype, n, m)
    want = kernel.expected(*inputs)
    try:
        holds(compiled(kernel.program(dtype), device=device).f(*(laid_out(x, layout) for x in inputs)), want.value, want.magnitude, want.terms)
    except (AssertionError, ZynMLError) as error:
        raise AssertionError(f"{dtype}, {layout}, n={n}, m={m}: {error}") from error
