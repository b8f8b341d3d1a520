"""Reductions of rows that later reductions of the same rows read, and that sums across the rows read, too."""

import numpy as np

import zynml

# The sum of squares needs the row's mean, and the sums down the columns need both.
NORMS = """
def norms(x: tensor[N, D], g: tensor[D]) {
    compute(x, g) -> (dx: tensor[N, D], down: tensor[D]) @kernel(fused) {
        for n in 0..N:
            var m = 0.0
            for d in 0..D: m += x[n, d] / D
            var q = 0.0
            for d in 0..D: q += (x[n, d] - m) * (x[n, d] - m)
            var a = 0.0
            for d in 0..D: a += (x[n, d] - m) * q * g[d]
            for d in 0..D:
                let h = (x[n, d] - m) * q
                down[d] += h
                dx[n, d] = h - a
    }
}
"""


def test_a_kept_reduction_is_whole_before_another_reads_it() -> None:
    program = zynml.compile(NORMS)
    random = np.random.default_rng(5)
    for rows, columns in [(4, 8), (33, 31), (1, 1), (0, 3), (130, 67)]:
        x, g = random.standard_normal((rows, columns)).astype("f"), random.standard_normal(columns).astype("f")
        apart = x.astype(np.float64) - x.astype(np.float64).mean(1, keepdims=True)
        h = apart * (apart * apart).sum(1, keepdims=True)
        dx, down = program.norms(x, g)
        scale = float(np.abs(h).max(initial=1.0)) * columns
        np.testing.assert_allclose(dx, h - (h * g).sum(1, keepdims=True), atol=3e-6 * scale)  # roundings of f32, of each term
        np.testing.assert_allclose(down, h.sum(0), atol=3e-6 * scale * max(1, rows**0.5))
