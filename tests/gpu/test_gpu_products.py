"""Products and attention on a GPU: few rows, ragged ends, all four layouts, divisions after the sum; masks and lengths that no tile divides.
Expected values in float64; whole numbers exactly."""

import ml_dtypes
import numpy as np
import pytest

import zynml

RNG = np.random.default_rng(31)
BF16 = ml_dtypes.bfloat16


def product(a: str, b: str, left: str, right: str, value: str = "s", to: str = "bf16") -> str:
    return f"""
def f(A: tensor[{left}, bf16], B: tensor[{right}, bf16]) {{
    compute(A, B) -> tensor[M, N, {to}] {{
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += {a} * {b}
            out[i, j] = {value}
    }}
}}"""


LAYOUTS = {
    "rows": ("A[i, k]", "B[k, j]", "M, K", "K, N"),
    "turned B": ("A[i, k]", "B[j, k]", "M, K", "N, K"),
    "turned A": ("A[k, i]", "B[k, j]", "K, M", "K, N"),
    "both turned": ("A[k, i]", "B[j, k]", "K, M", "N, K"),
}
SIZES = [(1, 4096, 4096), (8, 1024, 512), (16, 200, 72), (64, 4096, 1024), (65, 136, 4096), (128, 128, 64), (1000, 1016, 1000), (4, 4, 4), (300, 7, 5)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products_of_whole_numbers(layout: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b = (RNG.integers(-2, 3, shape).astype(BF16) for shape in ((m, k), (k, n)))
    wanted = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    left, right, *_ = LAYOUTS[layout]
    given_a = np.ascontiguousarray(a.T) if left == "A[k, i]" else a
    given_b = np.ascontiguousarray(b.T) if right == "B[j, k]" else b
    p = zynml.compile(product(*LAYOUTS[layout], to="f32"), device="cuda:0")
    np.testing.assert_array_equal(p.f(given_a, given_b), wanted)
    p = zynml.compile(product(*LAYOUTS[layout]), device="cuda:0")
    np.testing.assert_array_equal(p.f(given_a, given_b), wanted.astype(BF16))


@pytest.mark.parametrize("sizes", [(256, 512, 128), (5, 1000, 64)], ids=str)
def test_divisions_and_roots_after_the_sum(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b = (RNG.integers(-2, 3, shape).astype(BF16) for shape in ((m, k), (k, n)))
    s = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    p = zynml.compile(product(*LAYOUTS["rows"], "s / sqrt(s * s + 3.0) + 1.0 / s", "f32"), device="cuda:0")
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = s / np.sqrt(s * s + np.float32(3)) + np.float32(1) / s
    np.testing.assert_allclose(p.f(a, b), wanted, rtol=3e-7, atol=0)


def whole_product(m: int, n: int, k: int, source: str) -> None:
    a, b = (RNG.integers(-2, 3, shape).astype(BF16) for shape in ((m, k), (k, n)))
    wanted = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(zynml.compile(source, device="cuda:0").f(a, b), wanted)


@pytest.mark.parametrize("sizes", [(2048, 4096, 128), (1992, 4104, 136), (128, 4096, 8192)], ids=str)
def test_tiles_in_turn_and_cut(sizes: tuple[int, int, int]) -> None:
    """Short sums, whose warpgroups take tiles in turn, and few rows, whose last tiles all blocks share."""
    whole_product(*sizes, product(*LAYOUTS["rows"], "s", "f32"))


@pytest.mark.parametrize("sizes", [(64, 64, 1 << 14), (200, 136, 8192), (264, 520, 4096), (8, 72, 32768)], ids=str)
def test_sums_in_pieces(sizes: tuple[int, int, int]) -> None:
    """Long sums of few tiles, which the blocks of a cluster share; again and again the same bits."""
    source = product(*LAYOUTS["rows"], "s", "f32")
    whole_product(*sizes, source)
    m, n, k = sizes
    a, b = RNG.standard_normal((m, k)).astype(BF16), RNG.standard_normal((k, n)).astype(BF16)
    p = zynml.compile(source, device="cuda:0")
    first = p.f(a, b)
    bound = 2.0**-21 * np.sqrt(k) * (np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)))
    assert np.all(np.abs(first - a.astype(np.float64) @ b.astype(np.float64)) <= bound)
    for _ in range(5):
        np.testing.assert_array_equal(p.f(a, b), first)


ANNOTATED = [
    "@cluster(2)", "@cluster(1)", "@cluster(2) @warps(4)", "@pipeline(stages=2)", "@pipeline(stages=3) @warps(8) @cluster(2)", "@registers(200) @warps(8)",
]  # fmt: skip


@pytest.mark.parametrize("annotations", ANNOTATED)
@pytest.mark.parametrize("sizes", [(520, 264, 328), (4000, 1032, 1016), (72, 5000, 64)], ids=str)
def test_annotations_change_no_sum(annotations: str, sizes: tuple[int, int, int]) -> None:
    whole_product(*sizes, product(*LAYOUTS["rows"], "s", "f32").replace("-> tensor", f"{annotations} -> tensor"))


ATTENTION = """
def f(Q: tensor[H, M, D, bf16], K: tensor[H, N, D, bf16], V: tensor[H, N, D, bf16], scale: f32) {
    compute(Q, K, V, scale) -> tensor[H, M, D, bf16] {
        for h in 0..H, i in 0..M, d in 0..D:
            var m = -inf
            for j in 0..N:
                var s = 0.0
                for e in 0..D: s += Q[h, i, e] * K[h, j, e]
                m = max(m, MASKED)
            var l = 0.0
            var o = 0.0
            for j in 0..N:
                var s = 0.0
                for e in 0..D: s += Q[h, i, e] * K[h, j, e]
                let p = exp(MASKED - m)
                l += p
                o += p * V[h, j, d]
            out[h, i, d] = o / l
    }
}"""
SHAPES = [(2, 128, 128, 64), (3, 300, 300, 128), (1, 1000, 77, 80), (4, 64, 1025, 128), (5, 513, 2000, 64), (2, 200, 3, 64), (64, 1024, 1024, 128)]


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_attention(shape: tuple[int, int, int, int], causal: bool) -> None:
    h, m, n, d = shape
    q, k, v = (RNG.standard_normal((h, rows, d)).astype(BF16) for rows in (m, n, n))
    score = "(if j <= i { s * scale } else { -inf })" if causal else "s * scale"
    p = zynml.compile(ATTENTION.replace("MASKED", score), device="cuda:0")
    found = p.f(q, k, v, d**-0.5).astype(np.float64)
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = np.einsum("hie,hje->hij", q, k) * d**-0.5
    if causal:
        scores = np.where(np.arange(n)[None, :] <= np.arange(m)[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    bound = 2.0**-7 * (weights @ np.abs(v)) + 1e-6
    assert np.all(np.abs(found - weights @ v) <= bound)
