"""The rows of `bench.cpu.peers`: operands, and the call of each side. Peers' interpreters read this file too, so it needs NumPy alone."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

Call = Callable[..., Any]

SCALE = 0.125
"""Of attention's scores."""


@dataclass(frozen=True)
class PeerRow:
    """`operands`: dtype and extents of each. `numpy` and `torch` take the module, the operands and the result's memory; `wanted` takes
    operands in float64. `c`: the function of bench/naive.c, and the sizes behind its pointers."""

    name: str
    function: str
    operands: tuple[tuple[str, tuple[int, ...]], ...]
    wanted: Call
    result: tuple[str, tuple[int, ...]]
    numpy: Call | None = None
    torch: Call | None = None
    c: tuple[str, tuple[int, ...]] | None = None
    numbers: tuple[Any, ...] = ()
    tolerance: float = 1e-5
    """Of the largest result."""
    bar: float = 1.0

    @property
    def shape(self) -> str:
        return ", ".join(f"{dtype} {'x'.join(map(str, dims))}" for dtype, dims in self.operands)


def arrays(row: PeerRow) -> list[Any]:
    """The same numbers in every process; those of 16 bits as f32."""
    generator = np.random.default_rng(0)

    def array(dtype: str, dims: tuple[int, ...]) -> Any:
        if dtype in ("u8", "i8"):
            return generator.integers(-100 if dtype == "i8" else 0, 100, dims, np.int8 if dtype == "i8" else np.uint8)
        return generator.standard_normal(dims).astype(np.float64 if dtype == "f64" else np.float32)

    return [array(*operand) for operand in row.operands]


def product(name: str, m: int, k: int, n: int, dtype: str = "f32", **others: Any) -> PeerRow:
    operands = (dtype, (m, k)), (dtype, (k, n))
    if dtype == "i8":
        return PeerRow(name, "product_i8", operands, np.matmul, ("i32", (m, n)), None, integers_by_torch, **others)
    numpy = None if dtype in ("f16", "bf16") else products_by_numpy
    return PeerRow(name, "product", operands, np.matmul, (dtype, (m, n)), numpy, products_by_torch, **others)


def products_by_numpy(library: ModuleType, out: Any, a: Any, b: Any) -> Any:
    return library.matmul(a, b, out=out)


def products_by_torch(library: ModuleType, out: Any, a: Any, b: Any) -> Any:
    return library.mm(a, b, out=out)


def integers_by_torch(library: ModuleType, out: Any, a: Any, b: Any) -> Any:
    return library._int_mm(a, b, out=out)


def convolved(x: Any, w: Any, stride: int = 1) -> Any:
    """A convolution with 3 by 3 weights, or windows of any odd size of single channels, padded so that sizes stay."""
    pad = w.shape[-1] // 2
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[-2:], axis=(2, 3))[:, :, ::stride, ::stride]
    return np.einsum("ncyzrq,crq->ncyz" if w.ndim == 3 else "ncyzrq,fcrq->nfyz", windows, w, optimize=True)


def attended(q: Any, k: Any, v: Any, scale: float) -> Any:
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat(group, 1) for x in (k, v))
    scores = np.einsum("bhid,bhjd->bhij", q, k) * scale
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True) @ v


def apart(a: Any, b: Any) -> Any:
    return np.sqrt(np.maximum((a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * a @ b.T, 0))


def image(name: str, function: str, x: tuple[int, ...], w: tuple[int, ...], result: tuple[int, ...], **torch: Any) -> PeerRow:
    """A convolution; `torch`: what its `conv2d` is given."""
    stride = torch.get("stride", 1)
    groups = torch.get("groups", 1)

    def wanted(x: Any, w: Any) -> Any:
        if w.ndim == 5:
            return np.stack([convolved(x[:, g], w[g]) for g in range(len(w))], 1)
        return np.einsum("ncyz,fc->nfyz", x, w) if w.ndim == 2 else convolved(x, w, stride)

    def call(library: ModuleType, out: Any, x: Any, w: Any) -> Any:
        pictures = x.view(x.shape[0], -1, *x.shape[-2:])
        edge = w.shape[-1] if w.ndim > 2 else 1
        weights = w.view(-1, pictures.shape[1] // groups, edge, edge)
        return library.nn.functional.conv2d(pictures, weights, padding=edge // 2, **torch)

    return PeerRow(name, function, (("f32", x), ("f32", w)), wanted, ("f32", result), torch=call)


def heads(name: str, function: str, q: tuple[int, ...], k: tuple[int, ...]) -> PeerRow:
    grouped = {"enable_gqa": True} if q[1] != k[1] else {}

    def call(library: ModuleType, out: Any, q: Any, k: Any, v: Any, scale: float) -> Any:
        return library.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale, **grouped)

    return PeerRow(name, function, tuple(("f32", dims) for dims in (q, k, k)), attended, ("f32", q), None, call, numbers=(SCALE,), bar=1.1)


def sorted_lines(name: str, *dims: int, dtype: str = "f32") -> PeerRow:
    """Keys along the last axis, in order."""

    def by_numpy(library: ModuleType, out: Any, x: Any) -> Any:
        library.copyto(out, x)
        out.sort(-1)

    function = "sorted_keys" if len(dims) == 1 else "sorted_rows"
    call = None if math.prod(dims) > 2_000_000 else lambda torch, out, x: torch.sort(x)
    return PeerRow(name, function, ((dtype, dims),), lambda x: np.sort(x), (dtype, dims), by_numpy, call, tolerance=0.0)


def shares(x: Any) -> Any:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def shares_by_numpy(library: ModuleType, out: Any, x: Any) -> Any:
    library.exp(library.subtract(x, x.max(-1, keepdims=True), out=out), out=out)
    return library.divide(out, out.sum(-1, keepdims=True), out=out)


def inside_averaged(x: Any) -> Any:
    """The mean of the four neighbours inside, zeros at the first edges."""
    result = np.zeros_like(x[1:, 1:])
    result[1:, 1:] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    return result


def blurred(x: Any) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, 2), (5, 5))
    return windows.sum((2, 3)) * 0.04


LONG, ROWS_OF, PLANE = ("f32", (10_000_000,)), ("f32", (4096, 1024)), ("f32", (2048, 2048))
COLOURS = "f32", (1000, 1200, 3)

ROWS = [
    *(product(f"product {n}", n, n, n) for n in (17, 33, 64, 65, 100, 128, 160, 200, 257, 512, 1024, 2048)),
    product("product 1024", 1024, 1024, 1024, "f64", tolerance=1e-13),
    product("product f64 257", 257, 257, 257, "f64", tolerance=1e-13),
    product("ragged", 1000, 333, 517),
    product("thin sum", 1000, 3, 1000),
    product("few columns", 1000, 1000, 3),
    product("few rows", 3, 1000, 1000),
    product("outer", 1000, 1, 1000),
    product("long sum", 64, 100000, 64, tolerance=1e-4),
    product("product f16", 512, 512, 512, "f16", tolerance=2e-2),
    product("product bf16", 512, 512, 512, "bf16", tolerance=2e-2),
    product("product i8", 512, 512, 512, "i8", tolerance=0.0),
    PeerRow(
        "rows by rows",
        "product_nt",
        (("f32", (512, 512)), ("f32", (512, 512))),
        lambda a, b: a @ b.T,
        ("f32", (512, 512)),
        lambda np, out, a, b: np.matmul(a, b.T, out=out),
        lambda torch, out, a, b: torch.mm(a, b.T, out=out),
    ),
    PeerRow(
        "columns by rows",
        "product_tn",
        (("f32", (512, 512)), ("f32", (512, 512))),
        lambda a, b: a.T @ b,
        ("f32", (512, 512)),
        lambda np, out, a, b: np.matmul(a.T, b, out=out),
        lambda torch, out, a, b: torch.mm(a.T, b, out=out),
    ),
    PeerRow(
        "batched",
        "batched",
        (("f32", (256, 32, 32)), ("f32", (256, 32, 32))),
        np.matmul,
        ("f32", (256, 32, 32)),
        lambda np, out, a, b: np.matmul(a, b, out=out),
        lambda torch, out, a, b: torch.bmm(a, b, out=out),
    ),
    PeerRow(
        "matrix by vector",
        "matrix_vector",
        (("f32", (1000, 1000)), ("f32", (1000,))),
        np.matmul,
        ("f32", (1000,)),
        lambda np, out, a, x: np.matmul(a, x, out=out),
        lambda torch, out, a, x: torch.mv(a, x, out=out),
    ),
    PeerRow(
        "vector by matrix",
        "vector_matrix",
        (("f32", (1000,)), ("f32", (1000, 1000))),
        np.matmul,
        ("f32", (1000,)),
        lambda np, out, x, a: np.matmul(x, a, out=out),
        lambda torch, out, x, a: torch.mv(a.T, x, out=out),
    ),
    PeerRow(
        "few bits",
        "few_bits",
        (("u8", (4096, 2733)), ("f32", (2733,)), ("f32", (4096,))),
        lambda w, x, scale: w @ x * scale,
        ("f32", (4096,)),
        lambda np, out, w, x, scale: np.multiply(w.astype(np.float32) @ x, scale, out=out),
        lambda torch, out, w, x, scale: w.to(torch.float32) @ x * scale,
        ("few_bits", (4096, 2733)),
    ),
    PeerRow(
        "triangle",
        "triangle",
        (("f32", (960, 960)), ("f32", (960, 192))),
        lambda a, b: np.tril(a) @ b,
        ("f32", (960, 192)),
        lambda np, out, a, b: np.matmul(np.tril(a), b, out=out),
        lambda torch, out, a, b: torch.mm(torch.tril(a), b, out=out),
    ),
    PeerRow(
        "distances 64",
        "distances",
        (("f32", (1000, 64)), ("f32", (1000, 64))),
        apart,
        ("f32", (1000, 1000)),
        c=("distances", (1000, 1000, 64)),
        bar=1.5,
    ),
    PeerRow(
        "distances 3",
        "distances",
        (("f32", (1000, 3)), ("f32", (1000, 3))),
        apart,
        ("f32", (1000, 1000)),
        c=("distances", (1000, 1000, 3)),
        bar=1.5,
    ),
    PeerRow(
        "exp",
        "exponential",
        (LONG,),
        np.exp,
        LONG,
        lambda np, out, x: np.exp(x, out=out),
        lambda torch, out, x: torch.exp(x, out=out),
    ),
    PeerRow(
        "power",
        "powers",
        (LONG, LONG),
        lambda x, y: np.abs(x) ** y,
        LONG,
        lambda np, out, x, y: np.power(np.abs(x, out=out), y, out=out),
        lambda torch, out, x, y: torch.pow(torch.abs(x), y, out=out),
    ),
    PeerRow(
        "colours, exp",
        "scaled_colours",
        (COLOURS, ("f32", (3,))),
        lambda x, scale: np.exp(x * scale),
        COLOURS,
        lambda np, out, x, scale: np.exp(np.multiply(x, scale, out=out), out=out),
        lambda torch, out, x, scale: torch.exp(torch.mul(x, scale, out=out), out=out),
    ),
    PeerRow(
        "colours, 3 by 3",
        "mixed_colours",
        (COLOURS, ("f32", (3, 3))),
        lambda x, weights: x @ weights.T,
        COLOURS,
        lambda np, out, x, weights: np.matmul(x, weights.T, out=out),
        lambda torch, out, x, weights: torch.matmul(x, weights.T, out=out),
    ),
    PeerRow(
        "colours, blur",
        "blurred_colours",
        (COLOURS,),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, (3, 3), (0, 1)).mean((-1, -2)),
        ("f32", (998, 1198, 3)),
        None,
        lambda torch, out, x: torch.nn.functional.avg_pool2d(x.permute(2, 0, 1)[None], 3, 1)[0].permute(1, 2, 0),
    ),
    PeerRow(
        "sum",
        "total",
        (LONG,),
        np.sum,
        ("f32", ()),
        lambda np, out, x: np.sum(x),
        lambda torch, out, x: torch.sum(x),
        tolerance=1e-3,
        bar=0.98,
    ),
    PeerRow(
        "argmax",
        "argmax",
        (LONG,),
        lambda x: np.array([x.max(), x.argmax()]),
        ("i64", ()),
        lambda np, out, x: np.argmax(x),
        lambda torch, out, x: torch.argmax(x),
        tolerance=0.0,
    ),
    PeerRow(
        "softmax", "softmax", (ROWS_OF,), shares, ROWS_OF, shares_by_numpy, lambda torch, out, x: torch.softmax(x, -1, out=out), bar=1.3
    ),
    PeerRow("stencil of four", "heat", (PLANE,), inside_averaged, PLANE, c=("heat", (2048, 2048))),
    PeerRow("stencil of 25", "blur", (PLANE,), blurred, PLANE, c=("blur", (2048, 2048))),
    *(sorted_lines(f"sort {n:.0e}".replace("e+0", "e"), n) for n in (100, 1000, 10_000, 100_000, 1_000_000, 10_000_000)),
    sorted_lines("sort f64 1e4", 10_000, dtype="f64"),
    sorted_lines("sort f64 1e6", 1_000_000, dtype="f64"),
    sorted_lines("sort rows 1024", 4096, 1024),
    sorted_lines("sort rows 100", 10_000, 100),
    sorted_lines("sort rows 16", 100_000, 16),
    sorted_lines("sort rows 7", 100_000, 7),
    image("conv2d", "conv2d_same", (8, 64, 56, 56), (64, 64, 3, 3), (8, 64, 56, 56)),
    image("conv2d strided", "conv2d_strided", (8, 64, 56, 56), (64, 64, 3, 3), (8, 64, 28, 28), stride=2),
    image("conv2d 3 channels", "conv2d_same", (8, 3, 64, 64), (32, 3, 3, 3), (8, 32, 64, 64)),
    image("conv2d 14", "conv2d_same", (8, 256, 14, 14), (256, 256, 3, 3), (8, 256, 14, 14)),
    image("conv2d 1x1", "conv2d_1x1", (8, 64, 56, 56), (128, 64), (8, 128, 56, 56)),
    image("conv2d groups", "conv2d_groups", (8, 8, 16, 28, 28), (8, 16, 16, 3, 3), (8, 8, 16, 28, 28), groups=8),
    image("depthwise 7x7", "depthwise", (8, 64, 56, 56), (64, 7, 7), (8, 64, 56, 56), groups=64),
    heads("attention", "attention", (2, 8, 512, 64), (2, 8, 512, 64)),
    heads("attention 77x40", "attention", (2, 5, 77, 40), (2, 5, 77, 40)),
    heads("attention, grouped", "grouped_attention", (2, 8, 512, 64), (2, 2, 512, 64)),
]


def close(got: Any, wanted: Any, tolerance: float) -> bool:
    error = float(np.max(np.abs(np.asarray(got, np.float64).reshape(wanted.shape) - wanted)))
    return math.isfinite(error) and error <= tolerance * float(np.max(np.abs(wanted)))
