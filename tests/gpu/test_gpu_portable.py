"""Products on the tensor cores of architectures without warpgroups, run here from their PTX; and on this one where bulk copies can't have the
operands. Whole numbers exactly, f64 against float64 in another order."""

import ml_dtypes
import numpy as np
import pytest
from test_gpu_attention import check as attention_check

import zynml
from compiler.backends.nvptx.target import gpu_target
from compiler.launch.cuda import code as cuda_code
from compiler.launch.cuda import planning as cuda_planning
from tests.attentions import CASES

RNG = np.random.default_rng(53)
NUMPY = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "i8": np.int8, "u8": np.uint8, "f32": np.float32, "f64": np.float64}
SUMS = {"bf16": "f32", "f16": "f32", "i8": "i32", "u8": "i32", "f32": "f32", "f64": "f64"}
LAYOUTS = {
    "rows": ("A[i, k]", "B[k, j]", "M, K", "K, N"),
    "turned B": ("A[i, k]", "B[j, k]", "M, K", "N, K"),
    "turned A": ("A[k, i]", "B[k, j]", "K, M", "K, N"),
    "both turned": ("A[k, i]", "B[j, k]", "K, M", "N, K"),
}
SIZES = [(1000, 1016, 1000), (257, 129, 300), (1001, 999, 1003), (16, 65, 31)]


@pytest.fixture(params=["sm_75", "sm_80", "sm_90", ""], ids=lambda name: name or "native")
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """An architecture that programs are compiled for, and left to the driver to translate; empty: this one's own."""
    if request.param:
        monkeypatch.setenv("ZYNTAX_CACHE", "off")
        for module in (cuda_planning, cuda_code):
            monkeypatch.setattr(module, "target_of_device", lambda capability: gpu_target(request.param))
        monkeypatch.setattr(cuda_code, "assembler_version", lambda: "")
    return str(request.param)


@pytest.mark.parametrize("case", ["full", "causal", "window", "later keys", "masked", "sloped"])
@pytest.mark.parametrize("elements", [24, 64, 128, 256])
def test_attention(target: str, case: str, elements: int) -> None:
    if target == "sm_75":
        pytest.skip("threads do it there")
    attention_check("two passes", CASES[case], (2, 4, 260, 700, elements, elements), "f16", group=2)
    attention_check("a running maximum", CASES["full"], (1, 4, 3, 700, elements, elements))


def source(dtype: str, layout: str, value: str = "s", to: str = "") -> str:
    a, b, left, right = LAYOUTS[layout]
    zero = "0" if SUMS[dtype] == "i32" else "0.0"
    return f"""
def f(A: tensor[{left}, {dtype}], B: tensor[{right}, {dtype}]) {{
    compute(A, B) -> tensor[M, N, {to or SUMS[dtype]}] {{
        for i in 0..M, j in 0..N:
            var s: {SUMS[dtype]} = {zero}
            for k in 0..K: s += {a} * {b}
            out[i, j] = {value}
    }}
}}"""


def whole(dtype: str, *shape: int) -> np.ndarray:
    return RNG.integers(0 if dtype == "u8" else -2, 3, shape).astype(NUMPY[dtype])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["bf16", "f16", "i8", "u8", "f64"])
def test_products_of_whole_numbers(target: str, dtype: str, layout: str) -> None:
    if target == "sm_75" and dtype in ("bf16", "f64"):
        pytest.skip("not on these tensor cores")
    p = zynml.compile(source(dtype, layout), device="cuda:0")
    for m, n, k in SIZES:
        a, b = whole(dtype, m, k), whole(dtype, k, n)
        wanted = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int32 if SUMS[dtype] == "i32" else np.float64)
        given_a = np.ascontiguousarray(a.T) if "A[k, i]" in LAYOUTS[layout] else a
        given_b = np.ascontiguousarray(b.T) if "B[j, k]" in LAYOUTS[layout] else b
        np.testing.assert_array_equal(p.f(given_a, given_b), wanted, err_msg=str((m, n, k)))


@pytest.mark.parametrize("sizes", [(512, 512, 4096), (129, 257, 1001)], ids=str)
def test_doubles_are_as_exact_as_sums_of_doubles(target: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b = RNG.standard_normal((m, k)), RNG.standard_normal((k, n))
    found = zynml.compile(source("f64", "rows"), device="cuda:0").f(a, b)
    bound = 2.0**-53 * k * (np.abs(a) @ np.abs(b))
    assert np.all(np.abs(found - a @ b) <= 2 * bound)


def test_what_follows_the_sum_and_infinities(target: str) -> None:
    dtype = "f16" if target == "sm_75" else "bf16"
    a, b = whole(dtype, 200, 136), whole(dtype, 136, 264)
    a[3, 5], b[7, 9] = np.inf, np.nan
    p = zynml.compile(source(dtype, "rows", "if s > 0.0 { s * 0.5 } else { s }", dtype), device="cuda:0")
    with np.errstate(invalid="ignore"):
        sums = a.astype(np.float64) @ b.astype(np.float64)
    wanted = np.where(sums > 0, sums * 0.5, sums).astype(NUMPY[dtype])
    np.testing.assert_array_equal(p.f(a, b).astype(np.float32), wanted.astype(np.float32))


def test_factors_of_tf32(target: str) -> None:
    p = zynml.compile(source("f32", "turned A").replace("{\n        for", "@precision(products=tf32) {\n        for", 1), device="cuda:0")
    for m, n, k in SIZES:
        a, b = whole("f32", m, k), whole("f32", k, n)
        np.testing.assert_array_equal(p.f(np.ascontiguousarray(a.T), b), a @ b, err_msg=str((m, n, k)))


@pytest.mark.parametrize("dtype", ["f16", "f64"])
def test_batches_and_views(target: str, dtype: str) -> None:
    if target == "sm_75" and dtype == "f64":
        pytest.skip("not on these tensor cores")
    text = f"""
def f(A: tensor[B, M, K, {dtype}], C: tensor[K, B, N, {dtype}]) {{
    compute(A, C) -> tensor[B, M, N, {SUMS[dtype]}] {{
        for i in 0..M, b in 0..B, j in 0..N:
            var s: {SUMS[dtype]} = 0.0
            for k in 0..K: s += A[b, i, k] * C[k, b, j]
            out[b, i, j] = s
    }}
}}"""
    p = zynml.compile(text, device="cuda:0")
    for batch, m, n, k in ((3, 100, 72, 40), (1, 64, 129, 257), (5, 31, 33, 35)):
        a, c = whole(dtype, batch, m, k), whole(dtype, k, batch, n)
        wanted = np.einsum("bik,kbj->bij", a.astype(np.float64), c.astype(np.float64))
        np.testing.assert_array_equal(p.f(a, c), wanted)


@pytest.mark.parametrize("dtype", ["f16", "f64"])
def test_rows_of_several_axes(target: str, dtype: str) -> None:
    if target == "sm_75" and dtype == "f64":
        pytest.skip("not on these tensor cores")
    text = f"""
def f(A: tensor[B, M, K, {dtype}], C: tensor[K, N, {dtype}]) {{
    compute(A, C) -> tensor[B, M, N, {SUMS[dtype]}] {{
        for b in 0..B, i in 0..M, j in 0..N:
            var s: {SUMS[dtype]} = 0.0
            for k in 0..K: s += A[b, i, k] * C[k, j]
            out[b, i, j] = s
    }}
}}"""
    p = zynml.compile(text, device="cuda:0")
    for batch, m, n, k in ((32, 77, 256, 128), (300, 1, 129, 257), (5, 333, 40, 136)):
        a, c = whole(dtype, batch, m, k), whole(dtype, k, n)
        np.testing.assert_array_equal(p.f(a, c), a.astype(np.float64) @ c.astype(np.float64))
