"""Sizes and ints of a call that multiply or divide loop variables: strides, groups, factors, lengths of blocks. Programs as textbooks write
them, against NumPy in float64, at odd sizes and where extents are empty."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

import zynml

Array = np.ndarray[Any, Any]
DEVICES = ("cpu", "emulator:sm_90a")
_RANDOM = np.random.default_rng(20)


def floats(*shape: int) -> Array:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def windows(x: Array, extents: Sequence[int], stride: int, padding: int, dilation: int = 1, fill: float = 0.0) -> Array:
    """The windows of the last axes: [..., taps, positions]."""
    rank = len(extents)
    x = np.pad(x.astype(float), [(0, 0)] * (x.ndim - rank) + [(padding, padding)] * rank, constant_values=fill)
    counts = [(have - dilation * (extent - 1) - 1) // stride + 1 for have, extent in zip(x.shape[-rank:], extents, strict=True)]
    taps = [
        x[(..., *(slice(dilation * t, dilation * t + stride * (n - 1) + 1, stride) for t, n in zip(at, counts, strict=True)))]
        for at in product(*map(range, extents))
    ]
    return np.stack(taps, axis=x.ndim - rank)


def transposed(x: Array, w: Array, stride: int, padding: int = 0, dilation: int = 1, groups: int = 1) -> Array:
    """A transposed convolution over any number of axes; `w` is [channels, outputs of a group, taps ...]."""
    inputs, outputs, taps = x.shape[1] // groups, w.shape[1], w.shape[2:]
    full = [(have - 1) * stride + dilation * (extent - 1) + 1 for have, extent in zip(x.shape[2:], taps, strict=True)]
    out = np.zeros((x.shape[0], outputs * groups, *full))
    for g, at in product(range(groups), product(*map(range, taps))):
        reached = tuple(slice(dilation * t, dilation * t + stride * (n - 1) + 1, stride) for t, n in zip(at, x.shape[2:], strict=True))
        own = slice(g * inputs, (g + 1) * inputs)
        term = np.einsum("nc...,co->no...", x[:, own].astype(float), w[(own, slice(None), *at)].astype(float))
        out[(slice(None), slice(g * outputs, (g + 1) * outputs), *reached)] += term
    return out[(..., *(slice(padding, have - padding) for have in full))]


def grouped(x: Array, w: Array, groups: int) -> Array:
    own, per = w.shape[1], w.shape[0] // groups
    seen = windows(x, w.shape[2:], 1, 0)
    parts = [
        np.einsum("nckyz,ock->noyz", seen[:, g * own : (g + 1) * own], w[g * per : (g + 1) * per].reshape(per, own, w.shape[2] * w.shape[3]).astype(float))
        for g in range(groups)
    ]
    return np.concatenate(parts, 1)


def normed(x: Array, gamma: Array, groups: int) -> Array:
    rows = x.astype(float).reshape(x.shape[0], groups, x.shape[1] // groups * x.shape[2])
    rows = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    return rows.reshape(x.shape) * gamma[:, None]


def shuffled(x: Array, r: int) -> Array:
    n, c, h, w = x.shape
    parts = x.astype(float).reshape(n, c // (r * r), r, r, h, w)
    return parts.transpose(0, 1, 4, 2, 5, 3).reshape(n, c // (r * r), h * r, w * r)


def folded(x: Array, s: int) -> Array:
    n, c, k, _, y, z = x.shape
    out = np.zeros((n, c, (y - 1) * s + k, (z - 1) * s + k))
    for a, b in product(range(k), range(k)):
        out[:, :, a : a + s * (y - 1) + 1 : s, b : b + s * (z - 1) + 1 : s] += x[:, :, a, b]
    return out


def rotated(x: Array, c: Array, s: Array) -> Array:
    x, half = x.astype(float), x.shape[-1] // 2
    low, high = x[..., :half], x[..., half:]
    c, s = c[:, None], s[:, None]
    return np.concatenate([low * c - high * s, low * s + high * c], -1)


CASES: dict[str, tuple[str, Callable[..., Array], list[tuple[Any, ...]]]] = {
    "a convolution of groups": (
        """
def f(x: tensor[N, C, H, W], w: tensor[K, I, Q, R], G: int) {
    compute(x, w) {
        for n in 0..N, g in 0..G, o in 0..K / G, y in 0..H - Q + 1, z in 0..W - R + 1:
            var s = 0.0
            for i in 0..I, q in 0..Q, r in 0..R: s += x[n, g * I + i, y + q, z + r] * w[g * (K / G) + o, i, q, r]
            out[n, g * (K / G) + o, y, z] = s
    }
}""",
        grouped,
        [(floats(2, 6, 7, 5), floats(4, 3, 3, 3), 2), (floats(1, 31, 5, 5), floats(31, 1, 3, 3), 31), (floats(0, 9, 5, 5), floats(3, 3, 1, 1), 3)],
    ),
    "the same, groups an axis of the weights": (
        """
def f(x: tensor[N, C, H, W], w: tensor[G, O, I, Q, R]) {
    compute(x, w) {
        for n in 0..N, g in 0..G, o in 0..O, y in 0..H - Q + 1, z in 0..W - R + 1:
            var s = 0.0
            for i in 0..I, q in 0..Q, r in 0..R: s += x[n, g * I + i, y + q, z + r] * w[g, o, i, q, r]
            out[n, g * O + o, y, z] = s
    }
}""",
        lambda x, w: grouped(x, w.reshape(w.shape[0] * w.shape[1], *w.shape[2:]), w.shape[0]),
        [(floats(2, 6, 7, 5), floats(2, 2, 3, 3, 3)), (floats(1, 3, 3, 3), floats(3, 1, 1, 3, 3)), (floats(1, 0, 3, 3), floats(3, 2, 0, 1, 1))],
    ),
    "stride and padding": (
        """
def f(x: tensor[N, C, H, W], w: tensor[K, C, Q, R], s: int, p: int) {
    compute(x, w) {
        for n in 0..N, o in 0..K, y in 0..(H + 2 * p - Q) / s + 1, z in 0..(W + 2 * p - R) / s + 1:
            var t = 0.0
            for c in 0..C, q in 0..Q, r in 0..R:
                if y * s + q >= p && y * s + q - p < H && z * s + r >= p && z * s + r - p < W:
                    t += x[n, c, y * s + q - p, z * s + r - p] * w[o, c, q, r]
            out[n, o, y, z] = t
    }
}""",
        lambda x, w, s, p: np.einsum("nckyz,ock->noyz", windows(x, w.shape[2:], s, p), w.reshape(*w.shape[:2], -1).astype(float)),
        [(floats(2, 3, 8, 9), floats(4, 3, 3, 3), 2, 1), (floats(1, 3, 11, 13), floats(5, 3, 5, 3), 3, 2), (floats(1, 1, 3, 3), floats(1, 1, 1, 1), 1, 0)],
    ),
    "a transposed convolution, gathered": (
        """
def f(x: tensor[N, C, H, W], w: tensor[C, K, Q, R], s: int, p: int, d: int) {
    compute(x, w) {
        for n in 0..N, o in 0..K, y in 0..(H - 1) * s - 2 * p + d * (Q - 1) + 1, z in 0..(W - 1) * s - 2 * p + d * (R - 1) + 1:
            var t = 0.0
            for c in 0..C, q in 0..Q, r in 0..R:
                let v = y + p - q * d
                let u = z + p - r * d
                if v >= 0 && v % s == 0 && v / s < H && u >= 0 && u % s == 0 && u / s < W:
                    t += x[n, c, v / s, u / s] * w[c, o, q, r]
            out[n, o, y, z] = t
    }
}""",
        transposed,
        [(floats(2, 3, 3, 4), floats(3, 1, 3, 3), 2, 1, 1), (floats(1, 1, 3, 4), floats(1, 1, 4, 2), 3, 0, 2), (floats(1, 2, 5, 3), floats(2, 2, 3, 5), 2, 2, 1)],
    ),
    "a transposed convolution, scattered": (
        """
def f(x: tensor[N, C, L], w: tensor[C, K, Q], s: int) {
    compute(x, w) {
        for n in 0..N, c in 0..C, o in 0..K, y in 0..L, q in 0..Q: out[n, o, y * s + q] += x[n, c, y] * w[c, o, q]
    }
}""",
        transposed,
        [(floats(2, 3, 31), floats(3, 4, 3), 2), (floats(1, 1, 3), floats(1, 1, 4), 3), (floats(1, 2, 7), floats(2, 1, 3), 1), (floats(0, 2, 7), floats(2, 1, 3), 2)],
    ),
    "a transposed convolution of groups in three dimensions": (
        """
def f(x: tensor[N, C, D, H, W], w: tensor[C, O, T, Q, R], s: int, G: int) {
    compute(x, w) {
        for n in 0..N, g in 0..G, o in 0..O, a in 0..(D - 1) * s + T, y in 0..(H - 1) * s + Q, z in 0..(W - 1) * s + R:
            var e = 0.0
            for i in 0..C / G, t in 0..T, q in 0..Q, r in 0..R:
                let b = a - t
                let v = y - q
                let u = z - r
                if b >= 0 && v >= 0 && u >= 0 && b % s == 0 && v % s == 0 && u % s == 0 && b / s < D && v / s < H && u / s < W:
                    e += x[n, g * (C / G) + i, b / s, v / s, u / s] * w[g * (C / G) + i, o, t, q, r]
            out[n, g * O + o, a, y, z] = e
    }
}""",
        lambda x, w, s, groups: transposed(x, w, s, groups=groups),
        [(floats(1, 4, 1, 2, 2), floats(4, 2, 2, 3, 2), 2, 2)],
    ),
    "largest of windows": (
        """
def f(x: tensor[N, C, H, W], k: int, s: int, p: int, d: int) {
    compute(x) {
        for n in 0..N, c in 0..C, y in 0..(H + 2 * p - d * (k - 1) - 1) / s + 1, z in 0..(W + 2 * p - d * (k - 1) - 1) / s + 1:
            var m = -inf
            for q in 0..k, r in 0..k:
                let v = y * s + q * d - p
                let u = z * s + r * d - p
                if v >= 0 && v < H && u >= 0 && u < W: m = max(m, x[n, c, v, u])
            out[n, c, y, z] = m
    }
}""",
        lambda x, k, s, p, d: windows(x, (k, k), s, p, d, -np.inf).max(2),
        [(floats(2, 3, 8, 9), 3, 2, 1, 1), (floats(1, 1, 31, 33), 2, 2, 0, 1), (floats(1, 2, 11, 13), 3, 1, 1, 3)],
    ),
    "means of windows": (
        """
def f(x: tensor[N, C, H, W], k: int, s: int, p: int) {
    compute(x) {
        for n in 0..N, c in 0..C, y in 0..(H + 2 * p - k) / s + 1, z in 0..(W + 2 * p - k) / s + 1:
            var t = 0.0
            for q in 0..k, r in 0..k:
                if y * s + q - p >= 0 && y * s + q - p < H && z * s + r - p >= 0 && z * s + r - p < W:
                    t += x[n, c, y * s + q - p, z * s + r - p]
            out[n, c, y, z] = t / (k * k)
    }
}""",
        lambda x, k, s, p: windows(x, (k, k), s, p).mean(2),
        [(floats(2, 3, 8, 9), 3, 2, 1), (floats(1, 1, 31, 33), 2, 2, 0), (floats(1, 2, 11, 13), 5, 3, 2)],
    ),
    "a norm of groups": (
        """
def f(x: tensor[N, C, L], gamma: tensor[C], G: int) {
    compute(x, gamma) {
        for n in 0..N, g in 0..G:
            var m = 0.0
            for c in 0..C / G, l in 0..L: m += x[n, g * (C / G) + c, l]
            m /= (C / G) * L
            var v = 0.0
            for c in 0..C / G, l in 0..L:
                let e = x[n, g * (C / G) + c, l] - m
                v += e * e
            v /= (C / G) * L
            for c in 0..C / G, l in 0..L:
                out[n, g * (C / G) + c, l] = (x[n, g * (C / G) + c, l] - m) / sqrt(v + 0.00001) * gamma[g * (C / G) + c]
    }
}""",
        normed,
        [(floats(2, 6, 7), floats(6), 2), (floats(1, 31, 33), floats(31), 31), (floats(3, 9, 5), floats(9), 3), (floats(0, 9, 5), floats(9), 3)],
    ),
    "channels shuffled into pixels": (
        """
def f(x: tensor[N, C, H, W], r: int) {
    compute(x) {
        for n in 0..N, c in 0..C / (r * r), y in 0..H, z in 0..W, a in 0..r, b in 0..r:
            out[n, c, y * r + a, z * r + b] = x[n, c * r * r + a * r + b, y, z]
    }
}""",
        shuffled,
        [(floats(2, 8, 3, 4), 2), (floats(1, 9, 5, 1), 3), (floats(1, 25, 3, 3), 5), (floats(2, 31, 3, 3), 1), (floats(2, 8, 0, 3), 2)],
    ),
    "windows as columns": (
        """
def f(x: tensor[N, C, H, W], k: int, s: int) {
    compute(x) {
        for n in 0..N, c in 0..C, a in 0..k, b in 0..k, y in 0..(H - k) / s + 1, z in 0..(W - k) / s + 1:
            out[n, (c * k + a) * k + b, y * ((W - k) / s + 1) + z] = x[n, c, y * s + a, z * s + b]
    }
}""",
        lambda x, k, s: (seen := windows(x, (k, k), s, 0)).reshape(len(x), x.shape[1] * k * k, seen.shape[-1] * seen.shape[-2]),
        [(floats(2, 3, 7, 8), 3, 2), (floats(1, 1, 5, 5), 2, 1), (floats(1, 2, 9, 11), 3, 3)],
    ),
    "columns added up": (
        """
def f(x: tensor[N, C, k, k, Y, Z], s: int) {
    compute(x) {
        for n in 0..N, c in 0..C, a in 0..k, b in 0..k, y in 0..Y, z in 0..Z: out[n, c, y * s + a, z * s + b] += x[n, c, a, b, y, z]
    }
}""",
        folded,
        [(floats(2, 3, 3, 3, 4, 5), 2), (floats(1, 1, 2, 2, 3, 1), 1), (floats(1, 2, 2, 2, 3, 3), 3)],
    ),
    "each pixel several times": (
        "def f(x: tensor[N, H, W], s: int) { compute(x) { for n in 0..N, y in 0..H * s, z in 0..W * s: out[n, y, z] = x[n, y / s, z / s] } }",
        lambda x, s: x.repeat(s, 1).repeat(s, 2),
        [(floats(2, 4, 5), 2), (floats(1, 3, 1), 5), (floats(1, 31, 3), 3), (floats(1, 31, 3), 1), (floats(2, 0, 3), 2)],
    ),
    "every few elements": (
        "def f(x: tensor[N, L], o: int, s: int) { compute(x) { for n in 0..N, i in 0..(L - o) / s: out[n, i] = x[n, o + i * s] } }",
        lambda x, o, s: x[:, o : o + (x.shape[1] - o) // s * s : s],
        [(floats(2, 33), 1, 3), (floats(1, 31), 0, 1), (floats(3, 31), 2, 7), (floats(3, 31), 0, 40)],
    ),
    "running sums of blocks": (
        """
def f(x: tensor[N], B: int) {
    compute(x) {
        for b in 0..N / B:
            var t = 0.0
            for i in 0..B:
                t += x[b * B + i]
                out[b * B + i] = t
    }
}""",
        lambda x, b: np.cumsum(x.astype(float).reshape(-1, b), 1).ravel(),
        [(floats(30), 5), (floats(33), 1), (floats(31), 31), (floats(33), 3), (floats(0), 3)],
    ),
    "a matrix in one index": (
        "def f(x: tensor[L], H: int, W: int) { compute(x) { for y in 0..H, z in 0..W: out[z * H + y] = x[y * W + z] } }",
        lambda x, h, w: x.reshape(h, w).T.ravel(),
        [(floats(35), 5, 7), (floats(31), 31, 1), (floats(33), 1, 33), (floats(0), 0, 3)],
    ),
    "heads side by side": (
        "def f(x) { compute(x) { for b in 0..B, t in 0..T, h in 0..H, d in 0..D: out[b, t, h * D + d] = x[b, h, t, d] } }",
        lambda x: x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3]),
        [(floats(2, 3, 5, 4),), (floats(1, 31, 3, 1),), (floats(1, 2, 0, 3),)],
    ),
    "iterations apart for the sizes of the call": (
        "def f(x: tensor[N, K], s: int) { compute(x) { for n in 0..N, k in 0..K: out[n * s + k] = x[n, k] } }",
        lambda x, s: x.ravel(),
        [(floats(3, 2), 2), (floats(31, 33), 33), (floats(5, 1), 1)],
    ),
    "halves rotated": (
        """
def f(x: tensor[T, H, D], c: tensor[T, E], s: tensor[T, E]) {
    compute(x, c, s) {
        for t in 0..T, h in 0..H, e in 0..E:
            out[t, h, e] = x[t, h, e] * c[t, e] - x[t, h, e + E] * s[t, e]
            out[t, h, e + E] = x[t, h, e] * s[t, e] + x[t, h, e + E] * c[t, e]
    }
}""",
        rotated,
        [(floats(5, 3, 8), floats(5, 4), floats(5, 4)), (floats(31, 1, 66), floats(31, 33), floats(31, 33)), (floats(1, 3, 2), floats(1, 1), floats(1, 1))],
    ),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_as_numpy_computes_it(name: str, device: str) -> None:
    text, reference, calls = CASES[name]
    program = zynml.compile(text, device=device)
    for values in [*calls, *calls[:1]]:
        expected, value = reference(*values), program.f(*values)
        assert value.shape == expected.shape
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_of_many_numbers_the_first_have_kernels(device: str) -> None:
    """An index of an input is checked as it runs where it isn't known to be affine."""
    program = zynml.compile(
        "def f(x: tensor[L], s: int) { compute(x) -> tensor[3] { for i in 0..3: out[i] = x[i * s] } }", device=device
    )
    x = floats(40)
    for s in [*range(15), 3, 14]:
        assert list(program.f(x, s)) == list(x[[0, s, 2 * s]])
    for s in (20, 21):
        with pytest.raises(zynml.ZynMLError) as caught:
            program.f(x, s)
        assert caught.value.codes == ("ZYN0801",)


@pytest.mark.parametrize("device", DEVICES)
def test_a_stride_that_brings_iterations_together_is_a_race(device: str) -> None:
    program = zynml.compile(CASES["iterations apart for the sizes of the call"][0], device=device)
    with pytest.raises(zynml.ZynMLError, match="n = 0, k = 2 and n = 1, k = 0 both write out\\[2\\]") as caught:
        program.f(floats(3, 4), 2)
    assert caught.value.codes == ("ZYN0404",)


def test_numbers_are_those_of_each_call_in_a_chain_of_blocks() -> None:
    program = zynml.compile("""
def groups(x: tensor[N, C, L], w: tensor[G, O, I]): tensor {
    compute(x, w) {
        for n in 0..N, g in 0..G, o in 0..O, l in 0..L:
            var s = 0.0
            for i in 0..I: s += x[n, g * I + i, l] * w[g, o, i]
            out[n, g * O + o, l] = s
    }
}
def above(x: tensor[N, C, L]): tensor { compute(x) { for n in 0..N, c in 0..C, l in 0..L: out[n, c, l] = max(x[n, c, l], 0.0) } }
def part(x: tensor[N, C, L], B: int): tensor { compute(x, B) { for n in 0..N, c in 0..C, l in 0..L / B: out[n, c, l] = x[n, c, l * B] } }
def f(x: tensor[N, C, L], w: tensor[G, O, I], B: int): tensor { part(above(groups(above(x), w)), B) }
""")
    for g, o, i, l, b in [(2, 3, 2, 8, 2), (2, 3, 2, 8, 2), (3, 1, 2, 9, 3), (3, 1, 2, 9, 1), (1, 1, 1, 1, 1), (2, 3, 2, 12, 2), (2, 3, 2, 12, 3)]:
        x, w = floats(2, g * i, l), floats(g, o, i)
        inner = np.einsum("ngil,goi->ngol", np.maximum(x, 0).reshape(2, g, i, l).astype(float), w.astype(float)).reshape(2, g * o, l)
        np.testing.assert_allclose(program.f(x, w, b), np.maximum(inner, 0)[..., ::b], rtol=1e-5, atol=1e-5)


def test_a_check_knows_the_rank_and_the_dtype_but_no_extent() -> None:
    text = "def f(x: tensor[N, K, f64], s: int) {{ let y = compute(x) {{ for n in 0..N, k in 0..K: out[n * s + k] = x[n, k] }}\n {} }}"
    zynml.compile(text.format("compute(y) { for i in 0..M: out[i] = y[i] }"))
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(text.format("compute(y) { for i in 0..M: out[i] = y[i, i] }"))
    assert caught.value.codes == ("ZYN0304",)
