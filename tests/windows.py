"""Convolutions as programs write them, and what they mean, in float64."""

import itertools
from typing import Any

import ml_dtypes
import numpy as np

BF16 = ml_dtypes.bfloat16

CHANNELS_LAST = """
def f(X: tensor[N, H, W, C, bf16], F: tensor[K, R, S, C, bf16]) {
    compute(X, F) -> tensor[N, Y, Z, K, %s] @kernel(conv2d, stride=%d, padding=%d, dilation=%d) {
        for n in 0..N, y in 0..Y, x in 0..Z, k in 0..K {
            var s = 0.0
            for r in 0..R, q in 0..S, c in 0..C {
                let i = y * stride + r * dilation - padding
                let j = x * stride + q * dilation - padding
                if i >= 0 and i < H and j >= 0 and j < W { s += X[n, i, j, c] * F[k, r, q, c] }
            }
            out[n, y, x, k] = s
        }
    }
}"""
CHANNELS_FIRST = """
def f(X: tensor[N, C, H, W, bf16], F: tensor[K, C, R, S, bf16]) {
    compute(X, F) -> tensor[N, K, Y, Z, %s] @kernel(conv2d, stride=%d, padding=%d, dilation=%d) {
        for n in 0..N, k in 0..K, y in 0..Y, x in 0..Z {
            var s = 0.0
            for c in 0..C, r in 0..R, q in 0..S {
                let i = y * stride + r * dilation - padding
                let j = x * stride + q * dilation - padding
                if i >= 0 and i < H and j >= 0 and j < W { s += X[n, c, i, j] * F[k, c, r, q] }
            }
            out[n, k, y, x] = s
        }
    }
}"""

FORMS = {
    "one guard": "for r in 0..R, q in 0..S, c in 0..C { if y + r >= 1 and y + r < H + 1 and x + q >= 1 and x + q < W + 1 "
    "{ s += X[n, y + r - 1, x + q - 1, g, c] * F[g, k, r, q, c] } }",
    "guards in each other": "for r in 0..R { if y + r >= 1 and y + r <= H { for q in 0..S { if 0 <= x + q - 1 { if W > x + q - 1 { "
    "for c in 0..C { s += F[g, k, r, q, c] * X[n, y + r - 1, x + q - 1, g, c] } } } } } }",
    "zeros": "for c in 0..C, q in 0..S, r in 0..R { let i = y + r - 1\nlet j = x + q - 1\n"
    "let v = if 0 <= i and i < H and 0 <= j and j < W { X[n, i, j, g, c] } else { 0.0 }\ns += v * F[g, k, r, q, c] }",
}
"""Ways to write a window, in groups, with a border of 1."""

GROUPED = """
def f(X: tensor[N, H, W, G, C, bf16], F: tensor[G, K, R, S, C, bf16], bias: tensor[G, K], Z: tensor[N, H, W, G, K, bf16]) {
    compute(X, F, bias, Z) -> tensor[N, H, W, G, K, bf16] @kernel(conv2d) {
        for n in 0..N, y in 0..H, x in 0..W, g in 0..G, k in 0..K {
            var s = bias[g, k]
            FORM
            out[n, y, x, g, k] = max(s, 0.0) + Z[n, y, x, g, k]
        }
    }
}"""

VALID = """
def f(X: tensor[N, H, W, C, bf16], F: tensor[R, S, C, K, bf16], bias: tensor[K]) {
    compute(X, F, bias) -> tensor[N, H-R+1, W-S+1, K, bf16] @kernel(conv2d) {
        for n in 0..N, y in 0..H-R+1, x in 0..W-S+1, k in 0..K {
            var s = 0.0
            for r in 0..R, q in 0..S, c in 0..C: s += X[n, y + r, x + q, c] * F[r, q, c, k]
            out[n, y, x, k] = max(s + bias[k], 0.0)
        }
    }
}"""


def convolved(x: Any, f: Any, stride: int, padding: int, dilation: int) -> Any:
    """In float64, of channels last; products outside count nothing."""
    n, h, w, _ = x.shape
    k, taps_down, taps_across, _ = f.shape
    down, across = ((extent + 2 * padding - dilation * (taps - 1) - 1) // stride + 1 for extent, taps in ((h, taps_down), (w, taps_across)))
    out = np.zeros((n, down, across, k))
    x, f = x.astype(np.float64), f.astype(np.float64)
    with np.errstate(invalid="ignore"):
        for y, z, r, q in itertools.product(range(down), range(across), range(taps_down), range(taps_across)):
            i, j = y * stride + r * dilation - padding, z * stride + q * dilation - padding
            if 0 <= i < h and 0 <= j < w:
                out[:, y, z] += (x[:, None, i, j] * f[:, r, q]).sum(-1)
    return out


def small(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(BF16)


CASES = [
    ((2, 8, 8, 16), (16, 3, 3), (1, 1, 1)),
    ((3, 7, 9, 24), (72, 3, 3), (1, 1, 1)),
    ((1, 16, 12, 64), (40, 3, 3), (2, 1, 1)),
    ((2, 9, 11, 72), (16, 1, 1), (2, 0, 1)),
    ((1, 13, 10, 16), (24, 3, 2), (1, 2, 2)),
    ((1, 20, 20, 16), (16, 5, 5), (3, 2, 1)),
    ((130, 2, 1, 64), (16, 3, 3), (1, 1, 1)),
]
"""Pictures, filters, and stride, padding and dilation."""

ODD = [
    ((2, 9, 7, 3), (5, 3, 3), (1, 1, 1)),
    ((1, 8, 8, 20), (16, 3, 3), (2, 1, 1)),
    ((1, 20, 21, 3), (16, 7, 7), (2, 3, 1)),
    ((1, 12, 10, 1), (33, 5, 4), (1, 2, 2)),
    ((3, 1, 31, 9), (8, 1, 3), (1, 1, 1)),
    ((2, 31, 11, 12), (40, 3, 3), (9, 1, 1)),
]
"""The same with channels of which rows aren't multiples of 16 bytes."""
