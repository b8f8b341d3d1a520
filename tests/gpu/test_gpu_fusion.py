"""Chains of blocks as one kernel on a GPU, and the transformer's block of the programs. Expected values in float64."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import zynml
from tests.fusion import transformer
from tests.fusion.test_joined_blocks import PRODUCT, ROWS
from tests.fusion.test_values_read_again import NUMBERS, RESIDUAL

RNG = np.random.default_rng(5)
BF16 = ml_dtypes.bfloat16

CHAIN = """
def f(x: tensor[N], y: tensor[N]): tensor {
    let a = compute(x) { for i in 0..N: out[i] = x[i] * 2.0 }
    let b = compute(a, y) { for i in 0..N: out[i] = a[i] + y[i] }
    let c = compute(b) { for k in 0..K: out[k] = tanh(b[k]) }
    let d = compute(c, x) { for i in 0..N: out[i] = c[i] * x[i] }
    compute(d) { for i in 0..N: out[i] = d[i] - 1.0 }
}"""


@pytest.mark.parametrize("n", [0, 1, 31, 1000, 100_003])
def test_five_maps(n: int) -> None:
    program = zynml.compile(CHAIN, device="cuda:0")
    x, y = (RNG.standard_normal(n).astype(np.float32) for _ in range(2))
    want = np.tanh(x.astype(np.float64) * 2 + y) * x - 1
    assert np.allclose(program.f(x, y), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1), (7, 65), (300, 4096), (3, 70_001)], ids=str)
def test_rows(shape: tuple[int, int]) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    assert np.allclose(zynml.compile(ROWS, device="cuda:0").f(x), e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 17, 20), (256, 512, 384), (1000, 1016, 1000)], ids=str)
def test_what_follows_a_product(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b, bias, more = (RNG.standard_normal(s).astype(np.float32) for s in [(m, k), (k, n), (n,), (m, n)])
    want = np.maximum(a.astype(np.float64) @ b + bias, 0) + more
    bound = 1e-6 * k**0.5 * (np.abs(a) @ np.abs(b)) + 1e-4
    assert np.all(np.abs(zynml.compile(PRODUCT, device="cuda:0").f(a, b, bias, more) - want) <= bound)


NARROW = """
def f(A: tensor[M, K, bf16], B: tensor[K, N, bf16], x: tensor[M, N, bf16]): tensor {
    let p = compute(A, B) -> tensor[M, N, bf16] {
        for i in 0..M, j in 0..N:
            var s = 0.0f32
            for k in 0..K: s += (A[i, k] as f32) * (B[k, j] as f32)
            out[i, j] = s as bf16
    }
    compute(p, x) -> tensor[M, N, bf16] { for i in 0..M, j in 0..N: out[i, j] = ((p[i, j] as f32) + (x[i, j] as f32)) as bf16 }
}"""


@pytest.mark.parametrize("shape", [(128, 64, 128), (300, 256, 520), (1000, 1016, 1000), (2048, 2048, 2048)], ids=str)
def test_what_is_added_to_a_product_of_warpgroups(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b, x = (RNG.standard_normal(s).astype(BF16) for s in [(m, k), (k, n), (m, n)])
    found = zynml.compile(NARROW, device="cuda:0").f(a, b, x).astype(np.float64)
    a, b, x = (one.astype(np.float64) for one in (a, b, x))
    exact = a @ b
    assert np.all(np.abs(found - exact - x) <= 2.0**-8 * (2 * np.abs(exact) + np.abs(x)) + 1e-5 * (np.abs(a) @ np.abs(b)))


@pytest.mark.parametrize("shape", [(1, 3, 128, 128), (2, 200, 256, 520), (4, 1024, 512, 2048)], ids=str)
def test_transformer_block(shape: tuple[int, int, int, int]) -> None:
    text = Path("programs/zynml/transformer_block.zynml").read_text()
    program = zynml.compile(text[: text.index("def filled")], device="cuda:0")
    given = transformer.inputs(*shape)
    found, want = program.transformer_block(*given).astype(np.float64), transformer.expected(given)
    assert np.linalg.norm(found - want) <= 0.01 * np.linalg.norm(want)


@pytest.mark.parametrize("columns", [384, 300, 100, 128], ids=str)
def test_columns_that_no_head_has_are_zero(columns: int) -> None:
    text = """def turned(x: tensor[N, C, f32]): tensor {
        compute(x) -> tensor[N, C, f32] { for d in 0..128, h in 0..C / 128, i in 0..N: out[i, h * 128 + d] = x[i, h * 128 + 127 - d] }
    }"""
    x = RNG.standard_normal((1000, columns)).astype(np.float32)
    whole = columns // 128 * 128
    want = np.zeros_like(x)
    want[:, :whole] = x[:, :whole].reshape(1000, -1, 128)[:, :, ::-1].reshape(1000, whole)
    program = zynml.compile(text, device="cuda:0")
    for _ in range(3):
        np.testing.assert_array_equal(program.turned(x), want)


@pytest.mark.parametrize("shape", [(1, 1), (7, 65), (300, 4096), (2, 300_000), (1000, 1000)], ids=str)
def test_what_is_added_and_its_norm_are_two_results_of_a_kernel(shape: tuple[int, int]) -> None:
    program = zynml.compile(RESIDUAL, device="cuda:0")
    x, a = (RNG.standard_normal(shape).astype(np.float32) for _ in range(2))
    gain = RNG.standard_normal(shape[1]).astype(np.float32)
    want = x.astype(np.float64) + a
    for _ in range(3):
        n, y = program.f(x, a, gain)
        np.testing.assert_array_equal(y, x + a)
        np.testing.assert_allclose(n, want / np.sqrt((want**2).mean(1, keepdims=True) + 0.001) * gain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 2), (3, 7), (1, 1_000_003), (2048, 1000)], ids=str)
def test_numbers_stay_on_the_device(shape: tuple[int, int]) -> None:
    program = zynml.compile(NUMBERS, device="cuda:0")
    x = (RNG.random(shape) + 0.5).astype(np.float32)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(program.scaled(x), wide / wide.sum(), rtol=1e-5)
    want = (wide - wide.mean()) / wide.std()
    np.testing.assert_allclose(program.standard(x, float(x.size)), want, rtol=1e-3, atol=1e-3)


TWICE = NARROW.replace("): tensor {", ") {").replace("    compute(p, x)", "    let q = compute(p, x)").replace("\n}", "\n    (q, p)\n}", 1) + "\n"


@pytest.mark.parametrize("shape", [(128, 64, 128), (300, 256, 520), (1000, 1016, 1000), (64, 512, 4096)], ids=str)
def test_a_product_and_what_follows_it_are_two_results(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b, x = (RNG.integers(-2, 3, s).astype(BF16) for s in [(m, k), (k, n), (m, n)])
    program = zynml.compile(TWICE, device="cuda:0")
    exact = a.astype(np.float64) @ b.astype(np.float64)
    for _ in range(3):
        q, p = program.f(a, b, x)
        np.testing.assert_array_equal(p, exact.astype(BF16))
        np.testing.assert_array_equal(q, (p.astype(np.float64) + x.astype(np.float64)).astype(BF16))
