"""Sums that iterations scatter over elements in which several of them meet, by affine indices, and several stores to one result that don't
meet. On GPUs scattered sums are gathered: no launch runs their loops one after the other."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import zynml

Array = np.ndarray[Any, Any]
DEVICES = ("cpu", "emulator:sm_90a")
_RANDOM = np.random.default_rng(21)


def floats(*shape: int) -> Array:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def transposed(x: Array, w: Array, stride: int, dilation: int = 1) -> Array:
    full = [(have - 1) * stride + dilation * (extent - 1) + 1 for have, extent in zip(x.shape[2:], w.shape[2:], strict=True)]
    out = np.zeros((x.shape[0], w.shape[1], *full))
    for at in product(*map(range, w.shape[2:])):
        reached = tuple(slice(dilation * t, dilation * t + stride * (n - 1) + 1, stride) for t, n in zip(at, x.shape[2:], strict=True))
        out[(..., *reached)] += np.einsum("nc...,co->no...", x.astype(float), w[(..., *at)].astype(float))
    return out


def added(x: Array, bias: Array) -> Array:
    out = np.repeat(bias.astype(float), x.shape[1] + x.shape[2] - 1).reshape(len(bias), -1)
    for i, j in product(range(x.shape[1]), range(x.shape[2])):
        out[:, i + j] += x[:, i, j]
    return out


def backwards(x: Array) -> Array:
    out = np.zeros(3 * x.shape[0] + x.shape[1] - 3)
    for i, j in product(range(x.shape[0]), range(x.shape[1])):
        out[3 * (x.shape[0] - 1 - i) + j] += x[i, j]
    return out


def largest(x: Array) -> Array:
    out = np.zeros(x.shape[0] + x.shape[1] - 1, np.float32)
    for i, j in product(range(x.shape[0]), range(x.shape[1])):
        out[i + j] = max(out[i + j], x[i, j])
    return out


CASES: dict[str, tuple[str, Callable[..., Array], list[tuple[Any, ...]]]] = {
    "stride 1": (
        """
def f(x: tensor[N, C, H, W], w: tensor[C, K, Q, R]) {
    compute(x, w) {
        for n in 0..N, c in 0..C, o in 0..K, y in 0..H, z in 0..W, q in 0..Q, r in 0..R:
            out[n, o, y + q, z + r] += x[n, c, y, z] * w[c, o, q, r]
    }
}""",
        lambda x, w: transposed(x, w, 1),
        [(floats(2, 3, 5, 4), floats(3, 4, 3, 2)), (floats(1, 1, 3, 1), floats(1, 1, 4, 2)), (floats(0, 1, 3, 1), floats(1, 1, 4, 2))],
    ),
    "sums of the first elements alone": (
        """
def f(x: tensor[N, K]) {
    compute(x) -> tensor[4] {
        for i in 0..N, k in 0..K:
            if i < 4 and k <= i: out[i] += x[i, k]
    }
}""",
        lambda x: np.tril(x.astype(np.float64))[:4].sum(axis=1),
        [(floats(4, 7),), (floats(33, 31),), (floats(5, 1),)],
    ),
    "stride 2, windows outermost": (
        """
def f(x: tensor[N, C, L], w: tensor[C, K, Q]) {
    compute(x, w) {
        for q in 0..Q, n in 0..N, o in 0..K, y in 0..L, c in 0..C: out[n, o, 2 * y + q] += x[n, c, y] * w[c, o, q]
    }
}""",
        lambda x, w: transposed(x, w, 2),
        [(floats(2, 3, 31), floats(3, 4, 3)), (floats(1, 2, 7), floats(2, 1, 33)), (floats(1, 1, 1), floats(1, 1, 1))],
    ),
    "dilation 2, stride 3": (
        """
def f(x: tensor[N, C, L], w: tensor[C, K, Q]) {
    compute(x, w) {
        for n in 0..N, o in 0..K, y in 0..L, q in 0..Q, c in 0..C: out[n, o, 3 * y + 2 * q] += x[n, c, y] * w[c, o, q]
    }
}""",
        lambda x, w: transposed(x, w, 3, 2),
        [(floats(2, 3, 13), floats(3, 4, 3)), (floats(1, 1, 1), floats(1, 1, 7))],
    ),
    "onto what was stored before": (
        """
def f(x: tensor[B, M, N], bias: tensor[B]) {
    compute(x, bias) {
        for b in 0..B, p in 0..M + N - 1: out[b, p] = bias[b]
        for b in 0..B, i in 0..M, j in 0..N: out[b, i + j] += x[b, i, j]
    }
}""",
        added,
        [(floats(2, 5, 3), floats(2)), (floats(3, 1, 1), floats(3)), (floats(1, 31, 33), floats(1))],
    ),
    "from the end, under a condition": (
        """
def f(x: tensor[M, N]) {
    compute(x) {
        for i in 0..M, j in 0..N:
            if x[i, j] > -100.0: out[3 * (M - 1 - i) + j] += x[i, j]
    }
}""",
        backwards,
        [(floats(5, 4),), (floats(1, 1),), (floats(7, 31),)],
    ),
    "the largest": (
        "def f(x: tensor[M, N]) { compute(x) { for i in 0..M, j in 0..N: out[i + j] = max(out[i + j], x[i, j]) } }",
        largest,
        [(floats(5, 4),), (floats(1, 3),), (floats(31, 33),)],
    ),
    "loops from 1 on": (
        "def f(x: tensor[M, N]) { compute(x) { for i in 1..M, j in 1..N: out[i + j] += x[i, j] } }",
        lambda x: np.concatenate([[0, 0], np.array([np.flipud(x[1:, 1:].astype(float)).trace(k) for k in range(2 - len(x), x.shape[1] - 1)])]),
        [(floats(5, 4),), (floats(2, 2),), (floats(31, 33),)],
    ),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_as_numpy_computes_it(name: str, device: str) -> None:
    text, reference, calls = CASES[name]
    program = zynml.compile(text, device=device)
    for values in calls:
        expected, value = reference(*values), program.f(*values)
        assert value.shape == expected.shape
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_on_a_gpu_each_element_is_gathered(name: str) -> None:
    (launched,) = launched_like(CASES[name][0], CASES[name][2][0])
    assert launched.threads.field is not None


def test_sums_in_written_order_stay_as_written() -> None:
    text, _, (values, *_) = CASES["stride 1"]
    (launched,) = launched_like(text, values, floats="strict")
    assert launched.threads.field is None
    on_gpu = zynml.compile(text, device="emulator:sm_90a", floats="strict").f(*values)
    assert np.array_equal(on_gpu, zynml.compile(text, floats="strict").f(*values))


def launched_like(text: str, values: tuple[Any, ...], **options: Any) -> list[Any]:
    names = ("x", "bias" if "bias" in text else "w")
    like = [f"{name}={'x'.join(map(str, value.shape))}" for name, value in zip(names, values, strict=False)]
    return zynml.compile(text, **options)._session.launches_like([", ".join(like)], "emulator:sm_90a")


def rotated(x: Array, c: Array, s: Array, first: Any, second: Any) -> Array:
    x, out = x.astype(float), np.zeros(x.shape)
    out[..., first] = x[..., first] * c - x[..., second] * s
    out[..., second] = x[..., first] * s + x[..., second] * c
    return out


HALVES = """
def f(x: tensor[T, D], c: tensor[T, E], s: tensor[T, E]) {
    compute(x, c, s) {
        for t in 0..T, e in 0..E:
            out[t, e] = x[t, e] * c[t, e] - x[t, e + E] * s[t, e]
            out[t, e + E] = x[t, e] * s[t, e] + x[t, e + E] * c[t, e]
    }
}"""
PAIRS = HALVES.replace("e + E]", "2 * e + 1]").replace("[t, e] = x[t, e]", "[t, 2 * e] = x[t, 2 * e]").replace("= x[t, e] ", "= x[t, 2 * e] ")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("half", [1, 3, 31, 33])
def test_stores_apart_are_one_field(half: int, device: str) -> None:
    x, c, s = floats(5, 2 * half), floats(5, half), floats(5, half)
    for text, first, second in ((HALVES, slice(None, half), slice(half, None)), (PAIRS, slice(None, None, 2), slice(1, None, 2))):
        program = zynml.compile(text, device=device, strict=True)
        np.testing.assert_allclose(program.f(x, c, s), rotated(x, c, s, first, second), rtol=1e-5, atol=1e-5)
        assert "the nest as written" not in program.schedule


def test_stores_that_leave_elements_out_are_told_of() -> None:
    text = "def f(x: tensor[N]) { compute(x) { for i in 0..N:\n    out[3 * i] = x[i]\n    out[3 * i + 2] = x[i]\n} }"
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(text, strict=True)
    assert caught.value.codes == ("ZYN0601",)


GATHERED = """
def f(x: tensor[N, C, L], w: tensor[C, K, Q], s: int, p: int, d: int) {
    compute(x, w) {
        for n in 0..N, o in 0..K, y in 0..(L - 1) * s - 2 * p + d * (Q - 1) + 1:
            var t = 0.0
            for c in 0..C, q in 0..Q:
                let v = y + p - q * d
                if v >= 0 && v % s == 0 && v / s < L: t += x[n, c, v / s] * w[c, o, q]
            out[n, o, y] = t
    }
}"""


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 0, 1), (2, 1, 1), (3, 1, 2), (3, 2, 1), (2, 1, 2), (7, 0, 3), (9, 0, 1)])
def test_every_few_taps_count(stride: int, padding: int, dilation: int, device: str) -> None:
    program = zynml.compile(GATHERED, device=device)
    for length, taps in [(31, 3), (1, 4), (5, 1), (3, 9)]:
        x, w = floats(2, 3, length), floats(3, 2, taps)
        full = transposed(x, w, stride, dilation)
        expected = full[..., padding : full.shape[-1] - padding]
        np.testing.assert_allclose(program.f(x, w, stride, padding, dilation), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("stride", "dilation", "digits"),
    [(2, 1, {"y_residue": 2}), (3, 2, {"y_residue": 3}), (2, 2, {"y_offset": 2}), (4, 6, {"y_residue": 2, "y_offset": 2}), (9, 1, {}), (1, 1, {})],
)
def test_taps_are_split_by_residues(stride: int, dilation: int, digits: dict[str, int]) -> None:
    text = f"x=2x3x31, w=3x2x3, s={stride}, p=0, d={dilation}"
    (launched,) = zynml.compile(GATHERED)._session.launches_like([text], "emulator:sm_90a")
    assert {axis: extent.value for axis, extent in launched.threads.field.axes.items() if axis.startswith("y_")} == digits


def test_a_loop_that_does_something_for_every_tap_is_kept() -> None:
    """The count takes all taps, the sum every second one."""
    text = """
def f(x: tensor[L], w: tensor[Q]) {
    compute(x, w) {
        for y in 0..L:
            var t = 0.0
            for q in 0..Q:
                t += 100.0
                if (y + q) % 2 == 0: t += w[q]
            out[y] = t + x[y]
    }
}"""
    x, w = floats(7), floats(5)
    expected = x + 500 + np.array([w[y % 2 :: 2].sum() for y in range(7)])
    for device in DEVICES:
        np.testing.assert_allclose(zynml.compile(text, device=device).f(x, w), expected, rtol=1e-5)
