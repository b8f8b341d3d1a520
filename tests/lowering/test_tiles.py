"""Slices as tiles: the loops that they stand for, on the CPU and in the emulator, with tiles that hang over edges."""

from typing import Any

import numpy as np
import pytest

import zynml
from compiler.fusion.program_kernels import kernels

RNG = np.random.default_rng(2)

FLASH = """
def f(Q: tensor[M, D], K: tensor[N, D], V: tensor[N, C], scale: f32) {
  compute(Q, K, V, scale) -> tensor[M, C] @kernel(flash_attention) {
    for q in 0..M step 16:
      let rows = Q[q:q+16]
      var m = -inf
      var l = 0.0
      var acc = zeros(16, C)
      for t in 0..N step 8:
        let S = (rows @ transpose(K[t:t+8])) * scale
        let new = max(m, row_max(S))
        let keep = exp(m - new)
        let p = exp(S - new)
        l = l * keep + row_sum(p)
        acc = acc * keep + p @ V[t:t+8]
        m = new
      out[q:q+16] = acc / l
  }
}"""


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def softmax(x: Any) -> Any:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("device", ["cpu", "emulator"])
def test_attention_in_tiles(device: str) -> None:
    program = zynml.compile(FLASH, device=device)
    for m, n, d, c in ((1, 1, 4, 4), (33, 20, 8, 16), (16, 8, 5, 3)):
        q, k, v = normal(m, d), normal(n, d), normal(n, c)
        wanted = softmax(q.astype(float) @ k.T * 0.3) @ v
        assert np.allclose(program.f(q, k, v, 0.3), wanted, atol=1e-5)


def test_tiles_of_attention_are_its_textbook_field() -> None:
    ((_, kernel),) = kernels(zynml.compile(FLASH)._session)
    field = kernel.field
    assert field is not None and sorted(map(str, field.axes.values())) == ["C", "D", "M", "N"]


def test_heads_and_batches_beside_tiles() -> None:
    text = FLASH.replace("[M, D]", "[B, H, M, D]").replace("[N, D]", "[B, H, N, D]").replace("[N, C]", "[B, H, N, C]")
    text = text.replace("[M, C]", "[B, H, M, C]").replace("for q in", "for b in 0..B, h in 0..H, q in")
    for name, at in (("Q", "q"), ("out", "q"), ("K", "t"), ("V", "t")):
        text = text.replace(f"{name}[{at}:", f"{name}[b, h, {at}:")
    q, k, v = normal(2, 3, 20, 4), normal(2, 3, 9, 4), normal(2, 3, 9, 5)
    wanted = softmax(np.einsum("bhmd,bhnd->bhmn", q, k).astype(float) * 0.5) @ v
    assert np.allclose(zynml.compile(text).f(q, k, v, 0.5), wanted, atol=1e-5)


PRODUCT = """
def f(A: tensor[M, K], B: tensor[K, N], bias: tensor[N]) {
  compute(A, B, bias) -> tensor[M, N] {
    for i in 0..M step 8, j in 0..N step 16:
      var sum = zeros(8, 16)
      for k in 0..K step 4: sum += A[i:i+8, k:k+4] @ B[k:k+4, j:j+16]
      out[i:i+8, j:j+16] = relu(sum + bias[j:j+16])
  }
}"""


def test_a_product_in_tiles() -> None:
    program = zynml.compile(PRODUCT)
    for m, k, n in ((8, 4, 16), (9, 7, 17), (1, 1, 1), (31, 33, 3)):
        a, b, bias = normal(m, k), normal(k, n), normal(n)
        assert np.allclose(program.f(a, b, bias), np.maximum(a @ b + bias, 0), atol=1e-4)
    ((_, kernel),) = kernels(program._session)
    assert kernel.field is not None and len(kernel.field.axes) == 3


def test_scores_of_rows() -> None:
    text = """
def f(Q: tensor[M, D], K: tensor[N, D]) {
  compute(Q, K) -> tensor[M, N] { for i in 0..M, j in 0..N: out[i, j] = dot(Q[i], K[j]) * 2.0 }
}"""
    q, k = normal(5, 3), normal(4, 3)
    assert np.allclose(zynml.compile(text).f(q, k), 2 * q @ k.T, atol=1e-5)


def test_a_row_alone_is_summed_to_a_number() -> None:
    text = """
def f(x: tensor[M, N]) {
  compute(x) -> tensor[M] {
    for i in 0..M:
      let top = row_max(x[i])
      out[i] = row_sum(exp(x[i] - top)) + dot(x[i, 0:2], x[i, 1:3])
  }
}"""
    x = normal(4, 3)
    wanted = np.exp(x - x.max(1, keepdims=True)).sum(1) + (x[:, :2] * x[:, 1:]).sum(1)
    assert np.allclose(zynml.compile(text).f(x), wanted, atol=1e-5)


def test_sizes_come_of_slices() -> None:
    text = "def f(x: tensor) { compute(x) { for i in 0..S step 32: out[i:i+32] = x[i:i+32] * 2.0 } }"
    x = normal(70)
    assert np.array_equal(zynml.compile(text).f(x), 2 * x)


def test_rows_less_their_largest() -> None:
    text = """
def f(X: tensor[M, N]) {
  compute(X) -> tensor[M, N] { for i in 0..M step 4 { out[i:i+4] = exp(X[i:i+4] - row_max(X[i:i+4])) / row_sum(exp(X[i:i+4] - row_max(X[i:i+4]))) } }
}"""
    x = normal(7, 5)
    assert np.allclose(zynml.compile(text).f(x), softmax(x), atol=1e-6)


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("let s = X[i:i+4, 0:4] + Y[0:3, 0:4]\n out[i:i+4, 0:4] = s", "0301", "an axis has 4 and 3 elements"),
        ("out[i:i+4] = X[i:i+4, 0:4] @ Y[0:3]", "0301", "an axis has 4 and 3 elements"),
        ("out[i:i+8] = X[i:i+4]", "0301", "an axis has 8 and 4 elements"),
        ("out[i:i+4] = X[i:i+4] @ Y", "0802", "an axis has 3 and 8 elements"),
        ("out[i:i+4] = X[i:i+4] + Y[i:i+4]", "0802", "an axis has 3 and 8 elements"),
        ("out[i:i+4] = X[i:i+4, 0:8:i]", "0203", "the step of a slice is a number other than 0: it is `i`"),
    ],
)
def test_what_does_not_fit(body: str, code: str, words: str) -> None:
    lines = "\n".join(f"      {line.strip()}" for line in body.split("\n"))
    text = f"def f(X: tensor[M, N], Y: tensor[K, P]) {{\n  compute(X, Y) -> tensor[M, N] {{\n    for i in 0..M step 4:\n{lines}\n  }}\n}}"
    with pytest.raises(zynml.ZynMLError) as found:
        zynml.compile(text).f(normal(8, 8), normal(3, 8))
    assert f"ZYN{code}" in str(found.value) and words in str(found.value), str(found.value)
