"""Results of which a later loop writes some elements again, at other places of its own iterations than the loop before: the later loop wins.
And elements that a later loop reads at other places than where they were written: what they are made of is read inside of memory only."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zynml

Array = np.ndarray[Any, Any]

PROGRAM = """
def turned(x: tensor[N, f64], k: tensor[N, i64]) {
    compute(x, k) {
        for i in 0..N: out[i] = x[i]
        for i in 0..N:
            if k[i] > 0: out[N - 1 - i] = 20.0 + x[i]
    }
}
def border(x: tensor[N, M, f64], v: tensor[M, f64]) {
    compute(x, v) {
        for i in 0..N, j in 0..M: out[i, j] = x[i, j]
        for j in 0..M: out[0, j] = v[j]
        for i in 0..N: out[i, M - 1] = 7.0
    }
}
def columns(x: tensor[N, M, f64], v: tensor[N, f64]) {
    compute(x, v) -> tensor[M, f64] {
        for i in 0..N, j in 0..M: out[j] += x[i, j]
        for j in 0..M:
            if j < N: out[j] = 2.0
        for i in 0..N:
            if i < M: out[i] += v[i]
    }
}
def below(x: tensor[N, N, f64]) {
    compute(x) {
        for i in 0..N, j in 0..N: out[i, j] = x[i, j]
        for i in 0..N:
            for j in 0..i: out[j, i] = 20.0 + x[i, j]
    }
}
def every_second(x: tensor[N, f64], y: tensor[H, f64]) {
    compute(x, y) -> tensor[N, f64] {
        for i in 0..N: out[i] = x[i]
        for i in 0..H: out[2 * i] = y[i]
    }
}
def after_a_total(x: tensor[N, f64], k: tensor[N, i64]) {
    compute(x, k) @kernel(fused) {
        var total = 0.0
        for i in 0..N: total += x[i]
        for i in 0..N: out[i] = x[i] * total
        for i in 0..N:
            if k[i] > 0: out[i] = 5.0
    }
}
def sides(x: tensor[N, f64], k: tensor[N, i64]) {
    compute(x, k) {
        for i in 0..N:
            if k[i] > 0 and x[i] > 0.0: out[i] = x[i]
            else: out[i] = -1.0
        for i in 1..N:
            if k[i - 1] > 2: out[i - 1] = 3.0
    }
}
"""


def turned(x: Array, k: Array) -> Array:
    out = x.copy()
    for i in np.flatnonzero(k > 0):
        out[len(x) - 1 - i] = 20 + x[i]
    return out


def border(x: Array, v: Array) -> Array:
    out = x.copy()
    out[0] = v
    out[:, -1] = 7
    return out


def columns(x: Array, v: Array) -> Array:
    n = min(x.shape)
    out = x.sum(axis=0)
    out[:n] = 2 + v[:n]
    return out


def below(x: Array) -> Array:
    return np.where(np.tri(len(x), k=-1, dtype=bool).T, 20 + x.T, x)


def every_second(x: Array, y: Array) -> Array:
    out = x.copy()
    out[::2] = y
    return out


def after_a_total(x: Array, k: Array) -> Array:
    return np.where(k > 0, 5, x * x.sum())


def sides(x: Array, k: Array) -> Array:
    out = np.where((k > 0) & (x > 0), x, -1)
    out[:-1][k[:-1] > 2] = 3
    return out


CASES: dict[str, tuple[Callable[..., Array], Callable[[int, int], tuple[tuple[int, ...], ...]]]] = {
    "turned": (turned, lambda n, m: ((n,), (n,))),
    "border": (border, lambda n, m: ((n, m), (m,))),
    "columns": (columns, lambda n, m: ((n, m), (n,))),
    "below": (below, lambda n, m: ((n, n),)),
    "every_second": (every_second, lambda n, m: ((n,), ((n + 1) // 2,))),
    "after_a_total": (after_a_total, lambda n, m: ((n,), (n,))),
    "sides": (sides, lambda n, m: ((n,), (n,))),
}

NEIGHBOURS = """
def neighbours(x: tensor[N, f64], k: tensor[N, i64]) {
    compute(x, k) -> (a: tensor[N, f64], b: tensor[N, f64]) {
        for i in 0..N:
            if k[i] > 0: a[i] = x[i] * x[i]
        for i in 0..N:
            b[i] = a[i]
            if i > 0: b[i] += a[i - 1]
            if i + 2 < N: b[i] -= a[i + 2]
    }
}
def backwards(x: tensor[N, M, f64]) {
    compute(x) -> (a: tensor[M, f64], b: tensor[M, f64]) {
        for i in N - 1..=0 step -1, j in 0..M - 1:
            if i >= 1: a[M - 1 - j] += x[i - 1, j + 1]
        for j in 0..N:
            if j < M: b[j] -= abs(2.0 if a[j] < x[j, j] else 0.5)
    }
}
"""


@pytest.mark.parametrize("device", ["cpu", "emulator:sm_90a"])
@pytest.mark.parametrize("name", CASES)
def test_what_is_written_again_is_what_the_later_loop_wrote(name: str, device: str) -> None:
    expected, shapes = CASES[name]
    function = getattr(zynml.compile(PROGRAM, device=device, threads=2), name)
    numbers = np.random.default_rng(5)
    for n, m in ((1, 1), (8, 33), (33, 3), (9, 1), (64, 65)):
        arguments = [numbers.integers(-3, 4, shape).astype(np.float64) for shape in shapes(n, m)]
        if name in ("turned", "after_a_total", "sides"):
            arguments[1] = arguments[1].astype(np.int64)
        np.testing.assert_array_equal(function(*arguments), expected(*arguments))


@pytest.mark.parametrize("device", ["cpu", "emulator:sm_90a"])
def test_elements_read_at_other_places_are_made_of_what_lies_inside(device: str) -> None:
    program = zynml.compile(NEIGHBOURS, device=device)
    numbers = np.random.default_rng(6)
    for n, m in ((1, 1), (2, 5), (9, 3), (33, 40)):
        x, k = numbers.integers(-3, 4, n).astype(np.float64), numbers.integers(-3, 4, n)
        a = np.where(k > 0, x * x, 0)
        b = a.copy()
        b[1:] += a[:-1]
        b[:-2] -= a[2:]
        for found, wanted in zip(program.neighbours(x, k), (a, b), strict=True):
            np.testing.assert_array_equal(found, wanted)
        y = numbers.integers(-3, 4, (n, m)).astype(np.float64)
        a, b = np.append(0.0, y[: n - 1, 1:].sum(axis=0)[::-1]), np.zeros(m)
        for j in range(min(n, m)):
            b[j] = -(2.0 if a[j] < y[j, j] else 0.5)
        for found, wanted in zip(program.backwards(y), (a, b), strict=True):
            np.testing.assert_array_equal(found, wanted)


GREY = """
def brighter(image: tensor[H, W, C, u8]): tensor[H, W, C, u8] {
    compute(image) { for y in 0..H, x in 0..W, c in 0..C: out[y, x, c] = if c == 3 { image[y, x, c] } else { image[y, x, c] / 2 + 20 } }
}
def grey(image: tensor[H, W, C, u8]): tensor[H, W, C, u8] {
    compute(image) {
        for y in 0..H, x in 0..W, c in 0..C:
            var value = image[y, x, c] as i32
            if C >= 3 and c < 3: value = (image[y, x, 0] as i32 + image[y, x, 1] as i32 + image[y, x, 2] as i32) / 3
            out[y, x, c] = value as u8
    }
}
def f(image: tensor[H, W, C, u8]): tensor { grey(brighter(image)) }
"""


@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_what_a_joined_block_reads_at_one_place_is_guarded_where_that_may_be_outside(channels: int, device: str) -> None:
    image = np.random.default_rng(channels).integers(0, 256, (5, 7, channels)).astype(np.uint8)
    wanted = image.astype(np.int64) // 2 + 20
    wanted[..., 3:] = image[..., 3:]
    if channels >= 3:
        wanted[..., :3] = wanted[..., :3].sum(-1, keepdims=True) // 3
    found = np.asarray(zynml.compile(GREY, device=device).f(image))
    np.testing.assert_array_equal(found, wanted)
