"""Products of matrices: squares, few rows, ragged sizes, the layers of transformers, every type, layouts, and what follows the sum."""

from collections.abc import Iterator
from typing import Any

import torch

from bench.gpu import peers, sources
from bench.gpu.harness import Arrays, Call, Row
from bench.gpu.limits import of_products

MODELS = {"1B": (2048, 8192, 512), "8B": (4096, 14336, 1024), "13B": (5120, 13824, 5120), "70B": (8192, 28672, 1024)}
"""Width, inner width, and width of keys and values of models that people run."""

TOKENS = (1, 16, 4096)

BF16, F32, F64, I8, F8 = torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.float8_e4m3fn
TOLERANCES = {BF16: 8e-3, F32: 5e-6, F64: 1e-14, I8: 0.0, F8: 8e-3}
NAMES = {BF16: "bf16", F32: "f32", F64: "f64", I8: "i8", F8: "f8"}


def rows(scale: int = 1) -> Iterator[Row]:
    big = 8192 // scale
    half = big // 2
    for side, goal in ((big, 1.0), (half, 0.98), (1024, 1.1)):
        yield product(f"matmul bf16 {side}^3", side, side, side, goal=goal, quick=True)
    yield product("matmul bf16 4000x4104x4040", 4000, 4104, 4040, goal=0.97, quick=True)
    yield product("matmul bf16 1000x1016x1000", 1000, 1016, 1000)
    for m in (1, 8, 16, 64):
        yield product(f"matmul bf16 {m}x{half}x{half}", m, half, half, goal=0.95, group="few rows", quick=True)
    for layout in list(sources.LAYOUTS)[1:]:
        yield product(f"matmul bf16 {half}^3, {layout}", half, half, half, layout=layout)
    for model, (width, inner, keys) in MODELS.items():
        shapes = {"q, k, v": (width, width + 2 * keys), "up": (width, inner), "down": (inner, width)}
        for tokens in TOKENS:
            for name, (k, n) in shapes.items():
                group = f"transformer layers, {tokens} token{'s' if tokens > 1 else ''}"
                quick = model == "8B" and name == "up"
                yield product(f"{model} {name}, {tokens}x{n}x{k} bf16", tokens, n, k, goal=0.97, group=group, quick=quick)
    yield from other_types(big, half)
    yield from followed(big)
    yield from computed(half)
    for m, goal in ((1, 2.5), (16, 2.5), (half, 0.9)):
        for n in (half, 7 * half // 2):
            yield packed(m, n, half, goal)
    for batch, m, n, k in ((512, 128, 128, 128), (64, 1000, 72, 96)):
        yield batched(f"batched {batch}x{m}x{n}x{k} bf16", batch, m, n, k)


def other_types(big: int, half: int) -> Iterator[Row]:
    yield product(f"matmul f32 {half}^3", half, half, half, F32, goal=1.8, quick=True)
    yield product("matmul f32 1000x1016x1000", 1000, 1016, 1000, F32)
    for m in (1, 16):
        for layout in ("", "B as [N, K]"):
            name = f"matmul f32 {m}x{half}x{half}{layout and ', ' + layout}"
            yield product(name, m, half, half, F32, layout, 1.0, group="few rows of f32")
    yield product(f"matmul f32 {half}^3 by FMAs", half, half, half, F32, mode="@precision(products=f32)")
    yield product(f"matmul f64 {half}^3", half, half, half, F64, goal=0.95, quick=True)
    for layout, goal in (("B as [N, K]", 1.0), ("", 0.93)):
        name = f"matmul tf32 {big}^3{layout and ', ' + layout}"
        mode = "@precision(products=tf32)"
        yield product(name, big, big, big, F32, layout, goal, mode=mode, peer=peers.in_tf32, tolerance=1e-3, quick=not layout)
        name = f"matmul f8 {big}^3{layout and ', ' + layout}"
        yield product(name, big, big, big, F8, layout, goal, to="bf16", peer=scaled, tolerance=5e-3, quick=bool(layout))
    for layout in sources.LAYOUTS:
        goal = 0.95 if layout == "B as [N, K]" else 0.93
        name = f"matmul i8 {big}^3{layout and ', ' + layout}"
        yield product(name, big, big, big, I8, layout, goal, peer=whole, quick=layout == "B as [N, K]")


def followed(big: int) -> Iterator[Row]:
    """Products whose sums are worked on before they are stored."""

    def gelu(a: Any, b: Any, row: Any) -> Any:
        return peers.functional.gelu(a.double() @ b.double() + row.double(), approximate="tanh")

    def square(arrays: Arrays) -> list[Any]:
        return [arrays.normal(big, big), arrays.normal(big, big)]

    cost = of_products(big, big, big, "bf16", 2, 2)
    yield Row(
        f"bias and gelu in matmul bf16 {big}^3, against matmul",
        sources.BIAS_GELU,
        lambda arrays: [*square(arrays), arrays.normal(big)],
        {"cuBLAS, the product alone": lambda a, b, row: torch.matmul(a, b)},
        cost,
        8e-3,
        gelu,
        goal=0.97,
        quick=True,
        alike=False,
    )
    yield Row(
        f"bias and gelu in matmul bf16 {big}^3",
        sources.BIAS_GELU,
        lambda arrays: [*square(arrays), arrays.normal(big)],
        {
            "cuBLASLt, its epilogue": peers.bias_gelu_by_library,
            "PyTorch": lambda a, b, row: peers.functional.gelu(torch.addmm(row, a, b), approximate="tanh"),
        },
        cost,
        8e-3,
        gelu,
    )
    yield Row(
        f"matmul bf16 {big}^3 plus a matrix",
        sources.RESIDUAL,
        lambda arrays: [*square(arrays), arrays.normal(big, big)],
        {"cuBLAS": lambda a, b, z: torch.addmm(z, a, b)},
        cost,
        8e-3,
        lambda a, b, z: a.double() @ b.double() + z.double(),
    )


def computed(side: int) -> Iterator[Row]:
    """Products of more than what lies in memory, against what PyTorch needs several kernels for."""

    def row(name: str, source: str, m: int, n: int, inputs: Any, peer: Call, reference: Call, sums: int = 1) -> Row:
        cost = of_products(m, n * sums, side, "bf16", 2, 2)
        return Row(name, source, inputs, {"PyTorch": peer}, cost, 8e-3, reference)

    def plain(arrays: Arrays) -> list[Any]:
        return [arrays.normal(side, side), arrays.normal(side, side)]

    yield row(
        f"matmul bf16 {side}^3 of max(A, 0)",
        sources.computed("max(A[i, k], 0.0)"),
        side,
        side,
        plain,
        lambda a, b: a.relu() @ b,
        lambda a, b: a.double().relu() @ b.double(),
    )
    yield row(
        f"matmul bf16 {side}^3 of a lower triangle",
        sources.computed(when="k <= i"),
        side,
        side,
        plain,
        lambda a, b: a.tril() @ b,
        lambda a, b: a.double().tril() @ b.double(),
    )
    for m in (16, side):
        n = 7 * side // 2

        def weights(arrays: Arrays, m: int = m, n: int = n) -> list[Any]:
            scale = arrays.normal(n, dtype=F32).abs() * 1e-3
            return [arrays.normal(m, side), arrays.whole(-127, 128, n, side, dtype=I8), scale]

        yield row(
            f"{m}x{n}x{side} of weights of 8 bits with a scale for each column",
            sources.computed(right="(B[j, k] as bf16)", weights="N, K, i8", scaled=True),
            m,
            n,
            weights,
            lambda a, b, scale: ((a @ b.to(BF16).t()).float() * scale).to(BF16),
            lambda a, b, scale: (a.double() @ b.double().t()) * scale.double(),
        )
    yield row(
        f"{side}x{side}x{side} gated: silu(A V) * (A W)",
        sources.GATED,
        side,
        side,
        lambda arrays: [arrays.normal(side, side), arrays.normal(side, side) / 64, arrays.normal(side, side)],
        lambda a, v, w: peers.functional.silu(a @ v) * (a @ w),
        lambda a, v, w: peers.functional.silu(a.double() @ v.double()) * (a.double() @ w.double()),
        2,
    )


def packed(m: int, n: int, k: int, goal: float) -> Row:
    """Weights of 4 bits beside the product with weights of bf16 that are there."""

    def weights(w: Any, s: Any, dtype: Any) -> Any:
        values = torch.stack([(w & 15).to(dtype) - 8, (w >> 4).to(dtype) - 8], 1).reshape(k, n)
        return values * s.to(dtype).repeat_interleave(128, 0)

    def inputs(arrays: Arrays) -> list[Any]:
        x, w = arrays.normal(m, k), arrays.whole(0, 256, k // 2, n, dtype=torch.uint8)
        s = arrays.normal(k // 128, n).abs()
        return [x, w, s, weights(w, s, F32).to(BF16)]

    return Row(
        f"{m}x{n}x{k} of weights of 4 bits with a scale for 128",
        sources.PACKED,
        inputs,
        {"PyTorch, weights of bf16": lambda x, w, s, dense: x @ dense},
        of_products(m, n, k, "bf16", 2, 2),
        8e-3,
        lambda x, w, s, dense: x.double() @ weights(w, s, F64),
        goal=goal,
        alike=False,
    )


def product(
    name: str,
    m: int,
    n: int,
    k: int,
    dtype: Any = BF16,
    layout: str = "",
    goal: float | None = None,
    *,
    to: str = "",
    mode: str = "",
    peer: Any = None,
    tolerance: float | None = None,
    group: str = "",
    quick: bool = False,
) -> Row:
    """`peer` turns a product of matrices as they are stored in row-major order into what runs."""
    a, b, shapes = sources.LAYOUTS[layout]
    turned_a, turned_b = shapes.startswith("K"), shapes.endswith("K")

    def inputs(arrays: Arrays) -> list[Any]:
        shapes = (k, m) if turned_a else (m, k), (n, k) if turned_b else (k, n)
        if dtype is I8:
            return [arrays.whole(-8, 8, *shape, dtype=I8) for shape in shapes]
        return [arrays.normal(*shape, dtype=dtype) for shape in shapes]

    def as_written(a: Any, b: Any) -> tuple[Any, Any]:
        return a.t() if turned_a else a, b.t() if turned_b else b

    def library(a: Any, b: Any) -> Any:
        return torch.matmul(*as_written(a, b))

    def exact(a: Any, b: Any) -> Any:
        left, right = as_written(a, b)
        return left.double() @ right.double()

    types = {"f8": "f8e4m3"}.get(NAMES[dtype], NAMES[dtype])
    source = sources.product(a, b, types, shapes, to, mode)
    calls: dict[str, Call] = {"cuBLAS": library}
    if peer is scaled:
        kinds = {"cuBLASLt": False, "cuBLASLt, fast sums": True}
        calls = {called: lambda a, b, fast=fast: scaled(*as_written(a, b), fast) for called, fast in kinds.items()}
    elif peer is whole:
        calls = {"cuBLASLt": lambda a, b: whole(*as_written(a, b))}
    elif peer is not None:
        calls = {"cuBLAS": peer(library)}
    kind = "tf32" if "tf32" in mode else NAMES[dtype]
    size = dtype.itemsize
    cost = of_products(m, n, k, kind, size, {"i8": 4, "f8": 2}.get(NAMES[dtype], size))
    worst = TOLERANCES[dtype] if tolerance is None else tolerance
    return Row(name, source, inputs, calls, cost, worst, exact, goal, group, quick)


def scaled(a: Any, b: Any, fast: bool) -> Any:
    """cuBLASLt wants its right operand column by column; else a copy counts."""
    return peers.scaled_product(a.contiguous(), b.t().contiguous(), fast)


def whole(a: Any, b: Any) -> Any:
    return torch._int_mm(a.contiguous(), b if b.stride(0) == 1 else b.t().contiguous().t())


def batched(name: str, batch: int, m: int, n: int, k: int) -> Row:
    return Row(
        name,
        sources.BATCHED,
        lambda arrays: [arrays.normal(batch, m, k), arrays.normal(batch, k, n)],
        {"cuBLAS": torch.matmul},
        of_products(m, n, k, "bf16", 2, 2, batch),
        8e-3,
        lambda a, b: a.double() @ b.double(),
        goal=1.0 if m == n == k else None,
        quick=m == n == k,
    )
