"""A transformer's block in NumPy and float64, with what a program in bf16 is given."""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

BF16 = ml_dtypes.bfloat16


def inputs(batch: int, tokens: int, width: int, inner: int, seed: int = 0) -> list[Array]:
    """Elements, gains and weights in the order in which the program takes them."""
    random = np.random.default_rng(seed)

    def normal(*shape: int, scale: float) -> Array:
        return (random.standard_normal(shape) * scale).astype(BF16)

    def gain() -> Array:
        return (1 + random.standard_normal(width) * 0.1).astype(BF16)

    square = [normal(width, width, scale=width**-0.5) for _ in range(4)]
    up, down = normal(width, inner, scale=width**-0.5), normal(inner, width, scale=inner**-0.5)
    return [normal(batch, tokens, width, scale=1.0), gain(), *square, gain(), up, down]


def expected(given: list[Array], depth: int = 128) -> Array:
    """The block's value; heads of `depth` columns."""
    x, first, wq, wk, wv, wo, second, up, down = (one.astype(np.float64) for one in given)
    batch, tokens, width = x.shape
    n = _norm(x, first)
    q, k, v = ((n @ w).reshape(batch, tokens, width // depth, depth) for w in (wq, wk, wv))
    scores = np.einsum("bihd,bjhd->bhij", q, k) * depth**-0.5
    scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    heads = np.einsum("bhij,bjhd->bihd", weights, v).reshape(batch, tokens, width)
    y = x + heads @ wo
    wide = _norm(y, second) @ up
    return y + (0.5 * wide * (1 + np.tanh(0.7978845608 * (wide + 0.044715 * wide**3)))) @ down


def _norm(x: Array, gain: Array) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gain
