"""Products beside sums of their rows and columns, in one loop: each sum has only the axes of what it reads, and is computed once."""

import ml_dtypes
import numpy as np
import pytest

from compiler.schedule.gpu.products import copied_operands
from tests.schedule.test_gpu_computed_operands import run

PEARSON = """
def f(a: tensor[M, K, {dtype}], b: tensor[N, K, {dtype}]) {{
    compute(a, b) -> tensor[M, N, {sums}] {{
        for i in 0..M, j in 0..N:
            var p = {zero}
            var q = {zero}
            var s = {zero}
            var x = {zero}
            var y = {zero}
            for k in 0..K:
                p += a[i, k]
                q += b[j, k]
                s += a[i, k] * b[j, k]
                x += a[i, k] * a[i, k]
                y += b[j, k] * b[j, k]
            out[i, j] = {result}
    }}
}}"""
CORRELATION = "(s - p * q / K) / sqrt((x - p * p / K) * (y - q * q / K))"
WHOLE = "K * s - p * q + (x - y)"
DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32}


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize(
    ("dtype", "architecture", "m", "n", "k"),
    [
        ("bf16", "sm_90a", 72, 80, 96),
        ("bf16", "sm_80", 65, 67, 70),
        ("f16", "sm_90a", 65, 67, 70),
        ("f32", "sm_90a", 66, 130, 68),
        ("f64", "sm_80", 65, 67, 33),
        ("i8", "sm_90a", 72, 80, 96),
        ("i32", "sm_90a", 72, 80, 40),
    ],
)
def test_rows_and_columns_are_summed_once(dtype: str, architecture: str, m: int, n: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied_operands, "WORTH", 0)
    r, is_float = np.random.default_rng(m * n), not dtype.startswith("i")
    a, b = ((r.normal(size=s) if is_float else r.integers(-9, 10, s)).astype(DTYPES[dtype]) for s in ((m, k), (n, k)))
    sums = "f64" if dtype == "f64" else "f32" if is_float else "i32"
    source = PEARSON.format(dtype=dtype, sums=sums, zero="0.0" if is_float else "0i32", result=CORRELATION if is_float else WHOLE)
    out = np.full((m, n), -7, DTYPES[sums])
    made = run(source, {"a": a, "b": b, "out": out}, architecture, {"M": m, "N": n, "K": k})
    left, right = a.astype(np.float64), b.astype(np.float64)
    if is_float:
        # f32 sums of at most 130 terms, each below 16 deviations
        error = 1e-13 if dtype == "f64" else 1e-5
        np.testing.assert_allclose(out, np.corrcoef(left, right)[:m, m:], atol=error)
    else:
        p, q, x, y = left.sum(1), right.sum(1), (left**2).sum(1), (right**2).sum(1)
        np.testing.assert_array_equal(out, k * left @ right.T - np.outer(p, q) + (x[:, None] - y))
    kept = [launch.function.name for launch in made.launches]
    assert len([name for name in kept if "_sum" in name]) >= 2 and len([name for name in kept if "_stored" in name]) >= 1


NORMED_DISTANCES = """
def f(a: tensor[M, K], b: tensor[N, K]) {
    compute(a, b) -> tensor[M, N] {
        for i in 0..M, j in 0..N:
            var d = 0.0
            var s = 0.0
            var t = 0.0
            for k in 0..K:
                d += abs(a[i, k] - b[j, k])
                s += abs(a[i, k])
                t = max(t, b[j, k])
            out[i, j] = d / s - t
    }
}"""
CENTRED = """
def f(a: tensor[M, N]) {
    compute(a) -> tensor[M, N] {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..N: s += a[i, k]
            var t = 0.0
            for k in 0..M: t += a[k, j]
            out[i, j] = a[i, j] - s / N - t / M
    }
}"""


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize(("m", "n", "k"), [(65, 67, 70), (64, 96, 33)])
def test_rows_and_columns_beside_terms_that_are_no_products(m: int, n: int, k: int) -> None:
    r = np.random.default_rng(k)
    a, b = r.normal(size=(m, k)).astype(np.float32), r.normal(size=(n, k)).astype(np.float32)
    out = np.full((m, n), -7, np.float32)
    made = run(NORMED_DISTANCES, {"a": a, "b": b, "out": out}, sizes={"M": m, "N": n, "K": k})
    left, right = a.astype(np.float64), b.astype(np.float64)
    want = np.abs(left[:, None] - right).sum(2) / np.abs(left).sum(1)[:, None] - right.max(1, initial=0.0)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)
    assert len([launch for launch in made.launches if "_sum" in launch.function.name]) >= 2


@pytest.mark.usefixtures("in_parts")
def test_rows_and_columns_of_one_matrix() -> None:
    m, n = 67, 70
    a, out = np.random.default_rng(1).normal(size=(m, n)).astype(np.float32), np.full((m, n), -7, np.float32)
    made = run(CENTRED, {"a": a, "out": out}, sizes={"M": m, "N": n})
    wide = a.astype(np.float64)
    np.testing.assert_allclose(out, wide - wide.mean(1, keepdims=True) - wide.mean(0), rtol=1e-5, atol=1e-5)
    assert len([launch for launch in made.launches if "_sum" in launch.function.name]) >= 2
