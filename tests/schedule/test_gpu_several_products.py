"""Fields of several sums of products: each on tensor cores, one after the other."""

import ml_dtypes
import numpy as np
import pytest

from compiler.schedule.gpu.products import copied_operands
from tests.schedule.test_gpu_computed_operands import run
from tests.schedule.test_gpu_convolutions import on_warpgroups

BF16 = ml_dtypes.bfloat16

GATED = """
def f(A: tensor[M, K, bf16], V: tensor[K, N, bf16], W: tensor[K, N, bf16]) {
    compute(A, V, W) -> tensor[M, N, f32] {
        for i in 0..M, j in 0..N:
            var gate = 0.0
            var value = 0.0
            for k in 0..K:
                gate += A[i, k] * V[k, j]
                value += A[i, k] * W[k, j]
            out[i, j] = max(gate, 0.0) * value
    }
}"""

LOW_RANK = """
def f(A: tensor[M, K, bf16], W: tensor[N, K, bf16], P: tensor[M, R, bf16], Q: tensor[N, R, bf16]) {
    compute(A, W, P, Q) -> tensor[M, N, f32] {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += A[i, k] * W[j, k]
            var t = 0.0
            for r in 0..R: t += P[i, r] * Q[j, r]
            out[i, j] = s + 2.0 * t
    }
}"""


@pytest.fixture(autouse=True)
def _worthwhile(in_parts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Further launches pay for small sizes, too."""
    monkeypatch.setattr(copied_operands, "WORTH", 0)


def whole(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(BF16)


@pytest.mark.parametrize("architecture", ["sm_90a", "sm_80"])
@pytest.mark.parametrize(("m", "n", "k"), [(72, 80, 96), (65, 67, 70)])
def test_two_sums_of_one_operand(m: int, n: int, k: int, architecture: str) -> None:
    a, v, w = whole(1, m, k), whole(2, k, n), whole(3, k, n)
    out = np.full((m, n), -7, np.float32)
    made = run(GATED, {"A": a, "V": v, "W": w, "out": out}, architecture, {"M": m, "N": n, "K": k})
    wide = [x.astype(np.float64) for x in (a, v, w)]
    np.testing.assert_array_equal(out, np.maximum(wide[0] @ wide[1], 0) * (wide[0] @ wide[2]))
    assert on_warpgroups(made) == (architecture == "sm_90a")


@pytest.mark.parametrize("rank", [3, 16, 64])
def test_sums_of_different_lengths(rank: int) -> None:
    m, n, k = 72, 80, 64
    a, w, p, q = whole(1, m, k), whole(2, n, k), whole(3, m, rank), whole(4, n, rank)
    out = np.full((m, n), -7, np.float32)
    made = run(LOW_RANK, {"A": a, "W": w, "P": p, "Q": q, "out": out}, sizes={"M": m, "N": n, "K": k, "R": rank})
    wide = [x.astype(np.float64) for x in (a, w, p, q)]
    np.testing.assert_array_equal(out, wide[0] @ wide[1].T + 2 * wide[2] @ wide[3].T)
    assert on_warpgroups(made)


def test_a_sum_of_another() -> None:
    source = """
def f(A: tensor[M, K, bf16], B: tensor[K, N, bf16], C: tensor[O, N, bf16]) {
    compute(A, B, C) -> tensor[M, O, f32] {
        for i in 0..M, o in 0..O:
            var t = 0.0
            for j in 0..N:
                var s = 0.0
                for k in 0..K: s += A[i, k] * B[k, j]
                t += (s as bf16) * C[o, j]
            out[i, o] = t
    }
}"""
    a, b, c = whole(1, 72, 64), np.eye(64, 80, dtype=BF16), whole(3, 96, 80)
    out = np.full((72, 96), -7, np.float32)
    made = run(source, {"A": a, "B": b, "C": c, "out": out}, sizes={"M": 72, "N": 80, "K": 64, "O": 96})
    wide = [x.astype(np.float64) for x in (a, b, c)]
    np.testing.assert_array_equal(out, wide[0] @ wide[1] @ wide[2].T)
    assert on_warpgroups(made)
