"""Sums whose weights are computed from other products, in ZynML and in float64: weights that are no exponentials, and the backward pass of
attention."""

from typing import Any

import ml_dtypes
import numpy as np

import zynml

NUMPY = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
UNIT = {"bf16": 2.0**-8, "f16": 2.0**-11}

ONE = """def f(Q: tensor[H, M, D, TYPE], K: tensor[H, N, D, TYPE], V: tensor[H, N, C, TYPE], scale: f32ALSO) {
    compute(Q, K, V, scaleNAMES) -> tensor[H, M, C] {
        for h in 0..H, i in 0..M, e in 0..C:
            var sum = 0.0f32
            for j in 0..N:
                var s = 0.0f32
                for d in 0..D: s += (Q[h, i, d] as f32) * (K[h, j, d] as f32)
                let w = (WEIGHT) as TYPE
                sum += SUM
            out[h, i, e] = sum
    }
}
"""
PLAIN, GUARDED = "(w as f32) * (V[h, j, e] as f32)", "if GUARD { (w as f32) * (V[h, j, e] as f32) } else { 0.0 }"

BACKWARD = """def f(
    Q: tensor[H, T, E, bf16], K: tensor[H, T, E, bf16], V: tensor[H, T, E, bf16], G: tensor[H, T, E, bf16], log: tensor[H, T], mean: tensor[H, T],
    scale: f32
) {
    compute(Q, K, V, G, log, mean, scale) -> (keys: tensor[H, T, E, bf16], values: tensor[H, T, E, bf16]) {
        for h in 0..H, j in 0..T, e in 0..E:
            var by_key = 0.0f32
            var by_value = 0.0f32
            for i in 0..T:
                var s = 0.0f32
                for d in 0..E: s += (Q[h, i, d] as f32) * (K[h, j, d] as f32)
                var g = 0.0f32
                for d in 0..E: g += (G[h, i, d] as f32) * (V[h, j, d] as f32)
                let p = exp(s * scale - log[h, i])
                let ds = (p * (g - mean[h, i]) * scale) as bf16
                by_key += if j <= i { (ds as f32) * (Q[h, i, e] as f32) } else { 0.0 }
                by_value += if j <= i { (p as bf16 as f32) * (G[h, i, e] as f32) } else { 0.0 }
            keys[h, j, e] = by_key as bf16
            values[h, j, e] = by_value as bf16
    }
}
"""


def launched(text: str, values: list[Any], like: str, device: str) -> Any:
    """The function's value, of which there is one launch on sm_90a."""
    (kernel,) = zynml.compile(text)._session.launches_like([like], "emulator:sm_90a")
    assert len(kernel.threads.launches.launches) == 1
    return zynml.compile(text, device=device).f(*values)


def weighed(
    sizes: tuple[int, int, int, int, int],
    weight: str = "max(s * scale, 0.0)",
    value: Any = lambda s, given: np.maximum(s, 0),
    guard: str = "",
    seen: Any = None,
    dtype: str = "bf16",
    scale: float = 0.125,
    change: Any = None,
    also: dict[str, Any] | None = None,
    device: str = "emulator:sm_90a",
) -> tuple[Any, Any, Any]:
    """What the program gives, and in float64 with the size of what is summed. `value`: weights from scaled scores."""
    h, m, n, d, c = sizes
    random = np.random.default_rng(m + n)
    q, k, v = (random.standard_normal((h, rows, width)).astype(NUMPY[dtype]) for rows, width in ((m, d), (n, d), (n, c)))
    if change is not None:
        change(q, k, v)
    also = also or {}
    declared = {"A": "tensor[M, N, bool]", "R": "tensor[H, M]", "S": "tensor[H, N]"}
    text = ONE.replace("SUM", GUARDED if guard else PLAIN).replace("GUARD", guard).replace("WEIGHT", weight).replace("TYPE", dtype)
    text = text.replace("ALSO", "".join(f", {name}: {declared[name]}" for name in also)).replace("NAMES", "".join(f", {name}" for name in also))
    shapes = {"Q": (q, dtype), "K": (k, dtype), "V": (v, dtype), **{name: (array, "bool" if name == "A" else "f32") for name, array in also.items()}}
    like = ", ".join(f"{name}={'x'.join(map(str, array.shape))}:{kind}" for name, (array, kind) in shapes.items()) + f", scale={scale}"
    found = np.asarray(launched(text, [q, k, v, scale, *also.values()], like, device)).astype(np.float64)
    with np.errstate(all="ignore"):
        q, k, v = (array.astype(np.float64) for array in (q, k, v))
        weights = value(q @ k.swapaxes(-1, -2) * scale, also)
        weights = weights.astype(NUMPY[dtype]).astype(np.float64)
        terms = weights[..., None] * v[:, None]
        if seen is not None:
            terms = np.where(np.broadcast_to(seen(np.arange(m)[:, None], np.arange(n)), weights.shape)[..., None], terms, 0)
        return found, terms.sum(2), np.abs(np.nan_to_num(terms, nan=0, posinf=0, neginf=0)).sum(2)


def agree(found: Any, wanted: Any, size: Any, dtype: str = "bf16") -> None:
    """Weights next to where their type rounds up or down may go either way, as scores are summed in another order."""
    with np.errstate(invalid="ignore"):
        close = np.abs(found - wanted) <= UNIT[dtype] * size + 1e-4
    assert np.all(close | (np.isnan(found) & np.isnan(wanted)) | (found == wanted))


def agrees_with_the_backward_pass(length: int, width: int, device: str = "emulator:sm_90a") -> None:
    random = np.random.default_rng(length)
    q, k, v, g = (random.standard_normal((2, length, width)).astype(ml_dtypes.bfloat16) for _ in range(4))
    scale = width**-0.5
    Q, K, V, G = (array.astype(np.float64) for array in (q, k, v, g))
    seen = np.tril(np.ones((length, length), bool))
    scores = np.where(seen, Q @ K.swapaxes(1, 2) * scale, -np.inf)
    log = np.log(np.exp(scores).sum(-1)).astype(np.float32)
    p = np.exp(scores - log[..., None])
    slopes = G @ V.swapaxes(1, 2)
    mean = (p * slopes).sum(-1).astype(np.float32)
    ds = p * (slopes - mean[..., None]) * scale
    like = ", ".join(f"{name}=2x{length}x{width}:bf16" for name in "QKVG") + f", log=2x{length}, mean=2x{length}, scale={scale}"
    text = BACKWARD.replace("log", "least")
    keys, values = map(np.asarray, launched(text, [q, k, v, g, log, mean, float(scale)], like.replace("log", "least"), device))
    for found, weights, factor in ((keys, ds, Q), (values, p, G)):
        size = np.abs(weights).swapaxes(1, 2) @ np.abs(factor)
        agree(found.astype(np.float64), weights.swapaxes(1, 2) @ factor, 3 * size)
