"""Loops over the rows of a block that ends where the tensor does, `for q in i..min(i + 4, M)`."""

from typing import Any

import numpy as np
import pytest

import zynml

BODIES = {
    "the limit last": "for i in 0..M step 4 { for q in i..min(i + 4, M): out[q] = X[q] * 2.0 }",
    "the limit first": "for i in 0..M step 4 { for q in i..min(M, i + 4): out[q] = X[q] * 2.0 }",
}


@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize("name", BODIES)
def test_blocks_that_hang_over_the_edge(name: str, device: str) -> None:
    program = zynml.compile(f"def f(X: tensor[M]) {{ compute(X) {{ {BODIES[name]} }} }}", device=device)
    for size in (1, 4, 9):
        x: Any = np.arange(size, dtype=np.float32)
        assert np.array_equal(program.f(x), 2 * x)


def test_a_sum_in_blocks() -> None:
    text = """
def f(A: tensor[M, K], B: tensor[K, P]) {
  compute(A, B) -> tensor[M, P] {
    for i in 0..M, j in 0..P:
      var s = 0.0
      for k0 in 0..K step 4 { for k in k0..min(k0 + 4, K): s += A[i, k] * B[k, j] }
      out[i, j] = s
  }
}"""
    a, b = np.random.default_rng(1).standard_normal((2, 5, 9))
    got = zynml.compile(text.replace("K]", "K, f64]").replace("P]", "P, f64]")).f(a, b.T.copy())
    assert np.allclose(got, a @ b.T, rtol=1e-12)
