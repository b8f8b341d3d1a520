"""What goes with an extreme, `if x > best: best = x; at = i; label = y[i]`: positions along several loops, and values of the place."""

import numpy as np
import pytest

import zynml

PAIR = """
def f(s: tensor[B, K], lp: tensor[B, K, V]) {
    compute(s, lp) -> (best: tensor[B], beam: tensor[B, i32], word: tensor[B, i64]) {
        for b in 0..B:
            var m = -inf
            var p = -1
            var q = 7
            for k in 0..K, v in 0..V:
                let z = s[b, k] + lp[b, k, v]
                if z > m:
                    m = z
                    p = k
                    q = v
            best[b] = m
            beam[b] = p as i32
            word[b] = q
    }
}
"""

LABEL = """
def f(x: tensor[N, K], y: tensor[K, f64], w: tensor[K, u8]) {
    compute(x, y, w) -> (d: tensor[N], l: tensor[N, f64], u: tensor[N, u8], g: tensor[N, bool]) {
        for i in 0..N:
            var best = inf
            var label = -1.5f64
            var kind = 9u8
            var odd = false
            for k in 0..K:
                let s = x[i, k] * x[i, k]
                if s < best:
                    best = s
                    label = y[k]
                    kind = w[k]
                    odd = k % 2 == 1
            d[i] = best
            l[i] = label
            u[i] = kind
            g[i] = odd
    }
}
"""
DEVICES = "cpu", "emulator:sm_75", "emulator:sm_90a"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(3, 2, 5), (1, 1, 1), (5, 8, 1000), (2, 3, 0), (2, 0, 3), (4, 33, 31)])
def test_positions_along_two_loops(device, shape):
    rng = np.random.default_rng(sum(shape))
    rows, beams, words = shape
    s, lp = np.round(rng.standard_normal((rows, beams))).astype("f4"), np.round(rng.standard_normal(shape), 1).astype("f4")
    if words > 6:
        lp[0, 0, 2], lp[-1], lp[-2] = np.nan, -np.inf, np.nan
    z = (s[..., None] + lp).reshape(rows, -1)
    z = np.where(np.isnan(z), -np.inf, z)
    want = [(z[b].max(), *divmod(z[b].argmax(), words)) if z.size and z[b].max() > -np.inf else (-np.inf, -1, 7) for b in range(rows)]
    for got, expected in zip(zynml.compile(PAIR, device=device).f(s, lp), zip(*want, strict=True), strict=True):
        assert np.array_equal(np.asarray(got), np.array(expected))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (3, 0), (40, 100), (3, 1001)])
def test_values_of_the_place(device, shape):
    rng = np.random.default_rng(sum(shape))
    columns = shape[1]
    x, y, w = rng.integers(-9, 9, shape).astype("f4"), rng.standard_normal(columns), rng.integers(0, 255, columns).astype("u1")
    if columns > 3:
        x[0], x[1, 0], y[1] = np.nan, np.nan, np.nan
    square = np.where(np.isnan(x), np.inf, x * x)
    places = [row.argmin() if columns and row.min() < np.inf else None for row in square]
    want = [(np.inf, -1.5, 9, False) if k is None else (square[i, k], y[k], w[k], k % 2 == 1) for i, k in enumerate(places)]
    for got, expected in zip(zynml.compile(LABEL, device=device).f(x, y, w), zip(*want, strict=True), strict=True):
        assert np.array_equal(np.asarray(got), np.array(expected), equal_nan=True)


def test_an_extreme_over_two_loops_is_no_thread_an_iteration():
    program = zynml.compile(PAIR)
    (kernel,) = program._session.launches_like(["s=128x8", "lp=128x8x50257"], "emulator:sm_90a")
    launches = kernel.threads.launches
    assert "the nest as written" not in launches.words[0]
