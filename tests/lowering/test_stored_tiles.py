"""Tiles in variables that are read at other rows and columns than their own, slices with steps, whole tensors multiplied: beside NumPy."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zynml

Array = Any
RNG = np.random.default_rng(4)
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "i32": np.int32}
TOLERANCE = {"f16": 2.0**-9, "bf16": 2.0**-6, "f32": 1e-5, "f64": 1e-12, "i32": 0.0}
"""One rounding of the result's type, and for f32 and f64 those of the sums."""

on_each_device = pytest.mark.parametrize("device", ["cpu", "emulator"])


def normal(*shape: int, dtype: str = "f32") -> Array:
    if dtype == "i32":
        return RNG.integers(-5, 6, shape).astype(np.int32)
    return RNG.standard_normal(shape).astype(DTYPES[dtype])


def softmax(x: Array) -> Array:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


CHAIN = """
def f(A: tensor[M, K, {0}], B: tensor[K, P, {0}], C: tensor[P, Q, {0}]) {{
  compute(A, B, C) -> tensor[M, Q, {0}] {{
    for r in 0..M step 8 {{
      var S = zeros(8, P)
      for k in 0..K step 4: S += A[r:r+8, k:k+4] @ B[k:k+4]
      out[r:r+8] = S @ C
    }}
  }}
}}"""


@on_each_device
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_product_of_a_tile_that_was_summed_up(dtype: str, device: str) -> None:
    program = zynml.compile(CHAIN.format(dtype), device=device)
    for m, k, p, q in ((17, 9, 5, 3), (1, 1, 1, 1), (8, 4, 2, 9)):
        a, b, c = normal(m, k, dtype=dtype), normal(k, p, dtype=dtype), normal(p, q, dtype=dtype)
        wide = [x.astype(np.float64) for x in (a, b, c)]
        terms = np.abs(wide[0]) @ np.abs(wide[1]) @ np.abs(wide[2])
        got = program.f(a, b, c)
        assert got.dtype == DTYPES[dtype]
        assert (np.abs(got.astype(np.float64) - wide[0] @ wide[1] @ wide[2]) <= TOLERANCE[dtype] * terms).all()


def body_of(lines: str) -> str:
    inside = "\n".join(f"      {line.strip()}" for line in lines.strip().split("\n"))
    return f"def f(X: tensor[M, N], Y: tensor[N, P]) {{\n  compute(X, Y) -> tensor[{{}}] {{\n    for r in 0..M step 4 {{\n{inside}\n    }}\n  }}\n}}"


CASES: dict[str, tuple[str, str, Callable[[Array, Array], Array]]] = {
    "a softmax of a product in one variable": (
        "M, P",
        """var S = X[r:r+4] @ Y
        S = exp(S - row_max(S))
        out[r:r+4] = S / row_sum(S)""",
        lambda x, y: softmax(x @ y),
    ),
    "a tile turned": ("N, M", "let T = X[r:r+4] * 2.0\n out[:, r:r+4] = transpose(T)", lambda x, y: 2 * x.T),
    "a tile that is turned in place": (
        "M, N",
        "var G = transpose(X[r:r+4]) @ X[r:r+4]\n G = transpose(G) @ G\n out[r:r+4] = X[r:r+4] @ G",
        lambda x, y: np.concatenate([t @ (t.T @ t).T @ (t.T @ t) for t in np.split(x, range(4, len(x), 4)) if len(t)]),
    ),
    "two slices of the result": (
        "M, N",
        "out[r:r+4, 0:2] = X[r:r+4, 0:2]\n out[r:r+4, 2:N] = X[r:r+4, 2:N] * 3.0",
        lambda x, y: np.concatenate([x[:, :2], 3 * x[:, 2:]], 1),
    ),
    "a tile in a branch": (
        "M, N",
        """var S = X[r:r+4]
        if r > 3 { S = S * 2.0 }
        out[r:r+4] = S - row_max(S)""",
        lambda x, y: (lambda s: s - s.max(1, keepdims=True))(np.where(np.arange(len(x))[:, None] > 3, 2 * x, x)),
    ),
    "elements of a tile": (
        "M, 2",
        """let T = X[r:r+4] @ Y
        for i in 0..4 { if r + i < M { out[r + i, 0] = T[i, 0]
        out[r + i, 1] = T[i, 0] + row_max(T[i, :]) } }""",
        lambda x, y: np.stack([(x @ y)[:, 0], (x @ y)[:, 0] + (x @ y).max(1)], 1),
    ),
    "rows less the largest of each column": (
        "M, N",
        "let top = row_max(transpose(X))\n out[r:r+4] = X[r:r+4] - transpose(top)",
        lambda x, y: x - x.max(0),
    ),
    "a vector times a matrix": ("M, M", "for i in r..r+4 { if i < M { out[i] = X[i] @ transpose(X) } }", lambda x, y: x @ x.T),
    "a tile that starts at zero": (
        "M, N",
        "var z = zeros(4, N)\n z += X[r:r+4]\n z *= 2.0\n out[r:r+4] = transpose(transpose(z))",
        lambda x, y: 2 * x,
    ),
    "every second column": ("M, 3", "out[r:r+4] = X[r:r+4, 0:6:2]", lambda x, y: x[:, 0:6:2]),
    "columns backwards": ("M, N", "out[r:r+4] = X[r:r+4, ::-1]", lambda x, y: x[:, ::-1]),
    "columns backwards in steps": ("M, 2", "out[r:r+4] = X[r:r+4, 5:1:-2]", lambda x, y: x[:, 5:1:-2]),
}


@on_each_device
@pytest.mark.parametrize("name", CASES)
def test_tiles(name: str, device: str) -> None:
    shape, lines, wanted = CASES[name]
    program = zynml.compile(body_of(lines).replace("{}", shape), device=device)
    for rows in (4, 7, 9):
        x, y = normal(rows, 6), normal(6, 5)
        assert np.allclose(program.f(x, y), wanted(x.astype(np.float64), y.astype(np.float64)), rtol=1e-4, atol=1e-4)


@on_each_device
def test_whole_tensors_are_multiplied_in_lines(device: str) -> None:
    text = """
def f(X: tensor, W: tensor, V: tensor, bias: tensor) {
  compute(X, W, V, bias) @kernel(fused) {
    let hidden = relu(X @ W + bias)
    out = hidden @ V
  }
}"""
    x, w, v, bias = normal(7, 5), normal(5, 9), normal(9, 3), normal(9)
    wanted = np.maximum(x.astype(np.float64) @ w + bias, 0) @ v
    assert np.allclose(zynml.compile(text, device=device).f(x, w, v, bias), wanted, rtol=1e-5, atol=1e-5)


@on_each_device
def test_a_reduction_of_a_whole_tensor_beside_slices(device: str) -> None:
    text = """
def f(X: tensor[M, N]) {
  compute(X) -> tensor[M, N] @kernel(fused) {
    let top = reduce(max, X, axis=0)
    for i in 0..M step 2: out[i:i+2] = X[i:i+2] - top
  }
}"""
    x = normal(5, 4)
    assert np.array_equal(zynml.compile(text, device=device).f(x), x - x.max(0))


@on_each_device
def test_slices_of_an_input_that_is_updated(device: str) -> None:
    text = "def f(X: tensor[M, N]) { compute(X) { for i in 0..M step 2: X[i:i+2] = X[i:i+2] * 2.0 } }"
    x = normal(5, 4)
    assert np.array_equal(zynml.compile(text, device=device).f(x), 2 * x)
